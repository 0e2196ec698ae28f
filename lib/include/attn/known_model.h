/* Models that people know, as their files are on disk: a folder with config.json and
 * model.safetensors, or its shards and model.safetensors.index.json; or a GGUF file.
 *
 * A model is of a family (lib/models/families), which says what the keys of the configuration and the
 * tensors mean. A key that changes the arithmetic and is not implemented is an error, and so are a
 * key that the family does not know, a tensor of no use and a missing tensor. Files stay mapped:
 * matrices are read where they lie, in the blocks of the file. Such a model cannot be trained, and
 * has no values that attn_model_save could write. */
#ifndef ATTN_KNOWN_MODEL_H
#define ATTN_KNOWN_MODEL_H

#include "models.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct attn_known_model {
    attn_model *model;  /* freed by attn_known_close */
    const char *family; /* "llama" */
    size_t bytes;       /* of the mapped files */
    void *files;        /* for attn_known_close */
} attn_known_model;

/* Opens the model at `path`: a folder, or a file whose name ends in .gguf. The files must not change
 * until attn_known_close. On an error *out is unchanged. Any thread may call it. Errors, where
 * err->where is the file, the key or the tensor:
 *
 *   ATTN_EARG         a file cannot be read or is malformed; a key or a tensor is missing or of no
 *                     use; settings contradict each other
 *   ATTN_EUNSUPPORTED the family, or a value of a key, is not implemented
 *   ATTN_ESHAPE, ATTN_EDTYPE, ATTN_ENONFINITE   a tensor has another shape or type than the
 *                     configuration says, or a number that is not finite
 *   ATTN_ELIMIT, ATTN_ENOMEM */
attn_status attn_known_open(const char *path, attn_known_model *out, attn_error *err);
/* Frees the model and unmaps its files. */
void attn_known_close(attn_known_model *known);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
