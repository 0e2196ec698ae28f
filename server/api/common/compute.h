/* The machine of all routes that compute. A route has a row of steps (srv_steps), and srv_compute
 * takes a request through them:
 *
 *   prepare   the body is decoded and checked, and the cost is counted
 *   dry       with dry_run the answer has shapes, cost and a predicted time
 *   (place)   by predicted time, brief work is done on the HTTP thread and other work on a request
 *             thread, or long work by a job if the client prefers a job
 *   (admit)   the cost is checked against the limits of the service, and memory is reserved
 *   compute   the results are computed, and a run is stored
 *   answer    json, text, picture or csv, whichever the client accepts
 *
 * The machine measures the times of the steps. */
#ifndef SRV_COMPUTE_H
#define SRV_COMPUTE_H

#include "api/common/dry.h"
#include "api/common/scope.h"
#include "jobs/jobs.h"
#include "wire/csv.h"

/* What a request costs. */
typedef struct srv_cost {
    double cells, operations; /* checked against the settings max_cells and max_operations */
    double result, work;      /* bytes of the answer's tensors, and of scratch memory */
    double text;              /* upper bound of the bytes of the answer's text */
    double reserved;          /* bytes to reserve; 0: the sum of result, work and text */
    bool exceeds;    /* only in a dry run: a limit of the library is exceeded, a problem is set */
    double weighted; /* operations, weighted by how long each takes, to predict the time */
} srv_cost;

/* The texts of a problem about a limit: "<before>12 <what>; at most 10 are allowed<advice>". */
typedef struct srv_limit {
    const char *pointer;         /* JSON pointer of the problem; NULL: none */
    const char *before, *advice; /* NULL: an empty text */
    const char *what;            /* NULL: the limit is not checked */
} srv_limit;

/* The limits that a route checks. The problem about bytes has another form: "<what> 12 bytes; a
 * request may use 10<advice>", where `what` is such as "the pass needs up to". */
typedef struct srv_limits {
    srv_limit cells, operations, bytes;
} srv_limits;

/* A request that computes. A route's own struct begins with it. */
typedef struct srv_call {
    srv_request *req;
    srv_scope scope; /* scope of the body or the query string */
    srv_cost cost;
    bool dry_run;
    bool needs_thread; /* the work may block: it writes a file, or its answer is a stream */
    bool defers;       /* set by a `prepare` that returns false because it needs a request thread */
    srv_job_order job; /* the order for a job that does the work; .run NULL: no job can do it */
} srv_call;

/* The first member of a route's own struct: `call`, a srv_call. The members `req` and `scope` of
 * the srv_call can be used as members of the route's struct, too. */
#define SRV_CALL                                                                                   \
    union {                                                                                        \
        srv_call call;                                                                             \
        struct {                                                                                   \
            srv_request *req;                                                                      \
            srv_scope scope;                                                                       \
        };                                                                                         \
    }

/* The steps of a route. Each gets the route's own struct as `call`. A step that returns false has
 * set a problem or call->defers. */
typedef struct srv_steps {
    const srv_field *fields; /* fields of the body or the query string */
    /* Offsets in the route's struct. SRV_BODY_OF sets all of them: */
    size_t body;     /* offset of the struct into which the fields are decoded */
    size_t timeout;  /* offset of timeout_ms; 0: the fields are of a query string */
    size_t dry_run;  /* offset of dry_run; 0: there is none */
    size_t decimals; /* offset of decimals; 0: there is none */
    /* Processor time of a weighted operation in nanoseconds. It is used until the service has
     * measured the time. */
    double unit_ns;
    srv_limits limits;
    bool (*prepare)(void *call); /* checks the decoded fields, and sets the cost */
    /* Completes the texts of exceeded limits. NULL: the texts of `limits` are complete. */
    void (*explain)(void *call, srv_limits *limits);
    /* Adds shapes to `dry`, in which the cost and the member `fits` are already set. NULL: there is
     * no dry run. */
    bool (*dry)(void *call, srv_dry *dry);
    /* Reduces call and cost to the part of the work that a job does. NULL: a job does all of it. */
    bool (*as_job)(void *call);
    bool (*compute)(void *call);
    /* The client's media type selects the function that writes the answer. The machine begins and
     * ends the object `j`, and the text or table `t`. `json` and `text` may set a reply instead. */
    void (*json)(void *call, attn_json_text *j); /* for all other types; writes members */
    void (*text)(void *call, attn_text *t);      /* for text/plain; NULL: `json` answers */
    void (*picture)(void *call);                 /* for PNG and SVG, and for CSV if `csv` is NULL */
    void (*csv)(void *call, srv_csv *t);         /* for CSV */
    void (*reply)(void *call); /* if not NULL, sets the reply for every type; no other is called */
} srv_steps;

/* Sets the offsets of the members of a route's struct T. The member `body` must begin with
 * `srv_given_bits given`; another type does not compile. */
#define SRV_BODY_OF(T)                                                                             \
    .body = offsetof(T, body) + _Generic(((T *)NULL)->body.given, srv_given_bits : 0),             \
    .timeout = offsetof(T, body.timeout_ms), .dry_run = offsetof(T, body.dry_run),                 \
    .decimals = offsetof(T, body.decimals)

/* Reports that the next part of the work raises the progress from the share `from` to the share
 * `to`, 0 … 1 each. Does nothing if the request reports no progress. */
void srv_progress_part(srv_request *req, double from, double to);

/* Takes a request through the steps of its route. */
srv_outcome srv_compute(void *call, const srv_steps *steps);

#endif
