/* What the service counts, and its Prometheus text. Routes are the templates of the route table,
 * never raw paths, so the number of series is fixed. Counting is a few relaxed atomic additions. */
#ifndef SRV_METRICS_H
#define SRV_METRICS_H

#include <attn/attn.h>

typedef struct srv_meters srv_meters;

/* Counters and gauges that are one number each. */
typedef enum srv_meter {
    SRV_IN_FLIGHT,   /* gauge: requests between their request line and the end of their reply */
    SRV_CONNECTIONS, /* gauge */
    SRV_EXPIRED_IN_QUEUE, /* counters from here on */
    SRV_CLIENT_GONE,
    SRV_CLOSED_SLOW,
    SRV_CLOSED_CROWDED,
    SRV_BYTES_IN,
    SRV_BYTES_OUT,
    SRV_METRICS_COUNT, /* those before are in /metrics, those behind in /v2/models/stats */
    SRV_INFER_GOOD = SRV_METRICS_COUNT,
    SRV_INFER_GOOD_NS, /* from the request line to the answer */
    SRV_INFER_BAD,
    SRV_INFER_BAD_NS,
    SRV_INFER_QUEUE_NS, /* of the good ones, as the next three */
    SRV_INFER_DECODE_NS,
    SRV_INFER_COMPUTE_NS,
    SRV_INFER_ENCODE_NS,
    SRV_INFER_LAST_MS, /* Unix time of the last good one */
    SRV_INFER_END,
    SRV_INFER_EACH = SRV_INFER_END - SRV_INFER_GOOD, /* these are there for each model */
    SRV_INFER_MODELS = 2,
    SRV_METER_COUNT = SRV_INFER_GOOD + SRV_INFER_MODELS * SRV_INFER_EACH
} srv_meter;

/* Distributions beside those of requests. */
typedef enum srv_spread {
    SRV_RESERVED_BYTES,   /* what a request took at once for its work */
    SRV_VERIFY_OUTPUT,    /* largest difference that `verify` found, over the largest value */
    SRV_VERIFY_LOGSUMEXP, /* largest difference of logsumexp that it found */
    SRV_SPREAD_COUNT
} srv_spread;

/* The meter of model 0 … SRV_INFER_MODELS - 1 that `which` is of the first. */
static inline srv_meter srv_infer_meter(size_t model, srv_meter which) {
    return (srv_meter)(which + model * SRV_INFER_EACH);
}

enum { SRV_GAUGE_JOBS = 5, SRV_METER_PROBLEMS = 64 };

/* State read when the text is made. */
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

/* `routes`: the templates; `problems`: the codes of problems, at most SRV_METER_PROBLEMS, NULL at
 * the end. Both must outlive the meters. NULL: out of memory. */
srv_meters *srv_meters_new(const char *const *routes, size_t count, const char *const *problems);
void srv_meters_free(srv_meters *meters); /* NULL is fine */

void srv_meter_add(srv_meters *meters, srv_meter which, int64_t amount);
void srv_meter_set(srv_meters *meters, srv_meter which, int64_t value);
int64_t srv_meter_read(const srv_meters *meters, srv_meter which);

/* A request is over. `route`: index into routes, or count for "no such route"; methods and codes
 * that have no series of their own are counted as "other". queue_ns < 0: it did not wait. */
void srv_meters_request(srv_meters *meters, size_t route, const char *method, int code,
                        int64_t total_ns, int64_t queue_ns);
/* A request ended with a problem: its place among the names that were given. */
void srv_meters_problem(srv_meters *meters, size_t code);
void srv_meters_observe(srv_meters *meters, srv_spread which, double value);
/* The name of a method as it appears in labels and log lines: "GET", …, or "other". */
const char *srv_method_name(const char *method);

/* Prometheus text 0.0.4. */
void srv_meters_print(srv_meters *meters, const srv_gauges *now, attn_text *out);

#endif
