/* Small models of every architecture, with PyTorch's values where PyTorch has them
 * (tests/tools/torch_models and torch_transformers wrote the files), and a batch for them. */
#ifndef TESTS_MODELS_CASE_H
#define TESTS_MODELS_CASE_H

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

enum { LIMIT = 1 << 27, SV = 11, TV = 13, B = 3, S = 6, T = 5, PARAMETERS = 128, FILES = 2 };

/* What PyTorch says: all tensors of all files. */
static attn_safetensors torch_says[FILES];
static unsigned char *torch_bytes[FILES];

typedef struct model_case {
    const char *name; /* in the files; NULL: PyTorch has no such model */
    attn_model_attention attention;
    attn_model_positions positions;
    size_t layers;
    bool read_padding;
    attn_model_architecture architecture;
    bool norm_after, guided;
} model_case;

static const model_case cases[] = {
    {"textbook", ATTN_MODEL_MULTIHEAD, ATTN_MODEL_SINUSOIDAL, 2, false, ATTN_MODEL_SEQ2SEQ, false,
     false},
    {"reads", ATTN_MODEL_MULTIHEAD, ATTN_MODEL_SINUSOIDAL, 1, true, ATTN_MODEL_SEQ2SEQ, false,
     false},
    {"dot", ATTN_MODEL_DOT, ATTN_MODEL_LEARNED, 1, false, ATTN_MODEL_SEQ2SEQ, false, false},
    {"additive", ATTN_MODEL_ADDITIVE, ATTN_MODEL_RELATIVE, 1, false, ATTN_MODEL_SEQ2SEQ, false,
     false},
    {"general", ATTN_MODEL_GENERAL, ATTN_MODEL_SHAW, 1, false, ATTN_MODEL_SEQ2SEQ, false, false},
    {"concat", ATTN_MODEL_CONCAT, ATTN_MODEL_ALIBI, 1, false, ATTN_MODEL_SEQ2SEQ, false, false},
    {"local", ATTN_MODEL_LOCAL, ATTN_MODEL_NO_POSITIONS, 1, false, ATTN_MODEL_SEQ2SEQ, false,
     false},
    {"strided", ATTN_MODEL_STRIDED, ATTN_MODEL_SINUSOIDAL, 1, false, ATTN_MODEL_SEQ2SEQ, false,
     false},
    {"block", ATTN_MODEL_BLOCK, ATTN_MODEL_SINUSOIDAL, 1, false, ATTN_MODEL_SEQ2SEQ, false, false},
    {"global", ATTN_MODEL_GLOBAL, ATTN_MODEL_LEARNED, 1, false, ATTN_MODEL_SEQ2SEQ, false, false},
    {"none", ATTN_MODEL_NONE, ATTN_MODEL_SINUSOIDAL, 2, false, ATTN_MODEL_SEQ2SEQ, false, false},
    {"guided", ATTN_MODEL_MULTIHEAD, ATTN_MODEL_SINUSOIDAL, 1, false, ATTN_MODEL_SEQ2SEQ, false,
     true},
    {"guided-local", ATTN_MODEL_LOCAL, ATTN_MODEL_NO_POSITIONS, 1, false, ATTN_MODEL_SEQ2SEQ, false,
     true},
    {"guided-concat", ATTN_MODEL_CONCAT, ATTN_MODEL_LEARNED, 1, false, ATTN_MODEL_SEQ2SEQ, false,
     true},
    {"before", ATTN_MODEL_MULTIHEAD, ATTN_MODEL_SINUSOIDAL, 2, false, ATTN_MODEL_TRANSFORMER, false,
     false},
    {"after", ATTN_MODEL_MULTIHEAD, ATTN_MODEL_LEARNED, 2, false, ATTN_MODEL_TRANSFORMER, true,
     false},
    {NULL, ATTN_MODEL_MULTIHEAD, ATTN_MODEL_RELATIVE, 2, false, ATTN_MODEL_TRANSFORMER, false,
     false},
    {NULL, ATTN_MODEL_LOCAL, ATTN_MODEL_SHAW, 1, false, ATTN_MODEL_TRANSFORMER, true, false},
    {NULL, ATTN_MODEL_STRIDED, ATTN_MODEL_ALIBI, 1, false, ATTN_MODEL_TRANSFORMER, false, false},
    {NULL, ATTN_MODEL_ADDITIVE, ATTN_MODEL_NO_POSITIONS, 1, false, ATTN_MODEL_TRANSFORMER, false,
     false},
    {NULL, ATTN_MODEL_BLOCK, ATTN_MODEL_SINUSOIDAL, 1, false, ATTN_MODEL_TRANSFORMER, false, false},
    {NULL, ATTN_MODEL_GLOBAL, ATTN_MODEL_RELATIVE, 1, false, ATTN_MODEL_TRANSFORMER, true, false},
};
enum { CASES = sizeof cases / sizeof *cases };

static const attn_tensor *recorded(const char *name, const char *what) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", name, what);
    for (size_t f = 0; f < FILES; f++)
        for (size_t i = 0; i < torch_says[f].count; i++)
            if (!strcmp(torch_says[f].tensors[i].name, full))
                return &torch_says[f].tensors[i].tensor;
    fail_msg("%s is not recorded", full);
    return NULL;
}

static attn_model_config config_of(const model_case *c, double dropout) {
    attn_model_config config = attn_model_defaults();
    config.architecture = c->architecture;
    config.attention = c->attention;
    config.positions = c->positions;
    config.num_layers = c->layers;
    config.padding = c->read_padding ? ATTN_MODEL_READ_PADDING : ATTN_MODEL_RESPECT_PADDING;
    config.norm = c->norm_after ? ATTN_MODEL_NORM_AFTER : ATTN_MODEL_NORM_BEFORE;
    config.feed_forward = c->architecture == ATTN_MODEL_TRANSFORMER ? 12 : 0;
    config.source_vocabulary = SV;
    config.target_vocabulary = TV;
    config.width = 8;
    config.num_heads = 2;
    config.max_length = 20;
    config.radius = 2;
    config.stride = 3;
    config.reach = 3;
    config.block_size = 3;
    config.num_global_keys = 1;
    config.dropout_p = dropout;
    return config;
}

static attn_model *open_model(const model_case *c, double dropout) {
    const attn_model_config config = config_of(c, dropout);
    const char *names[PARAMETERS];
    attn_tensor tensors[PARAMETERS];
    static const attn_parameter_name map[] = {
        {.theirs = "pos_encoding.pe"}, {.theirs = "*", .ours = "*"}, {0}};
    attn_model *model = NULL;
    attn_error err = {0};
    if (attn_model_new(&config, 1, true, &model, &err))
        fail_msg("%s: %s", err.where, err.text);
    if (!c->name)
        return model;
    attn_parameters *set = attn_model_parameters(model);
    const size_t count = attn_parameters_length(set);
    assert_true(count < PARAMETERS);
    names[count] = "pos_encoding.pe"; /* as PyTorch keeps it; not read */
    tensors[count] = (attn_tensor){.rank = 3, .dims = {1, 5000, 8}};
    for (size_t i = 0; i < count; i++) {
        char what[256];
        names[i] = attn_parameters_at(set, i)->name;
        snprintf(what, sizeof what, "/p/%s", names[i]);
        tensors[i] = *recorded(c->name, what);
    }
    if (attn_parameters_load(set, count + 1, names, tensors, map, &err))
        fail_msg("%s: %s", err.where, err.text);
    return model;
}

static const char *name_of(const model_case *c) {
    return c->name ? c->name : attn_model_position_names[c->positions];
}

static attn_batch batch_of(void) {
    return (attn_batch){.B = B,
                        .S = S,
                        .T = T,
                        .source = recorded("", "source")->data,
                        .source_lengths = recorded("", "lengths")->data,
                        .target = recorded("", "target")->data,
                        .expected = recorded("", "expected")->data,
                        .alignment = recorded("", "alignment")->data};
}

static const char *const files[FILES] = {"models_torch", "transformers_torch"};

/* The files of tests/unit, or of the directory ATTN_TORCH_MODELS. */
static int read_file(size_t f, attn_arena *arena) {
    const size_t most = 1 << 20;
    const char *folder = getenv("ATTN_TORCH_MODELS");
    char path[512];
    attn_error err = {0};
    snprintf(path, sizeof path, "%s/%s.safetensors", folder ? folder : "tests/unit", files[f]);
    FILE *in = fopen(path, "rb");
    torch_bytes[f] = attn_alloc(most);
    if (!in || !torch_bytes[f])
        return -1;
    const size_t size = fread(torch_bytes[f], 1, most, in);
    fclose(in);
    if (!attn_safetensors_read(torch_bytes[f], size, arena, &torch_says[f], &err))
        return 0;
    fprintf(stderr, "%s: %s: %s\n", path, err.where, err.text);
    return -1;
}

static int read_recorded(void **state) {
    attn_arena *arena = attn_arena_new(LIMIT);
    *state = arena;
    for (size_t f = 0; f < FILES; f++)
        if (!arena || read_file(f, arena))
            return -1;
    return 0;
}

static int forget_recorded(void **state) {
    attn_arena_free(*state);
    for (size_t f = 0; f < FILES; f++)
        attn_free(torch_bytes[f]);
    return 0;
}

#endif
