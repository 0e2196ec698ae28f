/* Information about the service: the index of routes and examples, the version with limits, and
 * metrics. These handlers run on the HTTP thread and only take locks that are held for a short
 * time, so they answer under any load. */
#include <math.h>
#include <string.h>

#include "api/common/route.h"
#include "api/common/text_reply.h"
#include "api/service/examples.h"
#include "api/service/service_api.h"
#include "jobs/jobs.h"
#include "load/admission.h"
#include "load/budget.h"
#include "load/queue.h"
#include "request/shared.h"
#include "store/model_registry.h"
#include "store/runs.h"
#include "system/host.h"
#include "wire/json_out.h"

/* The answer of GET /version. */
typedef struct version_answer {
    const srv_app *app;
    const char *name, *version, *table, *reason;
    const char *amx; /* how the kernels compute tile products; NULL: they use none */
    bool cors, keys, tls, operations_port;
} version_answer;

static void put_available(attn_json_text *j, const void *answer) {
    (void)answer;
    attn_json_array(j);
    for (int isa = 0; isa < ATTN_ISA_COUNT; isa++)
        if (attn_isa_available((attn_isa)isa))
            attn_json_string(j, attn_isa_name((attn_isa)isa));
    attn_json_array_end(j);
}

/* Returns the limit that follows from the setting of `row`. For max_body_bytes, the limit may be
 * less than the setting, because a body must also fit into the memory for all bodies. */
static double limit_of(const srv_app *app, const srv_setting *row) {
    const double set = srv_setting_number(app->config, row);
    if (row->offset != offsetof(srv_config, max_body_bytes))
        return set;
    return fmin(set, (double)srv_admission_largest(app->admission));
}

/* Writes the limits under the names of their settings. */
static void put_limits(attn_json_text *j, const void *answer) {
    const srv_app *app = ((const version_answer *)answer)->app;
    attn_json_object(j);
    for (const srv_setting *row = srv_settings; row->key; row++) {
        if (!srv_setting_is_limit(row))
            continue;
        attn_json_key(j, row->key);
        if (row->kind == SRV_SET_BOOL)
            attn_json_bool(j, limit_of(app, row) != 0);
        else
            attn_json_real(j, limit_of(app, row));
    }
    attn_json_object_end(j);
}

static const char *const service_name[] = {"attnd", NULL};
static const char *const tile_words[] = {"native", "emulated", NULL};

static const srv_field kernel_rows[] = {
    SRV_ALWAYS("table", SRV_STRING, version_answer, table, "The kernel table in use."),
    SRV_ALWAYS("reason", SRV_STRING, version_answer, reason, "Why it is in use."),
    SRV_IF_KNOWN("amx", SRV_STRING, version_answer, amx, "How tile products are computed.",
                 .choices = tile_words),
    SRV_WRITTEN("available", "[string]", put_available, "The tables that this processor supports.",
                .always = true),
    {0},
};

static const srv_field feature_rows[] = {
    SRV_ALWAYS("cors", SRV_BOOL, version_answer, cors, "Pages of other origins may ask."),
    SRV_ALWAYS("keys", SRV_BOOL, version_answer, keys, "Requests need an API key."),
    SRV_ALWAYS("tls", SRV_BOOL, version_answer, tls, "Connections are encrypted."),
    SRV_ALWAYS("operations_port", SRV_BOOL, version_answer, operations_port,
               "There is a port for health, metrics and the version."),
    {0},
};

static const srv_field version_rows[] = {
    SRV_ALWAYS("name", SRV_STRING, version_answer, name, "The name of the service.",
               .choices = service_name),
    SRV_ALWAYS("version", SRV_STRING, version_answer, version, "Its version."),
    SRV_GROUP("kernels", kernel_rows,
              "The kernel table in use, the reason for it, and the tables that this processor "
              "supports. With amx it tells whether tile products are native or emulated.",
              .accepts = SRV_O_OPEN, .always = true),
    SRV_WRITTEN("limits", "{number|boolean}", put_limits,
                "Limits by the names of the settings that change them. max_body_bytes is the size "
                "that a body may really have: at most half of memory_bytes.",
                .always = true),
    SRV_GROUP("features", feature_rows, "What is switched on.", .type = "{boolean}",
              .always = true),
    {0},
};

srv_outcome srv_version(srv_request *req) {
    const srv_app *app = req->app;
    const version_answer answer = {.app = app,
                                   .name = "attnd",
                                   .version = attn_version(),
                                   .table = attn_isa_name(attn_isa_current()),
                                   .reason = attn_isa_reason(),
                                   .amx = attn_isa_tiles(),
                                   .cors = app->config->cors_origins.count > 0,
                                   .keys = app->keys != NULL,
                                   .tls = app->tls != NULL,
                                   .operations_port = *app->config->ops_listen != 0};
    if (srv_answer_reply(req, version_rows, &answer))
        srv_reply_header(req, "Cache-Control", "no-store");
    return SRV_DONE;
}

srv_outcome srv_metrics(srv_request *req) {
    const srv_app *app = req->app;
    attn_text text = {.arena = req->arena};
    srv_runs_state runs;
    srv_jobs_now jobs;
    srv_runs_look(app->runs, &runs);
    const srv_queue_state queue = srv_queue_look(app->queue);
    srv_jobs_look(app->jobs, &jobs);
    srv_gauges now = {
        .queue_waiting = queue.waiting,
        .queue_running = queue.running,
        .long_waiting = queue.long_waiting,
        .long_running = queue.long_running,
        .long_threads = queue.long_threads,
        .long_put_back = queue.put_back,
        .newest_first = queue.standing,
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
        .most_files = srv_host_most_files(),
        .isa = attn_isa_name(attn_isa_current()),
        .log_dropped = srv_log_dropped(app->log),
        .stale = atomic_load(&app->stale) != 0,
        .reloaded = atomic_load(&app->reloaded),
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

/* --- GET /: the routes and the examples, as JSON or as text for a terminal --- */

static const char *first_request(const srv_request *req) {
    attn_text t = {.arena = req->arena};
    attn_text_add(
        &t,
        "curl %s%s/v1/attention -d '{\"query\":[[1,0,0],[0,1,0]],\"key\":[[1,2,3],[4,5,6]],"
        "\"value\":[[0,1,0],[1,0,1]],\"is_causal\":true}'",
        req->secure ? "https://" : "", srv_example_host(req));
    return t.failed ? "" : t.data;
}

static void index_text(srv_request *req) {
    attn_text t = srv_text_begin(req);
    attn_text_add(&t, "attnd %s: attention outputs, exact weights and heatmaps over HTTP\n\n",
                  attn_version());
    attn_text_add(&t, "Try:\n  %s\n  (with -H 'Accept: text/plain' the answer is for reading)\n\n",
                  first_request(req));
    attn_text_add(&t, "Routes:\n");
    for (const srv_route *r = srv_routes; r->method; r++)
        if (srv_route_is_listed(r))
            attn_text_add(&t, "  %-4s %-20s %s\n", r->method, r->path, r->summary);
    attn_text_add(&t, "\nExamples:\n");
    srv_examples_text(&t, "  ", 36);
    srv_text_end(req, &t);
}

/* The answer of GET / as JSON. */
typedef struct index_answer {
    const char *service, *version, *openapi, *first;
} index_answer;

static const srv_field route_rows[] = {
    SRV_ALWAYS("method", SRV_STRING, srv_route, method, "The method."),
    SRV_ALWAYS("path", SRV_STRING, srv_route, path, "The path."),
    SRV_ALWAYS("summary", SRV_STRING, srv_route, summary, "What the route answers."),
    {0},
};

static void put_routes(attn_json_text *j, const void *answer) {
    (void)answer;
    attn_json_array(j);
    for (const srv_route *r = srv_routes; r->method; r++)
        if (srv_route_is_listed(r))
            srv_answer_object(j, route_rows, r);
    attn_json_array_end(j);
}

static const srv_field index_rows[] = {
    SRV_ALWAYS("service", SRV_STRING, index_answer, service, "The name of the service.",
               .choices = service_name),
    SRV_ALWAYS("version", SRV_STRING, index_answer, version, "Its version."),
    SRV_ALWAYS("openapi", SRV_STRING, index_answer, openapi, "The path of this description."),
    SRV_IF_KNOWN("try", SRV_STRING, index_answer, first, "A first request, for a shell."),
    SRV_WRITTEN("routes", "[*]", put_routes, "Method, path and summary of each route.",
                .fields = route_rows, .accepts = SRV_O_OPEN, .always = true),
    SRV_WRITTEN("examples", "[ExampleEntry]", srv_examples_put, "The worked examples.",
                .always = true),
    {0},
};

const srv_field srv_service_answers[] = {
    SRV_GROUP("Index", index_rows, NULL, .accepts = SRV_O_OPEN),
    SRV_GROUP("Version", version_rows, NULL, .accepts = SRV_O_OPEN),
    {0},
};

srv_outcome srv_index(srv_request *req) {
    if (srv_reads_text(req))
        index_text(req);
    else
        srv_answer_reply(
            req, index_rows,
            &(index_answer){"attnd", attn_version(), "/openapi.json", first_request(req)});
    return SRV_DONE;
}
