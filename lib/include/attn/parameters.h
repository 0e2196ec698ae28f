/* Parameter sets: the named float32 tensors that a model learns.
 *
 * All values are in one block, and so are the gradients. Each tensor begins at a multiple of
 * ATTN_ALIGN bytes; elements of the block between two tensors are always 0. Names are those of
 * PyTorch's state dicts ("encoder_lstm.weight_ih_l0_reverse"), so weights can be exchanged with
 * it. */
#ifndef ATTN_PARAMETERS_H
#define ATTN_PARAMETERS_H

#include "memory.h"
#include "status.h"
#include "tensor.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum {
    ATTN_PARAMETER_RANK = 3,   /* most axes of a parameter */
    ATTN_PARAMETER_NAME = 128, /* most bytes of a name, with its NUL */
};

/* One tensor of a set. */
typedef struct attn_parameter {
    char name[ATTN_PARAMETER_NAME];
    int rank;
    size_t dims[ATTN_PARAMETER_RANK];
    size_t count; /* number of elements */
    /* index of its first element in the block of values; SIZE_MAX: its values are in a mapped
     * file */
    size_t offset;
} attn_parameter;

typedef struct attn_parameters attn_parameters;

void attn_parameters_free(attn_parameters *set); /* set may be NULL */

/* Return the number of floats in the block of values, and the block. Loops over all parameters use
 * them. */
size_t attn_parameters_size(const attn_parameters *set);
float *attn_parameters_values(attn_parameters *set);

/* Return the number of tensors, and tensor `index` in the order of declaration. */
size_t attn_parameters_length(const attn_parameters *set);
const attn_parameter *attn_parameters_at(const attn_parameters *set, size_t index);
/* Returns a dense float32 view of the values of tensor `index`, without data if the values are in a
 * file. */
attn_tensor attn_parameters_value(const attn_parameters *set, size_t index);
/* Counts the elements of the tensors whose name is `part` or begins with `part` and a dot; ""
 * counts all tensors. */
size_t attn_parameters_count(const attn_parameters *set, const char *part);

/* A row of a map of names, by which the tensors of another layout become parameters. Both names may
 * have one `*`, which stands for the same text in both, such as the number of a layer. */
typedef struct attn_parameter_name {
    const char *theirs; /* NULL ends the map */
    /* NULL: their tensor is not read, because the model does not need it or has the same values
     * under another name (tied) */
    const char *ours;
    bool transposed; /* true: their tensor has the axes [columns, rows] */
    /* parts > 1: of the two tensors, one has `parts` times as many rows as the other. The smaller
     * tensor, whether theirs or ours, is the part with the index `part` of the larger one; other
     * rows of the map name the other parts. 0 or 1: both tensors have equally many rows. */
    size_t part, parts;
} attn_parameter_name;

/* Copies `count` tensors into the set by name. tensors[i] has the name names[i] and any
 * floating-point type. `map` NULL: the names are those of the set. Each tensor must have a name of
 * the map, and every element of the parameters must be filled exactly once. On an error the set
 * does not change. Errors, with the name in err->where: ATTN_EARG (a name is missing, unknown or
 * repeated), ATTN_ESHAPE, ATTN_EDTYPE, ATTN_ENONFINITE, ATTN_ENOMEM. */
attn_status attn_parameters_load(attn_parameters *set, size_t count, const char *const *names,
                                 const attn_tensor *tensors, const attn_parameter_name *map,
                                 attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
