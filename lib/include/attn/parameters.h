/* Parameter sets: the named float32 tensors that a model learns.
 *
 * All values stand in one block. Names are those of PyTorch's state dicts
 * ("encoder_lstm.weight_ih_l0_reverse"), so that weights travel both ways. Every tensor starts at a
 * multiple of ATTN_ALIGN bytes. The elements between two tensors are 0 and stay so. */
#ifndef ATTN_PARAMETERS_H
#define ATTN_PARAMETERS_H

#include "memory.h"
#include "status.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum { ATTN_PARAMETER_RANK = 3, ATTN_PARAMETER_NAME = 128 };

typedef struct attn_parameter {
    char name[ATTN_PARAMETER_NAME];
    int rank;
    size_t dims[ATTN_PARAMETER_RANK];
    size_t count;  /* elements */
    size_t offset; /* of the first element in the blocks */
} attn_parameter;

typedef struct attn_parameters attn_parameters;

void attn_parameters_free(attn_parameters *set); /* set may be NULL */

/* Return the size of the block of values in floats, and the block, for loops over all elements. */
size_t attn_parameters_size(const attn_parameters *set);
float *attn_parameters_values(attn_parameters *set);

/* Return the number of tensors, and a tensor by its index in order of declaration. */
size_t attn_parameters_length(const attn_parameters *set);
const attn_parameter *attn_parameters_at(const attn_parameters *set, size_t index);
/* Returns a dense float32 view of the values of a tensor. */
attn_tensor attn_parameters_value(const attn_parameters *set, size_t index);
/* Counts the elements of the tensors whose name is `part` or begins with `part` and a dot. For ""
 * it counts those of all tensors. */
size_t attn_parameters_count(const attn_parameters *set, const char *part);

/* Copies values into the set by name. tensors[i] has name names[i] and any floating-point type.
 * Every parameter must be among them with its shape. Other names are an error unless they are in
 * `ignored`, a NULL-terminated list or NULL. A failure changes nothing. Errors, with the name in
 * err->where: ATTN_EARG (a missing or unknown name), ATTN_ESHAPE, ATTN_EDTYPE, ATTN_ENONFINITE. */
attn_status attn_parameters_load(attn_parameters *set, size_t count, const char *const *names,
                                 const attn_tensor *tensors, const char *const *ignored,
                                 attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
