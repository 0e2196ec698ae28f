/* Stores runs, holds them and removes them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "load/budget.h"
#include "store/runs_table.h"

enum { SWEEP_MS = 5000 }; /* time between two checks for expired runs */

/* --- expiry --- */

static void sweep_runs(srv_runs *s) {
    if (s->has_dir)
        srv_runs_dir_sweep(&s->dir);
    pthread_mutex_lock(&s->lock);
    srv_runs_drop_expired(s, attn_now_ns());
    pthread_mutex_unlock(&s->lock);
}

void srv_runs_tick(srv_runs *s) {
    const int64_t now = attn_now_ns();
    int64_t due = atomic_load(&s->next_sweep_ns);
    if (now >= due &&
        atomic_compare_exchange_strong(&s->next_sweep_ns, &due, now + (int64_t)SWEEP_MS * 1000000))
        sweep_runs(s);
}

static void keep_alive(const srv_runs *s, srv_runs_entry *e, int64_t now) {
    const int64_t ttl = s->config->runs_ttl_ms * 1000000;
    if (!srv_runs_is_due(e->moved_ns, ttl, now))
        return;
    e->moved_ns = now;
    e->run.ends_ns = now + ttl;
}

/* --- the store --- */

/* Opens the directories of runs and of captures, and starts the thread that writes uploads.
 * Returns 0, or prints an error and returns an exit code. */
static int open_dir(srv_runs *s) {
    int failed = srv_runs_dir_open(&s->dir, s->config);
    if (failed) {
        fprintf(stderr, "attnd: cannot use runs_dir %s: %s\n", s->config->runs_dir,
                strerror(failed));
        return SRV_EXIT_USAGE;
    }
    failed = srv_runs_dir_open_captures(&s->dir, s->config);
    if (failed) {
        fprintf(stderr, "attnd: cannot use captures_dir %s: %s\n", s->config->captures_dir,
                strerror(failed));
        return SRV_EXIT_USAGE;
    }
    s->uploads = srv_uploads_new(&s->dir, s->config);
    if (s->uploads)
        return 0;
    fprintf(stderr, "attnd: cannot start: not enough memory\n");
    return SRV_EXIT_RESOURCES;
}

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
    const int failed = s->has_dir ? open_dir(s) : 0;
    if (failed) {
        srv_runs_free(s);
        return failed;
    }
    srv_runs_tick(s);
    *out = s;
    return 0;
}

void srv_runs_free(srv_runs *s) {
    if (!s)
        return;
    while (s->table.first)
        srv_runs_drop(s, s->table.first->entry);
    srv_uploads_free(s->uploads);
    if (s->has_dir)
        srv_runs_dir_close(&s->dir);
    pthread_mutex_destroy(&s->lock);
    free(s->gone);
    free(s);
}

const char *srv_runs_lost(const srv_runs *s) {
    if (!s->has_dir)
        return NULL;
    return srv_dir_is_gone(s->dir.fd)         ? "runs_dir"
           : srv_dir_is_gone(s->dir.captures) ? "captures_dir"
                                              : NULL;
}

void srv_runs_look(srv_runs *s, srv_runs_state *out) {
    srv_runs_state files = {0};
    if (s->has_dir)
        srv_runs_dir_look(&s->dir, &files);
    pthread_mutex_lock(&s->lock);
    *out = s->state;
    out->count = s->has_dir ? files.count : s->table.count;
    out->bytes = s->has_dir ? files.bytes : s->table.bytes;
    out->expired += files.expired;
    out->evicted += files.evicted;
    pthread_mutex_unlock(&s->lock);
}

/* Puts a run into the page of `count` runs, which is sorted by id and has room for `most` runs.
 * From a full page the last run is dropped. Returns the new count. */
static size_t insert_in_page(srv_run_listed *page, size_t count, size_t most, const srv_run *run) {
    size_t at = count;
    while (at && memcmp(page[at - 1].id, run->id, SRV_RUN_ID) > 0)
        at--;
    if (at == most)
        return count;
    count -= count == most;
    memmove(page + at + 1, page + at, (count - at) * sizeof *page);
    page[at] = (srv_run_listed){.bytes = run->bytes, .ends_ns = run->ends_ns};
    memcpy(page[at].id, run->id, sizeof run->id);
    return count + 1;
}

static size_t page_of_memory(srv_runs *s, const srv_owner *owner, const char *after,
                             srv_run_listed *out, size_t most) {
    const int64_t now = attn_now_ns();
    size_t count = 0;
    pthread_mutex_lock(&s->lock);
    for (const srv_runs_entry *e = srv_held_first(&s->table); e; e = srv_held_next(&e->held))
        if ((!owner || e->owner == *owner) && e->run.ends_ns > now &&
            (!after || strcmp(e->run.id, after) > 0))
            count = insert_in_page(out, count, most, &e->run);
    pthread_mutex_unlock(&s->lock);
    return count;
}

size_t srv_runs_list_page(const srv_request *req, const char *after, srv_run_listed *out,
                          size_t most) {
    srv_runs *s = req->app->runs;
    const srv_owner mine = srv_owner_of(req->owner), *owner = req->admin ? NULL : &mine;
    srv_runs_tick(s);
    return s->has_dir ? srv_runs_dir_page(&s->dir, owner, after, out, most)
                      : page_of_memory(s, owner, after, out, most);
}

static int map_file(srv_runs *s, srv_runs_entry *e, const char *id) {
    const int failed = srv_runs_dir_map(&s->dir, id, &e->mapped, &e->side);
    if (!failed) {
        e->image = srv_mapped_data(e->mapped);
        e->image_size = srv_mapped_size(e->mapped);
        e->imported = e->side.text != NULL;
    }
    return failed;
}

/* Computes srv_run.print. The header of the file has checksums of the rest, if the file has any. */
static uint64_t print_of(const srv_runs_entry *e) {
    uint32_t sum = attn_crc32c(0, e->image, srv_runs_header_size(e));
    if (e->imported && e->sums.size)
        sum = attn_crc32c(sum, e->sums.sums,
                          attn_checksums_count(e->sums.size) * sizeof *e->sums.sums);
    return (uint64_t)1 << 32 | sum;
}

attn_status srv_runs_open_image(const srv_config *config, srv_runs_entry *e, attn_error *err) {
    const attn_run_limits limits = {(size_t)config->max_capture_sites,
                                    (size_t)config->max_capture_text_bytes};
    attn_run *run;
    ATTN_TRY(attn_run_open(e->image, e->image_size, &limits, e->arena, &run, err));
    e->run.run = run;
    const void *bytes;
    const attn_checksums *sums = attn_run_checksums(run, &bytes);
    if (sums && e->mapped && !e->imported) {
        e->sums = *sums;
        ATTN_TAKEN(srv_runs_sum_from(e, bytes), "the stored run", err);
    }
    e->run.print = print_of(e);
    e->run.read_token = e->imported ? e->side.token : attn_run_metadata(run, SRV_RUN_TOKEN);
    e->owner = srv_owner_of(srv_runs_owner(e));
    const char *rows = e->imported ? NULL : attn_run_metadata(run, SRV_RUN_ROWS);
    e->run.rows = rows ? strtoull(rows, NULL, 10) : 0;
    const size_t memory = attn_arena_used(e->arena) + attn_run_gathered(run);
    e->held.bytes = memory + (e->side.path ? 0 : e->image_size);
    e->run.bytes = memory + e->image_size;
    return ATTN_OK;
}

/* Allocates memory for an image of the owner. While the memory budget is exhausted, removes other
 * runs and tries again. NULL: no run may be removed for this owner. */
static void *take_image(srv_runs *s, srv_owner owner, size_t size) {
    void *image = attn_alloc(size);
    while (!image) {
        const size_t left = srv_budget_free();
        pthread_mutex_lock(&s->lock);
        const bool dropped =
            srv_runs_make_room(s, owner, size, size > left ? size - left : 1, NULL);
        pthread_mutex_unlock(&s->lock);
        if (!dropped)
            break;
        image = attn_alloc(size);
    }
    return image;
}

attn_status srv_runs_copy_image(srv_runs *s, srv_runs_entry *e, srv_owner owner,
                                const attn_run_image *image, attn_error *err) {
    char *to = take_image(s, owner, image->size);
    e->image = to;
    e->image_size = image->size;
    ATTN_TAKEN(to, "the stored run", err);
    for (size_t i = 0; i < image->count; i++) {
        memcpy(to, image->pieces[i].data, image->pieces[i].size);
        to += image->pieces[i].size;
    }
    return srv_runs_open_image(s->config, e, err);
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
    srv_runs_entry_free(e);
    srv_problem_error(req, err);
    return NULL;
}

const srv_run *srv_runs_admit(srv_request *req, const char *pointer, srv_runs_entry *e) {
    srv_runs *s = req->app->runs;
    e->held.holds = 1;
    keep_alive(s, e, attn_now_ns());
    if (s->has_dir)
        srv_runs_dir_is_same(&s->dir, e->run.id, e->run.print);
    pthread_mutex_lock(&s->lock);
    const bool listed = srv_runs_list(s, e);
    s->state.stored += listed;
    pthread_mutex_unlock(&s->lock);
    if (listed)
        return &e->run;
    srv_runs_entry_free(e);
    srv_runs_refuse(req, pointer, ENOBUFS);
    return NULL;
}

const srv_run *srv_run_store(srv_request *req, const attn_run_image *image) {
    return srv_runs_store_as(req, NULL, image);
}

const srv_run *srv_runs_store_as(srv_request *req, const char *id, const attn_run_image *image) {
    srv_runs *s = req->app->runs;
    const size_t most = (size_t)s->config->runs_bytes;
    attn_error err = {0};
    if (image->size > most)
        return srv_runs_too_large(req, "/store", image->size);
    srv_runs_entry *e = srv_runs_entry_new(s->config);
    if (!e || (!id && !srv_runs_new_id(e->run.id))) {
        srv_runs_entry_free(e);
        srv_problem(req, SRV_MEMORY_BUDGET, "/store", "no memory for the stored run is left");
        return NULL;
    }
    if (id)
        memcpy(e->run.id, id, SRV_RUN_ID);
    if (!s->has_dir && srv_runs_copy_image(s, e, srv_owner_of(req->owner), image, &err))
        return store_failed(req, e, &err);
    if (s->has_dir) {
        int failed = store_in_dir(req, s, e, image);
        if (failed) {
            srv_runs_entry_free(e);
            srv_runs_refuse(req, "/store", failed);
            return NULL;
        }
        if (srv_runs_open_image(s->config, e, &err))
            return store_failed(req, e, &err);
    }
    if (e->run.bytes > most) {
        const size_t bytes = e->run.bytes;
        if (e->mapped)
            srv_runs_dir_remove(&s->dir, e->run.id);
        srv_runs_entry_free(e);
        return srv_runs_too_large(req, "/store", bytes);
    }
    return srv_runs_admit(req, "/store", e);
}

/* --- holding --- */

static const srv_run *refuse_missing_run(srv_request *req, const char *id, bool gone) {
    if (gone)
        srv_problem(req, SRV_GONE, NULL,
                    "the run %s is no longer kept: it was not used for runs_ttl_ms (%lld), was "
                    "deleted, made room for others (runs_bytes), or the generation that added to "
                    "it did not end; store it again",
                    id, (long long)req->app->config->runs_ttl_ms);
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

/* Sets the problem that the file of a run cannot be opened. */
static void refuse_file(srv_request *req, const char *id, int failed) {
    if (failed == ENOENT)
        refuse_missing_run(req, id,
                           true); /* the file was removed after srv_runs_dir_use found it */
    else if (failed == ENODATA)
        srv_problem(req, SRV_DAMAGED, NULL, "the file of run %s is empty", id);
    else if (failed == EBADMSG)
        srv_problem(req, SRV_DAMAGED, NULL,
                    "the file with owner and checksums of run %s is damaged", id);
    else if (failed == ESTALE)
        srv_runs_adopt_again(req, id, "it is not the file that was adopted");
    else if (failed == ENOLINK)
        srv_problem(req, SRV_NOT_FOUND, NULL,
                    "the file of run %s lies in captures_dir, which this service does not have",
                    id);
    else
        srv_problem_file(req, NULL, "the run cannot be read from runs_dir", failed);
}

/* Opens the run in the mapped file of the entry. false: a problem is set. */
static bool open_mapped(srv_request *req, srv_runs_entry *e) {
    attn_error err = {0};
    if (e->imported && srv_runs_take_sums(e, &err)) {
        refuse_file(req, e->run.id, err.code == ATTN_ENOMEM ? ENOMEM : EBADMSG);
        return false;
    }
    if (!srv_runs_check_header(req, e))
        return false;
    if (!srv_runs_open_image(req->app->config, e, &err))
        return true;
    if (err.code == ATTN_ENOMEM)
        return srv_problem_error(req, &err);
    return srv_problem(req, SRV_DAMAGED, NULL, "the file of run %s is not a stored run: %s%s%s",
                       e->run.id, err.where, *err.where ? ": " : "", err.text);
}

/* Checks that the run is the same as when this process opened it under this id before, because runs
 * never change. false: a problem is set. */
static bool is_known(srv_request *req, const srv_runs_entry *e) {
    return srv_runs_dir_is_same(&req->app->runs->dir, e->run.id, e->run.print) ||
           srv_problem(req, SRV_RUN_CHANGED, NULL,
                       "the file of run %s holds another run than before", e->run.id);
}

const srv_run *srv_runs_hold_file(srv_request *req, const char *id) {
    srv_runs *s = req->app->runs;
    srv_runs_entry *e = srv_runs_entry_new(s->config);
    const int failed = e ? map_file(s, e, id) : ENOMEM;
    if (failed) {
        srv_runs_entry_free(e);
        refuse_file(req, id, failed);
        return NULL;
    }
    memcpy(e->run.id, id, SRV_RUN_ID);
    if (!open_mapped(req, e) || !is_known(req, e)) {
        srv_runs_entry_free(e);
        return NULL;
    }
    e->held.holds = 1;
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *other = srv_runs_find(s, id); /* not NULL: another thread was faster */
    if (other)
        other->held.holds++;
    else
        srv_runs_list(s, e);
    pthread_mutex_unlock(&s->lock);
    if (!other)
        return &e->run;
    srv_runs_entry_free(e);
    return &other->run;
}

/* Finds the run in the table and holds it. NULL: it is not in the table. The caller has the lock.
 */
static srv_runs_entry *hold_listed(srv_runs *s, const char *id) {
    srv_runs_entry *e = srv_runs_find(s, id);
    if (e) {
        e->held.holds++;
        srv_held_use(&s->table, &e->held);
    }
    return e;
}

static const srv_run *hold_in_memory(srv_request *req, const char *id) {
    srv_runs *s = req->app->runs;
    const int64_t now = attn_now_ns();
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *e = srv_runs_find(s, id);
    if (e && e->run.ends_ns <= now)
        srv_runs_drop_expired(s, now);
    e = hold_listed(s, id);
    if (e)
        keep_alive(s, e, now);
    const bool gone = !e && srv_runs_was_known(s, id);
    pthread_mutex_unlock(&s->lock);
    return e ? &e->run : refuse_missing_run(req, id, gone);
}

static void drop_listed(srv_runs *s, const char *id) {
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *e = srv_runs_find(s, id);
    if (e)
        srv_runs_drop(s, e);
    pthread_mutex_unlock(&s->lock);
}

static const srv_run *hold_in_dir(srv_request *req, const char *id) {
    srv_runs *s = req->app->runs;
    int64_t ends;
    const srv_run_presence there = srv_runs_dir_use(&s->dir, id, &ends);
    if (there == SRV_RUN_UNKNOWN) {
        srv_problem_file(req, NULL, "the run cannot be read from runs_dir", errno);
        return NULL;
    }
    if (there != SRV_RUN_THERE) {
        drop_listed(s, id);
        pthread_mutex_lock(&s->lock); /* the removal of an open run leaves no <id>.gone */
        const bool known = srv_runs_was_known(s, id);
        pthread_mutex_unlock(&s->lock);
        return refuse_missing_run(req, id, there == SRV_RUN_GONE || known);
    }
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *e = hold_listed(s, id);
    pthread_mutex_unlock(&s->lock);
    if (e && !srv_runs_is_same(req, e)) {
        drop_listed(s, id);
        srv_run_release(req, &e->run);
        return NULL;
    }
    if (e && srv_runs_look_at(e) != SRV_MAPPED_SAME) { /* map the changed file again */
        drop_listed(s, id);
        srv_run_release(req, &e->run);
        e = NULL;
    }
    const srv_run *run = e ? &e->run : srv_runs_hold_file(req, id);
    if (run)
        run->entry->run.ends_ns = ends;
    return run;
}

/* Returns whether the request may read the run: it has an API key, or the read token of the run.
 * Does not count as a use of the run. */
static bool may_read(srv_request *req, const char *id) {
    srv_runs *s = req->app->runs;
    const srv_run *run = NULL;
    if (!req->read_token)
        return true;
    if (!srv_runs_hold_growing(req, id, &run)) {
        pthread_mutex_lock(&s->lock);
        srv_runs_entry *e = srv_runs_find(s, id);
        if (e)
            e->held.holds++;
        pthread_mutex_unlock(&s->lock);
        run = e ? &e->run : s->has_dir ? srv_runs_hold_file(req, id) : NULL;
    }
    const bool may = run && srv_request_opens(req, run->read_token);
    srv_run_release(req, run);
    return may;
}

const srv_run *srv_run_hold(srv_request *req, const char *id) {
    srv_runs *s = req->app->runs;
    srv_runs_tick(s);
    if (req->read_token && !(srv_runs_is_id(id) && may_read(req, id))) {
        /* With 5xx, the run's file could not be read, so it is unknown whether the token is valid.
         * In this case the problem of the failed read stays in the reply. */
        if (req->reply.status < 500)
            srv_request_refuse_token(req);
        return NULL;
    }
    if (!srv_runs_is_id(id))
        return refuse_missing_run(req, id, false);
    const srv_run *run;
    if (!srv_runs_hold_growing(req, id, &run))
        run = s->has_dir ? hold_in_dir(req, id) : hold_in_memory(req, id);
    if (run && req->read_token)
        srv_runs_act_for_owner(req, run);
    return run;
}

bool srv_run_is_whole(srv_request *req, const srv_run *run) {
    const srv_runs_entry *e = run ? run->entry : NULL;
    if (!e || !e->mapped)
        return true;
    if (!srv_runs_is_same(req, e))
        return false;
    const srv_mapped_state state = srv_runs_look_at(e);
    if (state == SRV_MAPPED_SAME || state == SRV_MAPPED_OTHER)
        return true;
    if (state == SRV_MAPPED_WRITTEN)
        return srv_problem(req, SRV_STORAGE, NULL,
                           "the file of run %s was changed while it was read", run->id);
    return srv_problem(req, SRV_DAMAGED, NULL,
                       "the file of run %s was cut short, or cannot be read to its end", run->id);
}

/* A run whose mapped file was truncated is removed from the table here, so that the next request
 * maps the file anew. */
void srv_run_release(srv_request *req, const srv_run *run) {
    srv_runs *s = req->app->runs;
    if (!run)
        return;
    srv_runs_entry *e = run->entry;
    pthread_mutex_lock(&s->lock);
    const bool last = srv_held_let_go(&e->held);
    if (e->held.listed && e->mapped && srv_mapped_is_hurt(e->mapped))
        srv_runs_drop(s, e);
    pthread_mutex_unlock(&s->lock);
    srv_runs_entry_free(last ? e : NULL);
}

int srv_run_discard(srv_request *req, const srv_run *run) {
    srv_runs *s = req->app->runs;
    bool was_open;
    const int failed = s->has_dir && !run->open ? srv_runs_dir_delete(&s->dir, run->id) : 0;
    if (failed && failed != ENOENT)
        return failed;
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *prefix = srv_runs_end_growing(s, run->id, true, &was_open);
    srv_runs_entry *e = srv_runs_find(s, run->id);
    if (e) {
        srv_runs_remember_gone(s, run->id);
        srv_runs_drop(s, e);
    }
    pthread_mutex_unlock(&s->lock);
    srv_runs_entry_free(prefix);
    return 0;
}
