/* Credentials are never allowed, so no cookie travels; the origin is repeated, never "*". */
#include "http/cors.h"

#include <string.h>

static bool is_allowed(const srv_list *origins, const char *origin) {
    for (size_t i = 0; i < origins->count; i++)
        if (!strcmp(origins->items[i], origin))
            return true;
    return false;
}

void srv_cors(srv_exchange *x, struct MHD_Response *response) {
    const srv_list *origins = &x->req.app->config->cors_origins;
    const char *origin = x->facts.origin;
    if (!origins->count)
        return;
    MHD_add_response_header(response, "Vary", "Origin");
    if (!origin || !is_allowed(origins, origin))
        return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
    if (!strcmp(x->req.method, "OPTIONS") && x->facts.request_method) {
        MHD_add_response_header(response, "Access-Control-Allow-Methods", x->match.allow);
        MHD_add_response_header(response, "Access-Control-Allow-Headers",
                                "Authorization, Content-Type, Inference-Header-Content-Length, "
                                "X-Request-Id, traceparent");
        MHD_add_response_header(response, "Access-Control-Max-Age", "600");
    } else {
        MHD_add_response_header(response, "Access-Control-Expose-Headers",
                                "Inference-Header-Content-Length, Retry-After, X-Request-Id, "
                                "Server-Timing, ETag");
    }
}
