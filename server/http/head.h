/* Reads the head of a request, which is the request line and the header: framing, identity and
 * route. Refuses invalid requests before their body is read. libmicrohttpd 0.9.75 accepts requests
 * whose end is ambiguous (two Content-Length headers, Content-Length with Transfer-Encoding,
 * unknown transfer codings), so the framing is checked again here. */
#ifndef SRV_HEAD_H
#define SRV_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_exchange srv_exchange;

enum { SRV_FORWARDED = 8 };

/* The values of the header; NULL if a header line is missing. libmicrohttpd owns the texts. */
typedef struct srv_head {
    const char *origin, *if_match, *if_none_match, *request_method; /* last: for a CORS preflight */
    const char *accept, *type, *id, *trace, *expect, *length_text, *transfer, *encoding,
        *infer_header, *last_event_id;
    const char *accept_encoding;
    const char *authorization, *host;
    const char *target_host; /* "host:port/…" of a target in absolute form, or NULL */
    const char *forwarded[SRV_FORWARDED]; /* the last values of X-Forwarded-For, as sent */
    size_t forwards;
    const char *fetch_site, *fetch_mode, *fetch_dest; /* Sec-Fetch-… */
    unsigned authorizations;
    unsigned hosts, lengths, transfers, traces, types, encodings;
    bool bad_uri;  /* the request target holds control characters, plain or encoded */
    bool bad_name; /* a header name is no token */
    bool bad_value, bad_host;
    const char *target_end; /* end of the request target in libmicrohttpd's buffer */
    const char *line_end;   /* end of the last header line in this buffer */
    const char *body_from;  /* start of the area in this buffer into which bodies are read */
    bool hidden;            /* the header has bytes that libmicrohttpd hides, or a bare LF */
    bool has_length, chunked;
    uint64_t length; /* Content-Length */
} srv_head;

/* Checks the raw request target and remembers its end. */
void srv_head_begin(srv_head *h, const char *target);
/* Reads the header into x->head and x->req, finds the route, and refuses invalid requests. Sets
 * x->close if the framing cannot be trusted or the body is long. */
void srv_head_read(srv_exchange *x, const char *target, const char *method, const char *version);

/* Prepares x for a request with an unreadable header: an arena, an id and a trace, which every
 * reply needs. */
void srv_head_unread(srv_exchange *x);

#endif
