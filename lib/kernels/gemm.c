/* Dense products, single-threaded, so that parallelism comes from the pool. A kernel table of
 * floats has its own products (gemm_table.c). All others go through OpenBLAS, and only this file
 * includes cblas.
 *
 * Debian's serial build of OpenBLAS (0.3.21) gives calls of two threads the same scratch memory. So
 * for such a build a lock admits one thread at a time, in the order of arrival. A thread holds the
 * lock for a block of the product with at most LOCKED multiply-adds, about 20 ms, so that no thread
 * waits long for a large product.
 *
 *   c: [ rows that LOCKED allows, SIDE ]  =  sum over DEPTH terms at a time
 *
 * (Threaded builds need no lock. But when they are loaded they start one thread for each processor,
 * which spins for 36 ms before it sleeps, and they end the process if a container allows no more
 * threads.) */
#include "kernels/gemm.h"

#include <cblas.h>
#include <pthread.h>

#include "attn/isa.h"
#include "kernels/gemm_table.h"

/* A block of c is SIDE columns wide and as many rows high as LOCKED allows. Its sums are computed
 * over DEPTH terms at a time. Packing the operands again for each block costs a few hundredths of
 * the arithmetic. */
enum { SIDE = 1024, DEPTH = 4096 };
#define LOCKED ((size_t)1 << 30)

typedef struct product {
    void *c;
    const void *a, *b;
    const attn_gemm_dims *dims;
    double beta;
    size_t element; /* bytes of an element: 4 float, 8 double */
} product;

typedef struct block {
    size_t row, rows, col, cols, at, depth;
} block;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    size_t last, now; /* tickets: the last one given out, and the one that holds the lock */
    bool needed;
} blas_lock = {.mutex = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static void prepare_once(void) {
    openblas_set_num_threads(1);
    blas_lock.needed = attn_blas_is_serial();
}

bool attn_blas_is_serial(void) {
    return openblas_get_parallel() == OPENBLAS_SEQUENTIAL;
}

static void lock_blas(void) {
    if (!blas_lock.needed)
        return;
    pthread_mutex_lock(&blas_lock.mutex);
    for (const size_t mine = blas_lock.last++; mine != blas_lock.now;)
        pthread_cond_wait(&blas_lock.moved, &blas_lock.mutex);
    pthread_mutex_unlock(&blas_lock.mutex);
}

static void unlock_blas(void) {
    if (!blas_lock.needed)
        return;
    pthread_mutex_lock(&blas_lock.mutex);
    blas_lock.now++;
    if (blas_lock.now != blas_lock.last)
        pthread_cond_broadcast(&blas_lock.moved);
    pthread_mutex_unlock(&blas_lock.mutex);
}

static CBLAS_TRANSPOSE order(bool transposed) {
    return transposed ? CblasTrans : CblasNoTrans;
}

static void multiply(const product *p, const block *k) {
    const attn_gemm_dims *d = p->dims;
    const size_t skip_a = d->transpose_a ? k->at * d->lda + k->row : k->row * d->lda + k->at,
                 skip_b = d->transpose_b ? k->col * d->ldb + k->at : k->at * d->ldb + k->col;
    const void *a = (const char *)p->a + skip_a * p->element,
               *b = (const char *)p->b + skip_b * p->element;
    void *c = (char *)p->c + (k->row * d->ldc + k->col) * p->element;
    const CBLAS_TRANSPOSE ta = order(d->transpose_a), tb = order(d->transpose_b);
    const blasint M = (blasint)k->rows, N = (blasint)k->cols, K = (blasint)k->depth;
    const blasint lda = (blasint)d->lda, ldb = (blasint)d->ldb, ldc = (blasint)d->ldc;
    const double beta = k->at ? 1 : p->beta;
    lock_blas();
    if (p->element == sizeof(float))
        cblas_sgemm(CblasRowMajor, ta, tb, M, N, K, 1, a, lda, b, ldb, (float)beta, c, ldc);
    else
        cblas_dgemm(CblasRowMajor, ta, tb, M, N, K, 1, a, lda, b, ldb, beta, c, ldc);
    unlock_blas();
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static void run(const product *p) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const attn_gemm_dims *d = p->dims;
    const size_t cols = least(d->N, SIDE), depth = least(d->K, DEPTH);
    const size_t rows = cols && depth ? LOCKED / (cols * depth) : d->M;
    pthread_once(&once, prepare_once);
    for (block k = {0}; k.row < d->M; k.row += k.rows) {
        k.rows = least(d->M - k.row, rows);
        for (k.col = 0; k.col < d->N; k.col += k.cols) {
            k.cols = least(d->N - k.col, SIDE);
            k.at = 0;
            do { /* runs once for a depth of 0, to compute c = beta c */
                k.depth = least(d->K - k.at, DEPTH);
                multiply(p, &k);
                k.at += k.depth;
            } while (k.at < d->K);
        }
    }
}

void attn_kernels_gemm(float *c, const float *a, const float *b, const attn_gemm_dims *dims,
                       float beta) {
    const attn_kernels *k = attn_kernels_current();
    if (k->elem == sizeof *c && dims->K)
        attn_kernels_gemm_table(k, c, a, b, dims, beta);
    else
        run(&(product){c, a, b, dims, (double)beta, sizeof *c});
}

void attn_kernels_gemm_f64(double *c, const double *a, const double *b, const attn_gemm_dims *dims,
                           double beta) {
    run(&(product){c, a, b, dims, beta, sizeof *c});
}

void attn_kernels_gemm_elements(size_t elem, void *c, const void *a, const void *b,
                                const attn_gemm_dims *dims, double beta) {
    if (elem == sizeof(float))
        attn_kernels_gemm(c, a, b, dims, (float)beta);
    else
        attn_kernels_gemm_f64(c, a, b, dims, beta);
}
