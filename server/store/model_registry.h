/* The models that the service offers. A model has one of three origins:
 *
 *   embedded   compiled into the daemon from config/models; parsed on first use file       a file
 *   of models_dir, read at start, on SIGHUP, and when a request finds that the
 *              directory has changed. Files that other programs wrote are opened on first use, and
 *              leave memory if models_bytes has no room (store/model_known.h)
 *   made       made over HTTP or by a training job; limited by models_count and models_bytes. With
 *              models_dir it is durable: a file there, whose metadata names the origin and owner
 *
 * The registry counts references ("holds"). srv_models_hold adds one and srv_models_release removes
 * it. A model that is deleted meanwhile stays valid for its holders, and the last release frees it.
 * Any thread may call these functions, except where a comment says otherwise. */
#ifndef SRV_MODEL_REGISTRY_H
#define SRV_MODEL_REGISTRY_H

#include <attn/attn.h>

#include "config/owner.h"
#include "observe/log.h"
#include "request/request.h"

#define SRV_MODEL_ID 64 /* largest number of characters of a model's id, without the NUL */

typedef struct srv_models srv_models;

typedef enum srv_model_origin {
    SRV_MODEL_EMBEDDED,
    SRV_MODEL_FILE,
    SRV_MODEL_MADE,
} srv_model_origin;

/* Facts about a model whose files another program wrote. They are known even while the model is not
 * in memory. */
typedef struct srv_known {
    char file[SRV_MODEL_ID + 8];     /* name in models_dir: "smollm2.gguf", or of a folder */
    const char *family;              /* family, such as "llama" */
    attn_model *shape;               /* the model without values */
    bool has_words;                  /* the model has a tokenizer */
    size_t vocabulary;               /* number of ids of the tokenizer */
    int32_t stops[ATTN_KNOWN_STOPS]; /* [stop_count] ids that end a generated text */
    size_t stop_count;
    int32_t mask; /* the id of the mask token; -1: there is none */
} srv_known;

typedef struct srv_model {
    struct srv_entry *entry;   /* entry of the model in the registry */
    char id[SRV_MODEL_ID + 1]; /* a file's name without ".safetensors"; "made-…"; "trained-…" */
    srv_model_origin origin;
    const srv_known *known; /* NULL: this program wrote the files of the model */
    /* Its parameters are read-only. NULL: an embedded model that is not parsed yet, or a known
     * model that srv_models_look holds. */
    attn_model *model;
    attn_tokenizer *source, *target; /* if they have ids but no words, the model takes no text */
    size_t bytes;                    /* memory of the parameters and tables, in bytes; of a known
                                        model with its files */
    char owner[SRV_OWNER_NAME + 1];  /* name of the owner's API key; "": shared by all */
    bool durable;                    /* of origin "made", and kept as a file of models_dir */
    bool has_file;                   /* the model is in a file, on disk or embedded */
    bool sealed;                     /* the file has checksums */
} srv_model;

/* Makes the registry with the embedded models and those of models_dir. A file that is not a model
 * is logged and left out; `log` NULL: log to standard error. Returns 0. If memory runs out or
 * models_dir cannot be read, prints one line to standard error and returns an exit code
 * (SRV_EXIT_*). */
int srv_models_open(srv_models **out, const srv_config *config, srv_log *log);
/* Scans models_dir again: loads new and changed files and removes the models of deleted files.
 * Returns 0, or an errno value if the directory cannot be read; in that case all models stay. Sets
 * *whole to true if the directory was read and all of its models are served. */
int srv_models_scan(srv_models *models, bool *whole);
/* Returns whether models_dir was removed. */
bool srv_models_lost(const srv_models *models);
void srv_models_free(srv_models *models); /* no model may be held; NULL is fine */

/* Finds the model with this id and holds it until srv_models_release. If models_dir has changed, it
 * is scanned first. NULL: a problem is set. srv_models_look does the same for a caller that only
 * describes the model (srv_models_shape). */
const srv_model *srv_models_hold(srv_request *req, const char *id);
const srv_model *srv_models_look(srv_request *req, const char *id);
/* Returns whether srv_models_hold (or srv_models_look, if `looks`) would return quickly: the model
 * with this id is in memory, or there is no such model. If `id` is NULL, returns this for
 * srv_models_all. It is too slow for the HTTP thread to parse an embedded model on first use, to
 * open files of other programs, or to scan a changed models_dir. */
bool srv_models_is_read(srv_request *req, const char *id, bool looks);
/* Returns the model. For a known model, returns a model without values, which has the
 * configuration, sites, states and parameters. */
attn_model *srv_models_shape(const srv_model *model);
/* Returns whether the model can run a pass without being read from disk first. */
bool srv_models_is_loaded(srv_request *req, const srv_model *model);
/* Checks that no program has written to the files of a model since they were read. false: a problem
 * is set. */
bool srv_models_is_same(srv_request *req, const srv_model *model);
void srv_models_release(srv_request *req, const srv_model *model); /* NULL is fine */
/* Holds all models that the request may see, as srv_models_look does. Returns a list of *count
 * pointers in the request's arena, sorted by id. The caller releases each model. NULL: a problem is
 * set. */
const srv_model **srv_models_all(srv_request *req, size_t *count);
/* Makes a model with random parameters that depend on the seed only, and holds it. If `shared` is
 * true, the model has no owner; otherwise the API key of the request owns it. The function takes
 * ownership of the tokenizers even if it fails. If there is a models_dir that can be written, the
 * model is written there. NULL: a problem is set. */
const srv_model *srv_models_make(srv_request *req, const attn_model_config *config, uint64_t seed,
                                 attn_tokenizer *source, attn_tokenizer *target, bool shared);
/* Removes a model of origin "made" that the caller holds. Holders can use it until they release
 * it. */
void srv_models_discard(srv_request *req, const srv_model *model);
/* Deletes the model with this id. Calls `forget` after the model's file was removed and before the
 * model leaves the list. If `forget` returns an errno value, the deletion stops. false: a problem
 * is set, and the model is still there. 403: the model is embedded, comes from models_dir, or has
 * another owner. */
bool srv_models_delete(srv_request *req, const char *id, int (*forget)(srv_app *, const char *id));

/* The next functions are for training jobs, which make models without a request.
 *
 * srv_models_count reserves room for a model that will be made later: one model of the limit
 * models_count, and `bytes` bytes of the limit models_bytes. ATTN_ELIMIT: err->where names the
 * setting that would be exceeded. srv_models_uncount returns the reserved room. */
attn_status srv_models_count(srv_models *models, size_t bytes, attn_error *err);
void srv_models_uncount(srv_models *models, size_t bytes);
/* Adds a model for which srv_models_count has reserved memory. The registry then owns the model and
 * its tokenizers. If `keep` is true, also writes the model to models_dir; a failure is logged.
 * false: out of memory; the caller keeps model and tokenizers. */
bool srv_models_adopt(srv_models *models, const srv_model *model, bool keep);
/* Removes the model with this id, which must be of origin "made", if it exists. Returns 0 or an
 * errno value. After an error the model is still there. */
int srv_models_drop(srv_models *models, const char *id);
/* Notes that the model with this id cannot be read now, so that requests for it are refused. The
 * errno value `failed` is the reason. `failed` 0 removes the note, because the model can be read or
 * does not exist. */
void srv_models_await(srv_models *models, const char *id, int failed);

#endif
