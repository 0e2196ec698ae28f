/* The tables of attn/input_rows.h. */
#include <attn/input_rows.h>
#include <attn/pages.h>

#include <float.h>
#include <stddef.h>

const char *const attn_layout_words[] = {"BHLE", "BLHE", "BLD", NULL};
const char *const attn_block_words[] = {"NHD", "HND", NULL};
const char *const attn_stage_words[] = {"raw", "scaled", "softcapped", "biased", "probs", NULL};
const char *const attn_position_words[] = {
    "none",         "alibi",  "t5",         "relative", "shaw",
    "disentangled", "rotary", "sinusoidal", "learned",  NULL};
#define WORD(name) #name,
const char *const attn_normalizer_words[] = {ATTN_NORMALIZERS(WORD) NULL};
const char *const attn_pair_words[] = {"interleaved", "halves", NULL};
const char *const attn_pairs_words[] = {"adjacent", "halves", NULL};
const char *const attn_past_words[] = {"encoded", "raw", NULL};
const char *const attn_divisor_words[] = {"keys", NULL};
const char *const attn_scaling_words[] = {"none",   "linear",   "dynamic", "yarn",
                                          "llama3", "longrope", NULL};
const char *const attn_pattern_words[] = {"local",        "strided", "block", "global",
                                          "block_causal", "full",    NULL};
const char *const attn_layer_words[] = {
    "causal", "window",    "values", "bias",  "padding", "lengths", "pattern", "tokens", "bits",
    "prefix", "documents", "tree",   "top_k", "any_of",  "all_of",  "not",     NULL};
const char *const attn_semantics_words[] = {"unstated",   "keep",    "hide", "additive",
                                            "finite_min", "nonzero", NULL};
const char *const attn_fill_words[] = {"hide", "add", "replace", NULL};

#define HAS_WORDS(list, last) (sizeof list / sizeof *list == (last) + 2)
_Static_assert(HAS_WORDS(attn_layout_words, ATTN_BLD) && HAS_WORDS(attn_block_words, ATTN_HND) &&
                   HAS_WORDS(attn_stage_words, ATTN_STAGE_PROBS) &&
                   HAS_WORDS(attn_position_words, ATTN_POSITION_LEARNED) &&
                   HAS_WORDS(attn_pair_words, ATTN_ROTARY_HALVES - 1) &&
                   HAS_WORDS(attn_past_words, ATTN_PAST_RAW) &&
                   HAS_WORDS(attn_scaling_words, ATTN_SCALING_LONGROPE) &&
                   HAS_WORDS(attn_pattern_words, ATTN_PATTERN_FULL) &&
                   HAS_WORDS(attn_layer_words, ATTN_LAYER_NOT) &&
                   HAS_WORDS(attn_semantics_words, ATTN_SEM_NONZERO) &&
                   HAS_WORDS(attn_fill_words, ATTN_FILL_REPLACE),
               "each has its word");
_Static_assert(sizeof(attn_layout) == sizeof(int) && sizeof(attn_block_layout) == sizeof(int) &&
                   sizeof(attn_precision) == sizeof(int) &&
                   sizeof(attn_score_kind) == sizeof(int) &&
                   sizeof(attn_position_kind) == sizeof(int) &&
                   sizeof(attn_rotary) == sizeof(int) && sizeof(attn_past) == sizeof(int) &&
                   sizeof(attn_scaling_kind) == sizeof(int) &&
                   sizeof(attn_normalizer_kind) == sizeof(int),
               "the rows have these types");

#define LARGEST              1.7e308
#define AT(member)           offsetof(attn_inputs, member)
#define IS_NARROW(T, member) (sizeof(((T *)0)->member) == 4)
#define TENSOR_ROW(of, text, member, part, bits)                                                   \
    { of, text, ATTN_INPUT_TENSOR, AT(member), offsetof(attn_gradients, part), 0, 0, NULL, bits }
#define SITE_TENSOR(member) TENSOR_ROW("", #member, member, member, 0)
#define SITE_INTEGERS(member)                                                                      \
    { "", #member, ATTN_INPUT_INTEGERS, AT(member), 0, 0, 0, NULL, 0 }
#define SITE_VALUE(is, member, from, to, list)                                                     \
    {                                                                                              \
        "", #member, ATTN_INPUT_##is, AT(member), 0, from, to, list, 0,                            \
            IS_NARROW(attn_inputs, member)                                                         \
    }
#define KIND(of, list)                                                                             \
    { #of, "kind", ATTN_INPUT_WORD, AT(of.kind), 0, 0, 0, list, 0 }
#define SCORE_TENSOR(member, bits, sentence)                                                       \
    TENSOR_ROW("score", #member, score.member, score.member, bits),
#define POSITION_TENSOR(member, bits, sentence)                                                    \
    TENSOR_ROW("position", #member, position.member, member, bits),
#define POSITION_VALUE(is, member, name, key, from, to, list, bits, sentence)                      \
    {"position",                                                                                   \
     key,                                                                                          \
     ATTN_INPUT_##is,                                                                              \
     AT(position.member),                                                                          \
     0,                                                                                            \
     from,                                                                                         \
     to,                                                                                           \
     list,                                                                                         \
     bits,                                                                                         \
     IS_NARROW(attn_inputs, position.member)},
#define NORMALIZER_TENSOR(member, bits, sentence)                                                  \
    TENSOR_ROW("normalizer", #member, normalizer.member, normalizer_##member, bits),
#define NORMALIZER_VALUE(is, member, name, key, from, to, list, bits, sentence)                    \
    {"normalizer",                                                                                 \
     key,                                                                                          \
     ATTN_INPUT_##is,                                                                              \
     AT(normalizer.member),                                                                        \
     0,                                                                                            \
     from,                                                                                         \
     to,                                                                                           \
     list,                                                                                         \
     bits,                                                                                         \
     IS_NARROW(attn_inputs, normalizer.member)},
#define MIX_TENSOR(member, sentence) TENSOR_ROW("mix", #member, mix.member, mix_##member, 0),
#define SUBTRACT_TENSOR(member, sentence)                                                          \
    TENSOR_ROW("subtract", #member, subtract.member, subtract_##member, 0),
#define SUBTRACT_VALUE(is, member, name, key, from, to, list, sentence)                            \
    {"subtract",                                                                                   \
     key,                                                                                          \
     ATTN_INPUT_##is,                                                                              \
     AT(subtract.member),                                                                          \
     0,                                                                                            \
     from,                                                                                         \
     to,                                                                                           \
     list,                                                                                         \
     0,                                                                                            \
     IS_NARROW(attn_inputs, subtract.member)},
#define SCALING_TENSOR(member, bits, sentence)                                                     \
    {"position/scaling",                                                                           \
     #member,                                                                                      \
     ATTN_INPUT_CONSTANTS,                                                                         \
     AT(position.scaling.member),                                                                  \
     0,                                                                                            \
     0,                                                                                            \
     0,                                                                                            \
     NULL,                                                                                         \
     bits},
#define SCALING_VALUE(is, member, name, key, from, to, list, bits, sentence)                       \
    {"position/scaling",                                                                           \
     key,                                                                                          \
     ATTN_INPUT_##is,                                                                              \
     AT(position.scaling.member),                                                                  \
     0,                                                                                            \
     from,                                                                                         \
     to,                                                                                           \
     list,                                                                                         \
     bits,                                                                                         \
     IS_NARROW(attn_inputs, position.scaling.member)},
#define SECOND_TENSOR(member, bits, sentence)                                                      \
    TENSOR_ROW("score_position", #member, score_position.member, score_position.member, bits),
#define SECOND_VALUE(is, member, name, key, from, to, list, bits, sentence)                        \
    {"score_position",                                                                             \
     key,                                                                                          \
     ATTN_INPUT_##is,                                                                              \
     AT(score_position.member),                                                                    \
     0,                                                                                            \
     from,                                                                                         \
     to,                                                                                           \
     list,                                                                                         \
     bits,                                                                                         \
     IS_NARROW(attn_inputs, score_position.member)},
#define AXES_ROW(is, member)                                                                       \
    {"position/axes",          #member, ATTN_INPUT_##is, AT(position.axes.member), 0, 0, 0, NULL,  \
     ATTN_POSITION_BIT(ROTARY)},
#define AXES_INTEGERS(member) AXES_ROW(INTEGERS, member)
#define AXES_NUMBERS(member)  AXES_ROW(CONSTANTS, member)
#define PATTERN_VALUE(is, member, name, key, from, to, list, bits, sentence)                       \
    {"pattern",                                                                                    \
     key,                                                                                          \
     ATTN_INPUT_##is,                                                                              \
     offsetof(attn_pattern, member),                                                               \
     0,                                                                                            \
     from,                                                                                         \
     to,                                                                                           \
     list,                                                                                         \
     bits,                                                                                         \
     IS_NARROW(attn_pattern, member)},
#define NONE(...)

/* Rows leave out trailing members that are zero, which GCC would warn about without this line. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
const attn_input attn_input_rows[] = {
    SITE_TENSOR(query),
    SITE_TENSOR(key),
    SITE_TENSOR(value),
    SITE_TENSOR(past_key),
    SITE_TENSOR(past_value),
    SITE_TENSOR(sinks),
    TENSOR_ROW("", "scale", scales, scales, 0),
    SITE_INTEGERS(query_positions),
    SITE_INTEGERS(key_positions),
    SITE_VALUE(WORD, layout, 0, 0, attn_layout_words),
    SITE_VALUE(SIZE, num_heads, 1, ATTN_INPUT_HEADS, NULL),
    SITE_VALUE(SIZE, num_kv_heads, 1, ATTN_INPUT_HEADS, NULL),
    SITE_VALUE(REAL, scale, -LARGEST, LARGEST, NULL),
    SITE_VALUE(REAL, softcap, 0, LARGEST, NULL),
    SITE_VALUE(BELOW, dropout_p, 0, 1, NULL),
    SITE_VALUE(SEED, dropout_seed, 0, 0, NULL),
    SITE_VALUE(FLAG, allow_nonfinite, 0, 0, NULL),
    SITE_VALUE(WORD, precision, 0, 0, attn_precision_words),
    KIND(score, attn_score_words),
    ATTN_SCORE_INPUTS(SCORE_TENSOR) KIND(position, attn_position_words),
    /* rows of values before rows of tensors */
    ATTN_POSITION_INPUTS(NONE, POSITION_VALUE) ATTN_POSITION_INPUTS(POSITION_TENSOR, NONE){
        "position/scaling", "kind", ATTN_INPUT_WORD, AT(position.scaling.kind), 0, 0, 0,
        attn_scaling_words, 0},
    ATTN_SCALING_INPUTS(SCALING_TENSOR, SCALING_VALUE) ATTN_AXES_INPUTS(AXES_INTEGERS, AXES_NUMBERS)
        KIND(score_position, attn_position_words),
    ATTN_POSITION_INPUTS(NONE, SECOND_VALUE) ATTN_POSITION_INPUTS(SECOND_TENSOR, NONE)
        KIND(normalizer, attn_normalizer_words),
    ATTN_NORMALIZER_INPUTS(NORMALIZER_TENSOR, NORMALIZER_VALUE) ATTN_MIX_INPUTS(MIX_TENSOR)
        ATTN_SUBTRACT_INPUTS(SUBTRACT_TENSOR, SUBTRACT_VALUE){.name = NULL},
};

const attn_input attn_pattern_rows[] = {
    ATTN_PATTERN_INPUTS(PATTERN_VALUE){.name = NULL},
};
