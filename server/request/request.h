/* A request and its reply, as all rooms of the server see them. server/http fills in the request;
 * server/wire and server/api read it and set the reply. Memory for both comes from the request's
 * arena. The request is a member of an exchange (http/exchange.h) and lives as long as the
 * exchange. Only one thread uses it at a time: the HTTP thread or a request thread. */
#ifndef SRV_REQUEST_H
#define SRV_REQUEST_H

#include <attn/attn.h>
#include <string.h>

typedef struct srv_app srv_app;                   /* shared.h */
typedef struct srv_config srv_config;             /* config/config.h */
typedef struct srv_decoded_body srv_decoded_body; /* request/decoded_body.h */
typedef struct srv_parts srv_parts;               /* wire/container.h */
typedef struct srv_undrawn srv_undrawn;           /* wire/tensor_literal.c */
typedef struct srv_stream srv_stream;             /* stream.h */
typedef struct srv_intake srv_intake;             /* intake.h */

#define SRV_OCTETS "application/octet-stream"

typedef struct srv_header {
    const char *name, *value;
} srv_header;

/* The media types of answers, as bits of srv_request.accept. */
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
    SRV_ACCEPT_HTML = 512,
    /* These can hold a heatmap and nothing else. A route may offer them if its handler ends in
     * srv_heat_reply or srv_heat_draw. */
    SRV_ACCEPT_DRAWN = SRV_ACCEPT_PNG | SRV_ACCEPT_SVG | SRV_ACCEPT_CSV
};

/* A part of a reply's body, in arena or static memory. Bodies that consist of several blocks of
 * memory are sent as a list of such pieces, without a copy. */
typedef struct srv_piece {
    const void *data;
    size_t size;
} srv_piece;

#define SRV_REPLY_HEADERS 16

/* The reply. Its body has one of three forms: a block of memory (`body`), a list of blocks
 * (`pieces`), or a stream that produces bytes while they are sent (`stream`). */
typedef struct srv_reply {
    int status;              /* 0: no reply yet */
    unsigned problem;        /* for a problem: its srv_code + 1; 0: the reply is no problem */
    const char *detail;      /* for a problem: its detail; NULL: none, or memory ran out */
    const char *setting;     /* for a problem: the setting whose limit was hit; NULL: none */
    double limit;            /* for a problem with `setting`: that limit */
    const char *type;        /* media type */
    const char *body;        /* in arena or static memory */
    size_t size;             /* bytes of the body; for a stream, the bytes sent so far */
    const srv_piece *pieces; /* NULL: the body is not a list of pieces */
    size_t piece_count;
    srv_stream *stream; /* NULL: the body is not a stream */
    /* The body in these content codings, if it was encoded beforehand; data NULL: it was not. */
    srv_piece gzip, brotli;
    srv_header headers[SRV_REPLY_HEADERS];
    size_t header_count;
} srv_reply;

#define SRV_CHALLENGE "Bearer realm=\"attnd\"" /* value of WWW-Authenticate */

#define SRV_READ_TOKEN 32 /* hexadecimal digits of a read token, which replaces an API key */

typedef struct srv_request srv_request;
struct srv_request {
    srv_app *app;
    attn_arena *arena;
    const char *method;
    const char *path;      /* percent-decoded, such as "/v1/examples/causal" */
    const char *params[2]; /* the parts of the path for {…} in the route's template, in order */
    const char *id;        /* X-Request-Id of the client if safe to print, else a random id */
    const char *query;     /* query string as received, without "?"; "": none */
    const char *content_type;  /* lower case, without parameters; "": none */
    const char *if_none_match; /* header If-None-Match; NULL: none */
    const char *last_event_id; /* header Last-Event-ID; NULL: none */
    bool respond_async;        /* Prefer: respond-async */
    int64_t wait_s;            /* Prefer: wait, in seconds; -1: none */
    const char *host;          /* header Host; NULL: none */
    bool secure;               /* received over TLS */
    bool forwarded;            /* a proxy has passed the request on: header X-Forwarded-For */
    /* Name of the client's API key, or of the key whose run the read token opens; NULL: the service
     * has no keys. */
    const char *owner;
    const char *read_token;   /* token=… of the query, sent instead of a key; NULL: none */
    bool admin;               /* the key is an admin key, or without keys the client is local */
    const char *infer_header; /* header Inference-Header-Content-Length; NULL: none */
    unsigned accept;          /* SRV_ACCEPT_* bits of the media types that the client accepts */
    const char *body;         /* body_size bytes, followed by a NUL */
    size_t body_size;
    srv_intake *intake;   /* receiver of the body; NULL: the body is in `body` */
    attn_control control; /* the deadline, and a pointer to `cancel`; for the library */
    atomic_int cancel;    /* 1: the work must stop, because the client left or the server stops */
    const srv_decoded_body *decoded_body; /* decoded instead of `body`; NULL: `body` is decoded */
    srv_undrawn *undrawn; /* random tensors whose elements are drawn later (SRV_T_LATE) */
    srv_parts *parts;     /* the JSON writer puts tensors here; NULL: into the JSON text */
    bool own_deadline;    /* the deadline is the client's (timeout_ms), not request_timeout_ms */
    bool only_400;        /* problems of status 422 get status 400 instead (for /v2) */
    /* The handler runs on the HTTP thread and may return SRV_DEFER. Jobs that compute on a thread
     * of their own set this too, because it keeps the handler from using the pool. */
    bool in_place;
    /* The client of the request is a job. If the reply is an answer about a stored run, it is kept
     * with that run. If the request stores a run, only the run is kept and not the reply. */
    bool is_job;
    bool later;        /* the request must go back into the queue (srv_admission_work) */
    size_t route;      /* index of the route's path template among the labels of the metrics */
    double operations; /* floating-point operations of the work; 0: not known yet */
    /* Processor time of one operation in nanoseconds. It is used until the service has measured
     * this time on the route. 0: the time of an operation in the kernels. */
    double unit_ns;
    int64_t admitted_ns; /* processor time that the request had used when `operations` was set */
    /* Set by server/http: begins to send the reply, which is a stream, while the handler continues
     * on its request thread. From then on the request and its reply belong to server/http, and the
     * arena belongs to the handler (stream.h). */
    void (*go_out)(srv_request *req);
    /* Set by server/http: returns the seconds for the header Retry-After as text. NULL: "1". */
    const char *(*retry_after)(const srv_request *req);
    int64_t start_ns; /* when the request line was read, on the clock of attn_now_ns */
    int64_t queued_ns, decode_ns, compute_ns, encode_ns; /* durations of the steps */
    srv_reply reply;
};

/* The result of a handler. */
typedef enum srv_outcome {
    SRV_DONE, /* the reply is in req->reply */
    /* The work is too long for the HTTP thread. Allowed only if req->in_place is set. The reply and
     * the contents of the arena are dropped, and the handler is called again on a request
     * thread. */
    SRV_DEFER,
} srv_outcome;

static inline bool srv_is_post(const srv_request *req) {
    return req->method && !strcmp(req->method, "POST");
}
/* Returns whether the fields of the request are parameters of its query string, and not in a
 * body. */
static inline bool srv_is_queried(const srv_request *req) {
    return req->method && !srv_is_post(req);
}

/* Returns whether the client accepts text but not JSON. */
bool srv_reads_text(const srv_request *req);
/* Returns whether the client accepts one of SRV_ACCEPT_DRAWN. In this case the answer is only the
 * heatmap. A handler on the HTTP thread returns SRV_DEFER in this case, because drawing is slow. */
bool srv_draws(const srv_request *req);

/* Returns the worker pool for the request's work. NULL: the caller must compute on its own thread,
 * because it is the HTTP thread, which must not wait, or because the request does not belong to a
 * running service. */
attn_pool *srv_request_pool(const srv_request *req);

/* Returns whether the request may delete an object. `owner` is the name of the API key that owns
 * the object; NULL: the object is shared by all. Owners and admins may delete objects; in a service
 * without keys anybody may. false: the problem 403 is set. */
bool srv_request_owns(srv_request *req, const char *owner);
/* Returns whether the request may see an object of `owner` (NULL: it is shared). All clients see
 * shared objects, owners see their own, and admins see all. */
bool srv_request_sees(const srv_request *req, const char *owner);

/* Returns whether the request may read an object with the read token `token` (NULL: none). It may
 * if it has this token, or if it has no token and its API key allows it. The comparison takes the
 * same time wherever the tokens differ. */
bool srv_request_opens(const srv_request *req, const char *token);
/* Sets the problem 401: the token of the request does not open the object that it asks for. The
 * problem does not reveal whether the object exists. */
void srv_request_refuse_token(srv_request *req);

/* Sets the deadline of the request to the time that the client asks for, on the clock of
 * attn_now_ns. Does nothing if the present deadline is earlier. */
void srv_request_finish_by(srv_request *req, int64_t by_ns);

/* Adds a header to the reply, or replaces its value. Name and value must be in arena or static
 * memory. More than SRV_REPLY_HEADERS headers are a programming error; the reply then becomes a
 * problem of status 500. */
void srv_reply_header(srv_request *req, const char *name, const char *value);
/* Replaces the reply by one with this status, media type and body, and without headers. */
void srv_reply_set(srv_request *req, int status, const char *type, const char *body, size_t size);
/* Returns the value of the first query parameter with this name, percent-decoded into the arena.
 * NULL: there is no such parameter, or memory ran out. */
const char *srv_query(srv_request *req, const char *name);

/* --- problems: replies that report an error, as application/problem+json (RFC 9457) --- */

/* The codes of problems. Their names do not change between versions of the service. The table in
 * request/problem_codes.c has the name, HTTP status, title and meaning of each. */
typedef enum srv_code {
    SRV_MALFORMED,      /* 400 the body is not valid JSON, or a malformed container */
    SRV_BAD_REQUEST,    /* 400 another malformed part: framing, header, query parameter */
    SRV_UNAUTHORIZED,   /* 401 */
    SRV_FORBIDDEN,      /* 403 */
    SRV_NOT_FOUND,      /* 404 */
    SRV_METHOD,         /* 405, with the header Allow */
    SRV_NOT_ACCEPTABLE, /* 406 */
    SRV_TIMEOUT,        /* 408 */
    SRV_KEY_BUSY,       /* 409 the first request with this Idempotency-Key still runs */
    SRV_GONE,           /* 410 */
    SRV_RUN_CHANGED,    /* 410 the file of a run is no longer the same */
    SRV_PRECONDITION,   /* 412 If-Match */
    SRV_TOO_LARGE,      /* 413 a body or a request that can never fit */
    SRV_TARGET_LONG,    /* 414 */
    SRV_MEDIA_TYPE,     /* 415 */
    SRV_EXPECTATION,    /* 417 */
    SRV_MISDIRECTED,    /* 421 a Host that is not a name of the service */
    SRV_KEY_REUSED,     /* 422 the Idempotency-Key of another request */
    SRV_UNKNOWN_FIELD,  /* 422 */
    SRV_TYPE,           /* 422 a value of the wrong JSON type */
    SRV_VALUE,          /* 422 a value outside its range or set */
    SRV_SHAPE,          /* 422 shapes that do not fit */
    SRV_DTYPE,          /* 422 */
    SRV_MASK_SEMANTICS, /* 422 a 0/1 mask without a declared meaning */
    SRV_NONFINITE,      /* 422 NaN, infinity, beyond float32 */
    SRV_QUOTA,          /* 429 */
    SRV_HEADER_LONG,    /* 431 */
    SRV_INTERNAL,       /* 500 an error of the program */
    SRV_DAMAGED,        /* 500 a file of the service has wrong contents */
    SRV_UNSUPPORTED,    /* 501 */
    SRV_QUEUE_FULL,     /* 503 + Retry-After */
    SRV_MEMORY_BUDGET,  /* 503 + Retry-After */
    SRV_DRAINING,       /* 503 + Retry-After */
    SRV_STORAGE,        /* 503 + Retry-After: a file of the service cannot be opened or written */
    SRV_DEADLINE,       /* 504 */
    SRV_VERSION,        /* 505 */
    SRV_STORAGE_FULL,   /* 507 */
    SRV_CODE_COUNT
} srv_code;

const char *srv_code_name(srv_code code); /* "malformed_json", "queue_full", … */

/* Replaces the reply by a problem. Returns false, like all functions that set a problem. `pointer`
 * is a JSON pointer to the faulty part of the body, such as "/attn_mask/0"; NULL: none. `format`
 * makes the detail, a sentence for people. */
bool srv_problem(srv_request *req, srv_code code, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Sets the problem that the service cannot use one of its files. The errno value `failed` selects
 * the code: storage_full, memory_budget (ENOMEM) or else storage_failed. The detail is `what`
 * followed by the system's text for the errno value. */
bool srv_problem_file(srv_request *req, const char *pointer, const char *what, int failed);
/* Sets a problem as srv_problem does. The problem also states the exceeded limit, and the setting
 * that can raise it. If `setting` is NULL, the limit is a constant of the program. */
bool srv_problem_limit(srv_request *req, srv_code code, const char *pointer, double limit,
                       const char *setting, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Sets the problem that the request's arena is used up: 413 with the setting max_request_bytes.
 * `text` says for which purpose memory is missing. */
bool srv_problem_memory(srv_request *req, const char *pointer, const char *text);
/* Returns whether the reply is a problem that srv_problem_memory has set. The request might then be
 * answered with a larger arena. */
bool srv_problem_is_memory(const srv_request *req);
/* Sets the problem for an error of the library. The error's status selects the code of the problem,
 * and its `where`, such as "query/0", becomes the pointer "/query/0". */
bool srv_problem_error(srv_request *req, const attn_error *err);
/* A row that renames places of the library's errors: in a place that begins with the path `from`,
 * `to` replaces `from`. Every place begins with the empty path "". */
typedef struct srv_renamed {
    const char *from, *to;
} srv_renamed;
/* Does what srv_problem_error does, but first renames the error's place by the first row of
 * `places` that fits. A row whose `from` is NULL ends the table. */
bool srv_problem_error_at(srv_request *req, const attn_error *err, const srv_renamed *places);

#endif
