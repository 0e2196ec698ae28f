/* Relative positions inside score and value: Shaw, Uszkoreit and Vaswani, "Self-attention with
 * relative position representations", 2018. Equation 4: e_ij = q_i . (k_j + a^K_{j-i}); equation 3:
 * the output adds sum_j w_ij a^V_{j-i}. Distances are few, so each row takes the product of its
 * query with the table once and collects its weights by distance. */
#include "attention/attention_private.h"

/* Place in the table of key j0 + j for row i of batch b. */
static size_t place(const attn_attention *a, int64_t first, size_t j) {
    const int64_t reach = a->rule.reach, d = first + (int64_t)j;
    return (size_t)((d < -reach ? -reach : d > reach ? reach : d) + reach);
}

static int64_t first_distance(const attn_attention *a, size_t b, size_t i, size_t j0) {
    return (int64_t)j0 - (int64_t)i - attn_mask_offset(a->mask, b);
}

void attn_shaw_terms(const attn_attention *a, const void *q, size_t elem, void *terms) {
    const size_t E = a->dims.score_width;
    for (size_t t = 0; t < a->rule.relative; t++) {
        const double *key = a->rule.keys + t * E;
        double sum = 0;
        for (size_t e = 0; e < E; e++)
            sum +=
                (elem == sizeof(float) ? (double)((const float *)q)[e] : ((const double *)q)[e]) *
                key[e];
        if (elem == sizeof(float))
            ((float *)terms)[t] = (float)sum;
        else
            ((double *)terms)[t] = sum;
    }
}

void attn_shaw_add(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n, size_t elem,
                   const void *terms, void *scores) {
    const int64_t first = first_distance(a, b, i, j0);
    for (size_t j = 0; j < n; j++)
        if (elem == sizeof(float))
            ((float *)scores)[j] += ((const float *)terms)[place(a, first, j)];
        else
            ((double *)scores)[j] += ((const double *)terms)[place(a, first, j)];
}

void attn_shaw_collect(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n,
                       size_t elem, const void *weights, double factor, void *sums) {
    const int64_t first = first_distance(a, b, i, j0);
    for (size_t t = 0; t < a->rule.relative; t++)
        if (elem == sizeof(float))
            ((float *)sums)[t] *= (float)factor;
        else
            ((double *)sums)[t] *= factor;
    for (size_t j = 0; j < n; j++)
        if (elem == sizeof(float))
            ((float *)sums)[place(a, first, j)] += ((const float *)weights)[j];
        else
            ((double *)sums)[place(a, first, j)] += ((const double *)weights)[j];
}

void attn_shaw_values(const attn_attention *a, size_t elem, const void *sums, void *acc) {
    const size_t Ev = a->dims.Ev;
    for (size_t t = 0; t < a->rule.relative; t++) {
        const double w =
            elem == sizeof(float) ? (double)((const float *)sums)[t] : ((const double *)sums)[t];
        const double *value = a->rule.values + t * Ev;
        for (size_t e = 0; w != 0 && e < Ev; e++)
            if (elem == sizeof(float))
                ((float *)acc)[e] += (float)(w * value[e]);
            else
                ((double *)acc)[e] += w * value[e];
    }
}
