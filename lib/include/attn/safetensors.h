/* The safetensors container (https://github.com/huggingface/safetensors): 8 bytes little-endian
 * length N, N bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, …,
 * "__metadata__": {"key": "text", …}}, then the tensors' bytes, little-endian, row-major, without a
 * gap. Reading makes views into the caller's memory; nothing is copied. */
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

/* Read `size` bytes at `data`, which must outlive the tensors: views into it, aligned to their
 * element only as far as `data` and the writer saw to it (attn_tensor_is_aligned). Names, texts and
 * lists are in the arena. Everything is checked: grammar, repeated names, element types, sizes
 * against shapes, and that the tensors fill the rest of the data without overlap or gap. Errors:
 * ATTN_EARG malformed, ATTN_ESHAPE (rank 0 or above ATTN_MAX_RANK, sizes), ATTN_EDTYPE,
 * ATTN_ENOMEM; err->where names the tensor. */
attn_status attn_safetensors_read(const void *data, size_t size, attn_arena *arena,
                                  attn_safetensors *out, attn_error *err);

/* What stands before the tensors' bytes: length and header, padded with blanks to a multiple of 64
 * bytes, in the arena. The bytes must follow in the order of `tensors`, which are sorted here by
 * falling element size so that each is aligned to its element. What attn_safetensors_read would
 * refuse is refused here: ATTN_EARG (a name twice, or not UTF-8, or "__metadata__"; a tensor with
 * gaps; more than 64 texts), ATTN_EDTYPE, ATTN_ESHAPE (rank 0 or above ATTN_MAX_RANK), ATTN_ELIMIT
 * (bytes beyond what can be counted, a header above 100 MB); err->where names the tensor. Also
 * ATTN_ENOMEM. */
attn_status attn_safetensors_header(attn_safetensors *what, attn_arena *arena, const void **header,
                                    size_t *size, attn_error *err);

/* Does the data begin at a multiple of the element's size? */
bool attn_tensor_is_aligned(const attn_tensor *tensor);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
