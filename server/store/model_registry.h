/* The models that the service answers for: those embedded in the daemon (config/models), those of
 * models_dir, and those made over HTTP.
 *
 * A model is held by id while a request looks at it (srv_models_hold … srv_models_release): it may
 * be deleted meanwhile and is freed when the last holder lets go. What is made over HTTP is counted
 * in the memory budget and bounded by models_count and models_bytes. Embedded models are read when
 * somebody first asks for them. Any thread. */
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
    attn_model *model;                /* nobody changes its parameters */
    attn_vocabulary *source, *target; /* NULL: ids only */
    attn_language languages[2];       /* how texts of source and target become words */
    size_t bytes;                     /* of values and tables */
    char owner[SRV_OWNER_NAME + 1];   /* "": shared by all */
} srv_model;

/* 0, or an exit code (app.h) and one line on standard error: out of memory, or a directory that
 * cannot be used. A file that is no model is logged and left out (log NULL: standard error). */
int srv_models_open(srv_models **out, const srv_config *config, srv_log *log);
/* Look at models_dir again: files that came or changed are read, models whose files went go. One
 * thread at a time. 0 or an errno value: nothing has changed. */
int srv_models_scan(srv_models *models);
void srv_models_free(srv_models *models); /* none may be held; NULL is fine */

/* The model of this id, held until released. NULL: a problem is set. */
const srv_model *srv_models_hold(srv_request *req, const char *id);
/* Would holding it read nothing, be it there or not? NULL: holding any of them. */
bool srv_models_is_read(srv_request *req, const char *id);
void srv_models_release(srv_request *req, const srv_model *model); /* NULL is fine */
/* All that the request sees, by id, held, `*count` in the request's arena. NULL: a problem is set.
 */
const srv_model **srv_models_all(srv_request *req, size_t *count);
/* Make a model with values drawn from the seed; the vocabularies (or NULL) become its own, whatever
 * happens. It is the request's own, or shared, and held. NULL: a problem is set. */
const srv_model *srv_models_make(srv_request *req, const attn_model_config *config, uint64_t seed,
                                 attn_vocabulary *source, attn_vocabulary *target,
                                 const attn_language languages[2], bool shared);
/* Delete one that is held and made over HTTP; its holders keep it. */
void srv_models_discard(srv_request *req, const srv_model *model);
/* The same by id. false: a problem is set. Those that came with the service or its directory, and
 * those of others, stay: 403. */
bool srv_models_delete(srv_request *req, const char *id);

/* For those that make models without a request. Count one of `bytes` to come: ATTN_ELIMIT,
 * err->where the setting. */
attn_status srv_models_count(srv_models *models, size_t bytes, attn_error *err);
void srv_models_uncount(srv_models *models, size_t bytes);
/* List a model that was counted; model and vocabularies are the registry's then. false: out of
 * memory, nothing has changed. */
bool srv_models_adopt(srv_models *models, const srv_model *model);
void srv_models_drop(srv_models *models, const char *id); /* a made one, if it is still there */
/* The languages of a corpus' task; NULL: unknown. */
void srv_model_speaks(srv_model *model, const char *task);

#endif
