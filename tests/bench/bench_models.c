/* One model's forward pass and training step on one thread, for tests/bench/models.py: reads the
 * sizes, prints the median milliseconds of processor time of a forward pass, of a step's gradients
 * (zeroed first), and of a whole step, Adam included; and the most kilobytes that were resident. */
#include <attn/attn.h>

#include "layers/layers.h"
#include "train/training.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct sizes {
    size_t width, layers, B, S, T, source, target, rounds;
} sizes;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void *must(void *p) {
    if (!p)
        exit(1);
    return p;
}

static int32_t *words(size_t n, size_t vocabulary, uint64_t seed) {
    int32_t *ids = must(attn_alloc(n * sizeof *ids));
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(3 + attn_rng_bits(seed, i) % (vocabulary - 3));
    return ids;
}

static int rising(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, size_t n) {
    qsort(times, n, sizeof *times, rising);
    return times[n / 2];
}

static void check(attn_status status, const attn_error *err) {
    if (!status)
        return;
    fprintf(stderr, "%s: %s\n", err->where, err->text);
    exit(1);
}

static float *moments(size_t n) {
    float *values = must(attn_alloc(n * sizeof *values));
    memset(values, 0, n * sizeof *values);
    return values;
}

/* Kilobytes. Not getrusage's, in which the parent's count before exec. */
static long most_resident(void) {
    FILE *status = must(fopen("/proc/self/status", "r"));
    char line[256];
    long most = 0;
    while (fgets(line, sizeof line, status) && sscanf(line, "VmHWM: %ld", &most) != 1)
        continue;
    fclose(status);
    return most;
}

static void measure(attn_model *model, const attn_batch *batch, size_t rounds) {
    double *forward = must(attn_alloc(rounds * sizeof *forward));
    double *gradients = must(attn_alloc(rounds * sizeof *gradients));
    double *step = must(attn_alloc(rounds * sizeof *step));
    attn_arena *arena = must(attn_arena_new((size_t)4 << 30));
    attn_parameters *set = attn_model_parameters(model);
    const attn_adam adam = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
    const size_t size = attn_parameters_size(set);
    float *first = moments(size), *second = moments(size);
    attn_error err;
    for (size_t r = 0; r < rounds; r++) {
        const attn_step_options options = {.seed = r};
        attn_model_outputs out;
        attn_cross_entropy_loss loss;
        attn_arena_reset(arena);
        double start = now();
        check(attn_model_forward(model, batch, &(attn_forward_options){0}, arena, NULL, NULL, &out,
                                 &err),
              &err);
        forward[r] = now() - start;
        attn_arena_reset(arena);
        start = now();
        attn_parameters_zero_gradients(set);
        check(attn_model_step(model, batch, &options, arena, NULL, NULL, &loss, &err), &err);
        gradients[r] = now() - start;
        attn_adam_step(attn_parameters_values(set), attn_parameters_gradients(set), first, second,
                       size, r + 1, 1e-3, &adam);
        step[r] = now() - start;
    }
    printf("%.3f %.3f %.3f %ld\n", median(forward, rounds), median(gradients, rounds),
           median(step, rounds), most_resident());
    attn_free(first);
    attn_free(second);
    attn_free(forward);
    attn_free(gradients);
    attn_free(step);
    attn_arena_free(arena);
}

int main(int argc, char **argv) {
    sizes z;
    if (argc != 2 || sscanf(argv[1], "%zu,%zu,%zu,%zu,%zu,%zu,%zu,%zu", &z.width, &z.layers, &z.B,
                            &z.S, &z.T, &z.source, &z.target, &z.rounds) != 8) {
        fprintf(stderr, "usage: bench_models width,layers,B,S,T,source,target,rounds\n");
        return 2;
    }
    attn_model_config config = attn_model_defaults();
    config.width = z.width;
    config.num_layers = z.layers;
    config.num_heads = 8;
    config.source_vocabulary = z.source;
    config.target_vocabulary = z.target;
    attn_model *model;
    attn_error err;
    check(attn_model_new(&config, 1, true, &model, &err), &err);
    int64_t *lengths = must(attn_alloc(z.B * sizeof *lengths));
    for (size_t b = 0; b < z.B; b++)
        lengths[b] = (int64_t)z.S;
    int32_t *source = words(z.B * z.S, z.source, 1), *target = words(z.B * z.T, z.target, 2);
    const attn_batch batch = {.B = z.B,
                              .S = z.S,
                              .T = z.T,
                              .source = source,
                              .source_lengths = lengths,
                              .target = target,
                              .expected = target};
    measure(model, &batch, z.rounds);
    attn_free(source);
    attn_free(target);
    attn_free(lengths);
    attn_model_free(model);
    return 0;
}
