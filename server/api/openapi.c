/* GET /openapi.json: the interface as OpenAPI 3.1, made from srv_routes[] and the field tables each
 * time it is asked for, so that it cannot differ from what the router and the decoder do. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "handlers.h"
#include "plain.h"
#include "route.h"
#include "schema.h"

/* When a status may be answered. */
enum { ALWAYS = 1, WITH_BODY = 2, WITH_ID = 4, WITH_FIELDS = 8 };

typedef struct problem_kind {
    int status;
    unsigned when;
    const char *name, *what, *header;
} problem_kind;

static const problem_kind problems[] = {
    {400, ALWAYS, "Malformed", "Malformed: the body is not JSON, or the framing is broken.", NULL},
    {404, WITH_ID, "NotFound", "There is no such thing.", NULL},
    {406, ALWAYS, "NotAcceptable", "None of the accepted media types can be produced.", NULL},
    {408, WITH_BODY, "Timeout", "The request took too long to arrive.", NULL},
    {411, WITH_BODY, "LengthRequired", "Content-Length is needed.", NULL},
    {413, WITH_BODY, "TooLarge", "Larger than a limit, which limit names.", NULL},
    {415, WITH_BODY, "MediaType", "The media type or content coding is not supported.", NULL},
    {417, WITH_BODY, "Expectation", "The expectation cannot be met.", NULL},
    {422, WITH_FIELDS, "Meaningless", "Well-formed but meaningless; pointer says where.", NULL},
    {501, WITH_BODY, "Unsupported", "Not supported by this server.", NULL},
    {503, ALWAYS, "Unavailable", "The queue is full, memory is short, or the service shuts down.",
     "Retry-After"},
    {504, WITH_BODY, "Deadline", "The deadline passed.", NULL},
};

#define PROBLEM_COUNT (sizeof problems / sizeof problems[0])

static void put(srv_json *j, const char *key, const char *text) {
    srv_json_key(j, key);
    srv_json_string(j, text);
}

static void put_ref(srv_json *j, const char *kind, const char *name, const char *suffix) {
    char ref[96];
    snprintf(ref, sizeof ref, "#/components/%s/%s%s", kind, name, suffix);
    srv_json_object(j);
    put(j, "$ref", ref);
    srv_json_object_end(j);
}

/* "application/json": {"schema": {"$ref": …}} */
static void put_media(srv_json *j, const char *type, const char *schema, const char *suffix) {
    srv_json_key(j, type);
    srv_json_object(j);
    srv_json_key(j, "schema");
    if (schema)
        put_ref(j, "schemas", schema, suffix);
    else
        srv_json_raw(j, "{\"type\":\"string\"}", 17);
    srv_json_object_end(j);
}

/* Bytes: what is in them no schema says. */
static void put_binary(srv_json *j, const char *type) {
    srv_json_key(j, type);
    srv_json_raw(j, "{}", 2);
}

static void put_headers(srv_json *j, const char *header) {
    srv_json_key(j, "headers");
    srv_json_object(j);
    srv_json_key(j, "X-Request-Id");
    put_ref(j, "headers", "X-Request-Id", "");
    if (header) {
        srv_json_key(j, header);
        put_ref(j, "headers", header, "");
    }
    srv_json_object_end(j);
}

/* post_v1_attention, get_v1_examples_id */
static void put_id(srv_json *j, const srv_route *route) {
    char id[96];
    size_t n = 0;
    for (const char *p = route->method; *p && n < sizeof id - 1; p++)
        id[n++] = (char)tolower((unsigned char)*p);
    for (const char *p = route->path; *p && n < sizeof id - 1; p++)
        if (isalnum((unsigned char)*p))
            id[n++] = *p;
        else if (id[n - 1] != '_')
            id[n++] = '_';
    while (n > 0 && id[n - 1] == '_')
        n--;
    id[n] = '\0';
    put(j, "operationId", id);
}

/* Names in {} of the path. */
static void put_parameters(srv_json *j, const srv_route *route) {
    srv_json_key(j, "parameters");
    srv_json_array(j);
    put_ref(j, "parameters", "X-Request-Id", "");
    for (const char *p = strchr(route->path, '{'); p; p = strchr(p + 1, '{')) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p + 1, "}"), p + 1);
        srv_json_object(j);
        put(j, "name", name);
        put(j, "in", "path");
        srv_json_key(j, "required");
        srv_json_bool(j, true);
        srv_json_key(j, "schema");
        srv_json_raw(j, "{\"type\":\"string\"}", 17);
        srv_json_object_end(j);
    }
    srv_json_array_end(j);
}

static void put_body(srv_json *j, const srv_route *route) {
    bool open = !route->fields && strcmp(route->method, "POST") == 0;
    if (!route->fields && !open)
        return;
    srv_json_key(j, "requestBody");
    srv_json_object(j);
    srv_json_key(j, "required");
    srv_json_bool(j, !open);
    srv_json_key(j, "content");
    srv_json_object(j);
    if (open) { /* the Open Inference Protocol's own bodies */
        put_binary(j, "application/json");
        put_binary(j, "application/octet-stream");
    } else {
        put_media(j, "application/json", route->answer, "Request");
        put_binary(j, SRV_SAFETENSORS);
    }
    srv_json_object_end(j);
    srv_json_object_end(j);
}

static void put_answer(srv_json *j, const srv_route *route) {
    srv_json_key(j, "200");
    srv_json_object(j);
    put(j, "description", route->summary);
    put_headers(j, "Server-Timing");
    srv_json_key(j, "content");
    srv_json_object(j);
    if (route->produces & SRV_ACCEPT_JSON)
        put_media(j, "application/json", route->answer, "");
    if (route->produces & SRV_ACCEPT_TEXT)
        put_media(j, "text/plain", NULL, "");
    if (route->produces & SRV_ACCEPT_SAFETENSORS)
        put_binary(j, SRV_SAFETENSORS);
    if (route->produces & SRV_ACCEPT_NPY)
        put_binary(j, SRV_NPY);
    srv_json_object_end(j);
    srv_json_object_end(j);
}

static void put_responses(srv_json *j, const srv_route *route) {
    unsigned when = ALWAYS | (route->fields ? (unsigned)WITH_FIELDS : 0) |
                    (strcmp(route->method, "POST") == 0 ? (unsigned)WITH_BODY : 0) |
                    (strchr(route->path, '{') ? (unsigned)WITH_ID : 0);
    srv_json_key(j, "responses");
    srv_json_object(j);
    put_answer(j, route);
    for (size_t i = 0; i < PROBLEM_COUNT; i++) {
        if ((problems[i].when & when) == 0)
            continue;
        char status[8];
        snprintf(status, sizeof status, "%d", problems[i].status);
        srv_json_key(j, status);
        put_ref(j, "responses", problems[i].name, "");
    }
    srv_json_object_end(j);
}

static void put_operation(srv_json *j, const srv_route *route) {
    char method[8];
    size_t n = 0;
    for (; route->method[n] && n < sizeof method - 1; n++)
        method[n] = (char)tolower((unsigned char)route->method[n]);
    method[n] = '\0';
    srv_json_key(j, method);
    srv_json_object(j);
    put_id(j, route);
    put(j, "summary", route->summary);
    put_parameters(j, route);
    put_body(j, route);
    put_responses(j, route);
    srv_json_object_end(j);
}

/* Rows of one path stand together or apart: each path is written at its first row. */
static void put_paths(srv_json *j) {
    srv_json_key(j, "paths");
    srv_json_object(j);
    for (const srv_route *r = srv_routes; r->method; r++) {
        bool first = srv_route_is_listed(r);
        for (const srv_route *q = srv_routes; q < r; q++)
            first = first && strcmp(q->path, r->path) != 0;
        if (!first)
            continue;
        srv_json_key(j, r->path);
        srv_json_object(j);
        for (const srv_route *q = r; q->method; q++)
            if (strcmp(q->path, r->path) == 0)
                put_operation(j, q);
        srv_json_object_end(j);
    }
    srv_json_object_end(j);
}

static void put_problem(srv_json *j, const problem_kind *kind) {
    srv_json_key(j, kind->name);
    srv_json_object(j);
    put(j, "description", kind->what);
    put_headers(j, kind->header);
    srv_json_key(j, "content");
    srv_json_object(j);
    put_media(j, "application/problem+json", "Problem", "");
    srv_json_object_end(j);
    srv_json_object_end(j);
}

static void put_header(srv_json *j, const char *name, const char *what, const char *type) {
    srv_json_key(j, name);
    srv_json_object(j);
    put(j, "description", what);
    srv_json_key(j, "schema");
    srv_json_object(j);
    put(j, "type", type);
    srv_json_object_end(j);
    srv_json_object_end(j);
}

static void put_components(srv_json *j) {
    srv_json_key(j, "components");
    srv_json_object(j);
    srv_json_key(j, "schemas");
    srv_json_object(j);
    for (const srv_route *r = srv_routes; r->method; r++) {
        char name[64];
        if (!r->fields)
            continue;
        snprintf(name, sizeof name, "%sRequest", r->answer);
        srv_json_key(j, name);
        srv_schema_body(j, r->fields);
    }
    srv_schema_components(j);
    srv_json_object_end(j);
    srv_json_key(j, "responses");
    srv_json_object(j);
    for (size_t i = 0; i < PROBLEM_COUNT; i++)
        put_problem(j, &problems[i]);
    srv_json_object_end(j);
    srv_json_key(j, "headers");
    srv_json_object(j);
    put_header(j, "X-Request-Id", "The client's id when it is safe, else one of ours.", "string");
    put_header(j, "Server-Timing", "Milliseconds of queue, decode, compute and encode.", "string");
    put_header(j, "Retry-After", "Seconds to wait before trying again.", "integer");
    srv_json_object_end(j);
    srv_json_key(j, "parameters");
    srv_json_object(j);
    srv_json_key(j, "X-Request-Id");
    srv_json_object(j);
    put(j, "name", "X-Request-Id");
    put(j, "in", "header");
    put(j, "description", "An id of your own for this request.");
    srv_json_key(j, "schema");
    srv_json_raw(j, "{\"type\":\"string\"}", 17);
    srv_json_object_end(j);
    srv_json_object_end(j);
    srv_json_object_end(j);
}

srv_outcome srv_openapi(srv_request *req) {
    srv_json j;
    srv_json_begin(&j, req);
    srv_json_object(&j);
    put(&j, "openapi", "3.1.0");
    srv_json_key(&j, "info");
    srv_json_object(&j);
    put(&j, "title", "attnd");
    put(&j, "version", attn_version());
    put(&j, "summary", "Attention outputs, exact weights and heatmaps");
    put(&j, "description",
        "Dot-product attention over tensors that the caller sends. Every error is an "
        "application/problem+json; a null field counts as absent. Equal requests have equal "
        "answers.");
    srv_json_object_end(&j);
    srv_json_key(&j, "servers");
    srv_json_raw(&j, "[{\"url\":\"/\"}]", 13);
    put_paths(&j);
    put_components(&j);
    srv_json_object_end(&j);
    srv_json_end(&j);
    return SRV_DONE;
}
