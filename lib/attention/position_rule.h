/* Positions inside the operation: biases by distance, Shaw's relative terms, rotary pairs. */
#ifndef ATTN_POSITION_RULE_H
#define ATTN_POSITION_RULE_H

#include <attn/attention.h>

/* Compiled positions. All kinds but T5 clip distances to [-max_distance, max_distance]. */
typedef struct attn_position_rule {
    bool biases;            /* a bias by head and distance is added to every score */
    const double *slopes;   /* ALIBI: [Hq], and no table */
    const double *table;    /* T5, RELATIVE: [Hq, entries] */
    size_t entries;         /* T5: buckets, RELATIVE: 2 max_distance + 1 */
    const int64_t *nearest; /* T5: [side] the smallest magnitude of a distance in each bucket */
    size_t side;            /* T5: buckets of distances up to 0 */
    int64_t max_distance;
    size_t relative;        /* SHAW: 2 max_distance + 1, else 0 */
    const double *keys;     /* SHAW: [relative, E] */
    const double *values;   /* SHAW: [relative, Ev], or NULL */
    double value_magnitude; /* the largest magnitude in `values` */
} attn_position_rule;

/* Checks a->in.position, which is not ATTN_POSITION_NONE, and compiles it into a->rule. */
attn_status attn_position_new(attn_attention *a, attn_arena *arena, attn_error *err);

/* The number of doubles that the tables of a rule take, from shapes alone; SIZE_MAX on overflow. */
size_t attn_position_doubles(const attn_position *position, size_t H);

/* The entry of a distance in a head's table. Distances up to *last have the same entry. */
size_t attn_position_entry(const attn_position_rule *rule, int64_t distance, int64_t *last);
/* The bias of one distance j - p for head h. */
double attn_position_bias_at(const attn_position_rule *rule, size_t h, int64_t distance);
/* to[d] = the bias of distance first + d for head h. */
void attn_position_biases(const attn_position_rule *rule, size_t h, int64_t first, size_t n,
                          double *to);

/* In the following, elements have `elem` bytes: 4 (float) or 8 (double). */

/* to[j] = (from ? from[j] : 0) + bias of key j0 + j for row i. */
void attn_position_bias(const attn_attention *a, size_t b, size_t h, size_t i, size_t j0, size_t n,
                        size_t elem, const void *from, void *to);

/* SHAW, for one row i of a block: terms [relative] = q . key_table. */
void attn_shaw_terms(const attn_attention *a, const void *q, size_t elem, void *terms);
/* Adds the terms to the raw scores of keys j0 … j0 + n - 1. */
void attn_shaw_add(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n, size_t elem,
                   const void *terms, void *scores);
/* sums[t] = sums[t] * factor + the weights of the tile's keys at relative distance t. */
void attn_shaw_collect(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n,
                       size_t elem, const void *weights, double factor, void *sums);
/* acc [Ev] += sum_t sums[t] value_table[t]. */
void attn_shaw_values(const attn_attention *a, size_t elem, const void *sums, void *acc);

/* ROTARY: the cosine and sine of each pair's angle at a position, [rotating coordinates / 2] each.
 */
void attn_rotary_angles(const attn_position *p, size_t width, double position, double *cosines,
                        double *sines);
/* Rotates one row [width] in place by such angles. */
void attn_rotary_rotate(const attn_position *p, size_t width, void *row, size_t elem,
                        const double *cosines, const double *sines);

/* *out = x [.., L, D] plus the sinusoidal rows of its positions: i + query_offset for queries, past
 * + j for keys and values. `projected` gives the shapes of the operation (its tensors need no data)
 * and the mask spec, of which the offset is read. */
attn_status attn_add_positions(const attn_inputs *projected, bool queries, const attn_tensor *x,
                               attn_arena *arena, attn_tensor *out, attn_error *err);

#endif
