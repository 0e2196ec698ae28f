/* Makes models that people know (attn/known_model.h) from their files: reads the configuration, and
 * binds the tensors. */
#include <attn/known_model.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "models/known_tensors.h"

/* MOST_NAMES: limit in bytes of the names, lists and trees of one model. MOST_JSON: limit of a JSON
 * text. */
#define MOST_NAMES ((size_t)1 << 30)
#define MOST_JSON  ((size_t)64 << 20)

/* Reads a JSON text of a folder, whose errors name the file. */
static attn_status read_json(attn_string text, const char *name, attn_arena *arena, attn_json **out,
                             attn_error *err) {
    attn_error inner;
    if (text.size > MOST_JSON)
        return attn_fail(err, ATTN_ELIMIT, name, "expected at most %zu bytes of JSON, found %zu",
                         MOST_JSON, text.size);
    const attn_status status = attn_json_read(text.text, text.size, arena, out, &inner);
    if (status)
        return attn_fail(err, status, name, "%s: %s", inner.where, inner.text);
    return (*out)->kind == ATTN_JSON_OBJECT
               ? ATTN_OK
               : attn_fail(err, ATTN_EARG, name, "expected an object, found %s",
                           attn_json_kind_name(*out));
}

/* --- safetensors --- */

static const attn_block_format *format_of(attn_dtype dtype) {
    return attn_block_format_named(dtype == ATTN_F32    ? "F32"
                                   : dtype == ATTN_F16  ? "F16"
                                   : dtype == ATTN_BF16 ? "BF16"
                                                        : "");
}

/* Lists the tensors. Tensors of types that no weight has, such as the ids of positions, have no
 * format. */
static attn_status list_tensors(const attn_safetensors *read, attn_arena *arena, known_tensors *t,
                                attn_error *err) {
    const size_t count = read->count + read->unusable_count;
    t->items = attn_arena_zeroed(arena, count + 1, sizeof *t->items);
    ATTN_TAKEN(t->items, "the tensors of a model", err);
    for (size_t i = 0; i < read->unusable_count; i++)
        t->items[t->count++].name = read->unusable[i].name;
    for (size_t i = 0; i < read->count; i++) {
        const attn_tensor *from = &read->tensors[i].tensor;
        known_tensor *to = &t->items[t->count++];
        *to = (known_tensor){.name = read->tensors[i].name,
                             .format = format_of(from->dtype),
                             .rank = from->rank,
                             .data = from->data};
        memcpy(to->dims, from->dims, sizeof to->dims);
    }
    return ATTN_OK;
}

/* --- GGUF --- */

/* Adds a member to an object. */
static attn_status add_member(attn_json *object, attn_json member, attn_arena *arena,
                              attn_error *err) {
    attn_json *last = object->first, *made = attn_arena_zeroed(arena, 1, sizeof *made);
    ATTN_TAKEN(made, "the metadata of a model", err);
    *made = member;
    while (last && last->next)
        last = last->next;
    *(last ? &last->next : &object->first) = made;
    object->count++;
    return ATTN_OK;
}

/* Returns the name of a key without the architecture in front, or its name in config.json for keys
 * of the whole file that are read. NULL: the key has no effect. */
static const char *key_of(const char *key, const char *architecture) {
    static const char *const read[][2] = {{"general.architecture", "general.architecture"},
                                          {"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                          {"tokenizer.ggml.eos_token_id", "eos_token_id"},
                                          {"tokenizer.ggml.eot_token_id", "eot_token_id"},
                                          {"tokenizer.ggml.padding_token_id", "pad_token_id"},
                                          {"tokenizer.ggml.token_type_count", "token_type_count"}};
    const size_t lead = strlen(architecture);
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (!strcmp(key, read[i][0]))
            return read[i][1];
    return !strncmp(key, architecture, lead) && key[lead] == '.' ? key + lead + 1 : NULL;
}

/* Returns the shortest decimal number that rounds to the same float32: the number that was
 * written. */
static double shortest(double number) {
    char text[32];
    double found = number;
    for (int digits = 1; digits < 10; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        found = strtod(text, NULL);
        if ((float)found == (float)number)
            break;
    }
    return found;
}

static attn_status add_value(attn_json *object, const attn_gguf_value *v, const char *key,
                             attn_arena *arena, attn_error *err) {
    attn_json member = {.kind = ATTN_JSON_LIST, .key = key};
    attn_gguf_text text;
    double number;
    if (v->array)
        return add_member(object, member, arena, err);
    if (attn_gguf_text_of(v, &text)) {
        member.kind = ATTN_JSON_STRING;
        ATTN_TAKEN((member.text = attn_arena_text(arena, text.at, text.size)),
                   "the metadata of a model", err);
    } else if (attn_gguf_number(v, 0, &number)) {
        member.kind = v->type == ATTN_GGUF_BOOL ? ATTN_JSON_BOOL : ATTN_JSON_NUMBER;
        member.number = v->type == ATTN_GGUF_F32 ? shortest(number) : number;
        member.truth = number != 0;
    }
    return add_member(object, member, arena, err);
}

/* Makes an object of the metadata of the architecture. If no key states the size of the vocabulary,
 * it is the number of rows of the embeddings. */
static attn_status read_metadata(const attn_gguf *file, attn_arena *arena, attn_json *out,
                                 attn_error *err) {
    attn_gguf_text name = {"", 0};
    bool words = false;
    attn_gguf_text_of(attn_gguf_find(file, "general.architecture"), &name);
    const char *architecture = attn_arena_text(arena, name.at, name.size);
    ATTN_TAKEN(architecture, "the metadata of a model", err);
    for (size_t i = 0; i < file->value_count; i++) {
        const char *key = key_of(file->values[i].key, architecture);
        if (!key)
            continue;
        words = words || !strcmp(key, "vocab_size");
        ATTN_TRY(add_value(out, &file->values[i], key, arena, err));
    }
    for (size_t i = 0; !words && i < file->count; i++)
        if (!strcmp(file->tensors[i].name, "token_embd.weight"))
            return add_member(out,
                              (attn_json){.kind = ATTN_JSON_NUMBER,
                                          .key = "vocab_size",
                                          .number = (double)file->tensors[i].dims[0]},
                              arena, err);
    return ATTN_OK;
}

static attn_status read_gguf(const attn_gguf *read, attn_arena *arena, known_config *k,
                             known_tensors *t, attn_error *err) {
    attn_json *keys = attn_arena_zeroed(arena, 1, sizeof *keys);
    ATTN_TAKEN(keys, "the metadata of a model", err);
    if (read->unusable_count)
        return attn_fail(err, ATTN_EUNSUPPORTED, read->unusable->name, "%s",
                         read->unusable->reason);
    keys->kind = ATTN_JSON_OBJECT;
    ATTN_TRY(read_metadata(read, arena, keys, err));
    k->all = keys;
    k->gguf = true;
    t->count = read->count;
    t->items = attn_arena_zeroed(arena, read->count + 1, sizeof *t->items);
    ATTN_TAKEN(t->items, "the tensors of a model", err);
    for (size_t i = 0; i < read->count; i++) {
        const attn_gguf_tensor *from = &read->tensors[i];
        t->items[i] = (known_tensor){
            .name = from->name, .format = from->format, .rank = from->rank, .data = from->data};
        memcpy(t->items[i].dims, from->dims, sizeof from->dims);
    }
    return ATTN_OK;
}

/* --- models --- */

static attn_status find_family(const known_config *k, const attn_family **out, attn_error *err) {
    const char *key = k->gguf ? "general.architecture" : "model_type";
    const attn_json *type = attn_json_member((attn_json *)(uintptr_t)k->all, key);
    if (!type || type->kind != ATTN_JSON_STRING)
        return attn_fail(err, ATTN_EARG, key, "expected the name of a family");
    *out = attn_family_of(type->text, k->gguf);
    return *out ? ATTN_OK
                : attn_fail(err, ATTN_EUNSUPPORTED, key, "%s \"%.60s\" is not implemented",
                            k->gguf ? "a GGUF file of the architecture" : "the family", type->text);
}

/* Finds out whether a GGUF file scales rotary positions. Tensors of factors show this: either for
 * long and for short texts, or for all texts (Llama 3), where they hold the whole scaling. */
static void look_at_factors(attn_model_config *c, const known_tensors *t) {
    const bool all = attn_known_tensor(t, "rope_freqs.weight") != NULL;
    if (!all && !attn_known_tensor(t, "rope_factors_long.weight"))
        return;
    c->rotary_scaling = ATTN_MODEL_LONGROPE;
    if (!c->rotary_original_length)
        c->rotary_original_length = c->max_length;
    c->rotary_factor = fmax((double)c->max_length / (double)c->rotary_original_length, 1);
    if (all)
        c->rotary_attention_factor = 1;
}

/* Finds out which matrices of a GGUF file have a bias: those whose bias is among the tensors. */
static void look_at_biases(attn_model_config *c, const known_tensors *t) {
    const bool packed = attn_known_tensor(t, "blk.0.attn_qkv.bias") != NULL;
    const attn_model_choice no = ATTN_MODEL_NO, yes = ATTN_MODEL_YES;
    c->qkv_bias = packed || attn_known_tensor(t, "blk.0.attn_q.bias") ? yes : no;
    c->output_bias = attn_known_tensor(t, "blk.0.attn_output.bias") ? yes : no;
    c->feed_forward_bias = attn_known_tensor(t, "blk.0.ffn_up.bias") ? yes : no;
}

/* Sets the settings that depend on which tensors the file has. */
static void look_at_tensors(known_config *k, const known_tensors *t, const attn_family *family) {
    attn_model_config *c = &k->config;
    const bool head = attn_known_has_head(t, family);
    if (t->gguf) {
        c->tied = c->architecture != ATTN_MODEL_ENCODER && !head;
        look_at_factors(c, t);
        look_at_biases(c, t);
    }
    c->headless = !head && !(c->tied && c->head == ATTN_MODEL_TOKENS);
    if (c->headless)
        c->tied = false;
}

static attn_status make(const known_config *k, const known_tensors *t, const attn_family *family,
                        attn_arena *arena, attn_model **out, attn_error *err) {
    attn_model *model;
    ATTN_TRY(attn_model_declare(&k->config, &model, err));
    const attn_status status = attn_known_bind(model, k, t, family, arena, err);
    if (status)
        attn_model_free(model);
    else
        *out = model;
    return status;
}

/* --- the ids that end generation --- */

/* Adds an id, or the ids of a list, to the ids that end generation. Leaves out ids that are there
 * already. */
static void add_stops(const attn_json *value, size_t vocabulary, attn_known_model *out) {
    for (const attn_json *v = value && value->kind == ATTN_JSON_LIST ? value->first : value; v;
         v = v == value ? NULL : v->next) {
        int64_t id;
        bool known = !attn_json_integer(v, 0, (int64_t)vocabulary - 1, &id);
        for (size_t i = 0; !known && i < out->stop_count; i++)
            known = out->stops[i] == id;
        if (!known && out->stop_count < ATTN_KNOWN_STOPS)
            out->stops[out->stop_count++] = (int32_t)id;
    }
}

/* Reads the ids that end sequences. If config.json does not state the token with which a decoder
 * behind an encoder begins, the other files do; else it is padding, as in T5. */
static attn_status read_ends(known_config *k, attn_string generation, attn_arena *arena,
                             attn_known_model *out, attn_error *err) {
    static const char *const keys[] = {"eos_token_id", "eot_token_id"};
    attn_model_config *c = &k->config;
    const size_t vocabulary = c->target_vocabulary;
    const bool both = attn_model_has_encoder(c) && attn_model_has_decoder(c);
    attn_json *more = NULL;
    int64_t begin;
    if (generation.text)
        ATTN_TRY(read_json(generation, "generation_config.json", arena, &more, err));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        add_stops(attn_json_member((attn_json *)(uintptr_t)k->all, keys[i]), vocabulary, out);
    if (more)
        add_stops(attn_json_member(more, keys[0]), vocabulary, out);
    const attn_json *first = more ? attn_json_member(more, "decoder_start_token_id") : NULL;
    if (both && c->begin < 0)
        c->begin = first && attn_json_integer(first, 0, (int64_t)vocabulary - 1, &begin)
                       ? (int32_t)begin
                       : c->pad;
    return ATTN_OK;
}

static attn_status read_all(const attn_known_files *files, attn_arena *arena, attn_known_model *out,
                            attn_error *err) {
    known_config k = {0};
    known_tensors t = {.gguf = files->gguf};
    const attn_family *family;
    attn_json *config;
    if (files->gguf) {
        ATTN_TRY(read_gguf(files->gguf, arena, &k, &t, err));
    } else {
        ATTN_TRY(read_json(files->config, "config.json", arena, &config, err));
        ATTN_TRY(list_tensors(files->tensors, arena, &t, err));
        k.all = config;
    }
    ATTN_TRY(find_family(&k, &family, err));
    ATTN_TRY(attn_family_configure(family, &k, err));
    look_at_tensors(&k, &t, family);
    attn_known_model made = {.family = family->name};
    ATTN_TRY(read_ends(&k, files->generation, arena, &made, err));
    ATTN_TRY(make(&k, &t, family, arena, &made.model, err));
    *out = made;
    return ATTN_OK;
}

attn_status attn_known_read(const attn_known_files *files, attn_known_model *out, attn_error *err) {
    attn_arena *arena = attn_arena_new(MOST_NAMES);
    ATTN_TAKEN(arena, "a model", err);
    const attn_status status = read_all(files, arena, out, err);
    attn_arena_free(arena);
    return status;
}
