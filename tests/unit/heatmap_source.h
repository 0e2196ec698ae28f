/* Random softmax matrices in memory, as a source of heatmaps. */
#ifndef TEST_HEATMAP_SOURCE_H
#define TEST_HEATMAP_SOURCE_H

#include <math.h>
#include <stdlib.h>

#include "attn/heatmap.h"
#include "attn/rng.h"

typedef struct matrix {
    size_t B, H, L, S;
    float *weights, *logits; /* [B, H, L, S] */
    size_t fail_row;         /* fetching it fails; SIZE_MAX = none */
} matrix;

static inline attn_status fetch(void *ctx, size_t lane, const attn_range *r, float *weights,
                                float *logits, attn_error *err) {
    (void)lane;
    const matrix *m = ctx;
    if (m->fail_row >= r->row && m->fail_row < r->row + r->rows)
        return attn_fail(err, ATTN_EVALUE, "source", "row %zu", m->fail_row);
    size_t at = ((r->batch * m->H + r->head) * m->L + r->row) * m->S + r->col;
    for (size_t i = 0; i < r->rows; i++)
        for (size_t j = 0; j < r->cols; j++) {
            weights[i * r->cols + j] = m->weights[at + i * m->S + j];
            if (m->logits)
                logits[i * r->cols + j] = m->logits[at + i * m->S + j];
        }
    return ATTN_OK;
}

static inline attn_weight_source source_of(matrix *m) {
    return (attn_weight_source){m->B,  m->H, m->L, m->S,  m->logits != NULL,
                                fetch, m,    NULL, false, false};
}

/* Softmax rows of normal logits with some keys, and some whole rows, hidden. */
static inline matrix matrix_new(size_t B, size_t H, size_t L, size_t S, double hidden,
                                uint64_t seed) {
    matrix m = {B, H, L, S, NULL, NULL, SIZE_MAX};
    size_t n = B * H * L * S;
    m.weights = calloc(n + 1, sizeof(float));
    m.logits = calloc(n + 1, sizeof(float));
    for (size_t row = 0; row < B * H * L; row++) {
        float *w = m.weights + row * S, *l = m.logits + row * S;
        bool blind = attn_rng_uniform(seed + 2, row) < hidden / 4;
        double top = -INFINITY, sum = 0;
        for (size_t j = 0; j < S; j++) {
            l[j] = (float)(3 * attn_rng_normal(seed, row * S + j));
            if (blind || attn_rng_uniform(seed + 1, row * S + j) < hidden)
                l[j] = -INFINITY;
            top = fmax(top, l[j]);
        }
        for (size_t j = 0; j < S; j++)
            sum += l[j] == -INFINITY ? 0 : exp(l[j] - top);
        for (size_t j = 0; j < S; j++)
            w[j] = l[j] == -INFINITY ? 0 : (float)(exp(l[j] - top) / sum);
    }
    return m;
}

static inline void matrix_free(matrix *m) {
    free(m->weights);
    free(m->logits);
}

static inline const float *row_of(const matrix *m, const float *all, size_t b, size_t h, size_t i) {
    return all + ((b * m->H + h) * m->L + i) * m->S;
}

/* One weight of one head, or of the mean over heads (head SIZE_MAX). */
static inline bool weight_of(const matrix *m, size_t b, size_t head, size_t i, size_t j,
                             double *value) {
    size_t from = head == SIZE_MAX ? 0 : head, to = head == SIZE_MAX ? m->H : head + 1;
    bool visible = false;
    double sum = 0;
    for (size_t h = from; h < to; h++) {
        visible |= row_of(m, m->logits, b, h, i)[j] != -INFINITY;
        sum += row_of(m, m->weights, b, h, i)[j];
    }
    *value = (double)(float)(sum / (double)(to - from));
    return visible;
}

static inline size_t pick(uint64_t seed, uint64_t index, size_t low, size_t high) {
    return low + (size_t)(attn_rng_bits(seed, index) % (high - low + 1));
}

#endif
