/* libmicrohttpd 0.9.75 lets through what makes requests ambiguous (two lengths, a length beside a
 * transfer coding, unknown codings), so the framing is judged again here. */
#include "http/guard.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "http/auth.h"
#include "http/browser.h"
#include "http/coding.h"
#include "http/negotiate.h"

/* RFC 9110, 5.6.2, as bits of the characters 32 ... 127. */
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

/* A NUL or a bare CR in a value, which other servers read as its end. */
static bool has_controls(const char *value, size_t size) {
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)value[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return true;
    }
    return false;
}

/* What may stand in "host:port" (RFC 3986, 3.2.2); it may be empty. */
static bool is_host(const char *value) {
    size_t n = strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "-._~%!$&'()*+;=:[]");
    return value[n + strspn(value + n, " \t")] == 0;
}

/* libmicrohttpd 0.9.75 cuts a line at a NUL, loses folded lines, takes a name that is empty for the
 * end of the header, and gives no sign of any of it. But its texts lie where they came in, so every
 * line must begin two bytes behind the end of the one before (CR LF), and the last one is followed
 * by an empty one; the library has put zeroes for CR and LF. No other version starts (daemon.h),
 * for these are bytes that it promises to nobody. */
static const char empty_line[4];

static bool ends_cleanly(const char *line_end) {
    return !memcmp(line_end, empty_line, sizeof empty_line);
}

/* Many values: the last ones are those of the nearest proxies. */
static void take_forwarded(srv_facts *f, const char *value) {
    if (f->forwards == SRV_FORWARDED)
        memmove(f->forwarded, f->forwarded + 1, --f->forwards * sizeof *f->forwarded);
    f->forwarded[f->forwards++] = value;
}

static enum MHD_Result look_at(void *cls, enum MHD_ValueKind kind, const char *key, size_t key_size,
                               const char *value, size_t value_size) {
    srv_facts *f = cls;
    (void)kind;
    if (!value)
        value = "";
    f->hidden = f->hidden || key - f->line_end != 2;
    f->line_end = value + value_size;
    f->bad_value = f->bad_value || has_controls(value, value_size);
    if (!is_token(key, key_size))
        f->bad_name = true;
    else if (is(key, key_size, "Host"))
        f->host = value, f->hosts++, f->bad_host = f->bad_host || !is_host(value);
    else if (is(key, key_size, "Accept"))
        f->accept = f->accept ? f->accept : value;
    else if (is(key, key_size, "Content-Type"))
        f->type = value, f->types++;
    else if (is(key, key_size, "Content-Length"))
        f->length_text = value, f->lengths++;
    else if (is(key, key_size, "Transfer-Encoding"))
        f->transfer = value, f->transfers++;
    else if (is(key, key_size, "Content-Encoding"))
        f->encoding = value, f->encodings++;
    else if (is(key, key_size, "Accept-Encoding"))
        f->accept_encoding = value;
    else if (is(key, key_size, "Authorization"))
        f->authorization = value, f->authorizations++;
    else if (is(key, key_size, "Expect"))
        f->expect = value;
    else if (is(key, key_size, "Origin"))
        f->origin = value;
    else if (is(key, key_size, "X-Forwarded-For"))
        take_forwarded(f, value);
    else if (is(key, key_size, "X-Request-Id"))
        f->id = value;
    else if (is(key, key_size, "traceparent"))
        f->trace = value, f->traces++;
    else if (is(key, key_size, "Inference-Header-Content-Length"))
        f->infer_header = value;
    else if (is(key, key_size, "Last-Event-ID"))
        f->last_event_id = value;
    else if (is(key, key_size, "If-Match"))
        f->if_match = value;
    else if (is(key, key_size, "If-None-Match"))
        f->if_none_match = value;
    else if (is(key, key_size, "Access-Control-Request-Method"))
        f->request_method = value;
    else if (is(key, key_size, "Sec-Fetch-Site"))
        f->fetch_site = value;
    else if (is(key, key_size, "Sec-Fetch-Mode"))
        f->fetch_mode = value;
    else if (is(key, key_size, "Sec-Fetch-Dest"))
        f->fetch_dest = value;
    return MHD_YES;
}

/* Decimal digits only, below 2^63. */
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

static void refuse(srv_exchange *x) {
    x->refused = true;
}

/* The framing cannot be trusted: nothing that follows on this connection can be, either. */
static void refuse_framing(srv_exchange *x, srv_code code, const char *why) {
    srv_problem(&x->req, code, NULL, "%s", why);
    x->refused = x->close = true;
}

static void check_framing(srv_exchange *x, const char *version) {
    srv_facts *f = &x->facts;
    bool http10 = !strcmp(version, "HTTP/1.0");
    if (x->bad_uri)
        refuse_framing(x, SRV_BAD_REQUEST, "the request target holds control characters");
    else if (f->hidden)
        refuse_framing(x, SRV_BAD_REQUEST,
                       "the request line or a header holds a NUL, an empty name or a folded line, "
                       "or ends in something else than CR LF");
    else if (f->bad_name)
        refuse_framing(x, SRV_BAD_REQUEST, "a header name holds characters that no name may hold");
    else if (f->bad_value)
        refuse_framing(x, SRV_BAD_REQUEST, "a header value holds control characters");
    else if (f->transfers && http10)
        refuse_framing(x, SRV_BAD_REQUEST, "HTTP/1.0 knows no Transfer-Encoding");
    else if (f->transfers && f->lengths)
        refuse_framing(x, SRV_BAD_REQUEST,
                       "Transfer-Encoding and Content-Length exclude each other");
    else if (f->lengths > 1)
        refuse_framing(x, SRV_BAD_REQUEST, "more than one Content-Length");
    else if (f->types > 1 || f->encodings > 1)
        refuse_framing(x, SRV_BAD_REQUEST, "more than one Content-Type or Content-Encoding");
    else if (f->hosts > 1 || (!http10 && !f->hosts))
        refuse_framing(x, SRV_BAD_REQUEST, "exactly one Host header is needed");
    else if (f->bad_host)
        refuse_framing(x, SRV_BAD_REQUEST, "the Host header is no host and port");
    else if (f->transfers > 1 || (f->transfers && strcasecmp(f->transfer, "chunked")))
        refuse_framing(x, SRV_UNSUPPORTED, "the only transfer coding understood is \"chunked\"");
    else if (f->lengths && !parse_length(f->length_text, &f->length))
        refuse_framing(x, SRV_BAD_REQUEST, "Content-Length must be a decimal number");
    f->has_length = f->lengths == 1;
    f->chunked = f->transfers == 1;
}

static enum MHD_Result hide_value(void *cls, enum MHD_ValueKind kind, const char *key,
                                  size_t key_size, const char *value, size_t value_size) {
    (void)cls, (void)kind;
    if (value_size && is(key, key_size, "Expect"))
        *(char *)(uintptr_t)value = 0; /* in the connection's own buffer */
    return MHD_YES;
}

/* Nobody waits for a 100 where there is no body (RFC 9110, 10.1.1). libmicrohttpd 0.9.75 would send
 * one, and take the next request, if it is here already, for a body: both would be lost. */
static void hide_expectation(srv_exchange *x) {
    srv_facts *f = &x->facts;
    if (!f->expect || f->chunked || f->length)
        return;
    if (!strcasecmp(f->expect, "100-continue"))
        f->expect = NULL;
    MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, hide_value, NULL);
}

static bool safe_id(const char *id) {
    size_t n = strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return n >= 1 && n <= 128 && id[n] == 0;
}

/* The client's id when it is safe to print, else 16 hexadecimal digits of our own. */
static void take_id(srv_exchange *x) {
    if (x->facts.id && safe_id(x->facts.id)) {
        strcpy(x->id, x->facts.id);
    } else {
        uint64_t bits = attn_rng_bits((uint64_t)x->req.start_ns, (uint64_t)(uintptr_t)x);
        for (int i = 0; i < 16; i++, bits >>= 4)
            x->id[i] = "0123456789abcdef"[bits & 15];
        x->id[16] = 0;
    }
    x->req.id = x->id;
}

static void take_client(srv_exchange *x) {
    if (!x->link->proxied)
        return;
    srv_client_behind(&x->req.app->config->trusted_proxies, x->facts.forwarded, x->facts.forwards,
                      x->client);
    x->task.client = srv_client_number(x->client);
}

/* Two headers name no trace. */
static void take_trace(srv_exchange *x) {
    srv_app *app = x->req.app;
    uint64_t random[3], n = atomic_fetch_add_explicit(&app->traces, 3, memory_order_relaxed);
    for (size_t i = 0; i < 3; i++)
        random[i] = attn_rng_bits(app->trace_key[i & 1], n + i);
    srv_trace_begin(&x->trace, x->facts.traces == 1 ? x->facts.trace : NULL, random);
}

/* Does the header alone make it impossible to run this? In the order of what helps the client most.
 */
static void check_request(srv_exchange *x) {
    srv_request *req = &x->req;
    srv_facts *f = &x->facts;
    const srv_route *route = x->match.route;
    if (x->match.label == x->daemon->router->label_count) {
        srv_problem(req, SRV_NOT_FOUND, NULL, "there is no such path; GET / lists what there is");
        refuse(x);
    } else if (!route) {
        srv_problem(req, SRV_METHOD, NULL, "%s is not answered here; allowed: %s",
                    srv_method_name(req->method), x->match.allow);
        srv_reply_header(req, "Allow", x->match.allow);
        refuse(x);
    } else if (f->expect && strcasecmp(f->expect, "100-continue")) {
        srv_problem(req, SRV_EXPECTATION, NULL, "the only expectation understood is 100-continue");
        refuse(x);
    } else if (srv_coding_of(f->encoding) == SRV_UNKNOWN_CODING) {
        srv_problem(req, SRV_MEDIA_TYPE, NULL,
                    "the content codings understood are gzip, deflate and identity");
        srv_reply_header(req, "Accept-Encoding", "gzip, deflate, identity");
        refuse(x);
    } else if (!strcmp(route->method, "POST") && route->fields &&
               !srv_type_is_body(req->content_type)) {
        srv_problem(req, SRV_MEDIA_TYPE, NULL,
                    "the body must be JSON (\"Content-Type: application/json\", or none at all) or "
                    "safetensors (application/vnd.safetensors), found \"%.200s\"",
                    req->content_type);
        srv_reply_header(req, "Accept-Post", SRV_BODY_TYPES);
        refuse(x);
    } else if (!strcmp(route->method, "POST") && f->type && srv_type_is_json(req->content_type) &&
               !srv_type_is_utf8(f->type)) {
        srv_problem(req, SRV_MEDIA_TYPE, NULL,
                    "JSON is read as utf-8 (RFC 8259), found \"%.200s\": leave the charset out, or "
                    "send utf-8",
                    f->type);
        srv_reply_header(req, "Accept-Post", SRV_BODY_TYPES);
        refuse(x);
    } else if (!(req->accept = srv_accept_choose(f->accept, route->produces))) {
        char types[256];
        srv_problem(req, SRV_NOT_ACCEPTABLE, NULL, "this path answers with %s",
                    srv_accept_names(route->produces, types, sizeof types));
        refuse(x);
    } else if (srv_coding_choose(f->accept_encoding) == SRV_UNKNOWN_CODING) {
        srv_problem(req, SRV_NOT_ACCEPTABLE, NULL,
                    "the content codings of answers are identity, gzip and deflate");
        refuse(x);
    }
}

static bool is_status_path(const char *path) {
    static const char *const paths[] = {"/healthz", "/readyz", "/metrics", "/version"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (!strcmp(path, paths[i]))
            return true;
    return false;
}

/* Codings that change nothing are as none at all. */
static void take_encoding(srv_exchange *x) {
    if (srv_coding_of(x->facts.encoding) == SRV_IDENTITY)
        x->facts.encoding = NULL;
}

static void take_type(srv_exchange *x) {
    const char *type = x->facts.type ? x->facts.type : "";
    size_t n = strcspn(type, "; \t");
    for (size_t i = 0; i < n && i < sizeof x->type - 1; i++)
        x->type[i] = (char)tolower((unsigned char)type[i]);
    x->req.content_type = x->type;
}

/* The path of a target in absolute form, "http://host/path", which a server must take as well (RFC
 * 9112, 3.2.2). */
static const char *path_of(const char *target, srv_facts *f) {
    size_t scheme = !strncasecmp(target, "http://", 7)    ? 7
                    : !strncasecmp(target, "https://", 8) ? 8
                                                          : 0;
    if (!scheme)
        return target;
    f->target_host = target + scheme;
    const char *path = strchr(target + scheme, '/');
    return path ? path : "/";
}

/* A preflight carries no key, so where keys are asked for every path gets the same answer. */
static bool answer_options(srv_exchange *x, bool star) {
    static const char all[] = "GET, HEAD, POST, DELETE, OPTIONS";
    if (star || x->req.app->keys)
        memcpy(x->match.allow, all, sizeof all);
    else if (x->match.label == x->daemon->router->label_count)
        return false;
    srv_reply_set(&x->req, 204, NULL, "", 0);
    srv_reply_header(&x->req, "Allow", x->match.allow);
    refuse(x);
    return true;
}

void srv_guard_unread(srv_exchange *x) {
    x->phase = SRV_BODY;
    x->match.label = x->daemon->router->label_count;
    x->req.method = "";
    srv_exchange_arena(x, (size_t)x->req.app->config->in_place_memory_bytes);
    take_id(x);
    take_trace(x);
}

void srv_guard(srv_exchange *x, const char *target, const char *method, const char *version) {
    srv_request *req = &x->req;
    const char *url = path_of(target, &x->facts);
    x->facts.line_end = version + strlen(version);
    MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, look_at, &x->facts);
    bool hidden = x->facts.hidden || version - x->target_end != 1;
    x->facts.hidden = hidden || !ends_cleanly(x->facts.line_end);
    x->facts.body_from = x->facts.line_end + sizeof empty_line;
    req->method = method;
    req->path = url;
    take_client(x);
    take_id(x);
    take_trace(x);
    take_type(x);
    take_encoding(x);
    req->infer_header = x->facts.infer_header;
    req->last_event_id = x->facts.last_event_id;
    req->host = x->facts.host;
    req->secure = !x->link->plain;
    bool star = !strcmp(method, "OPTIONS") && !strcmp(url, "*");
    /* The ops port has a few rows of the same table. */
    bool closed = x->daemon->is_ops && !is_status_path(url);
    srv_router_find(x->daemon->router, method, closed ? "" : url, x->params, &x->match);
    req->params[0] = x->match.params[0];
    req->params[1] = x->match.params[1];
    req->route = x->match.label;
    req->only_400 = !strncmp(url, "/v2/", 4);
    check_framing(x, version);
    if (x->refused)
        return;
    hide_expectation(x);
    if (atomic_load_explicit(&req->app->draining, memory_order_relaxed) == SRV_REFUSING &&
        !is_status_path(url)) {
        srv_problem(req, SRV_DRAINING, NULL, "the server is shutting down");
        x->refused = x->close = true;
        return;
    }
    srv_browser_judge(x);
    if (!x->refused)
        srv_auth(x);
    if (x->refused)
        return;
    if (!strcmp(method, "OPTIONS") && answer_options(x, star))
        return;
    check_request(x);
    if (!x->refused)
        srv_browser_judge_body(x);
    if (!x->refused && !srv_admission_header(req->app->admission, req, x->task.client,
                                             x->facts.length, req->start_ns))
        refuse(x);
}
