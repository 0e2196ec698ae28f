/* Files of models (attn/model_file.h) on disk. A file is mapped for reading. It is written under
 * another name and then renamed, so that the file under its own name is always complete. Its
 * metadata may name the training corpus. The checkpoint of a training job also has the moments of
 * the optimizer as tensors, and the counters of the optimizer as metadata whose names begin with
 * "training.". */
#ifndef SRV_MODEL_DISK_H
#define SRV_MODEL_DISK_H

#include <attn/model_file.h>

#include "corpus/corpus.h"

/* Loads a model from a file. Errors are those of attn_model_open; err->where is the path. *failed
 * (may be NULL) becomes an errno value if the failure has another cause than the contents of the
 * file (SRV_FILE_TROUBLE), such as EAGAIN if the file was changed while it was read; else 0. */
attn_status srv_model_open(const char *path, bool gradients, attn_model_file *out, int *failed,
                           attn_error *err);
/* Checks that the bytes of the file are still those that srv_model_open has checked. Call it after
 * the last read of tensors and texts of the file. ATTN_EARG: they are not. */
attn_status srv_model_recheck(attn_model_file *file, attn_error *err);

/* Reads the options of the training corpus from the metadata. false: the metadata has no corpus. */
bool srv_model_corpus(const attn_model_file *file, attn_corpus_options *out);

/* Writes the file of a model. *failed (may be NULL) becomes the errno value if the system cannot
 * write it, else 0. Errors are those of attn_model_save. */
attn_status srv_model_write(const char *path, const attn_model_contents *contents, int *failed,
                            attn_error *err);

#endif
