/* Nanoseconds and cycles a number through the tensor reader and the JSON writer, beside strtof and
 * snprintf over the same numbers in the same run.
 *
 *   bench_numbers [count [turns]]
 *
 * Cycles are those of the time stamp counter, which ticks at the processor's nominal rate. Pin it
 * (taskset -c 0); the smallest of the turns is printed, since others share the machine. Under
 * callgrind, one turn gives instructions a number. */
#include <attn/attn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "wire/fields.h"
#include "wire/json_out.h"

typedef struct input {
    uint64_t given;
    attn_tensor query;
} input;

static const srv_field fields[] = {
    {.name = "query", .kind = SRV_TENSOR, .offset = offsetof(input, query), .accepts = SRV_T_REAL},
    {0},
};

typedef struct timing {
    double ns, cycles;
} timing;

static int64_t started_ns;
static uint64_t started_cycles;

static void start(void) {
    started_ns = attn_now_ns();
    started_cycles = __rdtsc();
}

static void stop(timing *best, size_t n) {
    double cycles = (double)(__rdtsc() - started_cycles) / (double)n;
    double ns = (double)(attn_now_ns() - started_ns) / (double)n;
    if (best->ns == 0 || ns < best->ns)
        *best = (timing){ns, cycles};
}

static srv_request request(const char *body, size_t size) {
    return (srv_request){.arena = attn_arena_new((size_t)4 << 30),
                         .path = "/",
                         .query = "",
                         .body = body,
                         .body_size = size};
}

/* {"query":[[…]]} as the writer prints it, in malloc memory. */
static char *write_body(const attn_tensor *t, size_t *size, timing *best, size_t n) {
    srv_request req = request("", 0);
    srv_json j;
    srv_json_begin(&j, &req);
    srv_json_object(&j);
    srv_json_key(&j, "query");
    start();
    srv_json_tensor(&j, t);
    stop(best, n);
    srv_json_object_end(&j);
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

int main(int argc, char **argv) {
    static const char *const names[] = {"normal", "weights", "logits"};
    size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    int turns = argc > 2 ? atoi(argv[2]) : 15;
    size_t dims[] = {n / 64, 64};
    n = n / 64 * 64;
    float *values = attn_alloc(n * sizeof *values);
    if (!values || n == 0 || turns < 1)
        return 2;
    printf("%-10s %28s %28s %28s %28s\n", "", "read", "read, 17 digits", "write",
           "strtof / snprintf");
    for (int kind = 0; kind < 3; kind++) {
        fill(values, n, kind);
        attn_tensor t = attn_tensor_dense(values, ATTN_F32, 2, dims);
        timing reading = {0}, far = {0}, writing = {0}, c_reading = {0}, c_writing = {0};
        size_t size, long_size;
        char *text = long_body(values, n, &long_size);
        for (int i = 0; i < turns; i++) {
            char *body = write_body(&t, &size, &writing, n);
            read_body(body, size, &t, &reading, n);
            read_body(text, long_size, &t, &far, n);
            if (argc < 4)
                use_c_library(values, n, &c_reading, &c_writing);
            free(body);
        }
        printf(
            "%-10s %8.2f ns %8.1f cycles %9.2f ns %8.1f cycles %9.2f ns %8.1f cycles %11.2f ns / "
            "%.2f ns\n",
            names[kind], reading.ns, reading.cycles, far.ns, far.cycles, writing.ns, writing.cycles,
            c_reading.ns, c_writing.ns);
        free(text);
    }
    attn_free(values);
    return 0;
}
