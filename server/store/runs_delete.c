/* Deletes runs for clients, including runs whose files are damaged. */
#include <errno.h>

#include "store/runs_table.h"

static bool cannot_delete(srv_request *req, int failed) {
    if (failed)
        srv_problem_file(req, NULL, "the run cannot be deleted from runs_dir", failed);
    return failed != 0;
}

/* Returns whether the request may delete a run whose files no longer say who owns it. */
static bool may_delete_unowned(srv_request *req, const char *id) {
    return srv_request_owns(req, NULL) ||
           srv_problem(req, SRV_FORBIDDEN, NULL,
                       "the file that names the owner of run %s is damaged: a key with the right "
                       "\"admin\" may delete it",
                       id);
}

/* Deletes a run whose files cannot be used any longer. srv_run_hold has set a problem for it.
 * Returns whether the run was deleted. false: a problem is set. The problem of srv_run_hold stays
 * if there is no such run, or if the owner cannot be read although the run may be undamaged. */
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
