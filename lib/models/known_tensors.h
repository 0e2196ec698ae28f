/* The tensors of a model in the files of another program, and how they become parameters. */
#ifndef ATTN_KNOWN_TENSORS_H
#define ATTN_KNOWN_TENSORS_H

#include "models/families/family.h"

/* A tensor of a file. */
typedef struct known_tensor {
    const char *name;
    const attn_block_format *format; /* NULL: the values are of a type that no weight has */
    int rank;
    size_t dims[ATTN_MAX_RANK]; /* the last axis is that of successive values */
    const void *data;           /* the blocks, in a mapped file */
    bool used;
} known_tensor;

typedef struct known_tensors {
    known_tensor *items; /* [count] */
    size_t count;
    bool gguf;
} known_tensors;

/* Returns the tensor with this name; NULL: there is none. */
known_tensor *attn_known_tensor(const known_tensors *tensors, const char *name);
/* Returns whether the tensors include the head of a family (attn_family.head). */
bool attn_known_has_head(const known_tensors *tensors, const attn_family *family);
/* Seals the parameters of a declared model with the tensors: matrices become views of the tensors,
 * and vectors are copied. Every parameter must have a tensor, and every tensor must be used or be
 * one that the family does not use. Scratch memory is in the arena. Errors, with the name in
 * err->where: ATTN_EARG (missing, or not used), ATTN_ESHAPE, ATTN_EDTYPE, ATTN_ENONFINITE,
 * ATTN_ENOMEM. */
attn_status attn_known_bind(attn_model *model, const known_config *config,
                            const known_tensors *tensors, const attn_family *family,
                            attn_arena *arena, attn_error *err);

#endif
