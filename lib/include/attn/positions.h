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

/* Fills a sinusoidal table [length, width] in float64; row p is position p. ATTN_EARG with
 * err->where = "width" (odd) or "layout" (unknown). */
attn_status attn_sinusoidal(double *table, size_t length, size_t width, attn_encoding_layout layout,
                            const attn_control *control, attn_error *err);
/* Fills a table [length, width] with the initial values of learned positions: element n in
 * row-major order is std * attn_rng_normal(seed, n). */
attn_status attn_learned(double *table, size_t length, size_t width, double std, uint64_t seed,
                         const attn_control *control, attn_error *err);
/* Fills a table [H, queries, keys] with the biases that ALiBi, T5 or relative positions add to
 * scores. Query 0 has the key position `offset`. The arena holds the biases for each head and
 * bucket or distance. ATTN_EARG: a kind without biases. Other errors are those of
 * attn_attention_new. */
attn_status attn_position_table(const attn_position *position, size_t H, size_t queries,
                                size_t keys, int64_t offset, const attn_control *control,
                                attn_arena *arena, double *table, attn_error *err);
/* Fills the tables of cosines and sines [length, dims / 2], times the factors, for rotary positions
 * 0 … length - 1; layout and start play no part. The arena holds the frequencies. ATTN_EARG at
 * "dims": position->dims is 0 or odd. Other errors are those of attn_attention_new. */
attn_status attn_rotary_table(const attn_position *position, size_t length, double *cosines,
                              double *sines, const attn_control *control, attn_arena *arena,
                              attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
