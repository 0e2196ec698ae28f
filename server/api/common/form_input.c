/* The forms of attention in a request: field tables of score, position, pattern and projections,
 * which decode into structs of the library. This file refuses what a field table cannot check:
 * fields of another kind and parameters that are not finite. The library checks shapes. */
#include "api/common/form_input.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/common/route_fields.h"

#define NAME(name) #name,
static const char *const score_kinds[] = {ATTN_SCORE_FORMS(NAME) NULL};
const char *const srv_position_names[] = {"none",   "alibi",      "t5",      "relative", "shaw",
                                          "rotary", "sinusoidal", "learned", NULL};
const char *const srv_stage_names[] = {"raw", "scaled", "softcapped", "biased", "probs", NULL};
static const char *const pattern_kinds[] = {"local", "strided", "block", "global", NULL};
const char *const srv_pair_layouts[] = {"interleaved", "halves", NULL};

_Static_assert(sizeof(attn_score_kind) == sizeof(int) &&
                   sizeof(attn_position_kind) == sizeof(int) &&
                   sizeof(attn_rotary) == sizeof(int) && sizeof(attn_pattern_kind) == sizeof(int),
               "SRV_ENUM stores an int");

#define FARTHEST 1099511627776.0 /* largest distance of positions: 2^40, the library's limit */
#define HEADS    1048576         /* largest number of heads */

const srv_field srv_score_fields[] = {
    SRV_KIND_ROW(
        attn_score, score_kinds,
        "scaled_dot (q . k / sqrt(E), the default), dot (q . k), additive (v . tanh(W_q q + W_k k "
        "+ b)), general (k . (W q)) or concat (v . tanh(W [k ; q]))."),
    SRV_TENSOR_ROW(attn_score, w_q, SRV_T_REAL, "additive: W_q [A, Eq]."),
    SRV_TENSOR_ROW(attn_score, w_k, SRV_T_REAL, "additive: W_k [A, Ek]."),
    SRV_TENSOR_ROW(attn_score, b, SRV_T_REAL, "additive: b [A], optional."),
    SRV_TENSOR_ROW(attn_score, v, SRV_T_REAL, "additive and concat: v [A] or [1, A]."),
    SRV_TENSOR_ROW(attn_score, w, SRV_T_REAL, "general: W [Ek, Eq]; concat: W [A, Ek + Eq]."),
    {0},
};

const srv_field srv_position_fields[] = {
    {.name = "kind",
     .kind = SRV_ENUM,
     .offset = offsetof(attn_position, kind),
     .choices = srv_position_names + ATTN_POSITION_ALIBI,
     .first = ATTN_POSITION_ALIBI,
     .required = true,
     .doc = "alibi, t5 and relative add a bias by distance; shaw adds a learned vector for each "
            "distance to the key (and the value); rotary rotates query and key; sinusoidal and "
            "learned add the encoding of its position to each row of query, key and value, before "
            "any projection."},
    SRV_TENSOR_ROW(attn_position, slopes, SRV_T_REAL,
                   "alibi: [H], one slope for each head. The default is the slopes of the paper."),
    SRV_TENSOR_ROW(attn_position, table, SRV_T_REAL,
                   "t5: [buckets, H]; relative: [H, 2m + 1], for distances -m to m; larger "
                   "distances are clipped; learned: [positions, D], D the last axis of query."),
    SRV_INT_ROW(attn_position, max_distance, 1, 1048576,
                "t5: all distances from this one on share the last bucket; default 128."),
    {.name = "bidirectional",
     .kind = SRV_BOOL,
     .offset = offsetof(attn_position, unidirectional),
     .accepts = SRV_B_NOT,
     .doc = "t5: true (default) gives half of the buckets to keys after the query; false gives all "
            "buckets to keys before it."},
    SRV_TENSOR_ROW(attn_position, key_table, SRV_T_REAL,
                   "shaw: [2m + 1, E]; the row of the distance is added to the key."),
    SRV_TENSOR_ROW(attn_position, value_table, SRV_T_REAL,
                   "shaw: [2m + 1, Ev], optional; the row of the distance is added to the value."),
    {.name = "layout",
     .kind = SRV_ENUM,
     .offset = offsetof(attn_position, rotary),
     .choices = srv_pair_layouts,
     .first = ATTN_ROTARY_INTERLEAVED,
     .doc = "rotary, required, and sinusoidal, default interleaved: which coordinates form a pair, "
            "interleaved (0 and 1, 2 and 3, ..) or halves (0 and dims/2, ..)."},
    SRV_REAL_ROW(attn_position, base, 1, DBL_MAX,
                 "rotary: pair t is rotated by position * base^(-2t/dims); default 10000."),
    SRV_INT_ROW(
        attn_position, dims, 2, FARTHEST,
        "rotary: number of leading coordinates that are rotated, an even number; default all."),
    SRV_REAL_ROW(attn_position, dropout_p, 0, 1,
                 "sinusoidal and learned: elements of the encoded inputs are dropped with this "
                 "probability, and the others are divided by 1 - p. Needs seed; not with "
                 "grad_output."),
    {.name = "seed",
     .kind = SRV_INT,
     .offset = offsetof(attn_position, dropout_seed),
     .doc = "Seed that selects the elements that dropout_p drops."},
    {0},
};

const srv_field srv_pattern_fields[] = {
    SRV_KIND_ROW(
        attn_pattern, pattern_kinds,
        "local (keys within radius), strided (every stride-th key, and keys within local), block "
        "(keys in the same block of `size` positions) or global (the positions 0 to `num_keys` - 1 "
        "see "
        "every key and every query sees them; the others see keys within local)."),
    SRV_INT_ROW(attn_pattern, radius, 0, FARTHEST, "local: number of keys on either side."),
    SRV_INT_ROW(attn_pattern, stride, 1, FARTHEST, "strided: the distance between keys."),
    SRV_INT_ROW(attn_pattern, size, 1, FARTHEST, "block: number of positions in a block."),
    SRV_INT_ROW(attn_pattern, num_keys, 0, FARTHEST,
                "global: number of leading positions that are global."),
    SRV_INT_ROW(attn_pattern, local, 0, FARTHEST,
                "strided and global: number of keys on either side."),
    {0},
};

const srv_field srv_projections_fields[] = {
    /* The first row, because SRV_PROJECTIONS_V2 leaves it out. */
    {.name = "seed",
     .kind = SRV_INT,
     .offset = offsetof(attn_projections, seed),
     .doc = "Instead of the matrices: they and the biases get the values with which "
            "torch.nn.MultiheadAttention begins, drawn with this seed."},
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
    {.name = "num_heads",
     .kind = SRV_INT,
     .offset = offsetof(attn_projections, num_heads),
     .min = 1,
     .max = HEADS,
     .required = true,
     .doc = "Number of query heads, into which the projected width is split."},
    SRV_INT_ROW(attn_projections, num_kv_heads, 1, HEADS,
                "Number of key and value heads; default num_heads."),
    SRV_BOOL_ROW(
        attn_projections, add_positions,
        "Add sinusoidal positions (interleaved) to query, key and value before the projections."),
    {0},
};

/* --- checks --- */

/* For each kind, the names of its fields besides `kind`, with a space before and after each name.
 * NULL: the kind has no fields. */
static const char *const score_parameters[ATTN_SCORE_COUNT] = {
    [ATTN_SCORE_additive] = " w_q w_k b v ",
    [ATTN_SCORE_general] = " w ",
    [ATTN_SCORE_concat] = " w v ",
};
static const char *const position_parameters[] = {
    [ATTN_POSITION_ALIBI] = " slopes ",
    [ATTN_POSITION_T5] = " table max_distance bidirectional ",
    [ATTN_POSITION_RELATIVE] = " table ",
    [ATTN_POSITION_SHAW] = " key_table value_table ",
    [ATTN_POSITION_ROTARY] = " layout base dims ",
    [ATTN_POSITION_SINUSOIDAL] = " layout dropout_p seed ",
    [ATTN_POSITION_LEARNED] = " table dropout_p seed ",
};
static const char *const pattern_parameters[] = {
    [ATTN_PATTERN_LOCAL] = " radius ",
    [ATTN_PATTERN_STRIDED] = " stride local ",
    [ATTN_PATTERN_BLOCK] = " size ",
    [ATTN_PATTERN_GLOBAL] = " num_keys local ",
};

/* Refuses fields that belong to other kinds. If `all` is true, every field of the kind is required.
 * The first row of the field table must be `kind`. */
static bool check_kind(const srv_scope *scope, unsigned kind, const char *list, bool all) {
    const char *name = scope->fields[0].choices[kind - (unsigned)scope->fields[0].first];
    for (const srv_field *f = scope->fields + 1; f->name; f++) {
        if (srv_given(scope, f->name) && !srv_is_listed(list, f->name))
            return srv_refuse(scope, SRV_VALUE, f->name,
                              "%s does not belong to the kind \"%s\", whose fields are:%s", f->name,
                              name, list ? list : " none");
        if (all && !srv_given(scope, f->name) && srv_is_listed(list, f->name))
            return srv_refuse(scope, SRV_VALUE, "kind", "the kind \"%s\" needs %s", name, f->name);
    }
    return true;
}

/* Returns the scope of the object that is the field `name` of `scope`. */
static srv_scope inside(const srv_scope *scope, const char *name, const srv_field *fields,
                        const uint64_t *given, char at[64]) {
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

/* Checks all tensors of an object, which the table of the scope describes. */
static bool check_tensors(const srv_scope *scope, const void *object, bool any,
                          size_t *parameters) {
    for (const srv_field *f = scope->fields; f->name; f++) {
        const attn_tensor *t = (const void *)((const char *)object + f->offset);
        if (f->kind == SRV_TENSOR && !srv_parameter_check(scope, f->name, t, any, parameters))
            return false;
    }
    return true;
}

bool srv_score_check(const srv_scope *scope, const attn_score *score, const uint64_t *given,
                     bool any, size_t *parameters) {
    char at[64];
    const srv_scope s = inside(scope, "score", srv_score_fields, given, at);
    return check_kind(&s, score->kind, score_parameters[score->kind], false) &&
           check_tensors(&s, score, any, parameters);
}

bool srv_position_check(const srv_scope *scope, const attn_position *position,
                        const uint64_t *given, bool any, size_t *parameters) {
    char at[64];
    const srv_scope s = inside(scope, "position", srv_position_fields, given, at);
    return check_kind(&s, position->kind, position_parameters[position->kind], false) &&
           srv_needs(&s, "dropout_p", "seed", "the same seed drops the same elements") &&
           srv_needs(&s, "seed", "dropout_p", "nothing else is random here") &&
           check_tensors(&s, position, any, parameters);
}

bool srv_pattern_check(const srv_scope *scope, const attn_pattern *pattern, const uint64_t *given) {
    char at[64];
    const srv_scope s = inside(scope, "pattern", srv_pattern_fields, given, at);
    return check_kind(&s, pattern->kind, pattern_parameters[pattern->kind], true);
}

bool srv_projections_check(const srv_scope *scope, const attn_projections *projections,
                           const uint64_t *given, bool any, size_t *parameters) {
    char at[64];
    const srv_scope s = inside(scope, "projections", srv_projections_fields, given, at);
    return check_tensors(&s, projections, any, parameters);
}
