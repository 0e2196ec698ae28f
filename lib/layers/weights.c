/* Values of weights: floats that the set owns, or views of blocks in mapped memory. A product with a
 * view widens tiles of the matrix just before they are multiplied, so that no float copy of the
 * matrix exists. */
#include <string.h>

#include "kernels/gemm.h"
#include "layers/layers.h"

/* A tile of a matrix has at most ROWS rows and DEPTH columns, which are whole blocks in every
 * format. A group of paired rows has at most WIDEST rows, the largest width of a head. */
enum { ROWS = 128, DEPTH = ATTN_BLOCK_MOST, WIDEST = 4096 };

size_t attn_weight_row_bytes(const attn_block_format *format, size_t width) {
    return width / format->values * format->bytes;
}

/* Returns the number that row r has in the file. */
static size_t stored_row(const attn_weight_view *v, size_t r) {
    if (!v->group)
        return r;
    const size_t at = r % v->group, half = v->group / 2;
    return r / v->group * v->group_stride + (v->paired ? at % half * 2 + at / half : at);
}

static const char *row_of(const attn_weight_view *v, size_t r, size_t width) {
    return (const char *)v->data + stored_row(v, r) * attn_weight_row_bytes(v->format, width);
}

/* Widens columns [at, at + n) of row r. The stored matrix of a transposed view is [width, stride],
 * so a row of the model is one of its columns. */
static void widen_part(float *to, const attn_weight_view *v, size_t r, size_t width, size_t at,
                       size_t n) {
    const attn_block_format *f = v->format;
    if (v->transposed) {
        const char *from = (const char *)v->data + (at * v->stride + r) * f->bytes;
        attn_widen_f32(to, from, f->dtype, (ptrdiff_t)v->stride, n);
    } else {
        attn_blocks_widen(to, f, row_of(v, r, width) + at / f->values * f->bytes, n);
    }
}

void attn_weight_part(float *to, const attn_weight *weight, size_t r, size_t width, size_t at,
                      size_t n) {
    if (weight->value)
        memcpy(to, weight->value + r * width + at, n * sizeof *to);
    else
        widen_part(to, &weight->view, r, width, at, n);
}

void attn_weight_row(float *to, const attn_weight *weight, size_t r, size_t width) {
    attn_weight_part(to, weight, r, width, 0, width);
}

/* Returns the matrix of a view if its rows are aligned floats in the order of the model, else
 * NULL. */
static const float *floats_of(const attn_weight_view *v) {
    const bool plain = v->format->dtype == ATTN_F32 && !v->format->split && !v->group;
    return plain && (uintptr_t)v->data % sizeof(float) == 0 ? v->data : NULL;
}

static void multiply(float *y, const float *x, const float *matrix, attn_gemm_dims dims, size_t ldb,
                     float beta) {
    dims.ldb = ldb;
    attn_kernels_gemm(y, x, matrix, &dims, beta);
}

/* Computes the product with a transposed view by tiles of the matrix. */
static void multiply_tiles(float *y, const float *x, const attn_weight_view *v, attn_gemm_dims dims,
                           float beta) {
    _Alignas(ATTN_ALIGN) float tile[ROWS * DEPTH];
    const size_t in = dims.K, out = dims.N;
    for (size_t r = 0; r < out; r += ROWS) {
        dims.N = out - r < ROWS ? out - r : ROWS;
        for (size_t at = 0; at < in; at += DEPTH) {
            dims.K = in - at < DEPTH ? in - at : DEPTH;
            for (size_t i = 0; i < dims.N; i++)
                widen_part(tile + i * DEPTH, v, r + i, in, at, dims.K);
            multiply(y + r, x + at, tile, dims, DEPTH, at ? 1 : beta);
        }
    }
}

/* Reorders the columns of y [rows, out]: from the order of paired rows in the file to the order of
 * the model, or back. */
static void reorder(float *y, size_t rows, const attn_weight_view *v, size_t out, bool back) {
    float was[WIDEST];
    const size_t half = v->group / 2;
    for (float *to = y; to < y + rows * out; to += v->group) {
        memcpy(was, to, v->group * sizeof *to);
        for (size_t i = 0; back && i < half; i++) {
            to[2 * i] = was[i];
            to[2 * i + 1] = was[half + i];
        }
        for (size_t i = 0; !back && i < half; i++) {
            to[i] = was[2 * i];
            to[half + i] = was[2 * i + 1];
        }
    }
}

/* Computes the product for runs of rows that follow each other in the file: all rows, or the rows
 * of each group. */
static void multiply_blocks(float *y, const float *x, size_t rows, const attn_weight_view *v,
                            size_t in, size_t out, float beta) {
    const size_t run = v->group < v->group_stride ? v->group : out;
    if (v->paired && beta != 0)
        reorder(y, rows, v, out, true);
    for (size_t r = 0; r < out; r += run) {
        const attn_block_matrix w = {
            .format = v->format, .blocks = row_of(v, r, in), .out = run, .in = in};
        attn_blocks_product(y + r, out, x, in, rows, &w, 0, run, beta);
    }
    if (v->paired)
        reorder(y, rows, v, out, false);
}

void attn_layers_product(float *y, const float *x, size_t rows, const attn_weight *weight,
                         size_t in, size_t out, float beta) {
    const attn_weight_view *v = &weight->view;
    attn_gemm_dims dims = {
        .M = rows, .N = out, .K = in, .lda = in, .ldc = out, .transpose_b = true};
    const float *matrix = weight->value ? weight->value : floats_of(v);
    if (!matrix && !v->transposed) {
        multiply_blocks(y, x, rows, v, in, out, beta);
        return;
    }
    if (!matrix) {
        multiply_tiles(y, x, v, dims, beta);
        return;
    }
    dims.transpose_b = weight->value || !v->transposed;
    multiply(y, x, matrix, dims, dims.transpose_b ? in : v->stride, beta);
}
