/* Hosts and origins are compared by their parts: names without regard to case, ports with the
 * scheme's own where none is written. CORS allows no credentials, so no cookie travels; the origin
 * is repeated, never "*". */
#include "http/browser.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "http/negotiate.h"

/* A part of a header. */
typedef struct part {
    const char *text;
    size_t size;
} part;

/* Of "name:port", "1.2.3.4" or "[::1]:port". */
typedef struct authority {
    part name; /* with the brackets of IPv6, without a dot at its end */
    part port; /* empty: none is written */
} authority;

static bool same(part a, part b) {
    return a.size == b.size && !strncasecmp(a.text, b.text, a.size);
}

static part part_of(const char *text) {
    return (part){text, strlen(text)};
}

static authority split(part whole) {
    const char *end = whole.text + whole.size, *from = whole.text;
    if (whole.size && *from == '[') {
        const char *bracket = memchr(from, ']', whole.size);
        from = bracket ? bracket : from;
    }
    const char *colon = memchr(from, ':', (size_t)(end - from));
    authority a = {.name = {whole.text, (size_t)((colon ? colon : end) - whole.text)}};
    a.port = colon ? (part){colon + 1, (size_t)(end - colon - 1)} : (part){end, 0};
    a.name.size -= a.name.size > 1 && a.name.text[a.name.size - 1] == '.';
    return a;
}

static bool is_address(part name) {
    char text[INET6_ADDRSTRLEN];
    unsigned char bytes[16];
    bool brackets = name.size > 2 && *name.text == '[';
    size_t size = name.size - (brackets ? 2 : 0);
    if (size >= sizeof text)
        return false;
    memcpy(text, name.text + brackets, size);
    text[size] = 0;
    return inet_pton(brackets ? AF_INET6 : AF_INET, text, bytes) == 1;
}

/* "localhost" and names below it, which resolve to the loopback alone (RFC 6761, 6.3). */
static bool is_localhost(part name) {
    static const char local[] = "localhost";
    const size_t size = sizeof local - 1;
    return name.size >= size && !strncasecmp(name.text + name.size - size, local, size) &&
           (name.size == size || name.text[name.size - size - 1] == '.');
}

/* An entry without a port stands for every port. */
static bool is_in_hosts(const srv_texts *hosts, const authority *a) {
    for (size_t i = 0; i < hosts->count; i++) {
        const authority entry = split(part_of(hosts->items[i]));
        if (same(entry.name, a->name) && (!entry.port.size || same(entry.port, a->port)))
            return true;
    }
    return false;
}

static bool is_any(const srv_texts *hosts) {
    for (size_t i = 0; i < hosts->count; i++)
        if (!strcmp(hosts->items[i], "*"))
            return true;
    return false;
}

/* What the request is addressed to: the target in absolute form goes before Host (RFC 9112,
 * 3.2.2). */
static part addressed(const srv_exchange *x) {
    const srv_facts *f = &x->facts;
    return f->target_host ? (part){f->target_host, strcspn(f->target_host, "/?")}
           : f->host      ? (part){f->host, strcspn(f->host, " \t")}
                          : part_of("");
}

static void judge_host(srv_exchange *x) {
    const srv_texts *hosts = &x->req.app->config->hosts;
    const part whole = addressed(x);
    const authority a = split(whole);
    if (x->req.app->keys || !whole.size || is_localhost(a.name) || is_address(a.name) ||
        is_in_hosts(hosts, &a) || is_any(hosts))
        return;
    srv_problem(&x->req, SRV_MISDIRECTED, NULL,
                "without API keys the service answers to loopback names, to IP addresses and to "
                "the names of the setting \"hosts\", found \"%.*s\": add it to \"hosts\", or send "
                "the request to an address",
                (int)(whole.size < 256 ? whole.size : 256), whole.text);
    x->refused = true;
}

static bool is_cors(const srv_exchange *x) {
    const srv_texts *origins = &x->req.app->config->cors_origins;
    const char *origin = x->facts.origin;
    for (size_t i = 0; origin && i < origins->count; i++)
        if (!strcmp(origins->items[i], origin))
            return true;
    return false;
}

/* Scheme and host as the request has them, or a host behind which a proxy stands for us. */
static bool is_own(const srv_exchange *x) {
    const char *origin = x->facts.origin;
    const bool secure = !strncmp(origin, "https://", 8);
    if (!secure && strncmp(origin, "http://", 7) != 0)
        return false;
    const part usual = part_of(secure ? "443" : "80");
    authority theirs = split(part_of(origin + (secure ? 8 : 7))), ours = split(addressed(x));
    if (is_in_hosts(&x->req.app->config->hosts, &theirs))
        return true;
    theirs.port = theirs.port.size ? theirs.port : usual;
    ours.port = ours.port.size ? ours.port : usual;
    return secure == x->req.secure && same(theirs.name, ours.name) && same(theirs.port, ours.port);
}

static bool is_get(const srv_exchange *x) {
    return !strcmp(x->req.method, "GET") || !strcmp(x->req.method, "HEAD");
}

static bool says(const char *header, const char *value) {
    return header && !strcmp(header, value);
}

/* A link that somebody follows, or a picture in a page: neither lets the page read the answer. */
static bool is_link_or_picture(const srv_exchange *x) {
    const srv_route *route = x->match.route;
    bool drawn = route && route->produces & (SRV_ACCEPT_PNG | SRV_ACCEPT_SVG);
    return is_get(x) &&
           (says(x->facts.fetch_mode, "navigate") || (drawn && says(x->facts.fetch_dest, "image")));
}

/* Files of the page, which are the same for everybody and may be part of any. */
static bool is_public(const srv_exchange *x) {
    static const char folder[] = "/web/";
    return is_get(x) && !strncmp(x->req.path, folder, sizeof folder - 1);
}

static void judge_origin(srv_exchange *x) {
    const char *origin = x->facts.origin;
    if (is_public(x))
        return;
    if (origin ? is_cors(x) || is_own(x)
               : !says(x->facts.fetch_site, "cross-site") || is_link_or_picture(x))
        return;
    if (origin)
        srv_problem(&x->req, SRV_FORBIDDEN, NULL,
                    "a page of the origin \"%.200s\" may not use this service: the setting "
                    "\"cors_origins\" names those that may, \"hosts\" the names under which a "
                    "proxy serves its own",
                    origin);
    else
        srv_problem(&x->req, SRV_FORBIDDEN, NULL,
                    "a page of another site may link to this service and show its pictures, and "
                    "needs an origin of the setting \"cors_origins\" for more");
    x->refused = true;
}

/* Types for which a browser asks first, so that none comes from a page that may not ask. */
void srv_browser_judge_body(srv_exchange *x) {
    const srv_facts *f = &x->facts;
    const char *type = x->req.content_type;
    if (!f->origin || (!f->length && !f->chunked) || !strcmp(type, "application/json") ||
        !strcmp(type, SRV_OCTETS) || (*type && !srv_type_is_json(type) && srv_type_is_body(type)))
        return;
    srv_problem(&x->req, SRV_MEDIA_TYPE, NULL,
                "a page sends its body as " SRV_BODY_TYPES " or " SRV_OCTETS
                " (Content-Type), found \"%.80s\"",
                type);
    srv_reply_header(&x->req, "Accept-Post", SRV_BODY_TYPES);
    x->refused = true;
}

/* Probes and scrapers of the operations port reach it by whatever name they know. */
static bool is_probe(const srv_exchange *x) {
    return x->daemon->is_ops && strcmp(x->req.path, "/version") != 0;
}

void srv_browser_judge(srv_exchange *x) {
    if (is_probe(x))
        return;
    judge_host(x);
    if (!x->refused)
        judge_origin(x);
}

static bool add(struct MHD_Response *response, const char *name, const char *value) {
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

/* Our pictures have styles and images inside, no scripts and nothing from elsewhere: what holds
 * more is not ours, as a file that somebody has replaced. */
static bool add_policy(struct MHD_Response *response) {
    return add(response, "X-Content-Type-Options", "nosniff") &&
           add(response, "Content-Security-Policy",
               "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
               "frame-ancestors 'none'; sandbox");
}

bool srv_browser_headers(srv_exchange *x, struct MHD_Response *response) {
    const char *origin = x->facts.origin;
    bool ok = add_policy(response);
    if (is_public(x))
        return ok && add(response, "Access-Control-Allow-Origin", "*");
    if (!x->req.app->config->cors_origins.count)
        return ok;
    ok = ok && add(response, "Vary", "Origin");
    if (!is_cors(x))
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
