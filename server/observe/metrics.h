/* The metrics of the service and their Prometheus text. The label `route` is a path template of the
 * route table, such as "/v1/runs/{id}", and never a raw path, so the number of time series is
 * fixed. All counters are atomic variables. Any thread may call these functions. */
#ifndef SRV_METRICS_H
#define SRV_METRICS_H

#include <attn/attn.h>

typedef struct srv_meters srv_meters;

/* Counters and gauges that have a single value. */
typedef enum srv_meter {
    /* Values in /metrics. The first two are gauges, the others are counters. */
    SRV_IN_FLIGHT,        /* requests between their request line and the end of their reply */
    SRV_CONNECTIONS,      /* open connections */
    SRV_EXPIRED_IN_QUEUE, /* requests that were dropped from the queue because of their deadline */
    SRV_CLIENT_GONE,      /* requests whose client left before the reply */
    SRV_CLOSED_SLOW,      /* connections closed because they transferred data too slowly */
    SRV_CLOSED_CROWDED,   /* idle connections closed to make room for new ones */
    SRV_BYTES_IN,         /* bytes of request bodies */
    SRV_BYTES_OUT,        /* bytes of reply bodies */
    SRV_METRICS_COUNT,
    /* Values in /v2/models/stats, for the first model of the Open Inference protocol. Values whose
     * names end in _NS are sums of durations. */
    SRV_INFER_GOOD = SRV_METRICS_COUNT, /* successful requests */
    SRV_INFER_GOOD_NS,                  /* times of successful requests, request line to reply */
    SRV_INFER_BAD,                      /* failed requests */
    SRV_INFER_BAD_NS,                   /* times of failed requests, request line to reply */
    SRV_INFER_QUEUE_NS,                 /* times that successful requests waited in the queue */
    SRV_INFER_DECODE_NS,                /* times to decode successful requests */
    SRV_INFER_COMPUTE_NS,               /* times to compute successful requests */
    SRV_INFER_ENCODE_NS,                /* times to write successful replies */
    SRV_INFER_LAST_MS,                  /* Unix time of the last successful request */
    SRV_INFER_END,
    SRV_INFER_EACH = SRV_INFER_END - SRV_INFER_GOOD, /* number of counters for each model */
    SRV_INFER_MODELS = 2, /* number of models; the counters of the second model follow the first */
    SRV_METER_COUNT = SRV_INFER_GOOD + SRV_INFER_MODELS * SRV_INFER_EACH
} srv_meter;

/* Histograms whose values are not durations. */
typedef enum srv_spread {
    SRV_RESERVED_BYTES,   /* bytes that a request reserved for its work (load/admission.h) */
    SRV_VERIFY_OUTPUT,    /* `verify`: largest error of the output / largest output value */
    SRV_VERIFY_LOGSUMEXP, /* `verify`: largest error of logsumexp */
    SRV_SPREAD_COUNT
} srv_spread;

/* Returns the counter of `model` (0 … SRV_INFER_MODELS - 1). `which` is the corresponding counter
 * of model 0, one of SRV_INFER_*. */
static inline srv_meter srv_infer_meter(size_t model, srv_meter which) {
    return (srv_meter)(which + model * SRV_INFER_EACH);
}

enum { SRV_GAUGE_JOBS = 5 };      /* number of states of jobs */
enum { SRV_METER_PROBLEMS = 64 }; /* largest number of problem codes, including the final NULL */

/* Values that other parts of the server hold. They are collected when the metrics are printed. */
typedef struct srv_gauges {
    /* load/queue.h */
    size_t queue_waiting, queue_running; /* number of waiting and of running requests */
    size_t queue_length;                 /* largest number of waiting requests */
    size_t long_waiting, long_running;   /* number of waiting and of running long requests */
    size_t long_threads;                 /* largest number of running long requests */
    uint64_t long_put_back; /* requests that were put back into the queue as long ones */
    bool newest_first;      /* the queue serves the newest requests first */
    /* load/budget.h */
    size_t memory_used, memory_budget; /* bytes in use, and the limit for them */
    /* store/runs.h */
    size_t runs, runs_bytes;                          /* stored runs and their bytes */
    uint64_t runs_stored, runs_evicted, runs_expired; /* since the process started */
    /* this process and its files */
    uint64_t resident_bytes, open_files, most_files;
    uint64_t log_dropped;          /* lines of the log that were dropped */
    bool stale;                    /* a file could not be read again */
    int64_t reloaded;              /* when all files were last read, seconds since 1970 */
    int64_t certificate_until;     /* when the certificate expires, seconds since 1970; 0: no TLS */
    size_t jobs[SRV_GAUGE_JOBS];   /* number of jobs in each state */
    size_t jobs_bytes;             /* memory reserved for running jobs */
    const char *const *job_states; /* names of the states */
    const char *isa;               /* name of the kernel table */
} srv_gauges;

/* Makes the metrics. `routes` are `count` path templates. `problems` are the names of the problem
 * codes, ended by NULL, at most SRV_METER_PROBLEMS. Both arrays must outlive the metrics. NULL: out
 * of memory. */
srv_meters *srv_meters_new(const char *const *routes, size_t count, const char *const *problems);
void srv_meters_free(srv_meters *meters); /* NULL is fine */

void srv_meter_add(srv_meters *meters, srv_meter which, int64_t amount);
void srv_meter_set(srv_meters *meters, srv_meter which, int64_t value);
int64_t srv_meter_read(const srv_meters *meters, srv_meter which);

/* Counts a finished request. `route` is the index of its path template. An index of `count` or
 * above means that no template matches the path. A method or status code that has no time series of
 * its own is counted as "other". queue_ns < 0: the request was not in the queue. */
void srv_meters_request(srv_meters *meters, size_t route, const char *method, int code,
                        int64_t total_ns, int64_t queue_ns);
/* Counts a request that ended with a problem; `code` is the index into `problems`. */
void srv_meters_problem(srv_meters *meters, size_t code);
/* Adds a value to a histogram. */
void srv_meters_observe(srv_meters *meters, srv_spread which, double value);
/* Returns the method's name for labels and log lines; "other" for an unknown method. */
const char *srv_method_name(const char *method);

/* Prints the metrics as Prometheus text, version 0.0.4. */
void srv_meters_print(srv_meters *meters, const srv_gauges *now, attn_text *out);

#endif
