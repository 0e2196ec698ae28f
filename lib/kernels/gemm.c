/* The one user of cblas: large dense products, single-threaded, so that parallelism comes from the
 * pool. Its result for a row depends on the row's place, so attention proper does not use it.
 * Debian's serial build (0.3.21) gives calls of two threads the same scratch, so that they take
 * turns. */
#include "kernels/gemm.h"

#include <cblas.h>
#include <pthread.h>

static void pin_to_one_thread(void) {
    openblas_set_num_threads(1);
}

static void prepare(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, pin_to_one_thread);
}

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static CBLAS_TRANSPOSE order(bool transposed) {
    return transposed ? CblasTrans : CblasNoTrans;
}

void attn_kernels_gemm(float *c, const float *a, const float *b, const attn_gemm_dims *dims,
                       float beta) {
    prepare();
    pthread_mutex_lock(&turn);
    cblas_sgemm(CblasRowMajor, order(dims->transpose_a), order(dims->transpose_b), (blasint)dims->M,
                (blasint)dims->N, (blasint)dims->K, 1.0f, a, (blasint)dims->lda, b,
                (blasint)dims->ldb, beta, c, (blasint)dims->ldc);
    pthread_mutex_unlock(&turn);
}

void attn_kernels_gemm_f64(double *c, const double *a, const double *b, const attn_gemm_dims *dims,
                           double beta) {
    prepare();
    pthread_mutex_lock(&turn);
    cblas_dgemm(CblasRowMajor, order(dims->transpose_a), order(dims->transpose_b), (blasint)dims->M,
                (blasint)dims->N, (blasint)dims->K, 1.0, a, (blasint)dims->lda, b,
                (blasint)dims->ldb, beta, c, (blasint)dims->ldc);
    pthread_mutex_unlock(&turn);
}
