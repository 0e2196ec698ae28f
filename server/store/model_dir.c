/* The files of models_dir. The directory is scanned at start, on SIGHUP, and when a request finds
 * it changed. Files of models of origin "made" are written and deleted here, too. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/try.h"
#include "store/model_known.h"
#include "system/clock.h"
#include "system/files.h"

/* A file or directory that was changed less than this long ago may change again without a new time
 * stamp, because some file systems count in seconds. */
static const int64_t YOUNG_NS = 2000000000;
/* The shortest time between two scans of a directory with young files. */
static const int64_t PAUSE_NS = 100000000;

static bool path_of(const srv_models *m, const char *id, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s/%s" SRV_MODEL_SUFFIX, m->config->models_dir, id) < PATH_MAX;
}

/* --- refused files --- */

bool srv_models_why(srv_models *m, const char *id, srv_refusal *out) {
    pthread_mutex_lock(&m->lock);
    const srv_refused *r = srv_refused_find(m, id);
    if (r)
        *out = r->why;
    pthread_mutex_unlock(&m->lock);
    return r != NULL;
}

/* Returns whether the file was refused for its contents and has not changed since. */
static bool is_refused(srv_models *m, const char *id, const srv_file_state *now) {
    srv_refused *r = srv_refused_find(m, id);
    if (r)
        r->seen = true;
    return r && !r->why.failed && srv_file_same(&r->file, now);
}

static bool has_file(const srv_entry *e) {
    return e->model.origin == SRV_MODEL_FILE || e->model.durable;
}

/* Refuses a file: remembers it and logs the reason. `name` is its name in models_dir. `failed` is 0
 * if its contents are wrong; otherwise it is the errno value of a failure with another cause, which
 * is logged only once. If memory runs out, only logs. An embedded model with this id is no longer
 * served, because the file was meant to replace it. An older version of the file stays in service
 * only if the contents are not at fault. */
static void refuse_model_file(srv_models *m, const char *id, const char *name,
                              const srv_file_state *now, int failed, const char *why) {
    pthread_mutex_lock(&m->lock);
    srv_refused *r = srv_refused_find(m, id);
    const bool known = r && failed && r->why.failed == failed;
    if (!r && (r = calloc(1, sizeof *r))) {
        snprintf(r->id, sizeof r->id, "%s", id);
        r->next = m->refused;
        m->refused = r;
    }
    if (r) {
        r->file = *now;
        r->seen = true;
        r->why.failed = failed;
        snprintf(r->why.text, sizeof r->why.text, "%s", why);
    }
    srv_entry *same = srv_entry_find(m, id);
    if (same && (same->model.origin == SRV_MODEL_EMBEDDED || (has_file(same) && !failed)))
        srv_entry_drop(m, same);
    pthread_mutex_unlock(&m->lock);
    if (!known)
        srv_log_event(m->log, SRV_LOG_ERROR, "models_dir: %.200s/%.80s is not %s: %.250s",
                      m->config->models_dir, name, failed ? "read now" : "served", why);
}

void srv_models_refuse(srv_models *m, srv_entry *e, const attn_error *why) {
    char text[SRV_REFUSED_TEXT];
    snprintf(text, sizeof text, "%.80s%s%.200s", why->where, *why->where ? ": " : "", why->text);
    pthread_mutex_lock(&m->files);
    if (e->held.listed)
        refuse_model_file(m, e->model.id, e->model.known->file, &e->file,
                          why->code == ATTN_ENOMEM ? EAGAIN : 0, text);
    pthread_mutex_unlock(&m->files);
}

/* Forgets the refused files that the scan has not found. The caller has both locks. */
static void forget_unseen(srv_models *m) {
    for (srv_refused **at = &m->refused; *at;) {
        srv_refused *r = *at;
        if (r->seen) {
            r->seen = false;
            at = &r->next;
        } else {
            *at = r->next;
            free(r);
        }
    }
}

void srv_models_forgive(srv_models *m) {
    pthread_mutex_lock(&m->lock);
    while (m->refused) {
        srv_refused *r = m->refused;
        m->refused = r->next;
        free(r);
    }
    pthread_mutex_unlock(&m->lock);
}

/* --- scans --- */

/* A file of models_dir, or a folder. */
typedef struct found_file {
    const char *name; /* name in models_dir */
    bool known;       /* another program wrote it */
    char id[SRV_MODEL_ID + 1];
    char path[PATH_MAX]; /* path of the file; not set if `known` */
    srv_file_state now;
} found_file;

/* The result of need_of. */
typedef enum need { READ, KNOWN, TAKEN } need;

/* Returns READ if the file must be read, KNOWN if it is unchanged since it was read or written, and
 * TAKEN if a model that was made over HTTP and has no file has its id. Such a model is never
 * replaced. */
static need need_of(srv_models *m, const char *id, const srv_file_state *now) {
    pthread_mutex_lock(&m->lock);
    srv_entry *e = srv_entry_find(m, id);
    const need found = e && e->model.origin == SRV_MODEL_MADE && !e->model.durable ? TAKEN
                       : e && has_file(e) && srv_file_same(&e->file, now)          ? KNOWN
                                                                                   : READ;
    if (e)
        e->seen = true;
    pthread_mutex_unlock(&m->lock);
    return found;
}

/* Adds the entry to the list. It replaces the entry with the same id, which is an embedded model or
 * the older version of the file. */
static void put_in_place(srv_models *m, srv_entry *e) {
    pthread_mutex_lock(&m->lock);
    srv_entry *same = srv_entry_find(m, e->model.id);
    if (same)
        srv_entry_drop(m, same);
    if (e->model.origin == SRV_MODEL_MADE) {
        m->count++;
        m->bytes += e->model.bytes;
    }
    srv_entry_list(m, e);
    pthread_mutex_unlock(&m->lock);
}

/* Makes an entry for a file that this program wrote. */
static attn_status read_own(const char *id, const char *path, const srv_file_state *now,
                            int *failed, srv_entry **out, attn_error *err) {
    attn_model_file file;
    srv_model model = {.origin = SRV_MODEL_FILE};
    snprintf(model.id, sizeof model.id, "%s", id);
    srv_entry *e = srv_entry_new(&model);
    *failed = ENOMEM;
    attn_status status = e ? srv_model_open(path, false, &file, failed, err)
                           : attn_fail(err, ATTN_ENOMEM, path, "not enough memory");
    if (!status) {
        e->file = *now;
        e->seen = true;
        status = srv_entry_take(&e->model, &file, err);
        *failed = status == ATTN_ENOMEM ? ENOMEM : 0;
    }
    if (status && e)
        srv_entry_free(e);
    else
        *out = e;
    return status;
}

/* Adds one file of models_dir, or a folder, to the list, unless it is unchanged. Files of other
 * programs are opened later. A file that cannot be used is logged. Returns 0, or the errno value of
 * a failure after which the file must be read again. */
static int add_file(srv_models *m, const found_file *f) {
    attn_error err = {0};
    srv_entry *e = NULL;
    int failed = ENOMEM;
    const need what = need_of(m, f->id, &f->now);
    if (what == KNOWN || is_refused(m, f->id, &f->now))
        return 0;
    if (what == TAKEN) {
        refuse_model_file(m, f->id, f->name, &f->now, 0, "a model of this id was made over HTTP");
        return 0;
    }
    if (f->known && !(e = srv_known_new(f->id, f->name, &f->now)))
        attn_no_memory(&err, "a model");
    else if (!f->known)
        read_own(f->id, f->path, &f->now, &failed, &e, &err);
    if (e) {
        put_in_place(m, e);
        return 0;
    }
    refuse_model_file(m, f->id, f->name, &f->now, failed, err.text);
    return failed;
}

/* Returns whether a name in the directory belongs to a model, and if so sets *out. */
static bool find_file(const srv_models *m, int dir, const char *name, found_file *out) {
    *out = (found_file){.name = name};
    if (!srv_entry_id(name, SRV_MODEL_SUFFIX, out->id)) {
        out->known = true;
        return srv_known_is(dir, name, out->id, &out->now);
    }
    if (!path_of(m, out->id, out->path))
        return false;
    out->now = srv_file_look(out->path);
    return true;
}

/* Removes the models that the scan has not found, and forgets the refused files that it has not
 * found. Then adds the embedded models that these files had replaced. */
static void drop_unseen(srv_models *m) {
    pthread_mutex_lock(&m->lock);
    for (srv_entry *e = srv_held_first(&m->list), *next; e; e = next) {
        next = srv_held_next(&e->held);
        if (has_file(e) && !e->seen)
            srv_entry_drop(m, e);
        else
            e->seen = false;
    }
    forget_unseen(m);
    srv_entries_embedded(m);
    pthread_mutex_unlock(&m->lock);
}

static bool is_young(const srv_file_state *file) {
    return srv_clock_ns(CLOCK_REALTIME) - file->changed_ns < YOUNG_NS;
}

/* Scans the directory. Returns 0 or an errno value. The caller has `files`. */
static int scan_dir(srv_models *m) {
    const srv_file_state before = srv_file_look(m->config->models_dir);
    DIR *dir = opendir(m->config->models_dir);
    int failed = dir ? 0 : errno;
    bool young = is_young(&before);
    while (!failed) {
        errno = 0;
        const struct dirent *d = readdir(dir);
        failed = errno;
        if (!d)
            break;
        found_file f;
        if (find_file(m, dirfd(dir), d->d_name, &f))
            young |= add_file(m, &f) || is_young(&f.now);
    }
    if (dir)
        closedir(dir);
    if (!failed)
        drop_unseen(m);
    pthread_mutex_lock(&m->lock);
    m->dir = before;
    m->settled = !young && !failed;
    m->scanned_ns = attn_now_ns();
    m->failed = failed;
    pthread_mutex_unlock(&m->lock);
    return failed;
}

bool srv_models_lost(const srv_models *m) {
    return *m->config->models_dir && access(m->config->models_dir, F_OK) &&
           srv_file_judge(errno) == SRV_FILE_ABSENT;
}

int srv_models_scan(srv_models *m, bool *whole) {
    *whole = true;
    if (!*m->config->models_dir)
        return 0;
    pthread_mutex_lock(&m->files);
    srv_models_forgive(m); /* so that refused files are read and logged again */
    const int failed = scan_dir(m);
    *whole = !failed && !m->refused;
    pthread_mutex_unlock(&m->files);
    return failed;
}

/* Returns whether files of known models have changed. A change inside a folder, or of a file that
 * is overwritten in place, does not change models_dir itself. */
static bool are_known_changed(srv_models *m) {
    const int dir = open(m->config->models_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool changed = false;
    if (dir < 0)
        return false;
    pthread_mutex_lock(&m->lock);
    for (srv_entry *e = srv_held_first(&m->list); !changed && e; e = srv_held_next(&e->held)) {
        char id[SRV_MODEL_ID + 1];
        srv_file_state now;
        changed = e->model.known && (!srv_known_is(dir, e->model.known->file, id, &now) ||
                                     !srv_file_same(&now, &e->file));
    }
    pthread_mutex_unlock(&m->lock);
    close(dir);
    return changed;
}

bool srv_models_is_stale(srv_models *m) {
    if (!*m->config->models_dir)
        return false;
    const srv_file_state now = srv_file_look(m->config->models_dir);
    pthread_mutex_lock(&m->lock);
    const int64_t at = attn_now_ns();
    const bool stale =
        !srv_file_same(&now, &m->dir) || (!m->settled && at - m->scanned_ns > PAUSE_NS);
    const bool looks = !stale && at - m->looked_ns > PAUSE_NS;
    if (looks)
        m->looked_ns = at;
    pthread_mutex_unlock(&m->lock);
    if (!looks || !are_known_changed(m))
        return stale;
    pthread_mutex_lock(&m->lock);
    m->dir = (srv_file_state){0}; /* the next scan must find the change */
    pthread_mutex_unlock(&m->lock);
    return true;
}

void srv_models_refresh(srv_models *m) {
    if (!srv_models_is_stale(m))
        return;
    pthread_mutex_lock(&m->files);
    const int before = m->failed;
    if (srv_models_is_stale(m)) { /* no other thread has scanned it meanwhile */
        const int failed = scan_dir(m);
        if (failed && failed != before)
            srv_log_event(m->log, SRV_LOG_ERROR, "models unchanged: cannot read %.200s: %s",
                          m->config->models_dir, strerror(failed));
    }
    pthread_mutex_unlock(&m->files);
}

/* --- models of origin "made" --- */

/* Makes changes of names in the directory durable. Returns 0 or an errno value. */
static int sync_dir(const char *path) {
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    const int failed = srv_dir_sync(fd);
    close(fd);
    return failed;
}

int srv_models_write(srv_models *m, srv_entry *e) {
    const char *dir = m->config->models_dir;
    srv_model *model = &e->model;
    const attn_metadata rows[] = {
        {"attnd.origin", "made"},
        {"attnd.owner", model->owner},
    };
    const attn_model_contents contents = {.model = model->model,
                                          .source = model->source,
                                          .target = model->target,
                                          .metadata = rows,
                                          .metadata_count = sizeof rows / sizeof *rows};
    char path[PATH_MAX];
    attn_error err;
    int failed = 0;
    if (!*dir || access(dir, W_OK | X_OK) || !path_of(m, model->id, path))
        return 0;
    if (srv_model_write(path, &contents, &failed, &err))
        return failed ? failed : ENOMEM;
    if ((failed = sync_dir(dir))) {
        unlink(path);
        return failed;
    }
    model->durable = true;
    model->has_file = model->sealed = true;
    e->file = srv_file_look(path);
    return 0;
}

int srv_models_unlink(srv_models *m, const char *id) {
    char path[PATH_MAX];
    if (!path_of(m, id, path))
        return ENAMETOOLONG;
    const int failed = unlink(path) && errno != ENOENT ? errno : sync_dir(m->config->models_dir);
    if (failed)
        srv_log_event(m->log, SRV_LOG_ERROR, "models_dir: %.200s cannot be deleted: %s", path,
                      strerror(failed));
    return failed;
}

void srv_models_sweep(srv_models *m) {
    DIR *dir = *m->config->models_dir ? opendir(m->config->models_dir) : NULL;
    for (const struct dirent *d; dir && (d = readdir(dir));)
        if (srv_is_part(d->d_name))
            srv_part_sweep(dirfd(dir), d->d_name);
    if (dir)
        closedir(dir);
}
