/* Models of one stack, and the options of blocks, embeddings and heads: the gradient of each
 * parameter beside differences of the loss; which tokens a model reads; what it refuses; and models
 * beside PyTorch (tests/tools/torch_parts wrote the numbers). */
#include "model_parts_case.h"

#include <unistd.h>

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

/* The heads of a group have the same keys. */
static void check_shared(const attn_tensor *key, size_t group) {
    const size_t n = key->dims[2] * key->dims[3];
    for (size_t i = 0; i < key->dims[0] * key->dims[1]; i++)
        assert_memory_equal((float *)key->data + i * n, (float *)key->data + i / group * group * n,
                            n * sizeof(float));
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
            check_shared(&out.sites[s].key,
                         4 / (cases[i].num_kv_heads ? cases[i].num_kv_heads : 4));
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
        if ((double)attn_arena_used(arena) > cost.bytes)
            fail_msg("case %zu takes %zu, counted %.0f", i, attn_arena_used(arena), cost.bytes);
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

/* Options without a backward pass are refused by name where gradients are wanted. */
static void test_not_trained(void **state) {
    static const struct {
        const char *known, *where;
    } fixed[] = {
        {"embedding_width=8", "embedding_width"},
        {"query_norm=head", "query_norm"},
        {"query_norm=whole", "query_norm"},
        {"parallel=one_norm", "parallel"},
        {"parallel=two_norms", "parallel"},
        {"logit_scale=2", "logit_scale"},
        {"logit_softcap=5", "logit_softcap"},
        {"residual_scale=0.5", "residual_scale"},
        {"any_ids=true", "any_ids"},
        {"headless=true", "headless"},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        attn_model_config config = config_of(&cases[0]);
        attn_model *model = NULL;
        attn_error err = {0};
        set_known(&config, fixed[i].known);
        assert_int_equal(attn_model_new(&config, 1, true, &model, &err), ATTN_EARG);
        assert_string_equal(err.where, fixed[i].where);
        assert_non_null(strstr(err.text, "cannot be trained"));
        if (attn_model_new(&config, 1, false, &model, &err))
            fail_msg("%s: %s", err.where, err.text);
        attn_model_free(model);
    }
    for (int place = ATTN_MODEL_NORM_AROUND; place <= ATTN_MODEL_NORM_INSIDE; place++) {
        attn_model_config config = config_of(&cases[0]);
        attn_model *model;
        attn_error err = {0};
        config.norm = (attn_model_norm_place)place;
        assert_int_equal(attn_model_new(&config, 1, true, &model, &err), ATTN_EARG);
        assert_string_equal(err.where, "norm");
    }
    (void)state;
}

/* Compares the cells of a site, which are computed from the statistics of rows, with weights that a
 * pass kept. */
static void compare_cells(const attn_site *site, const attn_tensor *w, attn_arena *arena) {
    const size_t L = w->dims[2], cols = w->dims[3];
    float *cells = attn_arena_array(arena, L * cols, sizeof *cells);
    attn_cells_scratch *scratch = attn_cells_scratch_new(site->operation, arena);
    for (size_t h = 0; h < w->dims[0] * w->dims[1]; h++) {
        const attn_range all = {
            .batch = h / w->dims[1], .head = h % w->dims[1], .rows = L, .cols = cols};
        assert_int_equal(attn_attention_cells(site->operation, site->stats, &all, ATTN_STAGE_PROBS,
                                              cells, cols, scratch, NULL),
                         ATTN_OK);
        assert_memory_equal(cells, (float *)w->data + h * L * cols, L * cols * sizeof *cells);
    }
}

/* A pass that keeps no states gives back memory, and has the same logits, queries and weights. */
static void test_lean(void **state) {
    for (size_t i = 0; i < CASES; i++) {
        const attn_batch batch = batch_of(&cases[i]);
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_model *model = open_model(&cases[i]);
        attn_model_outputs lean, kept;
        size_t n;
        forward(model, &batch, ATTN_KEEP_OPERATIONS | ATTN_KEEP_INPUTS, arena, &lean);
        const size_t used = attn_arena_used(arena);
        forward(model, &batch, ATTN_KEEP_WEIGHTS | ATTN_KEEP_STATES | ATTN_KEEP_INPUTS, arena,
                &kept);
        assert_true(attn_arena_used(arena) - used > used);
        assert_true(attn_tensor_count(&lean.logits, &n));
        assert_memory_equal(lean.logits.data, kept.logits.data, n * sizeof(float));
        for (size_t s = 0; s < lean.site_count; s++) {
            assert_true(attn_tensor_count(&lean.sites[s].query, &n));
            assert_memory_equal(lean.sites[s].query.data, kept.sites[s].query.data,
                                n * sizeof(float));
            compare_cells(&lean.sites[s], &kept.sites[s].weights, arena);
        }
        attn_model_free(model);
        attn_arena_free(arena);
    }
    (void)state;
}

static size_t size_of(const attn_model_setting *s) {
    static const size_t sizes[] = {[ATTN_SETTING_WORD] = sizeof(int),
                                   [ATTN_SETTING_SIZE] = sizeof(size_t),
                                   [ATTN_SETTING_REAL] = sizeof(double),
                                   [ATTN_SETTING_FLAG] = sizeof(bool),
                                   [ATTN_SETTING_LAYERS] = sizeof(attn_model_layers)};
    return sizes[s->kind];
}

/* A file has the settings of a model, sets of layers among them. */
static void test_files(void **state) {
    char path[] = "/tmp/attnd-parts-XXXXXX";
    const int fd = mkstemp(path);
    attn_tokenizer *source_ids = attn_tokenizer_numbers(SV, ATTN_ENGLISH),
                   *target_ids = attn_tokenizer_numbers(TV, ATTN_ENGLISH);
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < CASES; i++) {
        attn_model *model = open_model(&cases[i]);
        const attn_model_contents contents = {.model = model,
                                              .source = batch_of(&cases[i]).S ? source_ids : NULL,
                                              .target = target_ids};
        attn_model_file file;
        attn_error err = {0};
        if (attn_model_save(path, &contents, &err) || attn_model_open(path, false, &file, &err))
            fail_msg("case %zu: %s: %s", i, err.where, err.text);
        const char *was = (const char *)attn_model_configuration(model),
                   *is = (const char *)attn_model_configuration(file.model);
        for (const attn_model_setting *s = attn_model_settings; s->name; s++)
            if (s->of != ATTN_OF_NONE && memcmp(was + s->offset, is + s->offset, size_of(s)))
                fail_msg("case %zu: %s is another one", i, s->name);
        attn_model_file_close(&file);
        attn_model_free(model);
    }
    unlink(path);
    attn_tokenizer_free(source_ids);
    attn_tokenizer_free(target_ids);
    (void)state;
}

/* Runs a forward pass of a decoder with its logits of the last tokens. */
static attn_status last_logits(const attn_model *model, size_t last, bool none, attn_arena *arena,
                               attn_model_outputs *out, attn_error *err) {
    const attn_batch batch = batch_of(&cases[3]);
    const attn_forward_options options = {.last_logits = last, .no_logits = none};
    return attn_model_forward(model, &batch, &options, arena, NULL, NULL, out, err);
}

/* Logits of the last tokens alone are those of all tokens, and there may be none. */
static void test_last_logits(void **state) {
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_model *model = open_model(&cases[3]);
    attn_model_outputs all, last, none;
    attn_error err = {0};
    assert_int_equal(last_logits(model, 0, false, arena, &all, &err), ATTN_OK);
    assert_int_equal(last_logits(model, 2, false, arena, &last, &err), ATTN_OK);
    assert_int_equal(last.logits.dims[1], 2);
    for (size_t b = 0; b < B; b++)
        assert_memory_equal((float *)last.logits.data + b * 2 * TV,
                            (float *)all.logits.data + (b * T + T - 2) * TV,
                            2 * TV * sizeof(float));
    assert_int_equal(last_logits(model, 0, true, arena, &none, &err), ATTN_OK);
    assert_int_equal(none.logits.rank, 0);
    assert_int_equal(last_logits(model, T + 1, false, arena, &none, &err), ATTN_EVALUE);
    assert_string_equal(err.where, "last_logits");
    attn_model_free(model);
    attn_arena_free(arena);
    (void)state;
}

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
    REFUSES(IS_LLAMA, rotary_dims, 3);
    REFUSES(IS_LLAMA, rotary_dims, 8);
    REFUSES(IS_LLAMA, num_layer_groups, 3);
    REFUSES(IS_LLAMA, num_decoder_layers, 2);
    REFUSES(IS_LLAMA, score_scale, -1);
    REFUSES(IS_LLAMA, bucket_bias, true);
    REFUSES(IS_DECODER, rotary_scaling, ATTN_MODEL_YARN);
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
        cmocka_unit_test(test_not_trained), cmocka_unit_test(test_lean),
        cmocka_unit_test(test_last_logits), cmocka_unit_test(test_files),
        cmocka_unit_test(test_torch),       cmocka_unit_test(test_cost),
    };
    return cmocka_run_group_tests(tests, read_recorded, forget_recorded);
}
