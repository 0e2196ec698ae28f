/* What layers with weight matrices share: declaring under a name, and the three products. */
#ifndef ATTN_DENSE_LAYER_H
#define ATTN_DENSE_LAYER_H

#include <attn/layers.h>

/* A parameter "name.what". */
void attn_layers_add(attn_parameters *set, const char *name, const char *what, int rank,
                     const size_t *dims, attn_init init, attn_weight *weight);
/* Every row of y [rows, width] becomes bias; sum [width] += all rows of x. */
void attn_layers_fill_rows(float *y, size_t rows, const float *bias, size_t width);
void attn_layers_sum_rows(float *sum, const float *x, size_t rows, size_t width);
/* y [rows, out] = x [rows, in] weight^T + beta y;  dx += dy weight;  dweight += dy^T x. */
void attn_layers_product(float *y, const float *x, size_t rows, const float *weight, size_t in,
                         size_t out, float beta);
void attn_layers_product_back(float *dx, const float *dy, size_t rows, const float *weight,
                              size_t in, size_t out);
void attn_layers_weight_back(float *dweight, const float *dy, const float *x, size_t rows,
                             size_t in, size_t out);
/* A matrix [K, N], or with `transposed` what is stored as [N, K], in panels for the pointwise
 * product; attn_layers_panel_floats(K, N) of them. */
size_t attn_layers_panel_floats(size_t K, size_t N);
void attn_layers_pack(float *panels, const float *matrix, size_t K, size_t N, bool transposed);
/* count * width floats of the pass's arena, zeroed or not; NULL and ATTN_ENOMEM in *err. */
float *attn_layers_take(attn_pass *pass, size_t count, size_t width, attn_error *err);
float *attn_layers_zeroed(attn_pass *pass, size_t count, size_t width, attn_error *err);

#endif
