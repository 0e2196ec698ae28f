/* Positions inside the operation: biases by distance, and Shaw's relative terms. */
#ifndef ATTN_POSITION_H
#define ATTN_POSITION_H

#include <attn/attention.h>

/* Compiled positions. Distances are clipped to [-reach, reach]. */
typedef struct attn_position_rule {
    bool biases;          /* a bias by head and distance is added to every score */
    const double *slopes; /* ALIBI: [Hq], and no table */
    const double *table;  /* T5, RELATIVE: [Hq, 2 reach + 1] */
    int64_t reach;
    size_t relative;      /* SHAW: 2 reach + 1, else 0 */
    const double *keys;   /* SHAW: [relative, E] */
    const double *values; /* SHAW: [relative, Ev], or NULL */
    double value_reach;   /* the largest magnitude of these */
} attn_position_rule;

/* Check and compile a->in.position into a->rule. */
attn_status attn_position_new(attn_attention *a, attn_arena *arena, attn_error *err);

/* The bias of one distance j - p for head h. */
double attn_position_bias_at(const attn_position_rule *rule, size_t h, int64_t distance);

/* In the following, elements are of `elem` bytes: 4 float, 8 double. */

/* to[j] = (from ? from[j] : 0) + bias of key j0 + j for row i. */
void attn_position_bias(const attn_attention *a, size_t b, size_t h, size_t i, size_t j0, size_t n,
                        size_t elem, const void *from, void *to);

/* SHAW, for one row i of a block. terms [relative] = q . key_table. */
void attn_shaw_terms(const attn_attention *a, const void *q, size_t elem, void *terms);
/* Add the terms to the raw scores of keys j0 …. */
void attn_shaw_add(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n, size_t elem,
                   const void *terms, void *scores);
/* sums[t] = sums[t] * factor + the weights of the tile's keys at relative place t. */
void attn_shaw_collect(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n,
                       size_t elem, const void *weights, double factor, void *sums);
/* acc [Ev] += sum_t sums[t] value_table[t]. */
void attn_shaw_values(const attn_attention *a, size_t elem, const void *sums, void *acc);

#endif
