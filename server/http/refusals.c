#include "http/refusals.h"

#include <dlfcn.h>

#include "http/exchange.h"
#include "http/head.h"

srv_queue_function *srv_queue_response;

/* Writes the pointer only once, because threads of the first daemon already read it when the second
 * daemon starts. */
bool srv_refusals_begin(void) {
    if (!srv_queue_response)
        *(void **)&srv_queue_response = dlsym(RTLD_NEXT, "MHD_queue_response");
    return srv_queue_response != NULL;
}

/* Sets the problem for the status with which libmicrohttpd refuses the request. */
static void explain(srv_exchange *x, unsigned status) {
    const double buffer = (double)x->req.app->config->connection_bytes;
    switch (status) {
    case MHD_HTTP_CONTENT_TOO_LARGE:
        srv_problem(&x->req, SRV_TOO_LARGE, NULL, "the body's length is beyond 64 bits");
        break;
    case MHD_HTTP_URI_TOO_LONG:
        srv_problem_limit(&x->req, SRV_TARGET_LONG, NULL, buffer, "connection_bytes",
                          "the request line is longer than the connection's buffer");
        break;
    case MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE:
        srv_problem_limit(&x->req, SRV_HEADER_LONG, NULL, buffer, "connection_bytes",
                          "the header does not fit into the connection's buffer");
        break;
    case MHD_HTTP_HTTP_VERSION_NOT_SUPPORTED:
        srv_problem(&x->req, SRV_VERSION, NULL, "expected HTTP/1.1 or HTTP/1.0");
        break;
    case MHD_HTTP_INTERNAL_SERVER_ERROR: /* libmicrohttpd cannot fit a chunk line in its buffer */
        srv_problem_limit(&x->req, SRV_BAD_REQUEST, NULL, buffer, "connection_bytes",
                          "the line before a chunk is longer than the connection's buffer");
        break;
    default:
        srv_problem(&x->req, SRV_BAD_REQUEST, NULL,
                    "the request line, a header or a chunk is not as HTTP/1.1 writes it");
    }
}

/* Returns whether libmicrohttpd continues after this refusal as if it had not refused the request,
 * and sends a second head. It does so after an unreadable Content-Length. */
static bool goes_on(const srv_exchange *x) {
    return x->phase == SRV_AT_HEAD && MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND,
                                                                  MHD_HTTP_HEADER_CONTENT_LENGTH);
}

/* Replaces the function of this name for the calls inside libmicrohttpd. */
__attribute__((visibility("default"))) enum MHD_Result
MHD_queue_response(struct MHD_Connection *connection, unsigned status, struct MHD_Response *page) {
    srv_exchange *x = srv_daemon_exchange(connection);
    if (!x || x->phase > SRV_AT_BODY)
        return srv_queue_response(connection, status, page);
    const bool cut = goes_on(x);
    if (x->phase == SRV_AT_HEAD)
        srv_head_unread(x);
    explain(x, status);
    srv_body_refuse(x);
    x->close = x->by_library = true;
    if (!cut)
        return srv_exchange_send(x);
    srv_body_cut(x);
    return MHD_NO; /* makes libmicrohttpd close the connection */
}
