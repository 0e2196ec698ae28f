/* The one machine of all routes that compute. A route is a row of steps; srv_compute takes a request
 * through them:
 *
 *   prepare   the body is decoded and checked, and the cost is counted
 *   dry       with dry_run the answer has shapes, cost and a predicted time
 *   (place)   work that is predicted to be brief is done on the HTTP thread, else on a request
 *             thread; long work by a job, if the client prefers that
 *   (admit)   the cost is checked against the limits of the service, and memory is reserved
 *   compute   the results are computed, and a run is stored
 *   answer    json, text, picture or csv, whichever the client accepts
 *
 * The machine measures the times of the steps. */
#ifndef SRV_COMPUTE_H
#define SRV_COMPUTE_H

#include "api/common/csv.h"
#include "api/common/dry.h"
#include "api/common/scope.h"
#include "jobs/jobs.h"

/* What a request costs. */
typedef struct srv_cost {
    double cells, operations;  /* checked against max_cells and max_operations */
    double result, work, text; /* bytes: tensors of the answer, scratch, upper bound of the text */
    double reserved;           /* bytes to reserve; 0: result, work and text */
    double weighted;           /* operations weighted by their time, from which it is predicted */
} srv_cost;

/* How the problem of a limit tells it: "<before>12 <what>; at most 10 are allowed<advice>". */
typedef struct srv_limit {
    const char *pointer; /* NULL: none */
    const char *before, *what, *advice;
} srv_limit;

/* The limits that a route checks. Without `what` a limit is not checked. Of bytes `what` is the
 * whole beginning, "the pass needs up to", and `before` is not used. */
typedef struct srv_limits {
    srv_limit cells, operations, bytes;
} srv_limits;

/* A request that computes. A route's own struct begins with it. */
typedef struct srv_call {
    srv_request *req;
    srv_scope scope; /* of the body or the query string */
    srv_cost cost;
    bool dry_run;
    bool needs_thread; /* the work waits: it writes a file, or its answer is a stream */
    bool defers;       /* `prepare` returned false, because it needs a request thread */
    /* The work as a job, which calls job.run; NULL: no job does it. A job that stores a run answers
     * nothing. */
    srv_job_order job;
} srv_call;

/* First member of a route's own struct: a srv_call, whose request and scope are members of that
 * struct too. */
#define SRV_CALL                                                                                   \
    union {                                                                                        \
        srv_call call;                                                                             \
        struct {                                                                                   \
            srv_request *req;                                                                      \
            srv_scope scope;                                                                       \
        };                                                                                         \
    }

/* The row of a route. `call` is the route's own struct. A step that returns false has set a problem
 * or `defers`. */
typedef struct srv_steps {
    const srv_field *fields; /* of the body or the query string */
    /* Offsets in the route's struct: of the decoded struct, and of its members timeout_ms (0: the
     * fields are a query string), dry_run and decimals (0: there is none). SRV_BODY_OF sets them. */
    size_t body, timeout, dry_run, decimals;
    double unit_ns; /* processor time of a weighted operation, before the service has measured it */
    srv_limits limits;
    bool (*prepare)(void *call);                     /* checks what was read, and sets cost */
    void (*explain)(void *call, srv_limits *limits); /* completes texts of limits; NULL: constant */
    /* Adds shapes to a dry run, which has the cost already. NULL: there is no dry run. */
    bool (*dry)(void *call, srv_dry *dry);
    bool (*as_job)(void *call); /* reduces call and cost to what a job does; NULL: all */
    bool (*compute)(void *call);
    /* The answer. The machine begins and ends an object in `json`, a text or a table; a step that sets
     * the reply itself has answered, with a problem or in another type. */
    void (*json)(void *call, attn_json_text *j); /* also for types whose function is NULL */
    void (*text)(void *call, attn_text *t);
    void (*picture)(void *call); /* PNG and SVG, and CSV if `csv` is NULL */
    void (*csv)(void *call, srv_csv *t);
    void (*reply)(void *call); /* answers in every type; then the four above are not called */
} srv_steps;

#define SRV_BODY_OF(T)                                                                             \
    .body = offsetof(T, body), .timeout = offsetof(T, body.timeout_ms),                            \
    .dry_run = offsetof(T, body.dry_run), .decimals = offsetof(T, body.decimals)

/* Begins the part of the work that goes from the share `from` to the share `to` of the whole, if
 * somebody is told of the request's progress. */
void srv_progress_part(srv_request *req, double from, double to);

/* Takes a request through the steps of its route. */
srv_outcome srv_compute(void *call, const srv_steps *steps);

#endif
