/* The safetensors container (https://github.com/huggingface/safetensors): 8 bytes little-endian
 * length N, N bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, …,
 * "__metadata__": {"key": "text", …}}, then the tensors' bytes, little-endian, row-major, without a
 * gap. Reading makes views into the memory of the caller and copies nothing. */
#ifndef ATTN_SAFETENSORS_H
#define ATTN_SAFETENSORS_H

#include "memory.h"
#include "status.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct attn_named_tensor {
    const char *name; /* UTF-8 */
    attn_tensor tensor;
} attn_named_tensor;

typedef struct attn_metadata {
    const char *key, *text;
} attn_metadata;

typedef struct attn_safetensors {
    attn_named_tensor *tensors; /* in the order of the header */
    size_t count;
    attn_metadata *metadata;
    size_t metadata_count;
} attn_safetensors;

/* Reads `size` bytes at `data`, which must outlive the tensors. These are views into the data, and
 * their alignment is that of the data (attn_tensor_is_aligned). Names, texts and lists are in the
 * arena. The function checks everything: grammar, repeated names, element types, sizes against
 * shapes, and that the tensors fill the rest of the data without overlap or gap. Errors: ATTN_EARG
 * (malformed), ATTN_ESHAPE (rank 0 or above ATTN_MAX_RANK, sizes), ATTN_EDTYPE, ATTN_ENOMEM;
 * err->where names the tensor. */
attn_status attn_safetensors_read(const void *data, size_t size, attn_arena *arena,
                                  attn_safetensors *out, attn_error *err);

/* Makes the part before the bytes of the tensors, in the arena: length and header, padded with
 * blanks to a multiple of 64 bytes. It sorts `tensors` by falling element size, so that each is
 * aligned to its element, and their bytes must follow in this order. It refuses what
 * attn_safetensors_read would refuse: ATTN_EARG (a name twice, or not UTF-8, or "__metadata__"; a
 * tensor with gaps; more than 64 texts), ATTN_EDTYPE, ATTN_ESHAPE (rank 0 or above ATTN_MAX_RANK),
 * ATTN_ELIMIT (bytes beyond what can be counted, a header above 100 MB); err->where names the
 * tensor. Also ATTN_ENOMEM. */
attn_status attn_safetensors_header(attn_safetensors *what, attn_arena *arena, const void **header,
                                    size_t *size, attn_error *err);

/* Tells whether the data begins at a multiple of the size of an element. */
bool attn_tensor_is_aligned(const attn_tensor *tensor);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
