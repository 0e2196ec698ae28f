/* The list of families, and the reading of configurations by their tables. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "models/families/family.h"

enum { VALUE_TEXT = 96 };

#define FAMILIES(ITEM)                                                                             \
    ITEM(llama)                                                                                    \
    ITEM(qwen2)                                                                                    \
    ITEM(qwen3)                                                                                    \
    ITEM(bert)                                                                                     \
    ITEM(gpt2)                                                                                     \
    ITEM(distilbert)                                                                               \
    ITEM(roberta)                                                                                  \
    ITEM(gemma2)                                                                                   \
    ITEM(gemma3)                                                                                   \
    ITEM(phi3)                                                                                     \
    ITEM(olmo2)                                                                                    \
    ITEM(smollm3)                                                                                  \
    ITEM(granite)                                                                                  \
    ITEM(gpt_neox)                                                                                 \
    ITEM(gptj)                                                                                     \
    ITEM(albert)                                                                                   \
    ITEM(electra)                                                                                  \
    ITEM(mpnet)                                                                                    \
    ITEM(modernbert)                                                                               \
    ITEM(t5)                                                                                       \
    ITEM(bart)                                                                                     \
    ITEM(marian)

#define DECLARED(name) extern const attn_family attn_family_##name;
FAMILIES(DECLARED)
#define LISTED(name) &attn_family_##name,
const attn_family *const attn_families[] = {FAMILIES(LISTED) NULL};

const attn_family *attn_family_of(const char *type, bool gguf) {
    for (size_t i = 0; attn_families[i]; i++) {
        const attn_family *f = attn_families[i];
        if (gguf && f->gguf && !strcmp(f->gguf, type))
            return f;
        for (size_t n = 0; !gguf && n < sizeof f->types / sizeof *f->types && f->types[n]; n++)
            if (!strcmp(f->types[n], type))
                return f;
    }
    return NULL;
}

/* --- values as text --- */

/* The words of activations in configurations, and ours. */
static const char *const activations[][2] = {{"gelu_new", "gelu_tanh"},
                                             {"gelu_pytorch_tanh", "gelu_tanh"},
                                             {"gelu_fast", "gelu_tanh"},
                                             {"swish", "silu"},
                                             {NULL, NULL}};

static const attn_model_setting *setting_of(const char *name) {
    const attn_model_setting *s = attn_model_settings;
    while (s->name && strcmp(s->name, name))
        s++;
    return s;
}

/* Writes a value as the text of a setting. Returns a constant or `text`; NULL: the value is a list or
 * an object. */
static const char *text_of(const attn_json *value, const attn_model_setting *s, char *text) {
    const bool chooses = s && s->words == attn_model_choices;
    switch (value->kind) {
    case ATTN_JSON_BOOL:
        return chooses ? (value->truth ? "yes" : "no") : value->truth ? "true" : "false";
    case ATTN_JSON_NUMBER:
        snprintf(text, VALUE_TEXT,
                 fabs(value->number) < 9e15 && floor(value->number) == value->number ? "%.0f"
                                                                                     : "%.17g",
                 value->number);
        return text;
    case ATTN_JSON_STRING:
        for (size_t i = 0; s && s->words == attn_model_activations && activations[i][0]; i++)
            if (!strcmp(value->text, activations[i][0]))
                return activations[i][1];
        return value->text;
    default:
        return NULL;
    }
}

static attn_status set(known_config *k, const char *key, const char *setting, const char *text,
                       attn_error *err) {
    const attn_model_setting *s = setting_of(setting);
    return text && s->name && attn_models_set(s, &k->config, text)
               ? ATTN_OK
               : attn_fail(err, ATTN_EUNSUPPORTED, key, "\"%.60s\" of %s is not implemented",
                           text ? text : "a list", key);
}

/* Returns whether a value is the one that a row demands. */
static bool is_standard(const family_key *row, const attn_json *value) {
    char text[VALUE_TEXT];
    const char *found = text_of(value, NULL, text);
    return found && !strcmp(found, row->standard);
}

static attn_status read_row(known_config *k, const family_key *row, const attn_json *value,
                            attn_error *err) {
    const char *key = k->gguf ? row->gguf : row->json;
    char text[VALUE_TEXT];
    if (row->read)
        return row->read(k, value, err);
    if (row->to && value)
        return set(k, key, row->to, text_of(value, setting_of(row->to), text), err);
    if (row->to && row->standard)
        return set(k, row->to, row->to, row->standard, err);
    if (row->to)
        return attn_fail(err, ATTN_EARG, key, "the configuration lacks the key %s", key);
    if (value && row->standard && !is_standard(row, value))
        return attn_fail(
            err, ATTN_EUNSUPPORTED, key,
            "another value of %s than %s changes the arithmetic and is not implemented", key,
            row->standard);
    return ATTN_OK;
}

/* Reads the rows of a table. In a GGUF file rows with a key of config.json alone set their
 * standards; rows with a key of GGUF alone are for GGUF files alone. */
static attn_status read_table(known_config *k, const family_key *rows, attn_error *err) {
    for (const family_key *row = rows; row->json || row->gguf || row->to; row++) {
        const char *key = k->gguf ? row->gguf : row->json;
        attn_json *value = key ? attn_json_member((attn_json *)(uintptr_t)k->all, key) : NULL;
        if (!key && ((row->gguf && !k->gguf) || !row->to || !row->standard))
            continue;
        ATTN_TRY(read_row(k, row, value, err));
    }
    return ATTN_OK;
}

/* Checks that every key is in one of the tables. */
static attn_status check_unknown(const known_config *k, attn_error *err) {
    for (attn_json *m = k->all->first; m; m = m->next)
        m->known = m->known || m->kind == ATTN_JSON_NULL;
    const attn_json *unknown = attn_json_unknown(k->all);
    return unknown ? attn_fail(err, ATTN_EUNSUPPORTED, unknown->key,
                               "the key \"%.60s\" is unknown in this family, so that it may change "
                               "the arithmetic",
                               unknown->key)
                   : ATTN_OK;
}

/* Returns the id that is the value of a key, or the first one of a list; -1: there is none. */
static int32_t id_of(const known_config *k, const char *key) {
    const attn_json *value = attn_json_member((attn_json *)(uintptr_t)k->all, key);
    int64_t id = 0;
    if (value && value->kind == ATTN_JSON_LIST)
        value = value->first;
    if (!value || !attn_json_integer(value, 0, (int64_t)k->config.target_vocabulary - 1, &id))
        return -1;
    return (int32_t)id;
}

/* Settings that follow from others: vocabularies, ids, and the arithmetic of rotary angles, which
 * is that of transformers in float32. */
static void complete(known_config *k) {
    attn_model_config *c = &k->config;
    c->any_ids = true;
    c->dropout_p = c->attention_dropout_p = 0;
    if (!c->target_vocabulary)
        c->target_vocabulary = c->source_vocabulary;
    if (!c->source_vocabulary && attn_model_has_encoder(c))
        c->source_vocabulary = c->target_vocabulary;
    if (!attn_model_has_encoder(c))
        c->source_vocabulary = 0;
    c->pad = id_of(k, "pad_token_id");
    c->end = id_of(k, "eos_token_id");
    c->begin = id_of(k, attn_model_has_encoder(c) ? "decoder_start_token_id" : "bos_token_id");
    if (c->positions == ATTN_MODEL_ROTARY && !c->rotary_scaling)
        c->rotary_scaling = ATTN_MODEL_LINEAR;
    if (c->rotary_scaling == ATTN_MODEL_LINEAR && c->rotary_factor == 0)
        c->rotary_factor = 1;
    if (c->max_length > 65536)
        c->max_length = 65536;
    if (!memcmp(&c->windowed_layers, &(attn_model_layers){{0}}, sizeof c->windowed_layers))
        c->window = 0;
}

attn_status attn_family_configure(const attn_family *family, known_config *k, attn_error *err) {
    k->config = attn_model_defaults();
    for (size_t i = 0; family->keys[i]; i++)
        ATTN_TRY(read_table(k, family->keys[i], err));
    ATTN_TRY(read_table(k, attn_keys_common, err));
    complete(k);
    return check_unknown(k, err);
}
