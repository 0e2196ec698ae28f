#include "http/before_1_0.h"

#if MHD_VERSION < SRV_LIBRARY_STRICT

#include <dlfcn.h>
#include <string.h>
#include <strings.h>

#include "http/exchange.h"
#include "http/head.h"

/* --- the head --- */

/* The state while the parts of the head are followed in the order in which libmicrohttpd reports
 * them. */
typedef struct follower {
    const char *end; /* where the last reported part ends */
    bool gap;        /* between two parts stand other bytes than one CR LF */
} follower;

/* Called by libmicrohttpd for each header line: checks that only CR LF stands between the line and
 * the part before it. */
static enum MHD_Result follow(void *cls, enum MHD_ValueKind kind, const char *key, size_t key_size,
                              const char *value, size_t value_size) {
    follower *f = cls;
    (void)kind, (void)key_size;
    f->gap = f->gap || !value || key - f->end != 2;
    f->end = value ? value + value_size : key;
    return MHD_YES;
}

/* The head must be: method, space, target, space, version, CR LF, each header line with CR LF, and
 * another CR LF. */
bool srv_old_hides(srv_exchange *x, const char *version) {
    srv_head *h = &x->head;
    const char *method = x->req.method;
    follower f = {.end = version + strlen(version)};
    if (x->daemon->strict)
        return false;
    f.gap = h->target - (method + strlen(method)) != 1 || version - h->target_end != 1;
    MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, follow, &f);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    h->body_from = method + info->header_size;
    return f.gap || h->body_from - f.end != 4;
}

/* Called by libmicrohttpd for each header line: empties the value of Expect. */
static enum MHD_Result hide_value(void *cls, enum MHD_ValueKind kind, const char *key,
                                  size_t key_size, const char *value, size_t value_size) {
    (void)cls, (void)kind;
    if (value_size && key_size == strlen("Expect") && !strncasecmp(key, "Expect", key_size))
        *(char *)(uintptr_t)value = 0; /* writes into the buffer of libmicrohttpd */
    return MHD_YES;
}

void srv_old_hide_expectation(srv_exchange *x) {
    if (!x->daemon->strict)
        MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, hide_value, NULL);
}

/* --- lines between chunks --- */

/* Returns whether CR LF stands directly before p. */
static bool ends_before(const char *from, const char *p) {
    return p - from >= 2 && p[-1] == '\n' && p[-2] == '\r';
}

bool srv_old_line_is_clean(const char *from, const char *data) {
    if (!from || data <= from)
        return true;
    if (!ends_before(from, data))
        return false;
    const char *p = data - 2; /* the end of the line without its CR LF */
    while (p > from && p[-1] != '\n' && p[-1] != '\r')
        p--;
    return p == from || ends_before(from, p); /* the CR LF at the end of the previous chunk */
}

/* --- the library's own error pages --- */

typedef enum MHD_Result queue_function(struct MHD_Connection *, unsigned, struct MHD_Response *);

static queue_function *queue_response; /* the function of libmicrohttpd */

/* Sets queue_response only in the first call: when the second daemon starts, the HTTP thread of the
 * first one already reads it. */
bool srv_old_begin(void) {
    if (!queue_response)
        *(void **)&queue_response = dlsym(RTLD_NEXT, "MHD_queue_response");
    return queue_response != NULL;
}

/* Returns whether libmicrohttpd would continue with the request after this refusal and send a
 * second reply. It does so if it cannot read the value of Content-Length. */
static bool goes_on(const srv_exchange *x) {
    return x->phase == SRV_AT_HEAD && MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND,
                                                                  MHD_HTTP_HEADER_CONTENT_LENGTH);
}

/* Returns the exchange of the connection's present request, and makes one if there is none. NULL:
 * out of memory. */
static srv_exchange *exchange_of(srv_link *link, struct MHD_Connection *connection) {
    return link->exchange ? link->exchange : srv_daemon_begin(link, "", connection);
}

/* Replaces the function of this name, for the calls inside libmicrohttpd and for our own. */
__attribute__((visibility("default"))) enum MHD_Result
MHD_queue_response(struct MHD_Connection *connection, unsigned status, struct MHD_Response *page) {
    srv_link *link = srv_link_of(connection);
    if (!link || page == link->daemon->shortage || link->daemon->strict)
        return queue_response(connection, status, page);
    srv_exchange *x = exchange_of(link, connection);
    if (!x || x->phase > SRV_AT_BODY)
        return queue_response(connection, status, page);
    const bool cut = goes_on(x);
    if (x->phase == SRV_AT_HEAD)
        srv_head_unread(x);
    srv_library_explain(x, status);
    srv_body_refuse(x);
    x->close = x->by_library = true;
    if (!cut)
        return srv_exchange_send(x);
    srv_body_cut(x);
    return MHD_NO; /* makes libmicrohttpd close the connection */
}

#endif
