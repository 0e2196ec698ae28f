/* The tables of refusals, headers and parameters, and the properties of a route that select them.
 * In this file a refusal is a reply with status 304 or with a problem. */
#include "api/service/openapi_parts.h"

#include <stdio.h>
#include <string.h>

#include "api/service/examples.h"
#include "api/service/schema.h"
#include "api/service/v2_model.h"

/* Properties of a route, as bits. A refusal has bits, too: it occurs on the routes that have at
 * least one of these bits. */
enum {
    ALWAYS = 1,
    WITH_BODY = 2,
    WITH_ID = 4,
    STRICT = 8, /* unknown fields and wrong values are answered with status 422 */
    KEYED = 16,
    READING = 32,
    INFERRING = 64,
    WITH_WORK = 128, /* a request thread may compute the answer */
    WITH_RUN = 256,
    STREAMING = 512,
    LOOKING = 1024, /* a job may compute the answer */
    STORING = 2048, /* a job may store the run */
    MAKING = 4096   /* the request may make a run, a model or a job */
};

typedef struct refusal {
    int status;
    unsigned when;
    const char *name, *what, *headers[2];
} refusal;

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
    {409,
     MAKING,
     "Busy",
     "A request with the same Idempotency-Key is not answered yet.",
     {"Retry-After"}},
    {410,
     WITH_RUN,
     "Gone",
     "The resource expired, was deleted or was evicted, or its file has changed.",
     {0}},
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
     STRICT,
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
    {"Preference-Applied", "The preferences of Prefer that were followed.", "string"},
    {"X-Run-Id", "The id of the run that `store` kept, as in `run`.", "string"},
    {"Vary", "The request headers that the answer depends on.", "string"},
    {"Allow", "The methods of this path.", "string"},
    {"Accept-Post", "The media types that bodies may have.", "string"},
    {"Accept-Encoding", "The content codings that bodies may have.", "string"},
    {"WWW-Authenticate", "Bearer, and the reason why the key was refused.", "string"},
    {"X-Tile-Shape", "Rows and columns of cells: \"256,256\".", "string"},
    {"X-Tile-Max-Range",
     "The scale of the max plane: by default its smallest and largest visible value.", "string"},
    {"X-Tile-Mean-Range", "The scale of the mean plane.", "string"},
    {"X-Tile-Hidden", "The value of a hidden cell, 0 or -Infinity; all: every cell is hidden.",
     "string"},
    {"X-Tile-Pooling", "max, mean, or both, in this order.", "string"},
    {"X-Tile-Encoding", "u8 or png and the transform, or f32.", "string"},
    {"X-Warning", "What is wrong with a PNG, such as that no font is installed for its letters.",
     "string"},
    {"Retry-After", "Seconds to wait before trying again.", "integer"},
    {"Inference-Header-Content-Length",
     "Bytes of JSON before the binary tensors; without it there are no binary tensors.", "integer"},
};

static const struct {
    unsigned when;
    const char *name, *what, *type;
    int longest; /* a text has 1 to this many characters; 0: any text is allowed */
} parameters[] = {
    {ALWAYS, "X-Request-Id", "An id that the client chooses for this request.", "string", 0},
    {INFERRING, "Inference-Header-Content-Length",
     "Bytes of JSON before the binary tensors; without it the body is only JSON.", "integer", 0},
    {STREAMING, "Last-Event-ID",
     "The id of the last event that was received; the stream continues after it.", "string", 0},
    {LOOKING | STORING, "Prefer",
     "respond-async: an answer, or a run that store keeps, that is predicted to take longer than "
     "async_ms is computed by a job; wait=N: longer than N seconds (RFC 7240).",
     "string", 0},
    {MAKING, "Idempotency-Key",
     "A repeated request with the same key makes nothing again and gets the first answer.",
     "string", 128},
    {READING, "If-None-Match", "The ETag of the stored copy; the answer is 304 if it is current.",
     "string", 0},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

void srv_api_ref(attn_json_text *j, const char *kind, const char *name, const char *suffix) {
    char ref[96];
    snprintf(ref, sizeof ref, "#/components/%s/%s%s", kind, name, suffix);
    attn_json_object(j);
    attn_json_key_string(j, "$ref", ref);
    attn_json_object_end(j);
}

void srv_api_raw(attn_json_text *j, const char *key, const char *text) {
    attn_json_key(j, key);
    attn_json_raw(j, text, strlen(text));
}

void srv_api_headers(attn_json_text *j, const char *const *names) {
    attn_json_key_object(j, "headers");
    attn_json_key(j, "X-Request-Id");
    srv_api_ref(j, "headers", "X-Request-Id", "");
    for (; *names; names++) {
        attn_json_key(j, *names);
        srv_api_ref(j, "headers", *names, "");
    }
    attn_json_object_end(j);
}

/* Writes "<type>": {"schema": {"$ref": …}}. */
void srv_api_schema(attn_json_text *j, const char *type, const char *schema) {
    attn_json_key_object(j, type);
    attn_json_key(j, "schema");
    srv_api_ref(j, "schemas", schema, "");
    attn_json_object_end(j);
}

void srv_api_example(attn_json_text *j, const srv_route *route, const char *what) {
    static const char version[] = "/versions/{version}";
    const char *rest = strstr(route->path, version);
    const int lead = rest ? (int)(rest - route->path) : (int)strlen(route->path);
    const srv_file *file = srv_embedded;
    char name[128];
    while (file->name && strcmp(file->name, "server/api/service/answers.json") != 0)
        file++;
    snprintf(name, sizeof name, "%s %s %.*s%s", what, route->method, lead, route->path,
             rest ? rest + sizeof version - 1 : "");
    const srv_span value = srv_span_of(file, name);
    if (value.size == 4 && memcmp(value.data, "null", 4) == 0)
        return;
    attn_json_key(j, "example");
    attn_json_raw(j, value.data, value.size);
}

bool srv_api_infers(const srv_route *route) {
    return strcmp(route->answer, "V2Inference") == 0;
}

static bool has_field(const srv_route *route, const char *name) {
    const srv_field *f = route->fields;
    while (f && f->name && strcmp(f->name, name) != 0)
        f++;
    return f && f->name;
}

/* Returns whether the path or a field of the body names a stored run. */
static bool names_run(const srv_route *route) {
    return has_field(route, "run") || strstr(route->path, "/runs/{id}");
}

static bool makes(const srv_route *route) {
    return srv_route_creates(route) || srv_route_goes_on(route) || has_field(route, "store");
}

static unsigned conditions(const srv_route *route) {
    bool get = strcmp(route->method, "GET") == 0, run = names_run(route);
    return ALWAYS | (route->open_inference ? 0 : (unsigned)STRICT) |
           (strcmp(route->method, "POST") == 0 ? (unsigned)WITH_BODY : 0) |
           (run || strchr(route->path, '{') ? (unsigned)WITH_ID : 0) |
           (route->place != SRV_HERE ? (unsigned)WITH_WORK : 0) | (run ? (unsigned)WITH_RUN : 0) |
           (route->access != SRV_OPEN ? (unsigned)KEYED : 0) | (get ? (unsigned)READING : 0) |
           (srv_api_infers(route) ? (unsigned)INFERRING : 0) |
           (srv_route_looks(route) ? (unsigned)LOOKING : 0) |
           (srv_route_stores_later(route) ? (unsigned)STORING : 0) |
           (makes(route) ? (unsigned)MAKING : 0) |
           (route->produces & SRV_ACCEPT_EVENTS ? (unsigned)STREAMING : 0);
}

void srv_api_refusals(attn_json_text *j, const srv_route *route) {
    unsigned when = conditions(route);
    for (size_t i = 0; i < COUNT(refusals); i++) {
        if ((refusals[i].when & when) == 0)
            continue;
        char status[8];
        snprintf(status, sizeof status, "%d", refusals[i].status);
        attn_json_key(j, status);
        srv_api_ref(j, "responses", refusals[i].name, "");
    }
}

/* Writes the schema of the path parameter `name`, which is {name} in the path. */
static void put_path_schema(attn_json_text *j, const srv_route *route, const char *name) {
    bool model = strcmp(name, "model") == 0, version = strcmp(name, "version") == 0;
    bool example = strcmp(name, "id") == 0 && strncmp(route->path, "/v1/examples/", 13) == 0;
    if (strcmp(name, "code") == 0) {
        srv_api_ref(j, "schemas", "ProblemCode", "");
        return;
    }
    attn_json_object(j);
    attn_json_key_string(j, "type", "string");
    if (model || version || example) {
        attn_json_key_array(j, "enum");
        for (size_t i = 0; model && i < SRV_INFER_MODELS; i++)
            attn_json_string(j, srv_infer_models[i].name);
        if (version)
            attn_json_string(j, SRV_V2_VERSION);
        for (const srv_file *f = example ? srv_example_next(NULL) : NULL; f;
             f = srv_example_next(f)) {
            srv_span id = srv_span_of(f, "id");
            attn_json_raw(j, id.data, id.size);
        }
        attn_json_array_end(j);
    }
    attn_json_object_end(j);
}

/* Writes the fields of a query string. The fields of an object are listed like all others. */
static void put_query(attn_json_text *j, const srv_field *fields) {
    for (const srv_field *f = fields; f->name; f++) {
        if (f->kind == SRV_OBJECT) {
            put_query(j, f->fields);
            continue;
        }
        attn_json_object(j);
        attn_json_key_string(j, "name", f->name);
        attn_json_key_string(j, "in", "query");
        attn_json_key_bool(j, "required", f->required);
        attn_json_key_string(j, "description", f->doc);
        attn_json_key(j, "schema");
        srv_schema_parameter(j, f);
        if (f->example) {
            attn_json_key(j, "example");
            attn_json_raw(j, f->example, strlen(f->example));
        }
        attn_json_object_end(j);
    }
}

void srv_api_parameters(attn_json_text *j, const srv_route *route) {
    unsigned when = conditions(route);
    attn_json_key_array(j, "parameters");
    for (size_t i = 0; i < COUNT(parameters); i++)
        if (parameters[i].when & when)
            srv_api_ref(j, "parameters", parameters[i].name, "");
    for (const char *p = strchr(route->path, '{'); p; p = strchr(p + 1, '{')) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p + 1, "}"), p + 1);
        attn_json_object(j);
        attn_json_key_string(j, "name", name);
        attn_json_key_string(j, "in", "path");
        attn_json_key_bool(j, "required", true);
        attn_json_key(j, "schema");
        put_path_schema(j, route, name);
        attn_json_object_end(j);
    }
    if (route->fields && strcmp(route->method, "POST") != 0)
        put_query(j, route->fields);
    attn_json_array_end(j);
}

static void put_refusal(attn_json_text *j, const refusal *row) {
    attn_json_key_object(j, row->name);
    attn_json_key_string(j, "description", row->what);
    srv_api_headers(j, (const char *const[]){row->headers[0], row->headers[1], NULL});
    if (row->status >= 400) {
        attn_json_key_object(j, "content");
        srv_api_schema(j, "application/problem+json", "Problem");
        attn_json_object_end(j);
    }
    attn_json_object_end(j);
}

/* Writes "schema": {"type": type} and, if `longest` is not 0, the bounds of the length. */
static void put_type(attn_json_text *j, const char *type, int longest) {
    attn_json_key_object(j, "schema");
    attn_json_key_string(j, "type", type);
    if (longest) {
        attn_json_key_int(j, "minLength", 1);
        attn_json_key_int(j, "maxLength", longest);
    }
    attn_json_object_end(j);
}

void srv_api_shared(attn_json_text *j, bool keys) {
    attn_json_key_object(j, "responses");
    for (size_t i = 0; i < COUNT(refusals); i++)
        put_refusal(j, &refusals[i]);
    attn_json_object_end(j);
    attn_json_key_object(j, "headers");
    for (size_t i = 0; i < COUNT(shared_headers); i++) {
        attn_json_key_object(j, shared_headers[i].name);
        attn_json_key_string(j, "description", shared_headers[i].what);
        put_type(j, shared_headers[i].type, 0);
        attn_json_object_end(j);
    }
    attn_json_object_end(j);
    attn_json_key_object(j, "parameters");
    for (size_t i = 0; i < COUNT(parameters); i++) {
        attn_json_key_object(j, parameters[i].name);
        attn_json_key_string(j, "name", parameters[i].name);
        attn_json_key_string(j, "in", "header");
        attn_json_key_string(j, "description", parameters[i].what);
        put_type(j, parameters[i].type, parameters[i].longest);
        attn_json_object_end(j);
    }
    attn_json_object_end(j);
    attn_json_key_object(j, "securitySchemes");
    srv_api_raw(j, "key",
                "{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":\"An API key of the "
                "service's keys_file.\"}");
    if (keys)
        srv_api_raw(j, "read_token",
                    "{\"type\":\"apiKey\",\"in\":\"query\",\"name\":\"token\","
                    "\"description\":\"The read_token of a run. It opens the run and the looks "
                    "at it.\"}");
    attn_json_object_end(j);
}
