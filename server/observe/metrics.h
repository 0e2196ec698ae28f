/* The metrics of the service and their Prometheus text. Routes are labelled by the templates of the
 * route table, never by raw paths, so the number of series is fixed. Counting takes a few relaxed
 * atomic additions. */
#ifndef SRV_METRICS_H
#define SRV_METRICS_H

#include <attn/attn.h>

typedef struct srv_meters srv_meters;

/* Counters and gauges that have a single value. */
typedef enum srv_meter {
    SRV_IN_FLIGHT,   /* gauge: requests between their request line and the end of their reply */
    SRV_CONNECTIONS, /* gauge */
    SRV_EXPIRED_IN_QUEUE, /* this one and all that follow are counters */
    SRV_CLIENT_GONE,
    SRV_CLOSED_SLOW,
    SRV_CLOSED_CROWDED,
    SRV_BYTES_IN,
    SRV_BYTES_OUT,
    SRV_METRICS_COUNT, /* earlier ones are in /metrics, later ones in /v2/models/stats */
    SRV_INFER_GOOD = SRV_METRICS_COUNT,
    SRV_INFER_GOOD_NS, /* time from the request line to the answer */
    SRV_INFER_BAD,
    SRV_INFER_BAD_NS,
    SRV_INFER_QUEUE_NS, /* this one and the next three count only successful requests */
    SRV_INFER_DECODE_NS,
    SRV_INFER_COMPUTE_NS,
    SRV_INFER_ENCODE_NS,
    SRV_INFER_LAST_MS, /* Unix time of the last successful request */
    SRV_INFER_END,
    SRV_INFER_EACH = SRV_INFER_END - SRV_INFER_GOOD, /* number of counters for each model */
    SRV_INFER_MODELS = 2,
    SRV_METER_COUNT = SRV_INFER_GOOD + SRV_INFER_MODELS * SRV_INFER_EACH
} srv_meter;

/* Histograms of other values than the times of requests. */
typedef enum srv_spread {
    SRV_RESERVED_BYTES,   /* memory that a request reserved for its work */
    SRV_VERIFY_OUTPUT,    /* largest output difference found by `verify` / largest output value */
    SRV_VERIFY_LOGSUMEXP, /* largest difference of logsumexp found by `verify` */
    SRV_SPREAD_COUNT
} srv_spread;

/* Returns the counter of model 0 … SRV_INFER_MODELS - 1 that corresponds to the counter `which` of
 * model 0. */
static inline srv_meter srv_infer_meter(size_t model, srv_meter which) {
    return (srv_meter)(which + model * SRV_INFER_EACH);
}

enum { SRV_GAUGE_JOBS = 5, SRV_METER_PROBLEMS = 64 };

/* Values that are read when the Prometheus text is printed. */
typedef struct srv_gauges {
    size_t queue_waiting, queue_running, queue_length;
    size_t long_waiting, long_running, long_threads;
    uint64_t long_put_back;
    size_t memory_used, memory_budget;
    bool newest_first;
    size_t runs, runs_bytes;
    uint64_t runs_stored, runs_evicted, runs_expired;
    uint64_t resident_bytes, open_files;
    uint64_t log_dropped;
    int64_t certificate_until;               /* seconds since 1970; 0: no TLS */
    size_t jobs[SRV_GAUGE_JOBS], jobs_bytes; /* by state */
    const char *const *job_states;           /* their names */
    const char *isa;
} srv_gauges;

/* Makes the metrics for `count` route templates and for the codes of problems, which end with NULL
 * and are at most SRV_METER_PROBLEMS. Both arrays must outlive the metrics. NULL: out of memory. */
srv_meters *srv_meters_new(const char *const *routes, size_t count, const char *const *problems);
void srv_meters_free(srv_meters *meters); /* NULL is fine */

void srv_meter_add(srv_meters *meters, srv_meter which, int64_t amount);
void srv_meter_set(srv_meters *meters, srv_meter which, int64_t value);
int64_t srv_meter_read(const srv_meters *meters, srv_meter which);

/* Counts a finished request. `route` is the index of its template, or `count` for an unknown path.
 * Methods and status codes without a series of their own are counted as "other". queue_ns < 0: the
 * request did not wait in the queue. */
void srv_meters_request(srv_meters *meters, size_t route, const char *method, int code,
                        int64_t total_ns, int64_t queue_ns);
/* Counts a request that ended with a problem; `code` is the index into `problems`. */
void srv_meters_problem(srv_meters *meters, size_t code);
void srv_meters_observe(srv_meters *meters, srv_spread which, double value);
/* Returns the name of a method in labels and log lines: "GET", …, or "other". */
const char *srv_method_name(const char *method);

/* Prints the metrics as Prometheus text, version 0.0.4. */
void srv_meters_print(srv_meters *meters, const srv_gauges *now, attn_text *out);

#endif
