/* Each table's kernels of the way back. */
#include <float.h>

#include "kernels/rounds.h"

/* The way back of a tile: weights and gradients of scores, sums over its rows. */
static void back_round(const attn_kernels *k, uint64_t seed) {
    if (k->plain || k->precision != ATTN_PRECISION_FP32)
        return; /* gradients are of plain tables */
    const size_t rows = 1 + pick(seed, 0, k->rows), n = 1 + pick(seed, 1, k->keys);
    const size_t E = 1 + pick(seed, 2, 140), room = attn_acc_room(k, E), cells = rows * k->keys;
    numbers x = numbers_new(rows * E, seed + 1, 1), s = numbers_new(cells, seed + 2, 3);
    numbers z = numbers_new(cells, seed + 3, 1), acc = numbers_new(k->keys * room, seed + 4, 1);
    float *packed = attn_alloc(rows * room * sizeof(float)),
          *tile = attn_alloc(cells * sizeof *tile);
    float *dz = attn_alloc(cells * sizeof *dz), *sums = attn_alloc(k->keys * room * sizeof *sums);
    float *weights = attn_alloc(cells * sizeof *weights);
    double max[48], sum[48], dot[48];
    assert_true(rows <= 48);
    memcpy(tile, s.f.data, cells * sizeof *tile);
    memcpy(dz, z.f.data, cells * sizeof *dz);
    memcpy(sums, acc.f.data, k->keys * room * sizeof *sums);
    const attn_edit as_it_is = {.scale = 1, .lo = 0, .hi = k->keys};
    for (size_t r = 0; r < rows; r++) {
        const double most = 3.5, part = 1 + (double)pick(seed + 5, r, 50);
        k->edit(tile + r * k->keys, n, &as_it_is);
        max[r] = most, dot[r] = attn_rng_normal(seed + 6, r);
        sum[r] = pick(seed + 7, r, 5) ? part : 0;
    }
    const attn_weight_backward back = {.max = max, .sum = sum, .dot = dot, .scale = 0.375};
    k->weight_backward(weights, dz, tile, rows, n, &back);
    const double exponent = rint(3.5 * 0x1.715476p+0), turn = exp2(exponent);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            const size_t at = r * k->keys + j;
            const double p = sum[r] == 0 ? 0 : exp(s.d[at]) / turn / sum[r];
            assert_true(fabs((double)weights[at] - p) <= 4e-7 * p + (double)FLT_MIN);
            const double want = p * (z.d[at] - dot[r]) * back.scale;
            assert_true(fabs((double)dz[at] - want) <= 1e-6 * p * (fabs(z.d[at]) + fabs(dot[r])));
        }
    k->pack_value(packed, x.f.data, E, rows, E);
    const bool begins = pick(seed, 3, 2);
    for (size_t i = 0; begins && i < k->keys * room; i++)
        sums[i] = NAN, acc.d[i] = 0;
    k->accumulate_backward(sums, begins, weights, rows, n, packed, E);
    for (size_t j = 0; j < n; j++)
        for (size_t e = 0; e < E; e++) {
            double want = acc.d[j * room + e], size = fabs(want);
            for (size_t r = 0; r < rows; r++) {
                const double p = (double)weights[r * k->keys + j] * x.d[r * E + e];
                want += p, size += fabs(p);
            }
            assert_true(fabs((double)sums[j * room + e] - want) <= 3e-6 * size);
        }
    attn_free(packed), attn_free(tile), attn_free(dz), attn_free(sums), attn_free(weights);
    numbers_free(&x), numbers_free(&s), numbers_free(&z), numbers_free(&acc);
}

OVER_TABLES(test_back, back_round)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_back),
    };
    return cmocka_run_group_tests_name("kernels of the way back", tests, NULL, NULL);
}
