#include "api/runs/runs_look.h"

#include <string.h>

#include "api/common/later.h"
#include "load/admission.h"
#include "request/shared.h"

enum {
    KEPT_NS = 50000000,   /* an answer is kept if it took at least this time to compute, */
    KEPT_BYTES = 1 << 20, /* and if it has at most so many bytes; of a job as many as fit */
};

/* --- names --- */

/* Returns the key of the answer. Another version of the program or other kernels may answer
 * otherwise. */
static const char *key_of(const srv_look *look) {
    const srv_request *req = look->req;
    attn_text t = {.arena = req->arena};
    attn_text_add(&t, "%s?%s accept=%u %s %s", req->path, look->query, req->accept, attn_version(),
                  attn_isa_name(attn_isa_current()));
    return t.failed ? NULL : t.data;
}

/* --- kept answers --- */

bool srv_look_answered(srv_look *look, srv_request *req) {
    srv_run_answer kept;
    *look = (srv_look){.req = req, .query = srv_later_query(req)};
    look->key = look->query ? key_of(look) : NULL;
    if (!look->key)
        return false;
    const srv_run *run = srv_run_hold(req, req->params[0]);
    if (!run)
        return true;
    look->token =
        run->read_token ? attn_arena_text(req->arena, run->read_token, SRV_READ_TOKEN) : NULL;
    const bool found = srv_run_recall(req, run, look->key, &kept);
    if (found) {
        srv_reply_set(req, 200, kept.type, kept.body, kept.size);
        srv_run_keep(req, run);
    }
    srv_run_release(req, run);
    return found;
}

/* Makes one block of a body in pieces, as a kept one is, so that both have the same ETag. A larger
 * body is never kept and stays as it is. */
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

/* Keeps the answer of the reply. A job has no other place for it, and fails without. */
static void keep(const srv_look *look, const srv_run *run) {
    srv_request *req = look->req;
    const srv_reply *reply = &req->reply;
    const size_t size = reply->size;
    const srv_run_answer answer = {reply->type, strlen(reply->type), reply->body, size};
    if (!req->is_job && (req->compute_ns < KEPT_NS || size > KEPT_BYTES))
        return;
    const bool kept = !reply->pieces && srv_run_remember(req, run, look->key, &answer);
    if (req->is_job && !kept)
        srv_problem(req, SRV_TOO_LARGE, NULL,
                    "the answer has %zu bytes and cannot be kept: the run was removed, its file "
                    "cannot be written, or it has no room for so many (4 MiB at most); ask for "
                    "less",
                    size);
}

srv_outcome srv_look_end(const srv_look *look, const srv_run_view *run, bool answered) {
    srv_request *req = look->req;
    srv_later_advise(req);
    if (answered && req->reply.status == 200 && look->key && srv_run_is_whole(req, run->held)) {
        if (req->reply.pieces)
            join_pieces(req);
        keep(look, run->held);
    }
    return srv_run_end(req, run, answered);
}

/* --- work --- */

void srv_look_needs(srv_look *look, double cells, double operations, double bytes) {
    look->cells = cells;
    look->operations = operations;
    look->bytes = bytes;
}

bool srv_look_later(const srv_look *look, srv_outcome (*handler)(srv_request *)) {
    srv_request *req = look->req;
    if (!srv_later_is_due(req, look->operations) || !look->key ||
        look->cells > req->app->config->max_cells)
        return false;
    srv_later_reply(req, &(srv_job_order){.run = handler,
                                          .query = look->query,
                                          .key = look->key,
                                          .token = look->token,
                                          .bytes = look->bytes});
    return true;
}

bool srv_look_admit(const srv_look *look) {
    return srv_run_fits(look->req, look->cells) &&
           srv_admission_work(look->req, look->operations, look->bytes);
}
