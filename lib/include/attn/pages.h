/* Page caches: keys and values that lie in a pool of pages of equal size, as in the cache of a
 * server (Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving with
 * PagedAttention", section 4.1). Key j of batch entry b is row j % T of page table[b, j / T], where
 * T is the number of rows of a page. Gathered keys and values are inputs of attn_attention_new, and
 * their gradients are added up to those of the pools. */
#ifndef ATTN_PAGES_H
#define ATTN_PAGES_H

#include "gradients.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The order of axes of a pool: [pages, T, Hkv, E] or [pages, Hkv, T, E]. The names are those of
 * FlashInfer, https://docs.flashinfer.ai. */
typedef enum attn_block_layout { ATTN_NHD, ATTN_HND } attn_block_layout;

/* Which rows of the pool are whose keys. Both tensors hold integers. */
typedef struct attn_pages {
    /* [B, N]: pages of each batch entry, in the order of its keys. Entries behind the last key are
     * not read. A page may be in the table several times. */
    attn_tensor table;
    attn_tensor lengths;      /* [B]: number of keys of each batch entry, at most N * T */
    attn_block_layout layout; /* layout of both pools */
} attn_pages;

/* Computes the shapes of the gathered inputs. in->key [pages, T, Hkv, E] and in->value [pages, T,
 * Hkv, Ev], which may be absent, are pools, and in->query has 4 axes, in the layout ATTN_BHLE or
 * ATTN_BLHE. *out is a copy of *in whose key and value have the shape [B, Hkv, S, E] in that layout
 * and no data; S is the largest length. *bytes (NULL: not wanted) becomes the size of gathered keys
 * and values. Reads the numbers of *pages. Errors: ATTN_ESHAPE, ATTN_EARG, ATTN_EDTYPE, ATTN_EVALUE
 * (a length or a page out of range) and ATTN_ELIMIT; err->where names the field as in JSON requests
 * ("block_table/0/3"). */
attn_status attn_pages_shape(const attn_inputs *in, const attn_pages *pages, attn_inputs *out,
                             size_t *bytes, attn_error *err);
/* Gathers keys and values into dense tensors in the arena; *out is as attn_pages_shape describes
 * it. Rows behind the keys of an entry are zeros, and lengths must hide them. Errors: those of
 * attn_pages_shape, ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_pages_gather(const attn_inputs *in, const attn_pages *pages, attn_pool *pool,
                              const attn_control *control, attn_arena *arena, attn_inputs *out,
                              attn_error *err);
/* Computes the gradients of the pools: that of a row is the sum of those of all keys, or values,
 * that are gathered from it, and rows that nobody reads have 0. `gathered` are the gradients of the
 * inputs of attn_pages_gather. *out has all of them, with key and value in the shapes of the pools,
 * in the arena. Errors: those of attn_pages_gather. */
attn_status attn_pages_backward(const attn_inputs *in, const attn_pages *pages,
                                const attn_gradients *gathered, attn_pool *pool,
                                const attn_control *control, attn_arena *arena, attn_gradients *out,
                                attn_error *err);
/* Returns how many blocks hold the keys, in words: "8 blocks of 16 keys, gathered for 3 batch
 * entries". The inputs are those of a call of attn_pages_shape that succeeded. NULL: the arena,
 * which holds the text, is full. */
const char *attn_pages_words(const attn_inputs *in, const attn_pages *pages, attn_arena *arena);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
