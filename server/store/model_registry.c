/* The registry is one list of entries, sorted by id, under one lock. An entry that was removed from
 * the list is freed by its last holder. A new model is counted in `count` and `bytes` under the
 * lock, and its memory is then allocated without the lock, so that other requests need not wait. */
#include "store/model_registry.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "observe/log.h"
#include "request/shared.h"
#include "store/model_file.h"
#include "system/embedded.h"
#include "system/host.h"

#define SUFFIX   ".safetensors"
#define EMBEDDED "models/" /* how the names of embedded model files begin (system/embedded.h) */

static const size_t SUFFIX_SIZE = sizeof SUFFIX - 1;

typedef struct entry entry;
struct entry {
    srv_model model; /* must be the first member, because let_go casts srv_model * to entry * */
    entry *next;
    size_t holds;             /* number of references by requests */
    bool listed;              /* whether the entry is in the list of srv_models */
    const srv_file *embedded; /* the embedded file to parse on first use; NULL: already parsed */
    srv_file_state file;      /* the state of the file in models_dir when it was read */
    bool seen;                /* the current scan of models_dir has found the file */
};

struct srv_models {
    pthread_mutex_t lock;
    const srv_config *config;
    srv_log *log;        /* NULL: standard error */
    entry *first;        /* sorted by id */
    size_t count, bytes; /* of models of origin "made", including those still being made */
};

static void entry_free(entry *e) {
    attn_model_free(e->model.model);
    attn_vocabulary_free(e->model.source);
    attn_vocabulary_free(e->model.target);
    free(e);
}

static entry *find(const srv_models *m, const char *id) {
    entry *e = m->first;
    while (e && strcmp(e->model.id, id) != 0)
        e = e->next;
    return e;
}

/* Returns the name of the API key that owns the model; NULL: the model is shared. */
static const char *owner_of(const entry *e) {
    return *e->model.owner ? e->model.owner : NULL;
}

static void list_in(srv_models *m, entry *e) {
    entry **at = &m->first;
    while (*at && strcmp((*at)->model.id, e->model.id) < 0)
        at = &(*at)->next;
    e->next = *at;
    *at = e;
    e->listed = true;
}

static void list_out(srv_models *m, entry *e) {
    entry **at = &m->first;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    e->listed = false;
}

/* --- models of files --- */

/* Derives the model's id from a file name by removing ".safetensors". false: the name lacks this
 * suffix, begins with ".", is too long, or has a character that is not safe in a URL path. */
static bool id_of(const char *name, char id[SRV_MODEL_ID + 1]) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const size_t n = strlen(name);
    if (n <= SUFFIX_SIZE || n - SUFFIX_SIZE > SRV_MODEL_ID || *name == '.' ||
        strcmp(name + n - SUFFIX_SIZE, SUFFIX) != 0 || strspn(name, safe) != n)
        return false;
    memcpy(id, name, n - SUFFIX_SIZE);
    id[n - SUFFIX_SIZE] = 0;
    return true;
}

void srv_model_speaks(srv_model *to, const char *task) {
    attn_task known;
    if (!task || !attn_task_parse(task, &known))
        known = ATTN_COPY;
    attn_task_languages(known, to->languages);
}

/* Moves model and vocabularies from the file into `to` and frees the rest of the file. */
static attn_status take_model(srv_model *to, srv_model_file *file, attn_error *err) {
    srv_model_speaks(to, srv_model_text(file, "corpus.task"));
    to->model = file->model;
    to->source = file->source;
    to->target = file->target;
    srv_model_forget(file);
    return attn_model_bytes(attn_model_configuration(to->model), false, &to->bytes, err);
}

static attn_status read_embedded(entry *e, attn_error *err) {
    srv_model_file file;
    const attn_status status =
        srv_model_read(e->embedded->data, e->embedded->size, false, &file, err);
    if (status)
        return status;
    e->embedded = NULL;
    return take_model(&e->model, &file, err);
}

static int no_memory(void) {
    fprintf(stderr, "attnd: cannot start: not enough memory\n");
    return SRV_EXIT_RESOURCES;
}

/* Adds the embedded models whose ids are not in the list yet. Returns 0 or an exit code. */
static int add_embedded(srv_models *m) {
    for (const srv_file *f = srv_embedded; f->name; f++) {
        char id[SRV_MODEL_ID + 1];
        if (strncmp(f->name, EMBEDDED, sizeof EMBEDDED - 1) != 0 ||
            !id_of(f->name + sizeof EMBEDDED - 1, id) || find(m, id))
            continue;
        entry *e = calloc(1, sizeof *e);
        if (!e)
            return no_memory();
        e->model.origin = SRV_MODEL_EMBEDDED;
        e->embedded = f;
        memcpy(e->model.id, id, sizeof id);
        list_in(m, e);
    }
    return 0;
}

/* Removes the entry from the list. Frees it if nothing holds it; otherwise the last holder frees
 * it. The caller has the lock. */
static void take_out(srv_models *m, entry *e) {
    list_out(m, e);
    if (!e->holds)
        entry_free(e);
}

/* Returns whether the file needs no reading, either because it is unchanged since it was last read
 * or because a model of origin "made" has its id; such a model is never replaced. */
static bool is_known(srv_models *m, const char *id, const srv_file_state *now) {
    pthread_mutex_lock(&m->lock);
    entry *e = find(m, id);
    const bool made = e && e->model.origin == SRV_MODEL_MADE,
               known =
                   made || (e && e->model.origin == SRV_MODEL_FILE && srv_file_same(&e->file, now));
    if (e)
        e->seen = true;
    pthread_mutex_unlock(&m->lock);
    if (made)
        srv_log_event(m->log, SRV_LOG_WARN,
                      "models_dir: %s is not served: a model of this id was made over HTTP", id);
    return known;
}

/* Adds the entry to the list. It replaces the entry with the same id, which is an embedded model or
 * the older version of the file. */
static void put_in_place(srv_models *m, entry *e) {
    pthread_mutex_lock(&m->lock);
    entry *same = find(m, e->model.id);
    if (same)
        take_out(m, same);
    list_in(m, e);
    pthread_mutex_unlock(&m->lock);
}

/* Reads one file of models_dir into the list, unless it is unchanged. An unreadable file is logged;
 * the version of this file that was read earlier stays in the list. */
static void add_file(srv_models *m, const char *name, const char *id) {
    char path[4096];
    srv_model_file file;
    attn_error err = {0};
    snprintf(path, sizeof path, "%s/%s", m->config->models_dir, name);
    const srv_file_state now = srv_file_look(path);
    if (is_known(m, id, &now))
        return;
    entry *e = calloc(1, sizeof *e);
    attn_status status = e ? srv_model_open(path, false, &file, &err)
                           : attn_fail(&err, ATTN_ENOMEM, path, "not enough memory");
    if (!status) {
        *e = (entry){.model = {.origin = SRV_MODEL_FILE}, .file = now, .seen = true};
        snprintf(e->model.id, sizeof e->model.id, "%s", id);
        status = take_model(&e->model, &file, &err);
    }
    if (!status) {
        put_in_place(m, e);
        return;
    }
    srv_log_event(m->log, SRV_LOG_ERROR, "models_dir: %.200s is not served: %.250s", path,
                  err.text);
    if (e)
        entry_free(e);
}

/* Removes the models whose files the scan has not found, and adds the embedded models that these
 * files had replaced. */
static void drop_unseen(srv_models *m) {
    pthread_mutex_lock(&m->lock);
    for (entry *e = m->first, *next; e; e = next) {
        next = e->next;
        if (e->model.origin == SRV_MODEL_FILE && !e->seen)
            take_out(m, e);
        else
            e->seen = false;
    }
    add_embedded(m);
    pthread_mutex_unlock(&m->lock);
}

int srv_models_scan(srv_models *m) {
    if (!*m->config->models_dir)
        return 0;
    DIR *dir = opendir(m->config->models_dir);
    if (!dir)
        return errno;
    for (const struct dirent *d; (d = readdir(dir));) {
        char id[SRV_MODEL_ID + 1];
        if (id_of(d->d_name, id))
            add_file(m, d->d_name, id);
    }
    closedir(dir);
    drop_unseen(m);
    return 0;
}

int srv_models_open(srv_models **out, const srv_config *config, srv_log *log) {
    srv_models *m = *out = calloc(1, sizeof *m);
    if (!m)
        return no_memory();
    m->config = config;
    m->log = log;
    pthread_mutex_init(&m->lock, NULL);
    const int code = add_embedded(m), failed = code ? 0 : srv_models_scan(m);
    if (!failed)
        return code;
    fprintf(stderr, "attnd: cannot use models_dir %s: %s\n", config->models_dir, strerror(failed));
    return SRV_EXIT_USAGE;
}

void srv_models_free(srv_models *m) {
    if (!m)
        return;
    while (m->first) {
        entry *e = m->first;
        m->first = e->next;
        entry_free(e);
    }
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* --- holding --- */

/* Parses the entry's embedded file if that has not happened yet, and holds the entry. The caller
 * has the lock. */
static attn_status hold(entry *e, attn_error *err) {
    const attn_status status = e->embedded ? read_embedded(e, err) : ATTN_OK;
    e->holds += !status;
    return status;
}

static void let_go(srv_models *m, entry *e) {
    pthread_mutex_lock(&m->lock);
    const bool last = --e->holds == 0 && !e->listed;
    pthread_mutex_unlock(&m->lock);
    if (last)
        entry_free(e);
}

static void not_found(srv_request *req, const char *id) {
    srv_problem(req, SRV_NOT_FOUND, NULL,
                "there is no model \"%.64s\"; GET /v1/models lists those that there are", id);
}

const srv_model *srv_models_hold(srv_request *req, const char *id) {
    srv_models *m = req->app->models;
    attn_error err = {0};
    pthread_mutex_lock(&m->lock);
    entry *e = find(m, id);
    const attn_status status = e ? hold(e, &err) : ATTN_OK;
    pthread_mutex_unlock(&m->lock);
    if (!e)
        not_found(req, id);
    else if (status)
        srv_problem_error(req, &err);
    return e && !status ? &e->model : NULL;
}

bool srv_models_is_read(srv_request *req, const char *id) {
    srv_models *m = req->app->models;
    pthread_mutex_lock(&m->lock);
    const entry *e = id ? find(m, id) : m->first;
    bool read = !e || !e->embedded;
    while (!id && e && (e = e->next))
        read &= !e->embedded;
    pthread_mutex_unlock(&m->lock);
    return read;
}

void srv_models_release(srv_request *req, const srv_model *model) {
    if (model)
        let_go(req->app->models, (entry *)(uintptr_t)model);
}

const srv_model **srv_models_all(srv_request *req, size_t *count) {
    srv_models *m = req->app->models;
    attn_error err = {0};
    size_t most = 0;
    *count = 0;
    pthread_mutex_lock(&m->lock);
    for (const entry *e = m->first; e; e = e->next)
        most++;
    const srv_model **all = attn_arena_zeroed(req->arena, most + 1, sizeof *all);
    attn_status status =
        all ? ATTN_OK : attn_fail(&err, ATTN_ENOMEM, "", "no memory for a list of models");
    for (entry *e = m->first; !status && e; e = e->next)
        if (srv_request_sees(req, owner_of(e)) && !(status = hold(e, &err)))
            all[(*count)++] = &e->model;
    pthread_mutex_unlock(&m->lock);
    if (!status)
        return all;
    for (size_t i = 0; i < *count; i++)
        srv_models_release(req, all[i]);
    srv_problem_error(req, &err);
    return NULL;
}

/* --- making and deleting --- */

/* Counts a model that is still to be made. Returns NULL, or the setting whose limit the model would
 * exceed, "models_count" or "models_bytes"; then the model is not counted. */
static const char *try_count(srv_models *m, size_t bytes) {
    const size_t most = (size_t)m->config->models_bytes;
    pthread_mutex_lock(&m->lock);
    const bool crowded = m->count >= (size_t)m->config->models_count,
               full = bytes > most || m->bytes > most - bytes;
    if (!crowded && !full) {
        m->count++;
        m->bytes += bytes;
    }
    pthread_mutex_unlock(&m->lock);
    return crowded ? "models_count" : full ? "models_bytes" : NULL;
}

attn_status srv_models_count(srv_models *m, size_t bytes, attn_error *err) {
    const char *setting = try_count(m, bytes);
    return setting ? attn_fail(err, ATTN_ELIMIT, setting,
                               "there is no room for another model of %zu bytes: delete one", bytes)
                   : ATTN_OK;
}

/* Counts a model that the request is about to make. false: a problem is set. */
static bool reserve(srv_request *req, size_t bytes) {
    srv_models *m = req->app->models;
    const int64_t most = m->config->models_bytes, places = m->config->models_count;
    if (bytes > (size_t)most) {
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, (double)most, "models_bytes",
                          "the model needs %zu bytes; all models made here together may use "
                          "%" PRId64,
                          bytes, most);
        return false;
    }
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

static attn_status name_and_make(entry *e, const attn_model_config *config, uint64_t seed,
                                 attn_error *err) {
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        return attn_fail(err, ATTN_ENOMEM, "", "the system has no random numbers for an id");
    snprintf(e->model.id, sizeof e->model.id, "made-%016" PRIx64, bits);
    return attn_model_new(config, seed, false, &e->model.model, err);
}

const srv_model *srv_models_make(srv_request *req, const attn_model_config *config, uint64_t seed,
                                 attn_vocabulary *source, attn_vocabulary *target,
                                 const attn_language languages[2], bool shared) {
    srv_models *m = req->app->models;
    attn_error err = {0};
    entry *e = calloc(1, sizeof *e);
    if (!e) {
        attn_vocabulary_free(source);
        attn_vocabulary_free(target);
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for the model is left");
        return NULL;
    }
    e->model = (srv_model){.origin = SRV_MODEL_MADE,
                           .source = source,
                           .target = target,
                           .languages = {languages[0], languages[1]}};
    if (!shared && req->owner)
        snprintf(e->model.owner, sizeof e->model.owner, "%s", req->owner);
    attn_status status = attn_model_bytes(config, false, &e->model.bytes, &err);
    const bool counted = !status && reserve(req, e->model.bytes);
    if (counted && (status = name_and_make(e, config, seed, &err)))
        srv_models_uncount(m, e->model.bytes);
    if (status)
        srv_problem_error(req, &err);
    if (!counted || status) {
        entry_free(e);
        return NULL;
    }
    pthread_mutex_lock(&m->lock);
    e->holds = 1;
    list_in(m, e);
    pthread_mutex_unlock(&m->lock);
    return &e->model;
}

bool srv_models_adopt(srv_models *m, const srv_model *model) {
    entry *e = calloc(1, sizeof *e);
    if (!e)
        return false;
    e->model = *model;
    pthread_mutex_lock(&m->lock);
    list_in(m, e);
    pthread_mutex_unlock(&m->lock);
    return true;
}

/* Removes a model of origin "made" from the list and from the counts. The caller has the lock. */
static void remove_made(srv_models *m, entry *e) {
    list_out(m, e);
    m->count--;
    m->bytes -= e->model.bytes;
}

void srv_models_discard(srv_request *req, const srv_model *model) {
    srv_models *m = req->app->models;
    entry *e = (entry *)(uintptr_t)model;
    pthread_mutex_lock(&m->lock);
    if (e->listed)
        remove_made(m, e);
    pthread_mutex_unlock(&m->lock);
}

void srv_models_drop(srv_models *m, const char *id) {
    pthread_mutex_lock(&m->lock);
    entry *e = find(m, id);
    if (e) {
        remove_made(m, e);
        e->holds++;
    }
    pthread_mutex_unlock(&m->lock);
    if (e)
        let_go(m, e);
}

bool srv_models_delete(srv_request *req, const char *id) {
    srv_models *m = req->app->models;
    pthread_mutex_lock(&m->lock);
    entry *e = find(m, id);
    const bool made = e && e->model.origin == SRV_MODEL_MADE,
               goes = made && srv_request_owns(req, owner_of(e));
    if (goes) {
        remove_made(m, e);
        e->holds++;
    }
    pthread_mutex_unlock(&m->lock);
    if (goes)
        let_go(m, e);
    else if (e && !made)
        srv_problem(req, SRV_FORBIDDEN, NULL,
                    "the model \"%.64s\" came with the service: only those made by POST "
                    "/v1/models can be deleted",
                    id);
    else if (!e)
        not_found(req, id);
    return goes;
}
