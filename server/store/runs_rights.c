/* Whose a run is: its owner, its read token, and who may read and delete it. */
#include <errno.h>
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
    return srv_run_metadata_of(req->owner, req->arena, to, count) ||
           srv_problem(req, SRV_MEMORY_BUDGET, "/store", "no memory for the stored run is left");
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
            e->held.holds++;
        pthread_mutex_unlock(&s->lock);
        run = e ? &e->run : s->has_dir ? srv_runs_hold_file(req, id) : NULL;
    }
    const bool may = run && srv_request_opens(req, run->read_token);
    srv_run_release(req, run);
    return may;
}

void srv_runs_act_for_owner(srv_request *req, const srv_run *run) {
    const char *name = srv_runs_owner(run->entry);
    req->owner = name ? attn_arena_text(req->arena, name, strlen(name)) : NULL;
}

static bool cannot_delete(srv_request *req, int failed) {
    if (failed)
        srv_problem_file(req, NULL, "the run cannot be deleted from runs_dir", failed);
    return failed != 0;
}

/* Returns whether the request may delete a run whose files do not say any longer to whom it belongs. */
static bool may_delete_unowned(srv_request *req, const char *id) {
    return srv_request_owns(req, NULL) ||
           srv_problem(req, SRV_FORBIDDEN, NULL,
                       "the file that names the owner of run %s is damaged: a key with the right "
                       "\"admin\" may delete it",
                       id);
}

/* Deletes a run whose file cannot be used any longer. The problem that says so is set, and stays if
 * there is no such run, or if nothing says whose it is and it may be whole. */
static bool delete_broken(srv_request *req, const char *id) {
    srv_runs *s = req->app->runs;
    const bool damaged = req->reply.problem == 1 + (unsigned)SRV_DAMAGED;
    srv_runs_side side;
    if (!s->has_dir || !srv_runs_is_id(id))
        return false;
    const int failed = srv_runs_dir_side(&s->dir, id, &side);
    if (failed && !(damaged && (failed == ENOENT || failed == EBADMSG)))
        return false;
    const bool may = failed ? may_delete_unowned(req, id) : srv_request_owns(req, side.owner);
    srv_runs_side_free(&side);
    const int left = may ? srv_runs_dir_delete(&s->dir, id) : ENOENT;
    return left != ENOENT && !cannot_delete(req, left);
}

bool srv_run_delete(srv_request *req, const char *id) {
    const srv_run *run = srv_run_hold(req, id);
    if (!run) {
        const bool deleted = delete_broken(req, id);
        if (!deleted && req->reply.problem == 1 + (unsigned)SRV_GONE)
            srv_problem(req, SRV_NOT_FOUND, NULL,
                        "the run %s is no longer kept, so there is nothing to delete", id);
        return deleted;
    }
    const bool goes = srv_request_owns(req, srv_runs_owner(run->entry)) &&
                      !cannot_delete(req, srv_run_discard(req, run));
    srv_run_release(req, run);
    return goes;
}
