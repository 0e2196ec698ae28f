/* The service in a web page: routes without a socket. JavaScript writes a request into the memory
 * of this module, calls attn_ask, and reads the reply. Requests are answered one after the other,
 * on the page's own thread or that of a worker, with one worker in the pool and the table `ref`.
 *
 * A browser has no files, threads, TLS or libraries that draw PNGs, so these are absent
 * (absent.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/common/dry.h"
#include "api/common/route.h"
#include "http/negotiate.h"
#include "http/router.h"
#include "load/admission.h"
#include "load/budget.h"
#include "request/shared.h"
#include "request/stream.h"
#include "store/model_registry.h"
#include "store/run_maps.h"
#include "store/runs.h"

#define EXPORT(name) __attribute__((export_name(#name)))

/* The largest memory that the service uses. A browser gives a page at most 4 GiB. */
#define MEMORY "1GiB"

/* A request, filled in by JavaScript: NUL-terminated texts, and a body of body_size bytes followed
 * by a NUL. */
typedef struct question {
    const char *method, *path, *query, *type, *accept, *body;
    size_t body_size;
} question;

/* A reply, valid until the next attn_ask. `headers` has lines "Name: value\n". */
typedef struct answer {
    int status;
    const char *type, *headers, *body;
    size_t body_size;
} answer;

static srv_app app;
static srv_config config;
static srv_router router;
static attn_arena *arena; /* arena of the last request, which holds its reply */
static atomic_uint_fast64_t asked;

EXPORT(attn_take) void *attn_take(size_t bytes) {
    return malloc(bytes);
}

EXPORT(attn_give) void attn_give(void *block) {
    free(block);
}

/* Starts the service. Returns whether it could. */
EXPORT(attn_open) bool attn_open(void) {
    srv_config_error err;
    if (!srv_config_init(&config, &err) ||
        !srv_config_set(&config, "memory_bytes", MEMORY, "page", &err) ||
        !srv_config_set(&config, "workers", "1", "page", &err) ||
        !srv_config_set(&config, "log", "off", "page", &err) ||
        !srv_config_resolve(&config, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    app.config = &config;
    srv_budget_start((size_t)config.memory_bytes);
    attn_block_limit((size_t)config.memory_bytes);
    app.router = &router;
    app.log = srv_log_new(false, SRV_LOG_ERROR);
    for (size_t i = 0; i < SRV_CODE_COUNT; i++)
        app.problem_names[i] = srv_code_name((srv_code)i);
    if (!srv_router_init(&router, srv_routes))
        return false;
    app.meters = srv_meters_new(router.labels, router.label_count, app.problem_names);
    app.predictor = srv_predictor_new();
    app.admission = srv_admission_new(&config);
    app.pool = attn_pool_new(1);
    app.maps = srv_maps_new((size_t)config.memory_bytes / 8);
    return app.log && app.meters && app.predictor && app.admission && app.pool && app.maps &&
           !srv_runs_open(&app.runs, &config) && !srv_models_open(&app.models, &config, app.log);
}

/* Finds the row of the request and runs its handler. */
static void answer_request(srv_request *req, const char *accept) {
    srv_match match;
    char *params = attn_arena_small(req->arena, strlen(req->path) + 1);
    char types[256];
    if (!params) {
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for the request is left");
        return;
    }
    srv_router_find(&router, req->method, req->path, params, &match);
    if (!match.route) {
        srv_problem(req, match.label == router.label_count ? SRV_NOT_FOUND : SRV_METHOD, NULL,
                    "the service in this page does not answer this path");
        return;
    }
    memcpy(req->params, match.params, sizeof req->params);
    req->route = match.label;
    req->only_400 = match.route->open_inference;
    req->accept = srv_accept_choose(accept, match.route->produces);
    if (!req->accept && match.route->produces)
        srv_problem(req, SRV_NOT_ACCEPTABLE, NULL, "this path answers with %s",
                    srv_accept_names(match.route->produces, types, sizeof types));
    else if (match.route->intake || !strncmp(req->path, "/v1/jobs", 8))
        srv_problem(req, SRV_BAD_REQUEST, NULL, "the service in this page has no %s",
                    match.route->intake ? "uploads" : "jobs");
    else if (match.route->run(req) == SRV_DEFER || !req->reply.status)
        srv_problem(req, SRV_INTERNAL, NULL, "the request was not answered");
}

/* Joins the parts of the body of the reply in `out`. */
static void join_body(const srv_reply *reply, attn_text *out) {
    for (size_t i = 0; i < reply->piece_count; i++)
        attn_text_bytes(out, reply->pieces[i].data, reply->pieces[i].size);
    if (!reply->stream)
        return;
    char block[4096];
    for (long n; (n = reply->stream->read(reply->stream, block, sizeof block)) > 0;)
        attn_text_bytes(out, block, (size_t)n);
    reply->stream->close(reply->stream);
}

EXPORT(attn_ask) const answer *attn_ask(const question *q) {
    static answer out;
    static char id[24];
    attn_arena_free(arena);
    arena = attn_arena_new((size_t)config.max_request_bytes);
    snprintf(id, sizeof id, "page-%llu", (unsigned long long)atomic_fetch_add(&asked, 1));
    srv_request req = {
        .app = &app,
        .arena = arena,
        .method = q->method,
        .path = q->path,
        .query = q->query,
        .content_type = q->type,
        .body = q->body,
        .body_size = q->body_size,
        .id = id,
        .wait_s = -1,
        .admin = true,
        .start_ns = attn_now_ns(),
    };
    if (!arena)
        return NULL;
    req.control.cancel = &req.cancel;
    req.control.deadline_ns = req.start_ns + config.request_timeout_ms * 1000000;
    answer_request(&req, q->accept);
    attn_text headers = {.arena = arena}, body = {.arena = arena};
    for (size_t i = 0; i < req.reply.header_count; i++)
        attn_text_add(&headers, "%s: %s\n", req.reply.headers[i].name, req.reply.headers[i].value);
    out = (answer){req.reply.status, req.reply.type, headers.data, req.reply.body, req.reply.size};
    if (req.reply.pieces || req.reply.stream) {
        join_body(&req.reply, &body);
        out.body = body.data;
        out.body_size = body.size;
    }
    return &out;
}
