/* Reads and writes models as safetensors files. The tensors of a file are the model's parameters
 * under their names. The metadata of a file are texts: the configuration, both vocabularies with
 * the merges of sub-words ("source_merges", "target_merges"; absent: whole words) and, if known,
 * the training corpus. The checkpoint of a training job also holds the optimizer's moments as
 * tensors and its counters as metadata; their names begin with "training.".
 *
 * Files are sealed (attn/safetensors.h), and reading one checks each of its bytes. Version 1 is
 * that of files without a seal: those of older programs, and those that were made or changed
 * elsewhere. SRV_MODEL_VERSION rises when a file may say something that older programs must not
 * overlook. Keys of metadata without a dot say how to compute the model, so one that this program
 * does not know is refused in a sealed file; others are remarks. */
#ifndef SRV_MODEL_FILE_H
#define SRV_MODEL_FILE_H

#include "attn/attn.h"
#include "corpus/corpus.h"
#include "system/mapped.h"

enum { SRV_MODEL_VERSION = 2 }; /* of the files that are written; all up to it are read */

typedef struct srv_model_file {
    attn_model *model;
    attn_vocabulary *source, *target;
    attn_safetensors contents; /* tensors and metadata; tensor data points into the file's bytes */
    attn_arena *arena;         /* holds the names, lists and texts of `contents` */
    srv_mapped *mapped;        /* the mapped file; NULL: srv_model_read was given the bytes */
    size_t version;            /* 1 … SRV_MODEL_VERSION */
} srv_model_file;

/* Returns the metadata text of a key; NULL: the file lacks the key. */
const char *srv_model_text(const srv_model_file *file, const char *key);
/* Returns the tensor with this name; NULL: the file has no such tensor. */
const attn_tensor *srv_model_tensor(const srv_model_file *file, const char *name);

/* Reads the options of the training corpus from the metadata. false: the metadata has no corpus. */
bool srv_model_corpus(const srv_model_file *file, attn_corpus_options *out);

/* srv_model_open loads a model from a file. srv_model_read loads it from memory that must stay
 * valid until srv_model_forget or srv_model_close. `gradients`: also allocate gradients, for
 * further training. Tensors named "training.…" are not part of the model. Errors: ATTN_EARG (the
 * file cannot be read, or is not a model), ATTN_EVALUE (it has changed since it was written),
 * ATTN_EUNSUPPORTED (a newer program wrote it), and the errors of attn_safetensors_read,
 * attn_vocabulary_read, attn_model_new and attn_parameters_load. srv_model_open sets err->where to
 * the path, and returns ATTN_EARG instead of ATTN_EVALUE. Its *failed (may be NULL) becomes an
 * errno value if there was trouble that says nothing about the file (SRV_FILE_TROUBLE), such as
 * EAGAIN, it was changed while it was read; else 0. */
attn_status srv_model_open(const char *path, bool gradients, srv_model_file *out, int *failed,
                           attn_error *err);
attn_status srv_model_read(const void *bytes, size_t size, bool gradients, srv_model_file *out,
                           attn_error *err);
/* Checks that the bytes of the mapped file are still those that srv_model_open has checked. Call it
 * after the last read of `contents`. ATTN_EARG: they are not. */
attn_status srv_model_recheck(srv_model_file *file, attn_error *err);
void srv_model_close(srv_model_file *file);
/* Frees `contents` and unmaps the file. The model and the vocabularies stay valid, because they are
 * copies; the caller frees them. */
void srv_model_forget(srv_model_file *file);

/* The tensors and metadata that a file holds in addition to those of the model. */
typedef struct srv_model_extras {
    const attn_named_tensor *tensors;
    size_t tensor_count;
    const attn_metadata *metadata;
    size_t metadata_count;
} srv_model_extras;

/* Writes the model and `extras` (may be NULL) to a temporary file and renames it to `path`, so that
 * the file at `path` is always complete. `values` are the parameters to write, in the order of the
 * model's own; NULL: write the model's own. `source` and `target` may be NULL: the model has no
 * words. *failed (may be NULL) becomes the errno value if the system refuses the file, else 0.
 * Errors: ATTN_EARG (the text has the system's reason), ATTN_ENOMEM, and the errors of
 * attn_safetensors_header. */
attn_status srv_model_write(const char *path, attn_model *model, float *values,
                            const attn_vocabulary *source, const attn_vocabulary *target,
                            const srv_model_extras *extras, int *failed, attn_error *err);

/* The names of attn_model_architecture, attn_model_attention, attn_model_positions and of the two
 * places of the norm, in the order of the enumerations' values. NULL ends each list. */
extern const char *const srv_model_architectures[],
    *const srv_model_attentions[], *const srv_model_positions[], *const srv_model_norms[];

#endif
