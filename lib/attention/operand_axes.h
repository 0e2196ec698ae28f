/* Reads the axes of the caller's tensors: batch axes, heads, rows and width of an operand. */
#ifndef ATTN_OPERAND_AXES_H
#define ATTN_OPERAND_AXES_H

#include <attn/attention.h>

/* A tensor of the caller, and its sizes: batch axes, heads, rows and width. The sizes follow from
 * its axes and the layout. The first batch_rank axes are batch axes. */
typedef struct attn_operand {
    const char *name;
    const attn_tensor *t;
    int batch_rank;
    size_t heads, rows, width;
} attn_operand;

/* Checks the rank, the type and the size of a tensor, which errors call `name`. */
attn_status attn_operand_check(const char *name, const attn_tensor *t, attn_error *err);
/* Fills the members of *o after `t`. attn_operand_check must have checked o->t. `heads` is the
 * stated number of heads, or 0. */
attn_status attn_operand_split(attn_operand *o, attn_layout layout, size_t heads, attn_error *err);
/* Checks that an operand (key, value or cache) has the query's rank. */
attn_status attn_operand_same_rank(const attn_operand *q, const attn_operand *o, attn_error *err);
/* Fills the members of *o after `t`, for a cache. In every layout the shape of a cache is [batch
 * axes, Hkv, P, E], or [batch axes, P, E] if there is one head. */
attn_status attn_operand_split_cache(attn_operand *o, const attn_attention_dims *d,
                                     attn_error *err);

#endif
