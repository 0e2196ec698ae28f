/* Parameter sets: named float32 tensors that are learned, all values in one block, all gradients in
 * another of the same places.
 *
 * Layers declare what they need, attn_parameters_seal takes the memory and tells each layer where
 * its tensors are. Names are those of PyTorch's state dicts ("encoder_lstm.weight_ih_l0_reverse"),
 * so that weights travel both ways. Every tensor starts at a multiple of ATTN_ALIGN bytes; what
 * lies between two tensors is 0 in both blocks and stays so, whatever an optimiser does element by
 * element with gradients of 0. */
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

/* Where one tensor of a sealed set lives. */
typedef struct attn_weight {
    float *value;
    float *gradient; /* NULL in a set without gradients */
} attn_weight;

typedef enum attn_init_kind {
    ATTN_INIT_CONSTANT, /* amount */
    ATTN_INIT_UNIFORM,  /* in [-amount, amount) */
    ATTN_INIT_NORMAL,   /* standard deviation amount */
} attn_init_kind;

typedef struct attn_init {
    attn_init_kind kind;
    double amount;
    bool blank; /* row blank_row of a matrix is 0, as with torch's padding_idx */
    size_t blank_row;
} attn_init;

typedef struct attn_parameter {
    char name[ATTN_PARAMETER_NAME];
    int rank;
    size_t dims[ATTN_PARAMETER_RANK];
    size_t count;  /* elements */
    size_t offset; /* of the first element in the blocks */
    attn_init init;
    attn_weight *weight; /* of the layer that declared it */
} attn_parameter;

typedef struct attn_parameters attn_parameters;

attn_parameters *attn_parameters_new(void);      /* NULL: out of memory */
void attn_parameters_free(attn_parameters *set); /* NULL is fine */

/* Declare a tensor before the set is sealed. *weight is filled by attn_parameters_seal and must
 * outlive the set at the same place. A failure (no memory, a repeated or too long name, more than
 * ATTN_PARAMETER_RANK axes, sizes that overflow) is kept and reported by attn_parameters_seal. */
void attn_parameters_add(attn_parameters *set, const char *name, int rank, const size_t *dims,
                         attn_init init, attn_weight *weight);
/* Take the blocks, zeroed, and fill the layers' weights. ATTN_ENOMEM, ATTN_EARG, ATTN_ELIMIT. */
attn_status attn_parameters_seal(attn_parameters *set, bool gradients, attn_error *err);

/* Initial values: element e of parameter p is drawn at (attn_rng_bits(seed, p), e), attn/rng.h. */
void attn_parameters_init(attn_parameters *set, uint64_t seed);
void attn_parameters_zero_gradients(attn_parameters *set);

/* The blocks, `size` floats each, for loops over all elements; gradients NULL without. */
size_t attn_parameters_size(const attn_parameters *set);
float *attn_parameters_values(attn_parameters *set);
float *attn_parameters_gradients(attn_parameters *set);

/* The tensors in order of declaration. */
size_t attn_parameters_length(const attn_parameters *set);
const attn_parameter *attn_parameters_at(const attn_parameters *set, size_t index);
/* Views of a value and of its gradient, float32, dense. */
attn_tensor attn_parameters_value(const attn_parameters *set, size_t index);
attn_tensor attn_parameters_gradient(const attn_parameters *set, size_t index);
/* How many numbers the tensors hold whose name is `part` or begins with `part` and a dot; all for
 * "". */
size_t attn_parameters_count(const attn_parameters *set, const char *part);

/* Copy in values by name: `names[i]` has `tensors[i]` of any floating type. Every parameter must be
 * there with its shape; other names are an error, but for those in `ignored` (NULL-terminated list
 * of names, or NULL). Nothing is changed on failure. ATTN_EARG (missing, unknown), ATTN_ESHAPE,
 * ATTN_EDTYPE, ATTN_ENONFINITE; err->where is the name. */
attn_status attn_parameters_load(attn_parameters *set, size_t count, const char *const *names,
                                 const attn_tensor *tensors, const char *const *ignored,
                                 attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
