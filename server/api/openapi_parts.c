/* Parts of openapi.json that routes refer to: refusals, headers, parameters and examples. Which of
 * them a route has follows from its row. */
#include "api/openapi_parts.h"

#include <stdio.h>
#include <string.h>

#include "api/examples.h"
#include "api/schema.h"
#include "api/v2_model.h"

/* When a status may be answered. */
enum {
    ALWAYS = 1,
    WITH_BODY = 2,
    WITH_ID = 4,
    WITH_FIELDS = 8,
    KEYED = 16,
    READING = 32,
    INFERRING = 64,
    WITH_WORK = 128, /* on a worker */
    WITH_RUN = 256,
    STREAMING = 512
};

#define MOST_HEADERS 3

typedef struct refusal {
    int status;
    unsigned when;
    const char *name, *what, *headers[MOST_HEADERS];
} refusal;

/* An infer request that is answered with 200. */
static const char v2_example[] =
    "{\"inputs\":[{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[2,2],\"data\":[1,0,0,1]},"
    "{\"name\":\"key\",\"datatype\":\"FP32\",\"shape\":[2,2],\"data\":[[1,2],[3,4]]},"
    "{\"name\":\"value\",\"datatype\":\"FP32\",\"shape\":[2,2],\"data\":[1,0,0,1]}],"
    "\"parameters\":{\"is_causal\":true},\"outputs\":[{\"name\":\"output\"},{\"name\":"
    "\"weights\"}]}";

static const refusal refusals[] = {
    {304,
     READING,
     "NotModified",
     "The client has this already: If-None-Match names its ETag.",
     {"ETag", "Cache-Control"}},
    {400, ALWAYS, "Malformed", "Malformed: the body is not JSON, or the framing is broken.", {0}},
    {401,
     KEYED,
     "Unauthorized",
     "A key is needed, or the one that came is unknown.",
     {"WWW-Authenticate"}},
    {403,
     ALWAYS,
     "Forbidden",
     "The key has not the right that this needs, nobody has it, or a web page of a foreign origin "
     "asked.",
     {"WWW-Authenticate"}},
    {404, WITH_ID, "NotFound", "There is no such thing.", {0}},
    {405, ALWAYS, "Method", "Another method than those of this path.", {"Allow"}},
    {406,
     ALWAYS,
     "NotAcceptable",
     "None of the accepted media types or codings can be produced.",
     {0}},
    {408, WITH_BODY | WITH_WORK, "Timeout", "The request took too long to arrive.", {0}},
    {410, WITH_RUN, "Gone", "It was here, and expired, was deleted or made room.", {0}},
    {412, READING, "Precondition", "If-Match names another state than this.", {0}},
    {413, ALWAYS, "TooLarge", "Larger than a limit, which limit names.", {0}},
    {415,
     ALWAYS,
     "MediaType",
     "The media type or content coding is not supported.",
     {"Accept-Post", "Accept-Encoding"}},
    {417, ALWAYS, "Expectation", "The expectation cannot be met.", {0}},
    {421, ALWAYS, "Misdirected", "The host is no name of this service (setting hosts).", {0}},
    {422, WITH_FIELDS, "Meaningless", "Well-formed but meaningless; pointer says where.", {0}},
    {429, KEYED, "Quota", "Too many requests of this key are under way.", {"Retry-After"}},
    {501, ALWAYS, "Unsupported", "Not supported by this server.", {0}},
    {503,
     ALWAYS,
     "Unavailable",
     "The queue is full, memory is short, a file cannot be used, or the service shuts down.",
     {"Retry-After"}},
    {504, WITH_BODY | WITH_WORK, "Deadline", "The deadline passed.", {0}},
    {507, WITH_BODY, "Full", "The disk has no space for what is to be kept.", {0}},
};

static const struct {
    const char *name, *what, *type;
} headers[] = {
    {"X-Request-Id", "The client's id when it is safe, else one of ours.", "string"},
    {"Server-Timing", "Milliseconds of queue, decode, compute and encode.", "string"},
    {"ETag", "Names this state of the document, for If-None-Match.", "string"},
    {"Cache-Control",
     "no-cache: may be kept, and must be asked for; no-store: not kept; private, max-age, "
     "immutable "
     "of a stored run: does not change while the run lives.",
     "string"},
    {"Location", "The path of what was made.", "string"},
    {"X-Run-Id", "The id of the run that `store` kept, as in `run`.", "string"},
    {"Vary", "The request headers that the answer depends on.", "string"},
    {"Allow", "The methods of this path.", "string"},
    {"Accept-Post", "The media types that bodies may have.", "string"},
    {"Accept-Encoding", "The content codings that bodies may have.", "string"},
    {"WWW-Authenticate", "Bearer, and what was wrong with the key.", "string"},
    {"X-Tile-Shape", "Rows and columns of cells: \"256,256\".", "string"},
    {"X-Tile-Max-Range", "Smallest and largest visible value of the max plane.", "string"},
    {"X-Tile-Mean-Range", "The same of the mean plane.", "string"},
    {"X-Tile-Hidden", "How a hidden cell is written: 0 or -Infinity; all: every cell is.",
     "string"},
    {"X-Tile-Pooling", "The planes in their order.", "string"},
    {"X-Tile-Encoding", "u8 and its transform, or f32.", "string"},
    {"Retry-After", "Seconds to wait before trying again.", "integer"},
    {"Inference-Header-Content-Length",
     "Bytes of JSON before the binary tensors; without it there "
     "are none.",
     "integer"},
};

static const struct {
    unsigned when;
    const char *name, *what, *type;
} parameters[] = {
    {ALWAYS, "X-Request-Id", "An id of your own for this request.", "string"},
    {INFERRING, "Inference-Header-Content-Length",
     "Bytes of JSON before the binary tensors; without it the body is JSON alone.", "integer"},
    {STREAMING, "Last-Event-ID", "The id of the last event that you have: those behind it.",
     "string"},
    {READING, "If-None-Match", "The ETag that you have; 304 when it still holds.", "string"},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

void srv_openapi_put(srv_json *j, const char *key, const char *text) {
    srv_json_key(j, key);
    srv_json_string(j, text);
}

void srv_openapi_ref(srv_json *j, const char *kind, const char *name, const char *suffix) {
    char ref[96];
    snprintf(ref, sizeof ref, "#/components/%s/%s%s", kind, name, suffix);
    srv_json_object(j);
    srv_openapi_put(j, "$ref", ref);
    srv_json_object_end(j);
}

static void put_raw(srv_json *j, const char *key, const char *text) {
    srv_json_key(j, key);
    srv_json_raw(j, text, strlen(text));
}

void srv_openapi_headers(srv_json *j, const char *const *names) {
    srv_json_key(j, "headers");
    srv_json_object(j);
    srv_json_key(j, "X-Request-Id");
    srv_openapi_ref(j, "headers", "X-Request-Id", "");
    for (; *names; names++) {
        srv_json_key(j, *names);
        srv_openapi_ref(j, "headers", *names, "");
    }
    srv_json_object_end(j);
}

static bool is_infer(const srv_route *route) {
    return strcmp(route->answer, "V2Inference") == 0;
}

/* Is a stored run what the path or a field of the body names? */
static bool names_run(const srv_route *route) {
    const srv_field *f = route->fields;
    while (f && f->name && strcmp(f->name, "run") != 0)
        f++;
    return (f && f->name) || strstr(route->path, "/runs/{id}");
}

static unsigned conditions(const srv_route *route) {
    bool get = strcmp(route->method, "GET") == 0, run = names_run(route);
    return ALWAYS | (route->fields ? (unsigned)WITH_FIELDS : 0) |
           (strcmp(route->method, "POST") == 0 ? (unsigned)WITH_BODY : 0) |
           (run || strchr(route->path, '{') ? (unsigned)WITH_ID : 0) |
           (route->place != SRV_HERE ? (unsigned)WITH_WORK : 0) | (run ? (unsigned)WITH_RUN : 0) |
           (route->access != SRV_OPEN ? (unsigned)KEYED : 0) | (get ? (unsigned)READING : 0) |
           (is_infer(route) ? (unsigned)INFERRING : 0) |
           (route->produces & SRV_ACCEPT_EVENTS ? (unsigned)STREAMING : 0);
}

void srv_openapi_refusals(srv_json *j, const srv_route *route) {
    unsigned when = conditions(route);
    for (size_t i = 0; i < COUNT(refusals); i++) {
        if ((refusals[i].when & when) == 0)
            continue;
        char status[8];
        snprintf(status, sizeof status, "%d", refusals[i].status);
        srv_json_key(j, status);
        srv_openapi_ref(j, "responses", refusals[i].name, "");
    }
}

/* What a name in {} of a path may stand for. */
static void put_path_schema(srv_json *j, const srv_route *route, const char *name) {
    bool model = strcmp(name, "model") == 0, version = strcmp(name, "version") == 0;
    bool example = strcmp(name, "id") == 0 && strncmp(route->path, "/v1/examples/", 13) == 0;
    srv_json_object(j);
    srv_openapi_put(j, "type", "string");
    if (model || version || example) {
        srv_json_key(j, "enum");
        srv_json_array(j);
        for (size_t i = 0; model && i < SRV_INFER_MODELS; i++)
            srv_json_string(j, srv_infer_models[i].name);
        if (version)
            srv_json_string(j, SRV_V2_VERSION);
        for (const srv_file *f = example ? srv_example_next(NULL) : NULL; f;
             f = srv_example_next(f)) {
            srv_span id = srv_example_field(f, "id");
            srv_json_raw(j, id.data, id.size);
        }
        srv_json_array_end(j);
    }
    srv_json_object_end(j);
}

/* The fields of a query string, those of objects beside the others. */
static void put_query(srv_json *j, const srv_field *fields) {
    for (const srv_field *f = fields; f->name; f++) {
        if (f->kind == SRV_OBJECT) {
            put_query(j, f->fields);
            continue;
        }
        srv_json_object(j);
        srv_openapi_put(j, "name", f->name);
        srv_openapi_put(j, "in", "query");
        srv_json_key(j, "required");
        srv_json_bool(j, f->required);
        srv_openapi_put(j, "description", f->doc);
        srv_json_key(j, "schema");
        srv_schema_parameter(j, f);
        srv_json_object_end(j);
    }
}

void srv_openapi_parameters(srv_json *j, const srv_route *route) {
    unsigned when = conditions(route);
    srv_json_key(j, "parameters");
    srv_json_array(j);
    for (size_t i = 0; i < COUNT(parameters); i++)
        if (parameters[i].when & when)
            srv_openapi_ref(j, "parameters", parameters[i].name, "");
    for (const char *p = strchr(route->path, '{'); p; p = strchr(p + 1, '{')) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p + 1, "}"), p + 1);
        srv_json_object(j);
        srv_openapi_put(j, "name", name);
        srv_openapi_put(j, "in", "path");
        srv_json_key(j, "required");
        srv_json_bool(j, true);
        srv_json_key(j, "schema");
        put_path_schema(j, route, name);
        srv_json_object_end(j);
    }
    if (route->fields && strcmp(route->method, "POST") != 0)
        put_query(j, route->fields);
    srv_json_array_end(j);
}

void srv_openapi_examples(srv_json *j, const srv_route *route) {
    if (is_infer(route)) {
        put_raw(j, "example", v2_example);
        return;
    }
    enum { MOST_EXAMPLES = 3, MOST_BYTES = 1000 };
    int count = 0;
    for (const srv_file *f = srv_example_next(NULL); f && count < MOST_EXAMPLES;
         f = srv_example_next(f)) {
        srv_span title, request;
        if (!srv_example_case(f, route->path, &title, &request) || request.size > MOST_BYTES)
            continue;
        if (count++ == 0) {
            srv_json_key(j, "examples");
            srv_json_object(j);
        }
        char name[64];
        srv_span id = srv_example_field(f, "id");
        snprintf(name, sizeof name, "%.*s", (int)id.size - 2, id.data + 1);
        srv_json_key(j, name);
        srv_json_object(j);
        srv_json_key(j, "summary");
        srv_json_raw(j, title.data, title.size);
        srv_json_key(j, "value");
        srv_json_raw(j, request.data, request.size);
        srv_json_object_end(j);
    }
    if (count)
        srv_json_object_end(j);
}

static void put_refusal(srv_json *j, const refusal *row) {
    srv_json_key(j, row->name);
    srv_json_object(j);
    srv_openapi_put(j, "description", row->what);
    srv_openapi_headers(j, (const char *const[]){row->headers[0], row->headers[1], NULL});
    if (row->status >= 400) {
        srv_json_key(j, "content");
        srv_json_object(j);
        srv_json_key(j, "application/problem+json");
        srv_json_object(j);
        srv_json_key(j, "schema");
        srv_openapi_ref(j, "schemas", "Problem", "");
        srv_json_object_end(j);
        srv_json_object_end(j);
    }
    srv_json_object_end(j);
}

/* "schema": {"type": type} */
static void put_type(srv_json *j, const char *type) {
    srv_json_key(j, "schema");
    srv_json_object(j);
    srv_openapi_put(j, "type", type);
    srv_json_object_end(j);
}

void srv_openapi_components(srv_json *j) {
    srv_json_key(j, "responses");
    srv_json_object(j);
    for (size_t i = 0; i < COUNT(refusals); i++)
        put_refusal(j, &refusals[i]);
    srv_json_object_end(j);
    srv_json_key(j, "headers");
    srv_json_object(j);
    for (size_t i = 0; i < COUNT(headers); i++) {
        srv_json_key(j, headers[i].name);
        srv_json_object(j);
        srv_openapi_put(j, "description", headers[i].what);
        put_type(j, headers[i].type);
        srv_json_object_end(j);
    }
    srv_json_object_end(j);
    srv_json_key(j, "parameters");
    srv_json_object(j);
    for (size_t i = 0; i < COUNT(parameters); i++) {
        srv_json_key(j, parameters[i].name);
        srv_json_object(j);
        srv_openapi_put(j, "name", parameters[i].name);
        srv_openapi_put(j, "in", "header");
        srv_openapi_put(j, "description", parameters[i].what);
        put_type(j, parameters[i].type);
        srv_json_object_end(j);
    }
    srv_json_object_end(j);
    put_raw(j, "securitySchemes",
            "{\"key\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":\"An API key of the "
            "service's keys_file.\"}}");
}
