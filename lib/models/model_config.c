/* Configurations of models: names, defaults and checks. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "models/model_private.h"

enum {
    MOST_VOCABULARY = 1 << 20,
    MOST_LENGTH = 1 << 16,
    MOST_FEED = 4 * MODEL_WIDTH_MOST,
    MOST_LAYERS = 64
};

#define MOST_STD 1e3 /* of initial embeddings */

#define NAME(name, text) text,
static const char *const architectures[] = {ATTN_MODEL_ARCHITECTURE_LIST(NAME)};
static const char *const attentions[] = {ATTN_MODEL_ATTENTION_LIST(NAME)};
static const char *const positions[] = {ATTN_MODEL_POSITIONS_LIST(NAME)};
#undef NAME

const char *attn_model_architecture_name(attn_model_architecture a) {
    return (size_t)a < ATTN_MODEL_ARCHITECTURES ? architectures[a] : NULL;
}
const char *attn_model_attention_name(attn_model_attention a) {
    return (size_t)a < ATTN_MODEL_ATTENTIONS ? attentions[a] : NULL;
}
const char *attn_model_positions_name(attn_model_positions p) {
    return (size_t)p < ATTN_MODEL_POSITIONS ? positions[p] : NULL;
}

static bool parse(const char *name, const char *const *names, size_t count, size_t *out) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(name, names[i])) {
            *out = i;
            return true;
        }
    return false;
}

bool attn_model_architecture_parse(const char *name, attn_model_architecture *out) {
    size_t at;
    if (!parse(name, architectures, ATTN_MODEL_ARCHITECTURES, &at))
        return false;
    *out = (attn_model_architecture)at;
    return true;
}

bool attn_model_attention_parse(const char *name, attn_model_attention *out) {
    size_t at;
    if (!parse(name, attentions, ATTN_MODEL_ATTENTIONS, &at))
        return false;
    *out = (attn_model_attention)at;
    return true;
}

bool attn_model_positions_parse(const char *name, attn_model_positions *out) {
    size_t at;
    if (!parse(name, positions, ATTN_MODEL_POSITIONS, &at))
        return false;
    *out = (attn_model_positions)at;
    return true;
}

attn_model_config attn_model_defaults(void) {
    return (attn_model_config){.width = 128,
                               .num_heads = 4,
                               .num_layers = 1,
                               .max_length = 512,
                               .radius = 4,
                               .stride = 4,
                               .reach = 16,
                               .block_size = 8,
                               .num_global_keys = 1,
                               .dropout_p = 0.1,
                               .attention_dropout_p = -1,
                               .pad = 0,
                               .begin = 1,
                               .end = 2};
}

static attn_status within(size_t value, size_t least, size_t most, const char *where,
                          attn_error *err) {
    if (value >= least && value <= most)
        return ATTN_OK;
    return attn_fail(err, ATTN_EARG, where, "expected %zu to %zu, found %zu", least, most, value);
}

static attn_status check_id(int32_t id, const attn_model_config *c, const char *where,
                            attn_error *err) {
    const size_t both =
        c->source_vocabulary < c->target_vocabulary ? c->source_vocabulary : c->target_vocabulary;
    if (id >= 0 && (size_t)id < both)
        return ATTN_OK;
    return attn_fail(err, ATTN_EARG, where, "expected an id of both vocabularies, found %d",
                     (int)id);
}

static attn_status check_relations(const attn_model_config *c, attn_error *err) {
    attn_status status;
    if (c->width % 2)
        return attn_fail(
            err, ATTN_EARG, "width",
            "the two directions of an LSTM, and sine and cosine of positions, have half "
            "of it each: expected an even number, found %zu",
            c->width);
    if (c->width % c->num_heads)
        return attn_fail(err, ATTN_EARG, "num_heads", "%zu heads do not divide a width of %zu",
                         c->num_heads, c->width);
    if (c->architecture == ATTN_MODEL_TRANSFORMER && c->attention == ATTN_MODEL_NONE)
        return attn_fail(err, ATTN_EARG, "attention",
                         "a transformer's decoder sees the source by attention alone: expected "
                         "another than \"none\"");
    if (!(c->dropout_p >= 0 && c->dropout_p < 1))
        return attn_fail(err, ATTN_EARG, "dropout_p", "expected 0 <= dropout_p < 1");
    if (c->attention_dropout_p != -1 &&
        !(c->attention_dropout_p >= 0 && c->attention_dropout_p < 1))
        return attn_fail(err, ATTN_EARG, "attention_dropout_p",
                         "expected 0 <= attention_dropout_p < 1, or -1: as dropout_p");
    if (!(c->embedding_std >= 0 && c->embedding_std <= MOST_STD))
        return attn_fail(err, ATTN_EARG, "embedding_std", "expected 0 to %g", MOST_STD);
    if ((status = check_id(c->pad, c, "pad", err)) ||
        (status = check_id(c->begin, c, "begin", err)) ||
        (status = check_id(c->end, c, "end", err)))
        return status;
    if (c->pad == c->begin || c->pad == c->end || c->begin == c->end)
        return attn_fail(err, ATTN_EARG, "pad", "pad, begin and end must be three different ids");
    return ATTN_OK;
}

attn_status attn_models_check_config(const attn_model_config *c, attn_error *err) {
    const size_t layers = c->architecture == ATTN_MODEL_SEQ2SEQ ? ATTN_LSTM_LAYERS : MOST_LAYERS;
    attn_status status;
    if (!attn_model_architecture_name(c->architecture))
        return attn_fail(err, ATTN_EARG, "architecture", "there is no such architecture");
    if (!attn_model_attention_name(c->attention))
        return attn_fail(err, ATTN_EARG, "attention", "there is no such attention");
    if (!attn_model_positions_name(c->positions))
        return attn_fail(err, ATTN_EARG, "positions", "there are no such positions");
    if ((status = within(c->source_vocabulary, 4, MOST_VOCABULARY, "source_vocabulary", err)) ||
        (status = within(c->target_vocabulary, 4, MOST_VOCABULARY, "target_vocabulary", err)) ||
        (status = within(c->width, 2, MODEL_WIDTH_MOST, "width", err)) ||
        (status = within(c->num_heads, 1, c->width, "num_heads", err)) ||
        (status = within(c->num_layers, 1, layers, "num_layers", err)) ||
        (status = within(c->max_length, 1, MOST_LENGTH, "max_length", err)) ||
        (status = within(c->radius, 0, MOST_LENGTH, "radius", err)) ||
        (status = within(c->stride, 1, MOST_LENGTH, "stride", err)) ||
        (status = within(c->reach, 1, MOST_LENGTH, "reach", err)) ||
        (status = within(c->block_size, 1, MOST_LENGTH, "block_size", err)) ||
        (status = within(c->num_global_keys, 0, MOST_LENGTH, "num_global_keys", err)) ||
        (status = within(c->feed_forward, 0, MOST_FEED, "feed_forward", err)))
        return status;
    return check_relations(c, err);
}

static attn_status check_length(size_t length, const attn_model *model, const char *where,
                                attn_error *err) {
    if (length <= model->config.max_length)
        return ATTN_OK;
    return attn_fail(err, ATTN_ELIMIT, where, "the model reads at most %zu tokens, found %zu",
                     model->config.max_length, length);
}

attn_status attn_models_check_source(const attn_model *model, const int32_t *source,
                                     const int64_t *lengths, size_t B, size_t S, attn_error *err) {
    char where[64];
    attn_status status = check_length(S, model, "source", err);
    if (!status && (!B || !S))
        status = attn_fail(err, ATTN_ESHAPE, "source", "expected at least one token");
    for (size_t b = 0; !status && b < B; b++) {
        snprintf(where, sizeof where, "source_lengths/%zu", b);
        if (lengths[b] < 1 || (size_t)lengths[b] > S)
            return attn_fail(err, ATTN_EVALUE, where, "expected 1 to %zu, found %lld", S,
                             (long long)lengths[b]);
        snprintf(where, sizeof where, "source/%zu", b);
        status = attn_ids_check(source + b * S, S, model->config.source_vocabulary, where, err);
    }
    return status;
}

attn_status attn_models_check_keep(const uint8_t *keep, size_t B, size_t S, attn_error *err) {
    for (size_t i = 0; keep && i < B * S; i++)
        if (keep[i] > 1) {
            char where[64];
            snprintf(where, sizeof where, "source_keep/%zu/%zu", i / S, i % S);
            return attn_fail(err, ATTN_EVALUE, where, "expected 0 or 1, found %d", keep[i]);
        }
    return ATTN_OK;
}

attn_status attn_models_check_target(const attn_model *model, const int32_t *target, size_t B,
                                     size_t T, const char *name, attn_error *err) {
    char where[64];
    attn_status status = check_length(T, model, name, err);
    if (!status && !T)
        status = attn_fail(err, ATTN_ESHAPE, name, "expected at least one token");
    for (size_t b = 0; !status && b < B; b++) {
        snprintf(where, sizeof where, "%s/%zu", name, b);
        status = attn_ids_check(target + b * T, T, model->config.target_vocabulary, where, err);
    }
    return status;
}
