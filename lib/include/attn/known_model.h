/* Models that people know, as their files are on disk: a folder with config.json and
 * model.safetensors, or its shards and model.safetensors.index.json; or a GGUF file.
 *
 * A model belongs to a family (lib/models/families), which defines what the keys of the
 * configuration and the tensors mean. These are errors: a key that changes the arithmetic and is
 * not implemented, a key that the family does not know, a tensor that the model does not use, and a
 * missing tensor. Files stay mapped, and matrices are read in place, in the blocks of the file.
 * Such a model cannot be trained, and it has no values that attn_model_save could write. */
#ifndef ATTN_KNOWN_MODEL_H
#define ATTN_KNOWN_MODEL_H

#include "gguf.h"
#include "models.h"
#include "safetensors.h"
#include "tokens.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The contents of a model's files. A GGUF file fills only `gguf`, and a folder fills the other
 * members. Texts are JSON. */
typedef struct attn_known_files {
    const attn_gguf *gguf;           /* NULL: a folder */
    attn_string config;              /* config.json */
    attn_string generation;          /* generation_config.json; text NULL: there is none */
    attn_string tokenizer;           /* tokenizer.json; text NULL: there is none */
    const attn_safetensors *tensors; /* the tensors of all shards */
} attn_known_files;

enum { ATTN_KNOWN_STOPS = 16 };

typedef struct attn_known_model {
    attn_model *model;  /* freed by attn_known_close, or by the caller of attn_known_read */
    const char *family; /* "llama" */
    /* [stop_count] the ids that end the model's output, as its files say */
    int32_t stops[ATTN_KNOWN_STOPS];
    size_t stop_count;
    size_t bytes; /* size of the mapped files; 0 with attn_known_read */
    void *files;  /* for attn_known_close */
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

/* Makes a model from files that the caller has read. Their tensors must outlive the model. The
 * caller frees out->model. Errors as attn_known_open. */
attn_status attn_known_read(const attn_known_files *files, attn_known_model *out, attn_error *err);
/* Makes the tokenizer from tokenizer.json, or from the arrays of a GGUF file. The files need not
 * outlive it. The caller frees it. *out is NULL if the files have none, or if a GGUF file of byte
 * pairs does not say how texts are split ("tokenizer.ggml.pre"). Errors as
 * attn_tokenizer_read_json; ATTN_EARG (a value of a GGUF file has another kind). */
attn_status attn_known_tokenizer(const attn_known_files *files, attn_tokenizer **out,
                                 attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
