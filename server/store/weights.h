/* The files of a language model: a file NAME.gguf or NAME.safetensors, or a folder
 *
 *   NAME/config.json                     the configuration of the model
 *   NAME/model.safetensors               its tensors, or, if they are in several files,
 *   NAME/model.safetensors.index.json    the index that names them
 *   NAME/tokenizer.json                  may be missing, and so may
 *   NAME/generation_config.json          the ids that end a text
 *
 * The files are mapped, and tensors are views of them. Other programs may change them meanwhile
 * (system/mapped.h). Pickles are never read, because loading one runs the code in it. */
#ifndef SRV_WEIGHTS_H
#define SRV_WEIGHTS_H

#include <attn/attn.h>

#include "system/mapped.h"
#include "json/json_tree.h"

typedef struct srv_weights {
    int dir;           /* the directory of the files */
    attn_arena *arena; /* holds the results of the readers */
    srv_mapped **files;
    size_t file_count;
    bool is_gguf;
    attn_gguf gguf;           /* used if is_gguf */
    attn_safetensors tensors; /* used if not is_gguf */
    attn_json *config;        /* config.json of a folder */
    attn_json *tokenizer;     /* tokenizer.json of a folder; NULL: there is none */
    attn_string texts[3];     /* of a folder: config, tokenizer, generation_config; NULL: none */
} srv_weights;

/* Opens `name` in the directory `dir`. err->where names the file below `dir` that is refused, and
 * err->text has the tensor or key, if there is one. On an error nothing has to be closed. */
attn_status srv_weights_open(int dir, const char *name, srv_weights *out, attn_error *err);
void srv_weights_close(srv_weights *w);
/* Returns the files in the form that the library reads (attn/known_model.h). Valid as long as *w is
 * open. */
attn_known_files srv_weights_files(const srv_weights *w);
/* Returns the bytes of all files. */
size_t srv_weights_bytes(const srv_weights *w);
/* Returns whether another program has written to one of the files since they were opened. */
bool srv_weights_changed(const srv_weights *w);

/* Returns whether the suffix of a file name belongs to pickles: .bin, .pt, .pth, .ckpt, .pkl. */
bool srv_is_pickle(const char *name);
/* Sets the error that refuses a pickle and says how to convert it. `where` is the file. */
attn_status srv_refuse_pickle(const char *where, attn_error *err);

#endif
