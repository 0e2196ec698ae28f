/* Optimisers beside torch.optim, schedules by their formulas, batches, and the loop: it learns, and
 * a stopped and resumed run ends with the same bytes as an undisturbed one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/training.h"

enum { SIZE = 6, STEPS = 5 };

static const struct {
    bool decoupled;
    double decay, clip, rate;
    float start[SIZE], gradients[STEPS * SIZE];
    double norms[STEPS];
    float end[SIZE];
} cases[] = {
#include "adam_cases.inc"
};

static void test_adam_is_that_of_torch(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        attn_adam options = {0.9, 0.98, 1e-9, cases[c].decay, cases[c].decoupled};
        float p[SIZE], first[SIZE] = {0}, second[SIZE] = {0}, g[SIZE];
        memcpy(p, cases[c].start, sizeof p);
        for (size_t t = 0; t < STEPS; t++) {
            memcpy(g, cases[c].gradients + t * SIZE, sizeof g);
            assert_float_equal(attn_clip_gradients(g, SIZE, cases[c].clip), cases[c].norms[t],
                               1e-6);
            attn_adam_step(p, g, first, second, SIZE, t + 1, cases[c].rate, &options);
        }
        for (size_t i = 0; i < SIZE; i++)
            assert_float_equal(p[i], cases[c].end[i], 3e-7);
    }
}

static void test_schedules(void **state) {
    (void)state;
    for (int s = ATTN_CONSTANT; s <= ATTN_COSINE; s++) {
        assert_float_equal(attn_schedule_rate((attn_schedule)s, 2, 25, 100, 1000), 0.5, 1e-12);
        assert_float_equal(attn_schedule_rate((attn_schedule)s, 2, 100, 100, 1000), 2, 1e-12);
    }
    assert_float_equal(attn_schedule_rate(ATTN_CONSTANT, 2, 999, 100, 1000), 2, 1e-12);
    assert_float_equal(attn_schedule_rate(ATTN_INVERSE_ROOT, 2, 400, 100, 1000), 1, 1e-12);
    assert_float_equal(attn_schedule_rate(ATTN_COSINE, 2, 550, 100, 1000), 1, 1e-12);
    assert_float_equal(attn_schedule_rate(ATTN_COSINE, 2, 1000, 100, 1000), 0, 1e-12);
    assert_float_equal(attn_schedule_rate(ATTN_COSINE, 2, 7, 0, 0), 2, 1e-12);
}

/* A task, its data, and a model to learn it. */
typedef struct kit {
    attn_arena *arena;
    attn_tokenizer *words;
    attn_dataset train, validation;
    attn_model *model;
    attn_training_state state;
    attn_training_options options;
    uint64_t stop_after; /* a cancel is raised after this step */
    atomic_int cancel;
    int reports;
    double similarity; /* of the last report */
} kit;

static void open_kit(kit *k) {
    attn_corpus_options options = attn_corpus_defaults();
    attn_corpus *corpus;
    options.task = ATTN_COPY, options.shortest = 1, options.longest = 5, options.symbols = 8;
    *k = (kit){.arena = attn_arena_new((size_t)1 << 30), .words = attn_tokenizer_new(ATTN_ENGLISH)};
    assert_int_equal(attn_corpus_new(&options, k->arena, &corpus, NULL), ATTN_OK);
    for (char c = '0'; c < '8'; c++)
        assert_int_equal(attn_tokenizer_count(k->words, &c, 1, NULL), ATTN_OK);
    attn_tokenizer_settle(k->words, 1, 0, NULL);
    assert_int_equal(attn_dataset_new(corpus, ATTN_TRAIN, 0, 400, ATTN_DATA_PAIRS, k->words,
                                      k->words, k->arena, &k->train, NULL),
                     ATTN_OK);
    assert_int_equal(attn_dataset_new(corpus, ATTN_VALIDATION, 0, 50, ATTN_DATA_PAIRS, k->words,
                                      k->words, k->arena, &k->validation, NULL),
                     ATTN_OK);
    attn_model_config config = attn_model_defaults();
    config.source_vocabulary = config.target_vocabulary = attn_tokenizer_size(k->words);
    config.width = 16, config.num_heads = 2;
    assert_int_equal(attn_model_new(&config, 3, true, &k->model, NULL), ATTN_OK);
    assert_int_equal(attn_training_start(k->model, k->arena, &k->state, NULL), ATTN_OK);
    k->options = attn_training_defaults();
    k->options.steps = 60, k->options.evaluate_every = 20, k->options.warmup = 5;
    k->options.rate = 0.01, k->options.batch_tokens = 200, k->options.seed = 11;
    k->options.guidance = 0.2, k->options.diversity = 0.1;
}

static void close_kit(kit *k) {
    attn_model_free(k->model);
    attn_tokenizer_free(k->words);
    attn_arena_free(k->arena);
}

static void progress(void *ctx, const attn_training_progress *now) {
    kit *k = ctx;
    k->reports++;
    k->similarity = now->similarity;
    if (now->step == k->stop_after)
        atomic_store(&k->cancel, 1);
}

static attn_status run(kit *k) {
    const attn_training_hooks hooks = {progress, NULL, k};
    const attn_control control = {.cancel = &k->cancel};
    return attn_train(k->model, &k->train, &k->validation, &k->options, &k->state, &hooks, NULL,
                      &control, NULL);
}

static const float *values(kit *k) {
    return attn_parameters_values(attn_model_parameters(k->model));
}

static void test_the_loop_learns_and_resumes_bit_by_bit(void **state) {
    (void)state;
    kit whole, parts, copy;
    attn_evaluation before, after;
    open_kit(&whole), open_kit(&parts), open_kit(&copy);
    whole.options.schedule = (attn_schedule)3;
    assert_int_equal(run(&whole), ATTN_EARG);
    whole.options.schedule = parts.options.schedule;
    assert_int_equal(
        attn_training_evaluate(whole.model, &whole.validation, 200, NULL, NULL, &before, NULL),
        ATTN_OK);
    assert_int_equal(run(&whole), ATTN_OK);
    assert_int_equal(whole.reports, 60);
    attn_training_take_best(whole.model, &whole.state);
    assert_int_equal(
        attn_training_evaluate(whole.model, &whole.validation, 200, NULL, NULL, &after, NULL),
        ATTN_OK);
    assert_true(after.loss == whole.state.best_loss && after.loss < 0.7 * before.loss);

    /* stopped twice, once right after an evaluation, and carried on in another model */
    parts.stop_after = 20;
    assert_int_equal(run(&parts), ATTN_ECANCELED);
    assert_int_equal(parts.state.step, 20);
    parts.stop_after = 33, parts.cancel = 0;
    assert_int_equal(run(&parts), ATTN_ECANCELED);
    size_t bytes = parts.state.size * sizeof(float);
    float *first = copy.state.first, *second = copy.state.second, *best = copy.state.best;
    memcpy(first, parts.state.first, bytes), memcpy(second, parts.state.second, bytes);
    memcpy(best, parts.state.best, bytes);
    copy.state = parts.state;
    copy.state.first = first, copy.state.second = second, copy.state.best = best;
    memcpy(attn_parameters_values(attn_model_parameters(copy.model)), values(&parts), bytes);
    assert_int_equal(run(&copy), ATTN_OK);
    attn_training_take_best(copy.model, &copy.state);
    assert_memory_equal(values(&copy), values(&whole), bytes);
    assert_memory_equal(copy.state.second, whole.state.second, bytes);
    assert_true(copy.state.best_loss == whole.state.best_loss);
    close_kit(&whole), close_kit(&parts), close_kit(&copy);
}

static void test_patience_ends_a_run(void **state) {
    (void)state;
    kit k;
    open_kit(&k);
    k.options.rate = 0, k.options.evaluate_every = 5, k.options.patience = 2;
    assert_int_equal(run(&k), ATTN_OK);
    assert_int_equal(k.state.step, 15); /* the first is the best, two more are not better */
    assert_int_equal(k.state.best_step, 5);
    close_kit(&k);
}

/* Without the loss the heads of a copying model learn to look at the same places. */
static void test_diverse_heads(void **state) {
    (void)state;
    double similarity[2];
    for (int i = 0; i < 2; i++) {
        kit k;
        open_kit(&k);
        k.options.guidance = 0, k.options.diversity = i ? 0.5 : 0;
        assert_int_equal(run(&k), ATTN_OK);
        similarity[i] = k.similarity;
        close_kit(&k);
    }
    assert_true(similarity[0] > 0 && similarity[0] <= 1);
    assert_true(similarity[1] < 0.8 * similarity[0]);
}

/* Alignments of a batch: sure links share a row, possible ones where there is none; rows of the end
 * and of padding are 0. */
static void test_alignments(void **state) {
    (void)state;
    attn_corpus_options options = attn_corpus_defaults();
    attn_arena *arena = attn_arena_new((size_t)1 << 30);
    attn_tokenizer *words = attn_tokenizer_new(ATTN_ENGLISH); /* all are unknown to it */
    attn_corpus *corpus;
    attn_dataset data;
    attn_batch batch;
    enum { PAIRS = 8 };
    const size_t indices[PAIRS] = {7, 6, 5, 4, 3, 2, 1, 0};
    options.longest = 12;
    assert_int_equal(attn_corpus_new(&options, arena, &corpus, NULL), ATTN_OK);
    attn_tokenizer_settle(words, 1, 0, NULL);
    assert_int_equal(attn_dataset_new(corpus, ATTN_TRAIN, 0, PAIRS, ATTN_DATA_PAIRS, words, words,
                                      arena, &data, NULL),
                     ATTN_OK);
    assert_int_equal(attn_dataset_batch(&data, indices, PAIRS, arena, &batch, NULL), ATTN_OK);
    attn_pair *pair = attn_arena_zeroed(arena, 1, sizeof *pair);
    for (size_t b = 0; b < PAIRS; b++) {
        assert_int_equal(attn_corpus_pair(corpus, ATTN_TRAIN, indices[b], pair, NULL), ATTN_OK);
        for (size_t t = 0; t < batch.T; t++) {
            double sure = 0, all = 0, sum = 0;
            for (size_t i = 0; i < pair->link_count; i++)
                if (pair->links[i].target == t)
                    sure += pair->links[i].sure, all++;
            const float *row = batch.alignment + (b * batch.T + t) * batch.S;
            for (size_t i = 0; i < pair->link_count; i++)
                if (pair->links[i].target == t) {
                    const double want = pair->links[i].sure ? 1 / sure : sure > 0 ? 0 : 1 / all;
                    assert_float_equal(row[pair->links[i].source], want, 1e-6);
                }
            for (size_t s = 0; s < batch.S; s++)
                sum += row[s];
            assert_float_equal(sum, all > 0, 1e-6);
        }
    }
    attn_tokenizer_free(words);
    attn_arena_free(arena);
}

static void test_an_epoch_has_every_pair_once(void **state) {
    (void)state;
    kit k;
    attn_epoch a, b, other;
    open_kit(&k);
    assert_int_equal(attn_epoch_new(&k.train, 60, 5, 0, k.arena, &a, NULL), ATTN_OK);
    assert_int_equal(attn_epoch_new(&k.train, 60, 5, 0, k.arena, &b, NULL), ATTN_OK);
    assert_int_equal(attn_epoch_new(&k.train, 60, 5, 1, k.arena, &other, NULL), ATTN_OK);
    assert_memory_equal(a.order, b.order, k.train.count * sizeof *a.order);
    assert_true(memcmp(a.order, other.order, k.train.count * sizeof *a.order) != 0);
    int *seen = calloc(k.train.count, sizeof *seen);
    for (size_t i = 0; i < a.batches; i++) {
        attn_batch batch;
        size_t n = a.starts[i + 1] - a.starts[i];
        assert_true(n > 0);
        assert_int_equal(
            attn_dataset_batch(&k.train, a.order + a.starts[i], n, k.arena, &batch, NULL), ATTN_OK);
        assert_true(n == 1 || n * (batch.S + batch.T) <= 60);
        for (size_t p = 0; p < n; p++) {
            size_t pair = a.order[a.starts[i] + p];
            seen[pair]++;
            size_t S = k.train.source_at[pair + 1] - k.train.source_at[pair];
            assert_int_equal(batch.source_lengths[p], S);
            assert_int_equal(batch.target[p * batch.T], k.train.begin);
            assert_int_equal(batch.expected[p * batch.T + S], k.train.end); /* a copy is as long */
            for (size_t s = 0; s < batch.S; s++)
                assert_true((batch.source[p * batch.S + s] != k.train.pad) == (s < S));
        }
    }
    assert_int_equal(a.starts[a.batches], k.train.count);
    for (size_t i = 0; i < k.train.count; i++)
        assert_int_equal(seen[i], 1);
    free(seen);
    close_kit(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adam_is_that_of_torch),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_the_loop_learns_and_resumes_bit_by_bit),
        cmocka_unit_test(test_patience_ends_a_run),
        cmocka_unit_test(test_diverse_heads),
        cmocka_unit_test(test_alignments),
        cmocka_unit_test(test_an_epoch_has_every_pair_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
