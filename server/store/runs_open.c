/* Opens and closes runs to which a generation of this process adds steps. */
#include <stdlib.h>

#include "store/runs_table.h"

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

/* Removes the run from the list of open runs. If `gone` is true, remembers its id as that of a
 * removed run. Returns whether the run was in the list. */
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
    const bool listed = *srv_runs_find_growing(s, run->id) == run;
    pthread_mutex_unlock(&s->lock);
    return listed;
}

bool srv_run_close(srv_request *req, srv_open_run *run, const attn_run_image *image,
                   const srv_run **out) {
    srv_runs *s = req->app->runs;
    *out = NULL;
    if (!is_listed(s, run)) /* the run was deleted */
        return true;
    const srv_run *stored = srv_runs_store_as(req, run->id, image);
    if (stored && !end_growing(s, run, false)) { /* the run was deleted meanwhile */
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
