/* The resolved operation: canonical views of all inputs, the mask, the kernel table. */
#ifndef ATTN_RESOLVED_H
#define ATTN_RESOLVED_H

#include <attn/attention.h>

#include "attention/position_rule.h"
#include "attention/score_forms.h"
#include "base/view.h"
#include "kernels/kernels.h"
#include "mask/mask_private.h"

struct attn_attention {
    attn_inputs in; /* without the places for masks that are not taken */
    attn_attention_dims dims;
    attn_score_plan plan;
    const attn_kernels *kernels; /* from here on zeroes at first */
    attn_mask *mask;
    double scale;
    attn_view query;                  /* [B, Hq, L, E] */
    attn_view key, value;             /* [B, Hkv, S - past, …] */
    attn_view past_key, past_value;   /* [B, Hkv, past, …] */
    attn_view score_query, score_key; /* what the product reads: as sent, or transformed */
    size_t score_past;          /* cached keys that are read from past_key; 0 when transformed */
    const void *score_v;        /* plan.v as table elements, or NULL */
    const double *score_v_wide; /* and as double */
    attn_position_rule rule;
    const double *sinks;              /* [Hq] or NULL */
    ptrdiff_t out_head, out_row;      /* strides of the output, whose batch stride is dense */
    size_t sets;                      /* distinct (key, value) batch entries: B, or 1 when shared */
    const struct attn_packed *packed; /* after a run: its packed keys, for attn_attention_cells */
};

/* How a row was computed: attn_stats.kind. */
enum { ATTN_ROW_TABLE = 0, ATTN_ROW_DOUBLE = 1 };

/* attn_attention_shape, and what the score form wants done; its plan points into `in`. On failure
 * both are undefined. */
attn_status attn_attention_resolve(const attn_inputs *in, attn_attention_dims *dims,
                                   attn_score_plan *plan, attn_error *err);

/* The bytes that transformed queries and keys take, from dims; false on overflow. */
bool attn_transform_bytes(const attn_attention_dims *d, const attn_kernels *k, size_t *bytes);

/* Query heads that share a key/value head; 0 where there are no heads. */
static inline size_t attn_group(const attn_attention_dims *d) {
    return d->Hkv ? d->Hq / d->Hkv : 0;
}

/* Query head h uses this key/value head. */
static inline size_t attn_kv_head(const attn_attention *a, size_t h) {
    return a->dims.Hq == a->dims.Hkv ? h : h / attn_group(&a->dims);
}

static inline size_t attn_row_index(const attn_attention *a, size_t b, size_t h, size_t i) {
    return (b * a->dims.Hq + h) * a->dims.L + i;
}

#endif
