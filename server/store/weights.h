/* Weights of language models as they are on disk: a file NAME.gguf or NAME.safetensors, or a folder
 *
 *   NAME/config.json                     what the model is
 *   NAME/model.safetensors               its tensors, or, if they are in several files,
 *   NAME/model.safetensors.index.json    the index that names them
 *   NAME/tokenizer.json                  may be missing, and so may
 *   NAME/generation_config.json          which ids end a text
 *
 * The files are mapped, and tensors are views of them. Other programs may change them meanwhile
 * (system/mapped.h). Pickles are never read, since loading one runs the code in it. */
#ifndef SRV_WEIGHTS_H
#define SRV_WEIGHTS_H

#include <attn/attn.h>

#include "system/mapped.h"
#include "json/json_tree.h"

typedef struct srv_weights {
    int dir;           /* the directory of the files */
    attn_arena *arena; /* holds what the readers found */
    srv_mapped **files;
    size_t file_count;
    bool is_gguf;
    attn_gguf gguf;           /* if is_gguf */
    attn_safetensors tensors; /* else */
    attn_json *config;        /* of a folder */
    attn_json *tokenizer;     /* of a folder with tokenizer.json; else NULL */
    attn_string texts[3];     /* of a folder: config, tokenizer, generation_config; NULL: none */
} srv_weights;

/* Opens `name` in the directory `dir`. err->where names the file below `dir` that is refused, and
 * err->text has the tensor or key, if there is one. On an error nothing has to be closed. */
attn_status srv_weights_open(int dir, const char *name, srv_weights *out, attn_error *err);
void srv_weights_close(srv_weights *w);
/* Returns the files as the library reads models (attn/known_model.h), as long as *w is open. */
attn_known_files srv_weights_files(const srv_weights *w);
/* Returns the bytes of all files. */
size_t srv_weights_bytes(const srv_weights *w);
/* Returns whether another program has written to one of the files since they were opened. */
bool srv_weights_changed(const srv_weights *w);

/* Returns whether the name of a file says that it holds a pickle: .bin, .pt, .pth, .ckpt, .pkl. */
bool srv_is_pickle(const char *name);
/* Fails with the sentence that says how to convert a pickle. `where` is the file. */
attn_status srv_refuse_pickle(const char *where, attn_error *err);

#endif
