/* BLEU beside the numbers of sacrebleu, alignment error rate beside values worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "corpus/bleu.h"

static const struct {
    double corpus, first;
    int sentences;
    const int32_t *numbers; /* a sentence: words, reference words, then both */
} cases[] = {
#include "bleu_cases.inc"
};

static void test_bleu_is_that_of_sacrebleu(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        attn_bleu all = {0}, first = {0};
        const int32_t *at = cases[c].numbers;
        for (int i = 0; i < cases[c].sentences; i++) {
            size_t n = (size_t)at[0], m = (size_t)at[1];
            attn_bleu_add(&all, at + 2, n, at + 2 + n, m);
            if (!i)
                attn_bleu_add(&first, at + 2, n, at + 2 + n, m);
            at += 2 + n + m;
        }
        assert_float_equal(attn_bleu_score(&all, false), cases[c].corpus, 1e-9);
        assert_float_equal(attn_bleu_score(&first, true), cases[c].first, 1e-9);
    }
}

static void test_bleu_of_nothing_and_of_the_same(void **state) {
    (void)state;
    const int32_t words[] = {5, 6, 7, 8, 9};
    attn_bleu none = {0}, same = {0};
    attn_bleu_add(&none, words, 0, words, 5);
    attn_bleu_add(&same, words, 5, words, 5);
    assert_true(attn_bleu_score(&none, false) == 0 && none.exact == 0);
    assert_float_equal(attn_bleu_score(&same, false), 100, 1e-12);
    assert_int_equal(same.exact, 1);
}

/* Three target words; sure (0,0), (1,1), possible (1,2). */
static void test_alignment_error_rate(void **state) {
    (void)state;
    static attn_pair gold = {.source_count = 2, .target_count = 3, .link_count = 3};
    const attn_link links[] = {{0, 0, true}, {1, 1, true}, {1, 2, false}};
    memcpy(gold.links, links, sizeof links);
    attn_alignment a = {0};
    attn_alignment_add(&a, &gold, (const size_t[]){0, 1, 1});
    assert_float_equal(attn_alignment_error(&a), 0, 1e-12); /* 1 - (2 + 3) / (3 + 2) */
    attn_alignment_add(&a, &gold, (const size_t[]){1, 1, ATTN_PAIR_WORDS});
    assert_float_equal(attn_alignment_error(&a), 1 - 7.0 / 9, 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bleu_is_that_of_sacrebleu),
        cmocka_unit_test(test_bleu_of_nothing_and_of_the_same),
        cmocka_unit_test(test_alignment_error_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
