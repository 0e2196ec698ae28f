/* Checks of tensors that are parameters of positions. */
#ifndef ATTN_POSITION_CHECKS_H
#define ATTN_POSITION_CHECKS_H

#include <attn/status.h>
#include <attn/tensor.h>

/* Checks that a list or matrix holds finite numbers. `where` is its name in errors. */
attn_status attn_position_check_finite(const attn_tensor *t, const char *where, attn_error *err);
/* Checks that a parameter is present, has this rank and the size `expected` along `axis`, and holds
 * finite numbers. `where` is the parameter's name in errors, and `other` the name of a matrix's
 * other axis. */
attn_status attn_position_check(const attn_tensor *t, const char *where, int rank, int axis,
                                size_t expected, const char *other, attn_error *err);

/* Checks that a table of vectors by distance is present, is [rows, width] or [H, rows, width], and
 * holds finite numbers. `rows` describes its rows in errors. */
attn_status attn_position_check_heads(const attn_tensor *t, const char *where, size_t H,
                                      size_t width, const char *rows, attn_error *err);
/* Checks that the size of an axis is 2m + 1, for the distances -m to m. */
attn_status attn_position_check_odd(const attn_tensor *t, const char *where, int axis,
                                    attn_error *err);

#endif
