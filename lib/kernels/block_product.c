/* Products with weights in blocks: y = x W^T + beta y. Like gemm_table.c, which has a picture of
 * the tiles, it computes COLS columns of y and DEPTH terms of their sums at a time. It uses the
 * same kernels, so the sums have the same bits:
 *
 *   few_rows      unpacks quantised blocks to weights in registers, for at most FEW rows of x
 *   packed_rows   unpacks quantised blocks to a packed panel that all rows of x use
 *   widened_rows  for other formats, and for the table `ref`: widens blocks to rows of floats,
 *                 unless they are floats already
 *
 * The table `amx` multiplies the integers of many formats: x86/tiles_blocks.c for many rows, and
 * x86/blocks_vnni.c for few rows. */
#include <attn/memory.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/blocks.h"
#include "kernels/gemm.h"
#include "kernels/gemm_table.h"
#include "kernels/pointwise.h"

enum { COLS = ATTN_GEMM_COLS, DEPTH = ATTN_GEMM_DEPTH, ROWS = 48, FEW = ATTN_BLOCK_ROWS };

/* The part of the product that is computed: n columns of y and `depth` terms of each sum. x, y and
 * blocks point to its first elements. */
typedef struct part {
    const attn_block_kernels *own;
    const attn_block_format *format;
    float *y;
    const float *x;
    const char *blocks;
    size_t ldy, ldx, ld, rows, n, depth;
    bool first; /* y is overwritten instead of added to */
} part;

static void put_rows(const part *p, const float *sums) {
    for (size_t r = 0; r < p->rows; r++, sums += COLS) {
        float *y = p->y + r * p->ldy;
        if (p->first)
            memcpy(y, sums, p->n * sizeof *y);
        else
            attn_pointwise_current()->add(y, sums, p->n);
    }
}

static void few_rows(const part *p) {
    _Alignas(ATTN_ALIGN) float tile[FEW * COLS];
    float *to[FEW];
    const float *from[FEW];
    for (size_t r = 0; r < p->rows; r++) {
        to[r] = tile + r * COLS;
        from[r] = p->x + r * p->ldx;
    }
    p->own->score(to, from, p->rows, p->format, p->blocks, p->ld, p->n, p->depth);
    put_rows(p, tile);
}

static void packed_rows(const part *p) {
    _Alignas(ATTN_ALIGN) float columns[DEPTH * COLS];
    p->own->pack(columns, p->format, p->blocks, p->ld, p->n, p->depth);
    for (size_t i = 0; i < p->rows; i += ROWS)
        p->own->multiply(p->y + i * p->ldy, p->ldy, p->x + i * p->ldx, p->ldx,
                         attn_gemm_least(p->rows - i, ROWS), columns, p->n, p->depth, !p->first);
}

static void widened_rows(const part *p) {
    _Alignas(ATTN_ALIGN) float wide[COLS * DEPTH];
    const bool floats = !p->format->split && p->format->dtype == ATTN_F32 &&
                        (uintptr_t)p->blocks % sizeof(float) == 0;
    const attn_gemm_dims dims = {.M = p->rows,
                                 .N = p->n,
                                 .K = p->depth,
                                 .lda = p->ldx,
                                 .ldb = floats ? p->ld / sizeof(float) : p->depth,
                                 .ldc = p->ldy,
                                 .transpose_b = true};
    for (size_t j = 0; !floats && j < p->n; j++) {
        float *to = wide + j * p->depth;
        const char *from = p->blocks + j * p->ld;
        if (p->own && p->format->bytes == sizeof(uint16_t))
            p->own->widen_halves(to, p->format->dtype, from, p->depth);
        else
            attn_blocks_widen(to, p->format, from, p->depth);
    }
    attn_kernels_gemm(p->y, p->x, floats ? (const float *)(const void *)p->blocks : wide, &dims,
                      p->first ? 0 : 1);
}

static void product_in_parts(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                             const attn_block_matrix *w, size_t first, size_t last, float beta) {
    const attn_block_format *f = w->format;
    part p = {.own = attn_block_kernels_of(attn_isa_current()),
              .format = f,
              .ldy = ldy,
              .ldx = ldx,
              .ld = w->in / f->values * f->bytes,
              .rows = rows};
    for (size_t j = first; rows && j < last; j += COLS)
        for (size_t t = 0; t < w->in; t += DEPTH) {
            p.y = y + j;
            p.x = x + t;
            p.blocks = (const char *)w->blocks + j * p.ld + t / f->values * f->bytes;
            p.n = attn_gemm_least(last - j, COLS);
            p.depth = attn_gemm_least(w->in - t, DEPTH);
            p.first = t == 0 && beta == 0;
            if (!p.own || !f->split)
                widened_rows(&p);
            else if (rows <= FEW)
                few_rows(&p);
            else
                packed_rows(&p);
        }
}

static bool can_split(const float *x, size_t n) {
    return attn_kernels_current()->max_magnitude(x, n) <= ATTN_MOST_SPLIT;
}

void attn_blocks_product(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                         const attn_block_matrix *w, size_t first, size_t last, float beta) {
    attn_blocks_by_integers *by_integers =
        attn_blocks_integers_of(attn_isa_current(), w->format, rows);
    if (!by_integers) {
        product_in_parts(y, ldy, x, ldx, rows, w, first, last, beta);
        return;
    }
    for (size_t r = 0, n = 1; r < rows; r += n, n = 1) {
        const bool split = can_split(x + r * ldx, w->in);
        while (r + n < rows && can_split(x + (r + n) * ldx, w->in) == split)
            n++;
        (split ? by_integers : product_in_parts)(y + r * ldy, ldy, x + r * ldx, ldx, n, w, first,
                                                 last, beta);
    }
}
