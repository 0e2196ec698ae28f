#include "api/common/later.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "load/admission.h"
#include "request/shared.h"

/* Returns the longest predicted time of work, in seconds, for which the client will wait. */
static double patience(const srv_request *req) {
    return req->wait_s >= 0 ? (double)req->wait_s : 1e-3 * (double)req->app->config->async_ms;
}

bool srv_later_is_due(const srv_request *req, double operations) {
    return req->respond_async && !req->is_job &&
           srv_admission_seconds(req, operations, (double)req->app->config->workers) >
               patience(req);
}

const char *srv_later_query(srv_request *req) {
    attn_text t = {.arena = req->arena};
    for (const char *p = req->query; *p; p++)
        if (isalnum((unsigned char)*p) || strchr("-._~!$&'()*+,;=:@/?%", *p))
            attn_text_add(&t, "%c", *p);
        else
            attn_text_add(&t, "%%%02X", (unsigned char)*p);
    return t.failed || t.size > SRV_JOB_QUERY ? NULL : t.data ? t.data : "";
}

static void add_preference(srv_request *req) {
    attn_text t = {.arena = req->arena};
    attn_text_add(&t, "respond-async");
    if (req->wait_s >= 0)
        attn_text_add(&t, ", wait=%" PRId64, req->wait_s);
    srv_reply_header(req, "Preference-Applied", t.failed ? "respond-async" : t.data);
}

void srv_later_reply(srv_request *req, const srv_job_order *order) {
    attn_text location = {.arena = req->arena};
    if (!srv_admission_fits(req, order->bytes))
        return;
    srv_job_entry *job = srv_jobs_order(req, order);
    if (!job)
        return;
    attn_text_add(&location, "/v1/jobs/%s", srv_job_id(job));
    req->accept = SRV_ACCEPT_JSON; /* the description of a job is always JSON */
    if (srv_job_reply(req, job, 202) && !location.failed) {
        srv_reply_header(req, "Location", location.data);
        add_preference(req);
    }
    srv_jobs_release(job);
}

void srv_later_advise(srv_request *req) {
    if (req->reply.status == 504 && !req->is_job)
        srv_problem(req, SRV_DEADLINE, NULL,
                    "the deadline passed before the work was done: send the header \"Prefer: "
                    "respond-async%s\", and a job does it",
                    req->respond_async ? ", wait=0" : "");
}

void srv_later_stored(srv_request *req) {
    srv_reply_set(req, 200, "application/json", "", 0);
}
