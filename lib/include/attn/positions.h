/* Positional encodings as tables.
 *
 *   sinusoidal  angle(p, i) = p * 10000^(-2i/D), i < D/2    Vaswani et al. 2017, section 3.5
 *               interleaved: sin in column 2i, cos in 2i + 1; halves: sin in i, cos in D/2 + i
 *   learned     the initial table of a learned embedding: normal numbers (attn/rng.h) times std
 */
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

/* Each function that takes `control` may return ATTN_ECANCELED and ATTN_EDEADLINE (NULL: never). */

/* Fills table [length, width] in float64; a row is a position. ATTN_EARG at "width" (odd) or
 * "layout". */
attn_status attn_sinusoidal(double *table, size_t length, size_t width, attn_encoding_layout layout,
                            const attn_control *control, attn_error *err);
/* Fills one row [width] of the interleaved or halved table, for any position, also a negative one.
 * The last column of an odd width is not set. */
void attn_sinusoidal_row(double *row, double position, size_t width, attn_encoding_layout layout);
/* Fills table [length, width]: element n (row-major) is std * attn_rng_normal(seed, n). */
attn_status attn_learned(double *table, size_t length, size_t width, double std, uint64_t seed,
                         const attn_control *control, attn_error *err);
/* Fills table [H, queries, keys] with the bias that ALiBi, T5 or relative positions add. The
 * position of row 0 is key `offset`. The arena holds the bias of each head and bucket or distance.
 * ATTN_EARG for kinds without a bias; other errors are those of the operation. */
attn_status attn_position_table(const attn_position *position, size_t H, size_t queries,
                                size_t keys, int64_t offset, const attn_control *control,
                                attn_arena *arena, double *table, attn_error *err);
/* Fills cosines and sines [length, dims / 2] of the rotary positions 0 … length - 1. ATTN_EARG at
 * "dims": position->dims is 0 or odd. */
attn_status attn_rotary_table(const attn_position *position, size_t length, double *cosines,
                              double *sines, const attn_control *control, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
