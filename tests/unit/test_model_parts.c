/* Models of one stack, and the options of blocks, embeddings and heads: the gradient of each
 * parameter beside differences of the loss; which tokens a model reads; what it refuses; and models
 * beside PyTorch (tests/tools/torch_parts wrote the numbers). */
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

#include "layers/layers.h"

enum { LIMIT = 1 << 26, B = 2, S = 5, T = 4, SV = 9, TV = 8, NAMES = 96 };

static const int32_t source[B * S] = {4, 3, 6, 5, 4, 7, 8, 3, 0, 0},
                                target[B * T] = {1, 3, 5, 4, 1, 7, 6, 3},
                                expected[B * S] = {3, 5, 4, 2, 7, 6, 3, 2, 0, 0},
                                classes[B] = {5, 3},
                                segments[B * S] = {0, 0, 1, 1, 1, 0, 1, 1, 0, 0};
static const int64_t lengths[B] = {5, 3};

/* One model. The numbers that are 0 are the defaults. */
typedef struct part_case {
    const char *name; /* as in the file of PyTorch; NULL: it has no such model */
    attn_model_architecture architecture;
    attn_model_positions positions;
    attn_model_activation activation;
    attn_model_norm norm_kind;
    attn_model_head head;
    double norm_epsilon, rotary_base, embedding_scale;
    size_t num_kv_heads, num_segments;
    bool norm_after, gated, no_bias, embedding_norm, tied;
} part_case;

#define ENCODER .architecture = ATTN_MODEL_ENCODER
#define DECODER .architecture = ATTN_MODEL_DECODER
#define PAIR    .architecture = ATTN_MODEL_TRANSFORMER

static const part_case cases[] = {
    {"encoder", ENCODER, .positions = ATTN_MODEL_LEARNED, .activation = ATTN_MODEL_GELU},
    {"encoder_after", ENCODER, .norm_after = true, .no_bias = true},
    {"bert", ENCODER, .positions = ATTN_MODEL_LEARNED, .activation = ATTN_MODEL_GELU,
     .norm_epsilon = 1e-12, .embedding_scale = 1, .num_segments = 2, .norm_after = true,
     .embedding_norm = true, .head = ATTN_MODEL_POOLED},
    {"gpt2", DECODER, .positions = ATTN_MODEL_LEARNED, .activation = ATTN_MODEL_GELU_TANH,
     .embedding_scale = 1, .tied = true},
    {"llama", DECODER, .positions = ATTN_MODEL_ROTARY, .activation = ATTN_MODEL_SILU, .gated = true,
     .norm_kind = ATTN_MODEL_RMS_NORM, .norm_epsilon = 1e-6, .rotary_base = 500,
     .embedding_scale = 1, .num_kv_heads = 2, .no_bias = true},
    {NULL, DECODER, .positions = ATTN_MODEL_NO_POSITIONS, .norm_after = true},
    {NULL, DECODER, .positions = ATTN_MODEL_SINUSOIDAL, .norm_after = true},
    {NULL, DECODER, .positions = ATTN_MODEL_LEARNED, .norm_after = true, .gated = true},
    {NULL, DECODER, .positions = ATTN_MODEL_RELATIVE, .norm_after = true, .num_kv_heads = 1},
    {NULL, DECODER, .positions = ATTN_MODEL_SHAW, .norm_after = true},
    {NULL, DECODER, .positions = ATTN_MODEL_ALIBI, .norm_after = true, .tied = true},
    {NULL, PAIR, .positions = ATTN_MODEL_ROTARY, .activation = ATTN_MODEL_SILU, .gated = true,
     .norm_kind = ATTN_MODEL_RMS_NORM, .num_kv_heads = 2, .no_bias = true, .tied = true},
    {NULL, PAIR, .activation = ATTN_MODEL_GELU, .num_segments = 3, .embedding_norm = true,
     .num_kv_heads = 1},
};
enum { CASES = sizeof cases / sizeof *cases };

static attn_model_config config_of(const part_case *c) {
    attn_model_config m = attn_model_defaults();
    m.architecture = c->architecture;
    m.positions = c->positions;
    m.activation = c->activation;
    m.norm_kind = c->norm_kind;
    m.head = c->head;
    m.num_kv_heads = c->num_kv_heads;
    m.num_segments = c->num_segments;
    m.norm = c->norm_after ? ATTN_MODEL_NORM_AFTER : ATTN_MODEL_NORM_BEFORE;
    m.gated = c->gated;
    m.bias = !c->no_bias;
    m.embedding_norm = c->embedding_norm;
    m.tied = c->tied;
    m.embedding_scale = c->embedding_scale;
    m.norm_epsilon = c->norm_epsilon > 0 ? c->norm_epsilon : m.norm_epsilon;
    m.rotary_base = c->rotary_base > 0 ? c->rotary_base : m.rotary_base;
    m.source_vocabulary = attn_model_has_encoder(&m) ? SV : 0;
    m.target_vocabulary = TV;
    m.width = 16;
    m.num_heads = 4;
    m.num_layers = 2;
    m.feed_forward = 12;
    m.max_length = 20;
    m.reach = 3;
    m.dropout_p = 0;
    return m;
}

static attn_model *open_model(const part_case *c) {
    const attn_model_config config = config_of(c);
    attn_model *model = NULL;
    attn_error err = {0};
    if (attn_model_new(&config, 5, true, &model, &err))
        fail_msg("%s: %s", err.where, err.text);
    return model;
}

static attn_batch batch_of(const part_case *c) {
    const attn_model_config config = config_of(c);
    attn_batch b = {.B = B, .expected = c->head == ATTN_MODEL_POOLED ? classes : expected};
    if (attn_model_has_encoder(&config)) {
        b.S = S;
        b.source = source;
        b.source_lengths = lengths;
        b.source_segments = c->num_segments ? segments : NULL;
    }
    if (attn_model_has_decoder(&config)) {
        b.T = T;
        b.target = target;
    }
    return b;
}

static double loss_of(const part_case *c, attn_model *model) {
    const attn_batch batch = batch_of(c);
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_cross_entropy_loss loss;
    attn_error err = {0};
    if (attn_model_step(model, &batch, &(attn_step_options){0}, arena, NULL, NULL, &loss, &err))
        fail_msg("%s: %s", err.where, err.text);
    attn_arena_free(arena);
    return loss.loss;
}

/* The slope of the loss along the signs of one parameter's gradient. */
static void check_parameter(const part_case *c, attn_model *model, const attn_parameter *at,
                            const float *gradient) {
    float *values = attn_parameters_values(attn_model_parameters(model)) + at->offset;
    float *kept = attn_alloc(at->count * sizeof *kept);
    const float step = 0.004F / (float)sqrt((double)at->count);
    double slope = 0, loss[2];
    assert_non_null(kept);
    memcpy(kept, values, at->count * sizeof *kept);
    for (size_t i = 0; i < at->count; i++)
        slope += fabs((double)gradient[i]);
    for (int way = 0; way < 2; way++) {
        for (size_t i = 0; i < at->count; i++)
            values[i] = kept[i] + (way ? -step : step) * (gradient[i] < 0 ? -1 : 1);
        loss[way] = loss_of(c, model);
    }
    memcpy(values, kept, at->count * sizeof *kept);
    attn_free(kept);
    const double found = (loss[0] - loss[1]) / (2 * (double)step);
    if (fabs(found - slope) > 0.02 * slope + 2e-3)
        fail_msg("%s: %g, by differences %g", at->name, slope, found);
}

static void test_differences(void **state) {
    for (size_t i = 0; i < CASES; i++) {
        attn_model *model = open_model(&cases[i]);
        attn_parameters *set = attn_model_parameters(model);
        const size_t n = attn_parameters_size(set);
        float *gradients = attn_alloc(n * sizeof *gradients);
        assert_non_null(gradients);
        attn_parameters_zero_gradients(set);
        loss_of(&cases[i], model);
        memcpy(gradients, attn_parameters_gradients(set), n * sizeof *gradients);
        for (size_t p = 0; p < attn_parameters_length(set); p++)
            check_parameter(&cases[i], model, attn_parameters_at(set, p),
                            gradients + attn_parameters_at(set, p)->offset);
        attn_free(gradients);
        attn_model_free(model);
    }
    (void)state;
}

static void forward(const attn_model *model, const attn_batch *batch, unsigned keep,
                    attn_arena *arena, attn_model_outputs *out) {
    const attn_forward_options options = {.keep = keep};
    attn_error err = {0};
    if (attn_model_forward(model, batch, &options, arena, NULL, NULL, out, &err))
        fail_msg("%s: %s", err.where, err.text);
}

/* Returns the largest difference between the rows [from, to) of two logits. */
static float most_between(const attn_tensor *a, const attn_tensor *b, size_t from, size_t to) {
    const float *x = a->data, *y = b->data;
    float most = 0;
    for (size_t i = from * TV; i < to * TV; i++)
        most = fmaxf(most, fabsf(x[i] - y[i]));
    return most;
}

/* A decoder does not read the tokens behind a place; an encoder does, but no padding. */
static void test_sight(void **state) {
    for (size_t i = 0; i < CASES; i++) {
        const bool encodes = cases[i].architecture == ATTN_MODEL_ENCODER;
        attn_batch batch = batch_of(&cases[i]);
        int32_t other[B * S];
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_model *model = open_model(&cases[i]);
        attn_model_outputs before, after;
        if (cases[i].architecture == ATTN_MODEL_TRANSFORMER || cases[i].head == ATTN_MODEL_POOLED) {
            attn_model_free(model);
            attn_arena_free(arena);
            continue;
        }
        const size_t n = encodes ? S : T;
        forward(model, &batch, 0, arena, &before);
        memcpy(other, encodes ? source : target, B * n * sizeof *other);
        other[n - 1] = other[n - 1] == 3 ? 4 : 3;
        if (encodes)
            other[B * n - 1] = 5; /* padding of the second sequence */
        *(encodes ? &batch.source : &batch.target) = other;
        forward(model, &batch, 0, arena, &after);
        const float first = most_between(&before.logits, &after.logits, 0, n - 1);
        assert_true(encodes ? first > 1e-4F : first <= 1e-6F);
        assert_true(most_between(&before.logits, &after.logits, n - 1, n) > 1e-4F);
        assert_true(most_between(&before.logits, &after.logits, n, n + 3) <= 1e-6F);
        attn_model_free(model);
        attn_arena_free(arena);
    }
    (void)state;
}

/* A pass keeps the sites and the states of the stacks that there are. */
static void test_lists(void **state) {
    for (size_t i = 0; i < CASES; i++) {
        const attn_batch batch = batch_of(&cases[i]);
        const bool both = cases[i].architecture == ATTN_MODEL_TRANSFORMER;
        const attn_site_kind kind =
            cases[i].architecture == ATTN_MODEL_DECODER ? ATTN_SITE_DECODER : ATTN_SITE_ENCODER;
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_model *model = open_model(&cases[i]);
        attn_model_outputs out;
        size_t states;
        forward(model, &batch,
                ATTN_KEEP_WEIGHTS | ATTN_KEEP_STATES | ATTN_KEEP_INPUTS | ATTN_KEEP_OPERATIONS,
                arena, &out);
        attn_model_states(model, &states);
        assert_int_equal(out.site_count, both ? 6 : 2);
        assert_int_equal(out.state_count, states);
        for (size_t s = 0; s < 2; s++) {
            assert_int_equal(out.sites[s].kind, both ? ATTN_SITE_ENCODER : kind);
            assert_int_equal(out.sites[s].weights.rank, 4);
            assert_int_equal(out.sites[s].query.dims[1], 4);
            assert_int_equal(out.sites[s].key.dims[1], 4);
        }
        for (size_t s = 0; s < states; s++)
            assert_non_null(out.states[s].values);
        assert_int_equal(out.encoder.rank, kind == ATTN_SITE_ENCODER ? 3 : 0);
        assert_int_equal(out.logits.rank, cases[i].head == ATTN_MODEL_POOLED ? 2 : 3);
        attn_model_free(model);
        attn_arena_free(arena);
    }
    (void)state;
}

/* The cost of a pass bounds the memory that it takes. */
static void test_cost(void **state) {
    for (size_t i = 0; i < CASES; i++) {
        const attn_batch batch = batch_of(&cases[i]);
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_model *model = open_model(&cases[i]);
        attn_model_outputs out;
        const attn_model_pass pass = {.B = batch.S ? B : 0,
                                      .S = (double)batch.S,
                                      .rows = batch.T ? B : 0,
                                      .T = (double)batch.T,
                                      .keeps_states = true,
                                      .keeps_inputs = true};
        const attn_model_cost cost = attn_model_pass_cost(model, &pass, 1);
        forward(model, &batch, ATTN_KEEP_WEIGHTS | ATTN_KEEP_STATES | ATTN_KEEP_INPUTS, arena,
                &out);
        assert_true((double)attn_arena_used(arena) <= cost.bytes);
        assert_true(cost.operations > 0 && cost.cells > 0);
        attn_model_free(model);
        attn_arena_free(arena);
    }
    (void)state;
}

static void refuses(const attn_model_config *config, const char *where) {
    attn_model *model = NULL;
    attn_error err = {0};
    assert_int_equal(attn_model_new(config, 1, false, &model, &err), ATTN_EARG);
    assert_string_equal(err.where, where);
    assert_null(model);
}

#define REFUSES(from, member, value)                                                               \
    do {                                                                                           \
        attn_model_config config = config_of(&cases[from]);                                        \
        config.member = value;                                                                     \
        refuses(&config, #member);                                                                 \
    } while (0)

static void test_refusals(void **state) {
    enum { IS_ENCODER = 0, IS_DECODER = 3, IS_LLAMA = 4 };
    REFUSES(IS_ENCODER, activation, ATTN_MODEL_ACTIVATIONS);
    REFUSES(IS_ENCODER, norm_kind, ATTN_MODEL_NORMS);
    REFUSES(IS_ENCODER, head, ATTN_MODEL_HEADS);
    REFUSES(IS_ENCODER, num_kv_heads, 3);
    REFUSES(IS_ENCODER, num_kv_heads, 8);
    REFUSES(IS_ENCODER, num_segments, 1 << 20);
    REFUSES(IS_ENCODER, norm_epsilon, 0);
    REFUSES(IS_ENCODER, rotary_base, 1);
    REFUSES(IS_ENCODER, embedding_scale, -1);
    REFUSES(IS_ENCODER, source_vocabulary, 0);
    REFUSES(IS_ENCODER, tied, true);
    REFUSES(IS_ENCODER, attention, ATTN_MODEL_ADDITIVE);
    REFUSES(IS_DECODER, attention, ATTN_MODEL_NONE);
    REFUSES(IS_DECODER, head, ATTN_MODEL_POOLED);
    REFUSES(IS_DECODER, num_segments, 2);
    REFUSES(IS_DECODER, end, TV);
    REFUSES(IS_LLAMA, positions, ATTN_MODEL_SHAW + 100);
    attn_model_config config = config_of(&cases[IS_LLAMA]);
    config.positions = ATTN_MODEL_SHAW;
    refuses(&config, "num_kv_heads");
    config.positions = ATTN_MODEL_ROTARY;
    config.width = 12;
    config.num_heads = 12;
    refuses(&config, "positions");
    config = config_of(&cases[IS_ENCODER]);
    config.architecture = ATTN_MODEL_SEQ2SEQ;
    config.activation = ATTN_MODEL_RELU;
    config.gated = true;
    refuses(&config, "gated");
    (void)state;
}

/* --- beside PyTorch --- */

static attn_safetensors torch_says;
static unsigned char *torch_bytes;

static const attn_tensor *recorded(const char *name, const char *what) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", name, what);
    for (size_t i = 0; i < torch_says.count; i++)
        if (!strcmp(torch_says.tensors[i].name, full))
            return &torch_says.tensors[i].tensor;
    fail_msg("%s is not recorded", full);
    return NULL;
}

static void close_to(const char *name, const char *what, const float *got, size_t n) {
    const attn_tensor *t = recorded(name, what);
    const float *want = t->data;
    size_t count;
    assert_true(attn_tensor_count(t, &count) && count == n);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-5f))
            fail_msg("%s/%s[%zu]: %.8g, PyTorch says %.8g", name, what, i, (double)got[i],
                     (double)want[i]);
}

static void load(const char *name, attn_parameters *set) {
    const char *names[NAMES];
    attn_tensor tensors[NAMES];
    const size_t count = attn_parameters_length(set);
    attn_error err = {0};
    assert_true(count <= NAMES);
    for (size_t i = 0; i < count; i++) {
        char what[256];
        names[i] = attn_parameters_at(set, i)->name;
        snprintf(what, sizeof what, "p/%s", names[i]);
        tensors[i] = *recorded(name, what);
    }
    if (attn_parameters_load(set, count, names, tensors, NULL, &err))
        fail_msg("%s: %s", err.where, err.text);
}

static void test_torch(void **state) {
    for (size_t i = 0; i < CASES && cases[i].name; i++) {
        const char *name = cases[i].name;
        const attn_batch batch = batch_of(&cases[i]);
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_model *model = open_model(&cases[i]);
        attn_parameters *set = attn_model_parameters(model);
        attn_model_outputs out;
        size_t count;
        load(name, set);
        forward(model, &batch, 0, arena, &out);
        assert_true(attn_tensor_count(&out.logits, &count));
        close_to(name, "logits", out.logits.data, count);
        attn_parameters_zero_gradients(set);
        const float loss = (float)loss_of(&cases[i], model);
        close_to(name, "loss", &loss, 1);
        for (size_t p = 0; p < attn_parameters_length(set); p++) {
            char what[256];
            snprintf(what, sizeof what, "dp/%s", attn_parameters_at(set, p)->name);
            close_to(name, what, attn_parameters_gradient(set, p).data,
                     attn_parameters_at(set, p)->count);
        }
        attn_model_free(model);
        attn_arena_free(arena);
    }
    (void)state;
}

static int read_recorded(void **state) {
    const size_t most = 1 << 20;
    const char *folder = getenv("ATTN_TORCH_MODELS");
    attn_arena *arena = attn_arena_new(LIMIT);
    char path[512];
    attn_error err = {0};
    snprintf(path, sizeof path, "%s/parts_torch.safetensors", folder ? folder : "tests/unit");
    FILE *in = fopen(path, "rb");
    torch_bytes = attn_alloc(most);
    *state = arena;
    if (!arena || !in || !torch_bytes)
        return -1;
    const size_t size = fread(torch_bytes, 1, most, in);
    fclose(in);
    if (!attn_safetensors_read(torch_bytes, size, arena, &torch_says, &err))
        return 0;
    fprintf(stderr, "%s: %s: %s\n", path, err.where, err.text);
    return -1;
}

static int forget_recorded(void **state) {
    attn_arena_free(*state);
    attn_free(torch_bytes);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differences), cmocka_unit_test(test_sight),
        cmocka_unit_test(test_lists),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_torch),       cmocka_unit_test(test_cost),
    };
    return cmocka_run_group_tests(tests, read_recorded, forget_recorded);
}
