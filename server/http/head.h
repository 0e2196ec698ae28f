/* Reads the head of a request, which is the request line and the header lines: the framing (how
 * long the body is), who sends the request, and the route. Invalid requests are refused before
 * their body is read.
 *
 * libmicrohttpd accepts requests whose end is ambiguous: with two Content-Length headers, before
 * version 1.0 also with Content-Length and Transfer-Encoding, or with an unknown transfer coding. A
 * proxy may understand such a request differently, so the framing is checked again here. */
#ifndef SRV_HEAD_H
#define SRV_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/prefer.h"

typedef struct srv_exchange srv_exchange;

enum { SRV_FORWARDED = 8 }; /* most values of X-Forwarded-For that are kept */

/* The contents of the head. libmicrohttpd owns the texts. */
typedef struct srv_head {
    /* Values of header lines; NULL: there is no such line. */
    const char *origin, *if_match, *if_none_match;
    const char *request_method; /* Access-Control-Request-Method, of a CORS preflight */
    const char *accept, *type, *id, *trace, *expect, *length_text, *transfer, *encoding,
        *infer_header, *last_event_id;
    const char *accept_encoding;
    const char *authorization, *host, *idempotency_key;
    const char *target_host; /* "host:port/…" of a target in absolute form; NULL: another form */
    const char *forwarded[SRV_FORWARDED]; /* the last values of X-Forwarded-For, as sent */
    size_t forwards;                      /* number of values in `forwarded` */
    srv_prefer prefer;                    /* preferences of all Prefer headers together */
    const char *fetch_site, *fetch_mode, *fetch_dest; /* Sec-Fetch-… */
    /* Numbers of header lines, for headers that may occur only once. */
    unsigned authorizations, idempotency_keys;
    unsigned hosts, lengths, transfers, traces, types, encodings;
    bool bad_uri;   /* the request target has control characters, plain or percent-encoded */
    bool bad_name;  /* a header name has characters that are not allowed in a name */
    bool bad_value; /* a header value has control characters */
    /* Addresses in the buffer of libmicrohttpd before 1.0 (before_1_0.h). */
    const char *target, *target_end; /* the request target as received */
    const char *body_from; /* begin of the area into which bodies are read; NULL: not known */
    bool hidden;           /* the head has bytes that libmicrohttpd does not report, or a bare LF */
    bool has_length, chunked;
    uint64_t length; /* Content-Length; 0: none */
} srv_head;

/* Checks the request target as received and notes its end. */
void srv_head_begin(srv_head *h, const char *target);
/* Reads the header lines into x->head and x->req, finds the route, checks access and framing, and
 * refuses requests that cannot be answered. Sets x->close if the connection must be closed after
 * the reply, because it is then unknown where the next request begins. */
void srv_head_read(srv_exchange *x, const char *target, const char *method, const char *version);

/* Prepares x for the reply to a request whose header could not be read: makes an arena, a request
 * id and a trace, which every reply needs. */
void srv_head_unread(srv_exchange *x);

#endif
