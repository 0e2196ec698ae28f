/* Tensors of other layouts become models by a map of names: the state dict of
 * torch.nn.TransformerEncoder, GPT-2 and BERT. */
#include "model_parts_case.h"

#include <unistd.h>

/* The state dict of torch.nn.TransformerEncoder, between an embedding and logits. */
static const attn_parameter_name encoder_names[] = {
    {.theirs = "layers.*", .ours = "encoder.layers.*"},
    {.theirs = "norm.*", .ours = "encoder.norm.*"},
    {.theirs = "src_embedding.weight", .ours = "src_embedding.weight"},
    {.theirs = "pos_encoding.*", .ours = "pos_encoding.*"},
    {.theirs = "output_projection.*", .ours = "output_projection.*"},
    {0},
};
/* GPT-2 as Hugging Face has it: matrices are [in, out]. */
static const attn_parameter_name gpt2_names[] = {
    {.theirs = "transformer.wte.weight", .ours = "tgt_embedding.weight"},
    {.theirs = "transformer.wpe.weight", .ours = "pos_encoding.position_embeddings.weight"},
    {.theirs = "transformer.h.*.attn.c_attn.weight",
     .ours = "decoder.layers.*.self_attn.in_proj_weight",
     .transposed = true},
    {.theirs = "transformer.h.*.attn.c_attn.bias",
     .ours = "decoder.layers.*.self_attn.in_proj_bias"},
    {.theirs = "transformer.h.*.attn.c_proj.weight",
     .ours = "decoder.layers.*.self_attn.out_proj.weight",
     .transposed = true},
    {.theirs = "transformer.h.*.attn.c_proj.bias",
     .ours = "decoder.layers.*.self_attn.out_proj.bias"},
    {.theirs = "transformer.h.*.ln_1.weight", .ours = "decoder.layers.*.norm1.weight"},
    {.theirs = "transformer.h.*.ln_1.bias", .ours = "decoder.layers.*.norm1.bias"},
    {.theirs = "transformer.h.*.mlp.c_fc.weight",
     .ours = "decoder.layers.*.linear1.weight",
     .transposed = true},
    {.theirs = "transformer.h.*.mlp.c_fc.bias", .ours = "decoder.layers.*.linear1.bias"},
    {.theirs = "transformer.h.*.mlp.c_proj.weight",
     .ours = "decoder.layers.*.linear2.weight",
     .transposed = true},
    {.theirs = "transformer.h.*.mlp.c_proj.bias", .ours = "decoder.layers.*.linear2.bias"},
    {.theirs = "transformer.h.*.ln_2.weight", .ours = "decoder.layers.*.norm2.weight"},
    {.theirs = "transformer.h.*.ln_2.bias", .ours = "decoder.layers.*.norm2.bias"},
    {.theirs = "transformer.ln_f.weight", .ours = "decoder.norm.weight"},
    {.theirs = "transformer.ln_f.bias", .ours = "decoder.norm.bias"},
    {.theirs = "lm_head.weight"}, /* tied */
    {0},
};
/* BERT as Hugging Face has it: queries, keys and values have matrices of their own. */
#define PROJECTION(name, number)                                                                   \
    {.theirs = "bert.encoder.layer.*.attention.self." name ".weight",                              \
     .ours = "encoder.layers.*.self_attn.in_proj_weight",                                          \
     .part = number,                                                                               \
     .parts = 3},                                                                                  \
    {                                                                                              \
        .theirs = "bert.encoder.layer.*.attention.self." name ".bias",                             \
        .ours = "encoder.layers.*.self_attn.in_proj_bias", .part = number, .parts = 3              \
    }
#define LAYER(their, our)                                                                          \
    {.theirs = "bert.encoder.layer.*." their ".weight",                                            \
     .ours = "encoder.layers.*." our ".weight"},                                                   \
    {                                                                                              \
        .theirs = "bert.encoder.layer.*." their ".bias", .ours = "encoder.layers.*." our ".bias"   \
    }
static const attn_parameter_name bert_names[] = {
    {.theirs = "bert.embeddings.word_embeddings.weight", .ours = "src_embedding.weight"},
    {.theirs = "bert.embeddings.position_embeddings.weight",
     .ours = "pos_encoding.position_embeddings.weight"},
    {.theirs = "bert.embeddings.token_type_embeddings.weight", .ours = "seg_embedding.weight"},
    {.theirs = "bert.embeddings.LayerNorm.*", .ours = "src_embedding_norm.*"},
    PROJECTION("query", 0),
    PROJECTION("key", 1),
    PROJECTION("value", 2),
    LAYER("attention.output.dense", "self_attn.out_proj"),
    LAYER("attention.output.LayerNorm", "norm1"),
    LAYER("intermediate.dense", "linear1"),
    LAYER("output.dense", "linear2"),
    LAYER("output.LayerNorm", "norm2"),
    {.theirs = "bert.pooler.dense.*", .ours = "pooler.*"},
    {.theirs = "classifier.*", .ours = "output_projection.*"},
    {0},
};

/* Tensors in another layout. */
typedef struct foreign {
    attn_arena *arena;
    attn_safetensors file;
} foreign;

/* Puts `by` in the place of the star. */
static const char *without_star(attn_arena *arena, const char *pattern, const char *by) {
    char text[256];
    const size_t n = strcspn(pattern, "*");
    snprintf(text, sizeof text, "%.*s%s%s", (int)n, pattern, pattern[n] ? by : "",
             pattern[n] ? pattern + n + 1 : "");
    return attn_arena_text(arena, text, strlen(text));
}

/* Adds the tensor that the row makes of a parameter of ours, [rows, columns]. */
static void add_tensor(foreign *f, const attn_parameter_name *row, const char *star,
                       const attn_tensor *ours) {
    const size_t parts = row->parts ? row->parts : 1, rows = ours->dims[0] / parts,
                 columns = ours->rank > 1 ? ours->dims[1] : 1;
    const float *from = (const float *)ours->data + row->part * rows * columns;
    float *to = attn_arena_zeroed(f->arena, rows * columns, sizeof *to);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            to[row->transposed ? c * rows + r : r * columns + c] = from[r * columns + c];
    const size_t dims[] = {row->transposed ? columns : rows, row->transposed ? rows : columns};
    assert_true(f->file.count < NAMES);
    f->file.tensors[f->file.count++] =
        (attn_named_tensor){without_star(f->arena, row->theirs, star),
                            attn_tensor_dense(to, ATTN_F32, ours->rank, dims)};
}

/* Makes the tensors of a case in the layout of the map. */
static foreign foreign_of(const char *name, const attn_parameter_name *map, attn_arena *arena) {
    foreign f = {.arena = arena};
    char prefix[64];
    f.file.tensors = attn_arena_zeroed(arena, NAMES, sizeof *f.file.tensors);
    const int lead = snprintf(prefix, sizeof prefix, "%s/p/", name);
    for (const attn_parameter_name *row = map; row->theirs; row++)
        for (size_t i = 0; row->ours && i < torch_says.count; i++) {
            const char *full = torch_says.tensors[i].name, *own = full + lead;
            const size_t n = strcspn(row->ours, "*");
            const char *end = row->ours[n] ? row->ours + n + 1 : "";
            if (strncmp(full, prefix, (size_t)lead) || strncmp(own, row->ours, n) ||
                strlen(own) < n + strlen(end) || strcmp(own + strlen(own) - strlen(end), end) ||
                (!row->ours[n] && own[n]))
                continue;
            char star[128];
            snprintf(star, sizeof star, "%.*s", (int)(strlen(own) - n - strlen(end)), own + n);
            add_tensor(&f, row, star, &torch_says.tensors[i].tensor);
        }
    return f;
}

static void write_foreign(foreign *f, const char *path) {
    const void *header;
    size_t size, count;
    FILE *out = fopen(path, "wb");
    assert_int_equal(attn_safetensors_header(&f->file, f->arena, &header, &size, NULL), ATTN_OK);
    assert_int_equal(fwrite(header, 1, size, out), size);
    for (size_t i = 0; i < f->file.count; i++) {
        const attn_tensor *t = &f->file.tensors[i].tensor;
        assert_true(attn_tensor_count(t, &count));
        assert_int_equal(fwrite(t->data, sizeof(float), count, out), count);
    }
    assert_int_equal(fclose(out), 0);
}

static const part_case *case_of(const char *name) {
    size_t i = 0;
    while (strcmp(cases[i].name, name) != 0)
        i++;
    return &cases[i];
}

/* Loads the case from a file of the other layout, which gives the logits of PyTorch. */
static void loads_as(const char *name, const attn_parameter_name *map, const char *path) {
    const part_case *c = case_of(name);
    const attn_model_config config = config_of(c);
    const attn_batch batch = batch_of(c);
    attn_arena *arena = attn_arena_new(LIMIT);
    foreign f = foreign_of(name, map, arena);
    attn_model *model = NULL;
    attn_model_outputs out;
    attn_error err = {0};
    size_t count;
    write_foreign(&f, path);
    if (attn_model_import(path, &config, map, &model, &err))
        fail_msg("%s: %s: %s", name, err.where, err.text);
    forward(model, &batch, 0, arena, &out);
    assert_true(attn_tensor_count(&out.logits, &count));
    close_to(name, "logits", out.logits.data, count);
    attn_model_free(model);
    f.file.count--;
    write_foreign(&f, path);
    assert_int_equal(attn_model_import(path, &config, map, &model, &err), ATTN_EARG);
    assert_non_null(strstr(err.text, "missing"));
    attn_arena_free(arena);
}

static void test_other_layouts(void **state) {
    char path[] = "/tmp/attnd-parts-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    loads_as("encoder", encoder_names, path);
    loads_as("encoder_after", encoder_names, path);
    loads_as("bert", bert_names, path);
    loads_as("gpt2", gpt2_names, path);
    unlink(path);
    (void)state;
}

/* Rows of a map may take one tensor apart, too, and leave tensors out. */
static void test_a_packed_tensor_is_split(void **state) {
    static const attn_parameter_name map[] = {
        {.theirs = "both", .ours = "a.weight", .transposed = true, .part = 0, .parts = 2},
        {.theirs = "both", .ours = "b.weight", .transposed = true, .part = 1, .parts = 2},
        {.theirs = "more.*"},
        {0}};
    float both[3][4] = {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}};
    const char *names[] = {"both", "more.of.it", "other"};
    attn_tensor tensors[] = {attn_tensor_dense(both, ATTN_F32, 2, (size_t[]){3, 4}),
                             attn_tensor_dense(both, ATTN_F32, 1, (size_t[]){1}),
                             attn_tensor_dense(both, ATTN_F32, 1, (size_t[]){1})};
    attn_parameters *set = attn_parameters_new();
    attn_linear a, b;
    attn_error err = {0};
    attn_linear_declare(&a, set, "a", 3, 2, false);
    attn_linear_declare(&b, set, "b", 3, 2, false);
    assert_int_equal(attn_parameters_seal(set, false, NULL), ATTN_OK);
    assert_int_equal(attn_parameters_load(set, 2, names, tensors, map, &err), ATTN_OK);
    assert_memory_equal(a.weight.value, ((float[]){0, 4, 8, 1, 5, 9}), 6 * sizeof(float));
    assert_memory_equal(b.weight.value, ((float[]){2, 6, 10, 3, 7, 11}), 6 * sizeof(float));
    assert_int_equal(attn_parameters_load(set, 3, names, tensors, map, &err), ATTN_EARG);
    assert_string_equal(err.where, "other");
    assert_int_equal(attn_parameters_load(set, 1, names, tensors, map + 1, &err), ATTN_EARG);
    assert_string_equal(err.where, "a.weight");
    names[1] = "both";
    tensors[1] = tensors[0];
    assert_int_equal(attn_parameters_load(set, 2, names, tensors, map, &err), ATTN_EARG);
    assert_non_null(strstr(err.text, "twice"));
    tensors[0].dims[1] = 3;
    assert_int_equal(attn_parameters_load(set, 1, names, tensors, map, &err), ATTN_ESHAPE);
    attn_parameters_free(set);
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_layouts),
        cmocka_unit_test(test_a_packed_tensor_is_split),
    };
    return cmocka_run_group_tests(tests, read_recorded, forget_recorded);
}
