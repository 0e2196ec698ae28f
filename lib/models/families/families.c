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
        if (gguf && f->architecture && !strcmp(f->architecture, type))
            return f;
        for (size_t n = 0; !gguf && n < sizeof f->types / sizeof *f->types && f->types[n]; n++)
            if (!strcmp(f->types[n], type))
                return f;
    }
    return NULL;
}

/* --- values as text --- */

/* Writes a value as text. Returns a constant or `text`; NULL: the value is a list or an object. */
static const char *text_of(const attn_json *value, char *text) {
    switch (value->kind) {
    case ATTN_JSON_BOOL:
        return value->truth ? "true" : "false";
    case ATTN_JSON_NUMBER:
        snprintf(text, VALUE_TEXT,
                 fabs(value->number) < 9e15 && floor(value->number) == value->number ? "%.0f"
                                                                                     : "%.17g",
                 value->number);
        return text;
    case ATTN_JSON_STRING:
        return value->text;
    default:
        return NULL;
    }
}

/* Returns whether a value is the one that a row demands. */
static bool is_standard(const family_key *row, const attn_json *value) {
    char text[VALUE_TEXT];
    const char *found = text_of(value, text);
    return found && !strcmp(found, row->standard);
}

static attn_status read_row(known_config *k, const family_key *row, const attn_json *value,
                            attn_error *err) {
    char text[VALUE_TEXT];
    if (row->read)
        return row->read(k, row, value, err);
    if (row->to && value)
        return attn_family_set(k, row->key, row->to, text_of(value, text), err);
    if (row->to && row->standard)
        return *row->standard ? attn_family_set(k, row->to, row->to, row->standard, err) : ATTN_OK;
    if (row->to)
        return attn_fail(err, ATTN_EARG, row->key, "the configuration lacks the key %s", row->key);
    if (value && row->standard && !is_standard(row, value))
        return attn_fail(
            err, ATTN_EUNSUPPORTED, row->key,
            "another value of %s than %s changes the arithmetic and is not implemented", row->key,
            row->standard);
    return ATTN_OK;
}

/* Reads the values of tables of keys, or only sets the standard values if `standards` is true. */
static attn_status read_tables(known_config *k, const family_key *const *tables, bool standards,
                               attn_error *err) {
    for (size_t i = 0; tables[i]; i++)
        for (const family_key *row = tables[i]; row->key || row->to || row->read; row++) {
            if (standards && (row->read || !row->to || !row->standard))
                continue;
            attn_json *value = standards || !row->key
                                   ? NULL
                                   : attn_json_member((attn_json *)(uintptr_t)k->all, row->key);
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

/* Returns the id that a key has as its value, or the first id if the value is a list; -1: there is
 * none. */
static int32_t id_of(const known_config *k, const char *key) {
    const attn_json *value = attn_json_member((attn_json *)(uintptr_t)k->all, key);
    int64_t id = 0;
    if (value && value->kind == ATTN_JSON_LIST)
        value = value->first;
    if (!value || !attn_json_integer(value, 0, (int64_t)k->config.target_vocabulary - 1, &id))
        return -1;
    return (int32_t)id;
}

/* Completes the settings that follow from others: vocabularies, ids, and the arithmetic of rotary
 * angles (that of transformers, in float32). */
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
    ATTN_TRY(read_tables(k, family->folder.keys, k->gguf, err));
    if (k->gguf)
        ATTN_TRY(read_tables(k, family->gguf.keys, false, err));
    else
        ATTN_TRY(read_tables(k, KEYS(attn_keys_common), false, err));
    complete(k);
    return check_unknown(k, err);
}
