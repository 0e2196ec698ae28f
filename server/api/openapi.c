/* GET /openapi.json describes the interface as OpenAPI 3.1. The document is made from srv_routes[]
 * and the field tables, so it agrees with what the router and the decoder do. In this file a
 * refusal is a reply with a status other than 200. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/examples.h"
#include "api/handlers.h"
#include "api/route.h"
#include "api/route_fields.h"
#include "api/schema.h"
#include "api/v2_model.h"
#include "request/shared.h"

/* --- the parts that operations refer to: refusals, headers, parameters, examples --- */

/* Properties of a route, as bits. A refusal can occur on the routes that have one of its bits. */
enum {
    ALWAYS = 1,
    WITH_BODY = 2,
    WITH_ID = 4,
    WITH_FIELDS = 8,
    KEYED = 16,
    READING = 32,
    INFERRING = 64,
    WITH_WORK = 128, /* a request thread may compute the answer */
    WITH_RUN = 256,
    STREAMING = 512
};

typedef struct refusal {
    int status;
    unsigned when;
    const char *name, *what, *headers[2];
} refusal;

/* The example of an infer request. The service answers it with 200. */
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
     "The copy of the client is current: If-None-Match names its ETag.",
     {"ETag", "Cache-Control"}},
    {400, ALWAYS, "Malformed", "The body is not JSON, or the HTTP framing is invalid.", {0}},
    {401, KEYED, "Unauthorized", "The API key is missing or unknown.", {"WWW-Authenticate"}},
    {403,
     ALWAYS,
     "Forbidden",
     "The API key lacks the required permission, no key has it, or the request comes from a web "
     "page of another origin.",
     {"WWW-Authenticate"}},
    {404, WITH_ID, "NotFound", "The resource does not exist.", {0}},
    {405, ALWAYS, "Method", "The path does not support this method.", {"Allow"}},
    {406,
     ALWAYS,
     "NotAcceptable",
     "None of the accepted media types or codings can be produced.",
     {0}},
    {408, WITH_BODY | WITH_WORK, "Timeout", "The request took too long to arrive.", {0}},
    {410, WITH_RUN, "Gone", "The resource expired, was deleted or was evicted.", {0}},
    {412, READING, "Precondition", "If-Match names another version of the resource.", {0}},
    {413, ALWAYS, "TooLarge", "The request exceeds a limit, which the member limit names.", {0}},
    {415,
     ALWAYS,
     "MediaType",
     "The media type or content coding is not supported.",
     {"Accept-Post", "Accept-Encoding"}},
    {417, ALWAYS, "Expectation", "The expectation cannot be met.", {0}},
    {421, ALWAYS, "Misdirected", "The host is not a name of this service (setting hosts).", {0}},
    {422,
     WITH_FIELDS,
     "Meaningless",
     "The request is well-formed but invalid; pointer names the place.",
     {0}},
    {429, KEYED, "Quota", "The API key has too many concurrent requests.", {"Retry-After"}},
    {501, ALWAYS, "Unsupported", "The server does not support this.", {0}},
    {503,
     ALWAYS,
     "Unavailable",
     "The queue is full, memory is exhausted, a file cannot be used, or the service shuts down.",
     {"Retry-After"}},
    {504, WITH_BODY | WITH_WORK, "Deadline", "The deadline passed.", {0}},
    {507, WITH_BODY, "Full", "The disk has no space for the data to store.", {0}},
};

static const struct {
    const char *name, *what, *type;
} shared_headers[] = {
    {"X-Request-Id", "The id of the client if it is safe, else a generated id.", "string"},
    {"Server-Timing", "Milliseconds for queue, decode, compute and encode.", "string"},
    {"ETag", "Version of the document, for If-None-Match.", "string"},
    {"Cache-Control",
     "no-cache: a cache may store the answer and must revalidate it; no-store: a cache must not "
     "store it; private, max-age, immutable: the answer belongs to a stored run and does not "
     "change while the run exists.",
     "string"},
    {"Location", "The path of the created resource.", "string"},
    {"X-Run-Id", "The id of the run that `store` kept, as in `run`.", "string"},
    {"Vary", "The request headers that the answer depends on.", "string"},
    {"Allow", "The methods of this path.", "string"},
    {"Accept-Post", "The media types that bodies may have.", "string"},
    {"Accept-Encoding", "The content codings that bodies may have.", "string"},
    {"WWW-Authenticate", "Bearer, and the reason why the key was refused.", "string"},
    {"X-Tile-Shape", "Rows and columns of cells: \"256,256\".", "string"},
    {"X-Tile-Max-Range", "Smallest and largest visible value of the max plane.", "string"},
    {"X-Tile-Mean-Range", "Smallest and largest visible value of the mean plane.", "string"},
    {"X-Tile-Hidden", "The value of a hidden cell, 0 or -Infinity; all: every cell is hidden.",
     "string"},
    {"X-Tile-Pooling", "The order of the planes.", "string"},
    {"X-Tile-Encoding", "u8 and its transform, or f32.", "string"},
    {"Retry-After", "Seconds to wait before trying again.", "integer"},
    {"Inference-Header-Content-Length",
     "Bytes of JSON before the binary tensors; without it there are no binary tensors.", "integer"},
};

static const struct {
    unsigned when;
    const char *name, *what, *type;
} parameters[] = {
    {ALWAYS, "X-Request-Id", "An id that the client chooses for this request.", "string"},
    {INFERRING, "Inference-Header-Content-Length",
     "Bytes of JSON before the binary tensors; without it the body is only JSON.", "integer"},
    {STREAMING, "Last-Event-ID",
     "The id of the last event that was received; the stream continues after it.", "string"},
    {READING, "If-None-Match", "The ETag of the stored copy; the answer is 304 if it is current.",
     "string"},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

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

static void put_raw(srv_json *j, const char *key, const char *text) {
    srv_json_key(j, key);
    srv_json_raw(j, text, strlen(text));
}

static void put_headers(srv_json *j, const char *const *names) {
    srv_json_key(j, "headers");
    srv_json_object(j);
    srv_json_key(j, "X-Request-Id");
    put_ref(j, "headers", "X-Request-Id", "");
    for (; *names; names++) {
        srv_json_key(j, *names);
        put_ref(j, "headers", *names, "");
    }
    srv_json_object_end(j);
}

static bool is_infer(const srv_route *route) {
    return strcmp(route->answer, "V2Inference") == 0;
}

/* Returns whether the path or a field of the body names a stored run. */
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

static void put_refusals(srv_json *j, const srv_route *route) {
    unsigned when = conditions(route);
    for (size_t i = 0; i < COUNT(refusals); i++) {
        if ((refusals[i].when & when) == 0)
            continue;
        char status[8];
        snprintf(status, sizeof status, "%d", refusals[i].status);
        srv_json_key(j, status);
        put_ref(j, "responses", refusals[i].name, "");
    }
}

/* Writes the schema of a name that stands in {} in a path. */
static void put_path_schema(srv_json *j, const srv_route *route, const char *name) {
    bool model = strcmp(name, "model") == 0, version = strcmp(name, "version") == 0;
    bool example = strcmp(name, "id") == 0 && strncmp(route->path, "/v1/examples/", 13) == 0;
    srv_json_object(j);
    put(j, "type", "string");
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

/* Writes the fields of a query string. The fields of an object are listed like all others. */
static void put_query(srv_json *j, const srv_field *fields) {
    for (const srv_field *f = fields; f->name; f++) {
        if (f->kind == SRV_OBJECT) {
            put_query(j, f->fields);
            continue;
        }
        srv_json_object(j);
        put(j, "name", f->name);
        put(j, "in", "query");
        srv_json_key(j, "required");
        srv_json_bool(j, f->required);
        put(j, "description", f->doc);
        srv_json_key(j, "schema");
        srv_schema_parameter(j, f);
        srv_json_object_end(j);
    }
}

static void put_parameters(srv_json *j, const srv_route *route) {
    unsigned when = conditions(route);
    srv_json_key(j, "parameters");
    srv_json_array(j);
    for (size_t i = 0; i < COUNT(parameters); i++)
        if (parameters[i].when & when)
            put_ref(j, "parameters", parameters[i].name, "");
    for (const char *p = strchr(route->path, '{'); p; p = strchr(p + 1, '{')) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p + 1, "}"), p + 1);
        srv_json_object(j);
        put(j, "name", name);
        put(j, "in", "path");
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

static void put_examples(srv_json *j, const srv_route *route) {
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

/* Writes "<type>": {"schema": {"$ref": …}}. */
static void put_schema(srv_json *j, const char *type, const char *schema) {
    srv_json_key(j, type);
    srv_json_object(j);
    srv_json_key(j, "schema");
    put_ref(j, "schemas", schema, "");
    srv_json_object_end(j);
}

static void put_refusal(srv_json *j, const refusal *row) {
    srv_json_key(j, row->name);
    srv_json_object(j);
    put(j, "description", row->what);
    put_headers(j, (const char *const[]){row->headers[0], row->headers[1], NULL});
    if (row->status >= 400) {
        srv_json_key(j, "content");
        srv_json_object(j);
        put_schema(j, "application/problem+json", "Problem");
        srv_json_object_end(j);
    }
    srv_json_object_end(j);
}

/* Writes "schema": {"type": type}. */
static void put_type(srv_json *j, const char *type) {
    srv_json_key(j, "schema");
    srv_json_object(j);
    put(j, "type", type);
    srv_json_object_end(j);
}

static void put_shared_parts(srv_json *j) {
    srv_json_key(j, "responses");
    srv_json_object(j);
    for (size_t i = 0; i < COUNT(refusals); i++)
        put_refusal(j, &refusals[i]);
    srv_json_object_end(j);
    srv_json_key(j, "headers");
    srv_json_object(j);
    for (size_t i = 0; i < COUNT(shared_headers); i++) {
        srv_json_key(j, shared_headers[i].name);
        srv_json_object(j);
        put(j, "description", shared_headers[i].what);
        put_type(j, shared_headers[i].type);
        srv_json_object_end(j);
    }
    srv_json_object_end(j);
    srv_json_key(j, "parameters");
    srv_json_object(j);
    for (size_t i = 0; i < COUNT(parameters); i++) {
        srv_json_key(j, parameters[i].name);
        srv_json_object(j);
        put(j, "name", parameters[i].name);
        put(j, "in", "header");
        put(j, "description", parameters[i].what);
        put_type(j, parameters[i].type);
        srv_json_object_end(j);
    }
    srv_json_object_end(j);
    put_raw(j, "securitySchemes",
            "{\"key\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":\"An API key of the "
            "service's keys_file.\"}}");
}

/* --- the document --- */

/* The media types of answers that have no schema. */
static const struct {
    unsigned accept;
    const char *type;
    bool text;
} media[] = {
    {SRV_ACCEPT_TEXT, "text/plain", true},   {SRV_ACCEPT_SAFETENSORS, SRV_SAFETENSORS, false},
    {SRV_ACCEPT_NPY, SRV_NPY, false},        {SRV_ACCEPT_PNG, "image/png", false},
    {SRV_ACCEPT_SVG, "image/svg+xml", true}, {SRV_ACCEPT_CSV, "text/csv", true},
    {SRV_ACCEPT_OCTETS, SRV_OCTETS, false},  {SRV_ACCEPT_EVENTS, "text/event-stream", false},
};

static void put_text(srv_json *j, const char *type) {
    put_raw(j, type, "{\"schema\":{\"type\":\"string\"}}");
}

static void put_binary(srv_json *j, const char *type) {
    put_raw(j, type, "{}");
}

/* Returns the method of a route in lower case. */
static const char *verb(const srv_route *route) {
    return *route->method == 'G' ? "get" : *route->method == 'P' ? "post" : "delete";
}

/* Writes the operation's id, such as "operationId": "post_v1_attention". */
static void put_id(srv_json *j, const srv_route *route) {
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
    put(j, "operationId", id);
}

static void put_body(srv_json *j, const srv_route *route) {
    if (strcmp(route->method, "POST") != 0)
        return;
    srv_json_key(j, "requestBody");
    srv_json_object(j);
    srv_json_key(j, "required");
    srv_json_bool(j, route->fields || is_infer(route));
    srv_json_key(j, "content");
    srv_json_object(j);
    srv_json_key(j, "application/json");
    srv_json_object(j);
    srv_json_key(j, "schema");
    put_ref(j, "schemas", route->answer, "Request");
    put_examples(j, route);
    srv_json_object_end(j);
    if (route->fields)
        put_binary(j, SRV_SAFETENSORS);
    else if (is_infer(route))
        put_binary(j, "application/octet-stream");
    srv_json_object_end(j);
    srv_json_object_end(j);
}

/* Writes the answer 204, which has no body. */
static void put_empty(srv_json *j, const char *what, const char *const *headers) {
    srv_json_key(j, "204");
    srv_json_object(j);
    put(j, "description", what);
    put_headers(j, headers);
    srv_json_object_end(j);
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

static void put_answer(srv_json *j, const srv_route *route) {
    const bool later = srv_route_goes_on(route);
    if (strcmp(route->method, "DELETE") == 0) {
        put_empty(j, "It is gone.", empty_headers);
        if (!later)
            return;
    }
    srv_json_key(j, later ? "202" : srv_route_creates(route) ? "201" : "200");
    srv_json_object(j);
    put(j, "description", route->summary);
    bool get = strcmp(route->method, "GET") == 0, infer = is_infer(route);
    if (route->produces & SRV_ACCEPT_OCTETS)
        put_headers(j, tile_headers);
    else
        put_headers(j, (const char *const[]){"Server-Timing", "Cache-Control", "Vary",
                                             get                        ? "ETag"
                                             : srv_route_creates(route) ? "Location"
                                             : infer ? "Inference-Header-Content-Length"
                                             : route->fields == srv_attention_fields ? "X-Run-Id"
                                                                                     : NULL,
                                             NULL});
    srv_json_key(j, "content");
    srv_json_object(j);
    if (route->produces & SRV_ACCEPT_JSON)
        put_schema(j, "application/json", route->answer);
    for (size_t i = 0; i < COUNT(media); i++)
        if (route->produces & media[i].accept)
            (media[i].text ? put_text : put_binary)(j, media[i].type);
    if (infer)
        put_binary(j, "application/octet-stream");
    srv_json_object_end(j);
    srv_json_object_end(j);
    if (route->produces & SRV_ACCEPT_EVENTS)
        put_empty(j, "It has ended, and there is nothing new.", empty_headers);
    if (route->produces & SRV_ACCEPT_OCTETS)
        put_empty(j, "There is nothing visible in it.", tile_headers);
}

/* Writes the security of an operation. If API keys are configured, it names the right that the
 * operation needs. Otherwise a key is optional. */
static void put_security(srv_json *j, const srv_route *route, bool keys) {
    static const char any[] = "[{\"key\":[]}]", admin[] = "[{\"key\":[\"admin\"]}]",
                      optional[] = "[{},{\"key\":[]}]", none[] = "[]";
    const char *text = route->access == SRV_OPEN    ? none
                       : !keys                      ? optional
                       : route->access == SRV_ADMIN ? admin
                                                    : any;
    put_raw(j, "security", text);
}

static void put_operation(srv_json *j, const srv_route *route, bool keys) {
    srv_json_key(j, verb(route));
    srv_json_object(j);
    put_id(j, route);
    put(j, "summary", route->summary);
    put_security(j, route, keys);
    put_parameters(j, route);
    put_body(j, route);
    srv_json_key(j, "responses");
    srv_json_object(j);
    put_answer(j, route);
    put_refusals(j, route);
    srv_json_object_end(j);
    srv_json_object_end(j);
}

/* Writes each path once, with the operations of all rows that have this path. */
static void put_paths(srv_json *j, bool keys) {
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
                put_operation(j, q, keys);
        srv_json_object_end(j);
    }
    srv_json_object_end(j);
}

static void put_components(srv_json *j) {
    srv_json_key(j, "components");
    srv_json_object(j);
    srv_json_key(j, "schemas");
    srv_json_object(j);
    for (const srv_route *r = srv_routes; r->method; r++) {
        char name[64];
        if (!r->fields || strcmp(r->method, "POST") != 0)
            continue; /* the fields of a query string are parameters, not a body */
        snprintf(name, sizeof name, "%sRequest", r->answer);
        srv_json_key(j, name);
        srv_schema_body(j, r->fields);
    }
    srv_schema_components(j);
    srv_json_object_end(j);
    put_shared_parts(j);
    srv_json_object_end(j);
}

static bool write_document(srv_request *req) {
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
    put_raw(&j, "servers", "[{\"url\":\"/\"}]");
    put_paths(&j, req->app->keys != NULL);
    put_components(&j);
    srv_json_object_end(&j);
    return srv_json_end(&j);
}

/* Keeps the document for later requests, because writing it takes the HTTP thread ten
 * milliseconds. */
static void keep(srv_app *app, const srv_reply *reply) {
    srv_text *none = NULL, *text = malloc(sizeof *text + reply->size);
    if (!text)
        return;
    text->size = reply->size;
    memcpy(text->data, reply->body, reply->size);
    if (!atomic_compare_exchange_strong(&app->openapi, &none, text))
        free(text);
}

srv_outcome srv_openapi(srv_request *req) {
    const srv_text *text = atomic_load(&req->app->openapi);
    if (text)
        srv_reply_set(req, 200, "application/json", text->data, text->size);
    else if (write_document(req))
        keep(req->app, &req->reply);
    return SRV_DONE;
}
