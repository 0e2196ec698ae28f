/* Models as safetensors files. The tensors of a file are the model's parameters under their names.
 * The metadata are texts: the settings of the configuration under their names (model_config.h), the
 * tokenizers of both sides ("source_words", absent: numbers; "source_merges", absent: whole words;
 * "source_language", absent: English; "target_words", …), and what the program adds. Names with a
 * dot ("training.…") are remarks and additional tensors, which do not belong to the model.
 *
 * Files are sealed: they hold checksums, and reading one checks each of its bytes. Files that other
 * programs made or changed have no seal. ATTN_MODEL_FILE_VERSION rises when a file may say
 * something that older programs must not overlook. Metadata keys without a dot say how to compute
 * the model, so a sealed file with such a key that this program does not know is refused. */
#ifndef ATTN_MODEL_FILE_H
#define ATTN_MODEL_FILE_H

#include "models.h"
#include "safetensors.h"
#include "tokens.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum { ATTN_MODEL_FILE_VERSION = 2 };

typedef struct attn_model_file {
    attn_model *model;
    attn_tokenizer *source, *target; /* source NULL: the model has no encoder */
    attn_safetensors contents;       /* tensors and metadata; tensor data points into the bytes */
    attn_arena *arena;               /* holds the names, lists and texts of `contents` */
    bool sealed;                     /* the file has checksums */
    /* release(owner) frees the bytes; NULL: the caller owns them */
    void *owner;
    void (*release)(void *owner);
} attn_model_file;

/* attn_model_open loads a model from a file. attn_model_read loads it from memory that must stay
 * valid until attn_model_file_forget or attn_model_file_close. `gradients`: also allocate
 * gradients, for further training. On an error *out is unchanged. Errors: ATTN_EARG (the file
 * cannot be read, or is not a model), ATTN_EVALUE (it has changed since it was written),
 * ATTN_EUNSUPPORTED (a newer program wrote it), and the errors of attn_safetensors_read,
 * attn_tokenizer_read, attn_model_new and attn_parameters_load. */
attn_status attn_model_open(const char *path, bool gradients, attn_model_file *out,
                            attn_error *err);
attn_status attn_model_read(const void *bytes, size_t size, bool gradients, attn_model_file *out,
                            attn_error *err);
/* Makes a model of this configuration with the tensors of a safetensors file that names them in
 * another way, such as the state dict of a torch.nn.TransformerEncoder. `map` translates the names.
 * The caller frees the model. Errors as attn_model_read. */
attn_status attn_model_import(const char *path, const attn_model_config *config,
                              const attn_parameter_name *map, attn_model **out, attn_error *err);
/* Checks again, by the seal, that `bytes` are those that were read. A file without a seal passes.
 * Errors as attn_model_read. */
attn_status attn_model_file_check(const attn_model_file *file, const void *bytes, size_t size,
                                  attn_error *err);
void attn_model_file_close(attn_model_file *file);
/* Frees `contents` and the bytes. The model and the tokenizers stay valid, because they are copies;
 * the caller frees them. */
void attn_model_file_forget(attn_model_file *file);

/* Returns the metadata text of a key; NULL: the file lacks the key. */
const char *attn_model_file_text(const attn_model_file *file, const char *key);
/* Returns the tensor with this name; NULL: the file has no such tensor. */
const attn_tensor *attn_model_file_tensor(const attn_model_file *file, const char *name);

/* What a model file is written from. */
typedef struct attn_model_contents {
    attn_model *model;
    float *values; /* the parameters in the order of the model; NULL: those of the model */
    const attn_tokenizer *source, *target;
    const attn_named_tensor *tensors; /* [tensor_count] more tensors */
    size_t tensor_count;
    const attn_metadata *metadata; /* [metadata_count] more metadata */
    size_t metadata_count;
} attn_model_contents;

/* Lists the bytes of a file in the arena: *pieces [*count], which are to be written one after
 * another. They refer to the values of the contents. Errors as attn_safetensors_header. */
typedef struct attn_model_piece {
    const void *data;
    size_t size;
} attn_model_piece;
attn_status attn_model_pieces(const attn_model_contents *contents, attn_arena *arena,
                              attn_model_piece **pieces, size_t *count, attn_error *err);
/* Writes the bytes that attn_model_pieces lists to a file. Errors as attn_model_pieces; ATTN_EARG
 * also if the file cannot be written: err->text has the reason. */
attn_status attn_model_save(const char *path, const attn_model_contents *contents, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
