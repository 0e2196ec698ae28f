/* A request on its way through the rooms: server/http fills the upper half, server/wire and
 * server/api read it and leave a reply in the lower half. One arena holds all of it. It lives as
 * long as the exchange around the request, whose three references server/http/exchange.h lists. */
#ifndef SRV_REQUEST_H
#define SRV_REQUEST_H

#include <attn/attn.h>

typedef struct srv_app srv_app;                   /* shared.h */
typedef struct srv_config srv_config;             /* config/config.h */
typedef struct srv_decoded_body srv_decoded_body; /* wire/container.h */
typedef struct srv_parts srv_parts;
typedef struct srv_stream srv_stream; /* stream.h */

#define SRV_OCTETS "application/octet-stream"

typedef struct srv_header {
    const char *name, *value;
} srv_header;

/* What the client can read, from Accept: bits. */
enum {
    SRV_ACCEPT_JSON = 1,
    SRV_ACCEPT_TEXT = 2,
    SRV_ACCEPT_SAFETENSORS = 4,
    SRV_ACCEPT_NPY = 8,
    SRV_ACCEPT_PNG = 16,
    SRV_ACCEPT_SVG = 32,
    SRV_ACCEPT_CSV = 64,
    SRV_ACCEPT_OCTETS = 128,
    SRV_ACCEPT_EVENTS = 256
};

/* A body in pieces, sent in order from where they are: arena or static memory, as for body. */
typedef struct srv_piece {
    const void *data;
    size_t size;
} srv_piece;

#define SRV_REPLY_HEADERS 16

typedef struct srv_reply {
    int status;          /* 0 = nothing yet */
    unsigned problem;    /* srv_code + 1 of a problem, else 0 */
    const char *setting; /* of a problem: the limit that was hit, or NULL */
    const char *type;    /* media type */
    const char *body;    /* arena or static memory that outlives the response */
    size_t size;
    const srv_piece *pieces; /* instead of body, `size` bytes in all; or NULL */
    size_t piece_count;
    srv_stream *stream; /* instead of body; size grows as it goes out; or NULL */
    srv_header headers[SRV_REPLY_HEADERS];
    size_t header_count;
} srv_reply;

typedef struct srv_request srv_request;
struct srv_request {
    srv_app *app;
    attn_arena *arena;
    const char *method;
    const char *path;          /* decoded, "/v1/examples/causal" */
    const char *params[2];     /* values of {…} in the route's template, in order */
    const char *id;            /* X-Request-Id: the client's when safe, else ours */
    const char *query;         /* raw query string without "?", or "" */
    const char *content_type;  /* lower case, without parameters; "" if absent */
    const char *if_none_match; /* the header, or NULL */
    const char *last_event_id; /* Last-Event-ID, or NULL */
    const char *host;          /* Host, or NULL */
    bool secure;               /* it came by TLS */
    const char *owner;         /* the name of its API key; NULL: the service has no keys */
    bool admin;                /* its key has this right, or it came by loopback without keys */
    const char *infer_header;  /* Inference-Header-Content-Length, or NULL */
    unsigned accept;
    const char *body; /* NUL-terminated after size bytes */
    size_t body_size;
    attn_control control; /* deadline and cancel flag */
    atomic_int cancel;
    /* What to decode instead of the body (wire/container.h), or NULL. */
    const srv_decoded_body *decoded_body;
    srv_parts *parts;     /* the JSON writer puts tensors here; or NULL */
    bool own_deadline;    /* the deadline is the request's own, nearer than request_timeout_ms */
    bool only_400;        /* what is 422 elsewhere is 400 here (/v2) */
    bool in_place;        /* on the HTTP thread: small work only, else the handler defers */
    bool later;        /* its handler returned early, and is called again when long work may run */
    size_t route;      /* index of its route's path among the labels of the meters */
    double operations; /* floating-point operations of its work once they are known, else 0 */
    int64_t admitted_ns; /* processor time that it had used when they became known */
    /* Called on a request thread, when the reply is a stream: from now on the request and its reply
     * belong to server/http, while the handler keeps the arena and goes on (stream.h). */
    void (*go_out)(srv_request *req);
    /* Seconds for Retry-After, of a problem that asks the client to come again; NULL: 1. */
    const char *(*retry_after)(const srv_request *req);
    int64_t start_ns, queued_ns, decode_ns, compute_ns, encode_ns; /* durations but start */
    srv_reply reply;
};

typedef enum srv_outcome {
    SRV_DONE, /* the reply is in req->reply */
    /* The work is too much for the HTTP thread (only when req->in_place): the reply and what is in
     * the arena are dropped, and the handler is called again on a request thread. */
    SRV_DEFER,
} srv_outcome;

/* The pool for this request's work: NULL on the HTTP thread, which must not wait for a slot, and
 * where there is no service. */
attn_pool *srv_request_pool(const srv_request *req);

/* May the request delete what belongs to `owner`, the name of a key, or NULL: to all? Owners and
 * admins may. false: the problem 403 is set. */
bool srv_request_owns(srv_request *req, const char *owner);
/* May the request see what belongs to `owner`? Everybody sees what belongs to all, owners their
 * own, admins everything. */
bool srv_request_sees(const srv_request *req, const char *owner);

/* Set the request's own deadline, which only moves nearer. */
void srv_request_finish_by(srv_request *req, int64_t by_ns);

/* Add a reply header, or give it another value; name and value must outlive the response (arena or
 * static). More than SRV_REPLY_HEADERS are a mistake of the program, and make the reply a 500. */
void srv_reply_header(srv_request *req, const char *name, const char *value);
/* Set the whole reply. */
void srv_reply_set(srv_request *req, int status, const char *type, const char *body, size_t size);
/* Value of a query parameter, percent-decoded into the arena, or NULL. */
const char *srv_query(srv_request *req, const char *name);

/* --- errors: one body, application/problem+json, one table from code to status (wire/problem.c)
 * --- */

/* Stable codes. The table gives HTTP status and title. */
typedef enum srv_code {
    SRV_MALFORMED,       /* 400 malformed_json, broken framing */
    SRV_BAD_REQUEST,     /* 400 other: bad query parameter, bad header */
    SRV_UNAUTHORIZED,    /* 401 */
    SRV_FORBIDDEN,       /* 403 */
    SRV_NOT_FOUND,       /* 404 */
    SRV_METHOD,          /* 405 (Allow is set by the router) */
    SRV_NOT_ACCEPTABLE,  /* 406 */
    SRV_TIMEOUT,         /* 408 */
    SRV_GONE,            /* 410 */
    SRV_LENGTH_REQUIRED, /* 411 */
    SRV_PRECONDITION,    /* 412 If-Match */
    SRV_TOO_LARGE,       /* 413 what can never fit */
    SRV_TARGET_LONG,     /* 414 */
    SRV_MEDIA_TYPE,      /* 415 */
    SRV_EXPECTATION,     /* 417 */
    SRV_MISDIRECTED,     /* 421 a Host that the service is not known by */
    SRV_UNKNOWN_FIELD,   /* 422 */
    SRV_TYPE,            /* 422 a value of the wrong JSON type */
    SRV_VALUE,           /* 422 a value outside its range or set */
    SRV_SHAPE,           /* 422 shapes that do not fit */
    SRV_DTYPE,           /* 422 */
    SRV_MASK_SEMANTICS,  /* 422 a 0/1 mask without a declared meaning */
    SRV_NONFINITE,       /* 422 NaN, infinity, beyond float32 */
    SRV_QUOTA,           /* 429 */
    SRV_HEADER_LONG,     /* 431 */
    SRV_INTERNAL,        /* 500 never on purpose */
    SRV_UNSUPPORTED,     /* 501 */
    SRV_QUEUE_FULL,      /* 503 + Retry-After */
    SRV_MEMORY_BUDGET,   /* 503 + Retry-After */
    SRV_DRAINING,        /* 503 + Retry-After */
    SRV_STORAGE,         /* 503 + Retry-After: a file of ours cannot be opened or written */
    SRV_DEADLINE,        /* 504 */
    SRV_VERSION,         /* 505 */
    SRV_STORAGE_FULL,    /* 507 */
    SRV_CODE_COUNT
} srv_code;

int srv_code_status(srv_code code);
const char *srv_code_name(srv_code code); /* "malformed_json", "queue_full", … */

/* Make the problem reply. `pointer`: JSON pointer ("/attn_mask/0") or NULL. Replaces any reply. */
void srv_problem(srv_request *req, srv_code code, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A file of the service's own cannot be used: storage_full, storage_failed or, when there is no
 * memory, memory_budget; the detail is `what`, then the system's words for the errno value. */
void srv_problem_file(srv_request *req, const char *pointer, const char *what, int failed);
/* The same with the limit that was hit and the setting that raises it. */
void srv_problem_limit(srv_request *req, srv_code code, const char *pointer, double limit,
                       const char *setting, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* The request's arena is used up: 413 with max_request_bytes. `text` says for what. */
void srv_problem_memory(srv_request *req, const char *pointer, const char *text);
/* Is the reply such a problem? With more memory the request may be answered. */
bool srv_problem_is_memory(const srv_request *req);
/* A library error as a problem: status -> code, where "query/0" -> pointer "/query/0". */
void srv_problem_error(srv_request *req, const attn_error *err);

#endif
