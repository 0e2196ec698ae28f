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

#endif
