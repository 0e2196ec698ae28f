/* The linter: what is warned of, what is not, and with which numbers. The words of a mask. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attn/mask.h"
#include "attn/pool.h"

typedef struct fixture {
    attn_arena *arena;
    attn_mask_spec spec;
    attn_mask_shape shape;
    attn_mask *mask;
    attn_warnings found;
} fixture;

static fixture begin(size_t B, size_t H, size_t L, size_t S) {
    fixture f = {.arena = attn_arena_new(SIZE_MAX)};
    f.shape = (attn_mask_shape){
        .batch_rank = B > 0, .batch = {B}, .has_heads = H > 0, .H = H ? H : 1, .L = L, .S = S};
    return f;
}

static attn_mask_layer *add(fixture *f, attn_layer_kind kind, const char *where) {
    attn_mask_layer *layer = &f->spec.layers[f->spec.count++];
    *layer = (attn_mask_layer){.kind = kind, .where = where};
    return layer;
}

/* A layer with a tensor of the given shape. */
static attn_mask_layer *add_tensor(fixture *f, attn_layer_kind kind, const char *where, void *data,
                                   attn_dtype dtype, const size_t *dims, int rank) {
    attn_mask_layer *layer = add(f, kind, where);
    layer->values = attn_tensor_dense(data, dtype, rank, dims);
    return layer;
}

static void lint(fixture *f) {
    attn_error err = {0};
    if (attn_mask_new(&f->spec, &f->shape, f->arena, &f->mask, &err))
        fail_msg("%s: %s", err.where, err.text);
    assert_int_equal(attn_mask_lint(f->mask, f->arena, &f->found, &err), ATTN_OK);
}

static const attn_warning *warning(const fixture *f, attn_warning_code code) {
    for (size_t i = 0; i < f->found.count; i++)
        if (f->found.items[i].code == code)
            return &f->found.items[i];
    return NULL;
}

/* The warning that must be there. */
static const attn_warning *need(const fixture *f, attn_warning_code code) {
    const attn_warning *w = warning(f, code);
    if (!w)
        fail_msg("no warning: %s", attn_warning_text(code));
    return w;
}

#define NAME(name, text) #name,
static const char *const code_names[] = {ATTN_WARNINGS(NAME)};
#undef NAME

static void end(fixture *f) {
    attn_arena_free(f->arena);
}

/* Lints one boolean attn_mask made by keep(i, j) over [L, S]; gives the codes found, joined. */
static void codes_of(size_t L, size_t S, bool (*keep)(size_t i, size_t j), char *codes) {
    fixture f = begin(0, 0, L, S);
    uint8_t *data = malloc(L * S + 1);
    size_t dims[2] = {L, S};
    for (size_t i = 0; i < L * S; i++)
        data[i] = keep(i / S, i % S);
    add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", data, ATTN_BOOL, dims, 2);
    lint(&f);
    *codes = '\0';
    for (size_t i = 0; i < f.found.count; i++)
        sprintf(codes + strlen(codes), "%s%s", i ? " " : "", code_names[f.found.items[i].code]);
    end(&f);
    free(data);
}

static bool all(size_t i, size_t j) {
    return i + j + 1 > 0;
}
static bool none(size_t i, size_t j) {
    return i + j + 1 == 0;
}
static bool lower(size_t i, size_t j) {
    return j <= i;
}
static bool upper(size_t i, size_t j) {
    return j >= i;
}
static bool strict_upper(size_t i, size_t j) {
    return j > i;
}
static bool end_aligned(size_t i, size_t j) {
    return j <= i + 2;
} /* S = L + 2 */
static bool window(size_t i, size_t j) {
    return j <= i && i <= j + 2;
}
static bool key_padding(size_t i, size_t j) {
    return i < 100 && j < 5;
}
static bool outer(size_t i, size_t j) {
    return i < 5 && j < 5;
}
static bool sees_itself(size_t i, size_t j) {
    return j < 7 || (i == 7 && j == 7);
}
static bool packed(size_t i, size_t j) {
    return (i < 6) == (j < 6);
}
static bool packed_causal(size_t i, size_t j) {
    return (i < 6) == (j < 6) && j <= i;
}
static bool prefix(size_t i, size_t j) {
    return j < 6 || j <= i;
}
static bool padded_causal(size_t i, size_t j) {
    return j <= i && j < 6;
}
static bool row_zero(size_t i, size_t j) {
    return i > 0 && j < 100;
}

static void test_patterns(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t L, S;
        bool (*keep)(size_t, size_t);
        const char *codes;
    } cases[] = {
        {"all", 4, 4, all, ""},
        {"none", 4, 4, none, "HIDDEN_ROWS"},
        {"causal", 8, 8, lower, ""},
        {"transposed", 8, 8, upper, "MASK_TRANSPOSED"},
        {"inverted", 8, 8, strict_upper, "MASK_INVERTED HIDDEN_ROWS"},
        {"inverted 3", 3, 3, strict_upper, "MASK_INVERTED HIDDEN_ROWS"},
        {"start of a cache", 4, 6, lower, "MASK_AT_START"},
        {"end of a cache", 4, 6, end_aligned, ""},
        {"more queries than keys", 6, 4, lower, "MASK_AT_START"},
        {"causal window", 8, 8, window, ""},
        {"padding", 8, 8, key_padding, ""},
        {"padding of queries too", 8, 8, outer, "PADDING_OF_QUERIES HIDDEN_ROWS"},
        {"a padding token sees itself", 8, 8, sees_itself, "PADDING_SEEN"},
        {"packed texts", 8, 8, packed, ""},
        {"packed causal texts", 8, 8, packed_causal, ""},
        {"prefix", 8, 8, prefix, ""},
        {"causal and padded", 8, 8, padded_causal, ""},
        {"first row blind", 2, 2, row_zero, "HIDDEN_ROWS"},
        {"one query", 1, 7, key_padding, ""},
        {"one key", 7, 1, all, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char codes[256];
        codes_of(cases[i].L, cases[i].S, cases[i].keep, codes);
        if (strcmp(codes, cases[i].codes))
            fail_msg("%s: expected \"%s\", found \"%s\"", cases[i].name, cases[i].codes, codes);
    }
}

/* The meaning of the mask counts, not its bytes; finite fills count as hidden. */
static void test_numbers_and_meanings(void **state) {
    (void)state;
    float hide[9] = {0, 1, 1, 0, 0, 1, 0, 0, 0},
          added[9] = {0, -1e9f, -INFINITY, 0, 0, -1e9f, 0, 0, 0};
    float upside[9] = {0, 0, 0, -1e9f, 0, 0, -1e9f, -1e9f, 0};
    size_t dims[2] = {3, 3};
    fixture f = begin(0, 0, 3, 3);
    add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", hide, ATTN_F32, dims, 2)->semantics =
        ATTN_SEM_HIDE;
    add_tensor(&f, ATTN_LAYER_VALUES, "masks/1", added, ATTN_F32, dims, 2);
    lint(&f);
    assert_int_equal(f.found.count, 1);
    assert_string_equal(need(&f, ATTN_WARN_LOW_NUMBERS)->layer->where, "masks/1");
    assert_true(need(&f, ATTN_WARN_LOW_NUMBERS)->value == (double)-1e9f);
    assert_string_equal(attn_mask_words(f.mask, f.arena),
                        "attn_mask: numbers [3, 3], 1 = hidden, hides 3 of its 9 cells; "
                        "masks/1: numbers [3, 3], added to the scores, hides 1 of its 9 cells");
    end(&f);

    f = begin(0, 0, 3, 3);
    add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", added, ATTN_F32, dims, 2)->semantics =
        ATTN_SEM_FINITE_MIN;
    lint(&f);
    assert_int_equal(f.found.count, 0);
    assert_string_equal(attn_mask_words(f.mask, f.arena),
                        "attn_mask: numbers [3, 3], added to the scores, hides 3 of its 9 cells");
    end(&f);

    f = begin(0, 0, 3, 3);
    add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", added, ATTN_F32, dims, 2)->semantics =
        ATTN_SEM_NONZERO;
    lint(&f); /* -1e9 and -infinity are not 0: only what an additive mask hides is visible */
    assert_string_equal(need(&f, ATTN_WARN_MASK_INVERTED)->layer->where, "attn_mask");
    assert_string_equal(attn_mask_words(f.mask, f.arena), "attn_mask: numbers [3, 3], all but 0 = "
                                                          "attend, hides 6 of its 9 cells");
    assert_false(attn_mask_adds(f.mask));
    end(&f);

    f = begin(0, 0, 3, 3);
    add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", hide, ATTN_F32, dims, 2)->semantics =
        ATTN_SEM_KEEP;
    lint(&f); /* the hide mask read as keep */
    assert_string_equal(need(&f, ATTN_WARN_MASK_INVERTED)->layer->where, "attn_mask");
    const attn_warning *rows = need(&f, ATTN_WARN_HIDDEN_ROWS);
    assert_int_equal(rows->queries, 1);
    assert_int_equal(rows->rows_read, 3);
    assert_int_equal(rows->rows[0].query, 2);
    assert_false(rows->partial);
    end(&f);

    f = begin(0, 0, 3, 3);
    add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", upside, ATTN_F32, dims, 2);
    lint(&f);
    need(&f, ATTN_WARN_MASK_TRANSPOSED);
    assert_null(warning(&f, ATTN_WARN_HIDDEN_ROWS));
    end(&f);
}

static void test_ranks(void **state) {
    (void)state;
    uint8_t keep[60];
    memset(keep, 1, sizeof keep);
    size_t two[2] = {3, 5}, broadcast[2] = {1, 5}, three[3] = {2, 3, 5}, four[4] = {2, 1, 3, 5};
    static const struct {
        size_t B, H, L;
        int rank;
        bool warns;
    } cases[] = {
        {3, 0, 3, 2, true},  {2, 0, 3, 2, false}, {0, 0, 3, 2, false}, {3, 4, 3, 2, true},
        {3, 0, 3, 1, false}, {2, 2, 3, 3, true},  {2, 2, 3, 4, false}, {2, 0, 3, 3, false},
        {3, 2, 3, 3, false}, {2, 1, 3, 3, false}, {3, 1, 3, 2, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = begin(cases[i].B, cases[i].H, cases[i].L, 5);
        const size_t *dims = cases[i].rank == 1   ? broadcast
                             : cases[i].rank == 2 ? two
                             : cases[i].rank == 3 ? three
                                                  : four;
        add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", keep, ATTN_BOOL, dims,
                   cases[i].rank == 1 ? 2 : cases[i].rank);
        lint(&f);
        assert_int_equal(warning(&f, cases[i].rank == 2 ? ATTN_WARN_MASK_OR_PADDING
                                                        : ATTN_WARN_MASK_OR_BATCHES) != NULL,
                         cases[i].warns);
        assert_int_equal(f.found.count, cases[i].warns);
        end(&f);
    }
    fixture f = begin(3, 4, 3, 5);
    add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", keep, ATTN_BOOL, two, 2);
    lint(&f);
    assert_int_equal(f.found.B, 3);
    assert_int_equal(f.found.H, 4);
    assert_int_equal(f.found.L, 3);
    assert_int_equal(f.found.S, 5);
    assert_true(f.found.has_heads);
    end(&f);
}

static void test_causal_beside_more_keys(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        int64_t zero = 0;
        fixture f = begin(2, 0, i == 4 ? 6 : 2, 6);
        add(&f, ATTN_LAYER_CAUSAL, "is_causal");
        if (i == 1)
            f.spec.offset = ATTN_OFFSET_END;
        else if (i == 2)
            f.spec.offset = ATTN_OFFSET_GIVEN, f.spec.offsets = &zero, f.spec.offset_count = 1;
        else if (i == 3)
            f.shape.past = 4;
        lint(&f);
        assert_int_equal(f.found.count, i == 0);
        if (i == 0) {
            assert_int_equal(f.found.items[0].code, ATTN_WARN_CAUSAL_AT_START);
            assert_string_equal(f.found.items[0].layer->where, "is_causal");
        }
        const char *words = attn_mask_words(f.mask, f.arena);
        assert_string_equal(words, i == 1 || i == 3 ? "causal: query i sees keys 0 to i + 4"
                                                    : "causal: query i sees keys 0 to i");
        end(&f);
    }
}

static void test_queries_instead_of_keys(void **state) {
    (void)state;
    uint8_t keep[4] = {1, 1, 0, 0};
    size_t dims[2] = {4, 1};
    fixture f = begin(0, 0, 4, 6);
    add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", keep, ATTN_BOOL, dims, 2);
    lint(&f);
    need(&f, ATTN_WARN_MASK_OF_QUERIES);
    const attn_warning *rows = need(&f, ATTN_WARN_HIDDEN_ROWS);
    assert_int_equal(rows->queries, 2);
    assert_int_equal(rows->rows_read, 4);
    assert_int_equal(rows->row_count, 2);
    assert_int_equal(rows->rows[0].query, 2);
    assert_int_equal(rows->rows[1].query, 3);
    end(&f);
}

/* Each batch entry has its own padding: found in the second. */
static void test_padding_of_a_batch(void **state) {
    (void)state;
    uint8_t keep[2 * 4 * 4];
    memset(keep, 1, sizeof keep);
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++)
            keep[16 + 4 * i + j] = j < 3 || i == 3;
    size_t dims[3] = {2, 4, 4};
    fixture f = begin(2, 0, 4, 4);
    add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", keep, ATTN_BOOL, dims, 3);
    lint(&f);
    assert_int_equal(f.found.count, 1);
    const attn_warning *w = need(&f, ATTN_WARN_PADDING_SEEN);
    assert_int_equal(w->batch, 1);
    assert_int_equal(w->key, 3);
    assert_int_equal(w->queries, 3);
    assert_int_equal(w->query, 3);
    end(&f);
}

static void test_padding_gap(void **state) {
    (void)state;
    int64_t ids[12] = {5, 3, 0, 0, 0, 0, 0, 9, 0, 7, 0, 0};
    uint8_t hide[6] = {0, 0, 0, 1, 1, 0};
    size_t dims[2] = {2, 6};
    fixture f = begin(2, 0, 3, 6);
    add_tensor(&f, ATTN_LAYER_TOKENS, "token_ids", ids, ATTN_I64, dims, 2);
    lint(&f);
    assert_int_equal(f.found.count, 1);
    assert_int_equal(need(&f, ATTN_WARN_PADDING_GAP)->batch, 1);
    assert_int_equal(need(&f, ATTN_WARN_PADDING_GAP)->key, 2);
    assert_int_equal(need(&f, ATTN_WARN_PADDING_GAP)->layer->kind, ATTN_LAYER_TOKENS);
    assert_string_equal(
        attn_mask_words(f.mask, f.arena),
        "token_ids: keys with the id 0 are padding, hides 4, 4 of 6 keys by batch entry");
    end(&f);

    f = begin(0, 0, 3, 6);
    add_tensor(&f, ATTN_LAYER_PADDING, "key_padding_mask", hide, ATTN_BOOL, dims + 1, 1)
        ->semantics = ATTN_SEM_HIDE;
    lint(&f);
    assert_int_equal(need(&f, ATTN_WARN_PADDING_GAP)->key, 3);
    hide[5] = 1;
    f.spec.count = 1;
    lint(&f);
    assert_int_equal(f.found.count, 0);
    assert_string_equal(attn_mask_words(f.mask, f.arena), "key_padding_mask: hides 3 of 6 keys");
    end(&f);
}

static void test_hidden_rows_of_all_layers(void **state) {
    (void)state;
    int64_t lengths[2] = {6, 2};
    size_t dims[1] = {2};
    fixture f = begin(2, 3, 5, 6);
    add_tensor(&f, ATTN_LAYER_LENGTHS, "key_lengths", lengths, ATTN_I64, dims, 1);
    add(&f, ATTN_LAYER_WINDOW, "window")->window[1] = -1; /* left 0: keys from i on */
    lint(&f);
    const attn_warning *w = need(&f, ATTN_WARN_HIDDEN_ROWS);
    assert_int_equal(w->queries, 3);
    assert_int_equal(w->rows_read, 10);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(w->rows[i].batch, 1);
        assert_int_equal(w->rows[i].query, 2 + i);
    }
    assert_true(w->all_heads && !w->all_batches);
    assert_null(w->layer);
    assert_string_equal(attn_mask_words(f.mask, f.arena),
                        "key_lengths: of 6 keys the first 6, 2 are real, by batch entry; "
                        "window: query i sees keys i to the last");
    f.spec.fill = ATTN_FILL_ADD, f.spec.fill_value = -1e9; /* no cell is hidden then */
    lint(&f);
    assert_int_equal(f.found.count, 0);
    f.spec.fill_value = -10;
    lint(&f);
    assert_true(need(&f, ATTN_WARN_FILL_LEAKS)->value == -10);
    assert_non_null(strstr(attn_mask_words(f.mask, f.arena), "lowered by adding -10"));
    end(&f);
}

static void test_no_mask_and_zero_axes(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        fixture f = begin(i == 3 ? 2 : 0, 0, i == 1 ? 0 : 3, i == 2 ? 0 : 3);
        if (i)
            add(&f, ATTN_LAYER_CAUSAL, "is_causal");
        if (i == 3)
            f.shape.batch[0] = 0;
        lint(&f);
        assert_int_equal(f.found.count, 0);
        assert_string_equal(attn_mask_words(f.mask, f.arena),
                            i ? "causal: query i sees keys 0 to i"
                              : "none: every query sees every key");
        end(&f);
    }
}

static void test_words(void **state) {
    (void)state;
    int64_t offsets[2] = {2, -1};
    uint8_t keep[3] = {1, 1, 1};
    float bias[3] = {0.5f, 1, -2};
    size_t dims[1] = {3};
    fixture f = begin(2, 0, 4, 3);
    attn_mask_layer *w = add(&f, ATTN_LAYER_WINDOW, "window");
    w->window[0] = 3, w->window[1] = 1;
    add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", keep, ATTN_BOOL, dims, 1);
    add_tensor(&f, ATTN_LAYER_BIAS, "attn_bias", bias, ATTN_F32, dims, 1);
    f.spec.offset = ATTN_OFFSET_GIVEN, f.spec.offsets = offsets, f.spec.offset_count = 1;
    lint(&f);
    assert_string_equal(attn_mask_words(f.mask, f.arena),
                        "window: query i sees keys i - 1 to i + 3; "
                        "attn_mask: booleans [3], true = attend, hides nothing; "
                        "attn_bias: numbers [3], added to the scores");
    f.spec.count = 1, f.spec.offset_count = 2;
    lint(&f);
    assert_non_null(strstr(attn_mask_words(f.mask, f.arena), "(offsets 2, -1)"));
    end(&f);
}

/* Long lists stay short, big masks cheap. */
static void test_bounds(void **state) {
    (void)state;
    enum { L = 6000 };
    uint8_t *keep = calloc(L, L);
    size_t dims[2] = {L, L};
    for (size_t i = 0; i < L; i++)
        keep[i * L] = i < 50;
    fixture f = begin(0, 0, L, L);
    add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", keep, ATTN_BOOL, dims, 2);
    clock_t start = clock(); /* of the processor: others may have it, and sanitizers are slow */
    lint(&f);
    assert_true(clock() - start < 10 * CLOCKS_PER_SEC);
    const attn_warning *w = need(&f, ATTN_WARN_HIDDEN_ROWS);
    assert_int_equal(w->row_count, 8);
    assert_int_equal(w->rows[0].query, 50);
    assert_int_equal(w->rows[1].query, 51);
    assert_true(w->partial && w->rows_read < L);
    end(&f);

    f = begin(0, 0, L, L);
    for (size_t i = 0; i < L; i++)
        memset(keep + i * L, 1, L), memset(keep + i * L, 0, i);
    add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", keep, ATTN_BOOL, dims, 2);
    lint(&f);
    assert_int_equal(f.found.count, 1);
    need(&f, ATTN_WARN_MASK_TRANSPOSED);
    end(&f);
    free(keep);

    f = begin(0, 0, 5000, 20);
    int64_t none_real = 0;
    size_t one[1] = {1};
    add_tensor(&f, ATTN_LAYER_LENGTHS, "key_lengths", &none_real, ATTN_I64, one, 1);
    lint(&f);
    assert_int_equal(need(&f, ATTN_WARN_HIDDEN_ROWS)->queries, 5000);
    assert_int_equal(f.found.items[0].rows_read, 5000);
    assert_int_equal(f.found.items[0].row_count, 8);
    end(&f);
}

/* Every code has a sentence. */
static void test_sentences(void **state) {
    (void)state;
    for (int code = 0; code < ATTN_WARNING_COUNT; code++)
        assert_true(strlen(attn_warning_text((attn_warning_code)code)) > 20);
    assert_null(attn_warning_text(ATTN_WARNING_COUNT));
}

static void test_out_of_memory(void **state) {
    (void)state;
    uint8_t keep[16] = {0};
    size_t dims[2] = {4, 4};
    bool failed = false, passed = false;
    for (size_t extra = 0; extra < 4096; extra += 64) {
        fixture f = begin(0, 0, 4, 4);
        add_tensor(&f, ATTN_LAYER_VALUES, "attn_mask", keep, ATTN_BOOL, dims, 2);
        assert_int_equal(attn_mask_new(&f.spec, &f.shape, f.arena, &f.mask, NULL), ATTN_OK);
        attn_arena_set_limit(f.arena, attn_arena_used(f.arena) + extra);
        attn_status status = attn_mask_lint(f.mask, f.arena, &f.found, NULL);
        assert_true(status == ATTN_OK || status == ATTN_ENOMEM);
        assert_non_null(attn_mask_words(f.mask, f.arena));
        failed |= status == ATTN_ENOMEM;
        passed |= status == ATTN_OK;
        end(&f);
    }
    assert_true(failed && passed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_numbers_and_meanings),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_causal_beside_more_keys),
        cmocka_unit_test(test_queries_instead_of_keys),
        cmocka_unit_test(test_padding_of_a_batch),
        cmocka_unit_test(test_padding_gap),
        cmocka_unit_test(test_hidden_rows_of_all_layers),
        cmocka_unit_test(test_no_mask_and_zero_axes),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
