/* The list of models: entries, sorted by id, under one lock. An entry that was removed from the
 * list is freed by its last holder. */
#include "store/model_entries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMBEDDED "models/" /* prefix of the names of embedded model files (system/embedded.h) */

void srv_loaded_free(srv_loaded *list) {
    for (srv_loaded *l = list, *next; l; l = next) {
        next = l->next;
        attn_model_free(l->known.model);
        attn_tokenizer_free(l->tokenizer);
        srv_weights_close(&l->files);
        free(l);
    }
}

/* Frees the members that only entries of known models have. */
static void free_known(srv_entry *e) {
    srv_known *known = (srv_known *)(uintptr_t)e->model.known;
    if (!known)
        return;
    srv_loaded_free(e->loaded);
    e->model.model = NULL;
    e->model.source = e->model.target = NULL;
    attn_model_free(known->shape);
    pthread_mutex_destroy(&e->reading);
    free(known);
}

void srv_entry_free(srv_entry *e) {
    free_known(e);
    attn_model_free(e->model.model);
    attn_tokenizer_free(e->model.source);
    attn_tokenizer_free(e->model.target);
    free(e);
}

srv_entry *srv_entry_new(const srv_model *model) {
    srv_entry *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->model = *model;
    e->model.entry = e;
    e->held = (srv_held){.entry = e, .key = e->model.id};
    return e;
}

srv_entry *srv_entry_find(const srv_models *m, const char *id) {
    return srv_held_find(&m->list, id);
}

void srv_entry_list(srv_models *m, srv_entry *e) {
    srv_held *before = m->list.first;
    while (before && strcmp(before->key, e->model.id) < 0)
        before = before->next;
    srv_held_list_in(&m->list, &e->held, before);
}

void srv_entry_drop(srv_models *m, srv_entry *e) {
    srv_held_list_out(&m->list, &e->held);
    if (e->model.origin == SRV_MODEL_MADE) {
        m->count--;
        m->bytes -= e->model.bytes;
    }
    if (e->held.holds)
        return;
    if (e->loaded)
        m->known_bytes -= e->loaded->bytes;
    srv_entry_free(e);
}

srv_refused *srv_refused_find(const srv_models *m, const char *id) {
    srv_refused *r = m->refused;
    while (r && strcmp(r->id, id) != 0)
        r = r->next;
    return r;
}

/* --- models of files --- */

bool srv_entry_id(const char *name, const char *suffix, char id[SRV_MODEL_ID + 1]) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const size_t n = strlen(name), end = strlen(suffix);
    if (n <= end || n - end > SRV_MODEL_ID || *name == '.' || strcmp(name + n - end, suffix) != 0 ||
        strspn(name, safe) != n)
        return false;
    memcpy(id, name, n - end);
    id[n - end] = 0;
    return true;
}

/* Checks that the task of the training corpus is known. If the metadata says that the model is of
 * origin "made", sets `origin`, `durable` and `owner` of the model. */
static attn_status read_facts(srv_model *to, const attn_model_file *file, attn_error *err) {
    const char *origin = attn_model_file_text(file, "attnd.origin"),
               *owner = attn_model_file_text(file, "attnd.owner"),
               *task = attn_model_file_text(file, "corpus.task");
    attn_task known;
    if (task && file->sealed && !attn_task_parse(task, &known))
        return attn_fail(err, ATTN_EUNSUPPORTED, "corpus.task",
                         "corpus.task: \"%.60s\" is no task that this program knows", task);
    if (!origin || strcmp(origin, "made") != 0)
        return ATTN_OK;
    to->origin = SRV_MODEL_MADE;
    to->durable = true;
    if (owner)
        snprintf(to->owner, sizeof to->owner, "%s", owner);
    return ATTN_OK;
}

attn_status srv_entry_take(srv_model *to, attn_model_file *file, attn_error *err) {
    const attn_status status = read_facts(to, file, err);
    to->model = file->model;
    to->has_file = true;
    to->sealed = file->sealed;
    to->source = file->source;
    to->target = file->target;
    attn_model_file_forget(file);
    return status ? status
                  : attn_model_bytes(attn_model_configuration(to->model), false, &to->bytes, err);
}

bool srv_entries_embedded(srv_models *m) {
    for (const srv_file *f = srv_embedded; f->name; f++) {
        char id[SRV_MODEL_ID + 1];
        if (strncmp(f->name, EMBEDDED, sizeof EMBEDDED - 1) != 0 ||
            !srv_entry_id(f->name + sizeof EMBEDDED - 1, SRV_MODEL_SUFFIX, id) ||
            srv_entry_find(m, id) || srv_refused_find(m, id))
            continue;
        srv_model model = {.origin = SRV_MODEL_EMBEDDED};
        memcpy(model.id, id, sizeof id);
        srv_entry *e = srv_entry_new(&model);
        if (!e)
            return false;
        e->embedded = f;
        srv_entry_list(m, e);
    }
    return true;
}
