/* Models of one stack, and the options of blocks, embeddings and heads: the gradient of each
 * parameter beside differences of the loss; which tokens a model reads; what it refuses; and models
 * beside PyTorch (tests/tools/torch_parts wrote the numbers). */
#include "model_parts_case.h"

static attn_model *open_model(const part_case *c) {
    const attn_model_config config = config_of(c);
    attn_model *model = NULL;
    attn_error err = {0};
    if (attn_model_new(&config, 5, true, &model, &err))
        fail_msg("%s: %s", err.where, err.text);
    return model;
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
                                      .S = batch.S,
                                      .rows = batch.T ? B : 0,
                                      .T = batch.T,
                                      .keeps_weights = true,
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differences), cmocka_unit_test(test_sight),
        cmocka_unit_test(test_lists),       cmocka_unit_test(test_refusals),

        cmocka_unit_test(test_torch),       cmocka_unit_test(test_cost),
    };
    return cmocka_run_group_tests(tests, read_recorded, forget_recorded);
}
