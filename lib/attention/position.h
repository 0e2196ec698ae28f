/* Positions inside the operation: biases by distance, and Shaw's relative terms. */
#ifndef ATTN_POSITION_H
#define ATTN_POSITION_H

#include <attn/attention.h>

/* Compiled positions. Distances are clipped to [-reach, reach], but T5's. */
typedef struct attn_position_rule {
    bool biases;            /* a bias by head and distance is added to every score */
    const double *slopes;   /* ALIBI: [Hq], and no table */
    const double *table;    /* T5, RELATIVE: [Hq, entries] */
    size_t entries;         /* T5: buckets, RELATIVE: 2 reach + 1 */
    const int64_t *nearest; /* T5: [side] the smallest magnitude of a distance in each bucket */
    size_t side;            /* T5: buckets of distances up to 0 */
    int64_t reach;
    size_t relative;      /* SHAW: 2 reach + 1, else 0 */
    const double *keys;   /* SHAW: [relative, E] */
    const double *values; /* SHAW: [relative, Ev], or NULL */
    double value_reach;   /* the largest magnitude of these */
} attn_position_rule;

/* Check and compile a->in.position into a->rule. */
attn_status attn_position_new(attn_attention *a, attn_arena *arena, attn_error *err);

/* Doubles that its tables take, from shapes alone; SIZE_MAX beyond what can be counted. */
size_t attn_position_doubles(const attn_position *position, size_t H);

/* The entry of a distance in a head's table; distances from there to *last have the same. */
size_t attn_position_entry(const attn_position_rule *rule, int64_t distance, int64_t *last);
/* The bias of one distance j - p for head h. */
double attn_position_bias_at(const attn_position_rule *rule, size_t h, int64_t distance);
/* to[d] = the bias of distance first + d for head h. */
void attn_position_biases(const attn_position_rule *rule, size_t h, int64_t first, size_t n,
                          double *to);

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
