/* The head of a request: framing, identity and route, and what is refused by it alone, before a
 * byte of the body is read. libmicrohttpd 0.9.75 lets through what makes requests ambiguous (two
 * lengths, a length beside a transfer coding, unknown codings), so the framing is judged again
 * here. */
#ifndef SRV_HEAD_H
#define SRV_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_exchange srv_exchange;

enum { SRV_FORWARDED = 8 };

/* The contents of the header; the HTTP library owns the texts. */
typedef struct srv_head {
    const char *origin, *if_match, *if_none_match, *request_method; /* of a CORS preflight */
    const char *accept, *type, *id, *trace, *expect, *length_text, *transfer, *encoding,
        *infer_header, *last_event_id;
    const char *accept_encoding;
    const char *authorization, *host;
    const char *target_host; /* of a target in absolute form, which goes on behind it, or NULL */
    const char *forwarded[SRV_FORWARDED]; /* the last values of X-Forwarded-For, in their order */
    size_t forwards;
    const char *fetch_site, *fetch_mode, *fetch_dest; /* Sec-Fetch-… */
    unsigned authorizations;
    unsigned hosts, lengths, transfers, traces, types, encodings;
    bool bad_uri;  /* control bytes or %00 in the request line */
    bool bad_name; /* a header name that is no token */
    bool bad_value, bad_host;
    const char *target_end; /* in the library's buffer, as the next two */
    const char *line_end;   /* the end of the line before */
    const char *body_from;  /* where the library reads a body into */
    bool hidden;            /* bytes that the library did not hand on, or a bare LF */
    bool has_length, chunked;
    uint64_t length; /* Content-Length */
} srv_head;

/* Reads the request line with this raw target. */
void srv_head_begin(srv_head *h, const char *target);
/* Reads the header into x->head and x->req, finds the route, and refuses invalid requests. Sets
 * x->close if the framing cannot be trusted or the body is long. */
void srv_head_read(srv_exchange *x, const char *target, const char *method, const char *version);

/* Prepares x for a request with an unreadable header: an arena, an id and a trace, which every
 * reply needs. */
void srv_head_unread(srv_exchange *x);

#endif
