/* Sequence-to-sequence models beside PyTorch: logits, all attentions, loss, gradients of every
 * parameter; gradients beside differences of the loss, with dropout; sizes and refusals. */
#include "unit/models_case.h"

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

/* All sites, under their names in the files: "encoder" of the seq2seq, else "encoder/0". */
static void sites_close(const model_case *c, const attn_model *model,
                        const attn_model_outputs *out) {
    static const char *const kinds[] = {"encoder", "decoder", "cross"};
    const size_t rows[] = {S, T, T}, cols[] = {S, T, S};
    size_t count;
    const attn_site *sites = attn_model_sites(model, &count);
    assert_int_equal(count, out->site_count);
    for (size_t i = 0; i < out->site_count; i++) {
        const attn_site *site = &out->sites[i];
        const size_t dims[4] = {B, sites[i].heads, rows[site->kind], cols[site->kind]};
        char what[64];
        assert_int_equal(site->kind, sites[i].kind);
        assert_int_equal(site->layer, sites[i].layer);
        assert_int_equal(site->weights.rank, 4);
        assert_memory_equal(site->weights.dims, dims, sizeof dims);
        snprintf(what, sizeof what, "/%s/%zu", kinds[site->kind], site->layer);
        if (c->architecture == ATTN_MODEL_SEQ2SEQ)
            *strrchr(what, '/') = 0;
        if (c->name)
            close_to(c->name, what, site->weights.data, B * dims[1] * dims[2] * dims[3]);
    }
}

static void test_sites(void **state) {
    for (size_t i = 0; i < CASES; i++) {
        attn_model *model = open_model(&cases[i], 0);
        size_t count;
        const attn_site *sites = attn_model_sites(model, &count);
        const size_t layers = cases[i].layers;
        if (cases[i].architecture == ATTN_MODEL_TRANSFORMER)
            assert_int_equal(count, 3 * layers);
        else
            assert_int_equal(count, cases[i].attention == ATTN_MODEL_NONE ? 0 : 2);
        for (size_t n = 0; n < count; n++)
            assert_int_equal(sites[n].kind, count == 2 ? (n ? ATTN_SITE_CROSS : ATTN_SITE_ENCODER)
                                                       : (attn_site_kind)(n / layers));
        attn_model_free(model);
    }
    (void)state;
}

/* The losses of where the heads look, of the forward pass's weights. */
static void looks_close(const model_case *c, const attn_model_outputs *out) {
    const attn_tensor *w = &out->sites[out->site_count - 1].weights;
    const int64_t rows[B] = {5, 3, 4};
    const float *want = recorded(c->name, "/looks")->data;
    const double aligned =
        attn_alignment_loss(NULL, w->data, recorded("", "alignment")->data, B, w->dims[1], T, S, 0);
    const double alike = attn_similarity_loss(NULL, w->data, rows, B, w->dims[1], T, S, 0);
    assert_float_equal(aligned, want[0], 1e-5);
    assert_float_equal(alike, w->dims[1] > 1 ? want[1] : 0, 1e-5);
}

static void test_torch(void **state) {
    for (size_t i = 0; i < CASES; i++) {
        const model_case *c = &cases[i];
        const attn_batch batch = batch_of();
        const attn_step_options options = {
            .smoothing = 0.1, .guidance = c->guided ? 0.7 : 0, .diversity = c->guided ? 0.4 : 0};
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_model *model = open_model(c, 0);
        attn_model_outputs out;
        attn_cross_entropy_loss loss;
        attn_error err = {0};
        if (attn_model_forward(model, &batch, &(attn_forward_options){.keep = ATTN_KEEP_WEIGHTS},
                               arena, NULL, NULL, &out, &err))
            fail_msg("%s: %s: %s", name_of(c), err.where, err.text);
        sites_close(c, model, &out);
        if (c->name)
            close_to(c->name, "/logits", out.logits.data, B * T * TV);
        if (c->guided)
            looks_close(c, &out);
        if (attn_model_step(model, &batch, &options, arena, NULL, NULL, &loss, &err))
            fail_msg("%s: %s: %s", name_of(c), err.where, err.text);
        const float mean = (float)loss.loss;
        assert_int_equal(loss.rows, 12);
        if (c->name) {
            close_to(c->name, "/loss", &mean, 1);
            gradients_close(c, model);
        }
        attn_model_free(model);
        attn_arena_free(arena);
    }
    (void)state;
}

/* The values of a parameter of the model. */
static const float *values_of(attn_model *model, const char *name) {
    const attn_parameters *set = attn_model_parameters(model);
    const size_t count = attn_parameters_length(set);
    size_t i = 0;
    while (i < count && strcmp(attn_parameters_at(set, i)->name, name) != 0)
        i++;
    assert_true(i < count);
    return attn_parameters_value(set, i).data;
}

/* The logits are the projection of the last state, summed here in double. */
static void projection_close(attn_model *model, const float *state, const float *logits) {
    const size_t D = attn_model_configuration(model)->width;
    const float *w = values_of(model, "output_projection.weight");
    const float *bias = values_of(model, "output_projection.bias");
    for (size_t row = 0; row < B * T; row++)
        for (size_t v = 0; v < TV; v++) {
            double sum = bias[v];
            for (size_t d = 0; d < D; d++)
                sum += (double)state[row * D + d] * w[v * D + d];
            assert_float_equal(logits[row * TV + v], sum, 1e-5);
        }
}

/* The states of a pass are those of the list, the source's before the target's; the last one of
 * the source is the output of the encoder, and the last one of the target makes the logits. */
static void test_states(void **state) {
    for (size_t i = 0; i < CASES; i++) {
        const attn_batch batch = batch_of();
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_model *model = open_model(&cases[i], 0.1);
        const size_t D = attn_model_configuration(model)->width;
        attn_model_outputs out;
        size_t count;
        const attn_model_state *listed = attn_model_states(model, &count);
        const float *last[2] = {NULL, NULL};
        assert_int_equal(attn_model_forward(model, &batch, &(attn_forward_options){0}, arena, NULL,
                                            NULL, &out, NULL),
                         ATTN_OK);
        assert_int_equal(out.state_count, 0);
        assert_int_equal(attn_model_forward(model, &batch,
                                            &(attn_forward_options){.keep = ATTN_KEEP_STATES},
                                            arena, NULL, NULL, &out, NULL),
                         ATTN_OK);
        assert_int_equal(out.site_count, 0);
        assert_int_equal(count, out.state_count);
        for (size_t k = 0; k < out.state_count; k++) {
            const attn_model_state *s = &out.states[k];
            assert_int_equal(s->side, listed[k].side);
            assert_int_equal(s->step, listed[k].step);
            assert_int_equal(s->has_layer, listed[k].has_layer);
            assert_int_equal(s->layer, listed[k].layer);
            assert_null(listed[k].values);
            assert_non_null(s->values);
            assert_true(s->side == ATTN_SIDE_TARGET || !last[ATTN_SIDE_TARGET]);
            for (size_t e = 0;
                 k && s->side == s[-1].side && e < D && s->values[e] == s[-1].values[e]; e++)
                assert_true(e + 1 < D); /* a step changes its input */
            last[s->side] = s->values;
        }
        assert_memory_equal(last[ATTN_SIDE_SOURCE], out.encoder.data, B * S * D * sizeof(float));
        projection_close(model, last[ATTN_SIDE_TARGET], out.logits.data);
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
            fail_msg("%s: differences %.6g, gradient %.6g (norm %.3g)", name_of(&cases[i]), found,
                     said, sqrt(norm));
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

/* The loss of a step with both rates of dropout. If `silent`, the output projections of attention
 * layers are 0, so that nothing that happens to weights can reach the loss. */
static double loss_of(const model_case *c, double dropout, double attention_dropout, bool silent) {
    attn_model_config config = config_of(c, dropout);
    const attn_batch batch = batch_of();
    const attn_step_options options = {.seed = 5};
    attn_model *model = NULL;
    attn_cross_entropy_loss loss;
    attn_arena *arena = attn_arena_new(LIMIT);
    config.attention_dropout_p = attention_dropout;
    assert_int_equal(attn_model_new(&config, 1, true, &model, NULL), ATTN_OK);
    attn_parameters *set = attn_model_parameters(model);
    for (size_t i = 0; silent && i < attn_parameters_length(set); i++) {
        const attn_parameter *p = attn_parameters_at(set, i);
        if (strstr(p->name, "W_o.weight") || strstr(p->name, "out_proj.weight"))
            memset(attn_parameters_values(set) + p->offset, 0, p->count * sizeof(float));
    }
    assert_int_equal(attn_model_step(model, &batch, &options, arena, NULL, NULL, &loss, NULL),
                     ATTN_OK);
    attn_arena_free(arena);
    attn_model_free(model);
    return loss.loss;
}

/* attention_dropout_p drops attention weights and nothing else; NaN is the rate of dropout_p. */
static void test_attention_dropout(void **state) {
    for (size_t i = 0; i < CASES; i++) {
        const model_case *c = &cases[i];
        const bool drops = c->attention != ATTN_MODEL_NONE;
        const double plain = loss_of(c, 0, 0, false), half = loss_of(c, 0, 0.5, false);
        if ((plain != half) != drops)
            fail_msg("%s: %.17g without dropout, %.17g with that of weights", name_of(c), plain,
                     half);
        assert_true(loss_of(c, 0, 0, true) == loss_of(c, 0, 0.5, true));
        assert_true(loss_of(c, 0.3, (double)NAN, false) == loss_of(c, 0.3, 0.3, false));
        assert_true(loss_of(c, 0.3, 0, false) != plain);
    }
    (void)state;
}

/* --- sizes and refusals --- */

static void test_counts(void **state) {
    attn_model_config config = attn_model_defaults();
    config.source_vocabulary = 10000;
    config.target_vocabulary = 8000;
    config.width = 256;
    config.num_heads = 8;
    config.num_layers = 2;
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

/* A model has as many layers as its configuration asks for. */
static void test_deep(void **state) {
    const attn_batch batch = batch_of();
    attn_model_config config = config_of(&cases[CASES - 1], 0);
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_model *model;
    attn_model_outputs out;
    size_t count;
    config.architecture = ATTN_MODEL_TRANSFORMER;
    config.num_layers = 13;
    assert_int_equal(attn_model_new(&config, 1, false, &model, NULL), ATTN_OK);
    attn_model_states(model, &count);
    assert_int_equal(
        attn_model_forward(model, &batch,
                           &(attn_forward_options){.keep = ATTN_KEEP_STATES | ATTN_KEEP_WEIGHTS},
                           arena, NULL, NULL, &out, NULL),
        ATTN_OK);
    assert_int_equal(out.state_count, count);
    assert_int_equal(out.site_count, 3 * 13);
    assert_int_equal(out.sites[out.site_count - 1].layer, 12);
    attn_model_free(model);
    attn_arena_free(arena);
    (void)state;
}

static void test_refusals(void **state) {
    REFUSES(source_vocabulary, 3);
    REFUSES(width, 9);
    REFUSES(width, 1 << 20);
    REFUSES(num_heads, 3);
    REFUSES(num_heads, 0);
    REFUSES(num_layers, 9);
    refuses((attn_model_config){.architecture = ATTN_MODEL_TRANSFORMER,
                                .source_vocabulary = 9,
                                .target_vocabulary = 9,
                                .width = 4,
                                .num_heads = 1,
                                .num_layers = 65},
            "num_layers");
    REFUSES(dropout_p, 1);
    REFUSES(attention_dropout_p, 1);
    REFUSES(attention_dropout_p, -0.5);
    REFUSES(embedding_std, -1);
    REFUSES(embedding_std, (double)NAN);
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
    assert_int_equal(attn_model_forward(model, &batch, &(attn_forward_options){0}, arena, NULL,
                                        NULL, &out, &err),
                     ATTN_EVALUE);
    assert_string_equal(err.where, "source_lengths/1");
    batch = batch_of();
    batch.target = target;
    assert_int_equal(attn_model_forward(model, &batch, &(attn_forward_options){0}, arena, NULL,
                                        NULL, &out, &err),
                     ATTN_EVALUE);
    assert_string_equal(err.where, "target/1/2");
    batch = batch_of();
    batch.S = 21;
    assert_int_equal(attn_model_forward(model, &batch, &(attn_forward_options){0}, arena, NULL,
                                        NULL, &out, &err),
                     ATTN_ELIMIT);
    attn_arena_set_limit(arena, 1000);
    batch = batch_of();
    assert_int_equal(attn_model_forward(model, &batch, &(attn_forward_options){0}, arena, NULL,
                                        NULL, &out, &err),
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
static void memory_fails(const model_case *c) {
    const attn_model_config config = config_of(c, 0.1);
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
}

static void test_memory_fails(void **state) {
    for (size_t i = 0; i < CASES; i++)
        if (i == 1 || cases[i].architecture == ATTN_MODEL_TRANSFORMER)
            memory_fails(&cases[i]);
    (void)state;
}

static void test_settings_have_names_and_defaults_in_range(void **state) {
    const attn_model_config standard = attn_model_defaults();
    for (const attn_model_setting *s = attn_model_settings; s->name; s++) {
        const char *at = (const char *)&standard + s->offset;
        if (s->kind == ATTN_SETTING_WORD)
            assert_string_equal(s->words[*(const int *)at], s->words[0]);
        else if (s->kind != ATTN_SETTING_FLAG && s->kind != ATTN_SETTING_LAYERS)
            assert_true(s->least < s->most);
    }
    assert_string_equal(attn_model_attentions[ATTN_MODEL_NONE], "none");
    assert_null(attn_model_attentions[ATTN_MODEL_ATTENTIONS]);
    assert_null(attn_model_position_names[ATTN_MODEL_POSITIONS]);
    assert_null(attn_model_architectures[ATTN_MODEL_ARCHITECTURES]);
    (void)state;
}

/* Runs the model with lengths and visible tokens, and returns its logits [B, T, TV]. */
static const float *logits_of(const attn_model *model, attn_batch batch, const int64_t *lengths,
                              const uint8_t *keep, attn_arena *arena, attn_model_outputs *out) {
    attn_error err = {0};
    batch.source_lengths = lengths;
    batch.source_keep = keep;
    if (attn_model_forward(model, &batch, &(attn_forward_options){.keep = ATTN_KEEP_WEIGHTS}, arena,
                           NULL, NULL, out, &err))
        fail_msg("%s: %s", err.where, err.text);
    return out->logits.data;
}

/* The end of each source hidden token by token is the end cut off, where no LSTM reads it. */
static void test_hidden_end(void **state) {
    uint8_t keep[B * S];
    int64_t whole[B], cut[B];
    for (size_t b = 0; b < B; b++) {
        whole[b] = S;
        cut[b] = 2 + (int64_t)b;
        for (size_t s = 0; s < S; s++)
            keep[b * S + s] = (int64_t)s < cut[b];
    }
    for (size_t i = 0; i < CASES; i++) {
        if (cases[i].architecture == ATTN_MODEL_SEQ2SEQ && !cases[i].read_padding)
            continue;
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_model *model = open_model(&cases[i], 0);
        attn_model_outputs out;
        const float *hidden = logits_of(model, batch_of(), whole, keep, arena, &out);
        const float *short_of = logits_of(model, batch_of(), cut, NULL, arena, &out);
        for (size_t k = 0; k < B * T * TV; k++)
            assert_true(fabsf(hidden[k] - short_of[k]) < 1e-5f);
        attn_model_free(model);
        attn_arena_free(arena);
    }
    (void)state;
}

/* No attention looks at a hidden token, in a pass and in a search. */
static void test_hidden_token(void **state) {
    uint8_t keep[B * S];
    for (size_t k = 0; k < B * S; k++)
        keep[k] = k % S != 1;
    for (size_t i = 0; i < CASES; i++) {
        const attn_batch batch = batch_of();
        attn_generate_options options = {
            .beams = 2, .most = 4, .want_weights = true, .source_keep = keep};
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_model *model = open_model(&cases[i], 0);
        attn_model_outputs out;
        attn_generated made[B];
        logits_of(model, batch, batch.source_lengths, keep, arena, &out);
        for (size_t k = 0; k < out.site_count; k++) {
            const attn_tensor *w = &out.sites[k].weights;
            const size_t rows = w->dims[0] * w->dims[1] * w->dims[2];
            for (size_t r = 0; out.sites[k].kind != ATTN_SITE_DECODER && r < rows; r++)
                assert_true(((const float *)w->data)[r * w->dims[3] + 1] == 0);
        }
        assert_int_equal(attn_model_generate(model, batch.source, batch.source_lengths, B, S,
                                             &options, arena, NULL, NULL, made, NULL),
                         ATTN_OK);
        for (size_t b = 0; made[0].weights && b < B; b++)
            for (size_t r = 0; r < made[b].heads * (made[b].length + made[b].ended); r++)
                assert_true(made[b].weights[r * S + 1] == 0);
        attn_model_free(model);
        attn_arena_free(arena);
    }
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_attention_dropout),
        cmocka_unit_test(test_sites),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_settings_have_names_and_defaults_in_range),
        cmocka_unit_test(test_memory_fails),
        cmocka_unit_test(test_hidden_end),
        cmocka_unit_test(test_hidden_token),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, read_recorded, forget_recorded);
}
