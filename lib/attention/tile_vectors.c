/* The terms of tables of vectors by distance in the scores and the output of a block (tile_pass.h,
 * distance_vectors.h). */
#include "attention/tile_pass.h"

void attn_block_terms(const attn_attention *a, const attn_block *block, const void *q, size_t ldq,
                      attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    for (size_t r = 0; a->rule.keys.rows && r < block->rows; r++)
        attn_vector_terms(a, block->h, (const char *)q + r * ldq * k->elem, k->elem,
                          attn_row_of(w->terms, r, a->rule.relative, k));
}

void attn_block_add_vectors(const attn_attention *a, const attn_block *block, size_t j0, size_t n,
                            bool clean, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const double *keys = NULL;
    size_t ld = 0;
    if (a->rule.queries.rows)
        keys = attn_key_rows(a, block->b, attn_kv_head(a, block->h), j0, n, sizeof *keys,
                             w->key_rows, &ld);
    for (size_t r = 0; r < block->rows; r++) {
        void *scores = attn_row_of(w->tile, r, k->keys, k);
        if (a->rule.keys.rows)
            attn_vector_add(a, block->b, block->i + r, j0, n, k->elem,
                            attn_row_of(w->terms, r, a->rule.relative, k), scores);
        if (keys)
            attn_vector_add_keys(a, block->b, block->h, block->i + r, j0, n, k->elem, keys, ld,
                                 clean, scores);
    }
}

void attn_block_collect_vectors(const attn_attention *a, const attn_block *block, size_t j0,
                                size_t n, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    for (size_t r = 0; r < block->rows; r++)
        attn_vector_collect(
            a, block->b, block->i + r, j0, n, k->elem, attn_row_of(w->tile, r, k->keys, k),
            attn_element(w->factor, k->elem, r), attn_row_of(w->term_sums, r, a->rule.relative, k));
}

void attn_block_add_terms(const attn_attention *a, const attn_block *block, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    for (size_t r = 0; a->rule.values.rows && r < block->rows; r++)
        attn_vector_values(a, block->h, k->elem, attn_row_of(w->term_sums, r, a->rule.relative, k),
                           attn_row_of(w->acc, r, attn_acc_room(k, a->dims.value_width), k));
}
