/* Rotary positions: coordinate pairs turn by position times base^(-2t/dims), pair t of dims / 2.
 * Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021, equation 34. */
#include <math.h>

#include "attention/attention_private.h"

static size_t turning(const attn_position *p, size_t width) {
    return p->dims ? (size_t)p->dims : width;
}

void attn_rotary_angles(const attn_position *p, size_t width, double position, double *cosines,
                        double *sines) {
    const size_t dims = turning(p, width);
    const double base = p->base != 0 ? p->base : 10000;
    for (size_t t = 0; t < dims / 2; t++) {
        const double angle = position * pow(base, -2.0 * (double)t / (double)dims);
        cosines[t] = cos(angle);
        sines[t] = sin(angle);
    }
}

/* (x, y) turned by the angle. */
static void turn(void *row, size_t elem, size_t x, size_t y, double c, double s) {
    if (elem == sizeof(float)) {
        float *r = row;
        const double a = (double)r[x], b = (double)r[y];
        r[x] = (float)(a * c - b * s);
        r[y] = (float)(a * s + b * c);
    } else {
        double *r = row;
        const double a = r[x], b = r[y];
        r[x] = a * c - b * s;
        r[y] = a * s + b * c;
    }
}

void attn_rotary_turn(const attn_position *p, size_t width, void *row, size_t elem,
                      const double *cosines, const double *sines) {
    const size_t pairs = turning(p, width) / 2;
    for (size_t t = 0; t < pairs; t++)
        if (p->rotary == ATTN_ROTARY_INTERLEAVED)
            turn(row, elem, 2 * t, 2 * t + 1, cosines[t], sines[t]);
        else
            turn(row, elem, t, t + pairs, cosines[t], sines[t]);
}
