/* Scores of heads beside transformers and NumPy (tests/tools/head_scores wrote head_scores.json), what
 * heads connect beside whole matrices of weights, and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "json/json_tree.h"

#define LIMIT ((size_t)1 << 28)

static attn_arena *arena;
static attn_json *cases;

static int open_cases(void **state) {
    (void)state;
    FILE *f = fopen("tests/unit/head_scores.json", "rb");
    arena = attn_arena_new(LIMIT);
    assert_non_null(f);
    char *text = attn_arena_take(arena, 1 << 20);
    const size_t size = fread(text, 1, 1 << 20, f);
    assert_true(size > 0 && size < 1 << 20);
    fclose(f);
    assert_int_equal(attn_json_read(text, size, arena, &cases, NULL), ATTN_OK);
    return 0;
}

static int close_cases(void **state) {
    (void)state;
    attn_arena_free(arena);
    return 0;
}

static size_t size_of(attn_json *object, const char *member) {
    return (size_t)attn_json_member(object, member)->number;
}

/* --- beside transformers --- */

static void compare_ids(attn_json *model, const char *name, const attn_head_side *side) {
    attn_json *all = attn_json_member(model, name);
    assert_int_equal(all != NULL, side->longest > 0);
    size_t b = 0;
    for (const attn_json *row = all ? all->first : NULL; row; row = row->next, b++) {
        size_t i = 0;
        assert_int_equal(row->count, side->longest);
        for (const attn_json *id = row->first; id; id = id->next, i++)
            assert_int_equal(side->ids[b * side->longest + i], (int)id->number);
    }
}

static void compare_number(const char *where, const attn_json *want, double found) {
    if (want->kind == ATTN_JSON_NULL)
        assert_true(isnan(found));
    else if (!(fabs(want->number - found) <= 1e-5))
        fail_msg("%s: expected %.9g, found %.9g", where, want->number, found);
}

static void compare_head(const char *model, attn_json *want, const attn_scored_head *head) {
    static const char *const sites[] = {"encoder", "decoder", "cross"};
    assert_string_equal(attn_json_member(want, "site")->text, sites[head->kind]);
    assert_int_equal(size_of(want, "layer"), head->layer);
    assert_int_equal(size_of(want, "head"), head->head);
    for (unsigned s = 0; s < ATTN_HEAD_SCORES; s++) {
        char where[96];
        const attn_json *pair = attn_json_member(want, attn_head_score_name(s));
        snprintf(where, sizeof where, "%s %s %zu.%zu %s", model, sites[head->kind], head->layer,
                 head->head, attn_head_score_name(s));
        assert_non_null(pair);
        compare_number(where, pair->first, head->scores[s].mean);
        compare_number(where, pair->first->next, head->scores[s].spread);
    }
}

/* Scores a batch in an arena that has no more memory than the bill says. */
static attn_scored_head *score(const attn_head_subject *subject, const attn_head_batch *batch,
                               size_t slots) {
    const size_t count = attn_head_count(subject->model, batch->encoder_only);
    attn_scored_head *heads = attn_arena_zeroed(arena, count, sizeof *heads);
    attn_pool *pool = attn_pool_new(slots);
    attn_error err = {0};
    const attn_model_cost cost = attn_head_cost(subject, batch, slots);
    attn_arena *own = attn_arena_new((size_t)cost.bytes);
    if (attn_head_score_all(subject, batch, (1u << ATTN_HEAD_SCORES) - 1, own, pool, NULL, heads,
                            &err))
        fail_msg("%s: %s", err.where, err.text);
    assert_int_equal(attn_arena_used(own), 0);
    attn_arena_free(own);
    attn_pool_free(pool);
    return heads;
}

static void test_beside_transformers(void **state) {
    (void)state;
    const attn_head_probes probes = {size_of(cases, "probes"), size_of(cases, "length"),
                                     size_of(cases, "seed")};
    for (attn_json *m = attn_json_member(cases, "models")->first; m; m = m->next) {
        char path[128];
        attn_known_model known;
        attn_head_batch repeated, separated;
        attn_error err = {0};
        snprintf(path, sizeof path, "tests/unit/known_models/%s", m->key);
        assert_int_equal(attn_known_open(path, &known, &err), ATTN_OK);
        const attn_head_subject subject = {.model = known.model};
        if (attn_head_draw(&subject, &probes, arena, &repeated, &separated, &err))
            fail_msg("%s: %s", err.where, err.text);
        assert_int_equal(separated.count, 0);
        compare_ids(m, "source", &repeated.source);
        compare_ids(m, "target", &repeated.target);
        const attn_scored_head *heads = score(&subject, &repeated, 1);
        const attn_scored_head *again = score(&subject, &repeated, 3);
        attn_json *want = attn_json_member(m, "heads");
        const size_t count = attn_head_count(known.model, false);
        assert_int_equal(want->count, count);
        assert_memory_equal(heads, again, count * sizeof *heads);
        for (attn_json *h = want->first; h; h = h->next)
            compare_head(m->key, h, heads++);
        attn_known_close(&known);
    }
}

/* --- texts --- */

static const char *const words[] = {"the", "animal", "street", "did", "not", "cross", "because",
                                    "it",  "was",    "tired",  ".",   ",",   "(",     ")"};

/* A random model of one stack that reads words. */
static attn_head_subject make_subject(attn_model_architecture architecture) {
    attn_model_config c = attn_model_defaults();
    attn_tokenizer *t;
    attn_model *model;
    attn_error err = {0};
    assert_int_equal(attn_tokenizer_of(words, sizeof words / sizeof *words, ATTN_ENGLISH, &t, &err),
                     ATTN_OK);
    const bool encodes = architecture == ATTN_MODEL_ENCODER;
    c.architecture = architecture;
    c.source_vocabulary = encodes ? attn_tokenizer_size(t) : 0;
    c.target_vocabulary = attn_tokenizer_size(t);
    c.width = 16;
    c.num_heads = 2;
    c.num_layers = 2;
    c.max_length = 40;
    if (attn_model_new(&c, 3, false, &model, &err))
        fail_msg("%s: %s", err.where, err.text);
    return (attn_head_subject){model, encodes ? t : NULL, encodes ? NULL : t};
}

static void free_subject(const attn_head_subject *s) {
    attn_model_free((attn_model *)(uintptr_t)s->model);
    attn_tokenizer_free((attn_tokenizer *)(uintptr_t)s->source);
    attn_tokenizer_free((attn_tokenizer *)(uintptr_t)s->target);
}

/* The scores of a batch of texts are the means of those of the single texts, whatever their lengths,
 * and no text has those of padding. */
static void test_texts_of_different_lengths(void **state) {
    (void)state;
    static const char *const texts[] = {"the animal did not cross the street .",
                                        "it was tired , because it was ( not tired ) .", "it ."};
    const attn_model_architecture kinds[] = {ATTN_MODEL_ENCODER, ATTN_MODEL_DECODER};
    for (int k = 0; k < 2; k++) {
        const attn_head_subject s = make_subject(kinds[k]);
        attn_head_batch all, one;
        attn_error err = {0};
        assert_int_equal(attn_head_texts(&s, texts, 3, arena, &all, &err), ATTN_OK);
        const attn_scored_head *together = score(&s, &all, 1), *single[3];
        for (int i = 0; i < 3; i++) {
            assert_int_equal(attn_head_texts(&s, texts + i, 1, arena, &one, &err), ATTN_OK);
            single[i] = score(&s, &one, 1);
        }
        for (size_t h = 0; h < attn_head_count(s.model, false); h++)
            for (unsigned score = 0; score < ATTN_HEAD_SCORES; score++) {
                double sum = 0;
                size_t n = 0;
                for (int i = 0; i < 3; i++)
                    if (single[i][h].scores[score].count) {
                        sum += single[i][h].scores[score].mean;
                        n++;
                    }
                if (score == ATTN_HEAD_POSITIONAL)
                    assert_int_equal(together[h].scores[score].count, 2);
                else
                    assert_int_equal(together[h].scores[score].count, n);
                if (score != ATTN_HEAD_POSITIONAL && n)
                    assert_float_equal(together[h].scores[score].mean, sum / (double)n, 1e-5);
            }
        free_subject(&s);
    }
}

/* --- what heads connect --- */

/* Tells the hits and weights of a sentence from the whole weights of a site, whose rows and columns
 * of the tokens stand at `from` and `to`. */
static void count_by_hand(const attn_site *site, size_t h, const size_t *from, size_t from_count,
                          size_t to, size_t first, size_t n, size_t *hits, double *weight) {
    const size_t S = site->weights.dims[3];
    const float *w = (const float *)site->weights.data + h * S * S;
    double most = 0, sum = 0;
    for (size_t j = first; j < n; j++) {
        double mean = 0, own = 0;
        bool is_from = false;
        for (size_t i = 0; i < from_count; i++) {
            mean += (double)w[from[i] * S + j] / (double)from_count;
            is_from = is_from || from[i] == j;
            for (size_t k = 0; k < from_count; k++)
                own += (double)w[from[i] * S + from[k]] / (double)from_count;
        }
        sum = j == to ? mean : sum;
        if (j != to)
            most = fmax(most, is_from ? own : mean);
    }
    *hits += sum > most;
    *weight += sum;
}

static void test_what_heads_connect(void **state) {
    (void)state;
    static const attn_head_sentence sentences[] = {
        {"the animal did not cross the street because it was tired .", "it", "animal"},
        {"because the animal was tired it did not cross .", "it", "animal"},
        {"the street ( the animal did not cross it ) was tired .", ")", "("}};
    static const size_t places[3][3] = {{8, 1, 12}, {5, 2, 10}, {9, 2, 13}}; /* from, to, length */
    const attn_head_relation relations[] = {{"pronoun", sentences, 2, false},
                                            {"bracket", sentences + 2, 1, false}};
    const attn_model_architecture kinds[] = {ATTN_MODEL_ENCODER, ATTN_MODEL_DECODER};
    for (size_t k = 0; k < 2; k++) {
        const attn_head_subject s = make_subject(kinds[k]);
        attn_head_words read;
        attn_related_head *found;
        attn_error err = {0};
        size_t count;
        if (attn_head_sentences(&s, relations, 2, arena, &read, &err))
            fail_msg("%s: %s", err.where, err.text);
        assert_int_equal(attn_head_relate(&s, &read, arena, NULL, NULL, &found, &count, &err),
                         ATTN_OK);
        assert_int_equal(count, 8);
        for (size_t i = 0; i < count; i++) {
            size_t hits = 0;
            double weight = 0;
            const size_t relation = found[i].relation;
            for (size_t b = relation ? 2 : 0; b < (relation ? 3 : 2); b++) {
                attn_head_batch one;
                attn_model_outputs out;
                assert_int_equal(attn_head_texts(&s, &sentences[b].text, 1, arena, &one, &err),
                                 ATTN_OK);
                const attn_batch batch = {.B = 1,
                                          .S = one.source.longest,
                                          .T = one.target.longest,
                                          .source = one.source.ids,
                                          .source_lengths = one.source.lengths,
                                          .target = one.target.ids};
                const attn_forward_options options = {.keep = ATTN_KEEP_WEIGHTS};
                assert_int_equal(
                    attn_model_forward(s.model, &batch, &options, arena, NULL, NULL, &out, &err),
                    ATTN_OK);
                const size_t from = places[b][0] + k; /* the decoder reads <bos> first */
                count_by_hand(&out.sites[found[i].layer], found[i].head, &from, 1, places[b][1] + k,
                              1, places[b][2] + k, &hits, &weight);
            }
            const size_t of = relation ? 1 : 2;
            assert_int_equal(found[i].of, of);
            assert_int_equal(found[i].hits, hits);
            assert_float_equal(found[i].weight, weight / (double)of, 1e-5);
        }
        for (size_t i = 1; i < count; i++)
            assert_true(found[i - 1].hits * found[i].of >= found[i].hits * found[i - 1].of);
        free_subject(&s);
    }
}

/* --- what is refused --- */

static void refuse(const attn_head_subject *s, attn_head_sentence sentence, const char *where,
                   const char *text) {
    const attn_head_sentence good = {"the animal was tired because it was .", "it", "animal"};
    const attn_head_sentence list[] = {good, sentence};
    const attn_head_relation relations[] = {{"first", list, 1, false}, {"second", list, 2, false}};
    attn_head_words read;
    attn_error err = {0};
    assert_int_equal(attn_head_sentences(s, relations, 2, arena, &read, &err), ATTN_EVALUE);
    assert_string_equal(err.where, where);
    if (!strstr(err.text, text))
        fail_msg("expected \"%s\", found \"%s\"", text, err.text);
}

static void test_sentences_that_are_refused(void **state) {
    (void)state;
    const attn_head_subject s = make_subject(ATTN_MODEL_DECODER);
    const attn_head_subject encoder = make_subject(ATTN_MODEL_ENCODER);
    refuse(&s, (attn_head_sentence){"the animal was tired", "it", "animal"}, "1/sentences/1/from",
           "expected a word of the sentence");
    refuse(&s, (attn_head_sentence){"the animal was tired", "tired", "anim"}, "1/sentences/1/to",
           "found \"anim\"");
    refuse(&s, (attn_head_sentence){"the animal was tired", "tired", "tired"}, "1/sentences/1/to",
           "the same");
    refuse(&s, (attn_head_sentence){"the animal was tired", "animal", "tired"}, "1/sentences/1/to",
           "from left to right");
    refuse(&s, (attn_head_sentence){"the animal was tired", "", "tired"}, "1/sentences/1/from",
           "found \"\"");
    refuse(&s, (attn_head_sentence){"", "it", "tired"}, "1/sentences/1/text", "at least one token");
    refuse(&s, (attn_head_sentence){"\xff", "it", "tired"}, "1/sentences/1/text", "UTF-8");
    refuse(&encoder, (attn_head_sentence){"the animal was tired", "tired", "the"},
           "1/sentences/1/to", "another word than the first one");
    free_subject(&s);
    free_subject(&encoder);
}

/* A lenient relation leaves out what the model cannot read. */
static void test_sentences_that_are_left_out(void **state) {
    (void)state;
    static const attn_head_sentence list[] = {{"the animal was tired", "it", "animal"},
                                              {"the animal was tired", "tired", "animal"},
                                              {"the animal was tired", "animal", "tired"}};
    const attn_head_subject s = make_subject(ATTN_MODEL_DECODER);
    attn_head_relation relation = {"mixed", list, 3, true};
    attn_head_words read;
    attn_related_head *found;
    size_t count;
    attn_error err = {0};
    assert_int_equal(attn_head_sentences(&s, &relation, 1, arena, &read, &err), ATTN_OK);
    assert_int_equal(read.batch.count, 1);
    assert_int_equal(attn_head_relate(&s, &read, arena, NULL, NULL, &found, &count, &err), ATTN_OK);
    assert_int_equal(count, 4);
    assert_int_equal(found->of, 1);
    relation.count = 1;
    assert_int_equal(attn_head_sentences(&s, &relation, 1, arena, &read, &err), ATTN_OK);
    assert_int_equal(attn_head_relate(&s, &read, arena, NULL, NULL, &found, &count, &err), ATTN_OK);
    assert_int_equal(count, 0);
    free_subject(&s);
}

static void test_probes_that_are_refused(void **state) {
    (void)state;
    const attn_head_subject s = make_subject(ATTN_MODEL_DECODER);
    attn_head_batch repeated, separated;
    attn_error err = {0};
    attn_head_probes probes = {2, 20, 0};
    assert_int_equal(attn_head_draw(&s, &probes, arena, &repeated, &separated, &err), ATTN_EVALUE);
    assert_string_equal(err.where, "length");
    assert_non_null(strstr(err.text, "40 tokens that the model reads"));
    probes.length = 15;
    assert_int_equal(attn_head_draw(&s, &probes, arena, &repeated, &separated, &err), ATTN_EVALUE);
    assert_non_null(strstr(err.text, "the model has 12 different tokens")); /* not . and , */
    probes = (attn_head_probes){0, 5, 0};
    assert_int_equal(attn_head_draw(&s, &probes, arena, &repeated, &separated, &err), ATTN_EARG);
    assert_int_equal(attn_head_probe_length(&s, 48, arena, &probes.length, &err), ATTN_OK);
    assert_int_equal(probes.length, 12);
    assert_int_equal(attn_head_probe_length(&s, 7, arena, &probes.length, &err), ATTN_OK);
    assert_int_equal(probes.length, 7);
    probes = (attn_head_probes){2, 12, 0};
    assert_int_equal(attn_head_draw(&s, &probes, arena, &repeated, &separated, &err), ATTN_OK);
    assert_int_equal(separated.count, 2);
    for (size_t i = 0; i < separated.target.longest; i++) /* begin, then every eighth */
        assert_int_equal(separated.target.separators[i], i % 8 == 0 && i > 0);
    free_subject(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beside_transformers),
        cmocka_unit_test(test_texts_of_different_lengths),
        cmocka_unit_test(test_what_heads_connect),
        cmocka_unit_test(test_sentences_that_are_refused),
        cmocka_unit_test(test_sentences_that_are_left_out),
        cmocka_unit_test(test_probes_that_are_refused),
    };
    return cmocka_run_group_tests(tests, open_cases, close_cases);
}
