/* The resolved operation: canonical views of all inputs, the mask, the kernel table. */
#ifndef ATTN_ATTENTION_PRIVATE_H
#define ATTN_ATTENTION_PRIVATE_H

#include <attn/attention.h>

#include "attention/mask_private.h"
#include "attention/view.h"
#include "kernels/kernels.h"

struct attn_attention {
    attn_inputs in;
    attn_attention_dims dims;
    const attn_kernels *kernels;
    attn_mask *mask;
    double scale;
    attn_view query;                 /* [B, Hq, L, E] */
    attn_view key, value;            /* [B, Hkv, S - past, …] */
    attn_view past_key, past_value;  /* [B, Hkv, past, …] */
    ptrdiff_t out_head, out_row;     /* strides of the output, whose batch stride is dense */
    size_t sets;                     /* distinct (key, value) batch entries: B, or 1 when shared */
    const struct attn_packed *packed; /* after a run: its packed keys, for attn_attention_cells */
};

/* How a row was computed: attn_stats.kind. */
enum { ATTN_ROW_TABLE = 0, ATTN_ROW_CAREFUL = 1 };

/* n rows of keys (values) j0 … of batch b, key/value head hkv, as elements of `elem` bytes. Points into
 * the input when that can be read in place, else widens into scratch [n, width]; *ld is the row
 * stride. Rows may come from the cache and the new keys. */
const void *attn_key_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                          size_t elem, void *scratch, size_t *ld);
const void *attn_value_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                            size_t elem, void *scratch, size_t *ld);
const void *attn_query_rows(const attn_attention *a, size_t b, size_t h, size_t i0, size_t n,
                            size_t elem, void *scratch, size_t *ld);

/* "key/0/3/1": the path of an element as the caller sent it. `which` is 'q', 'k' or 'v'. */
void attn_element_path(const attn_attention *a, char which, size_t b, size_t h, size_t row,
                       size_t col, char path[96]);

/* Query head h uses this key/value head. */
static inline size_t attn_kv_head(const attn_attention *a, size_t h) {
    return h / (a->dims.Hq / a->dims.Hkv);
}

static inline size_t attn_row_index(const attn_attention *a, size_t b, size_t h, size_t i) {
    return (b * a->dims.Hq + h) * a->dims.L + i;
}

#endif
