/* Dense float32 products c = a b + beta c by the kernels that attention uses for scores and
 * gradients. COLS columns of b are packed like keys, and rows of a are read like queries:
 *
 *                 COLS columns of b, packed once for all rows of a
 *           DEPTH [ panel | panel | … ]        128 KiB, stays in the L2 cache
 *          DEPTH
 *   a rows [.......]  x  one panel (L1 cache)  ->  tile [rows, COLS], added to c
 *
 * Three functions compute a part of c:
 *   many_rows      packs b
 *   unpacked_rows  for at most FEW rows and a transposed b: packing b would cost more than the
 *                  product
 *   all_back       for a transposed a: copies a in blocks [SHORT, rows] and uses the kernel
 *                  accumulate_backward, which reads a tile by columns
 *
 * An element of c is a sum in a fixed order: first beta c, then two chains of fused multiply-adds
 * for every DEPTH terms, or, for a transposed a, one chain for every SHORT terms. The element
 * depends only on its row of a, its column of b and its old value. */
#include "kernels/gemm_table.h"

#include <assert.h>
#include <attn/memory.h>
#include <string.h>

#include "kernels/blocks.h"
#include "kernels/pointwise.h"

/* COLS and ROWS are the columns and rows of a tile. A row of c is prefetched AHEAD rows before it
 * is used. The head of this file explains the others. */
enum { COLS = ATTN_GEMM_COLS, DEPTH = ATTN_GEMM_DEPTH, SHORT = 48, ROWS = 48, FEW = 8, AHEAD = 4 };

/* The part of the product that one call computes: n columns of c and `depth` terms of each sum. a,
 * b and c point to its first elements. */
typedef struct part {
    const attn_kernels *k;
    const attn_pointwise *rows;
    const attn_gemm_dims *dims;
    float *c;
    const float *a, *b;
    size_t n, depth;
    float beta;
} part;

/* Sets c = beta c + sums for one row of n elements. If beta is 0, c is not read and may be
 * uninitialised. */
static void add_row(const part *p, float *c, const float *sums) {
    if (p->beta == 0) {
        memcpy(c, sums, p->n * sizeof *c);
        return;
    }
    if (p->beta != 1)
        p->rows->scale(c, p->beta, p->n);
    for (size_t j = 0; j < p->n; j += 16)
        __builtin_prefetch(c + AHEAD * p->dims->ldc + j, 1);
    p->rows->add(c, sums, p->n);
}

static void unpacked_rows(const part *p) {
    _Alignas(ATTN_ALIGN) float tile[FEW * COLS];
    void *to[FEW];
    const void *from[FEW];
    for (size_t i = 0; i < p->dims->M; i++) {
        to[i] = tile + i * COLS;
        from[i] = p->a + i * p->dims->lda;
    }
    p->k->score_unpacked(to, from, p->dims->M, p->b, p->dims->ldb, p->n, p->depth, 1);
    for (size_t i = 0; i < p->dims->M; i++)
        add_row(p, p->c + i * p->dims->ldc, tile + i * COLS);
}

static void many_rows(const part *p) {
    _Alignas(ATTN_ALIGN) float columns[DEPTH * COLS];
    const attn_gemm_dims *d = p->dims;
    const attn_block_kernels *own = attn_block_kernels_of(p->k->isa);
    if (d->transpose_b)
        p->k->pack_key(columns, p->b, d->ldb, p->n, p->depth);
    else
        p->k->pack_value(columns, p->b, d->ldb, p->depth, p->n);
    for (size_t i = 0; p->beta != 0 && p->beta != 1 && i < d->M; i++)
        p->rows->scale(p->c + i * d->ldc, p->beta, p->n);
    for (size_t i = 0; i < d->M; i += ROWS)
        own->multiply(p->c + i * d->ldc, d->ldc, p->a + i * d->lda, d->lda,
                      attn_gemm_least(d->M - i, ROWS), columns, p->n, p->depth, p->beta != 0);
}

/* Computes rows [i, i + rows) of c for a transposed a. `columns` holds b, packed in blocks of SHORT
 * terms. */
static void rows_back(const part *p, size_t i, size_t rows, const float *columns) {
    _Alignas(ATTN_ALIGN) float a[SHORT * COLS], sums[COLS * COLS];
    const size_t room = attn_acc_room(p->k, p->n);
    for (size_t at = 0; at < p->depth; at += SHORT) {
        const size_t terms = attn_gemm_least(p->depth - at, SHORT);
        for (size_t t = 0; t < terms; t++)
            memcpy(a + t * COLS, p->a + (at + t) * p->dims->lda + i, rows * sizeof *a);
        p->k->accumulate_backward(sums, at == 0, a, terms, rows, columns + at * room, p->n);
    }
    for (size_t r = 0; r < rows; r++)
        add_row(p, p->c + (i + r) * p->dims->ldc, sums + r * room);
}

static void all_back(const part *p) {
    _Alignas(ATTN_ALIGN) float columns[DEPTH * COLS];
    const attn_gemm_dims *d = p->dims;
    const size_t room = attn_acc_room(p->k, p->n);
    for (size_t at = 0; at < p->depth; at += SHORT) {
        const size_t terms = attn_gemm_least(p->depth - at, SHORT);
        float *to = columns + at * room;
        if (d->transpose_b)
            p->k->pack_key(to, p->b + at, d->ldb, p->n, terms);
        else
            p->k->pack_value(to, p->b + at * d->ldb, d->ldb, terms, p->n);
    }
    for (size_t i = 0; i < d->M; i += COLS)
        rows_back(p, i, attn_gemm_least(d->M - i, COLS), columns);
}

void attn_kernels_gemm_table(const attn_kernels *k, float *c, const float *a, const float *b,
                             const attn_gemm_dims *d, float beta) {
    assert(k->elem == sizeof *c && k->keys == COLS && k->rows >= ROWS);
    part p = {.k = k, .rows = attn_pointwise_current(), .dims = d};
    for (size_t j = 0; j < d->N; j += COLS)
        for (size_t t = 0; t < d->K; t += DEPTH) {
            p.c = c + j;
            p.a = a + (d->transpose_a ? t * d->lda : t);
            p.b = b + (d->transpose_b ? j * d->ldb + t : t * d->ldb + j);
            p.n = attn_gemm_least(d->N - j, COLS);
            p.depth = attn_gemm_least(d->K - t, DEPTH);
            p.beta = t ? 1 : beta;
            if (d->transpose_a)
                all_back(&p);
            else if (d->transpose_b && d->M <= FEW)
                unpacked_rows(&p);
            else
                many_rows(&p);
        }
}
