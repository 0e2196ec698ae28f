/* Interventions, the logit lens and direct contributions in models that people know, beside hooks of
 * PyTorch (tests/tools/known_hooks). ATTN_KNOWN_MODEL names the folder of another model, which is then
 * the only one that is compared. */
#include "known_case.h"

/* The columns of run.N.items. */
enum { KIND, SITE, PART, LAYER, HEAD, SEQUENCE, POSITION, FROM, FROM_COUNT, FROM_POSITION, FACTOR };
enum { COLUMNS = FACTOR + 1, ITEMS = 4, PLACES = 8 };

/* A model, its batch, and what hooks say of it. */
typedef struct hooked {
    const char *folder;
    attn_known_model known;
    expected says, given;
    attn_batch batch;
    int64_t lengths[16];
    attn_arena *arena;
} hooked;

static hooked open_hooked(const char *folder) {
    hooked h = {.folder = folder,
                .known = open_known(folder),
                .says = read_expected(folder, "hooks"),
                .given = read_expected(folder, "expected"),
                .arena = attn_arena_new(LIMIT)};
    return h;
}

static void close_hooked(hooked *h) {
    attn_arena_free(h->arena);
    forget(&h->says);
    forget(&h->given);
    attn_known_close(&h->known);
}

/* Sets the batch of a model, whose lengths must stay where they are. */
static void set_batch(hooked *h) {
    h->batch = batch_of(&h->given, attn_model_configuration(h->known.model), h->lengths);
    if (!h->batch.source)
        h->batch.target_lengths = h->lengths;
}

static attn_model_outputs run(const hooked *h, const attn_forward_options *options) {
    attn_model_outputs out;
    attn_error err = {0};
    if (attn_model_forward(h->known.model, &h->batch, options, h->arena, NULL, NULL, &out, &err))
        fail_msg("%s: %s: %s", h->folder, err.where, err.text);
    return out;
}

static size_t number(int32_t x) {
    return x < 0 ? ATTN_EVERY : (size_t)x;
}

static size_t read_items(const attn_tensor *of, attn_intervention *items) {
    const size_t count = of->dims[0];
    assert_int_equal(of->dims[1], COLUMNS);
    assert_true(count <= ITEMS);
    for (size_t i = 0; i < count; i++) {
        const int32_t *x = (const int32_t *)of->data + i * COLUMNS;
        items[i] = (attn_intervention){.kind = (attn_intervention_kind)x[KIND],
                                       .site = (attn_site_kind)x[SITE],
                                       .part = (attn_stream_part)x[PART],
                                       .layer = number(x[LAYER]),
                                       .head = number(x[HEAD]),
                                       .sequence = number(x[SEQUENCE]),
                                       .position = number(x[POSITION]),
                                       .from = number(x[FROM]),
                                       .from_count = number(x[FROM_COUNT]),
                                       .from_position = number(x[FROM_POSITION]),
                                       .factor = x[FACTOR] / 1000.0};
    }
    return count;
}

/* Compares n numbers: their error is at most 1e-5 of the largest one, or `least`. */
static void near_or(const hooked *h, const char *what, const float *found, const float *want,
                    size_t n, double least) {
    double most = 0, error = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)want[i]));
        error = fmax(error, isfinite(found[i]) && isfinite(want[i])
                                ? fabs((double)found[i] - (double)want[i])
                                : (double)INFINITY);
    }
    if (getenv("ATTN_KNOWN_REPORT"))
        printf("%s %s %.3g\n", h->folder, what, error / most);
    if (!(error <= fmax(1e-5 * most, least)))
        fail_msg("%s: %s differs by %.3g of %.3g", h->folder, what, error, most);
}

static void near(const hooked *h, const char *what, const float *found, const float *want,
                 size_t n) {
    near_or(h, what, found, want, n, 0);
}

/* Returns 1.25 times the error of the logits of transformers in float32. */
static double own_error(const hooked *h) {
    const attn_tensor *single = find(&h->given, "error.logits");
    return single ? 1.25 * (double)*(const float *)single->data : 0;
}

/* The answers to each list of interventions, which differ from those without it. Their error may also
 * be 1.25 times that of transformers in float32. */
static void check_runs(hooked *h) {
    const attn_model_outputs plain = run(h, &(attn_forward_options){0});
    const bool headless = !plain.logits.rank;
    const float *before = headless ? plain.encoder.data : plain.logits.data;
    const double least = own_error(h);
    char name[32];
    size_t count = 0, n;
    for (;; count++) {
        attn_intervention items[ITEMS];
        snprintf(name, sizeof name, "run.%zu.items", count);
        if (!find(&h->says, name))
            break;
        const attn_forward_options options = {
            .interventions = items, .intervention_count = read_items(find(&h->says, name), items)};
        const attn_model_outputs out = run(h, &options);
        snprintf(name, sizeof name, "run.%zu.out", count);
        assert_true(attn_tensor_count(find(&h->says, name), &n));
        const float *found = headless ? out.encoder.data : out.logits.data;
        near_or(h, name, found, find(&h->says, name)->data, n, least);
        assert_memory_not_equal(found, before, n * sizeof *found);
    }
    assert_true(count >= 7);
}

static size_t read_places(const attn_tensor *of, attn_place *places) {
    for (size_t i = 0; i < of->dims[0]; i++) {
        const int32_t *x = (const int32_t *)of->data + 2 * i;
        places[i] = (attn_place){(size_t)x[0], (size_t)x[1]};
    }
    return of->dims[0];
}

/* Compares the lens, with all tokens at each place and layer, and with a wanted one. */
static void check_lens(hooked *h, const attn_activations *activations) {
    const attn_tensor *want = find(&h->says, "lens");
    const size_t layers = want->dims[1], V = want->dims[2];
    int32_t ids[PLACES];
    attn_lens lens;
    attn_error err = {0};
    const attn_model_cost cost =
        attn_model_lens_cost(h->known.model, want->dims[0], ATTN_ALTERNATIVES_MOST);
    attn_arena *arena = attn_arena_new((size_t)cost.bytes);
    for (size_t i = 0; i < want->dims[0]; i++)
        ids[i] = (int32_t)(5 * i + 1);
    if (attn_model_lens(activations, ATTN_ALTERNATIVES_MOST, ids, arena, NULL, &lens, &err))
        fail_msg("%s: %s: %s", h->folder, err.where, err.text);
    assert_int_equal(lens.layers, layers);
    assert_int_equal(lens.places, want->dims[0]);
    for (size_t i = 0; i < lens.places * layers; i++) {
        float found[ATTN_ALTERNATIVES_MOST];
        const float *row = (const float *)want->data + i * V;
        const size_t id = (size_t)ids[i / layers];
        size_t rank = 0;
        assert_int_equal(lens.top[i].count, V);
        for (size_t k = 0; k < V; k++) {
            found[lens.top[i].ids[k]] = (float)lens.top[i].log_probabilities[k];
            assert_true(!k ||
                        lens.top[i].log_probabilities[k] <= lens.top[i].log_probabilities[k - 1]);
            rank += row[k] > row[id];
        }
        near(h, "lens", found, row, V);
        assert_true(lens.log_probabilities[i] == (double)found[id] ||
                    fabs(lens.log_probabilities[i] - (double)found[id]) < 1e-5);
        assert_int_equal(lens.ranks[i], rank);
    }
    attn_arena_free(arena);
}

/* Lists contributions in the order of known_hooks. Returns their sum. */
static double list(const attn_model *model, const attn_contributions *c, float *to, size_t *count) {
    size_t sites, n = 0;
    const attn_site *site = attn_model_sites(model, &sites);
    double sum = c->embedding + c->bias + c->patched;
    to[n++] = (float)c->embedding;
    for (size_t i = 0; i < sites; i++)
        for (size_t k = 0; c->heads[i] && k < site[i].heads; k++, n++) {
            to[n] = (float)c->heads[i][k];
            sum += c->heads[i][k];
        }
    for (size_t i = 0; i < c->layers; i++, n++) {
        to[n] = (float)c->feed_forward[i];
        sum += c->feed_forward[i];
    }
    to[n++] = (float)c->bias;
    to[n++] = (float)c->logit;
    *count = n;
    return sum;
}

static void check_contributions(hooked *h, const attn_model_outputs *out,
                                const attn_place *places) {
    const attn_tensor *of = find(&h->says, "wanted");
    attn_wanted_logit wanted[PLACES];
    attn_contributions found[PLACES];
    attn_error err = {0};
    const attn_model_cost cost = attn_model_contributions_cost(h->known.model, of->dims[0]);
    attn_arena *arena = attn_arena_new((size_t)cost.bytes);
    for (size_t i = 0; i < of->dims[0]; i++)
        wanted[i] = (attn_wanted_logit){(size_t)((const int32_t *)of->data)[2 * i],
                                        ((const int32_t *)of->data)[2 * i + 1]};
    if (attn_model_contributions(out->activations, wanted, of->dims[0], arena, NULL, found, &err))
        fail_msg("%s: %s: %s", h->folder, err.where, err.text);
    for (size_t i = 0; i < of->dims[0]; i++) {
        char name[32];
        float all[256];
        size_t n, T = out->logits.dims[1], V = out->logits.dims[2];
        const attn_place *p = &places[wanted[i].place];
        const double sum = list(h->known.model, &found[i], all, &n);
        const double logit =
            (double)((const float *)out->logits
                         .data)[(p->sequence * T + p->position) * V + (size_t)wanted[i].id];
        double most = fabs(logit);
        snprintf(name, sizeof name, "contributions.%zu", i);
        assert_int_equal(find(&h->says, name)->dims[0], n);
        near_or(h, name, all, find(&h->says, name)->data, n, own_error(h));
        for (size_t k = 0; k < n; k++)
            most = fmax(most, fabs((double)all[k]));
        assert_true(fabs(sum - logit) <= 1e-5 * most);
        assert_true(fabs(sum - found[i].logit) <= 1e-5 * most);
    }
    attn_arena_free(arena);
}

/* Everything after a patch of all tokens is that of the reference, wherever the patch is; only what was
 * patched contributes, and what comes after it. */
static void check_whole_patches(hooked *h) {
    const attn_model_config *c = attn_model_configuration(h->known.model);
    if (attn_model_has_encoder(c))
        return;
    const attn_place place = {0, 3};
    const attn_model_outputs plain = run(h, &(attn_forward_options){0});
    const size_t T = plain.logits.dims[1], V = plain.logits.dims[2];
    const float *want = (const float *)plain.logits.data + T * V;
    for (int part = ATTN_STREAM_INPUT; part <= ATTN_STREAM_FEED_FORWARD; part++) {
        const attn_intervention patch = {.kind = ATTN_PATCH_STREAM,
                                         .site = ATTN_SITE_DECODER,
                                         .part = (attn_stream_part)part,
                                         .layer = part ? 1 : 0,
                                         .position = ATTN_EVERY,
                                         .from = 1,
                                         .from_position = ATTN_EVERY};
        /* what follows attention reads the stream before it if both stand side by side */
        if (part == ATTN_STREAM_CROSS_ATTENTION || (c->parallel && part && part < 3))
            continue;
        attn_contributions found;
        attn_error err = {0};
        float all[256];
        size_t n;
        const attn_model_outputs out = run(h, &(attn_forward_options){.interventions = &patch,
                                                                      .intervention_count = 1,
                                                                      .places = &place,
                                                                      .place_count = 1});
        if (part == ATTN_STREAM_FEED_FORWARD) /* then no later layer reads keys of padding */
            near(h, "patch", out.logits.data, want, T * V);
        near(h, "patch", out.logits.data, want, 6 * V);
        assert_int_equal(attn_model_contributions(out.activations,
                                                  &(attn_wanted_logit){.place = 0, .id = 5}, 1,
                                                  h->arena, NULL, &found, &err),
                         ATTN_OK);
        const double sum = list(h->known.model, &found, all, &n);
        assert_true(found.patched != 0 && found.embedding == 0);
        assert_true(fabs(sum - found.logit) <= 1e-5 * (fabs(found.patched) + fabs(found.logit)));
    }
}

static void check_model(const char *folder) {
    hooked h = open_hooked(folder);
    set_batch(&h);
    check_runs(&h);
    if (find(&h.says, "places")) {
        attn_place places[PLACES];
        const attn_forward_options options = {
            .places = places, .place_count = read_places(find(&h.says, "places"), places)};
        const attn_model_outputs out = run(&h, &options);
        check_lens(&h, out.activations);
        if (find(&h.says, "wanted"))
            check_contributions(&h, &out, places);
        check_whole_patches(&h);
    }
    close_hooked(&h);
}

static void test_beside_hooks(void **state) {
    const char *one = getenv("ATTN_KNOWN_MODEL");
    DIR *dir = opendir(MODELS);
    size_t count = 0;
    char path[1024];
    if (!dir)
        fail_msg(MODELS " cannot be read");
    if (one)
        check_model(one);
    for (const struct dirent *entry; !one && (entry = readdir(dir));) {
        snprintf(path, sizeof path, MODELS "/%s/hooks.safetensors", entry->d_name);
        if (entry->d_name[0] == '.' || access(path, F_OK))
            continue;
        snprintf(path, sizeof path, MODELS "/%s", entry->d_name);
        check_model(path);
        count++;
    }
    closedir(dir);
    assert_true(one || count > 20);
    (void)state;
}

/* --- what is refused --- */

static void refused(const hooked *h, attn_forward_options options, attn_status code,
                    const char *where) {
    attn_model_outputs out;
    attn_error err = {0};
    const attn_status found =
        attn_model_forward(h->known.model, &h->batch, &options, h->arena, NULL, NULL, &out, &err);
    if (found != code || strcmp(err.where, where))
        fail_msg("expected %d at %s, found %d at %s: %s", (int)code, where, (int)found, err.where,
                 err.text);
}

static void test_refusals(void **state) {
    static const struct {
        attn_intervention item;
        attn_status code;
        const char *where;
    } wrong[] = {
        {{.kind = 99}, ATTN_EARG, "kind"},
        {{.site = ATTN_SITE_ENCODER}, ATTN_EARG, "site"},
        {{.site = ATTN_SITE_CROSS}, ATTN_EARG, "site"},
        {{.site = 7}, ATTN_EARG, "site"},
        {{.site = ATTN_SITE_DECODER, .layer = 2}, ATTN_EVALUE, "layer"},
        {{.site = ATTN_SITE_DECODER, .layer = ATTN_EVERY}, ATTN_EVALUE, "layer"},
        {{.site = ATTN_SITE_DECODER, .head = 2}, ATTN_EVALUE, "head"},
        {{.site = ATTN_SITE_DECODER, .sequence = 2}, ATTN_EVALUE, "sequence"},
        {{.site = ATTN_SITE_DECODER, .position = 9}, ATTN_EVALUE, "position"},
        {{.kind = ATTN_SCALE_HEAD, .site = ATTN_SITE_DECODER, .factor = NAN},
         ATTN_EVALUE,
         "factor"},
        {{.kind = ATTN_ABLATE_MEAN, .site = ATTN_SITE_DECODER, .from = 2, .from_count = 1},
         ATTN_EVALUE,
         "from"},
        {{.kind = ATTN_ABLATE_MEAN, .site = ATTN_SITE_DECODER, .from = 1, .from_count = 2},
         ATTN_EVALUE,
         "from_count"},
        {{.kind = ATTN_PATCH_HEAD, .site = ATTN_SITE_DECODER, .from = 2}, ATTN_EVALUE, "from"},
        {{.kind = ATTN_PATCH_HEAD, .site = ATTN_SITE_DECODER, .from_position = 9},
         ATTN_EVALUE,
         "from_position"},
        {{.kind = ATTN_PATCH_STREAM, .site = ATTN_SITE_ENCODER}, ATTN_EARG, "site"},
        {{.kind = ATTN_PATCH_STREAM, .site = ATTN_SITE_CROSS}, ATTN_EARG, "site"},
        {{.kind = ATTN_PATCH_STREAM, .site = ATTN_SITE_DECODER, .part = 9}, ATTN_EARG, "part"},
        {{.kind = ATTN_PATCH_STREAM,
          .site = ATTN_SITE_DECODER,
          .part = ATTN_STREAM_CROSS_ATTENTION},
         ATTN_EARG,
         "part"},
        {{.kind = ATTN_PATCH_STREAM,
          .site = ATTN_SITE_DECODER,
          .part = ATTN_STREAM_FEED_FORWARD,
          .layer = 2},
         ATTN_EVALUE,
         "layer"},
    };
    hooked h = open_hooked(MODELS "/llama");
    set_batch(&h);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        attn_intervention items[2] = {{.site = ATTN_SITE_DECODER}, wrong[i].item};
        char where[64];
        snprintf(where, sizeof where, "interventions/1/%s", wrong[i].where);
        refused(&h, (attn_forward_options){.interventions = items, .intervention_count = 2},
                wrong[i].code, where);
    }
    attn_place places[2] = {{1, 8}, {0, 9}};
    attn_forward_options looks = {.places = places, .place_count = 2};
    refused(&h, looks, ATTN_EVALUE, "places/1/position");
    places[1] = (attn_place){2, 0};
    refused(&h, looks, ATTN_EVALUE, "places/1/sequence");
    places[1] = (attn_place){0, 0};
    looks.dropout_p = 0.1;
    refused(&h, looks, ATTN_EARG, "dropout_p");
    const attn_model_outputs out =
        run(&h, &(attn_forward_options){.places = places, .place_count = 1});
    const attn_wanted_logit beyond[] = {{1, 0}, {0, 37}};
    attn_contributions found;
    attn_lens lens;
    attn_error err = {0};
    assert_int_equal(
        attn_model_contributions(out.activations, beyond, 1, h.arena, NULL, &found, &err),
        ATTN_EVALUE);
    assert_string_equal(err.where, "wanted/0/place");
    assert_int_equal(
        attn_model_contributions(out.activations, beyond + 1, 1, h.arena, NULL, &found, &err),
        ATTN_EVALUE);
    assert_string_equal(err.where, "wanted/0/id");
    assert_int_equal(attn_model_lens(out.activations, ATTN_ALTERNATIVES_MOST + 1, NULL, h.arena,
                                     NULL, &lens, &err),
                     ATTN_EVALUE);
    assert_int_equal(
        attn_model_lens(out.activations, 1, (const int32_t[]){-1}, h.arena, NULL, &lens, &err),
        ATTN_EVALUE);
    close_hooked(&h);
    (void)state;
}

/* Models of our own: seq2seq has no residual stream but heads, and a pooled sequence has no logits of
 * tokens. Contributions and lens need logits that are sums. */
static void test_own_models(void **state) {
    static const int32_t ids[] = {4, 5, 6, 7};
    static const int64_t lengths[] = {4};
    static const attn_place place = {0, 1};
    static const attn_model_architecture kinds[] = {ATTN_MODEL_SEQ2SEQ, ATTN_MODEL_ENCODER,
                                                    ATTN_MODEL_ENCODER};
    const attn_intervention items[] = {
        {.site = ATTN_SITE_ENCODER, .sequence = ATTN_EVERY, .position = ATTN_EVERY},
        {.kind = ATTN_PATCH_STREAM, .site = ATTN_SITE_ENCODER}};
    for (int i = 0; i < 3; i++) {
        attn_model_config c = attn_model_defaults();
        attn_error err = {0};
        attn_model_outputs out[2];
        attn_contributions found;
        hooked h = {.arena = attn_arena_new(LIMIT)};
        c.architecture = kinds[i];
        c.head = i == 1 ? ATTN_MODEL_POOLED : i == 2 ? ATTN_MODEL_MASKED : ATTN_MODEL_TOKENS;
        c.source_vocabulary = c.target_vocabulary = 9;
        assert_int_equal(attn_model_new(&c, 1, false, &h.known.model, &err), ATTN_OK);
        h.batch = (attn_batch){
            .B = 1, .S = 4, .T = 4, .source = ids, .source_lengths = lengths, .target = ids};
        for (int k = 0; k < 2; k++)
            out[k] = run(&h, &(attn_forward_options){.interventions = items,
                                                     .intervention_count = (size_t)k});
        assert_memory_not_equal(out[0].logits.data, out[1].logits.data, 9 * sizeof(float));
        const attn_forward_options looks = {.places = &place, .place_count = 1};
        if (i < 2)
            refused(&h, looks, ATTN_EARG, "places");
        if (!i)
            refused(&h, (attn_forward_options){.interventions = items, .intervention_count = 2},
                    ATTN_EARG, "interventions/1/kind");
        if (i == 2) {
            assert_int_equal(attn_model_contributions(run(&h, &looks).activations,
                                                      &(attn_wanted_logit){0}, 1, h.arena, NULL,
                                                      &found, &err),
                             ATTN_EARG);
            assert_string_equal(err.where, "head");
        }
        attn_model_free(h.known.model);
        attn_arena_free(h.arena);
    }
    (void)state;
}

/* A search with interventions takes the tokens that whole passes with them would take. */
static void test_searches(void **state) {
    static const int32_t prompt[] = {5, 9, 17, 4};
    static const int64_t length = 4;
    enum { NEW = 6 };
    hooked h = open_hooked(MODELS "/llama");
    const attn_intervention items[] = {
        {.site = ATTN_SITE_DECODER, .head = 1, .sequence = ATTN_EVERY, .position = ATTN_EVERY},
        {.kind = ATTN_SCALE_HEAD,
         .site = ATTN_SITE_DECODER,
         .layer = 1,
         .sequence = ATTN_EVERY,
         .position = ATTN_EVERY,
         .factor = -3}};
    attn_generate_options options = attn_generate_defaults();
    attn_generated made[2];
    attn_error err = {0};
    const attn_model_config *c = attn_model_configuration(h.known.model);
    int32_t ids[1 + 4 + NEW] = {c->begin, 5, 9, 17, 4};
    options.most = NEW;
    for (int i = 0; i < 2; i++) {
        options.interventions = i ? items : NULL;
        options.intervention_count = i ? 2 : 0;
        if (attn_model_generate(h.known.model, prompt, &length, 1, 4, &options, h.arena, NULL, NULL,
                                &made[i], &err))
            fail_msg("%s: %s", err.where, err.text);
    }
    for (size_t t = 0; t < made[1].length; t++) {
        const attn_batch batch = {.B = 1, .T = 5 + t, .target = ids};
        const attn_forward_options pass = {
            .interventions = items, .intervention_count = 2, .last_logits = 1};
        attn_model_outputs out;
        if (attn_model_forward(h.known.model, &batch, &pass, h.arena, NULL, NULL, &out, &err))
            fail_msg("%s: %s", err.where, err.text);
        const float *z = out.logits.data;
        for (size_t v = 0; v < c->target_vocabulary; v++)
            if ((int32_t)v != c->pad && (int32_t)v != c->begin)
                assert_true(z[v] <= z[made[1].ids[t]]);
        ids[5 + t] = made[1].ids[t];
    }
    assert_true(made[0].length != made[1].length ||
                memcmp(made[0].ids, made[1].ids, made[0].length * sizeof *made[0].ids));
    attn_intervention mean = items[0];
    mean.kind = ATTN_ABLATE_MEAN;
    options.interventions = &mean;
    options.intervention_count = 1;
    assert_int_equal(attn_model_generate(h.known.model, prompt, &length, 1, 4, &options, h.arena,
                                         NULL, NULL, made, &err),
                     ATTN_EARG);
    assert_string_equal(err.where, "interventions/0/kind");
    close_hooked(&h);
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beside_hooks), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_own_models), cmocka_unit_test(test_searches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
