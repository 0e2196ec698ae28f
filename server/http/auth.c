/* Denied is the default. A route answers only whom its row of the table names; what is in no row,
 * an unknown path or method, is asked for with a key like everything else, so that without one
 * there is nothing to be learned. Bearer tokens and challenges as in RFC 6750. */
#include "http/auth.h"

#include <string.h>
#include <strings.h>

#include "api/route.h"
#include "config/owner.h"

#define CHALLENGE "Bearer realm=\"attnd\""

static void refuse(srv_exchange *x, srv_code code, const char *challenge, const char *why) {
    srv_problem(&x->req, code, NULL, "%s", why);
    if (challenge)
        srv_reply_header(&x->req, "WWW-Authenticate", challenge);
    x->refused = true;
}

/* The token of "Bearer <token>", or NULL. */
static const char *bearer(const char *value) {
    static const char scheme[] = "Bearer";
    size_t n = sizeof scheme - 1;
    if (!value || strncasecmp(value, scheme, n) || value[n] != ' ')
        return NULL;
    return value + n + strspn(value + n, " ");
}

/* Without keys everybody may do what changes nothing for others. */
static void judge_place(srv_exchange *x, srv_access access) {
    x->req.admin = x->daemon->is_local;
    if (access >= SRV_OWNER && !x->daemon->is_local)
        refuse(
            x, SRV_FORBIDDEN, NULL,
            "beyond loopback this needs an API key with the right \"admin\", and the service has "
            "no keys: see the setting keys_file");
}

static void start(srv_exchange *x) {
    srv_app *app = x->req.app;
    size_t limit;
    x->key_runs = srv_keys_start(app->keys, x->key, (size_t)app->config->key_requests, &limit);
    if (x->key_runs)
        return;
    bool by_setting = limit == (size_t)app->config->key_requests;
    srv_problem_limit(
        &x->req, SRV_QUOTA, NULL, (double)limit, by_setting ? "key_requests" : "keys_file",
        "%zu requests of this API key are under way, as many as it may have at a time", limit);
    x->refused = true;
}

static void judge_key(srv_exchange *x, srv_access access) {
    const srv_facts *f = &x->facts;
    const char *token = bearer(f->authorization);
    bool admin = false;
    if (f->authorizations > 1) {
        refuse(x, SRV_BAD_REQUEST, NULL, "more than one Authorization header");
        return;
    }
    if (!token) {
        refuse(x, SRV_UNAUTHORIZED, CHALLENGE,
               f->authorization
                   ? "an API key is needed, as \"Authorization: Bearer KEY\"; found another scheme"
                   : "an API key is needed, as \"Authorization: Bearer KEY\"; found none");
        return;
    }
    x->key = srv_keys_find(x->req.app->keys, token, strlen(token), &admin);
    if (!x->key)
        refuse(x, SRV_UNAUTHORIZED, CHALLENGE ", error=\"invalid_token\"",
               "the API key is not one of those that this service knows");
    else if (access == SRV_ADMIN && !admin)
        refuse(x, SRV_FORBIDDEN, CHALLENGE ", error=\"insufficient_scope\", scope=\"admin\"",
               "the API key has not the right \"admin\", which this needs");
    else
        start(x);
    x->req.owner = x->key ? srv_key_name(x->key) : NULL;
    if (x->key)
        x->task.client = srv_owner_of(x->req.owner);
    x->task.most = (size_t)x->req.app->config->requests_running - 1;
    x->req.admin = admin;
}

void srv_auth(srv_exchange *x) {
    const srv_route *route = x->match.route;
    srv_access access = route ? route->access : SRV_KEYED;
    if (access == SRV_CLOSED)
        refuse(x, SRV_FORBIDDEN, NULL, "this path is closed to everybody");
    if (x->refused || access == SRV_OPEN || x->daemon->is_ops || !strcmp(x->req.method, "OPTIONS"))
        return;
    if (x->req.app->keys)
        judge_key(x, access);
    else
        judge_place(x, access);
}

void srv_auth_end(srv_exchange *x) {
    srv_keys *keys = x->req.app->keys;
    if (!x->key)
        return;
    if (x->key_runs)
        srv_keys_finish(keys, x->key);
    srv_keys_release(keys, x->key);
    x->key = NULL;
}
