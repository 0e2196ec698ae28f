/* Each table's kernels of the way forward against `ref`, at odd sizes, with every input flush
 * against a page that must not be touched. */
#include <float.h>

#include "kernels/rounds.h"

enum { MOST = 130 };

/* --- score: packed keys, every row count, every tail --- */

/* Scores of raw queries, which some tables pack first. */
static void score_raw(const attn_kernels *k, void *tile, const float *q, size_t rows,
                      const void *packed_key, size_t n, size_t E) {
    if (!k->pack_query) {
        k->score(tile, q, E, rows, packed_key, n, E, 1);
        return;
    }
    void *packed = attn_alloc(attn_query_room(k, rows, E) * k->elem + 1);
    k->pack_query(packed, q, E, rows, E);
    k->score(tile, packed, E, rows, packed_key, n, E, 1);
    attn_free(packed);
}

static void score_round(const attn_kernels *k, uint64_t seed) {
    const size_t most = k->keys < ref->keys ? k->keys : ref->keys;
    const size_t n = 1 + pick(seed, 0, most), E = pick(seed, 1, MOST), rows = 1 + pick(seed, 2, 16);
    numbers q = numbers_new(rows * E, seed, 1), key = numbers_new(n * E, seed + 1, 1);
    void *packed = attn_alloc(attn_key_room(k, E) * k->elem),
         *packed_ref = attn_alloc(attn_key_room(ref, E) * 8);
    float *tile = tile_of(k, rows);
    double *truth = tile_of(ref, rows);
    k->pack_key(packed, key.f.data, E, n, E);
    ref->pack_key(packed_ref, key.d, E, n, E);
    score_raw(k, tile, q.f.data, rows, packed, n, E);
    ref->score(truth, q.d, E, rows, packed_ref, n, E, 1);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++)
            near((double)tile[r * k->keys + j], truth[r * ref->keys + j], sqrt((double)E), 2e-6);
    attn_free(packed), attn_free(packed_ref), attn_free(tile), attn_free(truth);
    numbers_free(&q), numbers_free(&key);
}

/* A score is the same in every tile, row and call. */
static void score_is_pure(const attn_kernels *k, uint64_t seed) {
    const size_t n = k->keys, E = 1 + pick(seed, 1, MOST), rows = k->rows;
    numbers q = numbers_new(rows * E, seed, 1), key = numbers_new(n * E, seed + 1, 1);
    char *packed = attn_alloc(attn_key_room(k, E) * k->elem);
    float *all = tile_of(k, rows), *one = tile_of(k, 1);
    k->pack_key(packed, key.f.data, E, n, E);
    score_raw(k, all, q.f.data, rows, packed, n, E);
    for (size_t trial = 0; trial < 20; trial++) {
        size_t r = pick(seed, 10 + trial, rows), j = pick(seed, 40 + trial, n);
        k->pack_key(packed, (float *)key.f.data + j * E, E, 1, E);
        score_raw(k, one, (float *)q.f.data + r * E, 1, packed, 1, E);
        assert_memory_equal(&one[0], &all[r * k->keys + j], sizeof(float));
    }
    attn_free(packed), attn_free(all), attn_free(one);
    numbers_free(&q), numbers_free(&key);
}

/* --- edit --- */

static void edit_round(const attn_kernels *k, uint64_t seed) {
    const size_t most = k->keys < ref->keys ? k->keys : ref->keys, n = 1 + pick(seed, 0, most);
    numbers s = numbers_new(n, seed, 4), bias = numbers_new(n, seed + 1, 1);
    guarded keep = guarded_new(n);
    float *row = tile_of(k, 1);
    double *truth = tile_of(ref, 1);
    attn_edit e = {.scale = 0.37f, .lo = 0, .hi = n};
    for (size_t j = 0; j < n; j++) {
        ((uint8_t *)keep.data)[j] = pick(seed + 2, j, 3) > 0;
        if (pick(seed + 3, j, 5) == 0)
            ((float *)bias.f.data)[j] = -INFINITY, bias.d[j] = -INFINITY;
    }
    memcpy(row, s.f.data, n * sizeof(float));
    memcpy(truth, s.d, n * sizeof(double));
    if (pick(seed, 4, 2))
        e.softcap = 1.5;
    if (pick(seed, 5, 2))
        e.lo = pick(seed, 6, n), e.hi = e.lo + pick(seed, 7, n - e.lo + 1);
    if (pick(seed, 8, 2))
        e.keep = keep.data;
    e.fill = (int)pick(seed, 9, 3);
    e.fill_value = -1000;
    attn_edit ef = e, ed = e;
    if (pick(seed, 10, 2))
        ef.bias = bias.f.data, ed.bias = bias.d;
    k->edit(row, n, &ef);
    ref->edit(truth, n, &ed);
    for (size_t j = 0; j < n; j++) {
        assert_int_equal(row[j] == -INFINITY, truth[j] == -INFINITY);
        if (truth[j] != -INFINITY)
            near((double)row[j], truth[j], 1, 1e-6);
    }
    attn_free(row), attn_free(truth);
    guarded_free(&keep), numbers_free(&s), numbers_free(&bias);
}

/* NaN and infinity in hidden cells leave no trace. */
static void edit_hides_poison(const attn_kernels *k) {
    float *row = tile_of(k, 1), bias[3] = {-INFINITY, 0, 0};
    uint8_t keep[3] = {1, 0, 1};
    row[0] = NAN, row[1] = INFINITY, row[2] = 2;
    attn_edit e = {.scale = 1, .bias = bias, .keep = keep, .lo = 0, .hi = 3};
    k->edit(row, 3, &e);
    assert_true(row[0] == -INFINITY && row[1] == -INFINITY && row[2] == 2);
    attn_free(row);
}

/* --- softmax, accumulate, divide, weights, logsumexp over several tiles --- */

typedef struct pass {
    void *max, *sum, *factor, *acc, *tile, *packed;
} pass;

static pass pass_new(const attn_kernels *k, size_t rows, size_t Ev) {
    pass p = {attn_alloc(rows * k->elem), attn_alloc(rows * k->lanes * k->elem),
              attn_alloc(rows * k->elem), attn_alloc(rows * attn_acc_room(k, Ev) * k->elem + 1),
              tile_of(k, rows),           attn_alloc(attn_value_room(k, Ev) * k->elem + 1)};
    for (size_t r = 0; r < rows; r++)
        if (k->elem == 4)
            ((float *)p.max)[r] = -INFINITY;
        else
            ((double *)p.max)[r] = -INFINITY;
    memset(p.sum, 0, rows * k->lanes * k->elem);
    memset(p.acc, k->plain ? 0 : 0xff,
           rows * attn_acc_room(k, Ev) * k->elem); /* NaN, which is dropped */
    return p;
}

static void pass_free(pass *p) {
    attn_free(p->max), attn_free(p->sum), attn_free(p->factor), attn_free(p->acc),
        attn_free(p->tile), attn_free(p->packed);
}

/* One tile of scores s [rows, n] and values v [n, Ev] goes through the pass. */
static void pass_step(const attn_kernels *k, pass *p, const void *s, const void *v, size_t rows,
                      size_t n, size_t Ev) {
    attn_edit none = {.scale = 1, .lo = 0, .hi = n};
    for (size_t r = 0; r < rows; r++) {
        char *row = (char *)p->tile + r * k->keys * k->elem;
        memcpy(row, (const char *)s + r * n * k->elem, n * k->elem);
        k->edit(row, n, &none);
    }
    k->softmax(p->tile, rows, n, p->max, p->sum, p->factor);
    k->pack_value(p->packed, v, Ev, n, Ev);
    k->accumulate(p->acc, p->tile, rows, p->packed, 0, n, n, Ev, p->factor);
}

/* Tiles in two passes, merged, beside `ref` in one. */
static void pass_round(const attn_kernels *k, uint64_t seed) {
    const size_t most = k->keys < ref->keys ? k->keys : ref->keys;
    const size_t rows = 1 + pick(seed, 0, 16), Ev = pick(seed, 1, MOST),
                 tiles = 1 + pick(seed, 2, 4), second = pick(seed, 4, tiles + 1);
    const double gain = pick(seed, 3, 2) ? 1 : 60;
    pass a = pass_new(k, rows, Ev), c = pass_new(k, rows, Ev), b = pass_new(ref, rows, Ev);
    for (size_t t = 0; t < tiles; t++) {
        const size_t n = 1 + pick(seed, 10 + t, most);
        numbers s = numbers_new(rows * n, seed + t, gain),
                v = numbers_new(n * Ev, seed + 50 + t, 1);
        for (size_t i = 0; i < rows * n; i++)
            if (pick(seed + 9, i, 4) == 0 || (i / n == 1 && t == 0))
                ((float *)s.f.data)[i] = -INFINITY, s.d[i] = -INFINITY;
        pass_step(k, t < second ? &a : &c, s.f.data, v.f.data, rows, n, Ev);
        pass_step(ref, &b, s.d, v.d, rows, n, Ev);
        numbers_free(&s), numbers_free(&v);
    }
    k->merge(&(attn_partial){a.max, a.sum, a.acc}, &(attn_partial){c.max, c.sum, c.acc}, rows, Ev);
    double maxima[16], sums[16], maxima_ref[16], sums_ref[16];
    k->statistics(a.max, a.sum, rows, maxima, sums);
    ref->statistics(b.max, b.sum, rows, maxima_ref, sums_ref);
    for (size_t r = 0; r < rows; r++)
        sums[r] = maxima[r] == -INFINITY ? 0 : sums[r];
    guarded all = guarded_new(rows * Ev * sizeof(float));
    k->divide(all.data, Ev, a.acc, rows, Ev, sums);
    for (size_t r = 0; r < rows; r++) {
        double max = maxima[r], max_ref = maxima_ref[r], sum = sums[r], sum_ref = sums_ref[r];
        double truth[MOST];
        const float *got = (float *)all.data + r * Ev;
        assert_true(max == max_ref);
        for (size_t e = 0; e < Ev && max == -INFINITY; e++)
            assert_true(got[e] == 0);
        if (max == -INFINITY)
            continue;
        near(k->logsumexp(max, sum), ref->logsumexp(max_ref, sum_ref), 1,
             3e-7 + coarse_error(k, max));
        ref->divide(truth, Ev, (double *)b.acc + r * attn_acc_room(ref, Ev), 1, Ev, &sum_ref);
        for (size_t e = 0; e < Ev; e++)
            near((double)got[e], truth[e], 1, 2e-6 + coarse_error(k, 0));
    }
    guarded_free(&all);
    pass_free(&a), pass_free(&b), pass_free(&c);
}

/* Sums do not depend on the order in which the maximum grows: rescaling is exact. */
static void sum_ignores_history(const attn_kernels *k, uint64_t seed) {
    const size_t n = k->keys;
    numbers low = numbers_new(n, seed, 1), high = numbers_new(n, seed + 1, 1),
            v = numbers_new(n, seed, 1);
    double sums[2], maxima[2];
    for (size_t i = 0; i < n; i++)
        ((float *)high.f.data)[i] += 37.5f;
    for (int order = 0; order < 2; order++) {
        pass p = pass_new(k, 1, 1);
        pass_step(k, &p, order ? high.f.data : low.f.data, v.f.data, 1, n, 1);
        pass_step(k, &p, order ? low.f.data : high.f.data, v.f.data, 1, n, 1);
        k->statistics(p.max, p.sum, 1, &maxima[order], &sums[order]);
        pass_free(&p);
    }
    assert_true(sums[0] == sums[1] && maxima[0] == maxima[1]);
    numbers_free(&low), numbers_free(&high), numbers_free(&v);
}

/* A packed tile entered at a panel (and a chain of sums) gives what its part alone, packed anew,
 * gives. */
static void part_round(const attn_kernels *k, uint64_t seed) {
    const size_t E = 1 + pick(seed, 0, 70), first = 64 * pick(seed, 1, k->keys / 64);
    const size_t all = first + 1 + pick(seed, 2, k->keys - first),
                 n = 1 + pick(seed, 3, all - first);
    numbers q = numbers_new(3 * E, seed, 1), x = numbers_new(all * E, seed + 1, 1);
    char *keys = attn_alloc(attn_key_room(k, E) * k->elem),
         *part = attn_alloc(attn_key_room(k, E) * k->elem);
    float *whole = tile_of(k, 3), *alone = tile_of(k, 3), one[3] = {1, 1, 1};
    pass a = pass_new(k, 3, E), b = pass_new(k, 3, E);
    k->pack_key(keys, x.f.data, E, all, E);
    k->pack_key(part, (float *)x.f.data + first * E, E, n, E);
    score_raw(k, whole, q.f.data, 3, keys + first * (attn_key_room(k, E) / k->keys) * k->elem, n,
              E);
    score_raw(k, alone, q.f.data, 3, part, n, E);
    for (size_t r = 0; r < 3; r++)
        assert_memory_equal(whole + r * k->keys, alone + r * k->keys, n * sizeof(float));
    k->pack_value(a.packed, x.f.data, E, all, E);
    k->pack_value(b.packed, (float *)x.f.data + first * E, E, n, E);
    k->accumulate(a.acc, whole, 3, a.packed, first, n, all, E, one);
    k->accumulate(b.acc, alone, 3, b.packed, 0, n, n, E, one);
    assert_memory_equal(a.acc, b.acc, 3 * attn_acc_room(k, E) * sizeof(float));
    attn_free(keys), attn_free(part), attn_free(whole), attn_free(alone);
    pass_free(&a), pass_free(&b), numbers_free(&q), numbers_free(&x);
}

/* Keys and values as they lie give what packed ones give, bit for bit, for any number of rows. */
static void unpacked_round(const attn_kernels *k, uint64_t seed) {
    if (!k->score_unpacked)
        return; /* a table that packs queries */
    const size_t rows = 1 + pick(seed, 0, 11), n = 1 + pick(seed, 1, k->keys);
    const size_t E = 1 + pick(seed, 2, 140), ld = E + pick(seed, 3, 3);
    const size_t room = attn_acc_room(k, E);
    numbers q = numbers_new(rows * E, seed + 1, 1), x = numbers_new((n - 1) * ld + E, seed + 2, 1);
    float *packed = attn_alloc(attn_value_room(k, E) * sizeof(float));
    float *keys = attn_alloc(attn_key_room(k, E) * sizeof(float)), factor[11];
    float *tile = attn_alloc(2 * rows * k->keys * sizeof(float)), *few = tile + rows * k->keys;
    float *acc = attn_alloc(2 * rows * room * sizeof(float)), *few_acc = acc + rows * room;
    const void *query[11], *weights[11], *factors[11];
    void *to[11], *sums[11];
    for (size_t r = 0; r < rows; r++) {
        factor[r] = (float)attn_rng_uniform(seed + 3, r);
        query[r] = (float *)q.f.data + r * E, factors[r] = &factor[r];
        to[r] = few + r * k->keys, weights[r] = tile + r * k->keys, sums[r] = few_acc + r * room;
    }
    for (size_t i = 0; i < rows * room; i++)
        acc[i] = few_acc[i] = (float)attn_rng_normal(seed + 4, i);
    for (size_t i = 0; pick(seed, 5, 2) && i < room; i++) {
        factor[0] = 0;
        acc[i] = few_acc[i] = NAN;
    }
    const double magnitude = k->pack_key(keys, x.f.data, ld, n, E);
    k->score(tile, q.f.data, E, rows, keys, n, E, 0.3);
    assert_true(k->score_unpacked(to, query, rows, x.f.data, ld, n, E, 0.3) == magnitude);
    for (size_t r = 0; r < rows; r++)
        assert_memory_equal(to[r], weights[r], n * sizeof(float));
    k->pack_value(packed, x.f.data, ld, n, E);
    k->accumulate(acc, tile, rows, packed, 0, n, n, E, factor);
    assert_true(k->accumulate_unpacked(sums, weights, rows, x.f.data, ld, n, E, factors) ==
                magnitude);
    for (size_t r = 0; r < rows; r++)
        assert_memory_equal(sums[r], acc + r * room, E * sizeof(float));
    assert_true(isfinite(acc[0]));
    attn_free(packed), attn_free(keys), attn_free(tile), attn_free(acc);
    numbers_free(&q), numbers_free(&x);
}

static void weights_round(const attn_kernels *k, uint64_t seed) {
    const size_t n = 1 + pick(seed, 0, 300);
    const double gain = (double[]){1, 30, 10000}[pick(seed, 1, 3)];
    numbers s = numbers_new(n, seed, gain);
    guarded got = guarded_new(n * sizeof(float));
    double max = -INFINITY, sum = 0, truth[300];
    for (size_t j = 0; j < n; j++)
        max = fmax(max, s.d[j]);
    for (size_t j = 0; j < n; j++)
        sum += exp(s.d[j] - max);
    ref->weights(truth, s.d, n, max, sum);
    double exponent = rint((double)((float)max * 0x1.715476p+0f));
    k->weights(got.data, s.f.data, n, max, sum * exp2(max * 1.4426950408889634074 - exponent));
    for (size_t j = 0; j < n; j++) {
        double w = (double)((float *)got.data)[j];
        assert_true(fabs(w - truth[j]) <=
                    (4e-7 + coarse_error(k, s.d[j])) * truth[j] + (double)FLT_MIN);
    }
    numbers_free(&s), guarded_free(&got);
}

/* Bit for bit; where the processor is one that ignores that subnormal numbers shall become zero
 * (valgrind's, ATTN_KEEPS_SUBNORMALS is set), but for those. */
static void same_weights(const float *got, const float *want, size_t n) {
    const bool kept = getenv("ATTN_KEEPS_SUBNORMALS") != NULL;
    for (size_t j = 0; j < n; j++)
        if (!kept || fmaxf(fabsf(got[j]), fabsf(want[j])) >= FLT_MIN)
            assert_memory_equal(&got[j], &want[j], sizeof(float));
}

/* Numerators left on the way become the weights that the scores give at the end, bit for bit, in
 * place or elsewhere, in part or whole; what underflows on the way included. */
static void finish_weights_round(const attn_kernels *k, uint64_t seed) {
    const size_t n = 1 + pick(seed, 0, 3 * k->keys), from = pick(seed, 1, n);
    const size_t to = from + 1 + pick(seed, 2, n - from), off = pick(seed, 3, 17);
    const double gain = (double[]){1, 30, 100}[pick(seed, 4, 3)];
    numbers s = numbers_new(n, seed, gain);
    float *tile = attn_alloc(k->keys * sizeof(float)), maxima[3], max = -INFINITY, factor;
    float *numerators = attn_alloc((n + 32) * sizeof(float)), *want = attn_alloc(n * sizeof(float));
    float *got = attn_alloc((n + 32) * sizeof(float)), *sum = attn_alloc(k->lanes * sizeof(float));
    memset(sum, 0, k->lanes * sizeof(float));
    const attn_edit as_it_is = {.scale = 1, .lo = 0, .hi = k->keys};
    for (size_t j = 0; j < n; j += k->keys) {
        const size_t width = n - j < k->keys ? n - j : k->keys;
        memcpy(tile, (float *)s.f.data + j, width * sizeof(float));
        k->edit(tile, width, &as_it_is);
        k->softmax(tile, 1, width, &max, sum, &factor);
        memcpy(numerators + off + j, tile, width * sizeof(float));
        maxima[j / k->keys] = max;
    }
    double most, total;
    k->statistics(&max, sum, 1, &most, &total);
    k->weights(want, s.f.data, n, most, total);
    for (int way = 0; way < 3; way++) {
        const attn_finish how = {1, n, &from, &to, maxima, 3, &most, &total, way != 0};
        float *dst = way == 2 ? numerators : got;
        k->finish_weights(dst + off, numerators + off, &how);
        same_weights(dst + off + from, want + from, to - from);
        for (size_t j = 0; j < n; j++)
            assert_true((j >= from && j < to) || dst[off + j] == 0);
    }
    attn_free(tile), attn_free(numerators), attn_free(want), attn_free(got), attn_free(sum);
    numbers_free(&s);
}

static void max_magnitude_round(const attn_kernels *k, uint64_t seed) {
    const size_t n = 1 + pick(seed, 0, 100);
    numbers x = numbers_new(n, seed, 5);
    assert_true(k->max_magnitude(x.f.data, n) == ref->max_magnitude(x.d, n));
    ((float *)x.f.data)[pick(seed, 1, n)] = pick(seed, 2, 2) ? NAN : -INFINITY;
    assert_true(isinf(k->max_magnitude(x.f.data, n)));
    numbers_free(&x);
}

static void poison_round(const attn_kernels *k, uint64_t seed) {
    (void)seed;
    edit_hides_poison(k);
}

OVER_TABLES(test_score, score_round)
OVER_TABLES(test_score_is_pure, score_is_pure)
OVER_TABLES(test_edit, edit_round)
OVER_TABLES(test_edit_hides_poison, poison_round)
OVER_TABLES(test_pass, pass_round)
OVER_TABLES(test_sum_ignores_history, sum_ignores_history)
OVER_TABLES(test_parts_of_tiles, part_round)
OVER_TABLES(test_few_rows, unpacked_round)
OVER_TABLES(test_weights, weights_round)
OVER_TABLES(test_finish_weights, finish_weights_round)
OVER_TABLES(test_max_magnitude, max_magnitude_round)

static void test_choice(void **state) {
    attn_error err = {.code = ATTN_OK};
    attn_isa isa;
    (void)state;
    assert_int_equal(attn_isa_choose("sse9", &err), ATTN_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "sse9"));
    assert_int_equal(attn_isa_choose("ref", &err), ATTN_OK);
    assert_int_equal(attn_isa_current(), ATTN_ISA_REF);
    assert_string_equal(attn_isa_reason(), "requested");
    assert_true(attn_isa_parse("avx2", &isa) && isa == ATTN_ISA_AVX2);
    assert_false(attn_isa_parse("AVX2", &isa));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_score),          cmocka_unit_test(test_score_is_pure),
        cmocka_unit_test(test_edit),           cmocka_unit_test(test_edit_hides_poison),
        cmocka_unit_test(test_pass),           cmocka_unit_test(test_sum_ignores_history),
        cmocka_unit_test(test_parts_of_tiles), cmocka_unit_test(test_few_rows),
        cmocka_unit_test(test_weights),        cmocka_unit_test(test_finish_weights),
        cmocka_unit_test(test_max_magnitude),  cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
