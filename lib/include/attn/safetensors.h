/* The safetensors container (https://github.com/huggingface/safetensors). It has three parts:
 *
 *   8 bytes  N, the length of the header, little-endian
 *   N bytes  the header, JSON: {"name": {"dtype", "shape", "data_offsets": [begin, end]}, …,
 *            "__metadata__": {"key": "text", …}}
 *   rest     the bytes of the tensors, little-endian, row-major, without gaps
 *
 * Reading copies no tensor: the tensors are views of the caller's memory. */
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

/* One entry of "__metadata__", UTF-8. */
typedef struct attn_metadata {
    const char *key, *text;
} attn_metadata;

/* A tensor of a container that no attn_tensor can be a view of. */
typedef struct attn_unusable_tensor {
    const char *name;
    attn_status code;   /* ATTN_EDTYPE: another element type; ATTN_ESHAPE: no axes, or too many */
    const char *reason; /* what was expected, and what was found */
} attn_unusable_tensor;

/* The contents of a container. */
typedef struct attn_safetensors {
    attn_named_tensor *tensors; /* [count], in the order of the header */
    size_t count;
    attn_unusable_tensor *unusable; /* [unusable_count], in the order of the header */
    size_t unusable_count;
    attn_metadata *metadata; /* [metadata_count] */
    size_t metadata_count;
} attn_safetensors;

/* Reads a container of `size` bytes at `data`. The tensors are views of `data`, which must outlive
 * them; a tensor may be unaligned (attn_tensor_is_aligned). Names, texts and lists are in the
 * arena. Everything is checked: grammar, repeated names, element types, sizes against shapes, and
 * that the tensors fill the rest of the data without overlap or gap. On an error *out stays
 * unchanged and err->where names the tensor:
 *
 *   ATTN_EARG    malformed
 *   ATTN_ESHAPE  rank 0 or above ATTN_MAX_RANK, or data_offsets that do not fit the shape
 *   ATTN_EDTYPE  an element type other than those of attn_dtype
 *   ATTN_ENOMEM  the arena is full */
attn_status attn_safetensors_read(const void *data, size_t size, attn_arena *arena,
                                  attn_safetensors *out, attn_error *err);

/* Does what attn_safetensors_read does, for a container of which not every tensor is needed.
 * Tensors with an element type that attn_dtype lacks, or with no axes or too many, are listed in
 * out->unusable. Of these only data_offsets are checked. */
attn_status attn_safetensors_read_usable(const void *data, size_t size, attn_arena *arena,
                                         attn_safetensors *out, attn_error *err);

/* The contents of model.safetensors.index.json: which of several files (shards) holds each
 * tensor. */
typedef struct attn_shard_index {
    const char **files; /* [file_count]: names of files in the folder of the index, each once */
    size_t file_count;
    struct attn_shard_entry {
        const char *name; /* name of a tensor */
        size_t file;      /* index of its file in `files` */
    } * entries;          /* [count], sorted by name */
    size_t count;
} attn_shard_index;

/* Reads an index of `size` bytes of JSON: {"metadata": {…}, "weight_map": {"name of a tensor":
 * "name of a file", …}}. The metadata are not read. Everything in *out is in the arena.
 *
 *   ATTN_EARG    malformed; a tensor twice; a name of a file that has a slash or does not end in
 *                ".safetensors"; err->where names the tensor
 *   ATTN_ENOMEM  the arena is full */
attn_status attn_shard_index_read(const char *text, size_t size, attn_arena *arena,
                                  attn_shard_index *out, attn_error *err);

/* Joins the contents of the shards, parts [index->file_count] in the order of index->files, as if
 * they were those of one file. *out has the tensors of all parts, usable or not, in the order of
 * the parts, and the metadata of the first. ATTN_EARG: a tensor is not in the file that the index
 * names, or a file has one that the index does not name there. */
attn_status attn_shards_join(const attn_shard_index *index, const attn_safetensors *parts,
                             attn_arena *arena, attn_safetensors *out, attn_error *err);

/* Makes the length and the header of a container in the arena. Blanks pad them to a multiple of 64
 * bytes. The caller writes the bytes of the tensors behind them. To align each tensor to its
 * elements, this function sorts `what->tensors` by falling element size; the bytes must follow in
 * the new order. It refuses tensors that attn_safetensors_read would refuse. err->where then names
 * the tensor:
 *
 *   ATTN_EARG    a name that is repeated, not UTF-8 or "__metadata__"; a tensor with gaps;
 *                more than 64 metadata texts
 *   ATTN_EDTYPE  an unknown element type
 *   ATTN_ESHAPE  rank 0 or above ATTN_MAX_RANK
 *   ATTN_ELIMIT  more bytes than SIZE_MAX / 2, or a header above 100 MB
 *   ATTN_ENOMEM  the arena is full */
attn_status attn_safetensors_header(attn_safetensors *what, attn_arena *arena, const void **header,
                                    size_t *size, attn_error *err);

/* Returns whether the data of the tensor begins at a multiple of its element size. */
bool attn_tensor_is_aligned(const attn_tensor *tensor);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
