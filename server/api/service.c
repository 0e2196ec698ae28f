/* What the service says of itself: health, readiness, version and limits, metrics. Nothing here may
 * wait for a lock that work holds, since these answer under any load. */
#include <string.h>

#include "api/handlers.h"
#include "jobs/jobs.h"
#include "load/budget.h"
#include "load/queue.h"
#include "request/shared.h"
#include "store/runs.h"
#include "system/host.h"
#include "wire/json_out.h"

static srv_outcome say(srv_request *req, const char *json, const char *text) {
    bool plain = req->accept == SRV_ACCEPT_TEXT;
    const char *body = plain ? text : json;
    srv_reply_set(req, 200, plain ? "text/plain; charset=utf-8" : "application/json", body,
                  strlen(body));
    srv_reply_header(req, "Cache-Control", "no-store");
    return SRV_DONE;
}

srv_outcome srv_healthz(srv_request *req) {
    return say(req, "{\"status\":\"ok\"}\n", "ok\n");
}

srv_outcome srv_readyz(srv_request *req) {
    if (!atomic_load_explicit(&req->app->draining, memory_order_relaxed))
        return say(req, "{\"status\":\"ready\"}\n", "ready\n");
    srv_problem(req, SRV_DRAINING, NULL, "the server is shutting down");
    return SRV_DONE;
}

static void put_kernels(srv_json *j) {
    srv_json_key(j, "kernels");
    srv_json_object(j);
    srv_json_key(j, "table");
    srv_json_string(j, attn_isa_name(attn_isa_current()));
    srv_json_key(j, "reason");
    srv_json_string(j, attn_isa_reason());
    if (attn_isa_tiles()) {
        srv_json_key(j, "amx");
        srv_json_string(j, attn_isa_tiles());
    }
    srv_json_key(j, "available");
    srv_json_array(j);
    for (int isa = 0; isa < ATTN_ISA_COUNT; isa++)
        if (attn_isa_available((attn_isa)isa))
            srv_json_string(j, attn_isa_name((attn_isa)isa));
    srv_json_array_end(j);
    srv_json_object_end(j);
}

/* Numbers by the names of the settings that change them. */
static void put_limits(srv_json *j, const srv_config *config) {
    srv_json_key(j, "limits");
    srv_json_object(j);
    for (const srv_setting *row = srv_settings; row->key; row++) {
        if (!row->limit)
            continue;
        srv_json_key(j, row->key);
        if (row->kind == SRV_SET_BOOL)
            srv_json_bool(j, srv_setting_number(config, row) != 0);
        else
            srv_json_real(j, srv_setting_number(config, row));
    }
    srv_json_object_end(j);
}

srv_outcome srv_version(srv_request *req) {
    const srv_app *app = req->app;
    srv_json j;
    srv_json_begin(&j, req);
    srv_json_object(&j);
    srv_json_key(&j, "name");
    srv_json_string(&j, "attnd");
    srv_json_key(&j, "version");
    srv_json_string(&j, attn_version());
    put_kernels(&j);
    put_limits(&j, app->config);
    srv_json_key(&j, "features");
    srv_json_object(&j);
    srv_json_key(&j, "cors");
    srv_json_bool(&j, app->config->cors_origins.count > 0);
    srv_json_key(&j, "keys");
    srv_json_bool(&j, app->keys != NULL);
    srv_json_key(&j, "tls");
    srv_json_bool(&j, app->tls != NULL);
    srv_json_key(&j, "operations_port");
    srv_json_bool(&j, *app->config->ops_listen != 0);
    srv_json_object_end(&j);
    srv_json_object_end(&j);
    if (srv_json_end(&j))
        srv_reply_header(req, "Cache-Control", "no-store");
    return SRV_DONE;
}

srv_outcome srv_metrics(srv_request *req) {
    const srv_app *app = req->app;
    attn_text text = {.arena = req->arena};
    srv_runs_state runs;
    srv_jobs_now jobs;
    srv_runs_look(app->runs, &runs);
    const srv_queue_long longs = srv_queue_count_long(app->queue);
    srv_jobs_look(app->jobs, &jobs);
    srv_gauges now = {
        .queue_waiting = srv_queue_waiting(app->queue),
        .queue_running = srv_queue_running(app->queue),
        .long_waiting = longs.waiting,
        .long_running = longs.running,
        .long_threads = longs.most,
        .long_put_back = longs.put_back,
        .newest_first = srv_queue_is_standing(app->queue),
        .queue_length = (size_t)app->config->queue_length,
        .memory_used = srv_budget_used(),
        .memory_budget = srv_budget_total(),
        .runs = runs.count,
        .runs_bytes = runs.bytes,
        .runs_stored = runs.stored,
        .runs_evicted = runs.evicted,
        .runs_expired = runs.expired,
        .jobs_bytes = jobs.reserved,
        .job_states = srv_job_states,
        .resident_bytes = srv_host_resident(),
        .open_files = srv_host_open_files(),
        .isa = attn_isa_name(attn_isa_current()),
        .log_dropped = srv_log_dropped(app->log),
        .certificate_until = atomic_load(&app->certificate_until),
    };
    _Static_assert(SRV_GAUGE_JOBS == (int)SRV_JOB_STATES, "a gauge a state");
    memcpy(now.jobs, jobs.states, sizeof now.jobs);
    srv_meters_print(app->meters, &now, &text);
    if (text.failed) {
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for the metrics is left");
        return SRV_DONE;
    }
    srv_reply_set(req, 200, "text/plain; version=0.0.4; charset=utf-8", text.data, text.size);
    srv_reply_header(req, "Cache-Control", "no-store");
    return SRV_DONE;
}
