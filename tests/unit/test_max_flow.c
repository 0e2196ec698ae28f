/* Maximum flows through a graph of layers (runs/max_flow.c), beside augmenting paths in a matrix
 * of capacities. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "runs/max_flow.h"

enum { LAYERS = 5, TOKENS = 8, NODES = (LAYERS + 1) * TOKENS, TRIALS = 300, LIMIT = 1 << 24 };

typedef struct trial {
    attn_arena *arena;
    attn_flow_graph graph;
    attn_flow_row rows[LAYERS * TOKENS];
    double capacity[LAYERS * TOKENS * TOKENS];
    attn_flow_lane *lane;
    double left[NODES][NODES]; /* of the definition */
} trial;

static void begin(trial *t, size_t layers, size_t tokens) {
    attn_area counted = {0}, area;
    t->arena = attn_arena_new(LIMIT);
    t->graph = (attn_flow_graph){layers, tokens, t->rows, t->capacity, 0};
    for (size_t i = 0; i < layers * tokens; i++) {
        t->rows[i] = (attn_flow_row){0, tokens, t->graph.edges};
        t->graph.edges += tokens;
    }
    attn_flow_lane_place(&t->graph, &counted);
    assert_true(attn_area_open(&area, &counted, t->arena));
    t->lane = attn_flow_lane_place(&t->graph, &area);
    assert_int_equal(area.used, counted.used);
}

static double flow(trial *t, size_t source, size_t sink) {
    attn_error err = {0};
    double got = -1;
    assert_int_equal(attn_flow_compute(&t->graph, t->lane, source, sink, NULL, NULL, &got, &err),
                     ATTN_OK);
    return got;
}

/* Goes along a path of which each edge has something left. Returns what it carries. */
static double augment(trial *t, size_t from, size_t to, double most, bool *seen) {
    const size_t nodes = (t->graph.layers + 1) * t->graph.tokens;
    if (from == to)
        return most;
    seen[from] = true;
    for (size_t n = 0; n < nodes; n++) {
        if (seen[n] || t->left[from][n] <= 0)
            continue;
        const double got = augment(t, n, to, fmin(most, t->left[from][n]), seen);
        if (got > 0) {
            t->left[from][n] -= got;
            t->left[n][from] += got;
            return got;
        }
    }
    return 0;
}

static double defined(trial *t, size_t source, size_t sink) {
    const size_t n = t->graph.tokens;
    double sum = 0, got;
    memset(t->left, 0, sizeof t->left);
    for (size_t k = 0; k < t->graph.layers; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = t->rows[k * n + i].lo; j < t->rows[k * n + i].hi; j++)
                t->left[(k + 1) * n + i][k * n + j] =
                    t->capacity[t->rows[k * n + i].first + j - t->rows[k * n + i].lo];
    do {
        bool seen[NODES] = {false};
        got = augment(t, t->graph.layers * n + source, sink, 1e9, seen);
        sum += got;
    } while (got > 0);
    return sum;
}

/* Rows see ranges of tokens, or none, and many capacities are 0. They are multiples of 1 / 64, so
 * all sums are exact. */
static void make(trial *t, uint64_t seed) {
    size_t at = 0;
#define PICK(n) (size_t)(attn_rng_bits(seed, at++) % (n))
    const size_t layers = 1 + PICK(LAYERS), tokens = 1 + PICK(TOKENS), rare = 1 + PICK(4);
    begin(t, layers, tokens);
    for (size_t i = 0; i < layers * tokens; i++) {
        attn_flow_row *row = &t->rows[i];
        row->lo = PICK(4) ? 0 : PICK(tokens + 1);
        row->hi = PICK(4) ? tokens : row->lo + PICK(tokens + 1 - row->lo);
        for (size_t j = 0; j < row->hi - row->lo; j++)
            t->capacity[row->first + j] = PICK(rare) ? 0 : (double)PICK(65) / 64;
    }
#undef PICK
}

static void test_the_definition(void **state) {
    (void)state;
    size_t sent = 0;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        trial *t = calloc(1, sizeof *t);
        make(t, seed);
        for (size_t source = 0; source < t->graph.tokens; source++)
            for (size_t sink = 0; sink < t->graph.tokens; sink++) {
                const double want = defined(t, source, sink);
                assert_true(flow(t, source, sink) == want);
                sent += want > 0;
            }
        attn_arena_free(t->arena);
        free(t);
    }
    assert_true(sent > TRIALS);
}

/* The first path goes over token 0 of all levels, and the second one needs its last edge: flow of
 * the first has to be sent back over the edge above it. */
static void test_flow_is_sent_back(void **state) {
    (void)state;
    trial *t = calloc(1, sizeof *t);
    begin(t, 3, 2);
    const double capacity[3][2][2] = {{{1, 0}, {1, 0}}, {{1, 1}, {1, 0}}, {{1, 1}, {0, 0}}};
    memcpy(t->capacity, capacity, sizeof capacity);
    assert_true(flow(t, 0, 0) == 2);
    assert_true(flow(t, 0, 1) == 0);
    assert_true(flow(t, 1, 0) == 0);
    attn_arena_free(t->arena);
    free(t);
}

/* A row of NaN concerns the pairs between which it lies. */
static void test_nan(void **state) {
    (void)state;
    trial *t = calloc(1, sizeof *t);
    begin(t, 2, 3);
    for (size_t i = 0; i < 6; i++) /* causal */
        t->rows[i].hi = i % 3 + 1;
    for (size_t i = 0; i < t->graph.edges; i++)
        t->capacity[i] = 0.25;
    for (size_t j = 0; j < 2; j++)
        t->capacity[t->rows[1].first + j] = NAN;
    assert_true(flow(t, 0, 0) == 0.25);
    assert_true(isnan(flow(t, 1, 0)) && isnan(flow(t, 2, 1)));
    assert_true(flow(t, 2, 2) == 0.25);
    attn_arena_free(t->arena);
    free(t);
}

static void test_it_can_be_stopped(void **state) {
    (void)state;
    trial *t = calloc(1, sizeof *t);
    const attn_flag stop = 1;
    const attn_control control = {.cancel = &stop};
    attn_error err = {0};
    double got;
    begin(t, 2, 3);
    for (size_t i = 0; i < t->graph.edges; i++)
        t->capacity[i] = 0.25;
    assert_int_equal(attn_flow_compute(&t->graph, t->lane, 2, 0, NULL, &control, &got, &err),
                     ATTN_ECANCELED);
    attn_arena_free(t->arena);
    free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_definition),
        cmocka_unit_test(test_flow_is_sent_back),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_it_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
