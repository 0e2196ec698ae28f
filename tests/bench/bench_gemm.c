/* The peak of the dense product on one core: square and k = 64, GFLOP/s. */
#include <attn/attn.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/gemm.h"

static double gflops(size_t M, size_t N, size_t K) {
    float *a = attn_alloc(M * K * sizeof *a), *b = attn_alloc(N * K * sizeof *b),
          *c = attn_alloc(M * N * sizeof *c);
    attn_gemm_dims dims = {M, N, K, K, K, N, .transpose_b = true};
    double best = 0;
    if (!a || !b || !c)
        exit(1);
    attn_rng_fill_normal(a, M * K, 1, 0);
    attn_rng_fill_normal(b, N * K, 2, 0);
    for (int run = 0; run < 7; run++) {
        int64_t start = attn_now_ns();
        attn_kernels_gemm(c, a, b, &dims, 0);
        double rate = 2.0 * (double)M * (double)N * (double)K / (double)(attn_now_ns() - start);
        best = rate > best ? rate : best;
    }
    attn_free(a), attn_free(b), attn_free(c);
    return best;
}

int main(void) {
    printf("sgemm 2048 x 2048 x 2048: %.1f GFLOP/s\n", gflops(2048, 2048, 2048));
    printf("sgemm 2048 x 2048 x 64:   %.1f GFLOP/s\n", gflops(2048, 2048, 64));
    return 0;
}
