/* Models on disk: safetensors with the parameters under their names, architecture and vocabularies
 * in the metadata; a checkpoint of training has moments and counters besides. */
#ifndef SRV_MODEL_FILE_H
#define SRV_MODEL_FILE_H

#include "attn/attn.h"

#include "system/mapped.h"

typedef struct srv_model_file {
    attn_model *model;
    attn_vocabulary *source, *target;
    attn_safetensors contents; /* all of the file; views into bytes */
    attn_arena *arena;         /* of contents */
    srv_mapped *mapped;        /* the bytes; NULL: the caller's */
} srv_model_file;

/* The text under a key of the metadata, or NULL. */
const char *srv_model_text(const srv_model_file *file, const char *key);
/* The tensor of a name, or NULL. */
const attn_tensor *srv_model_tensor(const srv_model_file *file, const char *name);

/* The corpus that the metadata says it was trained on; false: it says none. */
bool srv_model_corpus(const srv_model_file *file, attn_corpus_options *out);

/* A model from a file, or from bytes that outlive it; `gradients`: to be trained further. Tensors
 * named "training.…" are not its own. Errors: ATTN_EARG (cannot be read, no model), those of the
 * container, of the vocabularies, of attn_model_new and attn_parameters_load; a file's are at its
 * path. */
attn_status srv_model_open(const char *path, bool gradients, srv_model_file *out, attn_error *err);
attn_status srv_model_read(const void *bytes, size_t size, bool gradients, srv_model_file *out,
                           attn_error *err);
void srv_model_close(srv_model_file *file);
/* Let go of contents and bytes; the model stays. */
void srv_model_forget(srv_model_file *file);

/* What a file holds beside the model. */
typedef struct srv_model_extras {
    const attn_named_tensor *tensors;
    size_t tensor_count;
    const attn_metadata *metadata;
    size_t metadata_count;
} srv_model_extras;

/* Write the model with `values` (NULL: its own) beside `path`, then rename it into place: the file
 * is always whole. Errors: ATTN_EARG with the reason of the system, ATTN_ENOMEM. */
attn_status srv_model_write(const char *path, attn_model *model, float *values,
                            const attn_vocabulary *source, const attn_vocabulary *target,
                            const srv_model_extras *extras, attn_error *err);

/* The names of the library's enumerations, by their values, NULL behind the last. */
extern const char *const srv_model_architectures[],
    *const srv_model_attentions[], *const srv_model_positions[], *const srv_model_norms[];

#endif
