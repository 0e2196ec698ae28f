/* Dense matrix products on the calling thread. Products of floats use the kernel table
 * (gemm_table.c). Products of doubles, and products of floats with the table `ref`, use OpenBLAS.
 * Only this file includes cblas.
 *
 * Debian's serial build of OpenBLAS (0.3.21) gives the calls of two threads the same scratch
 * memory. So for a serial build a lock admits one thread at a time, in the order in which they
 * come. A large product is divided into blocks of at most LOCKED multiply-adds, about 20 ms, and a
 * thread holds the lock for one block, so that no thread waits long.
 *
 *   block of c: [ rows that LOCKED allows, SIDE ]  =  sum over depth_of terms at a time
 *
 * Threaded builds need no lock. But such a build starts a thread for each processor when it is
 * loaded. Each of these threads spins for 36 ms before it sleeps. The build ends the process if a
 * container does not allow so many threads. */
#include "kernels/gemm.h"

#include <cblas.h>
#include <pthread.h>

#include "attn/isa.h"
#include "kernels/gemm_table.h"

/* Columns of c, and terms of its sums, in a block. OpenBLAS packs the operands anew for each block,
 * which takes a few hundredths of the time of the arithmetic. It adds the terms of a block one
 * after another, so sums of floats have smaller errors in short blocks. For sums of 576 terms, the
 * error falls to a third. */
enum { SIDE = 1024, DEPTH = 4096, FLOAT_DEPTH = 64 };
#define LOCKED ((size_t)1 << 30)

typedef struct product {
    void *c;
    const void *a, *b;
    const attn_gemm_dims *dims;
    double beta;
    size_t element; /* bytes of an element: 4 float, 8 double */
} product;

/* Rows [row, row + rows) and columns [col, col + cols) of c, and terms [at, at + depth) of its
 * sums. */
typedef struct block {
    size_t row, rows, col, cols, at, depth;
} block;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    size_t last; /* the ticket that is given out next */
    size_t now;  /* the ticket whose thread holds the lock */
    bool needed; /* the build of OpenBLAS is serial */
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

static CBLAS_TRANSPOSE transposition(bool transposed) {
    return transposed ? CblasTrans : CblasNoTrans;
}

static void multiply_block(const product *p, const block *k) {
    const attn_gemm_dims *d = p->dims;
    const size_t skip_a = d->transpose_a ? k->at * d->lda + k->row : k->row * d->lda + k->at,
                 skip_b = d->transpose_b ? k->col * d->ldb + k->at : k->at * d->ldb + k->col;
    const void *a = (const char *)p->a + skip_a * p->element,
               *b = (const char *)p->b + skip_b * p->element;
    void *c = (char *)p->c + (k->row * d->ldc + k->col) * p->element;
    const CBLAS_TRANSPOSE ta = transposition(d->transpose_a), tb = transposition(d->transpose_b);
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

static size_t depth_of(const product *p) {
    return attn_gemm_least(p->dims->K, p->element == sizeof(float) ? FLOAT_DEPTH : DEPTH);
}

static void multiply_in_blocks(const product *p) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const attn_gemm_dims *d = p->dims;
    const size_t cols = attn_gemm_least(d->N, SIDE), depth = depth_of(p);
    const size_t rows = cols && depth ? LOCKED / (cols * depth) : d->M;
    pthread_once(&once, prepare_once);
    for (block k = {0}; k.row < d->M; k.row += k.rows) {
        k.rows = attn_gemm_least(d->M - k.row, rows);
        for (k.col = 0; k.col < d->N; k.col += k.cols) {
            k.cols = attn_gemm_least(d->N - k.col, SIDE);
            k.at = 0;
            do { /* runs once even if K = 0, to compute c = beta c */
                k.depth = attn_gemm_least(d->K - k.at, depth);
                multiply_block(p, &k);
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
        multiply_in_blocks(&(product){c, a, b, dims, (double)beta, sizeof *c});
}

void attn_kernels_gemm_f64(double *c, const double *a, const double *b, const attn_gemm_dims *dims,
                           double beta) {
    multiply_in_blocks(&(product){c, a, b, dims, beta, sizeof *c});
}

void attn_kernels_gemm_elements(size_t elem, void *c, const void *a, const void *b,
                                const attn_gemm_dims *dims, double beta) {
    if (elem == sizeof(float))
        attn_kernels_gemm(c, a, b, dims, (float)beta);
    else
        attn_kernels_gemm_f64(c, a, b, dims, beta);
}
