/* GET /openapi.json: the interface as OpenAPI 3.1, made from srv_routes[] and the field tables each
 * time it is asked for, so that it cannot differ from what the router and the decoder do. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/openapi_parts.h"
#include "api/plain.h"
#include "api/route_fields.h"
#include "api/schema.h"
#include "request/shared.h"

/* "application/json": {"schema": {"$ref": …}} */
static void put_media(srv_json *j, const char *type, const char *schema, const char *suffix) {
    srv_json_key(j, type);
    srv_json_object(j);
    srv_json_key(j, "schema");
    if (schema)
        srv_openapi_ref(j, "schemas", schema, suffix);
    else
        srv_json_raw(j, "{\"type\":\"string\"}", 17);
    srv_json_object_end(j);
}

/* Bytes: what is in them no schema says. */
static void put_binary(srv_json *j, const char *type) {
    srv_json_key(j, type);
    srv_json_raw(j, "{}", 2);
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
    srv_openapi_put(j, "operationId", id);
}

static bool is_infer(const srv_route *route) {
    return strcmp(route->answer, "V2Inference") == 0;
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
    srv_openapi_ref(j, "schemas", route->answer, "Request");
    srv_openapi_examples(j, route);
    srv_json_object_end(j);
    if (route->fields)
        put_binary(j, SRV_SAFETENSORS);
    else if (is_infer(route))
        put_binary(j, "application/octet-stream");
    srv_json_object_end(j);
    srv_json_object_end(j);
}

/* A status without a body. */
static void put_empty(srv_json *j, const char *what, const char *const *headers) {
    srv_json_key(j, "204");
    srv_json_object(j);
    srv_openapi_put(j, "description", what);
    srv_openapi_headers(j, headers);
    srv_json_object_end(j);
}

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
        put_empty(j, "It is gone.", (const char *const[]){"Server-Timing", "Cache-Control", NULL});
        if (!later)
            return;
    }
    srv_json_key(j, later ? "202" : srv_route_creates(route) ? "201" : "200");
    srv_json_object(j);
    srv_openapi_put(j, "description", route->summary);
    bool get = strcmp(route->method, "GET") == 0, infer = is_infer(route);
    if (route->produces & SRV_ACCEPT_OCTETS)
        srv_openapi_headers(j, tile_headers);
    else
        srv_openapi_headers(j, (const char *const[]){"Server-Timing", "Cache-Control", "Vary",
                                                     get                        ? "ETag"
                                                     : srv_route_creates(route) ? "Location"
                                                     : infer ? "Inference-Header-Content-Length"
                                                     : route->fields == srv_attention_fields
                                                         ? "X-Run-Id"
                                                         : NULL,
                                                     NULL});
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
    if (infer)
        put_binary(j, "application/octet-stream");
    if (route->produces & SRV_ACCEPT_PNG)
        put_binary(j, "image/png");
    if (route->produces & SRV_ACCEPT_SVG)
        put_media(j, "image/svg+xml", NULL, "");
    if (route->produces & SRV_ACCEPT_CSV)
        put_media(j, "text/csv", NULL, "");
    if (route->produces & SRV_ACCEPT_OCTETS)
        put_binary(j, SRV_OCTETS);
    if (route->produces & SRV_ACCEPT_EVENTS)
        put_binary(j, "text/event-stream");
    srv_json_object_end(j);
    srv_json_object_end(j);
    if (route->produces & SRV_ACCEPT_EVENTS)
        put_empty(j, "It has ended, and there is nothing new.",
                  (const char *const[]){"Server-Timing", "Cache-Control", NULL});
    if (route->produces & SRV_ACCEPT_OCTETS)
        put_empty(j, "There is nothing visible in it.", tile_headers);
}

/* With keys configured each operation names its need; without them nothing is asked for, but a key
 * that is sent does no harm. */
static void put_security(srv_json *j, const srv_route *route, bool keys) {
    static const char any[] = "[{\"key\":[]}]", admin[] = "[{\"key\":[\"admin\"]}]",
                      optional[] = "[{},{\"key\":[]}]", none[] = "[]";
    const char *text = route->access == SRV_OPEN    ? none
                       : !keys                      ? optional
                       : route->access == SRV_ADMIN ? admin
                                                    : any;
    srv_json_key(j, "security");
    srv_json_raw(j, text, strlen(text));
}

static void put_operation(srv_json *j, const srv_route *route, bool keys) {
    char method[8];
    size_t n = 0;
    for (; route->method[n] && n < sizeof method - 1; n++)
        method[n] = (char)tolower((unsigned char)route->method[n]);
    method[n] = '\0';
    srv_json_key(j, method);
    srv_json_object(j);
    put_id(j, route);
    srv_openapi_put(j, "summary", route->summary);
    put_security(j, route, keys);
    srv_openapi_parameters(j, route);
    put_body(j, route);
    srv_json_key(j, "responses");
    srv_json_object(j);
    put_answer(j, route);
    srv_openapi_refusals(j, route);
    srv_json_object_end(j);
    srv_json_object_end(j);
}

/* Rows of one path stand together or apart: each path is written at its first row. */
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
            continue; /* those of a query string are parameters */
        snprintf(name, sizeof name, "%sRequest", r->answer);
        srv_json_key(j, name);
        srv_schema_body(j, r->fields);
    }
    srv_schema_components(j);
    srv_json_object_end(j);
    srv_openapi_components(j);
    srv_json_object_end(j);
}

static bool write_document(srv_request *req) {
    srv_json j;
    srv_json_begin(&j, req);
    srv_json_object(&j);
    srv_openapi_put(&j, "openapi", "3.1.0");
    srv_json_key(&j, "info");
    srv_json_object(&j);
    srv_openapi_put(&j, "title", "attnd");
    srv_openapi_put(&j, "version", attn_version());
    srv_openapi_put(&j, "summary", "Attention outputs, exact weights and heatmaps");
    srv_openapi_put(
        &j, "description",
        "Dot-product attention over tensors that the caller sends. Every error is an "
        "application/problem+json; a null field counts as absent. Equal requests have equal "
        "answers.");
    srv_json_object_end(&j);
    srv_json_key(&j, "servers");
    srv_json_raw(&j, "[{\"url\":\"/\"}]", 13);
    put_paths(&j, req->app->keys != NULL);
    put_components(&j);
    srv_json_object_end(&j);
    return srv_json_end(&j);
}

/* It takes ten milliseconds to write, which the HTTP thread does not have for each that asks. */
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
