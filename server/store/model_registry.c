/* Models are held, made and deleted. A new model is counted in `count` and `bytes` under the lock,
 * and its memory is then allocated without the lock, so that other requests need not wait. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/try.h"
#include "observe/log.h"
#include "request/shared.h"
#include "store/model_known.h"

/* Returns the name of the API key that owns the model; NULL: the model is shared. */
static const char *owner_of(const srv_entry *e) {
    return *e->model.owner ? e->model.owner : NULL;
}

/* --- models of files --- */

static attn_status read_embedded(srv_entry *e, attn_error *err) {
    attn_model_file file;
    ATTN_TRY(attn_model_read(e->embedded->data, e->embedded->size, false, &file, err));
    e->embedded = NULL;
    return srv_entry_take(&e->model, &file, err);
}

static int no_memory(void) {
    fprintf(stderr, "attnd: cannot start: not enough memory\n");
    return SRV_EXIT_RESOURCES;
}

int srv_models_open(srv_models **out, const srv_config *config, srv_log *log) {
    srv_models *m = *out = calloc(1, sizeof *m);
    if (!m)
        return no_memory();
    m->config = config;
    m->log = log;
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->files, NULL);
    if (!srv_entries_embedded(m))
        return no_memory();
    srv_models_sweep(m);
    bool whole;
    const int failed = srv_models_scan(m, &whole);
    if (!failed)
        return 0;
    fprintf(stderr, "attnd: cannot use models_dir %s: %s\n", config->models_dir, strerror(failed));
    return SRV_EXIT_USAGE;
}

void srv_models_free(srv_models *m) {
    if (!m)
        return;
    for (srv_entry *e = srv_held_first(&m->list), *next; e; e = next) {
        next = srv_held_next(&e->held);
        srv_entry_free(e);
    }
    srv_models_forgive(m);
    while (m->awaited)
        srv_models_await(m, m->awaited->id, 0);
    pthread_mutex_destroy(&m->files);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* --- holding --- */

/* Parses the entry's embedded file if that has not happened yet, and holds the entry. The caller
 * has the lock. */
static attn_status hold_model(srv_entry *e, attn_error *err) {
    const attn_status status = e->embedded ? read_embedded(e, err) : ATTN_OK;
    e->held.holds += !status;
    return status;
}

static void let_go(srv_models *m, srv_entry *e) {
    pthread_mutex_lock(&m->lock);
    const bool last = srv_held_let_go(&e->held);
    if (last && e->loaded)
        m->known_bytes -= e->loaded->bytes;
    pthread_mutex_unlock(&m->lock);
    if (last)
        srv_entry_free(e);
}

/* Returns the link of the list `awaited` that points to the model with this id, or the last link,
 * which is NULL. The caller has the lock. */
static srv_awaited **find_awaited(srv_models *m, const char *id) {
    srv_awaited **at = &m->awaited;
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

void srv_models_await(srv_models *m, const char *id, int failed) {
    pthread_mutex_lock(&m->lock);
    srv_awaited **at = find_awaited(m, id), *a = *at;
    if (!a && failed && (a = calloc(1, sizeof *a))) {
        snprintf(a->id, sizeof a->id, "%s", id);
        *at = a;
    }
    if (a && failed) {
        a->failed = failed;
    } else if (a) {
        *at = a->next;
        free(a);
    }
    pthread_mutex_unlock(&m->lock);
}

static int awaited_failure(srv_models *m, const char *id) {
    pthread_mutex_lock(&m->lock);
    const srv_awaited *a = *find_awaited(m, id);
    const int failed = a ? a->failed : 0;
    pthread_mutex_unlock(&m->lock);
    return failed;
}

static void not_found(srv_request *req, const char *id) {
    srv_models *m = req->app->models;
    srv_refusal why;
    const bool refused = srv_models_why(m, id, &why);
    const int failed = awaited_failure(m, id);
    if (failed)
        srv_problem_file(req, NULL, "the model cannot be read from jobs_dir", failed);
    else if (refused && why.failed)
        srv_problem_file(req, NULL, "the model cannot be read from models_dir", why.failed);
    else if (refused)
        srv_problem(req, SRV_DAMAGED, NULL, "the file of model \"%.64s\" is not a model: %s", id,
                    why.text);
    else
        srv_problem(req, SRV_NOT_FOUND, NULL,
                    "there is no model \"%.64s\"; GET /v1/models lists those that there are", id);
}

/* Sets the problem for a held model that cannot be read. If its file is at fault, notes that the
 * file is refused. */
static void refuse(srv_request *req, srv_entry *e, const attn_error *err) {
    srv_models *m = req->app->models;
    if (!e->model.known) {
        srv_problem_error(req, err);
    } else if (err->code == ATTN_ELIMIT && !strcmp(err->where, "models_bytes")) {
        srv_problem_limit(req, srv_known_may_fit(m, e) ? SRV_MEMORY_BUDGET : SRV_TOO_LARGE, NULL,
                          (double)m->config->models_bytes, "models_bytes", "%s", err->text);
    } else {
        srv_models_refuse(m, e, err);
        not_found(req, e->model.id);
    }
}

static const srv_model *hold(srv_request *req, const char *id, srv_known_part part) {
    srv_models *m = req->app->models;
    attn_error err = {0};
    srv_models_refresh(m);
    pthread_mutex_lock(&m->lock);
    srv_entry *e = srv_entry_find(m, id);
    attn_status status = e ? hold_model(e, &err) : ATTN_OK;
    const bool held = e && !status;
    if (held && part == SRV_KNOWN_ALL)
        e->used_ns = attn_now_ns();
    pthread_mutex_unlock(&m->lock);
    if (!e)
        not_found(req, id);
    if (held)
        status = srv_known_read(m, e, part, &err);
    if (status)
        refuse(req, e, &err);
    if (status && held)
        let_go(m, e);
    return e && !status ? &e->model : NULL;
}

const srv_model *srv_models_hold(srv_request *req, const char *id) {
    return hold(req, id, SRV_KNOWN_ALL);
}

const srv_model *srv_models_look(srv_request *req, const char *id) {
    return hold(req, id, SRV_KNOWN_FACTS);
}

bool srv_models_is_read(srv_request *req, const char *id, bool looks) {
    srv_models *m = req->app->models;
    const srv_known_part part = looks || !id ? SRV_KNOWN_FACTS : SRV_KNOWN_ALL;
    if (srv_models_is_stale(m))
        return false;
    pthread_mutex_lock(&m->lock);
    const srv_entry *e = id ? srv_entry_find(m, id) : srv_held_first(&m->list);
    bool read = !e || (!e->embedded && srv_known_has(e, part));
    while (!id && e && (e = srv_held_next(&e->held)))
        read = read && !e->embedded && srv_known_has(e, part);
    pthread_mutex_unlock(&m->lock);
    return read;
}

attn_model *srv_models_shape(const srv_model *model) {
    return model->known ? model->known->shape : model->model;
}

bool srv_models_is_loaded(srv_request *req, const srv_model *model) {
    srv_models *m = req->app->models;
    pthread_mutex_lock(&m->lock);
    const bool loaded = srv_known_has(model->entry, SRV_KNOWN_ALL);
    pthread_mutex_unlock(&m->lock);
    return loaded;
}

bool srv_models_is_same(srv_request *req, const srv_model *model) {
    return !model->known || !srv_known_changed(model->entry) ||
           srv_problem_file(req, NULL, "the files of the model were changed meanwhile", EAGAIN);
}

void srv_models_release(srv_request *req, const srv_model *model) {
    if (model)
        let_go(req->app->models, model->entry);
}

/* Holds all entries that the request may see, and lists them in `all`. */
static attn_status hold_all(srv_request *req, const srv_model **all, size_t *count,
                            attn_error *err) {
    srv_models *m = req->app->models;
    attn_status status = ATTN_OK;
    for (srv_entry *e = srv_held_first(&m->list); !status && e; e = srv_held_next(&e->held))
        if (srv_request_sees(req, owner_of(e)) && !(status = hold_model(e, err)))
            all[(*count)++] = &e->model;
    return status;
}

/* Keeps the models in `all` that can be read, and releases the others. */
static size_t read_all(srv_models *m, const srv_model **all, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        srv_entry *e = all[i]->entry;
        attn_error err = {0};
        if (!srv_known_read(m, e, SRV_KNOWN_FACTS, &err)) {
            all[kept++] = all[i];
            continue;
        }
        srv_models_refuse(m, e, &err);
        let_go(m, e);
    }
    return kept;
}

const srv_model **srv_models_all(srv_request *req, size_t *count) {
    srv_models *m = req->app->models;
    attn_error err = {0};
    *count = 0;
    srv_models_refresh(m);
    pthread_mutex_lock(&m->lock);
    const srv_model **all = attn_arena_zeroed(req->arena, m->list.count + 1, sizeof *all);
    attn_status status = all ? hold_all(req, all, count, &err)
                             : attn_fail(&err, ATTN_ENOMEM, "", "no memory for a list of models");
    pthread_mutex_unlock(&m->lock);
    if (!status) {
        *count = read_all(m, all, *count);
        return all;
    }
    for (size_t i = 0; i < *count; i++)
        srv_models_release(req, all[i]);
    srv_problem_error(req, &err);
    return NULL;
}

/* --- making and deleting --- */

/* Counts a model that is still to be made. Returns NULL. If the model would exceed a limit, does
 * not count it, and returns the setting of the limit, "models_count" or "models_bytes". */
static const char *try_count(srv_models *m, size_t bytes) {
    srv_loaded *old = NULL;
    bool fits = false;
    pthread_mutex_lock(&m->lock);
    const bool crowded = m->count >= (size_t)m->config->models_count;
    if (!crowded)
        old = srv_known_make_room(m, bytes, &fits);
    const bool full = !crowded && !fits;
    if (fits) {
        m->count++;
        m->bytes += bytes;
    }
    pthread_mutex_unlock(&m->lock);
    srv_loaded_free(old);
    return crowded ? "models_count" : full ? "models_bytes" : NULL;
}

attn_status srv_models_count(srv_models *m, size_t bytes, attn_error *err) {
    const char *setting = try_count(m, bytes);
    return setting ? attn_fail(err, ATTN_ELIMIT, setting,
                               "there is no room for another model of %zu bytes: delete one", bytes)
                   : ATTN_OK;
}

/* Counts a model that the request is about to make. false: a problem is set. */
static bool reserve_model(srv_request *req, size_t bytes) {
    srv_models *m = req->app->models;
    const int64_t most = m->config->models_bytes, places = m->config->models_count;
    if (bytes > (size_t)most)
        return srv_problem_limit(req, SRV_TOO_LARGE, NULL, (double)most, "models_bytes",
                                 "the model needs %zu bytes; all models made here together may use "
                                 "%" PRId64,
                                 bytes, most);
    const char *setting = try_count(m, bytes);
    if (setting && strcmp(setting, "models_count") == 0)
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, (double)places, setting,
                          "%" PRId64 " models were made here, and there is no room for more: "
                          "delete one",
                          places);
    else if (setting)
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, (double)most, setting,
                          "the model needs %zu bytes, more than the models made here leave of "
                          "%" PRId64 ": delete one",
                          bytes, most);
    return !setting;
}

void srv_models_uncount(srv_models *m, size_t bytes) {
    pthread_mutex_lock(&m->lock);
    m->count--;
    m->bytes -= bytes;
    pthread_mutex_unlock(&m->lock);
}

static attn_status name_and_make(srv_entry *e, const attn_model_config *config, uint64_t seed,
                                 attn_error *err) {
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        return attn_fail(err, ATTN_ENOMEM, "", "the system has no random numbers for an id");
    snprintf(e->model.id, sizeof e->model.id, "made-%016" PRIx64, bits);
    return attn_model_new(config, seed, false, &e->model.model, err);
}

/* Adds a model of origin "made" to the list. If `keep` is true, also writes it to models_dir, so
 * that it survives the process. Returns 0 or an errno value. After an error the model is not in the
 * list. */
static int publish_model(srv_models *m, srv_entry *e, bool keep) {
    pthread_mutex_lock(&m->files);
    const int failed = keep ? srv_models_write(m, e) : 0;
    if (!failed) {
        pthread_mutex_lock(&m->lock);
        srv_entry_list(m, e);
        pthread_mutex_unlock(&m->lock);
    }
    pthread_mutex_unlock(&m->files);
    return failed;
}

const srv_model *srv_models_make(srv_request *req, const attn_model_config *config, uint64_t seed,
                                 attn_tokenizer *source, attn_tokenizer *target, bool shared) {
    srv_models *m = req->app->models;
    attn_error err = {0};
    srv_model model = {.origin = SRV_MODEL_MADE, .source = source, .target = target};
    if (!shared && req->owner)
        snprintf(model.owner, sizeof model.owner, "%s", req->owner);
    srv_entry *e = srv_entry_new(&model);
    if (!e) {
        attn_tokenizer_free(source);
        attn_tokenizer_free(target);
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for the model is left");
        return NULL;
    }
    attn_status status = attn_model_bytes(config, false, &e->model.bytes, &err);
    const bool counted = !status && reserve_model(req, e->model.bytes);
    if (counted && (status = name_and_make(e, config, seed, &err)))
        srv_models_uncount(m, e->model.bytes);
    if (status)
        srv_problem_error(req, &err);
    if (!counted || status) {
        srv_entry_free(e);
        return NULL;
    }
    e->held.holds = 1;
    const int failed = publish_model(m, e, true);
    if (!failed)
        return &e->model;
    srv_models_uncount(m, e->model.bytes);
    srv_entry_free(e);
    srv_problem_file(req, NULL, "the model cannot be written to models_dir", failed);
    return NULL;
}

bool srv_models_adopt(srv_models *m, const srv_model *model, bool keep) {
    srv_entry *e = srv_entry_new(model);
    if (!e)
        return false;
    const int failed = publish_model(m, e, keep);
    if (failed) {
        srv_log_event(m->log, SRV_LOG_ERROR, "%s is not kept: models_dir cannot be written: %s",
                      model->id, strerror(failed));
        publish_model(m, e, false);
    }
    return true;
}

static void drop_settled(srv_models *m, srv_entry *e) {
    pthread_mutex_lock(&m->lock);
    srv_entry_drop(m, e);
    pthread_mutex_unlock(&m->lock);
}

/* Deletes the file of a model of origin "made" and removes the model from the list. The caller has
 * `files`, so that the entry stays in the list meanwhile. Returns 0 or an errno value. After an
 * error the model is still in the list, but its file is gone if only the sync of models_dir
 * failed. */
static int remove_made(srv_models *m, srv_entry *e) {
    const int failed = e->model.durable ? srv_models_unlink(m, e->model.id) : 0;
    if (!failed)
        drop_settled(m, e);
    return failed;
}

void srv_models_discard(srv_request *req, const srv_model *model) {
    srv_models *m = req->app->models;
    srv_entry *e = model->entry;
    pthread_mutex_lock(&m->files);
    if (e->held.listed)
        remove_made(m, e);
    pthread_mutex_unlock(&m->files);
}

/* Returns the entry with this id. The caller has `files`, so that the entry stays in the list. */
static srv_entry *find_settled(srv_models *m, const char *id) {
    pthread_mutex_lock(&m->lock);
    srv_entry *e = srv_entry_find(m, id);
    pthread_mutex_unlock(&m->lock);
    return e;
}

int srv_models_drop(srv_models *m, const char *id) {
    pthread_mutex_lock(&m->files);
    srv_entry *e = find_settled(m, id);
    const int failed = e && e->model.origin == SRV_MODEL_MADE ? remove_made(m, e) : 0;
    pthread_mutex_unlock(&m->files);
    return failed;
}

bool srv_models_delete(srv_request *req, const char *id, int (*forget)(srv_app *, const char *id)) {
    srv_models *m = req->app->models;
    srv_models_refresh(m);
    pthread_mutex_lock(&m->files);
    srv_entry *e = find_settled(m, id);
    const bool made = e && e->model.origin == SRV_MODEL_MADE,
               may = made && srv_request_owns(req, owner_of(e));
    int failed = may && e->model.durable ? srv_models_unlink(m, id) : 0;
    if (may && !failed)
        failed = forget(req->app, id);
    if (may && !failed)
        drop_settled(m, e);
    pthread_mutex_unlock(&m->files);
    if (failed)
        srv_problem_file(req, NULL, "the model cannot be deleted", failed);
    else if (e && !made)
        srv_problem(req, SRV_FORBIDDEN, NULL,
                    "the model \"%.64s\" came with the service: only those made by POST "
                    "/v1/models can be deleted",
                    id);
    else if (!e)
        not_found(req, id);
    return may && !failed;
}
