/* Models without an encoder go on with a prompt: greedy and beam search beside forward passes over
 * whole sequences, prompts of different lengths, sampling, tokens that stop. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

enum { LIMIT = 1 << 26, V = 8, S = 3, MOST = 5, B = 3, BEGIN = 1, END = 2 };

static const int32_t prompts[B * S] = {4, 3, 6, 7, 0, 0, 0, 0, 0};
static const int64_t lengths[B] = {3, 1, 0};

static const attn_model_positions kinds[] = {ATTN_MODEL_SINUSOIDAL, ATTN_MODEL_LEARNED,
                                             ATTN_MODEL_ROTARY,     ATTN_MODEL_RELATIVE,
                                             ATTN_MODEL_ALIBI,      ATTN_MODEL_NO_POSITIONS};
enum { KINDS = sizeof kinds / sizeof *kinds };

static attn_model *open_model(attn_model_positions positions, size_t length) {
    attn_model_config c = attn_model_defaults();
    attn_model *model = NULL;
    attn_error err = {0};
    c.architecture = ATTN_MODEL_DECODER;
    c.positions = positions;
    c.target_vocabulary = V;
    c.width = 16;
    c.num_heads = 4;
    c.num_kv_heads = positions == ATTN_MODEL_ROTARY ? 2 : 0;
    c.num_layers = 2;
    c.max_length = length;
    c.embedding_std = 1;
    if (attn_model_new(&c, 7, false, &model, &err))
        fail_msg("%s: %s", err.where, err.text);
    return model;
}

/* A generation of all prompts, and a pass over begin, prompt b and what was generated. */
typedef struct made {
    attn_arena *arena;
    attn_model *model;
    attn_generated out[B];
} made;

static void generate(made *m, const attn_generate_options *options, size_t n) {
    attn_error err = {0};
    if (attn_model_generate(m->model, prompts, lengths, n, S, options, m->arena, NULL, NULL, m->out,
                            &err))
        fail_msg("%s: %s", err.where, err.text);
}

static made open_long(attn_model_positions positions, size_t length) {
    return (made){.arena = attn_arena_new(LIMIT), .model = open_model(positions, length)};
}

static made open_made(attn_model_positions positions) {
    return open_long(positions, 12);
}

static void close_made(made *m) {
    attn_model_free(m->model);
    attn_arena_free(m->arena);
}

/* Runs the model over begin, prompt b and `count` more ids. */
static attn_model_outputs read_all(const made *m, size_t b, const int32_t *ids, size_t count) {
    const size_t P = (size_t)lengths[b], T = 1 + P + count;
    int32_t *target = attn_arena_zeroed(m->arena, T, sizeof *target);
    const attn_batch batch = {.B = 1, .T = T, .target = target};
    const attn_forward_options options = {.keep = ATTN_KEEP_WEIGHTS};
    attn_model_outputs out;
    target[0] = BEGIN;
    memcpy(target + 1, prompts + b * S, P * sizeof *target);
    if (count)
        memcpy(target + 1 + P, ids, count * sizeof *target);
    assert_int_equal(
        attn_model_forward(m->model, &batch, &options, m->arena, NULL, NULL, &out, NULL), ATTN_OK);
    return out;
}

/* Returns log softmax(logits)[id]. */
static double log_of(const float *z, int32_t id) {
    double sum = 0;
    for (size_t v = 0; v < V; v++)
        sum += exp((double)z[v]);
    return (double)z[id] - log(sum);
}

static int32_t best_of(const float *z) {
    int32_t best = END;
    for (int32_t v = 0; v < V; v++)
        if (v != 0 && v != BEGIN && z[v] > z[best])
            best = v;
    return best;
}

/* Each token of sequence b is the most probable one, and its weights are those of the last layer. */
static void check_greedy(const made *m, size_t b) {
    const attn_generated *g = &m->out[b];
    const size_t P = (size_t)lengths[b], rows = g->length + g->ended;
    const attn_model_outputs all = read_all(m, b, g->ids, g->length);
    const attn_tensor *w = &all.sites[all.site_count - 1].weights;
    const size_t T = w->dims[2];
    double score = 0;
    assert_int_equal(g->columns, P + rows);
    assert_int_equal(g->heads, 4);
    for (size_t t = 0; t < rows; t++) {
        const float *z = (const float *)all.logits.data + (P + t) * V;
        const int32_t id = t < g->length ? g->ids[t] : g->end;
        assert_int_equal(id, best_of(z));
        assert_float_equal(g->log_probabilities[t], log_of(z, id), 1e-4);
        assert_int_equal(g->alternatives[t].ids[0], id);
        score += log_of(z, id);
        for (size_t h = 0; h < 4; h++)
            for (size_t k = 0; k < g->columns; k++)
                assert_float_equal(g->weights[(h * rows + t) * g->columns + k],
                                   ((const float *)w->data)[(h * T + P + t) * T + k], 1e-5);
    }
    assert_float_equal(g->score, score, 1e-4);
    assert_true(g->ended || g->length == MOST);
}

static void test_greedy(void **state) {
    for (size_t i = 0; i < KINDS; i++) {
        made m = open_made(kinds[i]);
        attn_generate_options options = attn_generate_defaults();
        options.most = MOST;
        options.alternatives = 3;
        options.want_weights = true;
        generate(&m, &options, B);
        for (size_t b = 0; b < B; b++)
            check_greedy(&m, b);
        close_made(&m);
    }
    (void)state;
}

/* Prompts together give what each gives alone, however it is searched. */
static void test_lengths(void **state) {
    for (int way = 0; way < 3; way++) {
        made m = open_made(ATTN_MODEL_ROTARY);
        attn_generate_options options = attn_generate_defaults();
        attn_generated alone;
        options.most = MOST;
        options.beams = way == 1 ? 3 : 1;
        options.samples = way == 2;
        generate(&m, &options, B);
        for (size_t b = 0; b < (way == 2 ? 1 : B); b++) {
            assert_int_equal(attn_model_generate(m.model, prompts + b * S, lengths + b, 1,
                                                 (size_t)lengths[b], &options, m.arena, NULL, NULL,
                                                 &alone, NULL),
                             ATTN_OK);
            assert_int_equal(alone.length, m.out[b].length);
            assert_int_equal(alone.ended, m.out[b].ended);
            assert_memory_equal(alone.ids, m.out[b].ids, alone.length * sizeof *alone.ids);
            assert_float_equal(alone.score, m.out[b].score, 1e-5);
        }
        close_made(&m);
    }
    (void)state;
}

/* With room for all hypotheses of two tokens, a beam search finds the best of them. */
static void test_beams(void **state) {
    made m = open_made(ATTN_MODEL_LEARNED);
    attn_generate_options options = attn_generate_defaults();
    options.most = 2;
    options.beams = 64;
    generate(&m, &options, B);
    for (size_t b = 0; b < B; b++) {
        const attn_model_outputs first = read_all(&m, b, NULL, 0);
        const float *z = (const float *)first.logits.data + lengths[b] * V;
        double best = log_of(z, END);
        for (int32_t u = END + 1; u < V; u++) {
            const attn_model_outputs second = read_all(&m, b, &u, 1);
            const float *y = (const float *)second.logits.data + (lengths[b] + 1) * V;
            for (int32_t v = END; v < V; v++)
                best = fmax(best, (log_of(z, u) + log_of(y, v)) / pow(7.0 / 6, 0.6));
        }
        assert_float_equal(m.out[b].score, best, 1e-4);
    }
    close_made(&m);
    (void)state;
}

/* The draw of one token, as the header defines it, written once more. */
static int32_t draw(const float *z, const attn_generate_options *o, double uniform) {
    int32_t order[V];
    double weight[V], kept = 0, share = 0, sum = 0;
    size_t n = 0, count = 0;
    for (int32_t v = END; v < V; v++) {
        size_t at = n++;
        for (; at && z[order[at - 1]] < z[v]; at--)
            order[at] = order[at - 1];
        order[at] = v;
    }
    n = o->top_k && o->top_k < n ? o->top_k : n;
    for (size_t i = 0; i < n; i++)
        kept += weight[i] = exp((double)z[order[i]] / o->temperature);
    while (count < n && (!count || share < o->top_p * kept))
        share += weight[count++];
    while (count > 1 && weight[count - 1] < o->min_p * weight[0])
        count--;
    share = 0;
    for (size_t i = 0; i < count; i++)
        share += weight[i];
    for (size_t i = 0; i < count; i++) {
        sum += weight[i];
        if (sum > uniform * share)
            return order[i];
    }
    return order[count - 1];
}

static void test_sampling(void **state) {
    static const struct {
        double temperature, top_p;
        size_t top_k;
        double min_p;
    } ways[] = {{1, 1, 0, 0},   {0.5, 1, 0, 0}, {3, 1, 0, 0},   {1, 0.6, 0, 0},   {1, 1, 3, 0},
                {2, 0.8, 4, 0}, {1, 1, 1, 0},   {1, 1, 0, 0.4}, {3, 0.9, 5, 0.6}, {1, 1, 0, 1}};
    size_t seen = 0, ends = 0;
    made m = open_made(ATTN_MODEL_SINUSOIDAL);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (uint64_t seed = 0; seed < 10; seed++) {
            attn_generate_options options = attn_generate_defaults();
            options.most = MOST;
            options.samples = true;
            options.temperature = ways[w].temperature;
            options.top_p = ways[w].top_p;
            options.top_k = ways[w].top_k;
            options.min_p = ways[w].min_p;
            options.seed = seed;
            generate(&m, &options, B);
            for (size_t b = 0; b < B; b++) {
                const attn_generated *g = &m.out[b];
                const attn_model_outputs all = read_all(&m, b, g->ids, g->length);
                for (size_t t = 0; t < g->length + g->ended; t++) {
                    const float *z = (const float *)all.logits.data + ((size_t)lengths[b] + t) * V;
                    const double u = attn_rng_uniform(attn_rng_bits(seed, b), t);
                    const int32_t id = t < g->length ? g->ids[t] : g->end;
                    assert_int_equal(id, draw(z, &options, u));
                    seen |= (size_t)1 << id;
                }
                ends += g->ended;
            }
        }
    assert_int_equal(seen, (1 << V) - (1 << END)); /* all tokens but pad and begin */
    assert_true(ends > 0);
    close_made(&m);
    (void)state;
}

/* A token that stops ends the sequence in place of the end token. */
static void test_stop(void **state) {
    made m = open_made(ATTN_MODEL_LEARNED);
    attn_generate_options options = attn_generate_defaults();
    options.most = MOST;
    options.alternatives = 1;
    generate(&m, &options, 1);
    assert_true(m.out[0].length > 1);
    const int32_t stop = m.out[0].ids[1];
    size_t first = 0;
    while (m.out[0].ids[first] != stop)
        first++;
    const double log_probability = m.out[0].log_probabilities[first];
    options.stop = &stop;
    options.stop_count = 1;
    generate(&m, &options, 1);
    assert_int_equal(m.out[0].length, first);
    assert_true(m.out[0].ended);
    assert_int_equal(m.out[0].end, stop);
    assert_float_equal(m.out[0].log_probabilities[first], log_probability, 1e-6);
    close_made(&m);
    (void)state;
}

/* What the callbacks are told, of the prompt and of new tokens. */
typedef struct told {
    size_t steps, tokens;
    const attn_model *model;
} told;

static int hear_step(void *ctx, const attn_generated_step *step) {
    told *t = ctx;
    size_t count;
    attn_model_sites(t->model, &count);
    assert_int_equal(step->index, t->steps++);
    assert_int_equal(step->site_count, count);
    if (step->index < (size_t)lengths[0])
        assert_int_equal(step->ids[0], prompts[step->index]);
    return 0;
}

static int hear_token(void *ctx, const attn_generated_token *token) {
    told *t = ctx;
    float sum = 0;
    t->tokens++;
    assert_int_equal(token->columns, t->steps);
    assert_int_equal(token->heads, 4);
    for (size_t k = 0; k < token->columns; k++)
        sum += token->weights[3 * token->stride + k];
    assert_float_equal(sum, 1, 1e-5);
    return 0;
}

static void test_steps(void **state) {
    made m = open_made(ATTN_MODEL_RELATIVE);
    told t = {.model = m.model};
    attn_generate_options options = attn_generate_defaults();
    options.most = MOST;
    options.step = hear_step;
    options.token = hear_token;
    options.ctx = options.step_ctx = &t;
    generate(&m, &options, 1);
    assert_int_equal(t.tokens, m.out[0].length + m.out[0].ended);
    assert_int_equal(t.steps, (size_t)lengths[0] + t.tokens);
    close_made(&m);
    (void)state;
}

static int ignore_step(void *ctx, const attn_generated_step *step) {
    (void)ctx, (void)step;
    return 0;
}

/* Checks two generations of the same prompts. Their bits are equal if the kernel table sums in an
 * order that does not depend on the number of rows. */
static void check_same(const attn_generated *a, const attn_generated *b, bool bits) {
    const size_t rows = a->length + a->ended;
    assert_int_equal(a->length, b->length);
    assert_memory_equal(a->ids, b->ids, a->length * sizeof *a->ids);
    assert_float_equal(a->score, b->score, bits ? 0 : 1e-4);
    for (size_t i = 0; i < rows * a->heads * a->columns; i++)
        assert_float_equal(a->weights[i], b->weights[i], bits ? 0 : 1e-5);
}

/* Long prompts, which are read together, beside the same prompts token by token. */
static void test_long_prompts(void **state) {
    enum { ROWS = 2, LONG = 550 };
    static int32_t ids[ROWS * LONG];
    static const int64_t long_lengths[ROWS] = {LONG, LONG - 20};
    attn_error err = {0};
    for (size_t i = 0; i < ROWS * LONG; i++)
        ids[i] = 3 + (int32_t)(i * i % 5);
    for (size_t i = 0; i < 2 * (size_t)KINDS; i++) {
        made m = open_long(kinds[i / 2], LONG + MOST + 1);
        attn_generate_options options = attn_generate_defaults();
        attn_generated apart[ROWS];
        options.most = MOST;
        options.want_weights = true;
        options.beams = 1 + 2 * (i % 2);
        assert_int_equal(attn_model_generate(m.model, ids, long_lengths, ROWS, LONG, &options,
                                             m.arena, NULL, NULL, m.out, &err),
                         ATTN_OK);
        options.step = ignore_step; /* each step is told, so none may be left out */
        assert_int_equal(attn_model_generate(m.model, ids, long_lengths, ROWS, LONG, &options,
                                             m.arena, NULL, NULL, apart, &err),
                         ATTN_OK);
        for (size_t b = 0; b < ROWS; b++)
            check_same(&m.out[b], &apart[b], attn_isa_current() != ATTN_ISA_REF);
        close_made(&m);
    }
    (void)state;
}

/* A prompt as long as the model reads leaves no room; one beyond is refused. */
static void test_edges(void **state) {
    static const int32_t long_prompt[13] = {3, 4, 5, 6, 7, 3, 4, 5, 6, 7, 3, 4, 5};
    made m = open_made(ATTN_MODEL_LEARNED);
    attn_generate_options options = attn_generate_defaults();
    const struct {
        attn_generate_options options;
        const char *where;
    } wrong[] = {
        {{.beams = 2, .samples = true, .temperature = 1, .top_p = 1}, "beams"},
        {{.beams = 1, .samples = true, .temperature = 0, .top_p = 1}, "temperature"},
        {{.beams = 1, .samples = true, .temperature = 1, .top_p = 1.5}, "top_p"},
        {{.beams = 1, .samples = true, .temperature = 1, .top_p = 1, .min_p = 1.5}, "min_p"},
        {{.beams = 1, .samples = true, .temperature = 1, .top_p = 1, .min_p = NAN}, "min_p"},
        {{.beams = 2, .repetition_penalty = 2}, "beams"},
        {{.beams = 1, .repetition_penalty = -1}, "repetition_penalty"},
        {{.beams = 1, .frequency_penalty = INFINITY}, "frequency_penalty"},
        {{.beams = 1, .presence_penalty = NAN}, "presence_penalty"},
        {{.beams = 1, .stop = (const int32_t[]){V}, .stop_count = 1}, "stop/0"},
    };
    int64_t length = 12;
    attn_error err = {0};
    assert_int_equal(attn_model_generate(m.model, long_prompt, &length, 1, 12, &options, m.arena,
                                         NULL, NULL, m.out, &err),
                     ATTN_OK);
    assert_int_equal(m.out[0].length, 0);
    assert_false(m.out[0].ended);
    assert_float_equal(m.out[0].score, 0, 0);
    length = 13;
    assert_int_equal(attn_model_generate(m.model, long_prompt, &length, 1, 13, &options, m.arena,
                                         NULL, NULL, m.out, &err),
                     ATTN_ELIMIT);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_true(attn_model_generate(m.model, prompts, lengths, 1, S, &wrong[i].options, m.arena,
                                        NULL, NULL, m.out, &err) != ATTN_OK);
        assert_string_equal(err.where, wrong[i].where);
    }
    close_made(&m);
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy), cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_beams),  cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_stop),   cmocka_unit_test(test_steps),
        cmocka_unit_test(test_edges),  cmocka_unit_test(test_long_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
