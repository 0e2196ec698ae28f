/* The forms of attention in a request: field tables of score, position, pattern and projections,
 * and the conversion of decoded objects to structs of the library. This file refuses what a field
 * table cannot check: fields of another kind and parameters that are not finite. The library checks
 * shapes. */
#include "api/form_input.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/route_fields.h"

#define NAME(name) #name,
static const char *const score_kinds[] = {ATTN_SCORE_FORMS(NAME) NULL};
const char *const srv_position_names[] = {"none", "alibi",  "t5", "relative",
                                          "shaw", "rotary", NULL};
const char *const srv_stage_names[] = {"raw", "scaled", "softcapped", "biased", "probs", NULL};
static const char *const pattern_kinds[] = {"local", "strided", "block", "global", NULL};
const char *const srv_pair_layouts[] = {"interleaved", "halves", NULL};

#define FARTHEST 1099511627776.0 /* 2^40, the limit of the library */
#define HEADS    1048576

const srv_field srv_score_fields[] = {
    SRV_KIND_ROW(
        srv_score_input, score_kinds,
        "scaled_dot (q . k / sqrt(E), the default), dot (q . k), additive (v . tanh(W_q q + W_k k "
        "+ b)), general (k . (W q)) or concat (v . tanh(W [k ; q]))."),
    SRV_TENSOR_ROW(srv_score_input, w_q, SRV_T_REAL, "additive: W_q [A, Eq]."),
    SRV_TENSOR_ROW(srv_score_input, w_k, SRV_T_REAL, "additive: W_k [A, Ek]."),
    SRV_TENSOR_ROW(srv_score_input, b, SRV_T_REAL, "additive: b [A], optional."),
    SRV_TENSOR_ROW(srv_score_input, v, SRV_T_REAL, "additive and concat: v [A]."),
    SRV_TENSOR_ROW(srv_score_input, w, SRV_T_REAL, "general: W [Ek, Eq]; concat: W [A, Ek + Eq]."),
    {0},
};

const srv_field srv_position_fields[] = {
    SRV_KIND_ROW(srv_position_input, srv_position_names + 1,
                 "alibi, t5 and relative add a bias by distance; shaw adds a learned vector for "
                 "each distance to the key (and the value); rotary rotates query and key."),
    SRV_TENSOR_ROW(srv_position_input, slopes, SRV_T_REAL,
                   "alibi: [H], one slope for each head. The default is the slopes of the paper."),
    SRV_TENSOR_ROW(srv_position_input, table, SRV_T_REAL,
                   "t5: [buckets, H]; relative: [H, 2m + 1], for distances -m to m; larger "
                   "distances are clipped."),
    SRV_INT_ROW(srv_position_input, max_distance, 1, 1048576,
                "t5: all distances from this one on share the last bucket; default 128."),
    SRV_BOOL_ROW(srv_position_input, bidirectional,
                 "t5: true (default) gives half of the buckets to keys after the query; false "
                 "gives all buckets to keys before it."),
    SRV_TENSOR_ROW(srv_position_input, key_table, SRV_T_REAL,
                   "shaw: [2m + 1, E]; the row of the distance is added to the key."),
    SRV_TENSOR_ROW(srv_position_input, value_table, SRV_T_REAL,
                   "shaw: [2m + 1, Ev], optional; the row of the distance is added to the value."),
    SRV_ENUM_ROW(srv_position_input, layout, srv_pair_layouts,
                 "rotary, required: which coordinates form a pair, interleaved (0 and 1, 2 and 3, "
                 "..) or halves (0 and dims/2, ..)."),
    SRV_REAL_ROW(srv_position_input, base, 1, DBL_MAX,
                 "rotary: pair t is rotated by position * base^(-2t/dims); default 10000."),
    SRV_INT_ROW(
        srv_position_input, dims, 2, FARTHEST,
        "rotary: number of leading coordinates that are rotated, an even number; default all."),
    {0},
};

const srv_field srv_pattern_fields[] = {
    SRV_KIND_ROW(
        srv_pattern_input, pattern_kinds,
        "local (keys within radius), strided (every stride-th key, and keys within local), block "
        "(keys in the same block of `size` positions) or global (the first `keys` positions see "
        "every key and every query sees them; the others see keys within local)."),
    SRV_INT_ROW(srv_pattern_input, radius, 0, FARTHEST, "local: number of keys on either side."),
    SRV_INT_ROW(srv_pattern_input, stride, 1, FARTHEST, "strided: the distance between keys."),
    SRV_INT_ROW(srv_pattern_input, size, 1, FARTHEST, "block: number of positions in a block."),
    SRV_INT_ROW(srv_pattern_input, keys, 0, FARTHEST,
                "global: number of leading positions that are global."),
    SRV_INT_ROW(srv_pattern_input, local, 0, FARTHEST,
                "strided and global: number of keys on either side."),
    {0},
};

const srv_field srv_projections_fields[] = {
    SRV_TENSOR_ROW(
        srv_projections_input, w_q, SRV_T_REAL,
        "[Hq * E, D], laid out as torch.nn.Linear.weight. Without it the query is used unchanged."),
    SRV_TENSOR_ROW(srv_projections_input, b_q, SRV_T_REAL, "[Hq * E], the bias of w_q."),
    SRV_TENSOR_ROW(srv_projections_input, w_k, SRV_T_REAL,
                   "[Hkv * E, D]. Without it the key is used unchanged."),
    SRV_TENSOR_ROW(srv_projections_input, b_k, SRV_T_REAL, "[Hkv * E], the bias of w_k."),
    SRV_TENSOR_ROW(srv_projections_input, w_v, SRV_T_REAL,
                   "[Hkv * Ev, D]. Without it the value is used unchanged."),
    SRV_TENSOR_ROW(srv_projections_input, b_v, SRV_T_REAL, "[Hkv * Ev], the bias of w_v."),
    SRV_TENSOR_ROW(srv_projections_input, w_o, SRV_T_REAL,
                   "[Do, Hq * Ev], applied to the concatenated heads. Without it the output is the "
                   "concatenated heads."),
    SRV_TENSOR_ROW(srv_projections_input, b_o, SRV_T_REAL, "[Do], the bias of w_o."),
    {.name = "num_heads",
     .kind = SRV_INT,
     .offset = offsetof(srv_projections_input, num_heads),
     .min = 1,
     .max = HEADS,
     .required = true,
     .doc = "Number of query heads, into which the projected width is split."},
    SRV_INT_ROW(srv_projections_input, num_kv_heads, 1, HEADS,
                "Number of key and value heads; default num_heads."),
    SRV_BOOL_ROW(
        srv_projections_input, add_positions,
        "Add sinusoidal positions (interleaved) to query, key and value before the projections."),
    {0},
};

void srv_position_init(void *input) {
    *(srv_position_input *)input = (srv_position_input){.bidirectional = true, .layout = -1};
}

/* --- from decoded objects to the library --- */

/* For each kind, the fields that go with it besides `kind`, as names between spaces. NULL: the kind
 * has no fields. */
static const char *const score_parameters[ATTN_SCORE_COUNT] = {
    [ATTN_SCORE_additive] = " w_q w_k b v ",
    [ATTN_SCORE_general] = " w ",
    [ATTN_SCORE_concat] = " w v ",
};
static const char *const position_parameters[] = {" slopes ", " table max_distance bidirectional ",
                                                  " table ", " key_table value_table ",
                                                  " layout base dims "};
static const char *const pattern_parameters[] = {" radius ", " stride local ", " size ",
                                                 " keys local "};

/* Refuses fields that belong to other kinds. If `all` is true, every field of the kind is required.
 * The first row of the field table must be `kind`. */
static bool check_kind(const srv_scope *scope, int kind, const char *list, bool all) {
    const char *name = scope->fields[0].choices[kind];
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
                        const void *body, char at[64]) {
    snprintf(at, 64, "%.40s/%s", scope->at, name);
    return (srv_scope){scope->req, fields, body, at};
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

bool srv_parameter_read(const srv_scope *scope, const char *name, const attn_tensor *in, bool any,
                        attn_tensor *out, size_t *parameters) {
    size_t count, bad;
    *out = *in;
    if (in->rank == 0 || !attn_tensor_count(in, &count))
        return true;
    *parameters += count;
    bad = any ? SIZE_MAX : first_bad(in, count);
    return bad == SIZE_MAX || refuse_bad(scope, name, in, bad);
}

bool srv_score_read(const srv_scope *scope, const srv_score_input *in, bool any, attn_score *out,
                    size_t *parameters) {
    char at[64];
    const srv_scope s = inside(scope, "score", srv_score_fields, in, at);
    out->kind = (attn_score_kind)in->kind;
    return check_kind(&s, in->kind, score_parameters[in->kind], false) &&
           srv_parameter_read(&s, "w_q", &in->w_q, any, &out->w_q, parameters) &&
           srv_parameter_read(&s, "w_k", &in->w_k, any, &out->w_k, parameters) &&
           srv_parameter_read(&s, "b", &in->b, any, &out->b, parameters) &&
           srv_parameter_read(&s, "v", &in->v, any, &out->v, parameters) &&
           srv_parameter_read(&s, "w", &in->w, any, &out->w, parameters);
}

bool srv_position_read(const srv_scope *scope, const srv_position_input *in, bool any,
                       attn_position *out, size_t *parameters) {
    char at[64];
    const srv_scope s = inside(scope, "position", srv_position_fields, in, at);
    out->kind = (attn_position_kind)(in->kind + 1);
    out->max_distance = in->max_distance;
    out->unidirectional = !in->bidirectional;
    out->rotary = (attn_rotary)(in->layout + 1);
    out->base = in->base;
    out->dims = in->dims;
    return check_kind(&s, in->kind, position_parameters[in->kind], false) &&
           srv_parameter_read(&s, "slopes", &in->slopes, any, &out->slopes, parameters) &&
           srv_parameter_read(&s, "table", &in->table, any, &out->table, parameters) &&
           srv_parameter_read(&s, "key_table", &in->key_table, any, &out->key_table, parameters) &&
           srv_parameter_read(&s, "value_table", &in->value_table, any, &out->value_table,
                              parameters);
}

bool srv_pattern_read(const srv_scope *scope, const srv_pattern_input *in, attn_pattern *out) {
    char at[64];
    const srv_scope s = inside(scope, "pattern", srv_pattern_fields, in, at);
    *out = (attn_pattern){.kind = (attn_pattern_kind)in->kind,
                          .radius = in->radius,
                          .stride = in->stride,
                          .size = in->size,
                          .keys = in->keys,
                          .local = in->local};
    return check_kind(&s, in->kind, pattern_parameters[in->kind], true);
}

bool srv_projections_read(const srv_scope *scope, const srv_projections_input *in, bool any,
                          attn_projections *out, size_t *parameters) {
    char at[64];
    const srv_scope s = inside(scope, "projections", srv_projections_fields, in, at);
    const struct {
        const char *name;
        const attn_tensor *from;
        attn_tensor *to;
    } rows[] = {{"w_q", &in->w_q, &out->w_q}, {"b_q", &in->b_q, &out->b_q},
                {"w_k", &in->w_k, &out->w_k}, {"b_k", &in->b_k, &out->b_k},
                {"w_v", &in->w_v, &out->w_v}, {"b_v", &in->b_v, &out->b_v},
                {"w_o", &in->w_o, &out->w_o}, {"b_o", &in->b_o, &out->b_o}};
    out->num_heads = (size_t)in->num_heads;
    out->num_kv_heads = (size_t)in->num_kv_heads;
    out->add_positions = in->add_positions;
    out->allow_nonfinite = any;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!srv_parameter_read(&s, rows[i].name, rows[i].from, any, rows[i].to, parameters))
            return false;
    return true;
}
