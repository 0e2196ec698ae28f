/* Models that people know, which tests/tools/known_models made, and what transformers says of them. */
#ifndef TESTS_KNOWN_CASE_H
#define TESTS_KNOWN_CASE_H

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <attn/attn.h>

#define LIMIT  ((size_t)1 << 32)
#define MODELS "tests/unit/known_models"

/* What transformers says of a model: the tensors of a file beside it. */
typedef struct expected {
    char *bytes;
    attn_safetensors read;
    attn_arena *arena;
} expected;

static const attn_tensor *find(const expected *e, const char *name) {
    for (size_t i = 0; i < e->read.count; i++)
        if (!strcmp(e->read.tensors[i].name, name))
            return &e->read.tensors[i].tensor;
    return NULL;
}

static expected read_expected(const char *folder, const char *file_name) {
    char path[2048];
    expected e = {.arena = attn_arena_new(LIMIT)};
    attn_error err = {0};
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, file_name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be read", path);
    fseek(file, 0, SEEK_END);
    const size_t size = (size_t)ftell(file);
    rewind(file);
    e.bytes = malloc(size + 1);
    assert_int_equal(fread(e.bytes, 1, size, file), size);
    fclose(file);
    if (attn_safetensors_read(e.bytes, size, e.arena, &e.read, &err))
        fail_msg("%s: %s: %s", path, err.where, err.text);
    return e;
}

static void forget(expected *e) {
    attn_arena_free(e->arena);
    free(e->bytes);
}

/* What a batch of the expected tensors is. */
static attn_batch batch_of(const expected *e, const attn_model_config *c, int64_t *lengths) {
    const attn_tensor *ids = find(e, "ids"), *keep = find(e, "keep"), *target = find(e, "target");
    const attn_tensor *segments = find(e, "segments");
    const size_t B = ids->dims[0], S = ids->dims[1];
    attn_batch batch = {.B = B, .source_lengths = lengths};
    for (size_t b = 0; b < B; b++) {
        lengths[b] = 0;
        for (size_t s = 0; s < S; s++)
            lengths[b] += ((const int32_t *)keep->data)[b * S + s];
    }
    if (!attn_model_has_encoder(c)) {
        batch.T = S;
        batch.target = ids->data;
        return batch;
    }
    batch.S = S;
    batch.source = ids->data;
    batch.source_segments = segments ? segments->data : NULL;
    if (target) {
        batch.T = target->dims[1];
        batch.target = target->data;
    }
    return batch;
}

/* Opens the model of a folder. */
static attn_known_model open_known(const char *folder) {
    attn_known_model known;
    attn_error err = {0};
    char path[2048];
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    if (attn_known_open(access(path, F_OK) ? folder : path, &known, &err))
        fail_msg("%s: %s: %s", folder, err.where, err.text);
    return known;
}

#endif
