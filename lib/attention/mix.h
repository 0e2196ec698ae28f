/* Mixing of heads before the softmax (attn_mix in attn/forms.h).
 *
 * The mixed raw score of head g is a product of wide rows, so the passes know nothing of the mix:
 *
 *   sum over h of M[g][h] q_h . k_j(h)  =  q'_g . k'   with   q'_g = [.., sum over h with j(h) = j
 *                                          of M[g][h] q_h, ..]   and   k' = [k_0, .., k_(Hkv - 1)]
 *
 * j(h) is the key head of head h. A wide row has Hkv * E numbers, part j of which belongs to key head
 * j. A score then takes Hkv times the operations of a score that is not mixed. In return no pass
 * needs the scores of all heads at once: cells, tiles and gradients are those of any operation. */
#ifndef ATTN_MIX_H
#define ATTN_MIX_H

#include "attention/resolved.h"

/* Checks in->mix, and sets the members of *d that depend on it. The score form must be planned. */
attn_status attn_mix_resolve(const attn_inputs *in, attn_attention_dims *d, attn_error *err);
/* Makes the wide rows of the transformed queries and keys, in the arena, as elements of the type
 * dims.result. Sets a->mix and the views of the scores. Returns false if the arena is full. */
bool attn_mix_rows(attn_attention *a, attn_arena *arena);
/* Adds an upper bound of the bytes that attn_mix_rows takes to *bytes. Returns false if the sum
 * exceeds SIZE_MAX. */
bool attn_mix_bytes(const attn_attention_dims *d, size_t *bytes);

/* Computes the backward pass of the wide queries, as elements of `elem` bytes: from their gradients
 * [B, Hq, L, Hkv * E] and the queries [B, Hq, L, E], the gradients of the queries in `to`. Adds
 * those of the matrix to sums [Hq, Hq]. */
void attn_mix_queries_back(const attn_attention *a, size_t elem, const void *grads,
                           const void *queries, void *to, double *sums);
/* Computes the gradients of the keys [B, Hkv, S, E] in `to` from those of the wide keys
 * [B, Hkv, S, Hkv * E], of which each key head has a copy. */
void attn_mix_keys_back(const attn_attention *a, size_t elem, const void *grads, void *to);

#endif
