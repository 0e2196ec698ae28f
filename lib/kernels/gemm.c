/* The one user of cblas: large dense products, single-threaded, so that parallelism comes from the
 * pool. Its result for a row depends on the row's place, so attention proper does not use it. */
#include "kernels/gemm.h"

#include <cblas.h>
#include <pthread.h>

static void pin_to_one_thread(void) { openblas_set_num_threads(1); }

void attn_kernels_gemm(float *c, const float *a, const float *b, const attn_gemm_dims *dims,
                       bool transpose_b, float beta) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, pin_to_one_thread);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
                (blasint)dims->M, (blasint)dims->N, (blasint)dims->K, 1.0f, a, (blasint)dims->lda, b,
                (blasint)dims->ldb, beta, c, (blasint)dims->ldc);
}
