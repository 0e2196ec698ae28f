/* Models of one stack and with options of blocks, embeddings and heads; a batch for each; and what
 * PyTorch says of those with a name (tests/tools/torch_parts wrote the numbers). */
#ifndef MODEL_PARTS_CASE_H
#define MODEL_PARTS_CASE_H

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

#include "models/model_private.h"

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
    const char *known; /* settings of ATTN_MODEL_KNOWN_LIST as "name=text name=text"; NULL: none */
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
    {NULL, DECODER, .positions = ATTN_MODEL_ROTARY, .num_kv_heads = 2,
     .known = "head_width=6 separate=true window=1 windowed_layers=1 rotary_dims=4 "
              "rotary_pairs=interleaved local_rotary_base=100 rotary_scaling=linear"},
    {NULL, DECODER, .positions = ATTN_MODEL_ROTARY, .gated = true,
     .known = "unplaced_layers=0 score_softcap=2 score_scale=0.7 feed_forward_bias=no norm_bias=no "
              "rotary_scaling=llama3 rotary_factor=4 rotary_original_length=6"},
    {NULL, ENCODER, .positions = ATTN_MODEL_T5,
     .known = "num_buckets=6 bucket_distance=8 score_scale=1 qkv_bias=no"},
    {NULL, ENCODER, .positions = ATTN_MODEL_LEARNED, .norm_after = true,
     .known = "num_layer_groups=1 position_offset=2 bucket_bias=true output_bias=no "
              "separate=true stack_norm=yes"},
    {NULL, PAIR, .positions = ATTN_MODEL_T5, .tied = true,
     .known = "head_width=3 logits_bias=yes num_buckets=8 bucket_distance=16"},
    {NULL, PAIR, .positions = ATTN_MODEL_LEARNED, .norm_after = true,
     .known = "own_positions=true stack_norm=no logits_bias=no"},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Sets the settings that a text names. */
static void set_known(attn_model_config *m, const char *text) {
    char name[64], value[64];
    int read;
    for (; text && sscanf(text, " %63[^=]=%63s%n", name, value, &read) == 2; text += read) {
        const attn_model_setting *s = attn_model_settings;
        while (s->name && strcmp(s->name, name))
            s++;
        if (!s->name || !attn_models_set(s, m, value))
            fail_msg("%s=%s is no setting", name, value);
    }
}

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
    set_known(&m, c->known);
    return m;
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

static void forward(const attn_model *model, const attn_batch *batch, unsigned keep,
                    attn_arena *arena, attn_model_outputs *out) {
    const attn_forward_options options = {.keep = keep};
    attn_error err = {0};
    if (attn_model_forward(model, batch, &options, arena, NULL, NULL, out, &err))
        fail_msg("%s: %s", err.where, err.text);
}

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

#endif
