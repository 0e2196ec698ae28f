/* What a local window costs beside full attention, L = 16,384, one head of width 64, one thread:
 * time of the outputs, memory with and without the weights, and whether the values equal those of
 * the full form under a mask of booleans (checked at L = 2,048, where that mask is small). */
#include <attn/attn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L = 16384, SMALL = 2048, E = 64, RUNS = 5 };

static attn_tensor normal(size_t n, uint64_t seed) {
    const size_t dims[] = {n, E};
    float *data = attn_alloc(n * E * sizeof *data);
    if (!data)
        exit(1);
    attn_rng_fill_normal(data, n * E, seed, 0);
    return attn_tensor_dense(data, ATTN_F32, 2, dims);
}

static attn_inputs inputs(size_t n) {
    attn_inputs in = attn_attention_defaults();
    in.query = normal(n, 1);
    in.key = normal(n, 2);
    in.value = normal(n, 3);
    return in;
}

static void give_back(attn_inputs *in) {
    attn_free(in->query.data);
    attn_free(in->key.data);
    attn_free(in->value.data);
}

static void add_layer(attn_inputs *in, const attn_mask_layer *layer) {
    if (layer)
        in->mask.layers[in->mask.count++] = *layer;
}

/* The output into a fresh arena; *ms: the fastest of the runs, *bytes: what the arena handed out.
 */
static attn_arena *run(attn_inputs in, const attn_mask_layer *layer, int runs, double *ms,
                       size_t *bytes, attn_results *out) {
    attn_arena *arena = NULL;
    attn_error err = {.code = ATTN_OK};
    *ms = 1e9;
    add_layer(&in, layer);
    for (int r = 0; r < runs; r++) {
        attn_attention *a;
        attn_arena_free(arena);
        int64_t start = attn_now_ns();
        arena = attn_arena_new((size_t)4 << 30);
        if (!arena || attn_attention_new(&in, arena, &a, &err) != ATTN_OK ||
            attn_attention_run(a, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, NULL, NULL, arena, out, &err) !=
                ATTN_OK) {
            fprintf(stderr, "bench_window: %s: %s\n", err.where, err.text);
            exit(1);
        }
        double took = (double)(attn_now_ns() - start) * 1e-6;
        *ms = took < *ms ? took : *ms;
    }
    *bytes = attn_arena_used(arena);
    return arena;
}

/* Do the window and the same cells as a boolean mask give the same bytes? */
static int same_values(const attn_mask_layer *window) {
    attn_inputs in = inputs(SMALL);
    attn_results a, b;
    double ms;
    size_t bytes;
    uint8_t *keep = attn_alloc((size_t)SMALL * SMALL);
    if (!keep)
        exit(1);
    for (int64_t i = 0; i < SMALL; i++)
        for (int64_t j = 0; j < SMALL; j++)
            keep[i * SMALL + j] = window->window[0] >= i - j && window->window[1] >= j - i;
    const size_t dims[] = {SMALL, SMALL};
    const attn_mask_layer mask = {.kind = ATTN_LAYER_VALUES,
                                  .where = "attn_mask",
                                  .values = attn_tensor_dense(keep, ATTN_BOOL, 2, dims)};
    attn_arena *first = run(in, window, 1, &ms, &bytes, &a);
    attn_arena *second = run(in, &mask, 1, &ms, &bytes, &b);
    int same = memcmp(a.output.data, b.output.data, (size_t)SMALL * E * sizeof(float)) == 0;
    attn_arena_free(first);
    attn_arena_free(second);
    attn_free(keep);
    give_back(&in);
    return same;
}

int main(void) {
    const attn_mask_layer windows[] = {
        {.kind = ATTN_LAYER_WINDOW, .where = "window", .window = {255, 0}},
        {.kind = ATTN_LAYER_WINDOW, .where = "window", .window = {128, 127}},
        {.kind = ATTN_LAYER_WINDOW, .where = "window", .window = {256, 256}},
    };
    attn_inputs in = inputs(L);
    attn_results out;
    double full, ms;
    size_t full_bytes, bytes;
    attn_arena_free(run(in, NULL, RUNS, &full, &full_bytes, &out));
    const size_t weights = (size_t)L * L * sizeof(float);
    printf("full, L = %d: %.1f ms, %zu bytes, %zu with weights (%s)\n", L, full, full_bytes,
           full_bytes + weights, attn_isa_name(attn_isa_current()));
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        attn_arena_free(run(in, &windows[w], RUNS, &ms, &bytes, &out));
        printf("window [%lld, %lld]: %.1f ms = %.2f %% of full, %zu bytes = %.2f %% of full with "
               "weights; values %s the masked full form's\n",
               (long long)windows[w].window[0], (long long)windows[w].window[1], ms,
               100 * ms / full, bytes, 100.0 * (double)bytes / (double)(full_bytes + weights),
               same_values(&windows[w]) ? "equal" : "DIFFER FROM");
    }
    give_back(&in);
    return 0;
}
