/* The functions of a request that do not depend on HTTP. */
#include "request/request.h"

#include <string.h>

#include "number/digits.h"
#include "request/shared.h"

bool srv_reads_text(const srv_request *req) {
    return (req->accept & SRV_ACCEPT_TEXT) != 0 && (req->accept & SRV_ACCEPT_JSON) == 0;
}

bool srv_draws(const srv_request *req) {
    return (req->accept & SRV_ACCEPT_DRAWN) != 0;
}

attn_pool *srv_request_pool(const srv_request *req) {
    return req->in_place || !req->app ? NULL : req->app->pool;
}

bool srv_request_owns(srv_request *req, const char *owner) {
    const bool own = owner ? req->owner && !strcmp(req->owner, owner) : !req->owner;
    if (own || req->admin)
        return true;
    return srv_problem(
        req, SRV_FORBIDDEN, NULL,
        owner ? "this belongs to another API key: its owner may delete it, or a key with "
                "the right \"admin\""
              : "this is shared by all: a key with the right \"admin\" may delete it");
}

bool srv_request_sees(const srv_request *req, const char *owner) {
    return !owner || req->admin || (req->owner && !strcmp(req->owner, owner));
}

bool srv_request_opens(const srv_request *req, const char *token) {
    unsigned different = 0;
    if (!req->read_token)
        return true;
    if (!token || strlen(token) != SRV_READ_TOKEN)
        return false;
    for (size_t i = 0; i < SRV_READ_TOKEN; i++)
        different |= (unsigned)(token[i] ^ req->read_token[i]);
    return !different;
}

void srv_request_refuse_token(srv_request *req) {
    srv_problem(req, SRV_UNAUTHORIZED, NULL,
                "the token of the query string does not open this: it is the token of another run, "
                "or what it opened is no longer kept");
    srv_reply_header(req, "WWW-Authenticate", SRV_CHALLENGE);
}

void srv_request_finish_by(srv_request *req, int64_t by_ns) {
    if (req->control.deadline_ns != 0 && by_ns >= req->control.deadline_ns)
        return;
    req->control.deadline_ns = by_ns;
    req->own_deadline = true;
}

/* Writes `size` bytes of a query string to `out`, with %XX and "+" decoded, and a NUL. */
static void decode_query(char *out, const char *from, size_t size) {
    for (size_t i = 0; i < size; i++) {
        int high = from[i] == '%' && i + 2 < size ? attn_hex_digit(from[i + 1]) : -1;
        int low = high >= 0 ? attn_hex_digit(from[i + 2]) : -1;
        if (low >= 0) {
            *out++ = (char)(high * 16 + low);
            i += 2;
        } else {
            *out++ = from[i] == '+' ? ' ' : from[i];
        }
    }
    *out = 0;
}

const char *srv_query(srv_request *req, const char *name) {
    size_t length = strlen(name);
    for (const char *p = req->query; *p;) {
        size_t size = strcspn(p, "&");
        if (size >= length && !strncmp(p, name, length) && (size == length || p[length] == '=')) {
            const char *value = p + length + (size > length);
            size_t bytes = size - (size_t)(value - p);
            char *text = attn_arena_small(req->arena, bytes + 1);
            if (text)
                decode_query(text, value, bytes);
            return text;
        }
        p += size + (p[size] == '&');
    }
    return NULL;
}
