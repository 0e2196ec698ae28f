/* Tables of vectors by distance, whose products with queries and keys are parts of the scores: Shaw's
 * relative positions and DeBERTa's disentangled attention (ATTN_POSITION_SHAW and
 * ATTN_POSITION_DISENTANGLED of attn/forms.h). All tables of an operation have the same rows. */
#ifndef ATTN_DISTANCE_VECTORS_H
#define ATTN_DISTANCE_VECTORS_H

#include <attn/attention.h>

/* A table [rows, width], or [Hq, rows, width] if each head has its own. */
typedef struct attn_vector_table {
    const double *rows; /* NULL: there is no table */
    size_t width;
    size_t head; /* elements between the rows of neighbouring heads; 0: all heads share the rows */
} attn_vector_table;

/* Returns row t of the table of head h. */
static inline const double *attn_vector_at(const attn_vector_table *table, size_t h, size_t t) {
    return table->rows + h * table->head + t * table->width;
}
/* Returns how many rows the tables of a position have; 0: it has no tables of vectors. */
size_t attn_vector_rows(const attn_position *p);
/* Sets the members of *d that describe the tables of vectors by distance. */
void attn_vectors_resolve(const attn_position *p, attn_attention_dims *d);

/* Returns the operations of the products of queries with the key table, and of weights summed by
 * distance with the value table. */
double attn_vector_operations(const attn_attention_dims *d);

/* Checks the tables of a kind of position that has tables, and compiles them into a->rule. */
attn_status attn_vectors_new(attn_attention *a, attn_arena *arena, attn_error *err);

/* In the functions that follow, a void * is an array whose elements have elem bytes: 4 (float) or 8
 * (double). Row i is query i of head (b, h), and t is a row of the tables.
 *   attn_vector_row      returns t of query i and key j; SIZE_MAX: one of them has no position
 *   attn_vector_terms    terms[t] = q . key_table[t], for one query q [E]
 *   attn_vector_add      scores[j] += terms[t of key j0 + j], for row i and j < n
 *   attn_vector_add_keys scores[j] += keys[j] . query_table[t of key j0 + j], for keys [n, E] with
 *                        the row stride ld; with `clean`, a key that is not finite counts as zeros
 *   attn_vector_collect  sums[t] = sums[t] * factor + the sum of weights[j] of the keys j0 + j at t
 *   attn_vector_values   acc [Ev] += the sum over t of sums[t] * value_table[t] */
size_t attn_vector_row(const attn_attention *a, size_t b, size_t i, size_t j);
void attn_vector_terms(const attn_attention *a, size_t h, const void *q, size_t elem, void *terms);
void attn_vector_add(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n, size_t elem,
                     const void *terms, void *scores);
void attn_vector_add_keys(const attn_attention *a, size_t b, size_t h, size_t i, size_t j0,
                          size_t n, size_t elem, const double *keys, size_t ld, bool clean,
                          void *scores);
void attn_vector_collect(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n,
                         size_t elem, const void *weights, double factor, void *sums);
void attn_vector_values(const attn_attention *a, size_t h, size_t elem, const void *sums,
                        void *acc);

#endif
