/* Access is denied unless the row of the route table allows it. A request for an unknown path or
 * method also needs an API key, so that a client without a key cannot find out which paths exist.
 * Bearer tokens and challenges follow RFC 6750.
 *
 * Hosts and origins are compared by name and port, and upper and lower case are the same. If an
 * origin or a request names no port, it has the default port of its scheme.
 *
 * CORS answers do not allow credentials, so browsers send no cookies. The header
 * Access-Control-Allow-Origin repeats the origin of the request; only for files under /web/ it is
 * "*". */
#include "http/auth.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "config/owner.h"
#include "http/negotiate.h"

/* --- web pages --- */

/* A part of a header value, without a NUL at its end. */
typedef struct part {
    const char *text;
    size_t size;
} part;

/* The two parts of a text such as "name:port", "1.2.3.4" or "[::1]:port". */
typedef struct authority {
    part name; /* with the brackets of an IPv6 address, without a final dot */
    part port; /* empty if the text has no port */
} authority;

static bool same(part a, part b) {
    return a.size == b.size && !strncasecmp(a.text, b.text, a.size);
}

static part part_of(const char *text) {
    return (part){text, strlen(text)};
}

/* Splits a host with an optional port into name and port. */
static authority split_authority(part whole) {
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

/* Returns whether the name is "localhost" or ends in ".localhost". Such names resolve only to
 * loopback addresses (RFC 6761, 6.3). */
static bool is_localhost(part name) {
    static const char local[] = "localhost";
    const size_t size = sizeof local - 1;
    return name.size >= size && !strncasecmp(name.text + name.size - size, local, size) &&
           (name.size == size || name.text[name.size - size - 1] == '.');
}

/* Returns whether `hosts` lists the name and port of `a`. An entry without a port matches every
 * port. */
static bool is_in_hosts(const srv_texts *hosts, const authority *a) {
    for (size_t i = 0; i < hosts->count; i++) {
        const authority entry = split_authority(part_of(hosts->items[i]));
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

/* Returns the host and port to which the request is addressed. A target in absolute form takes
 * precedence over the Host header (RFC 9112, 3.2.2). */
static part addressed(const srv_exchange *x) {
    const srv_head *h = &x->head;
    return h->target_host ? (part){h->target_host, strcspn(h->target_host, "/?")}
           : h->host      ? (part){h->host, strcspn(h->host, " \t")}
                          : part_of("");
}

/* Refuses the request if the service has no API keys and is addressed by a name that an attacker
 * could have chosen (auth.h). */
static bool check_host(srv_exchange *x) {
    const srv_texts *hosts = &x->req.app->config->hosts;
    const part whole = addressed(x);
    const authority a = split_authority(whole);
    if (x->req.app->keys || !whole.size || is_localhost(a.name) || is_address(a.name) ||
        is_in_hosts(hosts, &a) || is_any(hosts))
        return true;
    return srv_problem(
        &x->req, SRV_MISDIRECTED, NULL,
        "without API keys the service answers to loopback names, to IP addresses and to the names "
        "of the setting \"hosts\", found \"%.*s\": add it to \"hosts\", or send the request to an "
        "address",
        (int)(whole.size < 256 ? whole.size : 256), whole.text);
}

static bool is_cors(const srv_exchange *x) {
    const srv_texts *origins = &x->req.app->config->cors_origins;
    const char *origin = x->head.origin;
    for (size_t i = 0; origin && i < origins->count; i++)
        if (!strcmp(origins->items[i], origin))
            return true;
    return false;
}

/* Returns whether the Origin header names this service: its host is in the setting `hosts` (the
 * name of a proxy), or it has the scheme, name and port to which the request is addressed. */
static bool is_own(const srv_exchange *x) {
    const char *origin = x->head.origin;
    const bool secure = !strncmp(origin, "https://", 8);
    if (!secure && strncmp(origin, "http://", 7) != 0)
        return false;
    const part usual = part_of(secure ? "443" : "80");
    authority theirs = split_authority(part_of(origin + (secure ? 8 : 7))),
              ours = split_authority(addressed(x));
    if (is_in_hosts(&x->req.app->config->hosts, &theirs))
        return true;
    theirs.port = theirs.port.size ? theirs.port : usual;
    ours.port = ours.port.size ? ours.port : usual;
    return secure == x->req.secure && same(theirs.name, ours.name) && same(theirs.port, ours.port);
}

static bool is_get(const srv_exchange *x) {
    return !strcmp(x->req.method, "GET") || !strcmp(x->req.method, "HEAD");
}

static bool header_is(const char *header, const char *value) {
    return header && !strcmp(header, value);
}

/* Returns whether the browser follows a link of the page or shows a picture in it. The page cannot
 * read the answer in either case. */
static bool is_link_or_picture(const srv_exchange *x) {
    const srv_route *route = x->match.route;
    bool drawn = route && route->produces & (SRV_ACCEPT_PNG | SRV_ACCEPT_SVG);
    return is_get(x) && (header_is(x->head.fetch_mode, "navigate") ||
                         (drawn && header_is(x->head.fetch_dest, "image")));
}

/* Returns whether the request reads a file of the service's own web page, under /web/. These files
 * are public, and any site may embed them. */
static bool is_public(const srv_exchange *x) {
    static const char folder[] = "/web/";
    return is_get(x) && !strncmp(x->req.path, folder, sizeof folder - 1);
}

/* Refuses a request with an Origin or Sec-Fetch-Site header if it comes from a page that may not use
 * the service. */
static bool check_origin(srv_exchange *x) {
    const char *origin = x->head.origin;
    if (is_public(x))
        return true;
    if (origin)
        return is_cors(x) || is_own(x) ||
               srv_problem(&x->req, SRV_FORBIDDEN, NULL,
                           "a page of the origin \"%.200s\" may not use this service: the setting "
                           "\"cors_origins\" names those that may, \"hosts\" the names under which "
                           "a proxy serves its own",
                           origin);
    return !header_is(x->head.fetch_site, "cross-site") || is_link_or_picture(x) ||
           srv_problem(&x->req, SRV_FORBIDDEN, NULL,
                       "a page of another site may link to this service and show its pictures, and "
                       "needs an origin of the setting \"cors_origins\" for more");
}

/* Returns whether a request on the operations port is one of a health check or a metrics scraper.
 * These requests are accepted under every host name, because such programs use various names. */
static bool is_probe(const srv_exchange *x) {
    return strcmp(x->req.path, "/version") != 0;
}

/* --- keys --- */

static bool refuse(srv_exchange *x, srv_code code, const char *challenge, const char *why) {
    srv_problem(&x->req, code, NULL, "%s", why);
    if (challenge)
        srv_reply_header(&x->req, "WWW-Authenticate", challenge);
    return false;
}

/* Returns the token of an Authorization header "Bearer <token>", or NULL for any other value. */
static const char *bearer(const char *value) {
    static const char scheme[] = "Bearer";
    size_t n = sizeof scheme - 1;
    if (!value || strncasecmp(value, scheme, n) || value[n] != ' ')
        return NULL;
    return value + n + strspn(value + n, " ");
}

/* Checks access in a service without API keys. Routes of SRV_OWNER and SRV_ADMIN answer only if the
 * service listens on a local address and no trusted proxy names a client that is not local. All
 * other routes answer every client. */
static bool check_place(srv_exchange *x, srv_access access) {
    const bool local = x->daemon->is_local && (!x->link->proxied || srv_client_is_local(x->client));
    x->req.admin = local;
    return access < SRV_OWNER || local ||
           refuse(x, SRV_FORBIDDEN, NULL,
                  "beyond loopback this needs an API key with the right \"admin\", and the service "
                  "has no keys: see the setting keys_file");
}

/* Counts the request among the running ones of its API key, or refuses it if there are too many. */
static bool count_running(srv_exchange *x) {
    srv_app *app = x->req.app;
    size_t limit;
    x->key_runs = srv_keys_start(app->keys, x->key, (size_t)app->config->key_requests, &limit);
    if (x->key_runs)
        return true;
    bool by_setting = limit == (size_t)app->config->key_requests;
    return srv_problem_limit(
        &x->req, SRV_QUOTA, NULL, (double)limit, by_setting ? "key_requests" : "keys_file",
        "%zu request%s of this API key %s under way, as many as it may have at a time", limit,
        attn_plural(limit), limit == 1 ? "is" : "are");
}

/* Checks the API key of a request to a service with API keys. */
static bool check_key(srv_exchange *x, srv_access access) {
    const srv_head *h = &x->head;
    const char *token = bearer(h->authorization);
    bool admin = false;
    if (h->authorizations > 1)
        return refuse(x, SRV_BAD_REQUEST, NULL, "more than one Authorization header");
    if (!token)
        return refuse(
            x, SRV_UNAUTHORIZED, SRV_CHALLENGE,
            h->authorization
                ? "an API key is needed, as \"Authorization: Bearer KEY\"; found another scheme"
                : "an API key is needed, as \"Authorization: Bearer KEY\"; found none");
    x->key = srv_keys_find(x->req.app->keys, token, strlen(token), &admin);
    x->task.most = (size_t)x->req.app->config->requests_running - 1;
    if (!x->key)
        return refuse(x, SRV_UNAUTHORIZED, SRV_CHALLENGE ", error=\"invalid_token\"",
                      "the API key is not one of those that this service knows");
    x->req.owner = srv_key_name(x->key);
    x->req.admin = admin;
    x->task.client = srv_owner_of(x->req.owner);
    if (access == SRV_ADMIN && !admin)
        return refuse(x, SRV_FORBIDDEN,
                      SRV_CHALLENGE ", error=\"insufficient_scope\", scope=\"admin\"",
                      "the API key has not the right \"admin\", which this needs");
    return count_running(x);
}

/* Takes "token=…" out of the query string, so that neither the handler nor the log sees it. Returns
 * false if there is none. A token of the wrong form is ""; it opens nothing. */
static bool take_token(srv_exchange *x) {
    static const char name[] = "token=";
    char *query = x->text, *at = query;
    const size_t n = sizeof name - 1;
    while (at && strncmp(at, name, n) != 0) {
        at = strchr(at, '&');
        at = at ? at + 1 : NULL;
    }
    if (!at)
        return false;
    const size_t size = strcspn(at + n, "&");
    const bool right =
        size == SRV_READ_TOKEN && strspn(at + n, "0123456789abcdef") == SRV_READ_TOKEN;
    memcpy(x->read_token, at + n, right ? size : 0);
    x->read_token[right ? size : 0] = 0;
    const char *rest = at + n + size;
    if (*rest)
        memmove(at, rest + 1, strlen(rest));
    else
        *(at > query ? at - 1 : at) = 0;
    return true;
}

/* If the request has a read token and no API key, moves the token to req.read_token and returns
 * true. The token is compared with that of the run later, when the run is found (srv_run_hold,
 * srv_jobs_hold). If the request also has an API key, the token has no effect. */
static bool has_token(srv_exchange *x) {
    const srv_route *route = x->match.route;
    if (!route || !route->takes_token || !take_token(x) || x->head.authorizations)
        return false;
    x->req.read_token = x->read_token;
    return true;
}

/* Returns whether a browser asks for the web page. The page is public, like its files, because it
 * has a form of its own for the API key. */
static bool wants_page(const srv_exchange *x) {
    const srv_route *route = x->match.route;
    return route && route->produces & SRV_ACCEPT_HTML &&
           srv_accept_choose(x->head.accept, route->produces) == SRV_ACCEPT_HTML;
}

bool srv_auth(srv_exchange *x) {
    const srv_route *route = x->match.route;
    srv_access access = route ? route->access : SRV_KEYED;
    const bool of_page = x->head.origin || x->head.fetch_site;
    if (!(x->daemon->is_ops && is_probe(x)) && (!check_host(x) || (of_page && !check_origin(x))))
        return false;
    if (access == SRV_CLOSED)
        return refuse(x, SRV_FORBIDDEN, NULL, "this path is closed to everybody");
    if (access == SRV_OPEN || x->daemon->is_ops || wants_page(x) ||
        !strcmp(x->req.method, "OPTIONS"))
        return true;
    if (!x->req.app->keys)
        return check_place(x, access);
    if (access == SRV_KEYED && has_token(x))
        return *x->read_token ||
               refuse(x, SRV_UNAUTHORIZED, SRV_CHALLENGE,
                      "the token of the query string is none: expected the 32 digits of 0-9 a-f "
                      "that are the read_token of a run");
    return check_key(x, access);
}

/* Before a page may send a body of one of the types that are accepted here, the browser asks the
 * service by a preflight request (OPTIONS). A page whose origin is not allowed fails at the
 * preflight and cannot send its body. */
bool srv_auth_body(srv_exchange *x) {
    const srv_head *h = &x->head;
    const char *type = x->req.content_type;
    if ((!h->length && !h->chunked) || !strcmp(type, "application/json") ||
        !strcmp(type, SRV_OCTETS) || (*type && !srv_type_is_json(type) && srv_type_is_body(type)))
        return true;
    srv_problem(&x->req, SRV_MEDIA_TYPE, NULL,
                "a page sends its body as " SRV_BODY_TYPES " or " SRV_OCTETS
                " (Content-Type), found \"%.80s\"",
                type);
    srv_reply_header(&x->req, "Accept-Post", SRV_BODY_TYPES);
    return false;
}

void srv_auth_end(srv_exchange *x) {
    srv_keys *keys = x->req.app->keys;
    if (x->key_runs)
        srv_keys_finish(keys, x->key);
    srv_keys_release(keys, x->key);
    x->key = NULL;
}

/* --- what answers tell a browser --- */

static bool add(struct MHD_Response *response, const char *name, const char *value) {
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

/* Adds a Content-Security-Policy that allows inline styles and images, which SVG pictures need, but
 * no scripts and no external content. Then an answer with hostile content does no harm in a
 * browser. The files of the page have a policy of their own (api/service/page.c). */
static bool add_policy(srv_exchange *x, struct MHD_Response *response) {
    bool ok = add(response, "X-Content-Type-Options", "nosniff");
    for (size_t i = 0; i < x->req.reply.header_count; i++)
        if (!strcmp(x->req.reply.headers[i].name, "Content-Security-Policy"))
            return ok;
    return ok && add(response, "Content-Security-Policy",
                     "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
                     "frame-ancestors 'none'; sandbox");
}

bool srv_auth_headers(srv_exchange *x, struct MHD_Response *response) {
    const char *origin = x->head.origin;
    bool ok = add_policy(x, response);
    if (is_public(x))
        return ok && add(response, "Access-Control-Allow-Origin", "*");
    if (!x->req.app->config->cors_origins.count)
        return ok;
    ok = ok && add(response, "Vary", "Origin");
    if (!is_cors(x))
        return ok;
    ok = ok && add(response, "Access-Control-Allow-Origin", origin);
    if (!strcmp(x->req.method, "OPTIONS") && x->head.request_method)
        return ok && add(response, "Access-Control-Allow-Methods", x->match.allow) &&
               add(response, "Access-Control-Allow-Headers",
                   "Authorization, Cache-Control, Content-Type, Idempotency-Key, If-None-Match, "
                   "Inference-Header-Content-Length, Last-Event-ID, Prefer, X-Request-Id, "
                   "traceparent") &&
               add(response, "Access-Control-Max-Age", "600");
    return ok && add(response, "Access-Control-Expose-Headers",
                     "Idempotent-Replayed, Inference-Header-Content-Length, Location, "
                     "Preference-Applied, Retry-After, "
                     "X-Request-Id, X-Run-Id, X-Warning, Server-Timing, ETag, WWW-Authenticate, "
                     "traceparent, "
                     "X-Tile-Shape, "
                     "X-Tile-Max-Range, X-Tile-Mean-Range, X-Tile-Encoding, X-Tile-Hidden, "
                     "X-Tile-Pooling");
}
