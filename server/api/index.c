/* GET /: what there is, for programs (JSON) and for a terminal (text). */
#include <string.h>

#include "api/examples.h"
#include "api/handlers.h"
#include "api/plain.h"
#include "api/route.h"

/* What the client calls this service, if a shell takes that as it is; else where it is by default.
 */
static const char *address_of(const srv_request *req) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:";
    const char *host = req->host;
    return host && *host && !host[strspn(host, safe)] ? host : "localhost:8080";
}

static const char *first_request(const srv_request *req) {
    attn_text t = {.arena = req->arena};
    attn_text_add(
        &t,
        "curl %s%s/v1/attention -d '{\"query\":[[1,0,0],[0,1,0]],\"key\":[[1,2,3],[4,5,6]],"
        "\"value\":[[0,1,0],[1,0,1]],\"is_causal\":true}'",
        req->secure ? "https://" : "", address_of(req));
    return t.failed ? "" : t.data;
}

static void index_text(srv_request *req) {
    attn_text t = srv_plain_begin(req);
    attn_text_add(&t, "attnd %s: attention outputs, exact weights and heatmaps over HTTP\n\n",
                  attn_version());
    attn_text_add(&t, "Try:\n  %s\n  (with -H 'Accept: text/plain' the answer is for reading)\n\n",
                  first_request(req));
    attn_text_add(&t, "Routes:\n");
    for (const srv_route *r = srv_routes; r->method; r++)
        if (srv_route_is_listed(r))
            attn_text_add(&t, "  %-4s %-20s %s\n", r->method, r->path, r->summary);
    attn_text_add(&t, "\nExamples:\n");
    for (const srv_file *f = srv_example_next(NULL); f; f = srv_example_next(f)) {
        srv_span title = srv_example_field(f, "title");
        attn_text_add(&t, "  %-36s %.*s\n", srv_example_href(f, req->arena), (int)title.size - 2,
                      title.data + 1);
    }
    srv_plain_end(req, &t);
}

static void write_route(srv_json *j, const srv_route *route) {
    srv_json_object(j);
    srv_json_key(j, "method");
    srv_json_string(j, route->method);
    srv_json_key(j, "path");
    srv_json_string(j, route->path);
    srv_json_key(j, "summary");
    srv_json_string(j, route->summary);
    srv_json_object_end(j);
}

srv_outcome srv_index(srv_request *req) {
    if (srv_plain(req)) {
        index_text(req);
        return SRV_DONE;
    }
    srv_json j;
    srv_json_begin(&j, req);
    srv_json_object(&j);
    srv_json_key(&j, "service");
    srv_json_string(&j, "attnd");
    srv_json_key(&j, "version");
    srv_json_string(&j, attn_version());
    srv_json_key(&j, "openapi");
    srv_json_string(&j, "/openapi.json");
    srv_json_key(&j, "try");
    srv_json_string(&j, first_request(req));
    srv_json_key(&j, "routes");
    srv_json_array(&j);
    for (const srv_route *r = srv_routes; r->method; r++)
        if (srv_route_is_listed(r))
            write_route(&j, r);
    srv_json_array_end(&j);
    srv_json_key(&j, "examples");
    srv_json_array(&j);
    for (const srv_file *f = srv_example_next(NULL); f; f = srv_example_next(f))
        srv_example_write(&j, f);
    srv_json_array_end(&j);
    srv_json_object_end(&j);
    srv_json_end(&j);
    return SRV_DONE;
}
