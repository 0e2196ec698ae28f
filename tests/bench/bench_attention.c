/* Times one attention case in-process: the C side of `make bench-attention`.
 *
 *   bench_attention --case B,Hq,Hkv,L,S,E,Ev,causal,want --threads n --seconds s
 *                   [--precision fp32|fast|bf16] [--pattern kind,a,b]
 *
 * want: 1 output, 2 weights, 3 both (attention.h's bits); 257 output and gradients.
 * pattern: local,radius,0; strided,stride,local; block,size,0; global,keys,local. Prints the median
 * and the smallest time in milliseconds, the peak of resident memory in MB, and the share of visible
 * cells. One thread is timed by the processor's time, so that others on the machine count little;
 * more by the clock. */
#include <attn/attn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_RUNS = 100000, GRADIENTS = 256 };

typedef struct options {
    size_t B, H, Hkv, L, S, E, Ev, threads;
    int causal, want, precision;
    double seconds;
    int sparse; /* the operation has the pattern */
    attn_pattern pattern;
} options;

static int parse_pattern(const char *text, attn_pattern *p) {
    char kind[16];
    long long a, b;
    if (sscanf(text, "%15[a-z],%lld,%lld", kind, &a, &b) != 3)
        return 0;
    if (strcmp(kind, "local") == 0)
        *p = (attn_pattern){.kind = ATTN_PATTERN_LOCAL, .radius = a};
    else if (strcmp(kind, "strided") == 0)
        *p = (attn_pattern){.kind = ATTN_PATTERN_STRIDED, .stride = a, .local = b};
    else if (strcmp(kind, "block") == 0)
        *p = (attn_pattern){.kind = ATTN_PATTERN_BLOCK, .size = a};
    else if (strcmp(kind, "global") == 0)
        *p = (attn_pattern){.kind = ATTN_PATTERN_GLOBAL, .num_keys = a, .local = b};
    else
        return 0;
    return 1;
}

static int parse(int argc, char **argv, options *o) {
    *o = (options){.threads = 1, .seconds = 1};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--case") == 0) {
            if (sscanf(argv[i + 1], "%zu,%zu,%zu,%zu,%zu,%zu,%zu,%d,%d", &o->B, &o->H, &o->Hkv,
                       &o->L, &o->S, &o->E, &o->Ev, &o->causal, &o->want) != 9)
                return 0;
        } else if (strcmp(argv[i], "--threads") == 0) {
            o->threads = strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--precision") == 0) {
            while (o->precision < ATTN_PRECISION_COUNT &&
                   strcmp(argv[i + 1], attn_precision_name((attn_precision)o->precision)) != 0)
                o->precision++;
        } else if (strcmp(argv[i], "--seconds") == 0) {
            o->seconds = strtod(argv[i + 1], NULL);
        } else if (strcmp(argv[i], "--pattern") == 0) {
            if (!parse_pattern(argv[i + 1], &o->pattern))
                return 0;
            o->sparse = 1;
        }
    }
    return o->B > 0;
}

static attn_tensor random_tensor(size_t B, size_t H, size_t n, size_t width, uint64_t seed) {
    size_t dims[] = {B, H, n, width}, count = B * H * n * width;
    float *data = attn_alloc(count * sizeof *data);
    if (!data)
        exit(1);
    attn_rng_fill_normal(data, count, seed, 0);
    return attn_tensor_dense(data, ATTN_F32, 4, dims);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double milliseconds(const options *o) {
    struct timespec t;
    clock_gettime(o->threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void run_once(const attn_inputs *in, const attn_tensor *grad_output, const options *o,
                     attn_pool *pool) {
    attn_error err = {.code = ATTN_OK};
    attn_attention *a;
    attn_results results;
    attn_gradients gradients;
    attn_arena *arena = attn_arena_new((size_t)16 << 30);
    attn_status status = arena ? attn_attention_new(in, arena, &a, &err) : ATTN_ENOMEM;
    if (status == ATTN_OK && o->want < GRADIENTS)
        status = attn_attention_run(a, (unsigned)o->want, ATTN_STAGE_PROBS, pool, NULL, arena,
                                    &results, &err);
    else if (status == ATTN_OK)
        status =
            attn_attention_run_backward(a, (unsigned)o->want % GRADIENTS, ATTN_STAGE_PROBS,
                                        grad_output, pool, NULL, arena, &results, &gradients, &err);
    if (status != ATTN_OK) {
        fprintf(stderr, "bench_attention: %s: %s\n", err.where, err.text);
        exit(1);
    }
    attn_arena_free(arena);
}

/* Milliseconds of one run; short ones are timed `batch` at a time, as reading the clock takes as
 * long. */
static double time_batch(const attn_inputs *in, const attn_tensor *grad_output, const options *o,
                         attn_pool *pool, size_t batch) {
    const double start = milliseconds(o);
    for (size_t i = 0; i < batch; i++)
        run_once(in, grad_output, o, pool);
    return (milliseconds(o) - start) / (double)batch;
}

/* The share of the cells that the mask shows. */
static double kept_share(const attn_inputs *in) {
    attn_error err = {.code = ATTN_OK};
    attn_attention *a;
    uint64_t visible = 0;
    attn_arena *arena = attn_arena_new((size_t)1 << 30);
    if (!arena || attn_attention_new(in, arena, &a, &err) != ATTN_OK ||
        attn_mask_visible(attn_attention_mask(a), NULL, &visible, &err) != ATTN_OK) {
        fprintf(stderr, "bench_attention: %s: %s\n", err.where, err.text);
        exit(1);
    }
    const attn_attention_dims *d = attn_attention_dims_of(a);
    const double cells = (double)(d->B * d->Hq) * (double)d->L * (double)d->S;
    attn_arena_free(arena);
    return (double)visible / cells;
}

/* Of this program alone: getrusage would count what ran before exec, too. */
static double peak_megabytes(void) {
    char line[128];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return (double)kib / 1024;
}

int main(int argc, char **argv) {
    options o;
    static double ms[MOST_RUNS];
    size_t runs = 0;
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "usage: bench_attention --case B,Hq,Hkv,L,S,E,Ev,causal,want [--threads n] "
                        "[--seconds s] [--precision p] [--pattern kind,a,b]\n");
        return 2;
    }
    attn_inputs in = attn_attention_defaults();
    in.precision = (attn_precision)o.precision;
    in.query = random_tensor(o.B, o.H, o.L, o.E, 1);
    in.key = random_tensor(o.B, o.Hkv, o.S, o.E, 2);
    in.value = random_tensor(o.B, o.Hkv, o.S, o.Ev, 3);
    attn_tensor grad_output = random_tensor(o.B, o.H, o.L, o.Ev, 4);
    if (o.causal)
        in.mask.layers[in.mask.count++] = (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL};
    if (o.sparse)
        in.mask.layers[in.mask.count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_PATTERN, .pattern = o.pattern};
    attn_pool *pool = attn_pool_new(o.threads);
    if (!pool)
        return 1;
    time_batch(&in, &grad_output, &o, pool, 1); /* into the caches */
    const double first = time_batch(&in, &grad_output, &o, pool, 1);
    const size_t batch = first < 0.2 ? (size_t)(1 / first) : 1;
    int64_t end = attn_now_ns() + (int64_t)(o.seconds * 1e9);
    while (runs < 1 || (attn_now_ns() < end && runs < MOST_RUNS))
        ms[runs++] = time_batch(&in, &grad_output, &o, pool, batch);
    qsort(ms, runs, sizeof *ms, by_value);
    printf("%.6f %.6f %.1f %.6f\n", ms[runs / 2], ms[0], peak_megabytes(), kept_share(&in));
    attn_pool_free(pool);
    attn_free(in.query.data);
    attn_free(in.key.data);
    attn_free(in.value.data);
    attn_free(grad_output.data);
    return 0;
}
