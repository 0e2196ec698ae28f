/* Products with weights in blocks beside products with the widened weights: the same bits on every
 * kernel table of floats, whatever the number of rows and the columns of a call. Products of
 * integers have bits of their own, which depend only on the row of x and the row of weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "attn/attn.h"
#include "kernels/blocks.h"
#include "kernels/gemm.h"
#include "kernels/kernels.h"

static const char *const names[] = {"F32",  "F16",  "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                    "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"};
enum { NAMES = sizeof names / sizeof *names };

typedef struct product_case {
    attn_block_matrix w;
    size_t rows, ldx, ldy;
    float *x, *wide, *wanted, *y;
    unsigned char *bytes;
} product_case;

static void *take(size_t bytes) {
    void *p = attn_alloc(bytes);
    assert_non_null(p);
    return p;
}

/* Random blocks whose numbers of 16 or 32 bits are finite: the upper bits of all exponents, and of
 * whatever else is at an odd byte, are cut. */
static void fill(unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(attn_rng_bits(1, i) & (i % 2 ? 0xbb : 0xff));
}

/* Element i of y before a product that is added to it. */
static float start(size_t i) {
    return (float)i / 64;
}

static void open_case(product_case *c, const char *name, size_t rows, size_t out, size_t in,
                      float beta) {
    const attn_block_format *f = attn_block_format_named(name);
    const size_t bytes = out * (in / f->values) * f->bytes, skip = rows % 2; /* 1: unaligned */
    *c = (product_case){
        .w = {.format = f, .out = out, .in = in}, .rows = rows, .ldx = in + 3, .ldy = out + 5};
    c->bytes = take(bytes + skip);
    c->w.blocks = c->bytes + skip;
    c->x = take(rows * c->ldx * sizeof *c->x);
    c->wide = take(out * in * sizeof *c->wide);
    c->wanted = take(rows * c->ldy * sizeof *c->wanted);
    c->y = take(rows * c->ldy * sizeof *c->y);
    fill(c->bytes + skip, bytes);
    attn_rng_fill_normal(c->x, rows * c->ldx, 2, 0);
    attn_blocks_widen(c->wide, f, c->w.blocks, out * in);
    for (size_t i = 0; i < rows * c->ldy; i++)
        c->y[i] = c->wanted[i] = beta == 0 ? NAN : start(i);
    const attn_gemm_dims d = {rows, out, in, c->ldx, in, c->ldy, .transpose_b = true};
    attn_kernels_gemm(c->wanted, c->x, c->wide, &d, beta);
}

static void close_case(product_case *c) {
    attn_free(c->bytes), attn_free(c->x), attn_free(c->wide), attn_free(c->wanted), attn_free(c->y);
}

/* With `ref` OpenBLAS adds in an order of its own, and so do products of integers. */
static bool same(const product_case *c, float a, float b, float size) {
    const bool integers = attn_blocks_integers_of(attn_isa_current(), c->w.format, c->rows);
    return attn_kernels_current()->elem == sizeof a && !integers ? memcmp(&a, &b, sizeof a) == 0
                                                                 : fabsf(a - b) <= 1e-5f * size;
}

static float row_size(const product_case *c, size_t row, size_t col) {
    float size = 0;
    for (size_t e = 0; e < c->w.in; e++)
        size += fabsf(c->x[row * c->ldx + e] * c->wide[col * c->w.in + e]);
    return size;
}

static void compare(const product_case *c, size_t first, size_t last, float beta) {
    for (size_t i = 0; i < c->rows; i++)
        for (size_t j = 0; j < c->ldy; j++) {
            const float y = c->y[i * c->ldy + j], wanted = c->wanted[i * c->ldy + j],
                        was = start(i * c->ldy + j);
            if (j < first || j >= last)
                assert_true(beta == 0 ? isnan(y) : y == was);
            else if (!same(c, y, wanted, row_size(c, i, j) + beta * was))
                fail_msg("%s [%zu, %zu] rows %zu: element [%zu, %zu] is %a, not %a",
                         c->w.format->name, c->w.out, c->w.in, c->rows, i, j, (double)y,
                         (double)wanted);
        }
}

static void check(const char *name, size_t rows, size_t out, size_t in, size_t first, size_t last,
                  float beta) {
    product_case c;
    open_case(&c, name, rows, out, in, beta);
    attn_blocks_product(c.y, c.ldy, c.x, c.ldx, rows, &c.w, first, last, beta);
    compare(&c, first, last, beta);
    close_case(&c);
}

static void test_widened(void **state) {
    static const size_t rows[] = {1, 2, 3, 4, 5, 8, 16, 53}, outs[] = {1, 16, 40, 64, 200};
    (void)state;
    for (size_t n = 0; n < NAMES; n++) {
        const size_t values = attn_block_format_named(names[n])->values;
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            for (size_t o = 0; o < sizeof outs / sizeof *outs; o++) {
                check(names[n], rows[r], outs[o], values, 0, outs[o], 0);
                check(names[n], rows[r], outs[o], 3 * values, 0, outs[o], 0);
                check(names[n], rows[r], outs[o], values == 256 ? 512 : 576, 0, outs[o], 0);
            }
    }
}

/* Columns of a call may begin and end anywhere. */
static void test_parts(void **state) {
    (void)state;
    for (size_t n = 0; n < NAMES; n++)
        for (size_t rows = 1; rows < 12; rows += 9) {
            check(names[n], rows, 300, 512, 7, 8, 0);
            check(names[n], rows, 300, 512, 100, 259, 1);
            check(names[n], rows, 300, 512, 20, 20, 1);
        }
}

/* Rows give the same bits among others and in another order, beside rows that cannot be split into
 * parts, and columns do in calls of their own. */
static void test_rows_alone(void **state) {
    enum { ROWS = 300, OUT = 150, IN = 768, SOME = 5, FIRST = 33 };
    (void)state;
    for (size_t n = 0; n < NAMES; n++) {
        product_case c;
        open_case(&c, names[n], ROWS, OUT, IN, 0);
        float *some = take(SOME * c.ldy * sizeof *some);
        const size_t at = ROWS - SOME;
        c.x[7 * c.ldx + 500] = NAN;
        c.x[8 * c.ldx] = 0x1p100f;
        c.x[9 * c.ldx + IN - 1] = -INFINITY;
        attn_blocks_product(c.y, c.ldy, c.x, c.ldx, ROWS, &c.w, 0, OUT, 0);
        attn_blocks_product(some, c.ldy, c.x + at * c.ldx, c.ldx, SOME, &c.w, FIRST, OUT, 0);
        for (size_t r = 0; attn_kernels_current()->elem == sizeof *some && r < SOME; r++)
            assert_memory_equal(some + r * c.ldy + FIRST, c.y + (at + r) * c.ldy + FIRST,
                                (OUT - FIRST) * sizeof *some);
        for (size_t j = 0; j < OUT; j++) {
            assert_true(isnan(c.y[7 * c.ldy + j]));
            assert_true(isfinite(c.y[8 * c.ldy + j]));
            assert_false(isfinite(c.y[9 * c.ldy + j]) && c.wide[j * IN + IN - 1] != 0);
            assert_true(isfinite(c.y[6 * c.ldy + j]) && isfinite(c.y[10 * c.ldy + j]));
        }
        attn_free(some);
        close_case(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_widened),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_rows_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
