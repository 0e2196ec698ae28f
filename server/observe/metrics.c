/* The counters of requests are an array [route][method][status code]. There are two kinds of
 * histograms: `histogram` for durations, and `spread` for other values. Everything is an atomic
 * variable, so nothing is locked. */
#include "observe/metrics.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number/print_small.h"
#include "system/clock.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const methods[] = {"GET", "HEAD",   "POST",  "OPTIONS",
                                      "PUT", "DELETE", "PATCH", "other"};
static const int codes[] = {200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 406, 408, 410, 411,
                            413, 415, 417, 421, 422, 429, 499, 500, 501, 503, 504, 0 /* other */};
/* Upper bounds of the buckets of a `histogram`: in nanoseconds, and as label texts in seconds. */
static const int64_t bounds[] = {100000,      250000,      1000000,    2500000,    10000000,
                                 25000000,    100000000,   250000000,  1000000000, 2500000000,
                                 10000000000, 30000000000, 60000000000};
static const char *const bound_texts[] = {"0.0001", "0.00025", "0.001", "0.0025", "0.01",
                                          "0.025",  "0.1",     "0.25",  "1",      "2.5",
                                          "10",     "30",      "60"};

enum {
    LABEL_ROOM = 128, /* buffer size of the label route="…", in bytes */
    /* Buffer size of a line of a histogram, in bytes: a name, the label, the bound of a bucket and
     * a number. */
    LINE_ROOM = LABEL_ROOM + 128,
};

typedef struct histogram {
    /* Number of values in each bucket, without those of lower buckets. Prometheus wants cumulative
     * counts, so print_histogram adds them up. */
    atomic_uint_fast64_t buckets[COUNT(bounds) + 1];
    atomic_uint_fast64_t sum_ns;
} histogram;

/* The description of a `spread`. */
enum { SPREAD_BOUNDS = 10 };
typedef struct spread_row {
    const char *name, *help;
    double bounds[SPREAD_BOUNDS]; /* upper bounds of the buckets, in bytes or as relative errors */
} spread_row;

#define KIB 1024.0
#define MIB 1048576.0
static const spread_row spread_rows[SRV_SPREAD_COUNT] = {
    [SRV_RESERVED_BYTES] = {"attnd_request_reserved_bytes",
                            "Memory that a request took at once for scratch, results and reply.",
                            {64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB,
                             1024 * MIB, 4096 * MIB, 16384 * MIB}},
    [SRV_VERIFY_OUTPUT] = {"attnd_verify_output_error",
                           "Largest error of the output that verify found, relative to the largest "
                           "value; what is not finite counts as infinite.",
                           {1e-16, 1e-12, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2}},
    [SRV_VERIFY_LOGSUMEXP] = {"attnd_verify_logsumexp_error",
                              "Largest error of logsumexp that verify found; what is not finite "
                              "counts as infinite.",
                              {1e-16, 1e-12, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2}},
};

typedef struct spread {
    atomic_uint_fast64_t buckets[SPREAD_BOUNDS + 1];
    _Atomic double sum;
} spread;

typedef struct route_meters {
    atomic_uint_fast64_t requests[COUNT(methods)][COUNT(codes)];
    histogram duration;
} route_meters;

struct srv_meters {
    const char *const *names; /* path templates of the routes */
    size_t count;             /* number of routes; routes[count] counts unknown paths */
    double started;           /* start of the process, in seconds since 1970 */
    atomic_int_fast64_t single[SRV_METER_COUNT];
    histogram queue; /* times that requests waited in the queue */
    spread spreads[SRV_SPREAD_COUNT];
    const char *const *problem_names;
    atomic_uint_fast64_t problems[SRV_METER_PROBLEMS];
    route_meters routes[];
};

srv_meters *srv_meters_new(const char *const *routes, size_t count, const char *const *problems) {
    size_t bytes;
    if (!attn_size_mul(count + 1, sizeof(route_meters), &bytes) ||
        !attn_size_add(bytes, sizeof(srv_meters), &bytes))
        return NULL;
    srv_meters *meters = calloc(1, bytes);
    if (!meters)
        return NULL;
    meters->started = 1e-9 * (double)srv_clock_ns(CLOCK_REALTIME);
    meters->names = routes;
    meters->problem_names = problems;
    meters->count = count;
    return meters;
}

void srv_meters_free(srv_meters *meters) {
    free(meters);
}

void srv_meter_add(srv_meters *meters, srv_meter which, int64_t amount) {
    atomic_fetch_add_explicit(&meters->single[which], amount, memory_order_relaxed);
}

void srv_meter_set(srv_meters *meters, srv_meter which, int64_t value) {
    atomic_store_explicit(&meters->single[which], value, memory_order_relaxed);
}

int64_t srv_meter_read(const srv_meters *meters, srv_meter which) {
    return atomic_load_explicit(&meters->single[which], memory_order_relaxed);
}

static void add_to_counter(atomic_uint_fast64_t *counter, uint64_t amount) {
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static void count_duration(histogram *h, int64_t ns) {
    size_t i = 0;
    while (i < COUNT(bounds) && ns > bounds[i])
        i++;
    add_to_counter(&h->buckets[i], 1);
    add_to_counter(&h->sum_ns, ns > 0 ? (uint64_t)ns : 0);
}

static size_t method_index(const char *method) {
    size_t i = 0;
    while (i < COUNT(methods) - 1 && strcmp(methods[i], method))
        i++;
    return i;
}

const char *srv_method_name(const char *method) {
    return methods[method_index(method)];
}

void srv_meters_request(srv_meters *meters, size_t route, const char *method, int code,
                        int64_t total_ns, int64_t queue_ns) {
    route_meters *row = &meters->routes[route < meters->count ? route : meters->count];
    size_t c = 0;
    while (c < COUNT(codes) - 1 && codes[c] != code)
        c++;
    add_to_counter(&row->requests[method_index(method)][c], 1);
    count_duration(&row->duration, total_ns);
    if (queue_ns >= 0)
        count_duration(&meters->queue, queue_ns);
}

void srv_meters_problem(srv_meters *meters, size_t code) {
    if (code < SRV_METER_PROBLEMS)
        add_to_counter(&meters->problems[code], 1);
}

void srv_meters_observe(srv_meters *meters, srv_spread which, double value) {
    spread *s = &meters->spreads[which];
    size_t i = 0;
    while (i < SPREAD_BOUNDS && !(value <= spread_rows[which].bounds[i]))
        i++;
    add_to_counter(&s->buckets[i], 1);
    double sum = atomic_load(&s->sum);
    while (isfinite(value) && !atomic_compare_exchange_weak(&s->sum, &sum, sum + value))
        ;
}

static void print_help_of(attn_text *out, const char *name, const char *type, const char *help) {
    attn_text_add(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_single(attn_text *out, const char *name, const char *type, const char *help,
                         double value) {
    print_help_of(out, name, type, help);
    attn_text_add(out, "%s %.17g\n", name, value);
}

/* Prints a histogram. `label` is a label such as route="/x"; "": no label. The buckets are printed
 * without printf because it would be too slow: all histograms together have a thousand lines, and
 * the HTTP thread may print them. */
static void print_histogram(attn_text *out, const char *name, const char *label, histogram *h) {
    char lines[(COUNT(bounds) + 1) * LINE_ROOM], *p = lines;
    uint64_t total = 0;
    const char *comma = *label ? "," : "", *open = *label ? "{" : "", *shut = *label ? "}" : "";
    for (size_t i = 0; i <= COUNT(bounds); i++) {
        total += atomic_load_explicit(&h->buckets[i], memory_order_relaxed);
        p = attn_put(attn_put(attn_put(p, name), "_bucket{"), label);
        p = attn_put(attn_put(attn_put(p, comma), "le=\""),
                     i < COUNT(bounds) ? bound_texts[i] : "+Inf");
        p = attn_put(attn_put_number(attn_put(p, "\"} "), total), "\n");
    }
    double sum = 1e-9 * (double)atomic_load_explicit(&h->sum_ns, memory_order_relaxed);
    attn_text_add(out, "%.*s%s_sum%s%s%s %.9g\n%s_count%s%s%s %llu\n", (int)(p - lines), lines,
                  name, open, label, shut, sum, name, open, label, shut, (unsigned long long)total);
}

static void print_requests(srv_meters *meters, attn_text *out) {
    print_help_of(out, "attnd_requests_total", "counter",
                  "Requests answered, by route, method and status.");
    for (size_t r = 0; r <= meters->count; r++)
        for (size_t m = 0; m < COUNT(methods); m++)
            for (size_t c = 0; c < COUNT(codes); c++) {
                uint64_t n =
                    atomic_load_explicit(&meters->routes[r].requests[m][c], memory_order_relaxed);
                char code[16] = "other";
                if (!n)
                    continue;
                if (codes[c])
                    snprintf(code, sizeof code, "%d", codes[c]);
                attn_text_add(out,
                              "attnd_requests_total{route=\"%s\",method=\"%s\",code=\"%s\"} %llu\n",
                              r < meters->count ? meters->names[r] : "none", methods[m], code,
                              (unsigned long long)n);
            }
}

static void print_problems(srv_meters *meters, attn_text *out) {
    print_help_of(out, "attnd_problems_total", "counter",
                  "Requests that ended with a problem, by the code in its body.");
    for (size_t i = 0; i < SRV_METER_PROBLEMS && meters->problem_names[i]; i++) {
        uint64_t n = atomic_load_explicit(&meters->problems[i], memory_order_relaxed);
        attn_text_add(out, "attnd_problems_total{problem=\"%s\"} %llu\n", meters->problem_names[i],
                      (unsigned long long)n);
    }
}

static void print_durations(srv_meters *meters, attn_text *out) {
    print_help_of(out, "attnd_request_duration_seconds", "histogram",
                  "Time from the request line to the last byte of the reply.");
    for (size_t r = 0; r <= meters->count; r++) {
        char label[LABEL_ROOM];
        snprintf(label, sizeof label, "route=\"%s\"",
                 r < meters->count ? meters->names[r] : "none");
        print_histogram(out, "attnd_request_duration_seconds", label, &meters->routes[r].duration);
    }
    print_help_of(out, "attnd_queue_duration_seconds", "histogram",
                  "Time that a request waited for a request thread.");
    print_histogram(out, "attnd_queue_duration_seconds", "", &meters->queue);
}

static void print_spreads(srv_meters *meters, attn_text *out) {
    for (size_t which = 0; which < SRV_SPREAD_COUNT; which++) {
        const spread_row *row = &spread_rows[which];
        spread *s = &meters->spreads[which];
        uint64_t total = 0;
        print_help_of(out, row->name, "histogram", row->help);
        for (size_t i = 0; i <= SPREAD_BOUNDS; i++) {
            char bound[32] = "+Inf";
            if (i < SPREAD_BOUNDS)
                snprintf(bound, sizeof bound, "%.12g", row->bounds[i]);
            total += atomic_load_explicit(&s->buckets[i], memory_order_relaxed);
            attn_text_add(out, "%s_bucket{le=\"%s\"} %llu\n", row->name, bound,
                          (unsigned long long)total);
        }
        attn_text_add(out, "%s_sum %.17g\n%s_count %llu\n", row->name, atomic_load(&s->sum),
                      row->name, (unsigned long long)total);
    }
}

static void print_singles(const srv_meters *meters, const srv_gauges *now, attn_text *out) {
    static const struct {
        const char *name, *type, *help;
    } rows[SRV_METRICS_COUNT] = {
        [SRV_IN_FLIGHT] = {"attnd_requests_in_flight", "gauge", "Requests not yet answered."},
        [SRV_CONNECTIONS] = {"attnd_connections", "gauge", "Open connections."},
        [SRV_EXPIRED_IN_QUEUE] =
            {"attnd_expired_in_queue_total", "counter",
             "Requests that were never begun: their deadline passed while they waited, or "
             "would have."},
        [SRV_CLIENT_GONE] = {"attnd_client_gone_total", "counter",
                             "Requests whose client left before the answer."},
        [SRV_CLOSED_SLOW] = {"attnd_closed_slow_total", "counter",
                             "Connections closed because header, body or reply moved too slowly."},
        [SRV_CLOSED_CROWDED] =
            {"attnd_closed_crowded_total", "counter",
             "Idle connections that gave way to new ones: connections, connections_per_address."},
        [SRV_BYTES_IN] = {"attnd_request_body_bytes_total", "counter", "Bytes of request bodies."},
        [SRV_BYTES_OUT] = {"attnd_reply_body_bytes_total", "counter", "Bytes of reply bodies."},
    };
    for (int i = 0; i < SRV_METRICS_COUNT; i++)
        print_single(out, rows[i].name, rows[i].type, rows[i].help,
                     (double)srv_meter_read(meters, (srv_meter)i));
    print_single(out, "attnd_queue_waiting", "gauge", "Requests that wait for a request thread.",
                 (double)now->queue_waiting);
    print_single(out, "attnd_queue_running", "gauge", "Requests on a request thread.",
                 (double)now->queue_running);
    print_single(out, "attnd_queue_limit", "gauge", "Setting queue_length.",
                 (double)now->queue_length);
    print_single(out, "attnd_long_running", "gauge", "Long requests on a request thread.",
                 (double)now->long_running);
    print_single(out, "attnd_long_waiting", "gauge", "Long requests that wait for one.",
                 (double)now->long_waiting);
    print_single(out, "attnd_long_limit", "gauge",
                 "Long requests that may run at a time (long_share).", (double)now->long_threads);
    print_single(out, "attnd_long_put_back_total", "counter",
                 "Requests that were found to be long and had to wait for others.",
                 (double)now->long_put_back);
    print_single(out, "attnd_queue_newest_first", "gauge",
                 "1 while the queue is standing, so that the newest are served first.",
                 now->newest_first ? 1 : 0);
    print_single(out, "attnd_memory_reserved_bytes", "gauge", "Memory that requests hold.",
                 (double)now->memory_used);
    print_single(out, "attnd_memory_budget_bytes", "gauge", "Setting memory_bytes.",
                 (double)now->memory_budget);
    print_single(out, "attnd_runs", "gauge", "Stored runs.", (double)now->runs);
    print_single(out, "attnd_runs_bytes", "gauge", "Bytes of stored runs.",
                 (double)now->runs_bytes);
    print_single(out, "attnd_runs_stored_total", "counter", "Runs stored.",
                 (double)now->runs_stored);
    print_single(out, "attnd_runs_evicted_total", "counter", "Runs that made room for others.",
                 (double)now->runs_evicted);
    print_single(out, "attnd_runs_expired_total", "counter", "Runs whose time was over.",
                 (double)now->runs_expired);
}

static void print_jobs(const srv_gauges *now, attn_text *out) {
    print_help_of(out, "attnd_jobs", "gauge", "Jobs, by state.");
    for (size_t i = 0; now->job_states && i < SRV_GAUGE_JOBS; i++)
        attn_text_add(out, "attnd_jobs{state=\"%s\"} %zu\n", now->job_states[i], now->jobs[i]);
    print_single(out, "attnd_jobs_reserved_bytes", "gauge", "Memory reserved for running jobs.",
                 (double)now->jobs_bytes);
}

void srv_meters_print(srv_meters *meters, const srv_gauges *now, attn_text *out) {
    print_requests(meters, out);
    print_problems(meters, out);
    print_durations(meters, out);
    print_spreads(meters, out);
    print_singles(meters, now, out);
    print_jobs(now, out);
    print_help_of(out, "attnd_build_info", "gauge",
                  "Version and kernel table; the value is always 1.");
    attn_text_add(out, "attnd_build_info{version=\"%s\",isa=\"%s\"} 1\n", attn_version(), now->isa);
    print_single(out, "attnd_log_lines_dropped_total", "counter",
                 "Lines of the log that were dropped because nobody read it in time.",
                 (double)now->log_dropped);
    print_single(out, "attnd_config_last_reload_successful", "gauge",
                 "1 if the keys, the certificate and all models of models_dir could be read last.",
                 now->stale ? 0 : 1);
    print_single(out, "attnd_config_last_reload_success_timestamp_seconds", "gauge",
                 "When they were last all read, since the epoch.", (double)now->reloaded);
    if (now->certificate_until)
        print_single(out, "attnd_tls_certificate_expiry_timestamp_seconds", "gauge",
                     "End of the certificate's validity since the epoch.",
                     (double)now->certificate_until);
    print_single(out, "process_start_time_seconds", "gauge",
                 "Start of the process since the epoch.", meters->started);
    print_single(out, "process_cpu_seconds_total", "counter", "Processor time used.",
                 1e-9 * (double)srv_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    print_single(out, "process_resident_memory_bytes", "gauge", "Resident memory.",
                 (double)now->resident_bytes);
    print_single(out, "process_open_fds", "gauge", "Open file descriptors.",
                 (double)now->open_files);
    print_single(out, "process_max_fds", "gauge", "Most file descriptors that may be open.",
                 (double)now->most_files);
}
