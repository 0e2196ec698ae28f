/* Several operations at once (attn_attention_run_each), on each kernel table of this machine: every
 * result has the bytes of the run of its own, whatever steps the plans have, also after NaN; the
 * pieces are those of the single runs together. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "unit/normal_tensor.h"

enum { HQ = 4, HKV = 2, E = 16, EV = 8 };

/* Queries and keys of the entries: the longest is more than a hundred times the shortest, and the
 * plans pack all keys, pack by head, read few rows unpacked, divide keys into ranges, go over
 * windows, or compute nothing. */
static const struct {
    size_t queries, keys;
    int64_t radius; /* of a local pattern; 0: none */
} entries[] = {{3, 5, 0}, {300, 300, 0},  {40, 90, 0}, {1, 20000, 0}, {500, 2, 0},
               {0, 7, 0}, {600, 600, 16}, {9, 1, 0},   {700, 900, 0}};
enum { COUNT = sizeof entries / sizeof *entries };

static const unsigned wants[] = {ATTN_WANT_OUTPUT | ATTN_WANT_LOGSUMEXP,
                                 ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_SCORES,
                                 ATTN_WANT_OUTPUT | ATTN_WANT_CELLS};

static attn_attention *make(attn_arena *arena, size_t i, const char *kernel, size_t bad) {
    const size_t L = entries[i].queries, S = entries[i].keys;
    attn_inputs in = attn_attention_defaults();
    attn_attention *op;
    attn_error err = {0};
    in.query = NORMAL_TENSOR(arena, 3 * i + 1, 1, HQ, L, E);
    in.key = NORMAL_TENSOR(arena, 3 * i + 2, 1, HKV, S, E);
    in.value = NORMAL_TENSOR(arena, 3 * i + 3, 1, HKV, S, EV);
    in.kernel = kernel;
    if (entries[i].radius)
        in.mask.layers[in.mask.count++] = (attn_mask_layer){
            .kind = ATTN_LAYER_WINDOW, .window = {entries[i].radius, entries[i].radius}};
    if (i == bad) { /* beyond what the tables of vectors compute: the pass is repeated in double */
        in.allow_nonfinite = true;
        ((float *)in.key.data)[3] = (float)INFINITY;
        ((float *)in.value.data)[5] = (float)NAN;
    }
    assert_int_equal(attn_attention_new(&in, arena, &op, &err), ATTN_OK);
    return op;
}

static void check_tensor(const attn_tensor *a, const attn_tensor *b) {
    size_t count;
    assert_int_equal(a->rank, b->rank);
    if (!a->rank)
        return;
    assert_memory_equal(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
    assert_true(attn_tensor_count(a, &count));
    assert_memory_equal(a->data, b->data, count * attn_dtype_size(a->dtype));
}

static void check_results(const attn_results *a, const attn_results *b) {
    check_tensor(&a->output, &b->output);
    check_tensor(&a->weights, &b->weights);
    check_tensor(&a->logsumexp, &b->logsumexp);
    check_tensor(&a->scores, &b->scores);
    assert_int_equal(a->hidden_rows, b->hidden_rows);
}

/* Cells that are computed later read what the run has packed. */
static void check_cells(attn_arena *arena, attn_attention *a, const attn_results *out,
                        attn_attention *b, const attn_results *alone) {
    const attn_attention_dims *d = attn_attention_dims_of(a);
    const size_t rows = d->L < 3 ? d->L : 3, cols = d->S < 50 ? d->S : 50;
    const attn_range range = {0, HQ - 1, d->L - rows, rows, d->S - cols, cols};
    float found[150], want[150];
    if (!rows)
        return;
    assert_int_equal(attn_attention_cells(a, &out->stats, &range, ATTN_STAGE_PROBS, found, cols,
                                          attn_cells_scratch_new(a, arena), NULL),
                     ATTN_OK);
    assert_int_equal(attn_attention_cells(b, &alone->stats, &range, ATTN_STAGE_PROBS, want, cols,
                                          attn_cells_scratch_new(b, arena), NULL),
                     ATTN_OK);
    assert_memory_equal(found, want, rows * cols * sizeof *want);
}

static void run_table(attn_arena *arena, const char *kernel, size_t slots, unsigned want,
                      size_t bad) {
    attn_pool *pool = slots ? attn_pool_new(slots) : NULL;
    attn_attention *ops[COUNT], *single[COUNT];
    attn_results out[COUNT], alone;
    attn_error err = {0};
    for (size_t i = 0; i < COUNT; i++) {
        ops[i] = make(arena, i, kernel, bad);
        single[i] = make(arena, i, kernel, bad);
    }
    assert_int_equal(
        attn_attention_run_each(ops, COUNT, want, ATTN_STAGE_SCALED, pool, NULL, arena, out, &err),
        ATTN_OK);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(
            attn_attention_run(single[i], want, ATTN_STAGE_SCALED, NULL, NULL, arena, &alone, &err),
            ATTN_OK);
        check_results(&out[i], &alone);
        if (want & ATTN_WANT_CELLS)
            check_cells(arena, ops[i], &out[i], single[i], &alone);
    }
    attn_pool_free(pool);
}

static void test_bits(void **state) {
    static const attn_isa tables[] = {ATTN_ISA_REF, ATTN_ISA_AVX2, ATTN_ISA_AVX512};
    (void)state;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        if (!attn_isa_available(tables[t])) {
            print_message("not run: %s\n", attn_isa_name(tables[t]));
            continue;
        }
        for (size_t w = 0; w < sizeof wants / sizeof *wants; w++)
            for (size_t slots = 0; slots < 4; slots += 3)
                for (size_t bad = 1; bad < COUNT + 1; bad += 6) { /* entries 1 and 7, which have
                                                                   * keys */
                    attn_arena *arena = attn_arena_new((size_t)1 << 32);
                    run_table(arena, attn_isa_name(tables[t]), slots, wants[w], bad);
                    attn_arena_free(arena);
                }
    }
}

/* --- pieces --- */

typedef struct told {
    size_t count;
    double last;
    bool falls; /* a share was below the one before it */
} told;

static void tell(void *ctx, double done) {
    told *t = ctx;
    t->count++;
    t->falls |= done < t->last;
    t->last = done;
}

/* The shares rise from the first piece of all entries to the last one, so all entries are one task:
 * with tasks of their own, each entry would end at 1. The pieces are those of the single runs. */
static void test_pieces(void **state) {
    attn_arena *arena = attn_arena_new((size_t)1 << 32);
    attn_attention *ops[COUNT];
    attn_results out[COUNT];
    told together = {0}, single = {0};
    size_t most = 0;
    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = make(arena, i, NULL, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        attn_progress progress = {tell, &single, 0, 1};
        const attn_control control = {.progress = &progress};
        const size_t before = single.count;
        single.last = 0;
        assert_int_equal(attn_attention_run(ops[i], ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, NULL,
                                            &control, arena, out, NULL),
                         ATTN_OK);
        most = single.count - before > most ? single.count - before : most;
    }
    attn_progress progress = {tell, &together, 0, 1};
    const attn_control control = {.progress = &progress};
    assert_int_equal(attn_attention_run_each(ops, COUNT, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, NULL,
                                             &control, arena, out, NULL),
                     ATTN_OK);
    assert_int_equal(together.count, single.count);
    assert_true(!together.falls && together.last == 1);
    assert_true(most >= HQ); /* the longest entry is no piece that one thread computes alone */
    attn_arena_free(arena);
}

/* --- errors and memory --- */

static void test_named(void **state) {
    attn_arena *arena = attn_arena_new(1 << 26);
    attn_attention *ops[3];
    attn_results out[3] = {{.hidden_rows = 7}};
    attn_error err = {0};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        attn_inputs in = attn_attention_defaults();
        in.query = NORMAL_TENSOR(arena, i + 1, 1, 2, 20, E);
        if (i == 2)
            ((float *)in.query.data)[E + 1] = (float)INFINITY;
        in.key = in.value = in.query;
        assert_int_equal(attn_attention_new(&in, arena, &ops[i], &err), ATTN_OK);
    }
    assert_int_equal(attn_attention_run_each(ops, 3, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, NULL, NULL,
                                             arena, out, &err),
                     ATTN_ENONFINITE);
    assert_string_equal(err.where, "2/key/0/0/1/1");
    assert_int_equal(out[0].hidden_rows, 7);
    assert_int_equal(attn_attention_run_each(ops, 0, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, NULL, NULL,
                                             arena, out, &err),
                     ATTN_OK);
    attn_arena_free(arena);
}

/* The costs of the operations, and attn_attention_each_bytes, bound what a run takes. */
static void test_bounded(void **state) {
    attn_pool *pool = attn_pool_new(3);
    (void)state;
    for (size_t w = 0; w < sizeof wants / sizeof *wants; w++) {
        attn_arena *made = attn_arena_new((size_t)1 << 32);
        attn_attention *ops[COUNT];
        attn_results out[COUNT];
        size_t bytes = attn_attention_each_bytes(COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            attn_cost cost;
            ops[i] = make(made, i, NULL, COUNT);
            assert_int_equal(
                attn_attention_cost(attn_attention_dims_of(ops[i]), wants[w], 3, &cost, NULL),
                ATTN_OK);
            bytes += cost.work_bytes + cost.result_bytes;
        }
        attn_arena *arena = attn_arena_new(bytes);
        assert_int_equal(attn_attention_run_each(ops, COUNT, wants[w], ATTN_STAGE_RAW, pool, NULL,
                                                 arena, out, NULL),
                         ATTN_OK);
        attn_arena_free(arena);
        attn_arena_free(made);
    }
    attn_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
