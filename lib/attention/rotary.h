/* Rotary positions: pair t of the rotated coordinates turns by the angle position * theta_t. Su et
 * al., "RoFormer: enhanced transformer with rotary position embedding", 2021, equation 34.
 *
 * theta_t is base^(-2t/dims), and the angle is a product of doubles. With `scaling` both are
 * computed as in the library transformers: theta_t and the position are rounded to float32, and the
 * angle is their float32 product. This also holds for axes, and for given frequencies unless these
 * are float64. Cosine and sine are computed from the angle in double. */
#ifndef ATTN_ROTARY_H
#define ATTN_ROTARY_H

#include <attn/forms.h>
#include <attn/memory.h>
#include <attn/status.h>

/* Positions of queries or keys on axes: row i of batch entry b has at[x * axis + b * entry + i] on
 * axis x; -infinity: none. */
typedef struct attn_rotary_places {
    const double *at;
    size_t axis, entry;
} attn_rotary_places;

/* Compiled rotary positions. Pair t has the coordinates x and x + step, where x is first + stride *
 * t. */
typedef struct attn_rotary_rule {
    const double *frequencies; /* [pairs] theta_t */
    size_t pairs, first, stride, step;
    size_t axes;         /* 0: all pairs turn by the position of the row in its sequence */
    const uint8_t *axis; /* [pairs] the axis of each pair; NULL: `axes` is 0 */
    attn_rotary_places queries, keys;
    bool single;   /* angles are float32 products */
    double factor; /* multiplies cosines and sines */
} attn_rotary_rule;

/* Checks and compiles the parameters of rotary positions for rows of this width. `length` is the
 * largest key position + 1, which dynamic and longrope scaling read. */
attn_status attn_rotary_new(const attn_position *p, size_t width, double length, attn_arena *arena,
                            attn_rotary_rule *out, attn_error *err);

/* Checks the shapes of the tensors of axes, for L queries and S keys of B batch entries. */
attn_status attn_rotary_axes_check(const attn_rotary_axes *axes, size_t L, size_t S, size_t B,
                                   attn_error *err);
/* Returns how many numbers of 8 bytes the compiled axes hold; SIZE_MAX on overflow. */
size_t attn_rotary_axes_count(const attn_rotary_axes *axes);
/* Reads axes whose shapes have been checked into out->axes, axis, queries and keys. out->pairs must
 * be set. */
attn_status attn_rotary_axes_new(const attn_rotary_axes *axes, attn_arena *arena,
                                 attn_rotary_rule *out, attn_error *err);
/* Returns the largest position of a key on any axis + 1, or 0 if no key has one. */
double attn_rotary_axes_length(const attn_rotary_axes *axes, const attn_rotary_rule *rule);

/* Computes the cosine and the sine of the angle of each pair, times the factor, in a row with the
 * position at[x] on axis x, or at[0] without axes. A cosine of infinity marks a pair that is not
 * rotated, because its axis has no position. */
void attn_rotary_angles(const attn_rotary_rule *rule, const double *at, double *cosines,
                        double *sines);
/* Rotates a row of elements of elem bytes, 4 (float) or 8 (double), in place by these angles. */
void attn_rotary_rotate(const attn_rotary_rule *rule, void *row, size_t elem, const double *cosines,
                        const double *sines);
/* Adds the gradient of a loss with respect to the frequencies to sums [pairs]. `rotated` is a row
 * after its rotation at these positions, and `gradient` the gradient with respect to it. */
void attn_rotary_frequency_gradient(const attn_rotary_rule *rule, const double *at,
                                    const void *rotated, const void *gradient, size_t elem,
                                    double *sums);

#endif
