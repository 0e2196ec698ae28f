/* The forms of attention in a request: score, position, normalizer, pattern and projections. Their
 * field tables decode into structs of the library. This file makes the checks that a field table
 * cannot: it refuses fields that belong to another kind, and parameters that are not finite. The
 * library checks shapes. */
#include "api/common/form_input.h"

#include <attn/input_rows.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(attn_pattern_kind) == sizeof(int), "SRV_ENUM stores an int");

/* These macros make rows of field tables from the rows of attn/input_rows.h. AS_<type> is the kind
 * of field for the type <type> of attn/input_rows.h. */
#define AS_SIZE  SRV_INT
#define AS_SEED  SRV_INT
#define AS_REAL  SRV_REAL
#define AS_ABOVE SRV_REAL, .above = true
#define AS_BELOW SRV_REAL, .below = true
#define AS_WORD  SRV_ENUM
#define AS_NOT   SRV_BOOL, .accepts = SRV_B_NOT
#define VALUE_ROW(T, is, member, text, least, most, words, sentence)                               \
    SRV_NAMED_ROW(T, text, member, AS_##is, sentence, .choices = words, .first = (int)(least),     \
                  .min = least, .max = most),
#define SCORE_TENSOR(member, kinds, text) SRV_TENSOR_ROW(attn_score, member, SRV_T_REAL, text),
#define POSITION_TENSOR(member, kinds, text)                                                       \
    SRV_NAMED_ROW(srv_position_item, #member, position.member, SRV_TENSOR, text,                   \
                  .accepts = SRV_T_REAL),
#define POSITION_VALUE(is, member, name, key, least, most, words, kinds, text)                     \
    VALUE_ROW(srv_position_item, is, position.member, name, least, most, words, text)
#define NORMALIZER_TENSOR(member, kinds, text)                                                     \
    SRV_TENSOR_ROW(attn_normalizer, member, SRV_T_REAL | SRV_T_NUMBER, text),
#define NORMALIZER_VALUE(is, member, name, key, least, most, words, kinds, text)                   \
    VALUE_ROW(attn_normalizer, is, member, name, least, most, words, text)
#define MIX_TENSOR(member, text)                                                                   \
    SRV_NAMED_ROW(attn_mix, #member, member, SRV_TENSOR, text, .accepts = SRV_T_REAL),
#define SUBTRACT_TENSOR(member, text)                                                              \
    SRV_NAMED_ROW(attn_subtract, #member, member, SRV_TENSOR, text,                                \
                  .accepts = SRV_T_REAL | SRV_T_NUMBER, .required = true),
#define SUBTRACT_VALUE(is, member, name, key, least, most, words, text)                            \
    SRV_NAMED_ROW(attn_subtract, name, member, AS_##is, text, .choices = words,                    \
                  .first = (int)(least), .required = true),
#define SCALING_TENSOR(member, kinds, text)                                                        \
    SRV_TENSOR_ROW(attn_rotary_scaling, member, SRV_T_REAL, text),
#define SCALING_VALUE(is, member, name, key, least, most, words, kinds, text)                      \
    VALUE_ROW(attn_rotary_scaling, is, member, name, least, most, words, text)
#define PATTERN_VALUE(is, member, name, key, least, most, words, kinds, text)                      \
    VALUE_ROW(attn_pattern, is, member, name, least, most, words, text)

const srv_field srv_score_fields[] = {
    SRV_KIND_ROW(attn_score, attn_score_words,
                 "scaled_dot (q . k / sqrt(E), the default; Vaswani et al. 2017), dot (q . k), "
                 "general (k . (W q)), concat (v . tanh(W [k ; q]); these three Luong et al. 2015) "
                 "or additive (v . tanh(W_q q + W_k k + b); Bahdanau et al. 2015)."),
    ATTN_SCORE_INPUTS(SCORE_TENSOR){0},
};

const srv_field srv_scaling_fields[] = {
    SRV_ENUM_ROW(
        attn_rotary_scaling, kind, attn_scaling_words + ATTN_SCALING_LINEAR,
        "The rope_type of a config.json of transformers, whose names the fields have: linear "
        "(Chen et al. 2023), dynamic, yarn (Peng et al. 2023), llama3 (Llama 3.1) or "
        "longrope (Ding et al. 2024). rope_theta is base here, partial_rotary_factor dims.",
        .first = ATTN_SCALING_LINEAR, .required = true),
    ATTN_SCALING_INPUTS(SCALING_TENSOR, SCALING_VALUE){0},
};

const srv_field srv_position_fields[] = {
    SRV_NAMED_ROW(
        srv_position_item, "kind", position.kind, SRV_ENUM,
        "alibi (-slope times distance; Press et al. 2022), t5 (table[bucket of the distance]; "
        "Raffel et al. 2020) and relative (table[clipped distance]) add a bias to the scores; shaw "
        "adds a learned vector for each distance to the key, and to the value (Shaw et al. 2018; "
        "with "
        "a table of each head: Music Transformer); disentangled adds the products of the query "
        "with "
        "such a vector and of the key with another (DeBERTa; He et al. 2021); "
        "rotary rotates query and key (Su et al. 2021); sinusoidal (Vaswani et al. 2017) and "
        "learned (Gehring et al. 2017) add the encoding of its position to each row of query, key "
        "and value, before any projection.",
        .choices = attn_position_words + ATTN_POSITION_ALIBI, .first = ATTN_POSITION_ALIBI,
        .required = true),
    ATTN_POSITION_INPUTS(POSITION_TENSOR, POSITION_VALUE)
        SRV_SCALING_ROW(srv_position_item, position.scaling),
    SRV_AXES_ROW(srv_position_item, axes),
    {0},
};

const srv_field srv_normalizer_fields[] = {
    SRV_KIND_ROW(attn_normalizer, attn_normalizer_words,
                 "softmax (the default), sigmoid (1 / (1 + e^-(score + bias)); Ramapuram et al. "
                 "2024), relu (max(0, score) / divisor; Wortsman et al. 2023), relu_squared "
                 "(max(0, score)^2 / divisor; So et al. 2021), sparsemax (max(0, score - t); "
                 "Martins and Astudillo 2016) or entmax (max(0, (alpha - 1)(score - t))^(1 / "
                 "(alpha - 1)); Peters et al. 2019). The number t makes the weights sum to 1."),
    ATTN_NORMALIZER_INPUTS(NORMALIZER_TENSOR, NORMALIZER_VALUE){0},
};

const srv_field srv_mix_fields[] = {
    ATTN_MIX_INPUTS(MIX_TENSOR){0},
};

const srv_field srv_subtract_fields[] = {
    ATTN_SUBTRACT_INPUTS(SUBTRACT_TENSOR, SUBTRACT_VALUE){0},
};

const srv_field srv_pattern_fields[] = {
    SRV_KIND_ROW(
        attn_pattern, attn_pattern_words,
        "local (keys within radius), strided (every stride-th key, and keys within local), block "
        "(keys in the same block of `size` positions), block_causal (keys in the same block and in "
        "those before it), global (the positions 0 to `num_keys` - 1 see every key and every "
        "query sees them; the others see keys within local) or full (every key: a head without a "
        "pattern beside heads that have one)."),
    ATTN_PATTERN_INPUTS(PATTERN_VALUE){0},
};

const srv_field srv_projections_fields[] = {
    /* This row must be the first row, because SRV_PROJECTIONS_V2 begins at the second. */
    SRV_FIELD_ROW(attn_projections, seed, SRV_INT,
                  "Instead of the matrices: they and the biases get the values with which "
                  "torch.nn.MultiheadAttention begins, drawn with this seed. w_q, w_k and w_v are "
                  "Xavier uniform (for inputs of one width as one matrix [3D, D]), w_o is uniform "
                  "within 1/sqrt(D), and the biases are 0."),
    SRV_TENSOR_ROW(
        attn_projections, w_q, SRV_T_REAL,
        "[Hq * E, D], laid out as torch.nn.Linear.weight. Without it the query is used unchanged."),
    SRV_TENSOR_ROW(attn_projections, b_q, SRV_T_REAL, "[Hq * E], the bias of w_q."),
    SRV_TENSOR_ROW(attn_projections, w_k, SRV_T_REAL,
                   "[Hkv * E, D]. Without it the key is used unchanged."),
    SRV_TENSOR_ROW(attn_projections, b_k, SRV_T_REAL, "[Hkv * E], the bias of w_k."),
    SRV_TENSOR_ROW(attn_projections, w_v, SRV_T_REAL,
                   "[Hkv * Ev, D]. Without it the value is used unchanged."),
    SRV_TENSOR_ROW(attn_projections, b_v, SRV_T_REAL, "[Hkv * Ev], the bias of w_v."),
    SRV_TENSOR_ROW(attn_projections, w_o, SRV_T_REAL,
                   "[Do, Hq * Ev], applied to the concatenated heads. Without it the output is the "
                   "concatenated heads."),
    SRV_TENSOR_ROW(attn_projections, b_o, SRV_T_REAL, "[Do], the bias of w_o."),
    SRV_INT_ROW(attn_projections, num_heads, 1, ATTN_INPUT_HEADS,
                "Number of query heads, into which the projected width is split.",
                .required = true),
    SRV_INT_ROW(attn_projections, num_kv_heads, 1, ATTN_INPUT_HEADS,
                "Number of key and value heads; default num_heads."),
    SRV_BOOL_ROW(attn_projections, add_positions,
                 "Add sinusoidal positions (interleaved) to query, key and value before the "
                 "projections, beside another position."),
    {0},
};

/* --- checks --- */

/* These numbers belong to the rows of a field table after its first row, `kind`. If bit 1 << kind
 * of the number is set, objects of this kind have the field. */
#define TENSOR_KINDS(member, kinds, text)                                   kinds,
#define VALUE_KINDS(is, member, name, key, least, most, words, kinds, text) kinds,
static const unsigned score_kinds[] = {ATTN_SCORE_INPUTS(TENSOR_KINDS)};
static const unsigned position_kinds[] = {ATTN_POSITION_INPUTS(TENSOR_KINDS, VALUE_KINDS)
                                              ATTN_POSITION_BIT(ROTARY),
                                          ATTN_POSITION_BIT(ROTARY)};
static const unsigned scaling_kinds[] = {ATTN_SCALING_INPUTS(TENSOR_KINDS, VALUE_KINDS)};
static const unsigned normalizer_kinds[] = {ATTN_NORMALIZER_INPUTS(TENSOR_KINDS, VALUE_KINDS)};
static const unsigned pattern_kinds[] = {ATTN_PATTERN_INPUTS(VALUE_KINDS)};

static bool refuse_foreign(const srv_scope *scope, const char *field, const char *name,
                           const unsigned *kinds, unsigned kind) {
    char list[128] = " none";
    size_t used = 0;
    for (const srv_field *f = scope->fields + 1; f->name; f++, kinds++)
        if (*kinds >> kind & 1)
            used += (size_t)snprintf(list + used, sizeof list - used, " %s", f->name);
    return srv_refuse(scope, SRV_VALUE, field,
                      "%s does not belong to the kind \"%s\", whose fields are:%s%s", field, name,
                      list, used ? " " : "");
}

/* Refuses given fields that do not belong to the kind `kind`. If `all` is true, every field of this
 * kind is required. kinds[i] has the kinds of row i + 1 of the field table as bits; row 0 must be
 * the field `kind`. false: a problem is set. */
static bool check_kind(const srv_scope *scope, unsigned kind, const unsigned *kinds, bool all) {
    const char *name = scope->fields[0].choices[kind - (unsigned)scope->fields[0].first];
    const srv_field *row = scope->fields + 1;
    for (size_t i = 0; row[i].name; i++) {
        const bool own = kinds[i] >> kind & 1, given = srv_given(scope, row[i].name);
        if (given && !own)
            return refuse_foreign(scope, row[i].name, name, kinds, kind);
        if (all && own && !given)
            return srv_refuse(scope, SRV_VALUE, "kind", "the kind \"%s\" needs %s", name,
                              row[i].name);
    }
    return true;
}

/* Returns the scope of the object that is the field `name` of `scope`. */
static srv_scope scope_inside(const srv_scope *scope, const char *name, const srv_field *fields,
                              const srv_given_bits *given, char at[64]) {
    snprintf(at, 64, "%.40s/%s", scope->at, name);
    return (srv_scope){scope->req, fields, given, at};
}

/* Returns the row-major index of the first element that is not finite; SIZE_MAX: all are finite.
 * The tensor must be dense, as decoded tensors are. */
static size_t first_bad(const attn_tensor *t, size_t count) {
    double part[256];
    const size_t step = sizeof part / sizeof part[0], each = attn_dtype_size(t->dtype);
    for (size_t i = 0; i < count; i += step) {
        size_t n = count - i < step ? count - i : step;
        attn_widen_f64(part, (const char *)t->data + i * each, t->dtype, 1, n);
        for (size_t k = 0; k < n; k++)
            if (!isfinite(part[k]))
                return i + k;
    }
    return SIZE_MAX;
}

static bool refuse_bad(const srv_scope *scope, const char *name, const attn_tensor *t, size_t at) {
    size_t index[ATTN_MAX_RANK];
    char path[160];
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        index[axis] = at % t->dims[axis];
        at /= t->dims[axis];
    }
    int n = snprintf(path, sizeof path, "%s", name);
    for (int axis = 0; axis < t->rank && n > 0 && (size_t)n < sizeof path; axis++)
        n += snprintf(path + n, sizeof path - (size_t)n, "/%zu", index[axis]);
    return srv_refuse(scope, SRV_NONFINITE, path,
                      "NaN or infinity where a finite number is expected");
}

bool srv_parameter_check(const srv_scope *scope, const char *name, const attn_tensor *t, bool any,
                         size_t *parameters) {
    size_t count, bad;
    if (t->rank == 0 || !attn_tensor_count(t, &count))
        return true;
    *parameters += count;
    bad = any ? SIZE_MAX : first_bad(t, count);
    return bad == SIZE_MAX || refuse_bad(scope, name, t, bad);
}

/* Checks all tensors of `object` with srv_parameter_check. scope->fields is the field table of the
 * object. */
static bool check_tensors(const srv_scope *scope, const void *object, bool any,
                          size_t *parameters) {
    for (const srv_field *f = scope->fields; f->name; f++) {
        const attn_tensor *t = (const void *)((const char *)object + f->offset);
        if (f->kind == SRV_TENSOR && !srv_parameter_check(scope, f->name, t, any, parameters))
            return false;
    }
    return true;
}

bool srv_score_check(const srv_scope *scope, const attn_score *score, const srv_given_bits *given,
                     bool any, size_t *parameters) {
    char at[64];
    const srv_scope s = scope_inside(scope, "score", srv_score_fields, given, at);
    return check_kind(&s, score->kind, score_kinds, false) &&
           check_tensors(&s, score, any, parameters);
}

bool srv_scaling_check(const srv_scope *scope, const attn_rotary_scaling *scaling, bool any) {
    char at[64];
    size_t constants = 0; /* constants are no parameters, so their number is not used */
    const srv_scope s =
        scope_inside(scope, "scaling", srv_scaling_fields, (const void *)scaling->given, at);
    return check_kind(&s, scaling->kind, scaling_kinds, false) &&
           srv_needs(&s, "mscale", "mscale_all_dim", "attention_factor is made of both") &&
           srv_needs(&s, "mscale_all_dim", "mscale", "attention_factor is made of both") &&
           check_tensors(&s, scaling, any, &constants);
}

bool srv_position_check(const srv_scope *scope, const char *at, srv_position_item *item, bool any,
                        size_t *parameters) {
    attn_position *position = &item->position;
    const srv_scope s = {scope->req, srv_position_fields, &item->given, at};
    return check_kind(&s, position->kind, position_kinds, false) &&
           srv_needs(&s, "dropout_p", "seed", "the same seed drops the same elements") &&
           srv_needs(&s, "seed", "dropout_p", "nothing else is random here") &&
           check_tensors(&s, item, any, parameters) &&
           (!srv_given(&s, "scaling") || srv_scaling_check(&s, &position->scaling, any)) &&
           (!srv_given(&s, "axes") || srv_axes_read(&s, &item->axes, &position->axes));
}

bool srv_normalizer_check(const srv_scope *scope, const attn_normalizer *normalizer,
                          const srv_given_bits *given, bool any, size_t *parameters) {
    char at[64];
    const srv_scope s = scope_inside(scope, "normalizer", srv_normalizer_fields, given, at);
    return check_kind(&s, normalizer->kind, normalizer_kinds, false) &&
           check_tensors(&s, normalizer, any, parameters);
}

bool srv_mix_check(const srv_scope *scope, const attn_mix *mix, const srv_given_bits *given,
                   bool any, size_t *parameters) {
    char at[64];
    const srv_scope s = scope_inside(scope, "mix", srv_mix_fields, given, at);
    if (!mix->logits.rank && !mix->weights.rank)
        return srv_refuse(&s, SRV_VALUE, "", "mix needs logits, weights or both");
    return check_tensors(&s, mix, any, parameters);
}

bool srv_subtract_check(const srv_scope *scope, const attn_subtract *subtract,
                        const srv_given_bits *given, bool any, size_t *parameters) {
    char at[64];
    const srv_scope s = scope_inside(scope, "subtract", srv_subtract_fields, given, at);
    return check_tensors(&s, subtract, any, parameters);
}

bool srv_pattern_check(const srv_scope *scope, const char *name, const attn_pattern *pattern,
                       const srv_given_bits *given) {
    char at[64];
    const srv_scope s = scope_inside(scope, name, srv_pattern_fields, given, at);
    return check_kind(&s, pattern->kind, pattern_kinds, true);
}

bool srv_projections_check(const srv_scope *scope, const attn_projections *projections,
                           const srv_given_bits *given, bool any, size_t *parameters) {
    char at[64];
    const srv_scope s = scope_inside(scope, "projections", srv_projections_fields, given, at);
    return check_tensors(&s, projections, any, parameters);
}
