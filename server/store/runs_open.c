/* Open runs: those that a generation of this process is adding to. Their rows are in memory, and
 * requests see the steps so far. An entry of the table (runs_table.h) stands for the run of some
 * number of steps; it is never listed, and it is shared by the requests that come before the next
 * step. Only the closed run is written to runs_dir, so that no other process, and no later one,
 * sees a part of a run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/runs_table.h"

struct srv_open_run {
    char id[SRV_RUN_ID + 1];
    srv_open_run *next;   /* in the list of the store */
    _Atomic size_t users; /* the generation, and each entry */
    attn_arena *arena;    /* holds `growth` */
    attn_run_growth *growth;
    size_t bytes;           /* of the arena, with room for all rows */
    srv_runs_entry *latest; /* the entry of the most rows; it is held by the list; or NULL */
};

/* --- the list: the caller has the lock --- */

static srv_open_run **find_growing(srv_runs *s, const char *id) {
    srv_open_run **at = &s->growing;
    while (*at && memcmp((*at)->id, id, SRV_RUN_ID) != 0)
        at = &(*at)->next;
    return at;
}

/* Ends the list's hold of an entry. Returns the entry if nothing holds it any longer, to be freed
 * without the lock. */
static srv_runs_entry *let_go(srv_runs_entry *e) {
    return e && srv_held_let_go(&e->held) ? e : NULL;
}

srv_runs_entry *srv_runs_end_growing(srv_runs *s, const char *id, bool gone, bool *was_open) {
    srv_open_run **at = find_growing(s, id), *run = *at;
    *was_open = run;
    if (!run)
        return NULL;
    *at = run->next;
    if (gone)
        srv_runs_remember_gone(s, id);
    srv_runs_entry *e = let_go(run->latest);
    run->latest = NULL;
    return e;
}

/* --- entries --- */

void srv_runs_leave_growing(srv_open_run *run) {
    if (!run || atomic_fetch_sub(&run->users, 1) != 1)
        return;
    attn_arena_free(run->arena);
    free(run);
}

/* Makes the entry of the steps so far. NULL: out of memory. */
static srv_runs_entry *look_at_growing(const srv_config *config, srv_open_run *run) {
    srv_runs_entry *e = srv_runs_entry_new(config);
    attn_run *found;
    attn_error err;
    if (!e)
        return NULL;
    if (attn_run_growth_look(run->growth, e->arena, &found, &e->run.rows, &err)) {
        srv_runs_entry_free(e);
        return NULL;
    }
    atomic_fetch_add(&run->users, 1);
    e->open = run;
    memcpy(e->run.id, run->id, SRV_RUN_ID);
    e->run.run = found;
    e->run.open = true;
    e->run.read_token = attn_run_metadata(found, SRV_RUN_TOKEN);
    e->run.bytes = run->bytes + attn_arena_used(e->arena);
    e->run.ends_ns = attn_now_ns() + config->runs_ttl_ms * 1000000;
    return e;
}

bool srv_runs_hold_growing(srv_request *req, const char *id, const srv_run **out) {
    srv_runs *s = req->app->runs;
    srv_runs_entry *e = NULL, *old = NULL;
    pthread_mutex_lock(&s->lock);
    srv_open_run *run = *find_growing(s, id);
    if (run) {
        e = run->latest;
        if (!e || e->run.rows != attn_run_growth_rows(run->growth)) {
            e = look_at_growing(s->config, run);
            old = e ? let_go(run->latest) : NULL;
            run->latest = e ? e : run->latest;
            if (e)
                e->held.holds = 1;
        }
        if (e)
            e->held.holds++;
    }
    pthread_mutex_unlock(&s->lock);
    srv_runs_entry_free(old);
    if (run && !e)
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory is left for a look at the open run");
    *out = e ? &e->run : NULL;
    return run;
}

/* --- the generation --- */

srv_open_run *srv_run_open(srv_request *req, attn_arena *arena, attn_run_growth *growth) {
    srv_runs *s = req->app->runs;
    const size_t bytes = attn_arena_used(arena);
    srv_open_run *run = bytes > (size_t)s->config->runs_bytes ? NULL : calloc(1, sizeof *run);
    if (!run || !srv_runs_new_id(run->id)) {
        free(run);
        attn_arena_free(arena);
        if (bytes > (size_t)s->config->runs_bytes)
            srv_runs_too_large(req, "/store", bytes);
        else
            srv_problem(req, SRV_MEMORY_BUDGET, "/store", "no memory for the run is left");
        return NULL;
    }
    run->users = 1;
    run->arena = arena;
    run->growth = growth;
    run->bytes = bytes;
    pthread_mutex_lock(&s->lock);
    run->next = s->growing;
    s->growing = run;
    pthread_mutex_unlock(&s->lock);
    return run;
}

const char *srv_open_run_id(const srv_open_run *run) {
    return run->id;
}

/* Ends the run's time in the list. Returns whether it was there. */
static bool end_growing(srv_runs *s, srv_open_run *run, bool gone) {
    bool was_open;
    pthread_mutex_lock(&s->lock);
    srv_runs_entry *e = srv_runs_end_growing(s, run->id, gone, &was_open);
    pthread_mutex_unlock(&s->lock);
    srv_runs_entry_free(e);
    return was_open;
}

static bool is_listed(srv_runs *s, const srv_open_run *run) {
    pthread_mutex_lock(&s->lock);
    const bool listed = *find_growing(s, run->id) == run;
    pthread_mutex_unlock(&s->lock);
    return listed;
}

bool srv_run_close(srv_request *req, srv_open_run *run, const attn_run_image *image,
                   const srv_run **out) {
    srv_runs *s = req->app->runs;
    *out = NULL;
    if (!is_listed(s, run)) /* it was deleted */
        return true;
    const srv_run *stored = srv_runs_store_as(req, run->id, image);
    if (stored && !end_growing(s, run, false)) { /* it was deleted meanwhile */
        srv_run_discard(req, stored);
        srv_run_release(req, stored);
        return true;
    }
    *out = stored;
    return stored;
}

void srv_run_abandon(srv_request *req, srv_open_run *run) {
    if (!run)
        return;
    end_growing(req->app->runs, run, true);
    srv_runs_leave_growing(run);
}
