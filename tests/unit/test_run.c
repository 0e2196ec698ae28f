/* Stored runs: whatever shaped the scores, a run that was opened from its image gives the bits of
 * the full matrix: cells, tiles of every level, rows computed alone, keys hidden afterwards. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "run_tiles_case.h"

static void check_explanation(trial *t) {
    const size_t b = pick(t, t->B), h = pick(t, t->Hq), i = pick(t, t->L), j = pick(t, t->S);
    attn_error err = {.code = ATTN_OK};
    attn_run_cell c;
    fail_on(attn_run_explain(t->run, b, h, i, j, t->arena, &c, &err), &err);
    double sum = c.relative;
    size_t rank = 1, of = 0;
    for (size_t e = 0; e < c.width; e++)
        sum += c.products[e];
    assert_true(fabs(sum - c.raw) <= 1e-4 * (1 + fabs(sum)));
    assert_true(fabs(c.scaled - c.raw * c.scale) <= 1e-5 * (1 + fabs(c.scaled)));
    if (c.softcap > 0)
        assert_true(fabs(c.softcapped - c.softcap * tanh(c.scaled / c.softcap)) <=
                    1e-5 * c.softcap);
    assert_true(c.weight == weight(t, b, h, i, j));
    assert_int_equal(c.visible, visible(t, b, h, i, j));
    for (size_t k = 0; k < t->S; k++) {
        const double w = weight(t, b, h, i, k);
        if (!visible(t, b, h, i, k))
            continue;
        of++;
        rank += w > c.weight || (w == c.weight && k < j);
    }
    assert_int_equal(c.of, of);
    assert_int_equal(c.rank, c.visible ? rank : 0);
    assert_int_equal(c.hidden_count > 0, c.filled || !c.visible);
    if (!c.visible) {
        assert_true(c.biased == -INFINITY && c.weight == 0);
    } else if (!c.filled) {
        assert_true(fabs(c.biased - (c.softcapped + c.mask_bias + c.position_bias)) <=
                    1e-5 * (1 + fabs(c.biased)));
        assert_true(fabs(log(c.weight) - (c.biased - c.logsumexp)) <= 1e-4 || c.weight < 1e-30);
    }
}

/* Some rows alone, and with keys hidden, equal the run and a run with that mask. */
static void check_rows(trial *t) {
    attn_range rows = {.batch = pick(t, t->B), .head = pick(t, t->Hq), .row = pick(t, t->L)};
    rows.rows = 1 + pick(t, t->L - rows.row);
    int64_t hide[3] = {(int64_t)pick(t, t->S), 0, (int64_t)t->S - 1};
    const unsigned want = ATTN_WANT_WEIGHTS | ATTN_WANT_OUTPUT;
    attn_inputs part;
    attn_attention *op;
    attn_results got, all;
    attn_error err = {.code = ATTN_OK};
    fail_on(attn_run_rows_inputs(t->run, &rows, NULL, 0, t->arena, &part, &err), &err);
    fail_on(attn_attention_new(&part, t->arena, &op, &err), &err);
    fail_on(attn_attention_run(op, want, ATTN_STAGE_RAW, NULL, NULL, t->arena, &got, &err), &err);
    assert_memory_equal(got.weights.data, weight_at(t, rows.batch, rows.head, rows.row, 0),
                        rows.rows * t->S * elem(t));
    const size_t row = (rows.batch * t->Hq + rows.head) * t->L + rows.row;
    assert_memory_equal(got.output.data, (char *)t->out.output.data + row * t->Ev * elem(t),
                        rows.rows * t->Ev * elem(t));
    if (t->in.mask.fill != ATTN_FILL_HIDE)
        return;
    uint8_t *keys = attn_arena_zeroed(t->arena, t->S, 1);
    for (int k = 0; k < 3; k++)
        keys[hide[k]] = 1;
    attn_inputs direct = t->in;
    direct.mask.layers[direct.mask.count++] =
        (attn_mask_layer){.kind = ATTN_LAYER_PADDING,
                          .where = "hide",
                          .semantics = ATTN_SEM_HIDE,
                          .values = attn_tensor_dense(keys, ATTN_BOOL, 1, &t->S)};
    fail_on(attn_attention_new(&direct, t->arena, &op, &err), &err);
    fail_on(attn_attention_run(op, want, ATTN_STAGE_RAW, NULL, NULL, t->arena, &all, &err), &err);
    fail_on(attn_run_rows_inputs(t->run, &rows, hide, 3, t->arena, &part, &err), &err);
    fail_on(attn_attention_new(&part, t->arena, &op, &err), &err);
    fail_on(attn_attention_run(op, want, ATTN_STAGE_RAW, NULL, NULL, t->arena, &got, &err), &err);
    assert_memory_equal(got.weights.data, (char *)all.weights.data + row * t->S * elem(t),
                        rows.rows * t->S * elem(t));
    assert_memory_equal(got.output.data, (char *)all.output.data + row * t->Ev * elem(t),
                        rows.rows * t->Ev * elem(t));
}

/* The mass of some keys and the best rows of each key are those of the full matrix. */
static void check_columns(trial *t) {
    enum { K = 4 };
    attn_range rows = {.batch = pick(t, t->B), .head = pick(t, t->Hq), .row = pick(t, t->L)};
    rows.rows = 1 + pick(t, t->L - rows.row);
    rows.cols = t->S;
    const int64_t keys[3] = {(int64_t)pick(t, t->S), 0, (int64_t)t->S - 1};
    double *mass = attn_arena_zeroed(t->arena, rows.rows, sizeof *mass);
    attn_edge *edges;
    size_t count, at = 0;
    attn_error err = {.code = ATTN_OK};
    fail_on(attn_run_mass(t->run, &rows, keys, 3, NULL, NULL, t->arena, mass, &err), &err);
    fail_on(attn_run_columns(t->run, &rows, 1, K, NULL, NULL, t->arena, &edges, &count, &err),
            &err);
    for (size_t r = 0; r < rows.rows; r++) {
        double sum = 0;
        for (size_t j = 0; j < t->S; j++)
            if ((int64_t)j == keys[0] || j == 0 || j == t->S - 1)
                sum += weight(t, rows.batch, rows.head, rows.row + r, j);
        assert_true(mass[r] == sum);
    }
    for (size_t j = 0; j < t->S; j++) {
        float last = INFINITY;
        for (size_t n = 0; n < K && at < count && edges[at].col == j; n++, at++) {
            const size_t r = edges[at].row;
            assert_true(r >= rows.row && r < rows.row + rows.rows && edges[at].weight <= last);
            assert_true(edges[at].weight == (float)weight(t, rows.batch, rows.head, r, j));
            last = edges[at].weight;
        }
    }
    assert_int_equal(at, count);
    assert_int_equal(
        attn_run_mass(t->run, &rows, &(int64_t){-1}, 1, NULL, NULL, t->arena, mass, &err),
        ATTN_EARG);
    assert_int_equal(
        attn_run_columns(t->run, &rows, 1, 0, NULL, NULL, t->arena, &edges, &count, &err), ATTN_OK);
    assert_int_equal(count, 0);
}

static void test_runs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        trial t = begin(seed);
        store(&t, NULL, NULL);
        check_cells(&t);
        check_tiles(&t, t.B - 1, t.Hq - 1, NULL);
        for (int n = 0; n < 8; n++)
            check_explanation(&t);
        check_rows(&t);
        check_columns(&t);
        attn_arena_free(t.arena);
    }
}

/* Long enough for an overview: levels 0 to 4, of which 3 and 4 are kept. */
/* Names that a reader could not tell from ours, or from each other. */
static void test_metadata(void **state) {
    static const attn_metadata ours = {"run.kernel", "x"}, twice[2] = {{"a", "1"}, {"a", "2"}};
    attn_metadata many[ATTN_RUN_METADATA + 1];
    char names[ATTN_RUN_METADATA + 1][8];
    (void)state;
    trial t = begin(12);
    attn_error err;
    store(&t, NULL, NULL);
    for (size_t i = 0; i <= ATTN_RUN_METADATA; i++) {
        snprintf(names[i], sizeof names[i], "n%zu", i);
        many[i] = (attn_metadata){names[i], ""};
    }
    labelled l;
    label(&l, &t, NULL, NULL, 1);
    l.source.metadata = many, l.source.metadata_count = ATTN_RUN_METADATA;
    fail_on(attn_run_image_new(&l.source, NULL, NULL, t.arena, &t.pieces, &err), &err);
    l.source.metadata_count++;
    assert_int_equal(attn_run_image_new(&l.source, NULL, NULL, t.arena, &t.pieces, &err),
                     ATTN_EARG);
    l.source.metadata = twice, l.source.metadata_count = 2;
    assert_int_equal(attn_run_image_new(&l.source, NULL, NULL, t.arena, &t.pieces, &err),
                     ATTN_EARG);
    l.source.metadata = &ours, l.source.metadata_count = 1;
    assert_int_equal(attn_run_image_new(&l.source, NULL, NULL, t.arena, &t.pieces, &err),
                     ATTN_EARG);
    attn_arena_free(t.arena);
}

/* An image is outside data: cut short or with any byte of its header changed it is refused or makes
 * a run that can be looked at; never more. */
static void test_damage(void **state) {
    (void)state;
    trial t = begin(12);
    store(&t, NULL, NULL);
    unsigned char *copy = attn_arena_take(t.arena, t.pieces.size);
    attn_error err;
    attn_run *run;
    for (size_t cut = 0; cut < t.pieces.size; cut += 1 + t.pieces.size / 300) {
        attn_arena *arena = attn_arena_new(LIMIT);
        assert_int_not_equal(attn_run_open(t.image, cut, NULL, arena, &run, &err), ATTN_OK);
        attn_arena_free(arena);
    }
    const size_t header = t.pieces.pieces[0].size;
    for (size_t at = 0; at < header; at++) {
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_run_tile tile;
        memcpy(copy, t.image, t.pieces.size);
        copy[at] = (unsigned char)(copy[at] ^ (1u << at % 7));
        const attn_run_site *site;
        if (attn_run_open(copy, t.pieces.size, NULL, arena, &run, &err) == ATTN_OK &&
            attn_run_site_open(run, 0, &site, &err) == ATTN_OK)
            attn_run_tile_make(site, &(attn_run_place){.level = 0}, NULL, NULL, arena, &tile, &err);
        attn_arena_free(arena);
    }
    attn_arena_free(t.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),

        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
