/* Random operations of one form, which are compared with a definition in double, cell by cell. */
#ifndef FORMS_CASE_H
#define FORMS_CASE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "attention/position_rule.h"
#include "unit/normal_tensor.h"
#include "unit/trials.h"

enum { MOST = 256, TRIALS = 25, LIMIT = 1 << 28 };

typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    attn_attention *a;
    attn_results out;
    size_t B, Hq, Hkv, L, S, Eq, Ek, Ev;
    uint64_t seed;
} trial;

static inline size_t pick(uint64_t seed, uint64_t at, size_t n) {
    return (size_t)(attn_rng_bits(seed, at) % n);
}

#define NORMAL(t, ...) NORMAL_TENSOR((t)->arena, ++(t)->seed, __VA_ARGS__)

static inline uint64_t visible(const attn_attention *a) {
    uint64_t n = 0;
    assert_int_equal(attn_mask_visible(attn_attention_mask(a), NULL, &n, NULL), ATTN_OK);
    return n;
}

static inline double at(const attn_tensor *x, size_t i, size_t j) {
    return (double)((const float *)x->data)[i * (x->rank > 1 ? x->dims[1] : 1) + j];
}

static inline const float *row_of(const attn_tensor *x, size_t b, size_t h, size_t i) {
    return (const float *)x->data + ((b * x->dims[1] + h) * x->dims[2] + i) * x->dims[3];
}

static inline trial begin(uint64_t seed, size_t Eq, size_t Ek) {
    trial t = {.arena = attn_arena_new(LIMIT), .seed = seed * 100};
    const size_t group = 1 + pick(seed, 1, 2);
    assert_non_null(t.arena);
    t.B = 1 + pick(seed, 2, 2), t.Hkv = 1 + pick(seed, 3, 2), t.Hq = t.Hkv * group;
    t.L = 1 + pick(seed, 4, 60), t.S = 1 + pick(seed, 5, MOST - 1);
    t.Eq = Eq, t.Ek = Ek, t.Ev = 1 + pick(seed, 7, 20);
    t.in = attn_attention_defaults();
    t.in.query = NORMAL(&t, t.B, t.Hq, t.L, Eq);
    t.in.key = NORMAL(&t, t.B, t.Hkv, t.S, Ek);
    t.in.value = NORMAL(&t, t.B, t.Hkv, t.S, t.Ev);
    if (pick(seed, 8, 2))
        t.in.mask.layers[t.in.mask.count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"};
    t.in.mask.offset = pick(seed, 9, 2) ? ATTN_OFFSET_END : ATTN_OFFSET_DEFAULT;
    return t;
}

static inline void run(trial *t) {
    attn_error err = {.code = ATTN_OK};
    const unsigned want = ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP |
                          ATTN_WANT_WEIGHTS_DROPPED | ATTN_WANT_SCORES;
    attn_status status = attn_attention_new(&t->in, t->arena, &t->a, &err);
    if (status == ATTN_OK)
        status =
            attn_attention_run(t->a, want, ATTN_STAGE_RAW, NULL, NULL, t->arena, &t->out, &err);
    if (status != ATTN_OK)
        print_error("%s: %s\n", err.where, err.text);
    assert_int_equal(status, ATTN_OK);
}

static inline attn_status refused(trial *t, const char *where) {
    attn_error err = {.code = ATTN_OK};
    attn_status status = attn_attention_new(&t->in, t->arena, &t->a, &err);
    assert_string_equal(err.where, where);
    return status;
}

/* Any cell, computed alone, has the bits of the full matrix. */
static inline void check_cells(const trial *t) {
    attn_cells_scratch *scratch = attn_cells_scratch_new(t->a, t->arena);
    attn_error err;
    assert_non_null(scratch);
    for (uint64_t n = 0; n < 12; n++) {
        attn_range one = {pick(t->seed, n, t->B),      pick(t->seed, 20 + n, t->Hq),
                          pick(t->seed, 40 + n, t->L), 1,
                          pick(t->seed, 60 + n, t->S), 1};
        float cell;
        assert_int_equal(attn_attention_cells(t->a, &t->out.stats, &one, ATTN_STAGE_PROBS, &cell, 1,
                                              scratch, &err),
                         ATTN_OK);
        assert_memory_equal(&cell, row_of(&t->out.weights, one.batch, one.head, one.row) + one.col,
                            sizeof cell);
    }
}

/* What a definition says of one cell: its raw score and what is added after scaling. */
typedef double (*definition)(const trial *t, size_t b, size_t h, size_t i, size_t j);

static inline int64_t distance(const trial *t, size_t b, size_t i, size_t j) {
    const int64_t *queries = t->in.query_positions.data, *keys = t->in.key_positions.data;
    if (queries)
        return keys[j] - queries[b * t->L + i];
    return (int64_t)j - (int64_t)i - attn_mask_offset(attn_attention_mask(t->a), b);
}

static inline double dot(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    const float *q = row_of(&t->in.query, b, h, i);
    const float *k = row_of(&t->in.key, b, h / (t->Hq / t->Hkv), j);
    double sum = 0;
    for (size_t e = 0; e < t->Eq; e++)
        sum += (double)q[e] * (double)k[e];
    return sum;
}

static inline double nothing(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    (void)t, (void)b, (void)h, (void)i, (void)j;
    return 0;
}

/* Weights, output and logsumexp of every row against raw * scale + added. */
static inline void check(const trial *t, definition raw, definition added, double scale,
                         double tolerance) {
    double s[MOST], w[MOST];
    uint8_t keep[MOST];
    for (size_t n = 0; n < t->B * t->Hq * t->L; n++) {
        const size_t b = n / t->L / t->Hq, h = n / t->L % t->Hq, i = n % t->L;
        const double sink = t->in.sinks.rank ? at(&t->in.sinks, h, 0) : -INFINITY;
        double max = sink, sum = 0;
        attn_mask_keep(attn_attention_mask(t->a), b, h, i, 0, t->S, keep);
        for (size_t j = 0; j < t->S; j++) {
            const double r = raw(t, b, h, i, j);
            assert_true(fabs((double)row_of(&t->out.scores, b, h, i)[j] - r) <=
                        tolerance * fmax(10, fabs(r)));
            s[j] = keep[j] ? r * scale + added(t, b, h, i, j) : -INFINITY;
            max = fmax(max, s[j]);
        }
        for (size_t j = 0; j < t->S; j++)
            sum += w[j] = max == -INFINITY ? 0 : exp(s[j] - max);
        sum += sink == -INFINITY ? 0 : exp(sink - max);
        for (size_t j = 0; j < t->S; j++)
            assert_true(fabs((double)row_of(&t->out.weights, b, h, i)[j] -
                             (sum > 0 ? w[j] / sum : 0)) <= tolerance);
        const float lse = ((const float *)t->out.logsumexp.data)[n];
        assert_true(sum > 0 ? fabs((double)lse - max - log(sum)) <=
                                  tolerance * fmax(1, fabs((double)lse))
                            : lse == -INFINITY);
    }
    check_cells(t);
}

static inline double alibi(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    double slopes[8];
    attn_alibi_slopes(t->Hq, slopes);
    return -slopes[h] * fabs((double)distance(t, b, i, j));
}

#endif
