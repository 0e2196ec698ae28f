/* The resolved operation, which attn_attention_new makes from the inputs of the caller. All passes
 * read it. Shapes: B batch entries (all batch axes flattened), Hq query heads, Hkv key/value heads,
 * L queries, S keys (including the `past` cached ones), E, Ek and Ev widths of a head. */
#ifndef ATTN_RESOLVED_H
#define ATTN_RESOLVED_H

#include <attn/attention.h>
#include <math.h>
#include <string.h>

#include "attention/position_rule.h"
#include "attention/score_forms.h"
#include "attention/sequence_positions.h"
#include "base/sweep.h"
#include "base/view.h"
#include "kernels/kernels.h"
#include "mask/mask_private.h"

/* A number for each row: the number of query i of head (b, h) is values[batch[b] + h * head + i *
 * row]. values NULL: rows have no such numbers. */
typedef struct attn_row_numbers {
    const double *values;
    const ptrdiff_t *batch;
    ptrdiff_t head, row;
} attn_row_numbers;

struct attn_attention {
    attn_inputs in; /* a copy of the caller's inputs; mask layers beyond mask.count are undefined */
    attn_attention_dims dims;
    attn_score_plan plan;
    /* attn_attention_new zeroes all members from here on. */
    const attn_kernels *kernels;
    attn_mask *mask;
    double scale;                   /* with `scales`: the scale of the largest magnitude */
    attn_row_numbers scales;        /* factors of the scores by row, in place of `scale` */
    attn_view query;                /* [B, Hq, L, E] */
    attn_view key, value;           /* [B, Hkv, S - past, Ek or Ev] */
    attn_view past_key, past_value; /* [B, Hkv, past, Ek or Ev] */
    /* The queries and keys whose products are the scores: `query` and `key`, or transformed rows in
     * memory of the operation. If the keys are transformed, score_key has all S keys, and
     * score_past is 0. Else the first score_past = past keys are in past_key. */
    attn_view score_query, score_key;
    size_t score_past;
    /* score_query, score_key and score_past before the mixing of heads; set if dims.transforms */
    attn_view turned_query, turned_key;
    size_t turned_past;
    /* The values that the weights of a head multiply: `value` and past_value. With mixed weights
     * they are wide values in memory of the operation, and none of them are in past_value. */
    attn_view pass_value;
    size_t pass_past;
    const double *mix;          /* [Hq, Hq], mix.logits; NULL: none */
    const double *factors;      /* [Ho, reads], which mix the weights; NULL: none */
    const void *score_v;        /* plan.v as elements of the kernel table; NULL: no tanh */
    const double *score_v_wide; /* plan.v as doubles */
    attn_position_rule rule;
    attn_sequence_positions query_positions, key_positions;
    attn_row_numbers sinks;
    const double *normalizer_bias; /* [Hq]; NULL: none */
    /* strides of heads and rows, in elements, of the tensor that attn_pass_output returns */
    ptrdiff_t out_head, out_row;
    /* Packed keys and values of the last forward pass, for attn_attention_cells; NULL: cells pack
     * the keys that they need. */
    const struct attn_packed *packed;
};

/* Values of attn_stats.kind. */
enum {
    ATTN_ROW_TABLE = 0, /* the row was computed by the kernel table of the operation */
    ATTN_ROW_DOUBLE = 1 /* the row was computed in double by the table `ref` */
};

/* Copies inputs, but not the mask layers beyond mask.count. */
void attn_inputs_copy(attn_inputs *to, const attn_inputs *from);
/* Sets stride, near, reach and first_keys of *d from the layers of the mask (sparsity.c). L and S
 * of *d must be set. */
void attn_resolve_sparsity(const attn_inputs *in, attn_attention_dims *d);
/* Transforms the queries and keys of an operation with dims.transforms: applies the maps of the
 * score form and rotary positions. score_rows.c defines this function and the next one. */
attn_status attn_score_rows_new(attn_attention *a, attn_arena *arena, attn_error *err);
/* Computes, from dims alone, an upper bound of the bytes that attn_score_rows_new takes. Returns
 * false if the bound exceeds SIZE_MAX. */
bool attn_score_rows_bytes(const attn_attention_dims *d, const attn_kernels *k, size_t *bytes);

/* Checks that a gradient of the loss with respect to a result has the shape `dims` of the result
 * and holds floating-point numbers. `field` is grad_output or grad_logsumexp. */
attn_status attn_check_loss_gradient(const char *field, const attn_tensor *grad, const size_t *dims,
                                     int rank, attn_error *err);

/* Checks the shape and type of numbers by row, and adds their number to d->by_row. */
attn_status attn_check_by_row(const char *where, const attn_tensor *t, attn_attention_dims *d,
                              attn_error *err);
/* Reads numbers by row, whose shape attn_check_by_row has checked. *most becomes the number of the
 * largest magnitude. With `seeing`, only rows that see a key need a finite number; in other rows a
 * number that is not finite becomes 0. */
attn_status attn_read_by_row(const attn_attention *a, const char *where, const attn_tensor *t,
                             bool seeing, attn_arena *arena, attn_row_numbers *out, double *most,
                             attn_error *err);

/* Returns a tensor of zeros with the shape of a result, for a loss that does not depend on it. All
 * its elements are one number in static memory. */
static inline attn_tensor attn_zero_gradient(const attn_tensor *result) {
    static const float zero = 0;
    attn_tensor zeros = *result;
    zeros.data = (void *)&zero;
    zeros.dtype = ATTN_F32;
    memset(zeros.strides, 0, sizeof zeros.strides);
    return zeros;
}

/* Returns the first row that the operation rotates if `past` rows are cached: a cache may hold rows
 * that are rotated already. */
static inline size_t attn_rotated_from(const attn_attention *a, size_t past) {
    return a->in.position.past == ATTN_PAST_RAW ? 0 : past;
}

/* Returns the tensor that holds the products of weights and values of each head. */
static inline const attn_tensor *attn_pass_output(const attn_results *results) {
    return results->head_outputs.rank ? &results->head_outputs : &results->output;
}

/* Returns the number of query heads that share a key/value head; 0 if there are no heads. */
static inline size_t attn_group(const attn_attention_dims *d) {
    return d->Hkv ? d->Hq / d->Hkv : 0;
}

/* Returns the key/value head that query head h uses. */
static inline size_t attn_kv_head(const attn_attention *a, size_t h) {
    return a->dims.Hq == a->dims.Hkv ? h : h / attn_group(&a->dims);
}

/* Returns the index in n->values of the number of query i of head (b, h). */
static inline size_t attn_row_number(const attn_row_numbers *n, size_t b, size_t h, size_t i) {
    return (size_t)(n->batch[b] + (ptrdiff_t)h * n->head + (ptrdiff_t)i * n->row);
}

/* Returns the sink of query i of head (b, h); -infinity: there is none. */
static inline double attn_row_sink(const attn_attention *a, size_t b, size_t h, size_t i) {
    return a->sinks.values ? a->sinks.values[attn_row_number(&a->sinks, b, h, i)] : -INFINITY;
}

/* Returns the factor of the scores of query i of head (b, h). */
static inline double attn_row_scale(const attn_attention *a, size_t b, size_t h, size_t i) {
    return a->scales.values ? a->scales.values[attn_row_number(&a->scales, b, h, i)] : a->scale;
}

/* Returns the index of query i of head (b, h) among all B * Hq * L rows. */
static inline size_t attn_row_index(const attn_attention *a, size_t b, size_t h, size_t i) {
    return (b * a->dims.Hq + h) * a->dims.L + i;
}

#endif
