/* Positional encodings as tables.
 *
 *   sinusoidal  angle(p, i) = p * 10000^(-2i/D), i < D/2    Vaswani et al. 2017, section 3.5
 *               interleaved: sin in column 2i, cos in 2i + 1; halves: sin in i, cos in D/2 + i
 *   learned     initial values of a learned table: normal numbers (attn/rng.h) times `std`
 *
 * A function with a parameter `control` can return ATTN_ECANCELED and ATTN_EDEADLINE; control may
 * be NULL. Any thread may call these functions. */
#ifndef ATTN_POSITIONS_H
#define ATTN_POSITIONS_H

#include "forms.h"
#include "memory.h"
#include "pool.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum attn_encoding_layout {
    ATTN_ENCODING_INTERLEAVED = 0,
    ATTN_ENCODING_HALVES
} attn_encoding_layout;

/* In the functions below, row `row` of a table has the position positions[row], or the position
 * `row` if `positions` is NULL. A row with ATTN_NO_POSITION has no encoding: its elements are 0,
 * and cosines are 1. */

/* Fills a sinusoidal table [length, width] in float64. ATTN_EARG with
 * err->where = "width" (odd) or "layout" (unknown). */
attn_status attn_sinusoidal(double *table, const int64_t *positions, size_t length, size_t width,
                            attn_encoding_layout layout, const attn_control *control,
                            attn_error *err);
/* Fills a table [length, width] with the initial values of learned positions: element i of position
 * p is std * attn_rng_normal(seed, p * width + i). Positions are not negative, and p * width must
 * not overflow. */
attn_status attn_learned(double *table, const int64_t *positions, size_t length, size_t width,
                         double std, uint64_t seed, const attn_control *control, attn_error *err);
/* Fills a table [H, queries, keys] with the biases that ALiBi, T5 or relative positions add to
 * scores. Cell (i, j) belongs to query_positions[i] and key_positions[j]. NULL: query i has the key
 * position i + `offset`, and key j the position j. The arena holds the biases for each head and
 * bucket or distance. ATTN_EARG: a kind without biases. Other errors are those of
 * attn_attention_new. */
attn_status attn_position_table(const attn_position *position, size_t H,
                                const int64_t *query_positions, const int64_t *key_positions,
                                size_t queries, size_t keys, int64_t offset,
                                const attn_control *control, attn_arena *arena, double *table,
                                attn_error *err);
/* Fills a table [queries, keys, E] with the vectors that Shaw's relative positions or disentangled
 * attention have for distances. They are rows of the table of head `head` of key_table or, without
 * it, of query_table. A cell without a distance is zeros. Positions are those of
 * attn_position_table. The arena holds the tables in float64. ATTN_EARG: a kind without vectors, or
 * a head that a table with a head axis lacks (err->where = "head"). Other errors are those of
 * attn_attention_new. */
attn_status attn_position_vectors(const attn_position *position, size_t head,
                                  const int64_t *query_positions, const int64_t *key_positions,
                                  size_t queries, size_t keys, int64_t offset,
                                  const attn_control *control, attn_arena *arena, double *table,
                                  attn_error *err);
/* Fills the tables of cosines and sines [length, dims / 2], times the factors, for rotary positions;
 * layout and start play no part. With axes the rows have the positions axes.query_positions [axes,
 * length], and axes.key_positions are the same. The arena holds the frequencies. ATTN_EARG at
 * "dims": position->dims is 0 or odd. Other errors are those of attn_attention_new. */
attn_status attn_rotary_table(const attn_position *position, const int64_t *positions,
                              size_t length, double *cosines, double *sines,
                              const attn_control *control, attn_arena *arena, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
