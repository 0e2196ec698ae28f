/* Greedy and beam search beside the forward pass that they walk along, and beside trying
 * everything. */
#include "unit/models_case.h"

enum { ALTERNATIVES = 4 };

/* Log probabilities of the tokens after begin, with the forward pass; cross [heads, n, S]. */
static double score_of(const attn_model *model, const int32_t *source, int64_t length,
                       const int32_t *tokens, size_t n, attn_arena *arena, bool *greedy,
                       attn_model_outputs *out) {
    int32_t read[32] = {1};
    double sum = 0;
    *greedy = true;
    for (size_t t = 0; t + 1 < n; t++)
        read[t + 1] = tokens[t];
    const attn_batch batch = {
        .B = 1, .S = S, .T = n, .source = source, .source_lengths = &length, .target = read};
    assert_int_equal(attn_model_forward(model, &batch,
                                        &(attn_forward_options){.keep = ATTN_KEEP_WEIGHTS}, arena,
                                        NULL, NULL, out, NULL),
                     ATTN_OK);
    for (size_t t = 0; t < n; t++) {
        const float *z = (const float *)out->logits.data + t * TV;
        double total = 0;
        for (size_t v = 0; v < TV; v++) {
            total += exp(z[v]);
            *greedy = *greedy && (v < 2 || z[v] <= z[tokens[t]] + 1e-5f);
        }
        sum += z[tokens[t]] - log(total);
    }
    return sum;
}

/* The alternatives of step t beside the logits z [TV] that the step saw. */
static void check_alternatives(const attn_generated *g, size_t t, const float *z) {
    const attn_alternatives *a = &g->alternatives[t];
    const int32_t id = t < g->length ? g->ids[t] : 2;
    bool taken[TV] = {true, true}; /* pad and begin are never chosen */
    double total = 0;
    for (size_t v = 0; v < TV; v++)
        total += exp(z[v]);
    assert_int_equal(a->count, ALTERNATIVES);
    assert_true(fabs(g->log_probabilities[t] - (z[id] - log(total))) < 1e-4);
    for (size_t i = 0; i < a->count; i++) {
        taken[a->ids[i]] = true;
        assert_true(fabs(a->log_probabilities[i] - (z[a->ids[i]] - log(total))) < 1e-4);
        for (size_t v = 0; v < TV; v++)
            assert_true(taken[v] || z[v] <= z[a->ids[i]] + 1e-5f);
    }
}

static void check_generated(const attn_model *model, const attn_generated *g, size_t b,
                            const attn_generate_options *options, bool is_none) {
    const attn_batch batch = batch_of();
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_model_outputs out;
    int32_t tokens[32];
    bool greedy;
    const size_t n = g->length + g->ended;
    memcpy(tokens, g->ids, g->length * sizeof *tokens);
    tokens[g->length] = 2;
    const double sum = score_of(model, batch.source + b * S, batch.source_lengths[b], tokens, n,
                                arena, &greedy, &out);
    const double by = options->beams == 1 ? 1 : pow((5.0 + (double)n) / 6, options->length_penalty);
    const attn_site *last = is_none ? NULL : &out.sites[out.site_count - 1]; /* across, on top */
    assert_true(fabs(g->score - sum / by) < 1e-4);
    if (options->beams == 1)
        assert_true(greedy);
    for (size_t t = 0; t < n; t++)
        check_alternatives(g, t, (const float *)out.logits.data + t * TV);
    if (is_none)
        assert_null(g->weights);
    else
        for (size_t i = 0; i < g->heads * n * S; i++)
            assert_true(fabsf(g->weights[i] - ((float *)last->weights.data)[i]) < 1e-5f);
    attn_arena_free(arena);
}

static void test_generate(void **state) {
    for (size_t i = 0; i < CASES; i++)
        for (size_t beams = 1; beams <= 3; beams += 2) {
            const attn_batch batch = batch_of();
            attn_generate_options options = attn_generate_defaults();
            attn_arena *arena = attn_arena_new(LIMIT);
            attn_model *model = open_model(&cases[i], 0.1);
            attn_generated all[B], one;
            attn_error err = {0};
            options.beams = beams;
            options.want_weights = true;
            options.alternatives = ALTERNATIVES;
            options.most = 7;
            if (attn_model_generate(model, batch.source, batch.source_lengths, B, S, &options,
                                    arena, NULL, NULL, all, &err))
                fail_msg("%s: %s: %s", name_of(&cases[i]), err.where, err.text);
            for (size_t b = 0; b < B; b++) {
                check_generated(model, &all[b], b, &options, cases[i].attention == ATTN_MODEL_NONE);
                assert_int_equal(attn_model_generate(model, batch.source + b * S,
                                                     batch.source_lengths + b, 1, S, &options,
                                                     arena, NULL, NULL, &one, NULL),
                                 ATTN_OK);
                assert_int_equal(one.length, all[b].length);
                assert_memory_equal(one.ids, all[b].ids, one.length * sizeof *one.ids);
            }
            attn_model_free(model);
            attn_arena_free(arena);
        }
    (void)state;
}

/* With more beams than words and two tokens at most, the search tries everything. */
static void test_exhaustive(void **state) {
    const attn_batch batch = batch_of();
    attn_generate_options options = {.beams = 64, .most = 2, .length_penalty = 0.6};
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_model *model = open_model(&cases[0], 0);
    attn_generated found[B];
    assert_int_equal(attn_model_generate(model, batch.source, batch.source_lengths, B, S, &options,
                                         arena, NULL, NULL, found, NULL),
                     ATTN_OK);
    for (size_t b = 0; b < B; b++) {
        double best = -INFINITY;
        for (int32_t v = 2; v < TV; v++)
            for (int32_t w = 2; w < TV; w++) {
                const int32_t tokens[2] = {v, w};
                const size_t n = v == 2 ? 1 : 2;
                attn_model_outputs out;
                bool greedy;
                const double sum = score_of(model, batch.source + b * S, batch.source_lengths[b],
                                            tokens, n, arena, &greedy, &out);
                best = fmax(best, sum / pow((5.0 + (double)n) / 6, 0.6));
            }
        assert_true(fabs(best - found[b].score) < 1e-4);
    }
    attn_model_free(model);
    attn_arena_free(arena);
    (void)state;
}

typedef struct heard {
    int32_t ids[32];
    size_t count, stop_at;
    double sum;
} heard;

static int hear(void *ctx, const attn_generated_token *token) {
    heard *h = ctx;
    double row = 0;
    for (size_t j = 0; j < S; j++)
        row += token->weights[j];
    assert_true(fabs(row - 1) < 1e-5);
    assert_int_equal(token->alternatives.ids[0], token->id);
    assert_true(fabs(token->alternatives.log_probabilities[0] - token->log_probability) < 1e-9);
    h->ids[h->count++] = token->id;
    h->sum += token->log_probability;
    return h->count == h->stop_at;
}

static void test_streaming(void **state) {
    const attn_batch batch = batch_of();
    heard h = {.count = 0};
    attn_generate_options options = {
        .beams = 1, .most = 9, .alternatives = 2, .token = hear, .ctx = &h};
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_model *model = open_model(&cases[0], 0);
    attn_generated g;
    assert_int_equal(attn_model_generate(model, batch.source, batch.source_lengths, 1, S, &options,
                                         arena, NULL, NULL, &g, NULL),
                     ATTN_OK);
    assert_int_equal(h.count, g.length + g.ended);
    assert_memory_equal(h.ids, g.ids, g.length * sizeof *g.ids);
    assert_true(fabs(h.sum - g.score) < 1e-9);
    h = (heard){.stop_at = 1};
    assert_int_equal(attn_model_generate(model, batch.source, batch.source_lengths, 1, S, &options,
                                         arena, NULL, NULL, &g, NULL),
                     ATTN_ECANCELED);
    attn_model_free(model);
    attn_arena_free(arena);
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generate),
        cmocka_unit_test(test_exhaustive),
        cmocka_unit_test(test_streaming),
    };
    return cmocka_run_group_tests(tests, read_recorded, forget_recorded);
}
