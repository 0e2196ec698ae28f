/* Positions inside the operation: biases by distance, Shaw's relative terms, and rotary pairs. */
#ifndef ATTN_POSITION_RULE_H
#define ATTN_POSITION_RULE_H

#include <attn/attention.h>

/* Compiled positions. All kinds but T5 clip distances to [-max_distance, max_distance]. */
typedef struct attn_position_rule {
    bool biases;            /* a bias by head and distance is added to every score */
    const double *slopes;   /* ALIBI: [Hq], instead of a table */
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

/* Checks a->in.position, whose kind is not ATTN_POSITION_NONE, and compiles it into a->rule. */
attn_status attn_position_new(attn_attention *a, attn_arena *arena, attn_error *err);

/* Computes, from shapes alone, how many doubles the tables of a rule take. Returns SIZE_MAX on
 * overflow. */
size_t attn_position_doubles(const attn_position *position, size_t H);

/* Returns the entry of a distance in a head's table. Distances up to *last have the same entry. */
size_t attn_position_entry(const attn_position_rule *rule, int64_t distance, int64_t *last);
/* Returns the bias of one distance, j - p, for head h. */
double attn_position_bias_at(const attn_position_rule *rule, size_t h, int64_t distance);
/* Computes the biases of n distances for head h: to[d] is that of distance first + d. */
void attn_position_biases(const attn_position_rule *rule, size_t h, int64_t first, size_t n,
                          double *to);

/* In the functions that follow, elements have `elem` bytes: 4 (float) or 8 (double). */

/* Computes to[j] = (from ? from[j] : 0) + the bias of key j0 + j for row i. */
void attn_position_bias(const attn_attention *a, size_t b, size_t h, size_t i, size_t j0, size_t n,
                        size_t elem, const void *from, void *to);

/* Computes SHAW's terms of one query row: terms [relative] = q . key_table. */
void attn_shaw_terms(const attn_attention *a, const void *q, size_t elem, void *terms);
/* Adds SHAW's terms to the raw scores of keys j0 … j0 + n - 1 for row i. */
void attn_shaw_add(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n, size_t elem,
                   const void *terms, void *scores);
/* Sums weights by distance: sums[t] = sums[t] * factor + the weights of the tile's keys at relative
 * distance t. */
void attn_shaw_collect(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n,
                       size_t elem, const void *weights, double factor, void *sums);
/* Adds the sums over SHAW's value table: acc [Ev] += sum over t of sums[t] value_table[t]. */
void attn_shaw_values(const attn_attention *a, size_t elem, const void *sums, void *acc);

/* Computes, for ROTARY, the cosine and sine of each pair's angle at a position. Each array has
 * [rotating coordinates / 2] elements. */
void attn_rotary_angles(const attn_position *p, size_t width, double position, double *cosines,
                        double *sines);
/* Rotates one row [width] in place by these angles. */
void attn_rotary_rotate(const attn_position *p, size_t width, void *row, size_t elem,
                        const double *cosines, const double *sines);

/* Sets *out to x [.., L, D] plus the sinusoidal rows of its positions. Row i of a query has
 * position i + query_offset, and row j of a key or value has position past + j. `projected` gives
 * the shapes of the operation (its tensors need no data) and the mask specification, from which the
 * offset is read. */
attn_status attn_add_positions(const attn_inputs *projected, bool queries, const attn_tensor *x,
                               attn_arena *arena, attn_tensor *out, attn_error *err);

#endif
