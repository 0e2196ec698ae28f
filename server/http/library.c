#include "http/library.h"

#include <microhttpd.h>
#include <stdio.h>

#include "http/exchange.h"
#include "http/head.h"

/* Returns the version as a number: 9075 for "0.9.75", 1000001 for "1.0.1". 0: it is no version. */
static unsigned long number_of(const char *version) {
    unsigned major = 0, minor = 0, patch = 0;
    const int parts = sscanf(version, "%3u.%3u.%3u", &major, &minor, &patch);
    return parts >= 2 ? (major * 1000ul + minor) * 1000ul + patch : 0;
}

bool srv_library_is_strict(void) {
    return number_of(MHD_get_version()) >= 1000000;
}

const char *srv_library_unfit(const char **version) {
    *version = MHD_get_version();
    if (number_of(*version) < 9075)
        return "expected version 0.9.75 or a newer one";
    if (MHD_VERSION >= SRV_LIBRARY_STRICT && !srv_library_is_strict())
        return "this program was built with the headers of version 1.0 or a newer one, and leaves "
               "the checks of requests to the library; build it with the headers of the library "
               "that is installed here";
    return NULL;
}

void srv_library_explain(srv_exchange *x, unsigned status) {
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

void srv_library_note_refusal(srv_exchange *x) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_HTTP_STATUS);
    if (!info)
        return;
    const unsigned status = info->http_status;
    if (x->phase == SRV_AT_HEAD)
        srv_head_unread(x);
    srv_library_explain(x, status);
    x->req.reply.status = (int)status;
    x->req.reply.size = 0; /* the size of the library's page is not known */
    x->phase = SRV_SENT;
    x->by_library = true;
}
