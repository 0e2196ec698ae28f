/* The operands: rows of queries, keys and values as the caller stored them, packed keys and values,
 * and the refusal of NaN and infinity. */
#ifndef ATTN_OPERANDS_H
#define ATTN_OPERANDS_H

#include "attention/resolved.h"

/* Makes a view [B, H, rows, width] of a tensor in a layout. Batch axes of size 1 get stride 0. For
 * ATTN_BLD the head stride is set to 0, and the caller, who knows the width, must set it. false:
 * out of memory. */
bool attn_layout_view(const attn_attention *a, const attn_tensor *t, attn_layout layout,
                      attn_arena *arena, attn_view *view);

/* Returns rows j0 … j0 + n - 1 of a sequence whose first `past_rows` rows are in `past`, as
 * elements of `elem` bytes. The result points into the caller's tensor if the rows can be read in
 * place, else to scratch [n, width], into which they are converted. *ld is the row stride. */
const void *attn_view_rows(const attn_view *past, size_t past_rows, const attn_view *v, size_t b,
                           size_t h, size_t j0, size_t n, size_t width, size_t elem, void *scratch,
                           size_t *ld);

/* Reads rows in the same way: keys and queries in the form that the product reads, and values. */
const void *attn_key_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                          size_t elem, void *scratch, size_t *ld);
const void *attn_value_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                            size_t elem, void *scratch, size_t *ld);
const void *attn_query_rows(const attn_attention *a, size_t b, size_t h, size_t i0, size_t n,
                            size_t elem, void *scratch, size_t *ld);

/* Writes the path of an element in the caller's request, such as "key/0/3/1". `which` is 'q', 'k'
 * or 'v'. */
void attn_element_path(const attn_attention *a, char which, size_t b, size_t h, size_t row,
                       size_t col, char path[96]);

/* Marks for what is wrong with a key or its value: bits of attn_packed.bad. */
enum {
    ATTN_BAD_KEY = 1,
    ATTN_BAD_VALUE = 2,
    ATTN_NOT_FINITE = 3,
    ATTN_TOO_LARGE = 4,
    ATTN_BAD = 7
};

/* Packed operands of the key/value heads; tile t of a head is found by (set, hkv). Rows that are
 * not finite or too large for the kernel table are packed as zeros and marked. A query row that
 * sees a marked key or value is computed by `ref`. Other query rows give the same results as
 * without the marked rows. */
typedef struct attn_packed {
    const attn_kernels *kernels;
    size_t tiles;                            /* number of tiles in each head */
    size_t key_bytes, value_bytes;           /* bytes of one tile */
    char *keys, *values;                     /* [sets, Hkv, tiles] */
    double *key_magnitude, *value_magnitude; /* [sets, Hkv, tiles]: largest magnitudes */
    uint8_t *bad;                            /* [sets, Hkv, S] */
    _Atomic int any_bad;
    bool one_head; /* the memory holds only one head at a time */
} attn_packed;

/* Returns the index of tile `tile` of a head in the packed operands. */
static inline size_t attn_packed_tile(const attn_attention *a, const attn_packed *p, size_t b,
                                      size_t hkv, size_t tile) {
    const size_t head = p->one_head ? 0 : (a->dims.sets == 1 ? 0 : b) * a->dims.Hkv + hkv;
    return head * p->tiles + tile;
}

/* Packs all keys and values over the pool, then refuses NaN and infinity that a query sees. */
attn_status attn_pack(attn_attention *a, attn_pool *pool, const attn_control *control,
                      attn_arena *arena, attn_packed **out, attn_error *err);
/* Counts the bytes that attn_pack takes, as one block of an area. */
void attn_pack_count(attn_area *area, const attn_attention_dims *d, const attn_kernels *k,
                     size_t slots);
/* Takes memory from the area for the packed operands of `heads` heads. */
attn_packed *attn_packed_place(attn_area *area, const attn_attention_dims *d, const attn_kernels *k,
                               size_t heads);
/* Packs the keys and values of one head into p. Its scratch has the size [keys, max(score width,
 * Ev)]. false: some of them are not finite. */
bool attn_pack_head(const attn_attention *a, attn_packed *p, size_t set, size_t hkv, void *scratch);
/* Returns whether query row i of head (b, h) sees a key or value with one of these marks. */
bool attn_sees_bad(const attn_attention *a, const attn_packed *p, size_t b, size_t h, size_t i,
                   unsigned marks);
/* Returns the largest magnitude of a key or value that is packed unchanged. The products of a
 * larger one could overflow whatever the other operand is. */
double attn_most_packed(const attn_kernels *k);

/* Refuses a query row that is not finite and sees a key, unless the inputs allow it. */
attn_status attn_refuse_query(const attn_attention *a, size_t b, size_t h, size_t i,
                              attn_error *err);

/* Fills present_key and present_value [B, Hkv, S, …] with the cache and the new rows after it.
 * Their memory is allocated already. */
void attn_present(const attn_attention *a, attn_results *out);

#endif
