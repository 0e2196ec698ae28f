/* Mixing of heads before the softmax (attn_mix in attn/forms.h).
 *
 * The mixed raw score of head g is a product of wide rows, so the passes need not know that heads
 * are mixed:
 *
 *   sum over h of M[g][h] q_h . k_j(h)  =  q'_g . k'   with   q'_g = [.., sum over h with j(h) = j
 *                                          of M[g][h] q_h, ..]   and   k' = [k_0, .., k_(Hkv - 1)]
 *
 * j(h) is the key head of head h. A wide row has Hkv * E numbers, part j of which belongs to key
 * head j. A score then takes Hkv times the operations of a score that is not mixed. In return no
 * pass needs the scores of all heads at once, so cells, tiles and gradients are computed as in any
 * other operation. */
#ifndef ATTN_MIX_H
#define ATTN_MIX_H

#include "attention/resolved.h"

/* MIX_ROWS: rows of a batch entry that a piece makes. MIX_TOGETHER: numbers that are added up
 * together. */
enum { ATTN_MIX_ROWS = 32, ATTN_MIX_TOGETHER = 64 };

/* Rows first … end - 1 of batch entry b. */
typedef struct attn_mix_piece {
    size_t b, first, end;
} attn_mix_piece;

/* Returns the number of pieces for `rows` rows of each of `batches` batch entries. */
static inline size_t attn_mix_pieces(size_t batches, size_t rows) {
    return batches * ((rows + ATTN_MIX_ROWS - 1) / ATTN_MIX_ROWS);
}

/* Returns piece `index` of batch entries of `rows` rows. */
static inline attn_mix_piece attn_mix_piece_of(size_t index, size_t rows) {
    const size_t pieces = attn_mix_pieces(1, rows), first = index % pieces * ATTN_MIX_ROWS;
    const size_t left = rows - first;
    return (attn_mix_piece){index / pieces, first,
                            first + (left < ATTN_MIX_ROWS ? left : ATTN_MIX_ROWS)};
}

/* Adds an upper bound of the bytes of an area to *bytes. Returns false if the sum exceeds
 * SIZE_MAX. */
static inline bool attn_mix_area_bytes(const attn_area *counted, size_t *bytes) {
    return !counted->overflow && attn_size_add(*bytes, counted->used, bytes) &&
           attn_size_add(*bytes, ATTN_ALIGN, bytes);
}

/* Checks in->mix, and sets the members of *d that depend on it. The score form must be planned. */
attn_status attn_mix_resolve(const attn_inputs *in, attn_attention_dims *d, attn_error *err);
/* Makes the wide rows of the transformed queries and keys, in the arena, as elements of the type
 * dims.result. Uses the pool and the control of the inputs. Sets a->mix and the views of the
 * scores. */
attn_status attn_mix_rows(attn_attention *a, attn_arena *arena, attn_error *err);
/* Adds an upper bound of the bytes that attn_mix_rows takes to *bytes. Returns false if the sum
 * exceeds SIZE_MAX. */
bool attn_mix_bytes(const attn_attention_dims *d, size_t *bytes);

/* The backward pass of the wide rows. All arrays have elements of `elem` bytes. */
typedef struct attn_mix_back {
    const attn_attention *a;
    const attn_control *control;
    size_t elem;
    const void *wide_queries; /* [B, Hq, L, Hkv * E]: the gradients of the wide queries */
    /* [B, Hkv, S, Hkv * E]: the gradients of the copy of the keys that each key head has */
    const void *wide_keys;
    const void *queries; /* [B, Hq, L, E]: the queries before they were mixed */
    /* out: gradients [B, Hq, L, E], which the caller has zeroed, and [B, Hkv, S, E] */
    void *dquery, *dkey;
    double *sums; /* [Hq, Hq]: the gradient of the matrix is added to it */
} attn_mix_back;

/* Computes m->dquery, m->dkey and m->sums. The sums do not depend on the pool. */
attn_status attn_mix_rows_back(attn_mix_back *m, attn_pool *pool, attn_error *err);

#endif
