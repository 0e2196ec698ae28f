/* Models that people know beside transformers (tests/tools/known_models made their files): logits,
 * hidden states and attention weights of a small random model of each family, as a folder and, where
 * the family has one, as a GGUF file. ATTN_KNOWN_MODEL names
 * the folder of another model, which is then the only one that is compared. */
#include "known_case.h"

/* Compares numbers of the tokens that are no padding, keep [B, T], with those that transformers
 * computes in float64: the largest error is at most 1e-5 of the largest number, or 1.25 times that of
 * transformers in float32, which deep sums can make larger. With ATTN_KNOWN_REPORT a line says the
 * largest number, our error and that of transformers in float32. */
static void compare(const char *model, const expected *e, const char *what, const float *found,
                    const attn_tensor *keep) {
    size_t n;
    char name[80];
    snprintf(name, sizeof name, "error.%s", what);
    const attn_tensor *want = find(e, what), *single = find(e, name);
    assert_non_null(want);
    assert_non_null(single);
    double most = 0, error = 0;
    assert_true(attn_tensor_count(want, &n));
    const size_t inner = want->dims[want->rank - 1], T = want->dims[want->rank - 2];
    const size_t all = n / want->dims[0];
    const float *x = want->data;
    for (size_t i = 0; i < n; i++) {
        const size_t b = i / all, t = i / inner % T;
        if (keep && !((const int32_t *)keep->data)[b * T + t])
            continue;
        most = fmax(most, fabs((double)x[i]));
        error = fmax(error, fabs((double)x[i] - (double)found[i]));
        if (!isfinite(found[i]))
            error = INFINITY;
    }
    const double theirs = (double)*(const float *)single->data;
    const double bound = fmax(1e-5 * most, 1.25 * theirs);
    if (getenv("ATTN_KNOWN_REPORT"))
        printf("compared %s %.6g %.6g %.6g\n", what, most, error, theirs);
    if (!(error <= bound))
        fail_msg("%s: %s differs by %.3g of %.3g", model, what, error, most);
}

/* Compares the states of a stack with hidden_states of transformers: its embeddings, the outputs of
 * its layers, the last one after the last norm. */
static void compare_states(const char *model, const expected *e, const char *kind,
                           const attn_model_outputs *out, attn_model_side side,
                           const attn_tensor *keep) {
    char name[64];
    size_t last = 0;
    for (snprintf(name, sizeof name, "%s.states.0", kind); find(e, name); last++)
        snprintf(name, sizeof name, "%s.states.%zu", kind, last + 1);
    assert_true(--last > 0);
    for (size_t i = 0; i < out->state_count; i++) {
        const attn_model_state *s = &out->states[i], *next = s + 1;
        const bool more = i + 1 < out->state_count && next->side == side;
        const size_t number = !more ? last : s->has_layer ? s->layer + 1 : 0;
        const bool ends = s->has_layer ? !more || !next->has_layer || next->layer != s->layer
                                       : !more || next->has_layer;
        if (s->side != side || !ends || (more && number >= last))
            continue;
        snprintf(name, sizeof name, "%s.states.%zu", kind, number);
        compare(model, e, name, s->values, keep);
    }
}

static void compare_weights(const char *model, const expected *e, const char *kind,
                            const attn_model_outputs *out, attn_site_kind site,
                            const attn_tensor *keep) {
    char name[64];
    size_t count = 0;
    for (size_t i = 0; i < out->site_count; i++) {
        const attn_site *s = &out->sites[i];
        if (s->kind != site)
            continue;
        snprintf(name, sizeof name, "%s.%zu", kind, s->layer);
        const attn_tensor *want = find(e, name);
        assert_non_null(want);
        for (int a = 0; a < 4; a++)
            assert_int_equal(want->dims[a], s->weights.dims[a]);
        compare(model, e, name, s->weights.data, keep);
        count++;
    }
    assert_true(count > 0);
}

static void check_model(const char *folder) {
    attn_known_model known = open_known(folder);
    attn_error err = {0};
    attn_model_outputs out;
    int64_t lengths[16];
    const attn_forward_options options = {.keep = ATTN_KEEP_STATES | ATTN_KEEP_WEIGHTS};
    expected e = read_expected(folder, "expected");
    const attn_model_config *c = attn_model_configuration(known.model);
    const attn_batch batch = batch_of(&e, c, lengths);
    attn_arena *arena = attn_arena_new(LIMIT);
    if (attn_model_forward(known.model, &batch, &options, arena, NULL, NULL, &out, &err))
        fail_msg("%s: %s: %s", folder, err.where, err.text);
    const bool both = batch.source && batch.target;
    const attn_tensor *keep = find(&e, "keep");
    if (find(&e, "logits"))
        compare(folder, &e, "logits", out.logits.data, both ? NULL : keep);
    else
        assert_int_equal(out.logits.rank, 0);
    if (both) {
        compare_states(folder, &e, "encoder", &out, ATTN_SIDE_SOURCE, keep);
        compare_states(folder, &e, "decoder", &out, ATTN_SIDE_TARGET, NULL);
        compare_weights(folder, &e, "encoder.weights", &out, ATTN_SITE_ENCODER, keep);
        compare_weights(folder, &e, "decoder.weights", &out, ATTN_SITE_DECODER, NULL);
        compare_weights(folder, &e, "cross", &out, ATTN_SITE_CROSS, NULL);
    } else {
        compare_states(folder, &e, "stack", &out,
                       batch.source ? ATTN_SIDE_SOURCE : ATTN_SIDE_TARGET, keep);
        compare_weights(folder, &e, "stack.weights", &out,
                        batch.source ? ATTN_SITE_ENCODER : ATTN_SITE_DECODER, keep);
    }
    attn_arena_free(arena);
    forget(&e);
    attn_known_close(&known);
}

static void test_beside_transformers(void **state) {
    const char *one = getenv("ATTN_KNOWN_MODEL");
    DIR *dir = opendir(MODELS);
    size_t count = 0;
    char path[1024];
    if (!dir)
        fail_msg(MODELS " cannot be read");
    if (one)
        check_model(one);
    for (const struct dirent *entry; !one && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, MODELS "/%s", entry->d_name);
        check_model(path);
        count++;
    }
    closedir(dir);
    assert_true(one || count > 35);
    (void)state;
}

/* --- what is refused --- */

#define SOURCE MODELS "/llama"

static char *read_text(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be read", path);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(*size + 1, 1);
    assert_int_equal(fread(text, 1, *size, file), *size);
    fclose(file);
    return text;
}

static void write_text(const char *folder, const char *name, const char *text, size_t size) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    fclose(file);
}

/* Writes a configuration in which the value of a key is another one; without `value` the key is gone,
 * and a key that the configuration lacks is added. */
static void write_config(const char *folder, const char *key, const char *value) {
    size_t size;
    char *text = read_text(SOURCE "/config.json", &size), quoted[80], made[4096];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(text, quoted), *end = at;
    while (at && *end != ',' && *end != '}')
        end++;
    if (at && *end == '}')
        at--; /* the comma before the last key */
    else if (at)
        end++;
    snprintf(made, sizeof made, "{%s%s%s%.*s%s", value ? quoted : "", value ? value : "",
             value ? "," : "", at ? (int)(at - text - 1) : 0, text + 1, at ? end : text + 1);
    write_text(folder, "config.json", made, strlen(made));
    free(text);
}

static void refused(const char *path, attn_status code, const char *where) {
    attn_known_model known = {0};
    attn_error err = {0};
    const attn_status found = attn_known_open(path, &known, &err);
    if (found != code || !strstr(err.where, where))
        fail_msg("expected %d at %s, found %d at %s: %s", (int)code, where, (int)found, err.where,
                 err.text);
    assert_null(known.model);
}

/* Each change of a configuration is refused by the name of the key or of the tensor. */
static void test_configurations(void **state) {
    static const struct {
        const char *key, *value;
        attn_status code;
        const char *where;
    } changes[] = {
        {"model_type", "\"mamba\"", ATTN_EUNSUPPORTED, "model_type"},
        {"model_type", "7", ATTN_EARG, "model_type"},
        {"attention_sinks", "4", ATTN_EUNSUPPORTED, "attention_sinks"},
        {"hidden_act", "\"quick_gelu\"", ATTN_EUNSUPPORTED, "hidden_act"},
        {"hidden_act", "[1]", ATTN_EUNSUPPORTED, "hidden_act"},
        {"pretraining_tp", "2", ATTN_EUNSUPPORTED, "pretraining_tp"},
        {"is_decoder", "true", ATTN_EUNSUPPORTED, "is_decoder"},
        {"rope_scaling", "{\"rope_type\":\"new\"}", ATTN_EUNSUPPORTED, "rope_type"},
        {"rope_scaling", "{\"rope_type\":\"linear\",\"twist\":1}", ATTN_EUNSUPPORTED, "twist"},
        {"rope_scaling", "3", ATTN_EARG, "rope_scaling"},
        {"layer_types", "[\"full_attention\",\"linear_attention\"]", ATTN_EUNSUPPORTED,
         "layer_types"},
        {"layer_types", "[\"full_attention\"]", ATTN_EARG, "layer_types"},
        {"sliding_window", "1e300", ATTN_EARG, "sliding_window"},
        {"num_hidden_layers", "3", ATTN_EARG, "model.layers.2."},
        {"num_hidden_layers", "1", ATTN_EARG, "model.layers.1."},
        {"num_hidden_layers", "1000000000", ATTN_EARG, "num_layers"},
        {"num_hidden_layers", "1e18", ATTN_EUNSUPPORTED, "num_hidden_layers"},
        {"num_hidden_layers", "-1", ATTN_EUNSUPPORTED, "num_hidden_layers"},
        {"num_attention_heads", "0", ATTN_EARG, "num_heads"},
        {"hidden_size", "1000000000", ATTN_EARG, "width"},
        {"hidden_size", NULL, ATTN_EARG, "hidden_size"},
        {"intermediate_size", "16", ATTN_ESHAPE, "mlp."},
        {"vocab_size", "38", ATTN_ESHAPE, "embed_tokens"},
        {"head_dim", "2", ATTN_ESHAPE, "self_attn."},
        {"rms_norm_eps", "-1", ATTN_EARG, "norm_epsilon"},
    };
    char folder[] = "/tmp/attnd-known-XXXXXX", path[1024];
    size_t size;
    char *weights = read_text(SOURCE "/model.safetensors", &size);
    assert_non_null(mkdtemp(folder));
    write_text(folder, "model.safetensors", weights, size);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        write_config(folder, changes[i].key, changes[i].value);
        refused(folder, changes[i].code, changes[i].where);
    }
    write_text(folder, "config.json", "[]", 2);
    refused(folder, ATTN_EARG, "config.json");
    write_text(folder, "config.json", "{", 1);
    refused(folder, ATTN_EARG, "config.json");
    write_config(folder, "use_cache", "true");
    for (size_t cut = 0; cut < size; cut += 1 + size / 9) {
        write_text(folder, "model.safetensors", weights, cut);
        refused(folder, ATTN_EARG, "model.safetensors");
    }
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    refused(folder, ATTN_EARG, "model.safetensors");
    write_text(folder, "pytorch_model.bin", "x", 1);
    refused(folder, ATTN_EUNSUPPORTED, "pytorch_model.bin");
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i ? "config.json" : "pytorch_model.bin");
        unlink(path);
    }
    refused(folder, ATTN_EARG, "config.json");
    rmdir(folder);
    free(weights);
    (void)state;
}

/* A GGUF file that ends early is refused, wherever it ends. */
static void test_cut_gguf(void **state) {
    char folder[] = "/tmp/attnd-known-XXXXXX", path[1024];
    size_t size;
    char *bytes = read_text(SOURCE "-gguf/model.gguf", &size);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    for (size_t cut = 1; cut < size - 64; cut += 1 + size / 37) {
        write_text(folder, "model.gguf", bytes, cut);
        refused(path, ATTN_EARG, "model.gguf");
    }
    unlink(path);
    rmdir(folder);
    free(bytes);
    (void)state;
}

/* Names in GGUF files that nobody knows are refused by name: of an architecture, of a key, of a
 * tensor. */
static void test_foreign_gguf(void **state) {
    static const struct {
        const char *from, *to;
        attn_status code;
        const char *where;
    } changes[] = {
        {"llama", "mamba", ATTN_EUNSUPPORTED, "general.architecture"},
        {"llama.rope.freq_base", "llama.rope.dual_base", ATTN_EUNSUPPORTED, "rope.dual_base"},
        {"llama.embedding_length", "other.embedding_length", ATTN_EARG, "embedding_length"},
        {"blk.1.ffn_up.weight", "blk.1.ffn_ip.weight", ATTN_EARG, "blk.1.ffn_up.weight"},
        {"blk.0.attn_q.weight", "blk.7.attn_q.weight", ATTN_EARG, "blk.0.attn_q.weight"},
    };
    char folder[] = "/tmp/attnd-known-XXXXXX", path[1024];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        size_t size, found = 0;
        char *bytes = read_text(SOURCE "-gguf/model.gguf", &size);
        const size_t n = strlen(changes[i].from);
        for (size_t at = 0; at + n <= size; at++)
            if (!memcmp(bytes + at, changes[i].from, n)) {
                memcpy(bytes + at, changes[i].to, n);
                found++;
            }
        assert_true(found > 0);
        write_text(folder, "model.gguf", bytes, size);
        refused(path, changes[i].code, changes[i].where);
        free(bytes);
    }
    unlink(path);
    rmdir(folder);
    (void)state;
}

/* A model in shards is the model in one file. */
static void test_shards(void **state) {
    static const char index[] = "{\"weight_map\":{";
    char folder[] = "/tmp/attnd-known-XXXXXX", path[1024], text[8192];
    size_t size, used;
    char *weights = read_text(SOURCE "/model.safetensors", &size);
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_safetensors all;
    attn_known_model known;
    attn_error err = {0};
    assert_non_null(mkdtemp(folder));
    write_config(folder, "use_cache", "true");
    assert_int_equal(attn_safetensors_read(weights, size, arena, &all, NULL), ATTN_OK);
    used = (size_t)snprintf(text, sizeof text, "%s", index);
    for (size_t shard = 0; shard < 2; shard++) {
        attn_safetensors part = {.tensors = all.tensors + shard * (all.count / 2),
                                 .count = shard ? all.count - all.count / 2 : all.count / 2};
        char name[32];
        const void *header;
        size_t n, count;
        snprintf(name, sizeof name, "part-%zu.safetensors", shard);
        assert_int_equal(attn_safetensors_header(&part, arena, &header, &n, NULL), ATTN_OK);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(header, 1, n, file), n);
        for (size_t i = 0; i < part.count; i++) {
            assert_true(attn_tensor_count(&part.tensors[i].tensor, &count));
            assert_int_equal(fwrite(part.tensors[i].tensor.data, sizeof(float), count, file),
                             count);
            used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\":\"%s\"",
                                     shard || i ? "," : "", part.tensors[i].name, name);
        }
        fclose(file);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "}}");
    write_text(folder, "model.safetensors.index.json", text, used);
    if (attn_known_open(folder, &known, &err))
        fail_msg("%s: %s", err.where, err.text);
    assert_string_equal(known.family, "llama");
    attn_known_close(&known);
    snprintf(path, sizeof path, "%s/part-1.safetensors", folder);
    unlink(path);
    refused(folder, ATTN_EARG, "part-1");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"part-0.safetensors", "config.json",
                                            "model.safetensors.index.json"};
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
    attn_arena_free(arena);
    free(weights);
    (void)state;
}

static size_t takes_left;
static void *failing_take(size_t size) {
    return takes_left && takes_left-- ? attn_block_take(size) : NULL;
}

/* Whichever allocation fails, opening a model is an error. */
static void test_memory_fails(void **state) {
    static const char *const paths[] = {SOURCE, SOURCE "-gguf/model.gguf"};
    for (int i = 0; i < 2; i++) {
        attn_status status = ATTN_ENOMEM;
        size_t n = 0;
        for (; status == ATTN_ENOMEM; n++) {
            attn_known_model known = {0};
            attn_error err;
            takes_left = n;
            attn_set_allocator(failing_take, attn_block_give);
            status = attn_known_open(paths[i], &known, &err);
            attn_known_close(&known);
            attn_set_allocator(NULL, NULL);
        }
        assert_int_equal(status, ATTN_OK);
        assert_true(n > 5);
    }
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_beside_transformers),
                                       cmocka_unit_test(test_configurations),
                                       cmocka_unit_test(test_cut_gguf),
                                       cmocka_unit_test(test_foreign_gguf),
                                       cmocka_unit_test(test_shards),
                                       cmocka_unit_test(test_memory_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
