#include "http/head.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "http/auth.h"
#include "http/before_1_0.h"
#include "http/exchange.h"
#include "http/negotiate.h"
#include "http/repeats.h"
#include "request/intake.h"
#include "wire/container.h"

/* Returns whether the name is a token (RFC 9110, 5.6.2). Bit c % 32 of token[c / 32] says whether
 * the character c may stand in a token. */
static bool is_token(const char *name, size_t size) {
    static const uint32_t token[4] = {0, 0x03ff6cfa, 0xc7fffffe, 0x57ffffff};
    if (!size)
        return false;
    for (size_t i = 0; i < size; i++) {
        unsigned c = (unsigned char)name[i];
        if (c > 127 || !(token[c / 32] >> c % 32 & 1))
            return false;
    }
    return true;
}

static bool is(const char *key, size_t size, const char *name) {
    return strlen(name) == size && !strncasecmp(key, name, size);
}

/* Returns whether a value holds control characters other than tabs. Other servers may take a NUL or
 * a bare CR as the end of the value. */
static bool has_controls(const char *value, size_t size) {
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)value[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return true;
    }
    return false;
}

/* Returns whether the value is empty or has only characters of "host:port" (RFC 3986, 3.2.2). */
static bool is_host(const char *value) {
    size_t n = strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "-._~%!$&'()*+;=:[]");
    return value[n + strspn(value + n, " \t")] == 0;
}

/* Stores a value of X-Forwarded-For. If there are more than SRV_FORWARDED values, the earliest is
 * dropped, because the latest ones were written by the nearest proxies, which are trusted. */
static void take_forwarded(srv_head *h, const char *value) {
    if (h->forwards == SRV_FORWARDED)
        memmove(h->forwarded, h->forwarded + 1, --h->forwards * sizeof *h->forwarded);
    h->forwarded[h->forwards++] = value;
}

/* The headers of which srv_head keeps the last value. */
#define HEADER(name, value)                                                                        \
    { name, sizeof name - 1, offsetof(srv_head, value), 0 }
#define COUNTED(name, value, count)                                                                \
    { name, sizeof name - 1, offsetof(srv_head, value), offsetof(srv_head, count) }
static const struct header {
    const char *name;
    size_t size;  /* length of the name in bytes */
    size_t value; /* offset in srv_head of the member for the value */
    size_t count; /* offset of the member for the number of such lines; 0: they are not counted */
} headers[] = {
    COUNTED("Host", host, hosts),
    COUNTED("Content-Type", type, types),
    COUNTED("Content-Length", length_text, lengths),
    COUNTED("Transfer-Encoding", transfer, transfers),
    COUNTED("Content-Encoding", encoding, encodings),
    HEADER("Accept-Encoding", accept_encoding),
    COUNTED("Authorization", authorization, authorizations),
    HEADER("Expect", expect),
    HEADER("Origin", origin),
    HEADER("X-Request-Id", id),
    COUNTED("traceparent", trace, traces),
    HEADER("Inference-Header-Content-Length", infer_header),
    HEADER("Last-Event-ID", last_event_id),
    COUNTED("Idempotency-Key", idempotency_key, idempotency_keys),
    HEADER("If-Match", if_match),
    HEADER("If-None-Match", if_none_match),
    HEADER("Access-Control-Request-Method", request_method),
    HEADER("Sec-Fetch-Site", fetch_site),
    HEADER("Sec-Fetch-Mode", fetch_mode),
    HEADER("Sec-Fetch-Dest", fetch_dest),
};

static void keep_value(srv_head *h, const char *key, size_t size, const char *value) {
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        const struct header *row = &headers[i];
        if (row->size != size || strncasecmp(row->name, key, size) != 0)
            continue;
        *(const char **)(void *)((char *)h + row->value) = value;
        if (row->count)
            ++*(unsigned *)(void *)((char *)h + row->count);
        return;
    }
}

/* Called by libmicrohttpd for each header line. */
static enum MHD_Result read_header(void *cls, enum MHD_ValueKind kind, const char *key,
                                   size_t key_size, const char *value, size_t value_size) {
    srv_head *h = cls;
    (void)kind;
    if (!value)
        value = "";
    h->bad_value = h->bad_value || has_controls(value, value_size);
    if (!is_token(key, key_size))
        h->bad_name = true;
    else if (is(key, key_size, "Accept"))
        h->accept = h->accept ? h->accept : value;
    else if (is(key, key_size, "X-Forwarded-For"))
        take_forwarded(h, value);
    else if (is(key, key_size, "Prefer"))
        srv_prefer_read(value, &h->prefer);
    else
        keep_value(h, key, key_size, value);
    return MHD_YES;
}

/* Reads a number of 1 to 18 decimal digits. Returns false for any other text. */
static bool parse_length(const char *text, uint64_t *length) {
    uint64_t value = 0;
    size_t digits = strspn(text, "0123456789");
    if (!digits || text[digits] || digits > 18)
        return false;
    while (*text)
        value = value * 10 + (uint64_t)(*text++ - '0');
    *length = value;
    return true;
}

/* --- checks ---
 *
 * A check returns false after it has set the problem. srv_head_read then refuses the request. */

/* Refuses a request with an invalid head. The connection is closed after the reply, because it is
 * unknown where the next request on it would begin. */
static bool refuse_framing(srv_exchange *x, srv_code code, const char *why) {
    x->close = true;
    return srv_problem(&x->req, code, NULL, "%s", why);
}

static bool check_framing(srv_exchange *x, const char *version) {
    srv_head *h = &x->head;
    bool http10 = !strcmp(version, "HTTP/1.0"), ok = true;
    if (h->target == h->target_end) /* two spaces and nothing between them */
        ok = refuse_framing(x, SRV_BAD_REQUEST, "the request line has no target");
    else if (h->bad_uri)
        ok = refuse_framing(x, SRV_BAD_REQUEST, "the request target holds control characters");
    else if (h->hidden)
        ok = refuse_framing(
            x, SRV_BAD_REQUEST,
            "the request line or a header holds a NUL, an empty name, a folded line or "
            "spaces beyond one, or ends in something else than CR LF");
    else if (h->bad_name)
        ok = refuse_framing(x, SRV_BAD_REQUEST,
                            "a header name holds characters that no name may hold");
    else if (h->bad_value)
        ok = refuse_framing(x, SRV_BAD_REQUEST, "a header value holds control characters");
    else if (h->transfers && http10)
        ok = refuse_framing(x, SRV_BAD_REQUEST, "HTTP/1.0 knows no Transfer-Encoding");
    else if (h->transfers && h->lengths)
        ok = refuse_framing(x, SRV_BAD_REQUEST,
                            "Transfer-Encoding and Content-Length exclude each other");
    else if (h->lengths > 1)
        ok = refuse_framing(x, SRV_BAD_REQUEST, "more than one Content-Length");
    else if (h->types > 1 || h->encodings > 1)
        ok = refuse_framing(x, SRV_BAD_REQUEST, "more than one Content-Type or Content-Encoding");
    else if (h->hosts > 1 || (!http10 && !h->hosts))
        ok = refuse_framing(x, SRV_BAD_REQUEST, "exactly one Host header is needed");
    else if (h->hosts && !is_host(h->host))
        ok = refuse_framing(x, SRV_BAD_REQUEST, "the Host header is no host and port");
    else if (h->transfers > 1 || (h->transfers && strcasecmp(h->transfer, "chunked")))
        ok = refuse_framing(x, SRV_UNSUPPORTED,
                            "the only transfer coding understood is \"chunked\"");
    else if (h->lengths && !parse_length(h->length_text, &h->length))
        ok = refuse_framing(x, SRV_BAD_REQUEST, "Content-Length must be a decimal number");
    h->has_length = h->lengths == 1;
    h->chunked = h->transfers == 1;
    return ok;
}

/* Drops the header "Expect: 100-continue" of a request without a body. Such a request must not be
 * answered with "100 Continue" (RFC 9110, 10.1.1). */
static void drop_expectation(srv_exchange *x) {
    srv_head *h = &x->head;
    if (h->chunked || h->length)
        return;
    if (!strcasecmp(h->expect, "100-continue"))
        h->expect = NULL;
    srv_old_hide_expectation(x);
}

static bool safe_id(const char *id) {
    size_t n = strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return n >= 1 && n <= 128 && id[n] == 0;
}

/* Sets the request id. It is the client's id if that is safe to print, else 16 random hexadecimal
 * digits. */
static void take_id(srv_exchange *x) {
    if (x->head.id && safe_id(x->head.id)) {
        strcpy(x->id, x->head.id);
    } else {
        uint64_t bits = attn_rng_bits((uint64_t)x->req.start_ns, (uint64_t)(uintptr_t)x);
        for (int i = 0; i < 16; i++, bits >>= 4)
            x->id[i] = "0123456789abcdef"[bits & 15];
        x->id[16] = 0;
    }
    x->req.id = x->id;
}

/* Finds the client behind the trusted proxy from which the connection comes. */
static void take_client(srv_exchange *x) {
    srv_client_behind(&x->req.app->config->trusted_proxies, x->head.forwarded, x->head.forwards,
                      x->client);
    x->task.client = srv_client_number(x->client);
}

/* Begins the trace of the request (observe/log.h). A request with several traceparent headers is
 * treated as if it had none. */
static void take_trace(srv_exchange *x) {
    srv_app *app = x->req.app;
    uint64_t random[3], n = atomic_fetch_add_explicit(&app->traces, 3, memory_order_relaxed);
    for (size_t i = 0; i < 3; i++)
        random[i] = attn_rng_bits(app->trace_key[i & 1], n + i);
    srv_trace_begin(&x->trace, x->head.traces == 1 ? x->head.trace : NULL, random);
}

static bool refuse_path(srv_exchange *x) {
    srv_request *req = &x->req;
    char near[160];
    const bool known = x->match.label != x->daemon->router->label_count;
    const bool posts = known && !strcmp(req->method, "GET") && strstr(x->match.allow, "POST");
    const size_t length = strlen(req->method);
    if (known)
        srv_problem(req, SRV_METHOD, NULL, "%s is not answered here; allowed: %s%s",
                    length <= 32 && is_token(req->method, length) ? req->method : "this method",
                    x->match.allow, posts ? "; send a body (curl: -d '{…}')" : "");
    else if (srv_router_nearest(x->daemon->router, req->path, near, sizeof near))
        srv_problem(req, SRV_NOT_FOUND, NULL,
                    "there is no such path; did you mean %s? GET / lists what there is", near);
    else
        srv_problem(req, SRV_NOT_FOUND, NULL, "there is no such path; GET / lists what there is");
    if (known)
        srv_reply_header(req, "Allow", x->match.allow);
    return false;
}

/* Adds a header to the problem that was set. The header lists the values that the service accepts.
 * Returns false. */
static bool accept_only(srv_exchange *x, const char *header, const char *values) {
    srv_reply_header(&x->req, header, values);
    return false;
}

static bool check_body_type(srv_exchange *x) {
    srv_request *req = &x->req;
    const srv_head *h = &x->head;
    const srv_route *route = x->match.route;
    const bool post = srv_is_post(req);
    if (h->encoding && srv_coding_of(h->encoding) == SRV_UNKNOWN_CODING) {
        srv_problem(req, SRV_MEDIA_TYPE, NULL,
                    "the content codings understood are gzip, deflate and identity");
        return accept_only(x, "Accept-Encoding", "gzip, deflate, identity");
    }
    if (route->intake && !srv_type_is_intake(req->content_type)) {
        srv_problem(req, SRV_MEDIA_TYPE, NULL,
                    "the body must be a file in the safetensors format "
                    "(application/vnd.safetensors or application/octet-stream) or JSON "
                    "(application/json), found \"%.200s\"",
                    req->content_type);
        return accept_only(x, "Accept-Post", SRV_INTAKE_TYPES);
    }
    if (post && !route->intake && route->fields && !srv_type_is_body(req->content_type)) {
        srv_problem(req, SRV_MEDIA_TYPE, NULL,
                    "the body must be JSON (\"Content-Type: application/json\", or none at all) or "
                    "binary (application/vnd.safetensors, application/x-npy, application/x-npz), "
                    "found \"%.200s\"",
                    req->content_type);
        return accept_only(x, "Accept-Post", SRV_BODY_TYPES);
    }
    if (post && h->type && srv_type_is_json(req->content_type) && !srv_type_is_utf8(h->type)) {
        srv_problem(req, SRV_MEDIA_TYPE, NULL,
                    "JSON is read as utf-8 (RFC 8259), found \"%.200s\": leave the charset out, or "
                    "send utf-8",
                    h->type);
        return accept_only(x, "Accept-Post", SRV_BODY_TYPES);
    }
    return true;
}

static bool check_accept(srv_exchange *x) {
    srv_request *req = &x->req;
    const srv_route *route = x->match.route;
    char types[256];
    req->accept = srv_accept_choose(x->head.accept, route->produces);
    if (!req->accept && route->produces)
        return srv_problem(req, SRV_NOT_ACCEPTABLE, NULL, "this path answers with %s",
                           srv_accept_names(route->produces, types, sizeof types));
    return !x->head.accept_encoding ||
           srv_coding_choose(x->head.accept_encoding) != SRV_UNKNOWN_CODING ||
           srv_problem(req, SRV_NOT_ACCEPTABLE, NULL,
                       "the content codings of answers are identity, gzip and deflate");
}

/* Checks that there is at most one Idempotency-Key and that its length is allowed. The
 * specification writes the key in quotes, which many clients leave out; quotes count as characters
 * of the key. */
static bool check_idempotency_key(srv_exchange *x) {
    const srv_head *h = &x->head;
    const size_t size = strlen(h->idempotency_key);
    return (h->idempotency_keys <= 1 && size >= 1 && size <= SRV_REPEAT_KEY) ||
           srv_problem(&x->req, SRV_BAD_REQUEST, NULL,
                       "expected one Idempotency-Key of 1 to %d characters", SRV_REPEAT_KEY);
}

/* Refuses a query string that the route does not read. Query strings that a route reads are checked
 * by the decoder. Query strings of documents for browsers and of their files are ignored, because
 * other programs often append parameters to links. */
static bool check_query(srv_exchange *x) {
    const srv_request *req = &x->req;
    const srv_route *route = x->match.route;
    const bool read = route->fields && (!srv_is_post(req) || !strcmp(req->content_type, SRV_NPY));
    const bool ignored = !route->produces || req->accept == SRV_ACCEPT_HTML;
    return read || ignored || srv_query_refuse(&x->req, route->fields);
}

static bool check_expectation(srv_exchange *x) {
    return !strcasecmp(x->head.expect, "100-continue") ||
           srv_problem(&x->req, SRV_EXPECTATION, NULL,
                       "the only expectation understood is 100-continue");
}

/* Checks that the request can be answered: its path, method, expectation, body type and answer
 * type. The order of the checks makes the most helpful problem come first. */
static bool check_request(srv_exchange *x) {
    if (!x->match.route)
        return refuse_path(x);
    return (!x->head.expect || check_expectation(x)) &&
           (!x->head.idempotency_key || check_idempotency_key(x)) && check_body_type(x) &&
           check_accept(x) && (!*x->req.query || check_query(x));
}

/* Lets the route decide whether the body goes to an intake. If it does, checks its coding and its
 * length. */
static bool open_intake(srv_exchange *x) {
    srv_request *req = &x->req;
    const srv_head *h = &x->head;
    if (!x->match.route->intake(req, h->length))
        return false;
    if (req->intake && h->encoding) {
        srv_problem(req, SRV_MEDIA_TYPE, NULL,
                    "a body of this type is taken without a content coding, found \"%.80s\"",
                    h->encoding);
        return accept_only(x, "Accept-Encoding", "identity");
    }
    return !req->intake || h->length <= req->intake->most ||
           srv_problem_limit(req, SRV_TOO_LARGE, NULL, (double)req->intake->most,
                             req->intake->setting,
                             "the body has %llu bytes, at most %llu are taken",
                             (unsigned long long)h->length, (unsigned long long)req->intake->most);
}

/* Asks admission (load/admission.h), which bounds the memory of all bodies, for the memory of this
 * body. A body that goes to an intake needs at most the memory of the intake. */
static bool is_admitted(srv_exchange *x) {
    srv_request *req = &x->req;
    uint64_t length = x->head.length;
    if (req->intake && length > req->intake->memory)
        length = req->intake->memory;
    return srv_admission_check_length(req->app->admission, req, x->task.client, length,
                                      req->start_ns);
}

static bool is_status_path(const char *path) {
    static const char *const paths[] = {"/healthz", "/readyz", "/metrics", "/version"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (!strcmp(path, paths[i]))
            return true;
    return false;
}

/* Removes the content coding "identity", which means no coding. */
static void take_encoding(srv_exchange *x) {
    if (srv_coding_of(x->head.encoding) == SRV_IDENTITY)
        x->head.encoding = NULL;
}

/* Sets req.content_type to the media type in lower case, without parameters. */
static void take_type(srv_exchange *x) {
    const char *type = x->head.type ? x->head.type : "";
    size_t n = strcspn(type, "; \t");
    for (size_t i = 0; i < n && i < sizeof x->type - 1; i++)
        x->type[i] = (char)tolower((unsigned char)type[i]);
    x->req.content_type = x->type;
}

/* Returns the path of a request target. If the target has the absolute form "http://host/path" (RFC
 * 9112, 3.2.2), also sets h->target_host. */
static const char *path_of(const char *target, srv_head *h) {
    size_t scheme = !strncasecmp(target, "http://", 7)    ? 7
                    : !strncasecmp(target, "https://", 8) ? 8
                                                          : 0;
    if (!scheme)
        return target;
    h->target_host = target + scheme;
    const char *path = strchr(target + scheme, '/');
    return path ? path : "/";
}

/* Answers OPTIONS with the methods of the path. Browsers send OPTIONS (a CORS preflight) without an
 * API key. In a service with API keys, every path gets the same answer. Therefore a client without
 * a key learns nothing about paths. Returns false for an unknown path in a service without keys. */
static bool answer_options(srv_exchange *x) {
    static const char all[] = "GET, HEAD, POST, DELETE, OPTIONS";
    if (!strcmp(x->req.path, "*") || x->req.app->keys)
        memcpy(x->match.allow, all, sizeof all);
    else if (x->match.label == x->daemon->router->label_count)
        return false;
    srv_reply_set(&x->req, 204, NULL, "", 0);
    srv_reply_header(&x->req, "Allow", x->match.allow);
    return true;
}

static bool has_bad_bytes(const char *uri) {
    for (const unsigned char *p = (const unsigned char *)uri; *p; p++) {
        if (*p < 0x21 || *p == 0x7f)
            return true;
        /* This is a percent-encoded control character: %00 … %1f or %7f. */
        if (*p == '%' && (p[1] == '0' || p[1] == '1' || (p[1] == '7' && (p[2] | 0x20) == 'f')))
            return true;
    }
    return false;
}

void srv_head_begin(srv_head *h, const char *target) {
    h->bad_uri = has_bad_bytes(target);
    h->target = target;
    h->target_end = target + strlen(target);
}

void srv_head_unread(srv_exchange *x) {
    x->phase = SRV_AT_BODY;
    x->match.label = x->daemon->router->label_count;
    x->req.method = "";
    srv_exchange_arena(x, (size_t)x->req.app->config->in_place_memory_bytes);
    take_id(x);
    take_trace(x);
}

/* Reads the header lines and the values that every reply and log line needs. */
static void read_lines(srv_exchange *x, const char *version) {
    srv_head *h = &x->head;
    srv_request *req = &x->req;
    MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, read_header, h);
    h->hidden = srv_old_hides(x, version);
    if (x->link->proxied)
        take_client(x);
    take_id(x);
    take_trace(x);
    take_type(x);
    if (h->encoding)
        take_encoding(x);
    req->infer_header = h->infer_header;
    req->last_event_id = h->last_event_id;
    req->respond_async = h->prefer.respond_async;
    req->wait_s = h->prefer.has_wait ? h->prefer.wait_s : -1;
    req->host = h->host;
    req->secure = !x->link->plain;
    req->forwarded = h->forwards > 0;
}

/* Finds the route of the request. On the operations port, only the status paths have a route. */
static void find_route(srv_exchange *x) {
    srv_request *req = &x->req;
    bool closed = x->daemon->is_ops && !is_status_path(req->path);
    srv_router_find(x->daemon->router, req->method, closed ? "" : req->path, x->params, &x->match);
    req->params[0] = x->match.params[0];
    req->params[1] = x->match.params[1];
    req->route = x->match.label;
    req->only_400 = x->match.route && x->match.route->open_inference;
}

/* Checks that the service is not shutting down. Status paths are always served. */
static bool is_served(srv_exchange *x) {
    if (atomic_load_explicit(&x->req.app->draining, memory_order_relaxed) != SRV_REFUSING ||
        is_status_path(x->req.path))
        return true;
    x->close = true;
    return srv_problem(&x->req, SRV_DRAINING, NULL, "the server is shutting down");
}

void srv_head_read(srv_exchange *x, const char *target, const char *method, const char *version) {
    x->req.method = method;
    x->req.path = path_of(target, &x->head);
    read_lines(x, version);
    find_route(x);
    bool ok = check_framing(x, version) && !srv_body_is_refused(x); /* long targets are refused */
    if (ok && x->head.expect)
        drop_expectation(x);
    ok = ok && is_served(x) && srv_auth(x);
    if (ok && !strcmp(method, "OPTIONS") && answer_options(x))
        ok = false; /* the reply is set, and a body is not read */
    else
        ok = ok && check_request(x) && (!x->head.origin || srv_auth_body(x)) &&
             (!x->match.route->intake || open_intake(x)) && is_admitted(x);
    if (!ok)
        srv_body_refuse(x);
}
