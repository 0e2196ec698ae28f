/* A request with its reply. server/http fills in the members of the request; server/wire and
 * server/api read them and set the reply. Both use the arena of the request. The request is a
 * member of an exchange (server/http/exchange.h) and lives as long as the exchange. */
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

/* The media types of answers, as bits. */
enum {
    SRV_ACCEPT_JSON = 1,
    SRV_ACCEPT_TEXT = 2,
    SRV_ACCEPT_SAFETENSORS = 4,
    SRV_ACCEPT_NPY = 8,
    SRV_ACCEPT_PNG = 16,
    SRV_ACCEPT_SVG = 32,
    SRV_ACCEPT_CSV = 64,
    SRV_ACCEPT_OCTETS = 128,
    SRV_ACCEPT_EVENTS = 256,
    /* These can hold a heatmap and nothing else. A route may offer them if its handler ends in
     * srv_heat_reply or srv_heat_draw. */
    SRV_ACCEPT_DRAWN = SRV_ACCEPT_PNG | SRV_ACCEPT_SVG | SRV_ACCEPT_CSV
};

/* A piece of a reply's body, in arena or static memory. Pieces are sent in order without a copy. */
typedef struct srv_piece {
    const void *data;
    size_t size;
} srv_piece;

#define SRV_REPLY_HEADERS 16

typedef struct srv_reply {
    int status;          /* 0: no reply yet */
    unsigned problem;    /* srv_code + 1 of a problem, else 0 */
    const char *setting; /* for a problem: the setting whose limit was hit, or NULL */
    const char *type;    /* media type */
    const char *body;    /* arena or static memory that outlives the response */
    size_t size;
    const srv_piece *pieces; /* the body in pieces, `size` bytes in all; NULL: it is in `body` */
    size_t piece_count;
    srv_stream *stream; /* the body as a stream; `size` counts its sent bytes; or NULL */
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
    const char *id;            /* X-Request-Id of the client if safe to print, else a random id */
    const char *query;         /* raw query string without "?", or "" */
    const char *content_type;  /* lower case, without parameters; "" if absent */
    const char *if_none_match; /* If-None-Match, or NULL */
    const char *last_event_id; /* Last-Event-ID, or NULL */
    const char *host;          /* Host, or NULL */
    bool secure;               /* true: received over TLS */
    const char *owner;         /* name of the API key; NULL: the service has no keys */
    bool admin;                /* true: an admin key, or a local service without keys */
    const char *infer_header;  /* Inference-Header-Content-Length, or NULL */
    unsigned accept;
    const char *body; /* NUL-terminated after size bytes */
    size_t body_size;
    attn_control control; /* the deadline, and a pointer to `cancel` */
    atomic_int cancel;
    const srv_decoded_body *decoded_body; /* is decoded instead of `body`; or NULL */
    srv_parts *parts;                     /* where the JSON writer puts tensors; or NULL */
    bool own_deadline; /* the client asked for the deadline, which precedes request_timeout_ms */
    bool only_400;     /* true (for /v2): problems of status 422 get status 400 instead */
    bool in_place;     /* on the HTTP thread: the handler returns SRV_DEFER unless work is small */
    bool later;        /* the handler is called again when long work may run */
    size_t route;      /* index of the route's path among the labels of the metrics */
    double operations; /* floating-point operations of the work, or 0 before they are known */
    int64_t admitted_ns; /* processor time used before `operations` was set */
    /* Sends a reply that is a stream while the handler continues. Called on a request thread. The
     * request and its reply then belong to server/http, the arena to the handler (stream.h). */
    void (*go_out)(srv_request *req);
    /* Returns the seconds for the header Retry-After as text. NULL: the text is "1". */
    const char *(*retry_after)(const srv_request *req);
    int64_t start_ns, queued_ns, decode_ns, compute_ns, encode_ns; /* all but start_ns: durations */
    srv_reply reply;
};

typedef enum srv_outcome {
    SRV_DONE, /* the reply is in req->reply */
    /* The work is too much for the HTTP thread. Allowed only if req->in_place is set. The reply and
     * the arena are dropped, and the handler is called again on a request thread. */
    SRV_DEFER,
} srv_outcome;

/* Returns whether the client accepts text but not JSON. */
bool srv_reads_text(const srv_request *req);
/* Returns whether the client accepts one of SRV_ACCEPT_DRAWN; the answer is then the heatmap alone.
 * A handler on the HTTP thread returns SRV_DEFER in this case, because drawing is slow. */
bool srv_draws(const srv_request *req);

/* Returns the thread pool for the work of the request. NULL on the HTTP thread, which must not wait
 * for the pool, and for a request outside of the service. */
attn_pool *srv_request_pool(const srv_request *req);

/* Returns whether the request may delete an object of `owner`, the name of an API key; NULL: an
 * object that is shared by all. The owner and admins may. Sets the problem 403 if not. */
bool srv_request_owns(srv_request *req, const char *owner);
/* Returns whether the request may see an object of `owner`. All clients see shared objects, owners
 * see their own, and admins see all. */
bool srv_request_sees(const srv_request *req, const char *owner);

/* Sets the deadline that the client asks for. Does nothing if the present deadline is earlier. */
void srv_request_finish_by(srv_request *req, int64_t by_ns);

/* Adds a reply header, or replaces its value. Name and value must be in arena or static memory.
 * More than SRV_REPLY_HEADERS headers are a programming error and make the reply a 500. */
void srv_reply_header(srv_request *req, const char *name, const char *value);
/* Sets status, type and body of the reply. */
void srv_reply_set(srv_request *req, int status, const char *type, const char *body, size_t size);
/* Returns the value of a query parameter, percent-decoded into the arena, or NULL. */
const char *srv_query(srv_request *req, const char *name);

/* --- errors: one body, application/problem+json, one table from code to status (wire/problem.c)
 * --- */

/* The codes of problems, which stay the same between versions. The table in wire/problem.c has
 * their HTTP status and title. */
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
    SRV_TOO_LARGE,       /* 413 a body or a request that can never fit */
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
    SRV_INTERNAL,        /* 500 an error of the program */
    SRV_UNSUPPORTED,     /* 501 */
    SRV_QUEUE_FULL,      /* 503 + Retry-After */
    SRV_MEMORY_BUDGET,   /* 503 + Retry-After */
    SRV_DRAINING,        /* 503 + Retry-After */
    SRV_STORAGE,         /* 503 + Retry-After: a file of the service cannot be opened or written */
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
/* Sets the problem that a file of the service cannot be used because of the errno value `failed`:
 * storage_full, storage_failed or, if memory ran out, memory_budget. The detail is `what`, followed
 * by the system's text for the errno value. */
void srv_problem_file(srv_request *req, const char *pointer, const char *what, int failed);
/* Sets a problem as srv_problem does, with the limit that was hit and the setting that raises it.
 */
void srv_problem_limit(srv_request *req, srv_code code, const char *pointer, double limit,
                       const char *setting, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Sets the problem 413 with the setting max_request_bytes, because the arena of the request is used
 * up. `text` names what the memory was needed for. */
void srv_problem_memory(srv_request *req, const char *pointer, const char *text);
/* Returns whether the reply is a problem of srv_problem_memory. With a larger arena the request
 * might be answered. */
bool srv_problem_is_memory(const srv_request *req);
/* Sets the problem for an error of the library. Its status selects the code, and its `where`, such
 * as "query/0", becomes the pointer "/query/0". */
void srv_problem_error(srv_request *req, const attn_error *err);

#endif
