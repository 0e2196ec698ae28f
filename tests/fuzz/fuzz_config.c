/* Any bytes as a config.json, as the metadata of a GGUF file, or as the index of shards: reading them may
 * neither crash nor look outside of the text; a refusal says where and why, and a configuration that is
 * accepted is that of a model whose parameters have names and shapes, or is refused by it. The first
 * byte chooses the family of a configuration that does not name one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <attn/attn.h>
#include <attn/safetensors.h>

#include "models/families/family.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_say(const attn_error *err) {
    if (!err->text[0])
        abort();
}

static void check_index(const char *text, size_t size, attn_arena *arena) {
    attn_shard_index index;
    attn_error err = {0};
    if (attn_shard_index_read(text, size, arena, &index, &err)) {
        must_say(&err);
        return;
    }
    for (size_t i = 0; i < index.file_count; i++)
        if (strchr(index.files[i], '/') || !strstr(index.files[i], ".safetensors"))
            abort();
}

static const attn_family *family_of(attn_json *config, bool gguf, uint8_t choice) {
    const attn_json *type = attn_json_member(config, gguf ? "general.architecture" : "model_type");
    size_t count = 0;
    while (attn_families[count])
        count++;
    return type && type->kind == ATTN_JSON_STRING ? attn_family_of(type->text, gguf)
                                                  : attn_families[choice % count];
}

static void check_config(const char *text, size_t size, bool gguf, uint8_t choice,
                         attn_arena *arena) {
    attn_json *config;
    attn_error err = {0};
    attn_model *model;
    if (attn_json_read(text, size, arena, &config, &err)) {
        must_say(&err);
        return;
    }
    if (config->kind != ATTN_JSON_OBJECT)
        return;
    known_config k = {.all = config, .gguf = gguf};
    const attn_family *family = family_of(config, gguf, choice);
    if (!family || (gguf && !family->architecture))
        return;
    if (attn_family_configure(family, &k, &err) || attn_model_declare(&k.config, &model, &err)) {
        must_say(&err);
        return;
    }
    for (size_t i = 0; i < attn_parameters_length(model->set); i++)
        if (!attn_parameters_at(model->set, i)->name[0])
            abort();
    attn_model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    char *text = malloc(size); /* reading past the end is seen */
    attn_arena *arena = attn_arena_new(1 << 20);
    if (!text || !arena)
        abort();
    memcpy(text, data + 1, size - 1);
    check_index(text, size - 1, arena);
    check_config(text, size - 1, false, *data, arena);
    check_config(text, size - 1, true, *data, arena);
    attn_arena_free(arena);
    free(text);
    return 0;
}
