/* Dense products beside sums in double: every transposition, sizes beyond a block, no depth at all,
 * cells alone, and several threads at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "attn/attn.h"
#include "kernels/gemm.h"
#include "kernels/kernels.h"

enum { THREADS = 4, ROUNDS = 10000, CELLS = 300 };

static float *normal(size_t count, uint64_t seed) {
    float *values = attn_alloc((count + 1) * sizeof *values);
    assert_non_null(values);
    attn_rng_fill_normal(values, count, seed, 0);
    return values;
}

/* Random cells of a product, c having been all ones before, and beta 2. */
static void check_product(size_t M, size_t N, size_t K, bool transpose_a, bool transpose_b) {
    const attn_gemm_dims d = {.M = M,
                              .N = N,
                              .K = K,
                              .lda = (transpose_a ? M : K) + 3,
                              .ldb = (transpose_b ? K : N) + 1,
                              .ldc = N + 2,
                              .transpose_a = transpose_a,
                              .transpose_b = transpose_b};
    float *a = normal((transpose_a ? K : M) * d.lda, 1),
          *b = normal((transpose_b ? N : K) * d.ldb, 2);
    float *c = normal(M * d.ldc, 3);
    for (size_t i = 0; i < M * d.ldc; i++)
        c[i] = 1;
    attn_kernels_gemm(c, a, b, &d, 2);
    for (size_t n = 0; n < CELLS; n++) {
        const size_t i = attn_rng_bits(4, n) % M, j = attn_rng_bits(5, n) % N;
        double wanted = 2;
        for (size_t k = 0; k < K; k++)
            wanted += (double)a[transpose_a ? k * d.lda + i : i * d.lda + k] *
                      (double)b[transpose_b ? j * d.ldb + k : k * d.ldb + j];
        assert_true(fabs((double)c[i * d.ldc + j] - wanted) <= 1e-6 * (double)(K + 4));
    }
    for (size_t i = 0; i < M; i++)
        assert_true(c[i * d.ldc + N] == 1 && c[i * d.ldc + N + 1] == 1);
    attn_free(a), attn_free(b), attn_free(c);
}

static void test_products(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        check_product(7, 5, 9, way & 1, way & 2);
        check_product(300, 1100, 4200, way & 1, way & 2);
    }
    check_product(3, 4, 0, false, true);
}

/* With a table of floats, cells [i, i + M) x [j, j + N) computed alone are the whole product's, bit
 * for bit; what c held before does not matter where beta is 0. */
static void check_part(const float *whole, const float *a, const float *b, const attn_gemm_dims *of,
                       size_t i, size_t j) {
    attn_gemm_dims d = *of;
    float *c = normal(d.M * d.ldc, 3);
    d.M = of->M - i < 5 ? of->M - i : 5;
    d.N = of->N - j < 37 ? of->N - j : 37;
    for (size_t n = 0; n < of->M * d.ldc; n++)
        c[n] = NAN;
    attn_kernels_gemm(c, a + (d.transpose_a ? i : i * d.lda), b + (d.transpose_b ? j * d.ldb : j),
                      &d, 0);
    for (size_t r = 0; r < d.M; r++)
        assert_memory_equal(c + r * d.ldc, whole + (i + r) * d.ldc + j, d.N * sizeof *c);
    attn_free(c);
}

static void test_cells_alone(void **state) {
    enum { M = 130, N = 300, K = 530 };
    float *a = normal(M * K, 1), *b = normal(N * K, 2), *c = normal(M * N, 3);
    (void)state;
    for (int way = 0; attn_kernels_current()->elem == sizeof(float) && way < 4; way++) {
        const bool transpose_a = way & 1, transpose_b = way & 2;
        const attn_gemm_dims d = {
            M, N, K, transpose_a ? M : K, transpose_b ? K : N, N, transpose_a, transpose_b};
        attn_kernels_gemm(c, a, b, &d, 0);
        for (size_t n = 0; n < 12; n++)
            check_part(c, a, b, &d, attn_rng_bits(6, n) % M, attn_rng_bits(7, n) % N);
    }
    attn_free(a), attn_free(b), attn_free(c);
}

static void test_doubles(void **state) {
    const double a[2 * 3] = {1, 2, 3, 4, 5, 6}, b[2 * 3] = {1, 0, 1, 0, 1, 0};
    double c[4] = {1, 1, 1, 1};
    const attn_gemm_dims d = {2, 2, 3, 3, 3, 2, .transpose_b = true};
    (void)state;
    attn_kernels_gemm_f64(c, a, b, &d, 10);
    assert_true(c[0] == 14 && c[1] == 12 && c[2] == 20 && c[3] == 15);
}

/* One thread's own product, again and again; its bytes must not change. */
static void *multiply_often(void *ctx) {
    const size_t side = 64 + (size_t)(uintptr_t)ctx;
    const attn_gemm_dims d = {side, side, side, side, side, side, .transpose_b = true};
    float *a = normal(side * side, 1), *b = normal(side * side, 2), *c = normal(side * side, 3);
    float *first = normal(side * side, 4);
    size_t changed = 0;
    attn_kernels_gemm(first, a, b, &d, 0);
    for (int i = 0; i < ROUNDS; i++) {
        attn_kernels_gemm(c, a, b, &d, 0);
        changed += memcmp(c, first, side * side * sizeof *c) != 0;
    }
    attn_free(a), attn_free(b), attn_free(c), attn_free(first);
    return (void *)(uintptr_t)changed;
}

static void test_threads_do_not_mix(void **state) {
    pthread_t threads[THREADS];
    void *changed;
    (void)state;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, multiply_often, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &changed), 0);
        assert_int_equal((uintptr_t)changed, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_cells_alone),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
