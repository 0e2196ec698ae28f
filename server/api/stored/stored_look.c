#include "api/stored/stored_api.h"

#include <string.h>

#include "api/common/later.h"
#include "request/shared.h"

enum {
    /* An answer is kept if it took at least KEPT_NS to compute and has at most KEPT_BYTES bytes.
     * The answer of a job is always kept if it has at most SRV_RUN_ANSWERS bytes. */
    KEPT_NS = 50000000,
    KEPT_BYTES = 1 << 20,
};

/* --- kept answers --- */

/* Returns the key of the answer. The key has the version of the program and the kernels, because
 * other versions and kernels may give different answers. NULL: the answer cannot be kept. */
static const char *answer_key(srv_request *req) {
    attn_text t = {.arena = req->arena};
    const char *query = srv_later_query(req);
    attn_text_add(&t, "%s?%s accept=%u %s %s", req->path, query ? query : "", req->accept,
                  attn_version(), attn_isa_name(attn_isa_current()));
    return t.failed || !query ? NULL : t.data;
}

/* Prepares the job of the look. Returns true if the reply is set to the kept answer or to a
 * problem. */
static bool is_answered(srv_look *look, srv_outcome (*handler)(srv_request *)) {
    srv_request *req = look->req;
    srv_job_order *job = &look->call.job;
    srv_run_answer kept;
    job->key = answer_key(req);
    if (!job->key)
        return false;
    const srv_run *run = srv_run_hold(req, req->params[0]);
    if (!run)
        return true;
    job->run = handler;
    job->token =
        run->read_token ? attn_arena_text(req->arena, run->read_token, SRV_READ_TOKEN) : NULL;
    const bool found = srv_run_recall(req, run, job->key, &kept);
    if (found) {
        srv_reply_set(req, 200, kept.type, kept.body, kept.size);
        srv_run_keep(req, run);
    }
    srv_run_release(req, run);
    return found;
}

/* Joins the pieces of a reply's body to one block. The kept body is one block, and this reply must
 * have the same ETag. A body that is too large to be kept stays in pieces. */
static void join_pieces(srv_request *req) {
    srv_reply *reply = &req->reply;
    size_t size = 0;
    for (size_t i = 0; i < reply->piece_count; i++)
        size += reply->pieces[i].size;
    char *all = size <= SRV_RUN_ANSWERS ? attn_arena_take(req->arena, size + 1) : NULL, *to = all;
    if (!all)
        return;
    for (size_t i = 0; i < reply->piece_count; i++) {
        if (reply->pieces[i].size)
            memcpy(to, reply->pieces[i].data, reply->pieces[i].size);
        to += reply->pieces[i].size;
    }
    *to = 0;
    reply->body = all;
    reply->size = size;
    reply->pieces = NULL;
}

/* Keeps the answer in the reply. If the answer of a job cannot be kept, the job fails, because its
 * answer has no other place. */
static void keep_answer(const srv_look *look, const srv_run *run) {
    srv_request *req = look->req;
    const srv_reply *reply = &req->reply;
    if (reply->pieces)
        join_pieces(req);
    const size_t size = reply->size;
    const srv_run_answer answer = {reply->type, strlen(reply->type), reply->body, size};
    if (!req->is_job && (req->compute_ns < KEPT_NS || size > KEPT_BYTES))
        return;
    const bool kept = !reply->pieces && srv_run_remember(req, run, look->call.job.key, &answer);
    if (req->is_job && !kept)
        srv_problem(req, SRV_TOO_LARGE, NULL,
                    "the answer has %zu bytes and cannot be kept: the run was removed, its file "
                    "cannot be written, or it has no room for so many (4 MiB at most); ask for "
                    "less",
                    size);
}

/* --- the look --- */

void srv_look_needs(srv_look *look, double cells, double operations, double bytes) {
    look->call.cost =
        (srv_cost){.cells = cells, .operations = operations, .weighted = operations, .work = bytes};
}

srv_outcome srv_look_run(void *data, const srv_steps *steps,
                         srv_outcome (*handler)(srv_request *)) {
    srv_look *look = data;
    srv_request *req = look->req;
    if ((handler && is_answered(look, handler)) || !(look->run = srv_run_of(req)))
        return SRV_DONE;
    const srv_outcome outcome = srv_compute(look, steps);
    if (req->reply.status == 200 && srv_run_is_whole(req, look->run->held)) {
        if (look->call.job.key)
            keep_answer(look, look->run->held);
        srv_run_keep(req, look->run->held);
    }
    srv_run_leave(req, look->run);
    return outcome;
}
