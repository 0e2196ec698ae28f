/* The sites of stored runs: statistics that are computed later, shared tensors, labels and texts. */
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

#include "run_case.h"

/* A run without statistics computes them as rows are looked at, in any order. On "ref" the sums of a
 * row depend on how many rows are computed together, so its weights differ in the last bits. */
static void check_without_stats(trial *t) {
    attn_error err = {.code = ATTN_OK};
    labelled l;
    const bool bits = strcmp(attn_attention_kernel(t->a), "ref") != 0;
    label(&l, t, NULL, NULL, 1);
    l.site.stats = NULL;
    fail_on(attn_run_image_new(&l.source, NULL, NULL, t->arena, &t->pieces, &err), &err);
    join(t);
    fail_on(attn_run_open(t->image, t->pieces.size, NULL, t->arena, &t->whole, &err), &err);
    fail_on(attn_run_site_open(t->whole, 0, &t->run, &err), &err);
    if (bits) {
        check_cells(t);
        return;
    }
    attn_cells_scratch *scratch = attn_cells_scratch_new(attn_run_attention(t->run), t->arena);
    double *row = attn_arena_take(t->arena, t->S * sizeof *row);
    for (size_t n = t->B * t->Hq * t->L; n-- > 0;) {
        const size_t b = n / t->L / t->Hq, h = n / t->L % t->Hq, i = n % t->L;
        const attn_range at = {b, h, i, 1, 0, t->S};
        fail_on(attn_attention_cells(attn_run_attention(t->run), &t->run->stats, &at,
                                     ATTN_STAGE_PROBS, row, t->S, scratch, &err),
                &err);
        for (size_t j = 0; j < t->S; j++) {
            const double got = t->wide ? row[j] : (double)((const float *)(const void *)row)[j];
            assert_true(fabs(got - weight(t, b, h, i, j)) <= 1e-6);
        }
    }
}

static void test_runs_without_statistics(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        trial t = begin(seed);
        store(&t, NULL, NULL);
        check_without_stats(&t);
        attn_arena_free(t.arena);
    }
}

/* Two sites that share queries and a mask: the file has each tensor once. */
static void test_shared_tensors(void **state) {
    (void)state;
    trial t = {
        .arena = attn_arena_new(LIMIT), .seed = 5, .B = 2, .Hq = 4, .Hkv = 2, .L = 9, .S = 7};
    attn_error err = {.code = ATTN_OK};
    const char *tokens[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    const attn_run_text text = {.count = 9, .tokens = tokens, .text = "abcdefghi"};
    const size_t number = 0;
    t.E = t.Ev = 5;
    t.in = attn_attention_defaults();
    t.in.query = NORMAL(&t, t.B, t.Hq, t.L, t.E);
    t.in.key = NORMAL(&t, t.B, t.Hkv, t.S, t.E);
    t.in.value = NORMAL(&t, t.B, t.Hkv, t.S, t.Ev);
    add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_VALUES,
                                    .where = "attn_mask",
                                    .values = BOOLS(&t, t.L, t.S)});
    store(&t, NULL, NULL);
    attn_run_site_source sites[2] = {{.op = t.a}, {.op = t.a}};
    sites[0].info = (attn_run_site_info){.name = "first", .kind = ATTN_RUN_ENCODER};
    sites[1].info = (attn_run_site_info){.kind = ATTN_RUN_CROSS,
                                         .layer = 3,
                                         .call = 1,
                                         .key_start = 2,
                                         .query_texts = &number,
                                         .key_texts = &number,
                                         .query_text_count = 1,
                                         .key_text_count = 1};
    const attn_run_source source = {
        .sites = sites, .site_count = 2, .texts = &text, .text_count = 1, .model = "two"};
    fail_on(attn_run_image_new(&source, NULL, NULL, t.arena, &t.pieces, &err), &err);
    assert_int_equal(t.pieces.count, 1 + 4); /* header, query, key, value, mask */
    join(&t);
    fail_on(attn_run_open(t.image, t.pieces.size, NULL, t.arena, &t.whole, &err), &err);
    assert_string_equal(attn_run_model(t.whole), "two");
    assert_int_equal(attn_run_site_count(t.whole), 2);
    for (size_t i = 0; i < 2; i++) {
        fail_on(attn_run_site_open(t.whole, i, &t.run, &err), &err);
        if (strcmp(attn_attention_kernel(t.a), "ref") != 0)
            check_cells(&t);
    }
    const attn_run_site_info *info = attn_run_site_info_of(t.whole, 1);
    assert_string_equal(info->name, "sites.1");
    assert_int_equal(info->kind, ATTN_RUN_CROSS);
    assert_int_equal(info->layer, 3);
    assert_int_equal(info->call, 1);
    assert_string_equal(attn_run_key_labels(t.run, 1)[6], "i");
    assert_string_equal(attn_run_query_labels(t.run, 0)[6], "g");
    attn_arena_free(t.arena);
}

/* A column [L, 1] that hides rows, shared by sites with one key and with several. */
static void test_shared_column(void **state) {
    static const size_t keys[2] = {1, 5};
    (void)state;
    trial t = {.arena = attn_arena_new(LIMIT), .seed = 8, .B = 1, .Hq = 1, .Hkv = 1, .L = 4};
    const attn_tensor column = BOOLS(&t, t.L, 1);
    attn_error err = {.code = ATTN_OK};
    trial sites[2];
    attn_run_site_source sources[2] = {{0}};
    t.E = t.Ev = 3;
    for (int i = 0; i < 2; i++) {
        t.S = keys[i];
        t.in = attn_attention_defaults();
        t.in.query = NORMAL(&t, t.B, t.Hq, t.L, t.E);
        t.in.key = t.in.value = NORMAL(&t, t.B, t.Hkv, t.S, t.E);
        add_layer(&t, (attn_mask_layer){
                          .kind = ATTN_LAYER_VALUES, .where = "attn_mask", .values = column});
        store(&t, NULL, NULL);
        sites[i] = t;
        sources[i] = (attn_run_site_source){
            .op = t.a, .stats = &sites[i].out.stats, .info.layer = (size_t)i};
    }
    const attn_run_source source = {.sites = sources, .site_count = 2};
    fail_on(attn_run_image_new(&source, NULL, NULL, t.arena, &t.pieces, &err), &err);
    join(&t);
    fail_on(attn_run_open(t.image, t.pieces.size, NULL, t.arena, &t.whole, &err), &err);
    for (size_t i = 0; i < 2; i++) {
        fail_on(attn_run_site_open(t.whole, i, &sites[i].run, &err), &err);
        check_cells(&sites[i]);
    }
    attn_arena_free(t.arena);
}

static void test_labels(void **state) {
    (void)state;
    const char *query[] = {"a", "",
                           "Stra\xc3\x9f"
                           "e"},
               *key[] = {"x", "y"};
    trial t = {
        .arena = attn_arena_new(LIMIT), .seed = 9, .B = 1, .Hq = 1, .Hkv = 1, .L = 3, .S = 2};
    t.E = t.Ev = 4;
    t.in = attn_attention_defaults();
    t.in.query = NORMAL(&t, t.L, t.E);
    t.in.key = NORMAL(&t, t.S, t.E);
    t.in.value = NORMAL(&t, t.S, t.Ev);
    store(&t, query, key);
    for (size_t i = 0; i < t.L; i++)
        assert_string_equal(attn_run_query_labels(t.run, 0)[i], query[i]);
    for (size_t i = 0; i < t.S; i++)
        assert_string_equal(attn_run_key_labels(t.run, 0)[i], key[i]);
    assert_int_equal(attn_run_label_entries(t.run), 1);
    attn_arena_free(t.arena);
}

static void test_labels_of_entries(void **state) {
    const char *query[] = {"a", "b", "c", "d", "e", "f"}, *key[] = {"u", "v", "w", "x"};
    trial t = {
        .arena = attn_arena_new(LIMIT), .seed = 9, .B = 2, .Hq = 1, .Hkv = 1, .L = 3, .S = 2};
    (void)state;
    t.E = t.Ev = 4;
    t.in = attn_attention_defaults();
    t.in.query = NORMAL(&t, t.B, t.L, t.E);
    t.in.key = NORMAL(&t, t.B, t.S, t.E);
    t.in.value = NORMAL(&t, t.B, t.S, t.Ev);
    store(&t, query, key);
    for (size_t b = 0; b < t.B; b++)
        assert_string_equal(attn_run_key_labels(t.run, b)[1], "v");
    store_labelled(&t, query, key, 2);
    assert_int_equal(attn_run_label_entries(t.run), 2);
    for (size_t b = 0; b < t.B; b++) {
        for (size_t i = 0; i < t.L; i++)
            assert_string_equal(attn_run_query_labels(t.run, b)[i], query[b * t.L + i]);
        for (size_t i = 0; i < t.S; i++)
            assert_string_equal(attn_run_key_labels(t.run, b)[i], key[b * t.S + i]);
    }
    store(&t, NULL, NULL);
    assert_int_equal(attn_run_label_entries(t.run), 0);
    labelled l;
    attn_error err;
    label(&l, &t, query, key, 2);
    l.site.info.key_text_count = 3;
    assert_int_equal(attn_run_image_new(&l.source, NULL, NULL, t.arena, &t.pieces, &err),
                     ATTN_ESHAPE);
    assert_string_equal(err.where, "sites/0/key_text");
    label(&l, &t, query, key, 1);
    l.texts[1].count = 1;
    assert_int_equal(attn_run_image_new(&l.source, NULL, NULL, t.arena, &t.pieces, &err),
                     ATTN_ESHAPE);
    attn_arena_free(t.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_without_statistics), cmocka_unit_test(test_shared_tensors),
        cmocka_unit_test(test_shared_column), cmocka_unit_test(test_labels),
        cmocka_unit_test(test_labels_of_entries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
