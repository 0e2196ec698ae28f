/* Credentials are never allowed, so no cookie travels; the origin is repeated, never "*". */
#include "http/cors.h"

#include <string.h>

static bool is_allowed(const srv_list *origins, const char *origin) {
    for (size_t i = 0; i < origins->count; i++)
        if (!strcmp(origins->items[i], origin))
            return true;
    return false;
}

static bool add(struct MHD_Response *response, const char *name, const char *value) {
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

bool srv_cors(srv_exchange *x, struct MHD_Response *response) {
    const srv_list *origins = &x->req.app->config->cors_origins;
    const char *origin = x->facts.origin;
    if (!origins->count)
        return true;
    bool ok = add(response, "Vary", "Origin");
    if (!origin || !is_allowed(origins, origin))
        return ok;
    ok = ok && add(response, "Access-Control-Allow-Origin", origin);
    if (!strcmp(x->req.method, "OPTIONS") && x->facts.request_method)
        return ok && add(response, "Access-Control-Allow-Methods", x->match.allow) &&
               add(response, "Access-Control-Allow-Headers",
                   "Authorization, Cache-Control, Content-Type, If-None-Match, "
                   "Inference-Header-Content-Length, Last-Event-ID, X-Request-Id, "
                   "traceparent") &&
               add(response, "Access-Control-Max-Age", "600");
    return ok && add(response, "Access-Control-Expose-Headers",
                     "Inference-Header-Content-Length, Location, Retry-After, X-Request-Id, "
                     "X-Run-Id, Server-Timing, ETag, WWW-Authenticate, traceparent, X-Tile-Shape, "
                     "X-Tile-Max-Range, X-Tile-Mean-Range, X-Tile-Encoding, X-Tile-Hidden, "
                     "X-Tile-Pooling");
}
