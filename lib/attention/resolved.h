/* The resolved operation: canonical views of all inputs, the mask, and the kernel table. */
#ifndef ATTN_RESOLVED_H
#define ATTN_RESOLVED_H

#include <attn/attention.h>

#include "attention/position_rule.h"
#include "attention/score_forms.h"
#include "base/area.h"
#include "base/view.h"
#include "kernels/kernels.h"
#include "mask/mask_private.h"

struct attn_attention {
    attn_inputs in; /* the slots for mask layers that are not used are not copied */
    attn_attention_dims dims;
    attn_score_plan plan;
    const attn_kernels *kernels; /* the members from here on are zero at first */
    attn_mask *mask;
    double scale;
    attn_view query;                  /* [B, Hq, L, E] */
    attn_view key, value;             /* [B, Hkv, S - past, …] */
    attn_view past_key, past_value;   /* [B, Hkv, past, …] */
    attn_view score_query, score_key; /* the operands of the product: as sent, or transformed */
    size_t score_past;          /* cached keys read from past_key; 0 if they are transformed */
    const void *score_v;        /* the score plan's v as elements of the kernel table, or NULL */
    const double *score_v_wide; /* the same vector as doubles */
    attn_position_rule rule;
    const double *sinks;              /* [Hq] or NULL */
    ptrdiff_t out_head, out_row;      /* strides of the output; its batches are dense */
    const struct attn_packed *packed; /* packed keys of the last run, for attn_attention_cells */
};

/* Values of attn_stats.kind: a row was computed by the kernel table or in double by `ref`. */
enum { ATTN_ROW_TABLE = 0, ATTN_ROW_DOUBLE = 1 };

/* Transforms the queries and keys of an operation with dims.transforms: applies the maps of the score
 * form and rotary positions. score_rows.c defines this function and the next one. */
attn_status attn_score_rows_new(attn_attention *a, attn_arena *arena, attn_error *err);
/* Computes, from dims, an upper bound of the bytes that attn_score_rows_new takes. false: overflow.
 */
bool attn_score_rows_bytes(const attn_attention_dims *d, const attn_kernels *k, size_t *bytes);

/* Returns the number of query heads that share a key/value head; 0 if there are no heads. */
static inline size_t attn_group(const attn_attention_dims *d) {
    return d->Hkv ? d->Hq / d->Hkv : 0;
}

/* Returns the key/value head that query head h uses. */
static inline size_t attn_kv_head(const attn_attention *a, size_t h) {
    return a->dims.Hq == a->dims.Hkv ? h : h / attn_group(&a->dims);
}

static inline size_t attn_row_index(const attn_attention *a, size_t b, size_t h, size_t i) {
    return (b * a->dims.Hq + h) * a->dims.L + i;
}

#endif
