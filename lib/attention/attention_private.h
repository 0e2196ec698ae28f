/* The resolved operation: canonical views of all inputs, the mask, the kernel table. */
#ifndef ATTN_ATTENTION_PRIVATE_H
#define ATTN_ATTENTION_PRIVATE_H

#include <attn/attention.h>

#include "attention/positions.h"
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
enum { ATTN_ROW_TABLE = 0, ATTN_ROW_CAREFUL = 1 };

/* attn_attention_shape, and what the score form wants done; its plan points into `in`. On failure
 * both are undefined. */
attn_status attn_attention_resolve(const attn_inputs *in, attn_attention_dims *dims,
                                   attn_score_plan *plan, attn_error *err);

/* A view [B, H, rows, width] of a tensor in a layout; batch axes of size 1 have stride 0. The head
 * stride of ATTN_BLD is left 0, for the caller, who knows the width. */
bool attn_layout_view(const attn_attention *a, const attn_tensor *t, attn_layout layout,
                      attn_arena *arena, attn_view *view);

/* n rows j0 … of a sequence whose first `past_rows` rows live in `past`, as elements of `elem`
 * bytes. Points into the memory when that can be read in place, else widens into scratch [n,
 * width]; *ld is the row stride. */
const void *attn_view_rows(const attn_view *past, size_t past_rows, const attn_view *v, size_t b,
                           size_t h, size_t j0, size_t n, size_t width, size_t elem, void *scratch,
                           size_t *ld);

/* The same for keys and queries as the product reads them, and for values. */
const void *attn_key_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                          size_t elem, void *scratch, size_t *ld);
const void *attn_value_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                            size_t elem, void *scratch, size_t *ld);
const void *attn_query_rows(const attn_attention *a, size_t b, size_t h, size_t i0, size_t n,
                            size_t elem, void *scratch, size_t *ld);

/* Transform queries and keys as the score form and rotary positions want them. */
attn_status attn_prepare(attn_attention *a, attn_arena *arena, attn_error *err);
/* Bytes of it, from dims. */
bool attn_prepare_bytes(const attn_attention_dims *d, const attn_kernels *k, size_t *bytes);
/* Dropout of n weights from column j0 of a row: 0, or divided by 1 - p. */
void attn_drop_row(const attn_attention *a, size_t row, size_t j0, size_t n, size_t elem,
                   void *weights);
/* "key/0/3/1": the path of an element as the caller sent it. `which` is 'q', 'k' or 'v'. */
void attn_element_path(const attn_attention *a, char which, size_t b, size_t h, size_t row,
                       size_t col, char path[96]);

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
