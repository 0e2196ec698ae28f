/* The operands: rows of queries, keys and values as they lie, packed keys and values, and the
 * refusal of NaN and infinity. */
#ifndef ATTN_OPERANDS_H
#define ATTN_OPERANDS_H

#include "attention/resolved.h"

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

/* "key/0/3/1": the path of an element as the caller sent it. `which` is 'q', 'k' or 'v'. */
void attn_element_path(const attn_attention *a, char which, size_t b, size_t h, size_t row,
                       size_t col, char path[96]);

/* What is wrong with a key and its value, bits of attn_packed.bad. */
enum {
    ATTN_BAD_KEY = 1,
    ATTN_BAD_VALUE = 2,
    ATTN_NOT_FINITE = 3,
    ATTN_TOO_LARGE = 4,
    ATTN_BAD = 7
};

/* Packed operands of all key/value heads: tile t of (set, hkv). Rows that are not finite or too
 * large for the table are packed as zeros and marked; a row of queries that sees one is computed by
 * `ref` instead, and one that does not is as if they were not there. */
typedef struct attn_packed {
    const attn_kernels *kernels;
    size_t tiles;                            /* tiles a head */
    size_t key_bytes, value_bytes;           /* of one tile */
    char *keys, *values;                     /* [sets, Hkv, tiles] */
    double *key_magnitude, *value_magnitude; /* [sets, Hkv, tiles] largest magnitude */
    uint8_t *bad;                            /* [sets, Hkv, S] */
    _Atomic int any_bad;
    bool one_head; /* there is but one at a time */
} attn_packed;

/* Tile t of the packed operands. */
static inline size_t attn_packed_tile(const attn_attention *a, const attn_packed *p, size_t b,
                                      size_t hkv, size_t tile) {
    const size_t head = p->one_head ? 0 : (a->dims.sets == 1 ? 0 : b) * a->dims.Hkv + hkv;
    return head * p->tiles + tile;
}

/* Pack all keys and values over the pool, then refuse visible NaN and infinity. */
attn_status attn_pack(attn_attention *a, attn_pool *pool, const attn_control *control,
                      attn_arena *arena, attn_packed **out, attn_error *err);
/* Counts, as one piece of an area, the bytes that attn_pack takes. */
void attn_pack_count(attn_area *area, const attn_attention_dims *d, const attn_kernels *k,
                     size_t slots);
/* Takes room from the area for the packed operands of `heads` heads. */
attn_packed *attn_packed_place(attn_area *area, const attn_attention_dims *d, const attn_kernels *k,
                               size_t heads);
/* Pack those of a head there, by way of scratch [keys, max(score width, Ev)]; false: not all of
 * them are finite. */
bool attn_pack_head(const attn_attention *a, attn_packed *p, size_t set, size_t hkv, void *scratch);
/* Does query row i of head (b, h) see a key or value with one of these marks? */
bool attn_sees_bad(const attn_attention *a, const attn_packed *p, size_t b, size_t h, size_t i,
                   unsigned marks);
/* The largest magnitude of a key or value that is packed as it is: beyond, its products could
 * overflow whatever the other operand is like. */
double attn_most_packed(const attn_kernels *k);

/* Refuse a query row that is not finite and sees a key, unless the inputs allow it. */
attn_status attn_refuse_query(const attn_attention *a, size_t b, size_t h, size_t i,
                              attn_error *err);

/* Fills present_key and present_value, the cache with the new keys behind it, [B, Hkv, S, …], whose
 * memory is there. */
void attn_present(const attn_attention *a, attn_results *out);

#endif
