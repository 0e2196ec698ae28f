/* Sequence-to-sequence models beside PyTorch (tests/tools/torch_models wrote the numbers): logits,
 * both attentions, loss, gradients of every parameter; gradients beside differences of the loss,
 * with dropout; searches beside the forward pass that they walk along, and beside trying
 * everything. ATTN_TORCH_MODELS names another file to compare with. */
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

enum { LIMIT = 1 << 27, SV = 11, TV = 13, B = 3, S = 6, T = 5 };

static attn_safetensors torch_says;
static unsigned char *torch_bytes;

typedef struct model_case {
    const char *name;
    attn_model_attention attention;
    attn_model_positions positions;
    size_t layers;
    bool read_padding;
} model_case;

static const model_case cases[] = {
    {"textbook", ATTN_MODEL_MULTIHEAD, ATTN_MODEL_SINUSOIDAL, 2, false},
    {"reads", ATTN_MODEL_MULTIHEAD, ATTN_MODEL_SINUSOIDAL, 1, true},
    {"dot", ATTN_MODEL_DOT, ATTN_MODEL_LEARNED, 1, false},
    {"additive", ATTN_MODEL_ADDITIVE, ATTN_MODEL_RELATIVE, 1, false},
    {"general", ATTN_MODEL_GENERAL, ATTN_MODEL_SHAW, 1, false},
    {"concat", ATTN_MODEL_CONCAT, ATTN_MODEL_ALIBI, 1, false},
    {"local", ATTN_MODEL_LOCAL, ATTN_MODEL_NO_POSITIONS, 1, false},
    {"strided", ATTN_MODEL_STRIDED, ATTN_MODEL_SINUSOIDAL, 1, false},
    {"none", ATTN_MODEL_NONE, ATTN_MODEL_SINUSOIDAL, 2, false},
};
enum { CASES = sizeof cases / sizeof *cases };

static const attn_tensor *recorded(const char *name, const char *what) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", name, what);
    for (size_t i = 0; i < torch_says.count; i++)
        if (!strcmp(torch_says.tensors[i].name, full))
            return &torch_says.tensors[i].tensor;
    fail_msg("%s is not recorded", full);
    return NULL;
}

static attn_model_config config_of(const model_case *c, double dropout) {
    attn_model_config config = attn_model_defaults();
    config.attention = c->attention;
    config.positions = c->positions;
    config.layers = c->layers;
    config.read_padding = c->read_padding;
    config.source_vocabulary = SV;
    config.target_vocabulary = TV;
    config.width = 8;
    config.heads = 2;
    config.max_length = 20;
    config.radius = 2;
    config.stride = 3;
    config.reach = 3;
    config.dropout = dropout;
    return config;
}

static attn_model *open_model(const model_case *c, double dropout) {
    const attn_model_config config = config_of(c, dropout);
    const char *names[64];
    attn_tensor tensors[64];
    attn_model *model = NULL;
    attn_error err = {0};
    if (attn_model_new(&config, 1, true, &model, &err))
        fail_msg("%s: %s", err.where, err.text);
    attn_parameters *set = attn_model_parameters(model);
    const size_t count = attn_parameters_length(set);
    assert_true(count < 64);
    names[count] = "pos_encoding.pe"; /* as PyTorch keeps it; not read */
    tensors[count] = (attn_tensor){.rank = 3, .dims = {1, 5000, 8}};
    for (size_t i = 0; i < count; i++) {
        char what[256];
        names[i] = attn_parameters_at(set, i)->name;
        snprintf(what, sizeof what, "/p/%s", names[i]);
        tensors[i] = *recorded(c->name, what);
    }
    if (attn_model_load(model, count + 1, names, tensors, &err))
        fail_msg("%s: %s", err.where, err.text);
    return model;
}

static attn_batch batch_of(void) {
    return (attn_batch){.B = B,
                        .S = S,
                        .T = T,
                        .source = recorded("", "source")->data,
                        .source_lengths = recorded("", "lengths")->data,
                        .target = recorded("", "target")->data,
                        .expected = recorded("", "expected")->data};
}

static void close_to(const char *name, const char *what, const float *got, size_t n) {
    const attn_tensor *t = recorded(name, what);
    const float *want = t->data;
    size_t count;
    assert_true(attn_tensor_count(t, &count) && count == n);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-5f))
            fail_msg("%s%s[%zu]: %.8g, PyTorch says %.8g", name, what, i, (double)got[i],
                     (double)want[i]);
}

static void gradients_close(const model_case *c, attn_model *model) {
    const attn_parameters *set = attn_model_parameters(model);
    for (size_t i = 0; i < attn_parameters_length(set); i++) {
        char what[256];
        snprintf(what, sizeof what, "/dp/%s", attn_parameters_at(set, i)->name);
        close_to(c->name, what, attn_parameters_gradient(set, i).data,
                 attn_parameters_at(set, i)->count);
    }
}

static void sites_close(const model_case *c, const attn_model_outputs *out) {
    const size_t heads[2] = {
        2, c->attention >= ATTN_MODEL_DOT && c->attention <= ATTN_MODEL_CONCAT ? 1 : 2};
    assert_int_equal(out->site_count, c->attention == ATTN_MODEL_NONE ? 0 : 2);
    for (size_t i = 0; i < out->site_count; i++) {
        const attn_tensor *w = &out->sites[i].weights;
        assert_int_equal(w->rank, 4);
        assert_int_equal(w->dims[1], heads[i]);
        close_to(c->name, i ? "/cross" : "/encoder", w->data, B * heads[i] * (i ? T : S) * S);
    }
}

static void test_torch(void **state) {
    for (size_t i = 0; i < CASES; i++) {
        const model_case *c = &cases[i];
        const attn_batch batch = batch_of();
        const attn_step_options options = {.smoothing = 0.1};
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_model *model = open_model(c, 0);
        attn_model_outputs out;
        attn_cross_entropy_loss loss;
        attn_error err = {0};
        if (attn_model_forward(model, &batch, true, arena, NULL, NULL, &out, &err))
            fail_msg("%s: %s: %s", c->name, err.where, err.text);
        close_to(c->name, "/logits", out.logits.data, B * T * TV);
        sites_close(c, &out);
        if (attn_model_step(model, &batch, &options, arena, NULL, NULL, &loss, &err))
            fail_msg("%s: %s: %s", c->name, err.where, err.text);
        const float mean = (float)loss.loss;
        close_to(c->name, "/loss", &mean, 1);
        assert_int_equal(loss.rows, 12);
        gradients_close(c, model);
        attn_model_free(model);
        attn_arena_free(arena);
    }
    (void)state;
}

static double loss_at(attn_model *model, const float *origin, const float *u, double h) {
    const attn_batch batch = batch_of();
    const attn_step_options options = {.seed = 3};
    attn_parameters *set = attn_model_parameters(model);
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_cross_entropy_loss loss;
    float *values = attn_parameters_values(set);
    for (size_t i = 0; i < attn_parameters_size(set); i++)
        values[i] = (float)(origin[i] + h * u[i]);
    assert_int_equal(attn_model_step(model, &batch, &options, arena, NULL, NULL, &loss, NULL),
                     ATTN_OK);
    attn_arena_free(arena);
    return loss.loss;
}

/* The loss along a random direction of all parameters at once, dropout drawn from one seed. */
static void test_differences(void **state) {
    for (size_t i = 0; i < CASES; i++) {
        attn_model *model = open_model(&cases[i], 0.2);
        attn_parameters *set = attn_model_parameters(model);
        const size_t size = attn_parameters_size(set), bytes = size * sizeof(float);
        float *origin = attn_alloc(bytes), *u = attn_alloc(bytes);
        double said = 0, norm = 0, length = 0;
        const double h = 0.015;
        memcpy(origin, attn_parameters_values(set), bytes);
        attn_rng_fill_normal(u, size, 21, 0);
        loss_at(model, origin, u, 0);
        const float *gradient = attn_parameters_gradients(set);
        for (size_t e = 0; e < size; e++)
            length += (double)u[e] * u[e];
        for (size_t e = 0; e < size; e++) {
            u[e] = (float)(u[e] / sqrt(length)) + 0.5f * gradient[e];
            said += (double)u[e] * gradient[e];
            norm += (double)gradient[e] * gradient[e];
        }
        const double near = loss_at(model, origin, u, h) - loss_at(model, origin, u, -h);
        const double far = loss_at(model, origin, u, 2 * h) - loss_at(model, origin, u, -2 * h);
        const double found = (8 * near - far) / (12 * h);
        if (!(fabs(found - said) <= 2e-3 * (norm + sqrt(norm))))
            fail_msg("%s: differences %.6g, gradient %.6g (norm %.3g)", cases[i].name, found, said,
                     sqrt(norm));
        attn_free(origin);
        attn_free(u);
        attn_model_free(model);
    }
    (void)state;
}

/* The same seed gives the same bytes; another one drops other numbers. */
static void test_seeds(void **state) {
    const attn_batch batch = batch_of();
    attn_model *model = open_model(&cases[0], 0.3);
    attn_parameters *set = attn_model_parameters(model);
    const size_t bytes = attn_parameters_size(set) * sizeof(float);
    attn_pool *pool = attn_pool_new(2);
    float *kept = attn_alloc(bytes);
    for (int i = 0; i < 3; i++) {
        const attn_step_options options = {.seed = i == 2 ? 8 : 7};
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_cross_entropy_loss loss;
        attn_parameters_zero_gradients(set);
        assert_int_equal(attn_model_step(model, &batch, &options, arena, i == 1 ? pool : NULL, NULL,
                                         &loss, NULL),
                         ATTN_OK);
        if (i == 0)
            memcpy(kept, attn_parameters_gradients(set), bytes);
        else if (i == 1)
            assert_memory_equal(kept, attn_parameters_gradients(set), bytes);
        else
            assert_memory_not_equal(kept, attn_parameters_gradients(set), bytes);
        attn_arena_free(arena);
    }
    attn_free(kept);
    attn_pool_free(pool);
    attn_model_free(model);
    (void)state;
}

/* --- searches --- */

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
    assert_int_equal(attn_model_forward(model, &batch, true, arena, NULL, NULL, out, NULL),
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
    assert_true(fabs(g->score - sum / by) < 1e-4);
    if (options->beams == 1)
        assert_true(greedy);
    if (is_none)
        assert_null(g->weights);
    else
        for (size_t i = 0; i < g->heads * n * S; i++)
            assert_true(fabsf(g->weights[i] - ((float *)out.sites[1].weights.data)[i]) < 1e-5f);
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
            options.most = 7;
            if (attn_model_generate(model, batch.source, batch.source_lengths, B, S, &options,
                                    arena, NULL, NULL, all, &err))
                fail_msg("%s: %s: %s", cases[i].name, err.where, err.text);
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

static int hear(void *ctx, int32_t id, double log_probability, const float *weights) {
    heard *h = ctx;
    double row = 0;
    for (size_t j = 0; j < S; j++)
        row += weights[j];
    assert_true(fabs(row - 1) < 1e-5);
    h->ids[h->count++] = id;
    h->sum += log_probability;
    return h->count == h->stop_at;
}

static void test_streaming(void **state) {
    const attn_batch batch = batch_of();
    heard h = {.count = 0};
    attn_generate_options options = {.beams = 1, .most = 9, .token = hear, .ctx = &h};
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

/* --- sizes and refusals --- */

static void test_counts(void **state) {
    attn_model_config config = attn_model_defaults();
    config.source_vocabulary = 10000;
    config.target_vocabulary = 8000;
    config.width = 256;
    config.heads = 8;
    config.layers = 2;
    attn_model *model;
    size_t bytes;
    assert_int_equal(attn_model_new(&config, 1, false, &model, NULL), ATTN_OK);
    assert_int_equal(attn_model_bytes(&config, false, &bytes, NULL), ATTN_OK);
    const attn_parameters *set = attn_model_parameters(model);
    assert_int_equal(attn_parameters_count(set, ""), 9034560);
    assert_int_equal(attn_parameters_count(set, "encoder_lstm"), 790528);
    assert_int_equal(attn_parameters_count(set, "cross_attention"), 263168);
    assert_true(bytes >= 4 * (size_t)9034560 && bytes < 4 * (size_t)9034560 + (1 << 20));
    attn_model_free(model);
    (void)state;
}

static void refuses(attn_model_config config, const char *where) {
    attn_model *model = NULL;
    attn_error err = {0};
    assert_int_equal(attn_model_new(&config, 1, false, &model, &err), ATTN_EARG);
    assert_string_equal(err.where, where);
    assert_null(model);
}

#define REFUSES(member, value)                                                                     \
    do {                                                                                           \
        attn_model_config config = config_of(&cases[0], 0);                                        \
        config.member = value;                                                                     \
        refuses(config, #member);                                                                  \
    } while (0)

static void test_refusals(void **state) {
    REFUSES(source_vocabulary, 3);
    REFUSES(width, 9);
    REFUSES(width, 1 << 20);
    REFUSES(heads, 3);
    REFUSES(heads, 0);
    REFUSES(layers, 9);
    REFUSES(dropout, 1);
    REFUSES(pad, 1);
    REFUSES(end, SV);
    REFUSES(attention, ATTN_MODEL_ATTENTIONS);
    REFUSES(positions, ATTN_MODEL_POSITIONS);
    attn_model *model = open_model(&cases[0], 0);
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_batch batch = batch_of();
    attn_model_outputs out;
    attn_error err = {0};
    const int64_t lengths[B] = {6, 0, 5};
    const int32_t target[T * B] = {[7] = TV};
    batch.source_lengths = lengths;
    assert_int_equal(attn_model_forward(model, &batch, false, arena, NULL, NULL, &out, &err),
                     ATTN_EVALUE);
    assert_string_equal(err.where, "source_lengths/1");
    batch = batch_of();
    batch.target = target;
    assert_int_equal(attn_model_forward(model, &batch, false, arena, NULL, NULL, &out, &err),
                     ATTN_EVALUE);
    assert_string_equal(err.where, "target/1/2");
    batch = batch_of();
    batch.S = 21;
    assert_int_equal(attn_model_forward(model, &batch, false, arena, NULL, NULL, &out, &err),
                     ATTN_ELIMIT);
    attn_arena_set_limit(arena, 1000);
    batch = batch_of();
    assert_int_equal(attn_model_forward(model, &batch, false, arena, NULL, NULL, &out, &err),
                     ATTN_ENOMEM);
    attn_arena_free(arena);
    attn_model_free(model);
    (void)state;
}

static int takes_left;
static void *failing_take(size_t size) {
    return takes_left-- > 0 ? attn_block_take(size) : NULL;
}

/* Make, train and ask a model with the n-th allocation failing: always out of memory, until none
 * is. */
static void test_memory_fails(void **state) {
    const attn_model_config config = config_of(&cases[1], 0.1);
    const attn_batch batch = batch_of();
    const attn_step_options options = {.seed = 1};
    const attn_generate_options search = {.beams = 2, .most = 2, .want_weights = true};
    attn_status status = ATTN_ENOMEM;
    int n = 0;
    for (; status; n++) {
        attn_model *model = NULL;
        attn_cross_entropy_loss loss;
        attn_generated found[B];
        takes_left = n;
        attn_set_allocator(failing_take, attn_block_give);
        attn_arena *arena = attn_arena_new(LIMIT);
        status = arena ? attn_model_new(&config, 1, true, &model, NULL) : ATTN_ENOMEM;
        if (!status)
            status = attn_model_step(model, &batch, &options, arena, NULL, NULL, &loss, NULL);
        if (!status)
            status = attn_model_generate(model, batch.source, batch.source_lengths, B, S, &search,
                                         arena, NULL, NULL, found, NULL);
        attn_model_free(model);
        attn_arena_free(arena);
        attn_set_allocator(NULL, NULL);
        assert_true(status == ATTN_OK || status == ATTN_ENOMEM);
    }
    assert_true(n > 10);
    (void)state;
}

static void test_names(void **state) {
    attn_model_attention attention;
    attn_model_positions positions;
    attn_model_architecture architecture;
    for (int i = 0; i < ATTN_MODEL_ATTENTIONS; i++)
        assert_true(attn_model_attention_parse(attn_model_attention_name((attn_model_attention)i),
                                               &attention) &&
                    (int)attention == i);
    for (int i = 0; i < ATTN_MODEL_POSITIONS; i++)
        assert_true(attn_model_positions_parse(attn_model_positions_name((attn_model_positions)i),
                                               &positions) &&
                    (int)positions == i);
    assert_true(attn_model_architecture_parse("seq2seq", &architecture));
    assert_false(attn_model_attention_parse("every", &attention));
    assert_null(attn_model_attention_name(ATTN_MODEL_ATTENTIONS));
    (void)state;
}

static int read_recorded(void **state) {
    const size_t most = 1 << 22;
    const char *path = getenv("ATTN_TORCH_MODELS");
    FILE *f = fopen(path ? path : "tests/unit/models_torch.safetensors", "rb");
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_error err = {0};
    torch_bytes = attn_alloc(most);
    if (!f || !arena || !torch_bytes)
        return -1;
    const size_t size = fread(torch_bytes, 1, most, f);
    fclose(f);
    *state = arena;
    if (attn_safetensors_read(torch_bytes, size, arena, &torch_says, &err)) {
        fprintf(stderr, "%s: %s\n", err.where, err.text);
        return -1;
    }
    return 0;
}

static int forget_recorded(void **state) {
    attn_arena_free(*state);
    attn_free(torch_bytes);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch),      cmocka_unit_test(test_differences),
        cmocka_unit_test(test_seeds),      cmocka_unit_test(test_generate),
        cmocka_unit_test(test_exhaustive), cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_counts),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_memory_fails),
    };
    return cmocka_run_group_tests(tests, read_recorded, forget_recorded);
}
