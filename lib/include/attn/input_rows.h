/* The inputs of an operation by name: the words of its enumerations and the rows of its members.
 * Requests, run files and lists of gradients read and write attn_inputs by these rows. */
#ifndef ATTN_INPUT_ROWS_H
#define ATTN_INPUT_ROWS_H

#include <stdint.h>

#include "attention.h"
#include "gradients.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* --- words, in the order of the enumeration; each list ends with NULL ---
 *
 * The words of scores and precisions are in forms.h and isa.h. */

extern const char *const attn_layout_words[];     /* "BHLE", … */
extern const char *const attn_block_words[];      /* "NHD", "HND" */
extern const char *const attn_stage_words[];      /* "raw", … */
extern const char *const attn_position_words[];   /* "none", "alibi", … */
extern const char *const attn_normalizer_words[]; /* "softmax", "sigmoid", … */
/* in the order of the enumeration, from ATTN_ROTARY_INTERLEAVED on */
extern const char *const attn_pair_words[];
/* in the order of the enumeration, from ATTN_PAIRS_ADJACENT on */
extern const char *const attn_pairs_words[];
extern const char *const attn_past_words[];      /* "encoded", "raw" */
extern const char *const attn_divisor_words[];   /* "keys", which is attn_normalizer.divisor 0 */
extern const char *const attn_scaling_words[];   /* "none", "linear", … */
extern const char *const attn_pattern_words[];   /* "local", … */
extern const char *const attn_layer_words[];     /* "causal", … */
extern const char *const attn_semantics_words[]; /* "unstated", "keep", … */
extern const char *const attn_fill_words[];      /* "hide", "add", "replace" */

/* --- members that belong to some kinds only, in the order of the reference of requests ---
 *
 *   TENSOR(member, kinds, sentence)
 *   VALUE(type, member, name, key, least, most, words, kinds, sentence)
 *
 * `kinds` has bit k if the member belongs to kind k of its object. `name` and `key` are the names
 * of the member in requests and in run files; for a TENSOR both equal `member`. */

#define ATTN_INPUT_HEADS    1048576         /* largest number of heads */
#define ATTN_INPUT_FARTHEST 1099511627776.0 /* largest distance of positions, 2^40 */

#define ATTN_SCORE_BIT(name)      (1u << ATTN_SCORE_##name)
#define ATTN_POSITION_BIT(name)   (1u << ATTN_POSITION_##name)
#define ATTN_PATTERN_BIT(name)    (1u << ATTN_PATTERN_##name)
#define ATTN_NORMALIZER_BIT(name) (1u << ATTN_NORMALIZER_##name)

#define ATTN_SCORE_INPUTS(TENSOR)                                                                  \
    TENSOR(w_q, ATTN_SCORE_BIT(additive), "additive: W_q [A, Eq].")                                \
    TENSOR(w_k, ATTN_SCORE_BIT(additive), "additive: W_k [A, Ek].")                                \
    TENSOR(b, ATTN_SCORE_BIT(additive), "additive: b [A], optional.")                              \
    TENSOR(v, ATTN_SCORE_BIT(additive) | ATTN_SCORE_BIT(concat),                                   \
           "additive and concat: v [A] or [1, A].")                                                \
    TENSOR(w, ATTN_SCORE_BIT(general) | ATTN_SCORE_BIT(concat),                                    \
           "general: W [Ek, Eq]; concat: W [A, Ek + Eq].")

#define ATTN_POSITION_INPUTS(TENSOR, VALUE)                                                        \
    TENSOR(slopes, ATTN_POSITION_BIT(ALIBI),                                                       \
           "alibi: [H], one slope for each head. The default is the slopes of the paper.")         \
    TENSOR(table,                                                                                  \
           ATTN_POSITION_BIT(T5) | ATTN_POSITION_BIT(RELATIVE) | ATTN_POSITION_BIT(LEARNED),       \
           "t5: [buckets, H]; relative: [H, 2m + 1], for distances -m to m; larger distances are " \
           "clipped; learned: [positions, D], D the last axis of query.")                          \
    VALUE(SIZE, max_distance, "max_distance", "max_distance", 2, 1048576, NULL,                    \
          ATTN_POSITION_BIT(T5) | ATTN_POSITION_BIT(DISENTANGLED),                                 \
          "t5: all distances from this one on share the last bucket; default 128. disentangled: "  \
          "the rows are logarithmic buckets as in DeBERTa-v2 and v3, and this is "                 \
          "max_relative_positions; without it each distance has its row.")                         \
    VALUE(NOT, unidirectional, "bidirectional", "bidirectional", 0, 0, NULL,                       \
          ATTN_POSITION_BIT(T5),                                                                   \
          "t5: true (default) gives half of the buckets to keys after the query; false gives all " \
          "buckets to keys before it.")                                                            \
    TENSOR(key_table, ATTN_POSITION_BIT(SHAW) | ATTN_POSITION_BIT(DISENTANGLED),                   \
           "shaw: [2m + 1, E] or [H, 2m + 1, E]; the row of the distance is added to the key. "    \
           "disentangled: [2m, E] or [H, 2m, E], pos_key of DeBERTa (c2p); row m + i - j times "   \
           "the query.")                                                                           \
    TENSOR(value_table, ATTN_POSITION_BIT(SHAW),                                                   \
           "shaw: [2m + 1, Ev] or [H, 2m + 1, Ev], optional; the row of the distance is added to " \
           "the value.")                                                                           \
    TENSOR(query_table, ATTN_POSITION_BIT(DISENTANGLED),                                           \
           "disentangled: [2m, E] or [H, 2m, E], pos_query of DeBERTa (p2c); row m + i - j times " \
           "the key. One of key_table and query_table may be left out. The default scale is "      \
           "1/sqrt(E (1 + number of tables)).")                                                    \
    VALUE(WORD, rotary, "layout", "layout", ATTN_ROTARY_INTERLEAVED, 0, attn_pair_words,           \
          ATTN_POSITION_BIT(ROTARY) | ATTN_POSITION_BIT(SINUSOIDAL),                               \
          "rotary, required, and sinusoidal, default interleaved: which coordinates form a pair, " \
          "interleaved (0 and 1, 2 and 3, ..) or halves (0 and dims/2, ..).")                      \
    VALUE(ABOVE, base, "base", "base", 1, DBL_MAX, NULL, ATTN_POSITION_BIT(ROTARY),                \
          "rotary: pair t is rotated by position * base^(-2t/dims); default 10000.")               \
    VALUE(                                                                                         \
        SIZE, dims, "dims", "dims", 2, ATTN_INPUT_FARTHEST, NULL, ATTN_POSITION_BIT(ROTARY),       \
        "rotary: number of coordinates that are rotated, an even number; default all from start "  \
        "on, or twice the number of frequencies.")                                                 \
    VALUE(SIZE, start, "start", "start", 0, ATTN_INPUT_FARTHEST, NULL, ATTN_POSITION_BIT(ROTARY),  \
          "rotary: the first rotated coordinate; default 0.")                                      \
    TENSOR(frequencies, ATTN_POSITION_BIT(ROTARY),                                                 \
           "rotary: [dims/2], radians per position of each pair, instead of base^(-2t/dims). A "   \
           "pair with 0 is not rotated. Angles are float32 products, or float64 if they are.")     \
    VALUE(ABOVE, factor, "factor", "factor", 0, 1e6, NULL, ATTN_POSITION_BIT(ROTARY),              \
          "rotary: multiplies cosines and sines, and so the rotated coordinates; default 1.")      \
    VALUE(                                                                                         \
        WORD, past, "past", "past", 0, 0, attn_past_words, ATTN_POSITION_BIT(ROTARY),              \
        "rotary: what past_key holds: encoded (default), keys that are rotated already, or raw.")  \
    VALUE(BELOW, dropout_p, "dropout_p", "dropout_p", 0, 1, NULL,                                  \
          ATTN_POSITION_BIT(SINUSOIDAL) | ATTN_POSITION_BIT(LEARNED),                              \
          "sinusoidal and learned: elements of the encoded inputs are dropped with this "          \
          "probability, and the others are divided by 1 - p. Needs seed; not with grad_output.")   \
    VALUE(SEED, dropout_seed, "seed", "dropout_seed", 0, 0, NULL,                                  \
          ATTN_POSITION_BIT(SINUSOIDAL) | ATTN_POSITION_BIT(LEARNED),                              \
          "Seed that selects the elements that dropout_p drops.")

#define ATTN_NORMALIZER_INPUTS(TENSOR, VALUE)                                                      \
    TENSOR(bias, ATTN_NORMALIZER_BIT(sigmoid),                                                     \
           "sigmoid: [H], or a number or [1] for all heads, added to the scores; default 0. The "  \
           "paper begins with -log(S).")                                                           \
    VALUE(ABOVE, divisor, "divisor", "divisor", 0, DBL_MAX, attn_divisor_words,                    \
          ATTN_NORMALIZER_BIT(relu) | ATTN_NORMALIZER_BIT(relu_squared),                           \
          "relu and relu_squared: a number above 0 by which the weights are divided, or keys "     \
          "(default): the number of keys that the query sees.")                                    \
    VALUE(REAL, alpha, "alpha", "alpha", 1.000001, 2, NULL, ATTN_NORMALIZER_BIT(entmax),           \
          "entmax: default 1.5. Towards 1 the weights near those of softmax; 2 is sparsemax.")

#define ATTN_MIX_INPUTS(TENSOR)                                                                    \
    TENSOR(logits,                                                                                 \
           "[Hq, Hq]: the raw score of head g is the sum over h of logits[g][h] times that of "    \
           "head h, as torch.nn.Linear.weight has its axes (the paper's P_l is its transpose). "   \
           "Scale, softcap, biases and masks follow.")                                             \
    TENSOR(                                                                                        \
        weights,                                                                                   \
        "[G, Hq]: the weight of output head g is the sum over h of weights[g][h] times that of "   \
        "head h (the paper's P_w is its transpose). Output and weights have G heads, scores "      \
        "and logsumexp Hq. The number of value heads divides G.")

#define ATTN_SUBTRACT_INPUTS(TENSOR, VALUE)                                                        \
    TENSOR(lambda, "A number, or [Hq/2], one for each pair of heads.")                             \
    VALUE(WORD, pairs, "pairs", "pairs", ATTN_PAIRS_ADJACENT, 0, attn_pairs_words,                 \
          "Which heads are a pair: adjacent (heads 2g and 2g + 1, as in the code of the paper) "   \
          "or halves (heads g and g + Hq/2, as in DiffLlama of transformers).")

/* The members of attn_rotary_scaling. */
#define ATTN_SCALING_BIT(name) (1u << ATTN_SCALING_##name)
#define ATTN_SCALING_LONGER                                                                        \
    (ATTN_SCALING_BIT(DYNAMIC) | ATTN_SCALING_BIT(YARN) | ATTN_SCALING_BIT(LLAMA3) |               \
     ATTN_SCALING_BIT(LONGROPE))
#define ATTN_SCALING_INPUTS(TENSOR, VALUE)                                                         \
    VALUE(REAL, factor, "factor", "factor", 1, 1e9, NULL,                                          \
          ATTN_SCALING_LONGER | ATTN_SCALING_BIT(LINEAR),                                          \
          "How many times longer texts become; longrope: for attention_factor alone; default 1.")  \
    VALUE(SIZE, original_max_position_embeddings, "original_max_position_embeddings",              \
          "original_max_position_embeddings", 2, ATTN_INPUT_FARTHEST, NULL, ATTN_SCALING_LONGER,   \
          "All but linear, required: length of the texts of the training. For dynamic it is the "  \
          "max_position_embeddings of a config.json.")                                             \
    VALUE(ABOVE, beta_fast, "beta_fast", "beta_fast", 0, 1e9, NULL, ATTN_SCALING_BIT(YARN),        \
          "yarn: pairs that turn more often within that length keep their frequency; default 32.") \
    VALUE(ABOVE, beta_slow, "beta_slow", "beta_slow", 0, 1e9, NULL, ATTN_SCALING_BIT(YARN),        \
          "yarn: frequencies of pairs that turn less often are divided by factor; default 1.")     \
    VALUE(ABOVE, mscale, "mscale", "mscale", 0, 1e6, NULL, ATTN_SCALING_BIT(YARN),                 \
          "yarn, with mscale_all_dim: attention_factor is (0.1 mscale ln(factor) + 1) / (0.1 "     \
          "mscale_all_dim ln(factor) + 1).")                                                       \
    VALUE(ABOVE, mscale_all_dim, "mscale_all_dim", "mscale_all_dim", 0, 1e6, NULL,                 \
          ATTN_SCALING_BIT(YARN), "yarn, with mscale: see there.")                                 \
    VALUE(NOT, rounded_off, "truncate", "truncate", 0, 0, NULL, ATTN_SCALING_BIT(YARN),            \
          "yarn: true (default) rounds the pairs of beta_fast and beta_slow down and up.")         \
    VALUE(ABOVE, low_freq_factor, "low_freq_factor", "low_freq_factor", 0, 1e9, NULL,              \
          ATTN_SCALING_BIT(LLAMA3),                                                                \
          "llama3: pairs that turn less often within the original length are divided by factor; "  \
          "default 1.")                                                                            \
    VALUE(ABOVE, high_freq_factor, "high_freq_factor", "high_freq_factor", 0, 1e9, NULL,           \
          ATTN_SCALING_BIT(LLAMA3),                                                                \
          "llama3: pairs that turn more often keep their frequency; above low_freq_factor; "       \
          "default 4.")                                                                            \
    TENSOR(short_factor, ATTN_SCALING_BIT(LONGROPE),                                               \
           "longrope, required: [dims/2]; divides the frequencies if all keys lie within the "     \
           "original length.")                                                                     \
    TENSOR(long_factor, ATTN_SCALING_BIT(LONGROPE),                                                \
           "longrope, required: [dims/2]; divides the frequencies otherwise.")                     \
    VALUE(ABOVE, attention_factor, "attention_factor", "attention_factor", 0, 1e6, NULL,           \
          ATTN_SCALING_BIT(YARN) | ATTN_SCALING_BIT(LONGROPE),                                     \
          "yarn and longrope: multiplies cosines and sines; default 0.1 ln(factor) + 1 for yarn, " \
          "sqrt(1 + ln(factor) / ln(original length)) for longrope.")

/* The members of attn_rotary_axes in run files: INTEGERS(member) and NUMBERS(member). In requests an
 * axis is an object. */
#define ATTN_AXES_INPUTS(INTEGERS, NUMBERS)                                                        \
    INTEGERS(pairs) NUMBERS(query_positions) NUMBERS(key_positions) NUMBERS(bases)

#define ATTN_PATTERN_INPUTS(VALUE)                                                                 \
    VALUE(SIZE, radius, "radius", "radius", 0, ATTN_INPUT_FARTHEST, NULL, ATTN_PATTERN_BIT(LOCAL), \
          "local, required: number of keys on either side.")                                       \
    VALUE(SIZE, stride, "stride", "stride", 1, ATTN_INPUT_FARTHEST, NULL,                          \
          ATTN_PATTERN_BIT(STRIDED), "strided, required: the distance between keys.")              \
    VALUE(SIZE, size, "size", "size", 1, ATTN_INPUT_FARTHEST, NULL,                                \
          ATTN_PATTERN_BIT(BLOCK) | ATTN_PATTERN_BIT(BLOCK_CAUSAL),                                \
          "block and block_causal, required: number of positions in a block.")                     \
    VALUE(SIZE, num_keys, "num_keys", "num_keys", 0, ATTN_INPUT_FARTHEST, NULL,                    \
          ATTN_PATTERN_BIT(GLOBAL),                                                                \
          "global, required: number of leading positions that are global.")                        \
    VALUE(SIZE, local, "local", "local", 0, ATTN_INPUT_FARTHEST, NULL,                             \
          ATTN_PATTERN_BIT(STRIDED) | ATTN_PATTERN_BIT(GLOBAL),                                    \
          "strided and global, required: number of keys on either side.")

/* Returns how heads are mixed, in words; NULL: they are not. */
const char *attn_mix_words(const attn_attention_dims *dims);

/* --- rows --- */

/* The type of a member in C and in JSON. */
typedef enum attn_input_type {
    ATTN_INPUT_TENSOR,    /* attn_tensor, which has a gradient */
    ATTN_INPUT_INTEGERS,  /* attn_tensor of integers, which has none */
    ATTN_INPUT_CONSTANTS, /* attn_tensor of real numbers without a gradient */
    ATTN_INPUT_REAL,      /* double: a number or, with `words`, a word: `least` plus its index */
    /* double above `least`, or below `most`: the pass refuses the bound itself */
    ATTN_INPUT_ABOVE = ATTN_INPUT_REAL,
    ATTN_INPUT_BELOW = ATTN_INPUT_REAL,
    ATTN_INPUT_SIZE, /* int64_t, or size_t below 2^63: an integer */
    ATTN_INPUT_FLAG, /* bool */
    ATTN_INPUT_NOT,  /* bool of the opposite meaning */
    /* int or an enumeration of its size: a word; `least` is the number of the first word */
    ATTN_INPUT_WORD,
    ATTN_INPUT_SEED, /* uint64_t: decimal digits in a string, because JSON numbers have 53 bits */
    ATTN_INPUT_TEXT, /* const char *: a string; if `least` is 1, it is not empty */
} attn_input_type;

/* A row: a member of attn_inputs, or of another struct that the comment of a table names. A table
 * ends with a row whose name is NULL. */
typedef struct attn_input {
    const char *object, *name; /* names in run files; object "": the site itself */
    attn_input_type type;
    size_t offset;   /* offset of the member in the struct */
    size_t gradient; /* TENSOR: offset of its gradient in attn_gradients */
    double least, most;
    const char *const *words;
    unsigned kinds; /* bit k: the member belongs to kind k; 0: to every kind */
    bool narrow;    /* SIZE: the member is a size_t of 32 bits */
} attn_input;

/* The members of attn_inputs except the masks, in the order of run files. The first
 * ATTN_INPUT_SEQUENCES are the tensors with a row for each query or key. */
extern const attn_input attn_input_rows[];
enum { ATTN_INPUT_SEQUENCES = 5 };
extern const attn_input attn_pattern_rows[]; /* the members of attn_pattern */

/* Returns whether the member is an attn_tensor. */
static inline bool attn_input_is_tensor(const attn_input *row) {
    return row->type <= ATTN_INPUT_CONSTANTS;
}
/* Returns the tensor at an offset of a row in attn_inputs or attn_gradients. */
static inline attn_tensor *attn_tensor_at(const void *start, size_t offset) {
    return (attn_tensor *)((uintptr_t)start + offset);
}

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
