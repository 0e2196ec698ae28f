/* Nanoseconds a number: through the tensor reader and the JSON writer with all that belongs to them
 * (finding the shape, memory and its page faults), through the bare loops, and through strtof and
 * snprintf, over the same numbers in the same run.
 *
 *   bench_numbers [count [turns [only ours]]]
 *
 * Time is the thread's own (user and system); the smallest of the turns is printed, since others
 * share the machine. At last reader and writer by one worker and by two, time by the clock. */
#include <attn/attn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app.h"
#include "number/number.h"
#include "wire/decode.h"
#include "wire/json_out.h"

typedef struct input {
    srv_given_bits given;
    attn_tensor query;
} input;

static const srv_field fields[] = {
    {.name = "query", .kind = SRV_TENSOR, .offset = offsetof(input, query), .accepts = SRV_T_REAL},
    {0},
};

typedef struct timing {
    double ns;
} timing;

static int64_t started_ns;
static srv_app app;   /* its pool: the workers */
static bool by_clock; /* time by the clock */

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(by_clock ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void start(void) {
    started_ns = now_ns();
}

static void stop(timing *best, size_t n) {
    double ns = (double)(now_ns() - started_ns) / (double)n;
    if (best->ns == 0 || ns < best->ns)
        best->ns = ns;
}

static srv_request request(const char *body, size_t size) {
    return (srv_request){.arena = attn_arena_new((size_t)4 << 30),
                         .app = &app,
                         .path = "/",
                         .query = "",
                         .body = body,
                         .body_size = size};
}

/* {"query":[[…]]} as the writer prints it, in malloc memory. */
static char *write_body(const attn_tensor *t, size_t *size, timing *best, size_t n) {
    srv_request req = request("", 0);
    attn_json_text j;
    srv_json_begin(&j, &req);
    attn_json_object(&j);
    attn_json_key(&j, "query");
    start();
    srv_json_tensor(&j, t);
    stop(best, n);
    attn_json_object_end(&j);
    if (!srv_json_end(&j))
        exit(1);
    char *copy = malloc(req.reply.size + 1);
    memcpy(copy, req.reply.body, req.reply.size);
    copy[req.reply.size] = 0;
    *size = req.reply.size;
    attn_arena_free(req.arena);
    return copy;
}

static void read_body(const char *body, size_t size, const attn_tensor *t, timing *best, size_t n) {
    srv_request req = request(body, size);
    input in = {0};
    start();
    bool ok = srv_decode(&req, fields, &in);
    stop(best, n);
    if (!ok || (t && memcmp(in.query.data, t->data, n * sizeof(float)) != 0)) {
        fprintf(stderr, "bench_numbers: the numbers do not come back\n");
        exit(1);
    }
    attn_arena_free(req.arena);
}

/* The loops alone, in memory that is there, in rows of 64. */
static void use_loops(const float *values, size_t n, timing *reading, timing *writing) {
    char *text = malloc(n * (ATTN_NUMBER_TEXT + 1) + 128), *p = text + 64;
    float *back = malloc(n * sizeof *back);
    memset(text, ' ', n * (ATTN_NUMBER_TEXT + 1) + 128);
    memset(back, 0, n * sizeof *back);
    start();
    for (size_t i = 0; i < n; i += 64) {
        p = attn_write_singles(p, values + i, 64);
        p[-1] = ']';
        *p++ = '[';
    }
    stop(writing, n);
    const char *end = p + 1, *q = text + 64;
    start();
    for (size_t i = 0, count; i < n; i += count, q += 2) {
        bool comma;
        q = attn_read_singles(q, text, end, back + i, n - i, &count, &comma);
        if (count == 0)
            break;
    }
    stop(reading, n);
    if (memcmp(back, values, n * sizeof *back) != 0) {
        fprintf(stderr, "bench_numbers: the numbers do not come back from the loops\n");
        exit(1);
    }
    free(back);
    free(text);
}

static void use_c_library(const float *values, size_t n, timing *reading, timing *writing) {
    char *text = malloc(n * 16 + 1), *p = text;
    start();
    for (size_t i = 0; i < n; i++)
        p += snprintf(p, 17, "%.9g,", (double)values[i]);
    stop(writing, n);
    float sum = 0;
    p = text;
    start();
    for (size_t i = 0; i < n; i++, p++)
        sum += strtof(p, &p);
    stop(reading, n);
    if (sum == 0.123f)
        puts("");
    free(text);
}

/* As clients that convert float32 to double write it: 17 digits, a blank behind each comma. */
static char *long_body(const float *values, size_t n, size_t *size) {
    char *text = malloc(n * 28 + 32), *p = text;
    p += sprintf(p, "{\"query\": [");
    for (size_t i = 0; i < n; i++)
        p += sprintf(p, "%.17g%s", (double)values[i], i + 1 < n ? ", " : "");
    p += sprintf(p, "]}");
    *size = (size_t)(p - text);
    return text;
}

static void fill(float *values, size_t n, int kind) {
    attn_rng_fill_normal(values, n, 1, 0);
    for (size_t i = 0; i < n && kind == 1; i++) /* softmax rows */
        values[i] = __builtin_expf(3 * values[i]) / 2000;
    for (size_t i = 0; i < n && kind == 2; i++) /* logits */
        values[i] *= 30;
}

static void use_workers(const attn_tensor *t, size_t n, int turns) {
    timing reading[2] = {{0}, {0}}, writing[2] = {{0}, {0}};
    attn_pool *two = attn_pool_new(2);
    size_t size;
    by_clock = true;
    for (int i = 0; i < 4 * turns; i++) {
        app.pool = i % 2 ? two : NULL;
        char *body = write_body(t, &size, &writing[i % 2], n);
        read_body(body, size, t, &reading[i % 2], n);
        free(body);
    }
    printf("by the clock, one worker, two: read %.2f %.2f (%.2fx), write %.2f %.2f (%.2fx)\n",
           reading[0].ns, reading[1].ns, reading[0].ns / reading[1].ns, writing[0].ns,
           writing[1].ns, writing[0].ns / writing[1].ns);
    attn_pool_free(two);
}

int main(int argc, char **argv) {
    static const char *const names[] = {"normal", "weights", "logits"};
    size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    int turns = argc > 2 ? atoi(argv[2]) : 15;
    size_t dims[] = {n / 64, 64};
    n = n / 64 * 64;
    float *values = attn_alloc(n * sizeof *values);
    if (!values || n == 0 || turns < 1)
        return 2;
    printf("ns a number, %s\n%-10s %9s %9s %9s %9s %9s %9s %9s\n",
           attn_isa_name(attn_isa_current()), "", "read", "17 digits", "write", "read loop",
           "write loop", "strtof", "snprintf");
    for (int kind = 0; kind < 3; kind++) {
        fill(values, n, kind);
        attn_tensor t = attn_tensor_dense(values, ATTN_F32, 2, dims);
        timing reading = {0}, far = {0}, writing = {0}, loop_in = {0}, loop_out = {0};
        timing c_reading = {0}, c_writing = {0};
        size_t size, long_size;
        char *text = long_body(values, n, &long_size);
        for (int i = 0; i < turns; i++) {
            char *body = write_body(&t, &size, &writing, n);
            read_body(body, size, &t, &reading, n);
            read_body(text, long_size, &t, &far, n);
            use_loops(values, n, &loop_in, &loop_out);
            if (argc < 4)
                use_c_library(values, n, &c_reading, &c_writing);
            free(body);
        }
        printf("%-10s %9.2f %9.2f %9.2f %9.2f %9.2f %9.1f %9.1f\n", names[kind], reading.ns, far.ns,
               writing.ns, loop_in.ns, loop_out.ns, c_reading.ns, c_writing.ns);
        free(text);
    }
    fill(values, n, 0);
    attn_tensor t = attn_tensor_dense(values, ATTN_F32, 2, dims);
    use_workers(&t, n, turns);
    attn_free(values);
    return 0;
}
