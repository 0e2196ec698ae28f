/* Whose a run is: its owner, its read token, and who may read and delete it. */
#include <string.h>

#include "store/runs_table.h"

const char *srv_runs_owner(const srv_runs_entry *e) {
    return e->imported ? e->side.owner : attn_run_metadata(e->run.run, SRV_RUN_OWNER);
}

const char *srv_runs_new_token(attn_arena *arena) {
    char token[SRV_RUN_ID + 1];
    _Static_assert(SRV_RUN_ID == SRV_READ_TOKEN, "both are 128 random bits");
    return srv_runs_new_id(token) ? attn_arena_text(arena, token, SRV_RUN_ID) : NULL;
}

bool srv_run_metadata_of(const char *owner, attn_arena *arena, attn_metadata to[2], size_t *count) {
    *count = 0;
    if (!owner)
        return true;
    to[(*count)++] = (attn_metadata){SRV_RUN_OWNER, owner};
    to[*count] = (attn_metadata){SRV_RUN_TOKEN, srv_runs_new_token(arena)};
    return to[(*count)++].text;
}

bool srv_run_metadata(srv_request *req, attn_metadata to[2], size_t *count) {
    if (srv_run_metadata_of(req->owner, req->arena, to, count))
        return true;
    srv_problem(req, SRV_MEMORY_BUDGET, "/store", "no memory for the stored run is left");
    return false;
}

bool srv_runs_may_read(srv_request *req, const char *id) {
    srv_runs *s = req->app->runs;
    const srv_run *run = NULL;
    if (!req->read_token)
        return true;
    if (!srv_runs_hold_growing(req, id, &run)) {
        pthread_mutex_lock(&s->lock);
        srv_runs_entry *e = srv_runs_find(s, id);
        if (e)
            e->holds++;
        pthread_mutex_unlock(&s->lock);
        run = e ? &e->run : s->has_dir ? srv_runs_hold_file(req, id) : NULL;
    }
    const bool may = run && srv_request_opens(req, run->read_token);
    srv_run_release(req, run);
    return may;
}

void srv_runs_act_for_owner(srv_request *req, const srv_run *run) {
    const char *name = srv_runs_owner((const srv_runs_entry *)(const void *)run);
    req->owner = name ? attn_arena_text(req->arena, name, strlen(name)) : NULL;
}

/* Deletes a run whose file cannot be used any longer. The problem that says so is set, and stays if
 * the run has no side file. */
static bool delete_broken(srv_request *req, const char *id) {
    srv_runs *s = req->app->runs;
    srv_runs_side side;
    if (!s->has_dir || !srv_runs_is_id(id) || srv_runs_dir_side(&s->dir, id, &side))
        return false;
    const bool may = srv_request_owns(req, side.owner);
    srv_runs_side_free(&side);
    return may && srv_runs_dir_remove(&s->dir, id);
}

bool srv_run_delete(srv_request *req, const char *id) {
    const srv_run *run = srv_run_hold(req, id);
    if (!run)
        return delete_broken(req, id);
    const bool may =
        srv_request_owns(req, srv_runs_owner((const srv_runs_entry *)(const void *)run));
    if (may)
        srv_run_discard(req, run);
    srv_run_release(req, run);
    return may;
}
