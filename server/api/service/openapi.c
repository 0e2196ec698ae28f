/* GET /openapi.json describes the interface as OpenAPI 3.1. The document is made from srv_routes[]
 * and the field tables, so it agrees with the router and the decoder. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "api/analyses/analyses_api.h"
#include "api/attention/attention_api.h"
#include "api/common/dry.h"
#include "api/common/heatmap_object.h"
#include "api/explanations/explanations_api.h"
#include "api/figures/figures_api.h"
#include "api/heads/heads_api.h"
#include "api/jobs/jobs_api.h"
#include "api/masks/masks_api.h"
#include "api/models/models_api.h"
#include "api/positions/positions_api.h"
#include "api/predictions/predictions_api.h"
#include "api/runs/runs_api.h"
#include "api/sequences/sequences_api.h"
#include "api/service/examples.h"
#include "api/service/openapi_parts.h"
#include "api/service/schema.h"
#include "api/service/service_api.h"
#include "api/vocabulary/vocabulary_api.h"
#include "jobs/jobs.h"
#include "request/shared.h"
#include "wire/infer.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Writes examples of the body of a route: worked examples or, if the route has none, the request of
 * answers.json. */
static void put_examples(attn_json_text *j, const srv_route *route) {
    enum { MOST_EXAMPLES = 3, MOST_BYTES = 1000 };
    int count = 0;
    for (const srv_file *f = srv_example_next(NULL); f && count < MOST_EXAMPLES;
         f = srv_example_next(f)) {
        srv_span title, request;
        if (!srv_example_case(f, route->path, &title, &request) || request.size > MOST_BYTES)
            continue;
        if (count++ == 0)
            attn_json_key_object(j, "examples");
        char name[64];
        srv_span id = srv_span_of(f, "id");
        snprintf(name, sizeof name, "%.*s", (int)id.size - 2, id.data + 1);
        attn_json_key_object(j, name);
        attn_json_key(j, "summary");
        attn_json_raw(j, title.data, title.size);
        attn_json_key(j, "value");
        attn_json_raw(j, request.data, request.size);
        attn_json_object_end(j);
    }
    if (count)
        attn_json_object_end(j);
    else
        srv_api_example(j, route, "request of");
}

/* --- the document --- */

/* The media types of answers besides JSON. */
static const struct {
    unsigned accept;
    const char *type;
    const char *schema; /* name of the schema of the type; NULL: none */
    bool text;          /* for types without a schema: the answer is text; false: binary data */
} media[] = {
    {SRV_ACCEPT_TEXT, "text/plain", NULL, true},
    {SRV_ACCEPT_SAFETENSORS, SRV_SAFETENSORS, "SafetensorsAnswer", false},
    {SRV_ACCEPT_NPY, SRV_NPY, "NpyAnswer", false},
    {SRV_ACCEPT_PNG, "image/png", "Picture", false},
    {SRV_ACCEPT_SVG, "image/svg+xml", NULL, true},
    {SRV_ACCEPT_CSV, "text/csv", NULL, true},
    {SRV_ACCEPT_OCTETS, SRV_OCTETS, NULL, false},
    {SRV_ACCEPT_HTML, "text/html", NULL, true},
};

static void put_text(attn_json_text *j, const char *type) {
    srv_api_raw(j, type, "{\"schema\":{\"type\":\"string\"}}");
}

static void put_binary(attn_json_text *j, const char *type) {
    srv_api_raw(j, type, "{\"schema\":{\"type\":\"string\",\"format\":\"binary\"}}");
}

/* Writes the schema and the example of an answer of the media type `type`. */
static void put_answered(attn_json_text *j, const srv_route *route, const char *type,
                         const char *schema) {
    attn_json_key_object(j, type);
    attn_json_key(j, "schema");
    srv_api_ref(j, "schemas", schema, "");
    srv_api_example(j, route, "answer of");
    attn_json_object_end(j);
}

/* Writes the schema of server-sent events. Its name is that of the answer's schema. If the route
 * also answers JSON, "Events" is appended to the name. */
static void put_events(attn_json_text *j, const srv_route *route) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", route->answer,
             route->produces & SRV_ACCEPT_JSON ? "Events" : "");
    if (route->produces & SRV_ACCEPT_JSON)
        srv_api_schema(j, "text/event-stream", name);
    else
        put_answered(j, route, "text/event-stream", name);
}

static void put_media(attn_json_text *j, const srv_route *route, size_t i) {
    if (route->produces == media[i].accept && media[i].text) /* the answer itself is text */
        put_answered(j, route, media[i].type, route->answer);
    else if (media[i].schema)
        srv_api_schema(j, media[i].type, media[i].schema);
    else
        (media[i].text ? put_text : put_binary)(j, media[i].type);
}

/* --- tags --- */

/* The tags of operations. A route has the tag of the first prefix with which its path begins. */
static const struct tag {
    const char *prefix, *name, *what;
} tags[] = {
    {"/v1/runs", "runs", "Stored runs: exact parts of matrices that are too large for one answer."},
    {"/v1/models", "models", "Models with attention: their weights, generation, vocabularies."},
    {"/v1/jobs", "jobs", "Training, experiments, and answers that take long."},
    {"/v1/examples", "examples", "Worked examples, which tests compare with the service."},
    {"/v1/lessons", "lessons", "Lessons about attention, which the page gives."},
    {"/v1/", "tensors", "Attention, masks, positions and measures of tensors in the request."},
    {"/problems", "problems", "The codes of errors, with their meaning and a remedy."},
    {"/v2", "Open Inference Protocol", "The protocol of KServe and Triton, version 2."},
    {"/", "service", "The service itself: its index, state, limits and metrics."},
};

static const struct tag *tag_of(const srv_route *route) {
    const struct tag *tag = tags;
    while (strncmp(route->path, tag->prefix, strlen(tag->prefix)) != 0)
        tag++;
    return tag;
}

static void put_tags(attn_json_text *j) {
    attn_json_key_array(j, "tags");
    for (size_t i = 0; i < COUNT(tags); i++) {
        attn_json_object(j);
        attn_json_key_string(j, "name", tags[i].name);
        attn_json_key_string(j, "description", tags[i].what);
        attn_json_object_end(j);
    }
    attn_json_array_end(j);
}

/* --- operations --- */

/* Returns the method of a route in lower case. */
static const char *verb(const srv_route *route) {
    return *route->method == 'G' ? "get" : *route->method == 'P' ? "post" : "delete";
}

/* Writes the operation's id, such as "operationId": "post_v1_attention". */
static void put_id(attn_json_text *j, const srv_route *route) {
    char id[96];
    size_t n = (size_t)snprintf(id, sizeof id, "%s", verb(route));
    for (const char *p = route->path; *p && n < sizeof id - 1; p++)
        if (isalnum((unsigned char)*p))
            id[n++] = *p;
        else if (id[n - 1] != '_')
            id[n++] = '_';
    while (n > 0 && id[n - 1] == '_')
        n--;
    id[n] = '\0';
    attn_json_key_string(j, "operationId", id);
}

/* Returns whether a field of the body is a tensor, so that the route takes npy. */
static bool has_tensor(const srv_route *route) {
    const srv_field *f = route->fields;
    while (f && f->name && f->kind != SRV_TENSOR)
        f++;
    return f && f->name;
}

/* Returns whether requests to the route must have a body. */
static bool needs_body(const srv_route *route) {
    return route->fields || srv_api_infers(route);
}

/* Returns whether a route reads a body: the routes that need a body do, and the index of /v2 models
 * reads an optional body. Other routes without fields, such as cancel, read no body. */
static bool takes_body(const srv_route *route) {
    return needs_body(route) || strcmp(route->answer, "V2Index") == 0;
}

static void put_body(attn_json_text *j, const srv_route *route) {
    if (strcmp(route->method, "POST") != 0 || !takes_body(route))
        return;
    attn_json_key_object(j, "requestBody");
    attn_json_key_bool(j, "required", needs_body(route));
    attn_json_key_object(j, "content");
    attn_json_key_object(j, "application/json");
    attn_json_key(j, "schema");
    srv_api_ref(j, "schemas", route->answer, "Request");
    put_examples(j, route);
    attn_json_object_end(j);
    if (route->intake) {
        put_binary(j, SRV_SAFETENSORS);
        put_binary(j, SRV_OCTETS);
    } else if (route->fields) {
        srv_api_schema(j, SRV_SAFETENSORS, "SafetensorsBody");
        srv_api_schema(j, SRV_NPZ, "NpzBody");
    }
    if (has_tensor(route))
        srv_api_schema(j, SRV_NPY, "NpyBody");
    if (srv_api_infers(route))
        put_binary(j, "application/octet-stream");
    attn_json_object_end(j);
    attn_json_object_end(j);
}

/* Writes the answer 204, which has no body. */
static void put_empty(attn_json_text *j, const char *what, const char *const *headers) {
    attn_json_key_object(j, "204");
    attn_json_key_string(j, "description", what);
    srv_api_headers(j, headers);
    attn_json_object_end(j);
}

static const char *const empty_headers[] = {"Server-Timing", "Cache-Control", NULL};
static const char *const tile_headers[] = {"Server-Timing",
                                           "Cache-Control",
                                           "Vary",
                                           "ETag",
                                           "X-Tile-Shape",
                                           "X-Tile-Max-Range",
                                           "X-Tile-Mean-Range",
                                           "X-Tile-Hidden",
                                           "X-Tile-Pooling",
                                           "X-Tile-Encoding",
                                           NULL};

/* Writes the answer with status 202, which describes a job. */
static void put_later(attn_json_text *j, const char *what) {
    static const char *const headers[] = {"Server-Timing", "Cache-Control",      "Vary",
                                          "Location",      "Preference-Applied", NULL};
    attn_json_key_object(j, "202");
    attn_json_key_string(j, "description", what);
    srv_api_headers(j, headers);
    attn_json_key_object(j, "content");
    srv_api_schema(j, "application/json", "Job");
    attn_json_object_end(j);
    attn_json_object_end(j);
}

/* Returns whether the body has a field that stores a run. */
static bool stores(const srv_route *route) {
    const srv_field *f = route->fields;
    while (f && f->name && strcmp(f->name, "store") != 0)
        f++;
    return f && f->name;
}

static void put_headers(attn_json_text *j, const srv_route *route, bool infer) {
    const char *headers[] = {"Server-Timing", "Cache-Control", "Vary", NULL, NULL, NULL};
    size_t count = 3;
    const char *own = strcmp(route->method, "GET") == 0 ? "ETag"
                      : srv_route_creates(route)        ? "Location"
                      : infer                           ? "Inference-Header-Content-Length"
                      : stores(route)                   ? "X-Run-Id"
                                                        : NULL;
    if (own)
        headers[count++] = own;
    if (route->produces & SRV_ACCEPT_PNG)
        headers[count] = "X-Warning";
    srv_api_headers(j, headers);
}

static void put_answer(attn_json_text *j, const srv_route *route) {
    const bool later = srv_route_goes_on(route);
    if (strcmp(route->method, "DELETE") == 0) {
        put_empty(j, "It is gone.", empty_headers);
        return;
    }
    attn_json_key_object(j, later ? "202" : srv_route_creates(route) ? "201" : "200");
    attn_json_key_string(j, "description", route->summary);
    const bool infer = srv_api_infers(route);
    if (route->produces & SRV_ACCEPT_OCTETS)
        srv_api_headers(j, tile_headers);
    else
        put_headers(j, route, infer);
    attn_json_key_object(j, "content");
    if (route->produces & SRV_ACCEPT_JSON)
        put_answered(j, route, "application/json", route->answer);
    for (size_t i = 0; i < COUNT(media); i++)
        if (route->produces & media[i].accept)
            put_media(j, route, i);
    if (route->produces & SRV_ACCEPT_EVENTS)
        put_events(j, route);
    if (infer)
        put_binary(j, "application/octet-stream");
    attn_json_object_end(j);
    attn_json_object_end(j);
    if (srv_route_looks(route))
        put_later(j, "A job computes the answer, as Prefer: respond-async asks.");
    if (srv_route_stores_later(route))
        put_later(j, "A job stores the run, as Prefer: respond-async asks.");
    if (route->produces & SRV_ACCEPT_EVENTS)
        put_empty(j, "It has ended, and there is nothing new.", empty_headers);
    if (route->produces & SRV_ACCEPT_OCTETS)
        put_empty(j, "There is nothing visible in it.", tile_headers);
}

/* Writes the security of an operation. If API keys are configured (`keys`), the operation needs an
 * API key, and some operations need a key with the right "admin". An operation on a run may accept
 * the read token of the run instead. If no API keys are configured, a key is optional, and runs
 * have no tokens. */
static void put_security(attn_json_text *j, const srv_route *route, bool keys) {
    static const char any[] = "[{\"key\":[]}]", token[] = "[{\"key\":[]},{\"read_token\":[]}]",
                      admin[] = "[{\"key\":[\"admin\"]}]", optional[] = "[{},{\"key\":[]}]",
                      none[] = "[]";
    const char *text = route->access == SRV_OPEN    ? none
                       : !keys                      ? optional
                       : route->takes_token         ? token
                       : route->access == SRV_ADMIN ? admin
                                                    : any;
    srv_api_raw(j, "security", text);
}

static void put_operation(attn_json_text *j, const srv_route *route, bool keys) {
    attn_json_key_object(j, verb(route));
    put_id(j, route);
    attn_json_key_array(j, "tags");
    attn_json_string(j, tag_of(route)->name);
    attn_json_array_end(j);
    attn_json_key_string(j, "summary", route->summary);
    attn_json_key_string(j, "description", route->description);
    put_security(j, route, keys);
    srv_api_parameters(j, route);
    put_body(j, route);
    attn_json_key_object(j, "responses");
    put_answer(j, route);
    srv_api_refusals(j, route);
    attn_json_object_end(j);
    attn_json_object_end(j);
}

/* Writes each path once, with the operations of all rows that have this path. */
static void put_paths(attn_json_text *j, bool keys) {
    attn_json_key_object(j, "paths");
    for (const srv_route *r = srv_routes; r->method; r++) {
        bool first = srv_route_is_listed(r);
        for (const srv_route *q = srv_routes; q < r; q++)
            first = first && strcmp(q->path, r->path) != 0;
        if (!first)
            continue;
        attn_json_key_object(j, r->path);
        for (const srv_route *q = r; q->method; q++)
            if (strcmp(q->path, r->path) == 0)
                put_operation(j, q, keys);
        attn_json_object_end(j);
    }
    attn_json_object_end(j);
}

/* The schema tables of answers. Each table is in the room that writes these answers. */
static const srv_field *const answers[] = {
    srv_infer_answers,
    srv_health_answers,
    srv_v2_answers,
    srv_curve_answers,
    srv_positions_answers,
    srv_masks_answers,
    srv_service_answers,
    srv_example_answers,
    srv_lesson_answers,
    srv_problem_answers,
    srv_warning_answers,
    srv_dry_answers,
    srv_label_answers,
    srv_heat_answers,
    srv_job_answers,
    srv_job_event_answers,
    srv_jobs_answers,
    srv_attention_answers,
    srv_run_answers,
    srv_run_weights_answers,
    srv_run_top_answers,
    srv_run_atlas_answers,
    srv_run_rollout_answers,
    srv_run_what_if_answers,
    srv_run_heads_answers,
    srv_analysis_answers,
    srv_analyses_answers,
    srv_models_answers,
    srv_sequence_answers,
    srv_vocabulary_answers,
    srv_models_step_answers,
    srv_predictions_answers,
    srv_models_generation_answers,
    srv_models_explain_answers,
    srv_models_attention_answers,
    srv_heads_answers,
};

static void put_components(attn_json_text *j, bool keys) {
    attn_json_key_object(j, "components");
    attn_json_key_object(j, "schemas");
    for (const srv_route *r = srv_routes; r->method; r++) {
        char name[64];
        if (!r->fields || strcmp(r->method, "POST") != 0)
            continue; /* the fields of a query string are parameters, not a body */
        snprintf(name, sizeof name, "%sRequest", r->answer);
        attn_json_key(j, name);
        srv_schema_body(j, r->fields);
    }
    srv_schema_components(j);
    for (size_t i = 0; i < COUNT(answers); i++)
        srv_schema_answers(j, answers[i]);
    attn_json_object_end(j);
    srv_api_shared(j, keys);
    attn_json_object_end(j);
}

/* Writes the address of the service as the client sees it, because generated clients use this
 * address unchanged. It is made from the Host header of the request. Behind a proxy, paths may have
 * a prefix that the service does not know. The address is then relative to the address of the
 * document. */
static void put_servers(attn_json_text *j) {
    const srv_request *req = srv_json_request(j);
    char address[300] = ".";
    const char *host = srv_example_host(req);
    if (!req->forwarded && strlen(host) < sizeof address - 10)
        snprintf(address, sizeof address, "http%s://%s", req->secure ? "s" : "", host);
    attn_json_key_array(j, "servers");
    attn_json_object(j);
    attn_json_key_string(j, "url", address);
    attn_json_object_end(j);
    attn_json_array_end(j);
}

/* Runs on a request thread, because it takes tens of milliseconds to write and compress the
 * document. */
srv_outcome srv_openapi(srv_request *req) {
    const bool keys = req->app->keys != NULL;
    attn_json_text j = srv_json_object(req);
    attn_json_key_string(&j, "openapi", "3.1.0");
    attn_json_key_object(&j, "info");
    attn_json_key_string(&j, "title", "attnd");
    attn_json_key_string(&j, "version", attn_version());
    attn_json_key_string(&j, "summary", "Attention outputs, exact weights and heatmaps");
    attn_json_key_string(
        &j, "description",
        "Dot-product attention over tensors that the caller sends. Every error is an "
        "application/problem+json; a null field counts as absent. Equal requests have equal "
        "answers. Each path with GET answers HEAD too, and OPTIONS with its methods in Allow.");
    attn_json_object_end(&j);
    put_servers(&j);
    put_tags(&j);
    put_paths(&j, keys);
    put_components(&j, keys);
    srv_json_object_end(&j);
    return SRV_DONE;
}
