/* The routes of /v1/jobs: the list and the creation of jobs, and for each job its description,
 * deletion, events, result and pictures. The jobs themselves are in server/jobs. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/common/heatmap_object.h"
#include "api/common/later.h"
#include "api/common/listing.h"
#include "api/jobs/jobs_api.h"
#include "jobs/jobs.h"
#include "request/shared.h"
#include "wire/json_out.h"

bool srv_job_reply(srv_request *req, srv_job_entry *job, int status) {
    attn_json_text j;
    srv_json_begin(&j, req);
    srv_job_put(&j, job);
    if (!srv_json_end(&j))
        return false;
    req->reply.status = status;
    srv_reply_header(req, "Cache-Control", "no-store");
    return true;
}

srv_outcome srv_jobs_create(srv_request *req) {
    srv_job_body body;
    attn_text location = {.arena = req->arena};
    srv_job_defaults(&body);
    if (!srv_decode(req, srv_job_fields, &body))
        return SRV_DONE;
    srv_job_entry *job = srv_jobs_add(req, &body);
    if (!job)
        return SRV_DONE;
    attn_text_add(&location, "/v1/jobs/%s", srv_job_id(job));
    if (srv_job_reply(req, job, 202) && !location.failed)
        srv_reply_header(req, "Location", location.data);
    srv_jobs_release(job);
    return SRV_DONE;
}

srv_outcome srv_jobs_list(srv_request *req) {
    srv_listing listing;
    char next[SRV_JOB_ID + 1];
    if (req->in_place && srv_jobs_is_writing(req->app->jobs))
        return SRV_DEFER;
    if (!srv_listing_read(req, &listing))
        return SRV_DONE;
    attn_json_text j = srv_listing_begin(req, "jobs");
    if (!srv_jobs_put_page(&j, req, listing.after, (size_t)listing.limit, next))
        srv_problem(req, SRV_VALUE, "/after",
                    "the list has no job \"%.64s\" any longer: begin again without after",
                    listing.after);
    else
        srv_listing_end(&j, *next ? next : NULL);
    return SRV_DONE;
}

srv_outcome srv_jobs_describe(srv_request *req) {
    if (req->in_place && srv_jobs_is_writing(req->app->jobs))
        return SRV_DEFER;
    srv_job_entry *job = srv_jobs_hold(req, req->params[0]);
    if (job)
        srv_job_reply(req, job, 200);
    srv_jobs_release(job);
    return SRV_DONE;
}

srv_outcome srv_jobs_cancel(srv_request *req) {
    srv_job_entry *job = srv_jobs_hold(req, req->params[0]);
    bool ended;
    if (job && srv_jobs_end(req, job, &ended))
        srv_job_reply(req, job, 200);
    srv_jobs_release(job);
    return SRV_DONE;
}

srv_outcome srv_jobs_remove(srv_request *req) {
    srv_job_entry *job = srv_jobs_hold(req, req->params[0]);
    if (job && srv_jobs_delete(req, job))
        srv_reply_set(req, 204, NULL, "", 0);
    srv_jobs_release(job);
    return SRV_DONE;
}

/* Returns the number of the last event that the client has seen; 0: it has seen none. */
static uint64_t last_event_seen(const srv_request *req) {
    const char *text = req->last_event_id;
    return text && isdigit((unsigned char)*text) ? strtoull(text, NULL, 10) : 0;
}

srv_outcome srv_jobs_events(srv_request *req) {
    srv_job_entry *job = srv_jobs_hold(req, req->params[0]);
    if (!job)
        return SRV_DONE;
    srv_stream *stream = srv_job_follow(req, job, last_event_seen(req));
    if (stream) {
        srv_reply_set(req, 200, "text/event-stream", "", 0);
        req->reply.stream = stream;
    } else if (!req->reply.status) {
        srv_reply_set(req, 204, NULL, "", 0); /* after 204 a browser does not reconnect */
    }
    if (req->reply.status < 400)
        srv_reply_header(req, "Cache-Control", "no-store");
    srv_jobs_release(job);
    return SRV_DONE;
}

/* --- results and pictures of experiments --- */

srv_outcome srv_jobs_result(srv_request *req) {
    const bool text = req->accept == SRV_ACCEPT_TEXT;
    srv_job_entry *job = srv_jobs_hold(req, req->params[0]);
    const srv_piece *found = job ? srv_job_findings(req, job, text) : NULL;
    if (found)
        srv_reply_set(req, 200, text ? "text/plain; charset=utf-8" : "application/json",
                      found->data, found->size);
    srv_jobs_release(job);
    return SRV_DONE;
}

srv_outcome srv_jobs_picture(srv_request *req) {
    srv_job_entry *job = srv_jobs_hold(req, req->params[0]);
    const srv_piece *found = job ? srv_job_picture(req, job, req->params[1]) : NULL;
    srv_figure_input figure;
    srv_figure_init(&figure);
    if (found) {
        attn_text svg = {.data = (char *)(uintptr_t)found->data, .size = found->size};
        srv_figure_reply(req, &figure, &svg);
    }
    srv_jobs_release(job);
    return SRV_DONE;
}
