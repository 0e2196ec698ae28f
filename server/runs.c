/* One table of open runs for both kinds of store. In memory the table is the store; with a
 * directory it is what this process has mapped, and the directory decides what exists. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "runs_table.h"

enum {
    SWEEP_MS = 5000,  /* between looks at what has expired */
    TOUCH_MS = 30000, /* between marks of use in the directory */
};

static int64_t wall_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- expiry --- */

static void sweep_dir(srv_runs *s, size_t coming) {
    const size_t most = (size_t)s->config->runs_bytes;
    srv_runs_swept swept;
    srv_runs_dir_sweep(&s->dir, s->config->runs_ttl_s, most > coming ? most - coming : 0, &swept);
    pthread_mutex_lock(&s->lock);
    s->state.count = swept.count;
    s->state.bytes = swept.bytes;
    s->state.expired += swept.expired;
    s->state.evicted += swept.evicted;
    pthread_mutex_unlock(&s->lock);
}

void srv_runs_tick(srv_runs *s) {
    const int64_t now = attn_now_ns();
    if (now < atomic_load(&s->next_sweep_ns))
        return;
    atomic_store(&s->next_sweep_ns, now + (int64_t)SWEEP_MS * 1000000);
    pthread_mutex_lock(&s->lock);
    srv_runs_expire(s, wall_ns());
    pthread_mutex_unlock(&s->lock);
    if (s->has_dir)
        sweep_dir(s, 0);
}

/* --- the store --- */

int srv_runs_open(srv_runs **out, const srv_config *config) {
    srv_runs *s = calloc(1, sizeof *s);
    char(*gone)[SRV_RUN_ID] = calloc(SRV_RUNS_REMEMBERED, sizeof *gone);
    if (!s || !gone) {
        fprintf(stderr, "attnd: cannot start: not enough memory\n");
        free(gone);
        free(s);
        return SRV_EXIT_RESOURCES;
    }
    *s = (srv_runs){.config = config, .gone = gone, .dir = {-1}, .has_dir = *config->runs_dir != 0};
    pthread_mutex_init(&s->lock, NULL);
    int failed = s->has_dir ? srv_runs_dir_open(&s->dir, config->runs_dir) : 0;
    if (failed) {
        fprintf(stderr, "attnd: cannot use runs_dir %s: %s\n", config->runs_dir, strerror(failed));
        srv_runs_free(s);
        return SRV_EXIT_USAGE;
    }
    if (s->has_dir)
        sweep_dir(s, 0);
    *out = s;
    return 0;
}

void srv_runs_free(srv_runs *s) {
    if (!s)
        return;
    while (s->first)
        srv_runs_drop(s, s->first);
    srv_runs_dir_close(&s->dir);
    pthread_mutex_destroy(&s->lock);
    free(s->gone);
    free(s);
}

void srv_runs_look(srv_runs *s, srv_runs_state *out) {
    pthread_mutex_lock(&s->lock);
    *out = s->state;
    if (!s->has_dir) {
        out->count = s->count;
        out->bytes = s->bytes;
    }
    pthread_mutex_unlock(&s->lock);
}

int64_t srv_runs_expiry(const srv_request *req) {
    return wall_ns() + req->app->config->runs_ttl_s * 1000000000;
}

static int map_file(const srv_runs *s, srv_runs_entry *e, const char *id) {
    const int failed = srv_runs_dir_map(&s->dir, id, &e->mapped);
    if (!failed) {
        e->image = srv_mapped_data(e->mapped);
        e->image_size = srv_mapped_size(e->mapped);
    }
    return failed;
}

/* A run over the image of e; the problem is the caller's to word. */
static attn_status open_image(const srv_config *config, srv_runs_entry *e, attn_error *err) {
    attn_run *run;
    e->arena = attn_arena_new((size_t)config->max_request_bytes);
    if (!e->arena)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the stored run");
    attn_status status = attn_run_open(e->image, e->image_size, e->arena, &run, err);
    if (status != ATTN_OK)
        return status;
    const char *expires = attn_run_text(run, SRV_RUN_EXPIRES);
    e->run.run = run;
    e->run.expires_ns = expires ? strtoll(expires, NULL, 10) : 0;
    e->run.bytes = e->image_size + attn_arena_used(e->arena);
    return ATTN_OK;
}

static bool new_id(char id[SRV_RUN_ID + 1]) {
    unsigned char bytes[SRV_RUN_ID / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static const srv_run *too_large(srv_request *req, size_t bytes) {
    srv_problem_limit(req, SRV_TOO_LARGE, "/store", (double)req->app->config->runs_bytes,
                      "runs_bytes",
                      "the run needs %zu bytes; all stored runs together may use %lld", bytes,
                      (long long)req->app->config->runs_bytes);
    return NULL;
}

/* Memory for the image, for which older runs go when the budget has none. */
static void *take_image(srv_runs *s, size_t size) {
    void *image = attn_alloc(size);
    while (!image) {
        pthread_mutex_lock(&s->lock);
        const bool dropped = srv_runs_drop_oldest(s);
        pthread_mutex_unlock(&s->lock);
        if (!dropped)
            break;
        image = attn_alloc(size);
    }
    return image;
}

static attn_status store_in_memory(srv_runs *s, srv_runs_entry *e, const attn_run_image *image,
                                   attn_error *err) {
    char *to = take_image(s, image->size);
    e->image = to;
    e->image_size = image->size;
    if (!to)
        return attn_fail(err, ATTN_ENOMEM, "store", "no memory left for the stored run");
    for (size_t i = 0; i < image->count; i++) {
        memcpy(to, image->pieces[i].data, image->pieces[i].size);
        to += image->pieces[i].size;
    }
    return open_image(s->config, e, err);
}

/* The disk may be slow: others compute meanwhile. */
static int store_in_dir(srv_request *req, srv_runs *s, srv_runs_entry *e,
                        const attn_run_image *image) {
    attn_pool *pool = srv_request_pool(req);
    attn_pool_leave(pool);
    sweep_dir(s, image->size);
    int failed = srv_runs_dir_write(&s->dir, e->run.id, image);
    if (!failed)
        failed = map_file(s, e, e->run.id);
    attn_pool_enter(pool);
    return failed;
}

static const srv_run *store_failed(srv_request *req, srv_runs_entry *e, const attn_error *err) {
    srv_runs *s = req->app->runs;
    if (e->mapped)
        srv_runs_dir_remove(&s->dir, e->run.id);
    srv_runs_entry_free(e);
    srv_problem_error(req, err);
    return NULL;
}

const srv_run *srv_run_store(srv_request *req, const attn_run_image *image) {
    srv_runs *s = req->app->runs;
    const size_t most = (size_t)s->config->runs_bytes;
    attn_error err = {0};
    if (image->size > most)
        return too_large(req, image->size);
    srv_runs_entry *e = calloc(1, sizeof *e);
    if (!e || !new_id(e->run.id)) {
        free(e);
        srv_problem(req, SRV_MEMORY_BUDGET, "/store", "no memory for the stored run is left");
        return NULL;
    }
    if (!s->has_dir && store_in_memory(s, e, image, &err))
        return store_failed(req, e, &err);
    if (s->has_dir) {
        int failed = store_in_dir(req, s, e, image);
        if (failed) {
            srv_runs_entry_free(e);
            srv_problem_file(req, "/store", "the run cannot be written to runs_dir", failed);
            return NULL;
        }
        if (open_image(s->config, e, &err))
            return store_failed(req, e, &err);
    }
    if (e->run.bytes > most) {
        const size_t bytes = e->run.bytes;
        if (e->mapped)
            srv_runs_dir_remove(&s->dir, e->run.id);
        srv_runs_entry_free(e);
        return too_large(req, bytes);
    }
    e->holds = 1;
    pthread_mutex_lock(&s->lock);
    srv_runs_make_room(s, e->run.bytes);
    srv_runs_add(s, e);
    s->state.stored++;
    s->state.count++;
    s->state.bytes += e->image_size;
    pthread_mutex_unlock(&s->lock);
    return &e->run;
}

/* --- holding --- */

static bool is_id(const char *id) {
    return strlen(id) == SRV_RUN_ID && strspn(id, "0123456789abcdef") == SRV_RUN_ID;
}

static const srv_run *missing(srv_request *req, const char *id, bool gone) {
    if (gone)
        srv_problem(
            req, SRV_GONE, NULL,
            "the run %s is no longer kept: it expired (runs_ttl_s is %lld), was deleted, or "
            "made room for others (runs_bytes); store it again",
            id, (long long)req->app->config->runs_ttl_s);
    else
        srv_problem(req, SRV_NOT_FOUND, NULL,
                    "there is no stored run \"%.64s\"; POST /v1/attention with \"store\": true "
                    "answers the id of one",
                    id);
    return NULL;
}

/* Open the file of a run that another process stored, or that this one has let go. */
static const srv_run *hold_file(srv_request *req, const char *id) {
    srv_runs *s = req->app->runs;
    srv_runs_entry *e = calloc(1, sizeof *e);
    attn_error err = {0};
    int failed = e ? map_file(s, e, id) : ENOMEM;
    if (failed) {
        free(e);
        if (failed == ENODATA)
            srv_problem(req, SRV_NOT_FOUND, NULL, "the file of run %s is empty", id);
        else if (failed != ENOENT)
            srv_problem_file(req, NULL, "the run cannot be read from runs_dir", failed);
        else
            missing(req, id, srv_runs_dir_had(&s->dir, id));
        return NULL;
    }
    memcpy(e->run.id, id, SRV_RUN_ID);
    if (open_image(s->config, e, &err)) {
        srv_runs_entry_free(e);
        if (err.code == ATTN_ENOMEM)
            srv_problem_error(req, &err);
        else
            srv_problem(req, SRV_NOT_FOUND, NULL, "the file of run %s is not a stored run: %s%s%s",
                        id, err.where, *err.where ? ": " : "", err.text);
        return NULL;
    }
    if (e->run.expires_ns <= wall_ns()) {
        srv_runs_entry_free(e);
        srv_runs_dir_remove(&s->dir, id);
        return missing(req, id, true);
    }
    e->holds = 1;
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *other = srv_runs_find(s, id); /* opened by another thread meanwhile */
    if (other) {
        other->holds++;
    } else {
        srv_runs_make_room(s, e->run.bytes);
        srv_runs_add(s, e);
    }
    pthread_mutex_unlock(&s->lock);
    if (!other)
        return &e->run;
    srv_runs_entry_free(e);
    return &other->run;
}

/* The entry, held, when it is open and neither expired nor removed. */
static srv_runs_entry *hold_open(srv_runs *s, const char *id, bool *gone) {
    const bool removed = s->has_dir && !srv_runs_dir_has(&s->dir, id);
    bool expired = false;
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *e = srv_runs_find(s, id);
    if (e && (removed || e->run.expires_ns <= wall_ns())) {
        expired = !removed;
        s->state.expired += expired;
        srv_runs_remember(s, id);
        srv_runs_drop(s, e);
        e = NULL;
    }
    if (e) {
        e->holds++;
        srv_runs_used(s, e);
    }
    *gone = !e && srv_runs_knew(s, id);
    pthread_mutex_unlock(&s->lock);
    if (expired && s->has_dir)
        srv_runs_dir_remove(&s->dir, id);
    return e;
}

const srv_run *srv_run_hold(srv_request *req, const char *id) {
    srv_runs *s = req->app->runs;
    bool gone;
    if (!is_id(id))
        return missing(req, id, false);
    srv_runs_tick(s);
    srv_runs_entry *e = hold_open(s, id, &gone);
    if (!e && (gone || !s->has_dir))
        return missing(req, id, gone);
    const srv_run *run = e ? &e->run : hold_file(req, id);
    if (run && s->has_dir) {
        srv_runs_entry *held = (srv_runs_entry *)(void *)(uintptr_t)run;
        const int64_t now = attn_now_ns();
        pthread_mutex_lock(&s->lock);
        const bool touch =
            !held->touched_ns || now - held->touched_ns > (int64_t)TOUCH_MS * 1000000;
        held->touched_ns = touch ? now : held->touched_ns;
        pthread_mutex_unlock(&s->lock);
        if (touch)
            srv_runs_dir_touch(&s->dir, id);
    }
    return run;
}

bool srv_run_is_whole(srv_request *req, const srv_run *run) {
    const srv_runs_entry *e = (const srv_runs_entry *)(const void *)run;
    if (!run || !e->mapped || !srv_mapped_is_hurt(e->mapped))
        return true;
    srv_problem(req, SRV_NOT_FOUND, NULL,
                "the file of run %s was cut short, or cannot be read to its end", run->id);
    return false;
}

/* A damaged file is opened anew by who asks next. */
void srv_run_release(srv_request *req, const srv_run *run) {
    srv_runs *s = req->app->runs;
    srv_runs_entry *e = (srv_runs_entry *)(void *)(uintptr_t)run;
    if (!run)
        return;
    srv_runs_entry *gone = NULL;
    pthread_mutex_lock(&s->lock);
    e->holds--;
    if (e->listed && e->mapped && srv_mapped_is_hurt(e->mapped))
        srv_runs_drop(s, e);
    else if (!e->listed && !e->holds)
        gone = e;
    pthread_mutex_unlock(&s->lock);
    srv_runs_entry_free(gone);
}

void srv_run_discard(srv_request *req, const srv_run *run) {
    srv_runs *s = req->app->runs;
    if (s->has_dir)
        srv_runs_dir_remove(&s->dir, run->id);
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *e = srv_runs_find(s, run->id);
    if (e) {
        srv_runs_remember(s, run->id);
        srv_runs_drop(s, e);
    }
    pthread_mutex_unlock(&s->lock);
}

bool srv_run_delete(srv_request *req, const char *id) {
    const srv_run *run = srv_run_hold(req, id);
    if (!run)
        return false;
    srv_run_discard(req, run);
    srv_run_release(req, run);
    return true;
}
