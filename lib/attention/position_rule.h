/* Positions inside the operation: biases by distance (ALiBi, T5, relative tables), tables of vectors by
 * distance (distance_vectors.h), and rotary positions (rotary.h). The distance of a query at position
 * p and a key j is j - p. */
#ifndef ATTN_POSITION_RULE_H
#define ATTN_POSITION_RULE_H

#include <attn/attention.h>

#include "attention/distance_vectors.h"
#include "attention/rotary.h"

/* Compiled positions. A member is 0 or NULL for the kinds that do not use it. */
typedef struct attn_position_rule {
    bool biases;          /* ALIBI, T5, RELATIVE: every score gets a bias by head and distance */
    const double *slopes; /* ALIBI: [Hq]; the bias is -slope * |distance| */
    const double *table;  /* T5, RELATIVE: [Hq, entries] biases */
    size_t entries;       /* T5: number of buckets; RELATIVE: 2 * max_distance + 1 */
    /* T5, DISENTANGLED: [side], the smallest |distance| in each bucket */
    const int64_t *nearest;
    size_t side; /* number of buckets for distances <= 0 */
    int64_t
        max_distance; /* RELATIVE, SHAW, DISENTANGLED: distances are clipped to ± max_distance */
    size_t relative;  /* SHAW, DISENTANGLED: rows of the tables of vectors */
    bool from_key;    /* DISENTANGLED: the rows are in the order of p - j */
    attn_vector_table keys, queries,
        values;             /* SHAW, DISENTANGLED: [relative, E], values [.., Ev] */
    double value_magnitude; /* SHAW: the largest magnitude in `values` */
    attn_rotary_rule rotary;
} attn_position_rule;

/* Returns the position that changes scores, if there is one; else `position`, of another kind. */
static inline const attn_position *attn_score_position(const attn_inputs *in) {
    return in->score_position.kind ? &in->score_position : &in->position;
}
/* Returns whether a kind of position changes the scores rather than the queries and keys. */
static inline bool attn_position_scores(attn_position_kind kind) {
    return kind >= ATTN_POSITION_ALIBI && kind <= ATTN_POSITION_DISENTANGLED;
}
/* Returns whether the positions of rows in their sequences are read. All kinds read them, except
 * rotary positions on axes. */
static inline bool attn_position_reads(const attn_inputs *in) {
    return in->score_position.kind || (in->position.kind && !in->position.axes.pairs.rank);
}
/* Checks that the second kind of position may be combined with the first. Error: ATTN_EARG. */
attn_status attn_position_pair_check(const attn_inputs *in, attn_error *err);

/* Checks both kinds of a->in and compiles them into a->rule. */
attn_status attn_position_new(attn_attention *a, attn_arena *arena, attn_error *err);

/* Returns an upper bound for how many numbers the tables of a rule for H heads hold, from shapes
 * alone, or SIZE_MAX on overflow. */
size_t attn_position_doubles(const attn_position *position, size_t H);

/* Returns the index of a distance among the entries of a head's table. The distances from
 * `distance` to *last have the same entry. */
size_t attn_position_entry(const attn_position_rule *rule, int64_t distance, int64_t *last);
/* Returns the row of a distance in the tables of vectors; SIZE_MAX: ATTN_NO_POSITION. */
size_t attn_position_row(const attn_position_rule *rule, int64_t distance);
/* Returns the bias of a distance for head h. */
double attn_position_bias_at(const attn_position_rule *rule, size_t h, int64_t distance);
/* Computes n biases for head h: to[d] is the bias of distance first + d. */
void attn_position_biases(const attn_position_rule *rule, size_t h, int64_t first, size_t n,
                          double *to);

/* Sets to[j] to from[j] plus the bias of key j0 + j for query i of batch entry b, for j < n. Elements
 * have elem bytes: 4 (float) or 8 (double). NULL as `from` means zeros. */
void attn_position_bias(const attn_attention *a, size_t b, size_t h, size_t i, size_t j0, size_t n,
                        size_t elem, const void *from, void *to);

/* Makes rule.nearest and rule.side of a->rule for `side` buckets of T5 or of disentangled attention.
 * Returns false if there is not enough memory. */
bool attn_position_nearest(attn_attention *a, size_t side, attn_arena *arena);
/* Returns the bucket of n >= 0: the last one that begins at or before n. */
size_t attn_position_bucket(const attn_position_rule *rule, int64_t n);

/* Returns the distance from which all keys share T5's last bucket. */
int64_t attn_t5_distance(const attn_position *p);
/* Returns the T5 bucket of a distance j - p, in [0, buckets). `buckets` is at least 2 if
 * unidirectional; else it is even and at least 4. max_distance must be above half the buckets of
 * one side. */
size_t attn_t5_bucket(int64_t distance, size_t buckets, int64_t max_distance, bool unidirectional);

#endif
