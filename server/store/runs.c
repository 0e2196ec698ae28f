/* The table of open runs. Without runs_dir the table is the whole store. With runs_dir the table
 * holds the runs whose files this process has mapped, and the directory decides which runs exist.
 *
 * The table is a doubly linked list with the most recently used run at the front, and it is
 * searched from the front. A run that was removed from the table is freed by its last holder. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "request/shared.h"
#include "store/runs.h"
#include "store/runs_dir.h"

/* The store remembers the ids of this many removed runs, so that it can answer 410 instead of 404
 * for them. */
enum { SRV_RUNS_REMEMBERED = 8192 };

typedef struct srv_runs_entry srv_runs_entry;

struct srv_runs_entry {
    srv_run run; /* must be the first member, because srv_run * is cast to srv_runs_entry * */
    srv_runs_entry *next, *previous;
    size_t holds; /* number of references by requests */
    bool listed;  /* whether the entry is in the table */
    srv_owner owner;
    const void *image; /* a safetensors file in memory or mapped, image_size bytes */
    size_t image_size;
    srv_mapped *mapped; /* the mapped file of the image; NULL: `image` is from attn_alloc */
    attn_arena *arena;  /* holds run.run */
    int64_t moved_ns;   /* when run.ends_ns was last changed */
};

struct srv_runs {
    pthread_mutex_t lock;
    const srv_config *config;
    bool has_dir;
    srv_runs_dir dir;
    srv_runs_entry *first, *last; /* the table: most and least recently used run */
    size_t bytes, count;          /* of the runs in the table */
    srv_shares shares;            /* bytes in the table of each owner */
    char (*gone)[SRV_RUN_ID];     /* ring buffer with the ids of removed runs */
    size_t gone_count;            /* ids ever put into `gone` */
    _Atomic int64_t next_sweep_ns;
    srv_runs_state state;
};

/* --- the table: the caller of these functions has the lock, except of free_entry --- */

/* Frees an entry that is not in the table. NULL is fine. Needs no lock. */
static void free_entry(srv_runs_entry *e) {
    if (!e)
        return;
    attn_arena_free(e->arena);
    if (!e->mapped)
        attn_free((void *)(uintptr_t)e->image);
    srv_mapped_close(e->mapped);
    free(e);
}

static void list_out(srv_runs *s, srv_runs_entry *e) {
    *(e->previous ? &e->previous->next : &s->first) = e->next;
    *(e->next ? &e->next->previous : &s->last) = e->previous;
    e->next = e->previous = NULL;
}

static void list_front(srv_runs *s, srv_runs_entry *e) {
    e->previous = NULL;
    e->next = s->first;
    *(s->first ? &s->first->previous : &s->last) = e;
    s->first = e;
}

static srv_runs_entry *find_entry(srv_runs *s, const char *id) {
    srv_runs_entry *e = s->first;
    while (e && memcmp(e->run.id, id, SRV_RUN_ID) != 0)
        e = e->next;
    return e;
}

/* Removes the entry from the table. Frees it if nothing holds it; otherwise the last holder frees
 * it. */
static void drop_entry(srv_runs *s, srv_runs_entry *e) {
    list_out(s, e);
    s->bytes -= e->run.bytes;
    srv_shares_take(&s->shares, e->owner, e->run.bytes);
    s->count--;
    e->listed = false;
    if (!e->holds)
        free_entry(e);
}

static void remember_gone(srv_runs *s, const char *id) {
    memcpy(s->gone[s->gone_count++ % SRV_RUNS_REMEMBERED], id, SRV_RUN_ID);
}

/* Returns whether a removed run had this id, as far as ids are remembered. */
static bool was_known(const srv_runs *s, const char *id) {
    const size_t n = s->gone_count < SRV_RUNS_REMEMBERED ? s->gone_count : SRV_RUNS_REMEMBERED;
    for (size_t i = 0; i < n; i++)
        if (memcmp(s->gone[i], id, SRV_RUN_ID) == 0)
            return true;
    return false;
}

/* Removes the least recently used run of the owner with the most bytes from the table. With
 * runs_dir its file stays. false: the table is empty. */
static bool drop_one(srv_runs *s) {
    const srv_owner owner = srv_shares_heaviest(&s->shares);
    srv_runs_entry *e = s->last;
    while (e && e->owner != owner)
        e = e->previous;
    e = e ? e : s->last;
    if (!e)
        return false;
    if (!s->has_dir) {
        remember_gone(s, e->run.id);
        s->state.evicted++;
    }
    drop_entry(s, e);
    return true;
}

/* Removes runs from the table until `bytes` more bytes fit into runs_bytes. The new bytes count as
 * the owner's while the owner with the most bytes is chosen. */
static void make_room(srv_runs *s, srv_owner owner, size_t bytes) {
    const size_t most = (size_t)s->config->runs_bytes;
    srv_shares_add(&s->shares, owner, bytes);
    while ((bytes > most || s->bytes > most - bytes) && drop_one(s))
        ;
    srv_shares_take(&s->shares, owner, bytes);
}

static void list_entry(srv_runs *s, srv_runs_entry *e) {
    e->listed = true;
    list_front(s, e);
    s->bytes += e->run.bytes;
    srv_shares_add(&s->shares, e->owner, e->run.bytes);
    s->count++;
}

/* Moves the entry to the front of the list as the most recently used run. */
static void note_use(srv_runs *s, srv_runs_entry *e) {
    list_out(s, e);
    list_front(s, e);
}

/* Removes entries from the table: without runs_dir those that have expired at `now` (attn_now_ns),
 * with runs_dir those whose files are no longer in the directory. */
static void drop_expired(srv_runs *s, int64_t now) {
    for (srv_runs_entry *e = s->first, *next; e; e = next) {
        next = e->next;
        if (s->has_dir ? srv_runs_dir_knows(&s->dir, e->run.id) : e->run.ends_ns > now)
            continue;
        if (!s->has_dir) {
            remember_gone(s, e->run.id);
            s->state.expired++;
        }
        drop_entry(s, e);
    }
}

enum { SWEEP_MS = 5000 }; /* time between two checks for expired runs */

/* --- expiry --- */

static void sweep(srv_runs *s) {
    if (s->has_dir)
        srv_runs_dir_sweep(&s->dir);
    pthread_mutex_lock(&s->lock);
    drop_expired(s, attn_now_ns());
    pthread_mutex_unlock(&s->lock);
}

void srv_runs_tick(srv_runs *s) {
    const int64_t now = attn_now_ns();
    int64_t due = atomic_load(&s->next_sweep_ns);
    if (now >= due &&
        atomic_compare_exchange_strong(&s->next_sweep_ns, &due, now + (int64_t)SWEEP_MS * 1000000))
        sweep(s);
}

static void keep_alive(const srv_runs *s, srv_runs_entry *e, int64_t now) {
    const int64_t ttl = s->config->runs_ttl_s * 1000000000;
    if (!srv_runs_is_due(e->moved_ns, ttl, now))
        return;
    e->moved_ns = now;
    e->run.ends_ns = now + ttl;
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
    s->config = config;
    s->gone = gone;
    s->has_dir = *config->runs_dir != 0;
    pthread_mutex_init(&s->lock, NULL);
    int failed = s->has_dir ? srv_runs_dir_open(&s->dir, config) : 0;
    if (failed) {
        fprintf(stderr, "attnd: cannot use runs_dir %s: %s\n", config->runs_dir, strerror(failed));
        srv_runs_free(s);
        return SRV_EXIT_USAGE;
    }
    srv_runs_tick(s);
    *out = s;
    return 0;
}

void srv_runs_free(srv_runs *s) {
    if (!s)
        return;
    while (s->first)
        drop_entry(s, s->first);
    if (s->has_dir)
        srv_runs_dir_close(&s->dir);
    pthread_mutex_destroy(&s->lock);
    free(s->gone);
    free(s);
}

void srv_runs_look(srv_runs *s, srv_runs_state *out) {
    srv_runs_state files = {0};
    if (s->has_dir)
        srv_runs_dir_look(&s->dir, &files);
    pthread_mutex_lock(&s->lock);
    *out = s->state;
    out->count = s->has_dir ? files.count : s->count;
    out->bytes = s->has_dir ? files.bytes : s->bytes;
    out->expired += files.expired;
    out->evicted += files.evicted;
    pthread_mutex_unlock(&s->lock);
}

static int map_file(srv_runs *s, srv_runs_entry *e, const char *id) {
    const int failed = srv_runs_dir_map(&s->dir, id, &e->mapped);
    if (!failed) {
        e->image = srv_mapped_data(e->mapped);
        e->image_size = srv_mapped_size(e->mapped);
    }
    return failed;
}

/* Parses e->image and sets run, owner and size of the entry. Sets no problem; the caller does. */
static attn_status open_image(const srv_config *config, srv_runs_entry *e, attn_error *err) {
    attn_run *run;
    e->arena = attn_arena_new((size_t)config->max_request_bytes);
    if (!e->arena)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the stored run");
    attn_status status = attn_run_open(e->image, e->image_size, NULL, e->arena, &run, err);
    if (status != ATTN_OK)
        return status;
    e->run.run = run;
    e->owner = srv_owner_of(attn_run_metadata(run, SRV_RUN_OWNER));
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

/* Allocates memory for an image. While the memory budget is exhausted, removes older runs and tries
 * again. NULL: no run is left to remove. */
static void *take_image(srv_runs *s, size_t size) {
    void *image = attn_alloc(size);
    while (!image) {
        pthread_mutex_lock(&s->lock);
        const bool dropped = drop_one(s);
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

/* Writes the image to the directory and maps its file. The thread leaves the worker pool meanwhile,
 * so that another request can compute while the disk is slow. Returns 0 or an errno value. */
static int store_in_dir(srv_request *req, srv_runs *s, srv_runs_entry *e,
                        const attn_run_image *image) {
    attn_pool *pool = srv_request_pool(req);
    attn_pool_leave(pool);
    srv_runs_tick(s);
    int failed = srv_runs_dir_write(&s->dir, e->run.id, srv_owner_of(req->owner), image);
    if (!failed)
        failed = map_file(s, e, e->run.id);
    attn_pool_enter(pool);
    return failed;
}

static const srv_run *store_failed(srv_request *req, srv_runs_entry *e, const attn_error *err) {
    srv_runs *s = req->app->runs;
    if (e->mapped)
        srv_runs_dir_remove(&s->dir, e->run.id);
    free_entry(e);
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
            free_entry(e);
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
        free_entry(e);
        return too_large(req, bytes);
    }
    e->holds = 1;
    keep_alive(s, e, attn_now_ns());
    pthread_mutex_lock(&s->lock);
    make_room(s, e->owner, e->run.bytes);
    list_entry(s, e);
    s->state.stored++;
    pthread_mutex_unlock(&s->lock);
    return &e->run;
}

/* --- holding --- */

static bool is_id(const char *id) {
    return strlen(id) == SRV_RUN_ID && strspn(id, "0123456789abcdef") == SRV_RUN_ID;
}

static const srv_run *missing(srv_request *req, const char *id, bool gone) {
    if (gone)
        srv_problem(req, SRV_GONE, NULL,
                    "the run %s is no longer kept: it was not used for runs_ttl_s (%lld s), was "
                    "deleted, or "
                    "made room for others (runs_bytes); store it again",
                    id, (long long)req->app->config->runs_ttl_s);
    else
        srv_problem(req, SRV_NOT_FOUND, NULL,
                    "there is no stored run \"%.64s\"; POST /v1/attention with \"store\": true "
                    "answers the id of one%s",
                    id,
                    req->app->runs->has_dir
                        ? ""
                        : ". Runs are in the memory of the process that stored them: where there "
                          "are several, another one may have it (runs_dir is what they share)");
    return NULL;
}

/* Opens the file of a run that another process stored, or that this process has closed. */
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
            missing(req, id, true); /* the file was removed after srv_runs_dir_use found it */
        return NULL;
    }
    memcpy(e->run.id, id, SRV_RUN_ID);
    if (open_image(s->config, e, &err)) {
        free_entry(e);
        if (err.code == ATTN_ENOMEM)
            srv_problem_error(req, &err);
        else
            srv_problem(req, SRV_NOT_FOUND, NULL, "the file of run %s is not a stored run: %s%s%s",
                        id, err.where, *err.where ? ": " : "", err.text);
        return NULL;
    }
    e->holds = 1;
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *other = find_entry(s, id); /* not NULL: another thread was faster */
    if (other) {
        other->holds++;
    } else {
        make_room(s, e->owner, e->run.bytes);
        list_entry(s, e);
    }
    pthread_mutex_unlock(&s->lock);
    if (!other)
        return &e->run;
    free_entry(e);
    return &other->run;
}

/* Finds the run in the table and holds it. NULL: it is not in the table. The caller has the lock.
 */
static srv_runs_entry *hold_open(srv_runs *s, const char *id) {
    srv_runs_entry *e = find_entry(s, id);
    if (e) {
        e->holds++;
        note_use(s, e);
    }
    return e;
}

static const srv_run *hold_in_memory(srv_request *req, const char *id) {
    srv_runs *s = req->app->runs;
    const int64_t now = attn_now_ns();
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *e = find_entry(s, id);
    if (e && e->run.ends_ns <= now)
        drop_expired(s, now);
    e = hold_open(s, id);
    if (e)
        keep_alive(s, e, now);
    const bool gone = !e && was_known(s, id);
    pthread_mutex_unlock(&s->lock);
    return e ? &e->run : missing(req, id, gone);
}

static void drop_open(srv_runs *s, const char *id) {
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *e = find_entry(s, id);
    if (e)
        drop_entry(s, e);
    pthread_mutex_unlock(&s->lock);
}

static const srv_run *hold_in_dir(srv_request *req, const char *id) {
    srv_runs *s = req->app->runs;
    int64_t ends;
    const srv_run_presence there = srv_runs_dir_use(&s->dir, id, &ends);
    if (there != SRV_RUN_THERE) {
        drop_open(s, id);
        return missing(req, id, there == SRV_RUN_GONE);
    }
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *e = hold_open(s, id);
    pthread_mutex_unlock(&s->lock);
    const srv_run *run = e ? &e->run : hold_file(req, id);
    if (run)
        ((srv_run *)(uintptr_t)run)->ends_ns = ends;
    return run;
}

const srv_run *srv_run_hold(srv_request *req, const char *id) {
    srv_runs *s = req->app->runs;
    if (!is_id(id))
        return missing(req, id, false);
    srv_runs_tick(s);
    return s->has_dir ? hold_in_dir(req, id) : hold_in_memory(req, id);
}

bool srv_run_is_whole(srv_request *req, const srv_run *run) {
    const srv_runs_entry *e = (const srv_runs_entry *)(const void *)run;
    if (!run || !e->mapped || !srv_mapped_check(e->mapped))
        return true;
    srv_problem(req, SRV_NOT_FOUND, NULL,
                "the file of run %s was cut short, or cannot be read to its end", run->id);
    return false;
}

/* A run whose mapped file was truncated is removed from the table here, so that the next request
 * maps the file anew. */
void srv_run_release(srv_request *req, const srv_run *run) {
    srv_runs *s = req->app->runs;
    srv_runs_entry *e = (srv_runs_entry *)(void *)(uintptr_t)run;
    if (!run)
        return;
    srv_runs_entry *gone = NULL;
    pthread_mutex_lock(&s->lock);
    e->holds--;
    if (e->listed && e->mapped && srv_mapped_is_hurt(e->mapped))
        drop_entry(s, e);
    else if (!e->listed && !e->holds)
        gone = e;
    pthread_mutex_unlock(&s->lock);
    free_entry(gone);
}

void srv_run_discard(srv_request *req, const srv_run *run) {
    srv_runs *s = req->app->runs;
    if (s->has_dir)
        srv_runs_dir_remove(&s->dir, run->id);
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *e = find_entry(s, run->id);
    if (e) {
        remember_gone(s, run->id);
        drop_entry(s, e);
    }
    pthread_mutex_unlock(&s->lock);
}

bool srv_run_delete(srv_request *req, const char *id) {
    const srv_run *run = srv_run_hold(req, id);
    if (!run)
        return false;
    const bool may = srv_request_owns(req, attn_run_metadata(run->run, SRV_RUN_OWNER));
    if (may)
        srv_run_discard(req, run);
    srv_run_release(req, run);
    return may;
}
