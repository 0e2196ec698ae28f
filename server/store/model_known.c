#include "store/model_known.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/try.h"
#include "system/clock.h"
#include "system/files.h"

/* --- names --- */

/* Adds the state of a file of the model to *all, the state of all its files. */
static bool add_state(int dir, const char *name, srv_file_state *all) {
    struct stat about;
    if (fstatat(dir, name, &about, 0))
        return false;
    const int64_t changed = srv_ns_of(&about.st_ctim);
    all->device = (uint64_t)about.st_dev;
    all->inode = all->inode * 31 + (uint64_t)about.st_ino;
    all->size += (uint64_t)about.st_size;
    all->changed_ns = changed > all->changed_ns ? changed : all->changed_ns;
    return true;
}

static bool is_folder(int dir, const char *name, srv_file_state *state) {
    static const char *const files[] = {
        "config.json",       "model.safetensors", "model.safetensors.index.json",
        "pytorch_model.bin", "tokenizer.json",    "generation_config.json"};
    enum { TELLING = 4 }; /* a folder that has one of the first four files is a model */
    const int folder = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool found = false;
    if (folder < 0)
        return false;
    add_state(dir, name, state);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        found = (add_state(folder, files[i], state) && i < TELLING) || found;
    close(folder);
    return found;
}

/* Returns whether models_dir has another file for this id that takes precedence. NAME.safetensors
 * takes precedence over the folder NAME, and the folder over NAME.gguf. */
static bool is_hidden(int dir, const char *id, bool gguf) {
    char other[SRV_MODEL_ID + 16];
    srv_file_state state = {0};
    snprintf(other, sizeof other, "%s.safetensors", id);
    return !srv_file_lacks(dir, other) || (gguf && is_folder(dir, id, &state));
}

bool srv_known_is(int dir, const char *name, char id[SRV_MODEL_ID + 1], srv_file_state *state) {
    const bool gguf = srv_entry_id(name, ".gguf", id);
    *state = (srv_file_state){0};
    if (!gguf && !srv_entry_id(name, "", id))
        return false;
    return (gguf ? add_state(dir, name, state) : is_folder(dir, name, state)) &&
           !is_hidden(dir, id, gguf);
}

srv_entry *srv_known_new(const char *id, const char *name, const srv_file_state *state) {
    srv_known *known = calloc(1, sizeof *known);
    srv_model model = {.origin = SRV_MODEL_FILE, .known = known, .has_file = true};
    snprintf(model.id, sizeof model.id, "%s", id);
    srv_entry *e = known ? srv_entry_new(&model) : NULL;
    if (!e) {
        free(known);
        return NULL;
    }
    pthread_mutex_init(&e->reading, NULL);
    snprintf(known->file, sizeof known->file, "%s", name);
    e->file = *state;
    e->seen = true;
    return e;
}

int32_t srv_known_mask(const attn_tokenizer *t) {
    static const char *const names[] = {"[MASK]", "<mask>"};
    for (size_t i = 0; attn_tokenizer_has_texts(t) && i < sizeof names / sizeof *names; i++) {
        const int32_t id = attn_tokenizer_id(t, names[i], strlen(names[i]));
        if (id >= 0 && id != attn_tokenizer_special(t, ATTN_SPECIAL_UNKNOWN))
            return id;
    }
    return -1;
}

/* --- memory --- */

bool srv_known_has(const srv_entry *e, srv_known_part part) {
    return !e->model.known || (part == SRV_KNOWN_ALL ? e->loaded != NULL : e->described);
}

/* Removes the data for passes from the entry, and returns it. */
static srv_loaded *take_loaded(srv_models *m, srv_entry *e) {
    srv_loaded *l = e->loaded;
    m->known_bytes -= l->bytes;
    e->loaded = NULL;
    e->model.model = NULL;
    e->model.source = e->model.target = NULL;
    return l;
}

srv_loaded *srv_known_make_room(srv_models *m, size_t bytes, bool *fits) {
    const size_t most = (size_t)m->config->models_bytes;
    srv_loaded *list = NULL;
    for (;;) {
        const size_t used = m->bytes + m->known_bytes;
        *fits = bytes <= most && used <= most - bytes;
        srv_entry *oldest = NULL;
        for (srv_entry *e = srv_held_first(&m->list); !*fits && e; e = srv_held_next(&e->held))
            if (e->loaded && !e->held.holds && (!oldest || e->used_ns < oldest->used_ns))
                oldest = e;
        if (!oldest)
            return list;
        srv_loaded *l = take_loaded(m, oldest);
        l->next = list;
        list = l;
    }
}

bool srv_known_may_fit(const srv_models *m, const srv_entry *e) {
    return e->model.bytes <= (size_t)m->config->models_bytes;
}

static attn_status no_room(const srv_models *m, const srv_entry *e, const srv_loaded *l,
                           attn_error *err) {
    const int64_t most = m->config->models_bytes;
    return attn_fail(
        err, ATTN_ELIMIT, "models_bytes",
        !srv_known_may_fit(m, e)
            ? "the model takes %zu bytes of models_bytes, which is %" PRId64
            : "the model takes %zu bytes, and other models, which are in use, take the "
              "rest of the %" PRId64 " of models_bytes",
        l->bytes, most);
}

/* Stores the data for passes in the entry, if there is room for it. The caller holds the entry. */
static attn_status install(srv_models *m, srv_entry *e, srv_loaded *l, attn_error *err) {
    bool fits;
    const attn_model_config *c = attn_model_configuration(l->known.model);
    pthread_mutex_lock(&m->lock);
    srv_loaded *old = srv_known_make_room(m, l->bytes, &fits);
    if (fits) {
        m->known_bytes += l->bytes;
        e->loaded = l;
        e->model.model = l->known.model;
        e->model.source = attn_model_has_encoder(c) ? l->tokenizer : NULL;
        e->model.target = l->tokenizer;
    }
    pthread_mutex_unlock(&m->lock);
    srv_loaded_free(old);
    return fits ? ATTN_OK : no_room(m, e, l, err);
}

/* --- reading --- */

static attn_status read_tokenizer(const attn_known_files *files, srv_loaded *l, attn_error *err) {
    const attn_model_config *c = attn_model_configuration(l->known.model);
    ATTN_TRY(attn_error_within(attn_known_tokenizer(files, &l->tokenizer, err),
                               files->gguf ? "" : "tokenizer.json", err));
    if (l->tokenizer)
        return ATTN_OK;
    l->tokenizer = attn_tokenizer_numbers(c->target_vocabulary, ATTN_ENGLISH);
    ATTN_TAKEN(l->tokenizer, "the ids of a model", err);
    for (int s = 0; s < ATTN_SPECIALS; s++)
        attn_tokenizer_set_special(l->tokenizer, (attn_special)s, -1);
    return ATTN_OK;
}

/* Opens the files of an entry, and reads the data for passes. */
static attn_status read_files(srv_models *m, const srv_entry *e, srv_loaded *l, attn_error *err) {
    const int dir = open(m->config->models_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const attn_status status = dir < 0
                                   ? attn_fail(err, ATTN_EARG, "", "models_dir cannot be read")
                                   : srv_weights_open(dir, e->model.known->file, &l->files, err);
    if (dir >= 0)
        close(dir);
    if (status)
        return status;
    const attn_known_files files = srv_weights_files(&l->files);
    ATTN_TRY(attn_known_read(&files, &l->known, err));
    ATTN_TRY(read_tokenizer(&files, l, err));
    if (srv_weights_changed(&l->files))
        return attn_fail(err, ATTN_ENOMEM, "", "was changed while it was read");
    l->bytes = srv_weights_bytes(&l->files) + attn_tokenizer_bytes(l->tokenizer) +
               attn_parameters_size(attn_model_parameters(l->known.model)) * sizeof(float);
    return ATTN_OK;
}

/* Stores a description of the model in the entry. It stays when the data for passes leaves
 * memory. */
static attn_status describe(srv_models *m, srv_entry *e, const srv_loaded *l, attn_error *err) {
    srv_known *known = (srv_known *)(uintptr_t)e->model.known;
    if (e->described)
        return ATTN_OK;
    ATTN_TRY(attn_model_declare(attn_model_configuration(l->known.model), &known->shape, err));
    known->family = l->known.family;
    known->has_words = attn_tokenizer_has_texts(l->tokenizer);
    known->vocabulary = attn_tokenizer_size(l->tokenizer);
    known->stop_count = l->known.stop_count;
    memcpy(known->stops, l->known.stops, sizeof known->stops);
    known->mask = srv_known_mask(l->tokenizer);
    e->model.bytes = l->bytes;
    pthread_mutex_lock(&m->lock);
    e->described = true;
    pthread_mutex_unlock(&m->lock);
    return ATTN_OK;
}

static bool has_part(srv_models *m, const srv_entry *e, srv_known_part part) {
    pthread_mutex_lock(&m->lock);
    const bool has = srv_known_has(e, part);
    pthread_mutex_unlock(&m->lock);
    return has;
}

static attn_status read_part(srv_models *m, srv_entry *e, srv_known_part part, attn_error *err) {
    srv_loaded *l = calloc(1, sizeof *l);
    ATTN_TAKEN(l, "a model", err);
    l->files.dir = -1;
    attn_status status = read_files(m, e, l, err);
    if (!status)
        status = describe(m, e, l, err);
    if (!status && part == SRV_KNOWN_ALL)
        status = install(m, e, l, err);
    if (status || part != SRV_KNOWN_ALL)
        srv_loaded_free(l);
    return status;
}

attn_status srv_known_read(srv_models *m, srv_entry *e, srv_known_part part, attn_error *err) {
    attn_status status = ATTN_OK;
    if (!e->model.known)
        return ATTN_OK;
    pthread_mutex_lock(&e->reading);
    if (!has_part(m, e, part))
        status = read_part(m, e, part, err);
    pthread_mutex_unlock(&e->reading);
    return status;
}

bool srv_known_changed(const srv_entry *e) {
    return e->loaded && srv_weights_changed(&e->loaded->files);
}
