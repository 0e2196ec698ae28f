/* Rotary positions: pair t of the rotated coordinates turns by the angle position * theta_t. Su et
 * al., "RoFormer: enhanced transformer with rotary position embedding", 2021, equation 34.
 *
 * theta_t is base^(-2t/dims), and the angle is a product of doubles. With `scaling` both are as the
 * library transformers computes them: theta_t in float32, and the angle is the float32 product of
 * both numbers as float32. Given frequencies are multiplied in this way too, unless they are
 * float64. Cosine and sine are those of the angle in double. */
#ifndef ATTN_ROTARY_H
#define ATTN_ROTARY_H

#include <attn/forms.h>
#include <attn/memory.h>
#include <attn/status.h>

/* Compiled rotary positions. Pair t has the coordinates x and x + step, where x is first + stride *
 * t. */
typedef struct attn_rotary_rule {
    const double *frequencies; /* [pairs] theta_t */
    size_t pairs, first, stride, step;
    bool single;   /* angles are float32 products */
    double factor; /* multiplies cosines and sines */
} attn_rotary_rule;

/* Checks the parameters of rotary positions of rows with this width, and compiles them. `length` is
 * the largest key position + 1, which dynamic and longrope scaling read. */
attn_status attn_rotary_new(const attn_position *p, size_t width, double length, attn_arena *arena,
                            attn_rotary_rule *out, attn_error *err);

/* Computes the cosine and the sine of the angle of each pair at a position, times the factor. */
void attn_rotary_angles(const attn_rotary_rule *rule, double position, double *cosines,
                        double *sines);
/* Rotates a row of elements of elem bytes, 4 (float) or 8 (double), in place by these angles. */
void attn_rotary_rotate(const attn_rotary_rule *rule, void *row, size_t elem, const double *cosines,
                        const double *sines);
/* Adds the gradient of a loss with respect to the frequencies to sums [pairs]. `rotated` is a row
 * after its rotation at this position, and `gradient` the gradient with respect to it. */
void attn_rotary_frequency_gradient(const attn_rotary_rule *rule, double position,
                                    const void *rotated, const void *gradient, size_t elem,
                                    double *sums);

#endif
