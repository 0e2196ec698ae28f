/* The operands of a pass: rows of queries, keys and values, packed keys and values, and the refusal
 * of NaN and infinity. Indices: b batch entry, h query head, hkv key/value head, i query, j key. */
#ifndef ATTN_OPERANDS_H
#define ATTN_OPERANDS_H

#include "attention/resolved.h"

/* Makes a view [B, H, rows, width] of a tensor in a layout. Batch axes of size 1 get stride 0. In
 * the layout ATTN_BLD the stride of heads is the width of a head, which only the caller knows: the
 * function sets it to 0, and the caller must set it. Returns false if there is not enough
 * memory. */
bool attn_layout_view(const attn_attention *a, const attn_tensor *t, attn_layout layout,
                      attn_arena *arena, attn_view *view);

/* Returns rows j0 … j0 + n - 1 of head (b, h) of a sequence whose first `past_rows` rows are in
 * `past` and whose other rows are in `v`. Elements have elem bytes: 4 (float) or 8 (double). If the
 * caller's tensor has such elements, side by side, the result points into it. Else the rows are
 * converted into scratch [n, width]. *ld is the row stride of the result. */
const void *attn_view_rows(const attn_view *past, size_t past_rows, const attn_view *v, size_t b,
                           size_t h, size_t j0, size_t n, size_t width, size_t elem, void *scratch,
                           size_t *ld);

/* These functions return rows of an operation as attn_view_rows does: keys [n, score width], values
 * [n, value width] and queries [n, score width]. Keys and queries are the rows whose products are
 * the scores (attn_attention.score_key, score_query). */
const void *attn_key_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                          size_t elem, void *scratch, size_t *ld);
const void *attn_value_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                            size_t elem, void *scratch, size_t *ld);
/* Returns values [n, Ev] of value head `head` as the caller gave them. */
const void *attn_sent_value_rows(const attn_attention *a, size_t b, size_t head, size_t j0,
                                 size_t n, size_t elem, void *scratch, size_t *ld);
const void *attn_query_rows(const attn_attention *a, size_t b, size_t h, size_t i0, size_t n,
                            size_t elem, void *scratch, size_t *ld);
typedef const void *(*attn_rows_reader)(const attn_attention *a, size_t b, size_t h, size_t j0,
                                        size_t n, size_t elem, void *scratch, size_t *ld);

/* Writes the path of an element of the caller's tensors for errors, such as "key/0/3/1". `which` is
 * 'q' (query), 'k' (key or past_key) or 'v' (value or past_value). With col = ATTN_WHOLE_ROW it
 * writes the path of the row. attn_inputs.projected and one_query shorten the path. */
#define ATTN_WHOLE_ROW SIZE_MAX
void attn_element_path(const attn_attention *a, char which, size_t b, size_t h, size_t row,
                       size_t col, char path[96]);

/* Marks of keys, bits of attn_packed.bad. */
enum {
    ATTN_BAD_KEY = 1,    /* the key has NaN or infinity */
    ATTN_BAD_VALUE = 2,  /* the value of the key has NaN or infinity */
    ATTN_NOT_FINITE = 3, /* either of the above */
    ATTN_TOO_LARGE = 4,  /* the key or its value is too large for the kernel table */
    ATTN_BAD = 7         /* any of the above */
};

/* Packed keys and values. A set has the keys and values of one batch entry. If all batch entries
 * read the same keys and values, there is one set (dims.sets = 1), else there are B. Keys and
 * values that are not finite or too large for the kernel table are packed as zeros and marked.
 * `ref` computes the rows that see a marked key. All other rows get the same results as if the
 * marked keys did not exist. */
typedef struct attn_packed {
    const attn_kernels *kernels;
    size_t tiles;                            /* tiles of keys in a head */
    size_t key_bytes, value_bytes;           /* bytes of one packed tile */
    char *keys, *values;                     /* [sets, Hkv, tiles] packed tiles */
    double *key_magnitude, *value_magnitude; /* [sets, Hkv, tiles]: largest magnitude in a tile */
    uint8_t *bad;                            /* [sets, Hkv, S]: marks */
    _Atomic int any_bad;                     /* a key has a mark */
    bool one_head; /* the arrays hold one head: the one that was packed last */
    /* If `room` > 0, this is a window: it holds `room` tiles, which attn_window_load packs when
     * they are needed. Tile t < pinned of a head has place t, and the other tiles take turns in the
     * other places. A window has no marks. */
    size_t room, pinned;
    /* [room]: 1 + the number of the tile, counted over all heads; 0: the place is empty */
    size_t *held;
} attn_packed;

/* Returns the index of tile `tile` of head (b, hkv) in the arrays of packed tiles. */
static inline size_t attn_packed_tile(const attn_attention *a, const attn_packed *p, size_t b,
                                      size_t hkv, size_t tile) {
    if (p->room)
        return tile < p->pinned ? tile : p->pinned + (tile - p->pinned) % (p->room - p->pinned);
    const size_t head = p->one_head ? 0 : (a->dims.sets == 1 ? 0 : b) * a->dims.Hkv + hkv;
    return head * p->tiles + tile;
}

/* Packs all keys and values in pieces of the pool. Then refuses NaN and infinity that a query sees,
 * unless the inputs allow them. *out is in the arena. */
attn_status attn_pack(attn_attention *a, attn_pool *pool, const attn_control *control,
                      attn_arena *arena, attn_packed **out, attn_error *err);
/* Counts the memory that attn_pack takes, as one array of the area. */
void attn_pack_count(attn_area *area, const attn_attention_dims *d, const attn_kernels *k,
                     size_t slots);
/* Takes memory from the area for the packed keys and values of `heads` heads. */
attn_packed *attn_packed_place(attn_area *area, const attn_attention_dims *d, const attn_kernels *k,
                               size_t heads);
/* Packs the keys and values of one head into p, which holds one head. scratch is
 * [keys, max(score width, Ev)]. Returns false if a number is not finite or too large. The contents
 * of p are then not valid. */
bool attn_pack_head(const attn_attention *a, attn_packed *p, size_t set, size_t hkv, void *scratch);
/* Takes memory from the area for a window of `room` tiles, of which the first `pinned` are kept. */
attn_packed *attn_window_place(attn_area *area, const attn_attention_dims *d, const attn_kernels *k,
                               size_t room, size_t pinned);
/* Packs a tile of head (b, hkv) into a window, unless the window holds the tile. Returns the index
 * of the tile in the arrays of p. scratch is [keys, max(score width, Ev)]. Numbers that are not
 * finite or too large are packed as they are. The caller detects them by the tile's magnitudes. */
size_t attn_window_load(const attn_attention *a, const attn_packed *p, size_t b, size_t hkv,
                        size_t tile, void *scratch);
/* Returns the marks [S] of the keys of head (b, hkv). */
const uint8_t *attn_packed_bad(const attn_attention *a, const attn_packed *p, size_t b, size_t hkv);
/* Returns whether query row i of head (b, h) sees a key or value with one of these marks. */
bool attn_sees_bad(const attn_attention *a, const attn_packed *p, size_t b, size_t h, size_t i,
                   unsigned marks);
/* Returns the limit for the magnitudes of keys and values that are packed as they are. Products
 * with larger numbers could overflow, whatever the query is. */
double attn_most_packed(const attn_kernels *k);

/* Refuses query row i, which is not finite, if it sees a key and the inputs do not allow such
 * numbers. */
attn_status attn_refuse_query(const attn_attention *a, size_t b, size_t h, size_t i,
                              attn_error *err);

/* Fills the results present_key and present_value [B, Hkv, S, width] with the cached rows and the
 * new rows after them. Their memory is allocated already. (operand_results.c) */
void attn_present(const attn_attention *a, attn_results *out);

#endif
