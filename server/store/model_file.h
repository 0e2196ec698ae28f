/* Models on disk are safetensors files: parameters under their names, architecture and vocabularies
 * in the metadata. A checkpoint also holds moments and counters. */
#ifndef SRV_MODEL_FILE_H
#define SRV_MODEL_FILE_H

#include "attn/attn.h"

#include "system/mapped.h"

typedef struct srv_model_file {
    attn_model *model;
    attn_vocabulary *source, *target;
    attn_safetensors contents; /* contents of the file; they point into bytes */
    attn_arena *arena;         /* of contents */
    srv_mapped *mapped;        /* the bytes; NULL: the caller owns them */
} srv_model_file;

/* Returns the metadata text of a key, or NULL. */
const char *srv_model_text(const srv_model_file *file, const char *key);
/* Returns the tensor with this name, or NULL. */
const attn_tensor *srv_model_tensor(const srv_model_file *file, const char *name);

/* Reads the training corpus from the metadata. false: the metadata has none. */
bool srv_model_corpus(const srv_model_file *file, attn_corpus_options *out);

/* Load a model from a file, or from bytes that outlive it. `gradients` allocates gradients for
 * further training. Tensors named "training.…" are not part of the model. Errors: ATTN_EARG
 * (unreadable, or not a model), and those of the container, the vocabularies, attn_model_new and
 * attn_parameters_load; for a file err->where is its path. */
attn_status srv_model_open(const char *path, bool gradients, srv_model_file *out, attn_error *err);
attn_status srv_model_read(const void *bytes, size_t size, bool gradients, srv_model_file *out,
                           attn_error *err);
void srv_model_close(srv_model_file *file);
/* Frees contents and bytes; the model stays valid. */
void srv_model_forget(srv_model_file *file);

/* The contents of a file besides the model. */
typedef struct srv_model_extras {
    const attn_named_tensor *tensors;
    size_t tensor_count;
    const attn_metadata *metadata;
    size_t metadata_count;
} srv_model_extras;

/* Writes the model with `values` (NULL: its own) to a temporary file and renames it to `path`, so
 * that the file is always complete. Errors: ATTN_EARG with the reason of the system, ATTN_ENOMEM.
 */
attn_status srv_model_write(const char *path, attn_model *model, float *values,
                            const attn_vocabulary *source, const attn_vocabulary *target,
                            const srv_model_extras *extras, attn_error *err);

/* Names of the library's enumerations in the order of their values, ended by NULL. */
extern const char *const srv_model_architectures[],
    *const srv_model_attentions[], *const srv_model_positions[], *const srv_model_norms[];

#endif
