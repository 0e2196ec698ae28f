/* Products of bfloat16 tiles: the plain one against the processor manual's text, word by word, and
 * against double; vdpbf16ps against its own; packing in vector code against plain packing; what the
 * check of AMX would let through. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "kernels/processor.h"
#include "kernels/x86/tiles.h"
#include "kernels/x86/vectors.h"

enum { ROUNDS = 200, MOST = 3, CELLS = 3 * MOST * MOST * ATTN_TILE_CELLS, SIDE = MOST * ATTN_TILE };

typedef struct operands {
    _Alignas(64) uint16_t a[CELLS], b[CELLS];
    _Alignas(64) float c[SIDE * SIDE];
    attn_tiles t;
} operands;

/* wild: any exponent, subnormal numbers and zeros among those of size 1. */
static void fill(operands *o, uint64_t seed, bool wild) {
    const uint64_t shape = attn_rng_bits(seed, 0);
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < CELLS; i++) {
            const uint64_t bits = attn_rng_bits(seed + 1 + (uint64_t)side, i),
                           kind = bits >> 32 & 7;
            const bool small =
                wild && seed % 3 == 0; /* products about the smallest normal number */
            uint64_t exponent = (small ? 56 : 120) + (bits >> 40) % 12;
            if (wild && kind < 2)
                exponent = kind ? 0 : (bits >> 40) % (small ? 127 : 255);
            (side ? o->b : o->a)[i] = (uint16_t)((bits & 0x807f) | exponent << 7);
        }
    o->t = (attn_tiles){.c = o->c,
                        .ldc = SIDE,
                        .a = o->a,
                        .b = o->b,
                        .row_tiles = 1 + shape % 3,
                        .col_tiles = 1 + shape / 3 % 3,
                        .steps = 1 + shape / 9 % 3,
                        .parts = 1 + (int)(shape / 27 % 3)};
    o->t.a_step = o->t.row_tiles * ATTN_TILE_CELLS;
    o->t.a_part = o->t.steps * o->t.a_step;
    o->t.b_part = o->t.steps * ATTN_TILE_CELLS;
    o->t.b_column = (size_t)o->t.parts * o->t.b_part;
    memset(o->c, 0xff, sizeof o->c); /* NaN: all of it must be written */
}

static float daz(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static float element(const uint16_t *x) {
    return daz(attn_bf16_float((uint32_t)*x << 16));
}

/* Tile products in their order for one cell of C: visit(state, first tile of A, of B). */
typedef void visit(void *state, const uint16_t *row, const uint16_t *column);

static void each_step(const attn_tiles *t, size_t m, size_t n, visit *at, void *state) {
    static const int order[4][6][2] = {{{0}},
                                       {{0, 0}},
                                       {{1, 0}, {0, 1}, {0, 0}},
                                       {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}}};
    for (size_t s = 0; s < t->steps; s++)
        for (int pair = 0; pair < t->parts * (t->parts + 1) / 2; pair++)
            at(state,
               t->a + (size_t)order[t->parts][pair][0] * t->a_part + s * t->a_step + m / 16 * 512 +
                   m % 16 * 32,
               t->b + n / 16 * t->b_column + (size_t)order[t->parts][pair][1] * t->b_part +
                   s * 512 + n % 16 * 2);
}

/* TDPBF16PS as the manual writes it. */
static void by_manual(void *state, const uint16_t *row, const uint16_t *column) {
    float temp[2] = {0, 0}, *c = state;
    for (int k = 0; k < 16; k++)
        for (int half = 0; half < 2; half++)
            temp[half] =
                daz(fmaf(element(row + 2 * k + half), element(column + 32 * k + half), temp[half]));
    *c = daz(*c + daz(temp[0] + temp[1]));
}

/* VDPBF16PS: the odd element of a pair first, each product fused into the sum. */
static void by_pairs(void *state, const uint16_t *row, const uint16_t *column) {
    float *c = state;
    for (int k = 0; k < 16; k++)
        for (int half = 1; half >= 0; half--)
            *c = daz(fmaf(element(row + 2 * k + half), element(column + 32 * k + half), *c));
}

static void in_double(void *state, const uint16_t *row, const uint16_t *column) {
    double *sums = state; /* the sum, and that of magnitudes */
    for (int i = 0; i < 32; i++) {
        const double x = (double)element(row + i) * (double)element(column + i / 2 * 32 + i % 2);
        sums[0] += x;
        sums[1] += fabs(x);
    }
}

/* Every cell of C is what `model` says, any NaN for a NaN. */
static void check(const operands *o, visit *model) {
    for (size_t m = 0; m < o->t.row_tiles * 16; m++)
        for (size_t n = 0; n < o->t.col_tiles * 16; n++) {
            const float got = o->c[m * SIDE + n];
            float want = 0;
            each_step(&o->t, m, n, model, &want);
            if (memcmp(&got, &want, sizeof got) != 0 && !(isnan(got) && isnan(want))) {
                print_error("cell %zu %zu: got %a, want %a\n", m, n, (double)got, (double)want);
                fail();
            }
        }
}

static bool has_pairs(void) {
    return attn_isa_available(ATTN_ISA_AVX512) && __builtin_cpu_supports("avx512bf16");
}

static void test_plain_is_the_manual(void **state) {
    static operands o;
    (void)state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        fill(&o, seed * 10, seed % 2);
        attn_tiles_plain(&o.t);
        check(&o, by_manual);
    }
}

static void test_plain_is_a_product(void **state) {
    static operands o;
    (void)state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        fill(&o, seed * 10, false);
        attn_tiles_plain(&o.t);
        for (size_t m = 0; m < o.t.row_tiles * 16; m += 5)
            for (size_t n = 0; n < o.t.col_tiles * 16; n++) {
                double sums[2] = {0, 0};
                each_step(&o.t, m, n, in_double, sums);
                assert_true(fabs((double)o.c[m * SIDE + n] - sums[0]) <= 0x1p-20 * sums[1]);
            }
    }
}

static void test_pairs(void **state) {
    static operands o;
    (void)state;
    if (!has_pairs()) {
        printf("not run: avx512_bf16 tiles\n");
        return;
    }
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        fill(&o, seed * 10, seed % 2);
        attn_tiles_avx512bf16(&o.t);
        check(&o, by_pairs);
    }
}

/* Vector packing makes the bytes of plain packing, reads no further, and knows the magnitude. */
static void test_packing(void **state) {
    (void)state;
    if (!has_pairs()) {
        printf("not run: packing with AVX-512\n");
        return;
    }
    for (uint64_t seed = 0; seed < ROUNDS; seed++)
        for (int p = 0; p < ATTN_PRECISION_COUNT; p++) {
            attn_kernels k[2] = {attn_kernels_avx512, attn_kernels_avx512};
            attn_kernels_tiles_plain(&k[0], (attn_precision)p);
            attn_kernels_tiles_avx512bf16(&k[1], (attn_precision)p);
            const size_t n = 1 + attn_rng_bits(seed, 0) % k->keys, E = attn_rng_bits(seed, 1) % 100,
                         rows = n < k->rows ? n : k->rows;
            const size_t bytes[] = {attn_key_room(k, E) * 4 + 64, attn_value_room(k, E) * 4 + 64,
                                    attn_query_room(k, rows, E) * 4 + 64};
            float *x = attn_alloc(n * E * sizeof *x + 4);
            char *packed[2][3];
            for (size_t i = 0; i < n * E; i++)
                x[i] = ldexpf((float)attn_rng_normal(seed, i),
                              (int)(attn_rng_bits(seed + 5, i) % 180) - 90);
            double magnitude[2][2];
            for (int t = 0; t < 2; t++) {
                for (int i = 0; i < 3; i++) {
                    packed[t][i] = attn_alloc(bytes[i]);
                    memset(packed[t][i], 0x5a, bytes[i]);
                }
                magnitude[t][0] = k[t].pack_key(packed[t][0], x, E, n, E);
                magnitude[t][1] = k[t].pack_value(packed[t][1], x, E, n, E);
                const double queries = k[t].pack_query(packed[t][2], x, E, rows, E);
                assert_true(queries == attn_kernels_avx512.max_magnitude(x, rows * E));
                for (int i = 0; i < 3; i++) /* nothing behind its room */
                    for (size_t at = bytes[i] - 64; at < bytes[i]; at++)
                        assert_int_equal(packed[t][i][at], 0x5a);
            }
            const double want = attn_kernels_avx512.max_magnitude(x, n * E);
            for (int i = 0; i < 2; i++)
                assert_true(magnitude[0][i] == want && magnitude[1][i] == want);
            for (int i = 0; i < 3; i++)
                assert_memory_equal(packed[0][i], packed[1][i], bytes[i]);
            for (int t = 0; t < 2; t++)
                for (int i = 0; i < 3; i++)
                    attn_free(packed[t][i]);
            attn_free(x);
        }
}

/* Products that are nearly right. */
static void without_flush(const attn_tiles *t) {
    attn_tiles_plain(t);
    for (size_t r = 0; r < t->row_tiles * 16; r++)
        for (size_t n = 0; n < t->col_tiles * 16; n++)
            if (t->c[r * t->ldc + n] == 0)
                t->c[r * t->ldc + n] = 0x1p-140f;
}

static void last_row_wrong(const attn_tiles *t) {
    attn_tiles_plain(t);
    float *last = t->c + (t->row_tiles * 16 - 1) * t->ldc + t->col_tiles * 16 - 1;
    if (t->row_tiles == 3 && t->parts == 3)
        *last = nextafterf(*last, INFINITY);
}

/* The check that stands before AMX is used: passes its like, and nothing else. */
static void test_agreement(void **state) {
    (void)state;
    assert_true(attn_tiles_agree(attn_tiles_plain));
    assert_false(attn_tiles_agree(without_flush));
    assert_false(attn_tiles_agree(last_row_wrong));
    if (has_pairs())
        assert_false(attn_tiles_agree(attn_tiles_avx512bf16));
    if (attn_isa_available(ATTN_ISA_AMX))
        assert_true(attn_tiles_agree(attn_tiles_amx));
    else
        printf("not run: amx tiles\n");
}

/* Asked for without the processor's help, tiles are emulated, and it is said. */
static void test_choice(void **state) {
    (void)state;
    if (!attn_kernels_vector()) {
        printf("not run: emulated tiles\n");
        return;
    }
    const bool native = attn_isa_available(ATTN_ISA_AMX);
    assert_int_equal(attn_isa_choose("avx2", NULL), ATTN_OK);
    assert_null(attn_isa_tiles());
    assert_int_equal(attn_isa_choose("amx", NULL), ATTN_OK);
    assert_int_equal(attn_isa_current(), ATTN_ISA_AMX);
    assert_string_equal(attn_isa_tiles(), native ? "native" : "emulated");
    assert_true(attn_isa_forced());
    attn_isa isa;
    assert_true(attn_kernels_find("amx", ATTN_PRECISION_FAST, false, &isa) && isa == ATTN_ISA_AMX);
    assert_ptr_equal(attn_kernels_with(ATTN_ISA_AMX, ATTN_PRECISION_FP32, true),
                     attn_kernels_vector());
    assert_ptr_equal(attn_kernels_current(), attn_kernels_vector());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_is_the_manual),
        cmocka_unit_test(test_plain_is_a_product),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_packing),
        cmocka_unit_test(test_agreement),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests_name("tiles", tests, NULL, NULL);
}
