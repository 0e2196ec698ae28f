/* The models of the service: embedded in the daemon (config/models), loaded from models_dir, or
 * made over HTTP.
 *
 * A request holds a model by id (srv_models_hold … srv_models_release). The model may be deleted
 * meanwhile and is freed when the last holder releases it. Models made over HTTP count in the
 * memory budget and are limited by models_count and models_bytes. Embedded models are read on first
 * use. Any thread may call these functions. */
#ifndef SRV_MODEL_REGISTRY_H
#define SRV_MODEL_REGISTRY_H

#include <attn/attn.h>

#include "config/owner.h"
#include "observe/log.h"
#include "request/request.h"

#define SRV_MODEL_ID 64 /* most characters of an id */

typedef struct srv_models srv_models;

typedef enum srv_model_origin {
    SRV_MODEL_EMBEDDED,
    SRV_MODEL_FILE, /* of models_dir */
    SRV_MODEL_MADE, /* over HTTP */
} srv_model_origin;

typedef struct srv_model {
    char id[SRV_MODEL_ID + 1]; /* of files their name without ".safetensors" */
    srv_model_origin origin;
    attn_model *model;                /* its parameters are read-only */
    attn_vocabulary *source, *target; /* NULL: ids only */
    attn_language languages[2];       /* how texts of source and target become words */
    size_t bytes;                     /* of values and tables */
    char owner[SRV_OWNER_NAME + 1];   /* "": shared by all */
} srv_model;

/* Returns 0, or an exit code (app.h) after one line on standard error: out of memory, or an
 * unusable directory. A file that is not a model is logged and left out (log NULL: standard error).
 */
int srv_models_open(srv_models **out, const srv_config *config, srv_log *log);
/* Scans models_dir again: loads new and changed files and removes the models of deleted files. Only
 * one thread may do this at a time. Returns 0, or an errno value, in which case nothing has
 * changed. */
int srv_models_scan(srv_models *models);
void srv_models_free(srv_models *models); /* no model may be held; NULL is fine */

/* Finds the model with this id and holds it until it is released. NULL: a problem is set. */
const srv_model *srv_models_hold(srv_request *req, const char *id);
/* Tells whether holding the model needs no file to be read, even if there is no such model. NULL:
 * whether this is so for every model. */
bool srv_models_is_read(srv_request *req, const char *id);
void srv_models_release(srv_request *req, const srv_model *model); /* NULL is fine */
/* Returns all models that the request may see, sorted by id and held; `*count` models in the
 * request's arena. NULL: a problem is set. */
const srv_model **srv_models_all(srv_request *req, size_t *count);
/* Makes a model with values drawn from the seed. It takes ownership of the vocabularies (or NULL)
 * in every case. The model belongs to the request, or is shared, and is held. NULL: a problem is
 * set. */
const srv_model *srv_models_make(srv_request *req, const attn_model_config *config, uint64_t seed,
                                 attn_vocabulary *source, attn_vocabulary *target,
                                 const attn_language languages[2], bool shared);
/* Removes a held model that was made over HTTP. Whoever holds it can use it until the release. */
void srv_models_discard(srv_request *req, const srv_model *model);
/* Deletes a model by id. false: a problem is set. Embedded models, models of models_dir and models
 * of other owners cannot be deleted (403). */
bool srv_models_delete(srv_request *req, const char *id);

/* Counts a new model of `bytes` in advance, for code without a request. ATTN_ELIMIT: err->where is
 * the setting. */
attn_status srv_models_count(srv_models *models, size_t bytes, attn_error *err);
void srv_models_uncount(srv_models *models, size_t bytes);
/* Adds a model that was counted. The registry then owns model and vocabularies. false: out of
 * memory, and nothing has changed. */
bool srv_models_adopt(srv_models *models, const srv_model *model);
void srv_models_drop(srv_models *models, const char *id); /* a made one, if it exists */
/* The languages of the task of a corpus; NULL: unknown. */
void srv_model_speaks(srv_model *model, const char *task);

#endif
