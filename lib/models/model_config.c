/* Configurations of models: names, defaults and checks. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "models/model_private.h"

enum {
    MOST_VOCABULARY = 1 << 20,
    MOST_LENGTH = 1 << 16,
    MOST_FEED = 4 * MODEL_WIDTH_MOST,
    MOST_LAYERS = 64,
    MOST_SEGMENTS = 1024,
};

#define MOST_STD  1e3 /* of initial embeddings, and of their factor */
#define MOST_BASE 1e9 /* of rotary positions */

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

bool attn_model_has_encoder(const attn_model_config *c) {
    return c->architecture != ATTN_MODEL_DECODER;
}
bool attn_model_has_decoder(const attn_model_config *c) {
    return c->architecture != ATTN_MODEL_ENCODER;
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
                               .norm_epsilon = 1e-5,
                               .rotary_base = 10000,
                               .bias = true,
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

/* Checks that an id is one of each vocabulary that the model reads or writes. */
static attn_status check_id(int32_t id, const attn_model_config *c, const char *where,
                            attn_error *err) {
    const size_t source = attn_model_has_encoder(c) ? c->source_vocabulary : SIZE_MAX;
    const size_t least = source < c->target_vocabulary ? source : c->target_vocabulary;
    if (id >= 0 && (size_t)id < least)
        return ATTN_OK;
    return attn_fail(err, ATTN_EARG, where, "expected an id of both vocabularies, found %d",
                     (int)id);
}

/* Checks the attention of an architecture. */
static attn_status check_attention(const attn_model_config *c, attn_error *err) {
    const bool scored = c->attention >= ATTN_MODEL_DOT && c->attention <= ATTN_MODEL_CONCAT;
    if (c->architecture == ATTN_MODEL_TRANSFORMER && c->attention == ATTN_MODEL_NONE)
        return attn_fail(err, ATTN_EARG, "attention",
                         "a transformer's decoder sees the source by attention alone: expected "
                         "another than \"none\"");
    if ((c->architecture == ATTN_MODEL_ENCODER || c->architecture == ATTN_MODEL_DECODER) &&
        (scored || c->attention == ATTN_MODEL_NONE))
        return attn_fail(
            err, ATTN_EARG, "attention",
            "a model of one stack has self-attention alone: expected multihead, local, "
            "strided, block or global, found %s",
            attn_model_attention_name(c->attention));
    return ATTN_OK;
}

/* Checks that a seq2seq model has no option of models without LSTMs. */
static attn_status check_lstm_options(const attn_model_config *c, attn_error *err) {
    const struct {
        bool given;
        const char *where;
    } options[] = {{c->activation != ATTN_MODEL_RELU, "activation"},
                   {c->gated, "gated"},
                   {c->norm_kind != ATTN_MODEL_LAYER_NORM, "norm_kind"},
                   {c->num_kv_heads != 0, "num_kv_heads"},
                   {c->positions == ATTN_MODEL_ROTARY, "positions"},
                   {!c->bias, "bias"},
                   {c->embedding_norm, "embedding_norm"},
                   {c->num_segments != 0, "num_segments"},
                   {c->tied, "tied"}};
    for (size_t i = 0;
         c->architecture == ATTN_MODEL_SEQ2SEQ && i < sizeof options / sizeof *options; i++)
        if (options[i].given)
            return attn_fail(err, ATTN_EARG, options[i].where,
                             "a seq2seq model has no such option: choose another architecture");
    return ATTN_OK;
}

static attn_status check_heads(const attn_model_config *c, attn_error *err) {
    if (c->width % c->num_heads)
        return attn_fail(err, ATTN_EARG, "num_heads", "%zu heads do not divide a width of %zu",
                         c->num_heads, c->width);
    if (c->num_kv_heads && (c->num_heads % c->num_kv_heads || c->num_kv_heads > c->num_heads))
        return attn_fail(err, ATTN_EARG, "num_kv_heads", "%zu of them do not divide %zu heads",
                         c->num_kv_heads, c->num_heads);
    if (c->num_kv_heads && c->positions == ATTN_MODEL_SHAW)
        return attn_fail(err, ATTN_EARG, "num_kv_heads",
                         "Shaw's positions have as many heads of keys as of queries");
    if (c->positions == ATTN_MODEL_ROTARY && c->width / c->num_heads % 2)
        return attn_fail(err, ATTN_EARG, "positions",
                         "rotary positions turn pairs of a head's coordinates: expected an even "
                         "width of a head, found %zu",
                         c->width / c->num_heads);
    return ATTN_OK;
}

static attn_status check_head(const attn_model_config *c, attn_error *err) {
    if (c->head != ATTN_MODEL_TOKENS && c->architecture != ATTN_MODEL_ENCODER)
        return attn_fail(err, ATTN_EARG, "head",
                         "only an encoder can be pooled: expected \"tokens\"");
    if (c->tied && c->head != ATTN_MODEL_TOKENS)
        return attn_fail(err, ATTN_EARG, "tied", "a pooled head has a matrix of its own");
    if (c->tied && !attn_model_has_decoder(c) && c->source_vocabulary != c->target_vocabulary)
        return attn_fail(err, ATTN_EARG, "tied",
                         "the logits are those of the words that the encoder reads: expected "
                         "vocabularies of one size, found %zu and %zu",
                         c->source_vocabulary, c->target_vocabulary);
    if (c->num_segments && !attn_model_has_encoder(c))
        return attn_fail(err, ATTN_EARG, "num_segments", "segments are those of a source");
    return ATTN_OK;
}

static attn_status check_relations(const attn_model_config *c, attn_error *err) {
    attn_status status;
    if (c->width % 2)
        return attn_fail(
            err, ATTN_EARG, "width",
            "the two directions of an LSTM, and sine and cosine of positions, have half "
            "of it each: expected an even number, found %zu",
            c->width);
    if ((status = check_heads(c, err)) || (status = check_attention(c, err)) ||
        (status = check_lstm_options(c, err)) || (status = check_head(c, err)))
        return status;
    if (!(c->dropout_p >= 0 && c->dropout_p < 1))
        return attn_fail(err, ATTN_EARG, "dropout_p", "expected 0 <= dropout_p < 1");
    if (c->attention_dropout_p != -1 &&
        !(c->attention_dropout_p >= 0 && c->attention_dropout_p < 1))
        return attn_fail(err, ATTN_EARG, "attention_dropout_p",
                         "expected 0 <= attention_dropout_p < 1, or -1: as dropout_p");
    if (!(c->norm_epsilon > 0 && c->norm_epsilon <= 1))
        return attn_fail(err, ATTN_EARG, "norm_epsilon", "expected a number above 0, at most 1");
    if (!(c->rotary_base > 1 && c->rotary_base <= MOST_BASE))
        return attn_fail(err, ATTN_EARG, "rotary_base", "expected a number above 1, at most %g",
                         MOST_BASE);
    if (!(c->embedding_scale >= 0 && c->embedding_scale <= MOST_STD))
        return attn_fail(err, ATTN_EARG, "embedding_scale", "expected 0 to %g", MOST_STD);
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
    if ((unsigned)c->activation >= ATTN_MODEL_ACTIVATIONS)
        return attn_fail(err, ATTN_EARG, "activation", "there is no such activation");
    if ((unsigned)c->norm_kind >= ATTN_MODEL_NORMS)
        return attn_fail(err, ATTN_EARG, "norm_kind", "there is no such norm");
    if ((unsigned)c->head >= ATTN_MODEL_HEADS)
        return attn_fail(err, ATTN_EARG, "head", "there is no such head");
    if ((attn_model_has_encoder(c) &&
         (status = within(c->source_vocabulary, 4, MOST_VOCABULARY, "source_vocabulary", err))) ||
        (status = within(c->target_vocabulary, 4, MOST_VOCABULARY, "target_vocabulary", err)) ||
        (status = within(c->width, 2, MODEL_WIDTH_MOST, "width", err)) ||
        (status = within(c->num_heads, 1, c->width, "num_heads", err)) ||
        (status = within(c->num_segments, 0, MOST_SEGMENTS, "num_segments", err)) ||
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

static attn_status check_keep(const uint8_t *keep, size_t B, size_t S, attn_error *err) {
    for (size_t i = 0; keep && i < B * S; i++)
        if (keep[i] > 1) {
            char where[64];
            snprintf(where, sizeof where, "source_keep/%zu/%zu", i / S, i % S);
            return attn_fail(err, ATTN_EVALUE, where, "expected 0 or 1, found %d", keep[i]);
        }
    return ATTN_OK;
}

/* Checks ids, length and segments of source b. */
static attn_status check_sequence(const attn_model *model, const attn_batch *batch, size_t b,
                                  attn_error *err) {
    const attn_model_config *c = &model->config;
    const size_t S = batch->S;
    const int64_t length = batch->source_lengths[b];
    char where[64];
    snprintf(where, sizeof where, "source_lengths/%zu", b);
    if (length < 1 || (size_t)length > S)
        return attn_fail(err, ATTN_EVALUE, where, "expected 1 to %zu, found %lld", S,
                         (long long)length);
    snprintf(where, sizeof where, "source/%zu", b);
    attn_status status = attn_ids_check(batch->source + b * S, S, c->source_vocabulary, where, err);
    if (!status && batch->source_segments) {
        snprintf(where, sizeof where, "source_segments/%zu", b);
        status = attn_ids_check(batch->source_segments + b * S, S,
                                c->num_segments ? c->num_segments : 1, where, err);
    }
    return status;
}

attn_status attn_models_check_source(const attn_model *model, const attn_batch *batch,
                                     attn_error *err) {
    attn_status status = check_length(batch->S, model, "source", err);
    if (!status && (!batch->B || !batch->S))
        status = attn_fail(err, ATTN_ESHAPE, "source", "expected at least one token");
    for (size_t b = 0; !status && b < batch->B; b++)
        status = check_sequence(model, batch, b, err);
    return status ? status : check_keep(batch->source_keep, batch->B, batch->S, err);
}

attn_status attn_models_check_prompts(const attn_model *model, const attn_batch *batch,
                                      attn_error *err) {
    attn_status status = check_length(batch->S, model, "source", err);
    if (!status && !batch->B)
        status = attn_fail(err, ATTN_ESHAPE, "source", "expected at least one prompt");
    for (size_t b = 0; !status && b < batch->B; b++) {
        char where[64];
        snprintf(where, sizeof where, "source_lengths/%zu", b);
        if (batch->source_lengths[b] < 0 || (size_t)batch->source_lengths[b] > batch->S)
            return attn_fail(err, ATTN_EVALUE, where, "expected 0 to %zu, found %lld", batch->S,
                             (long long)batch->source_lengths[b]);
        snprintf(where, sizeof where, "source/%zu", b);
        status = attn_ids_check(batch->source + b * batch->S, batch->S,
                                model->config.target_vocabulary, where, err);
    }
    return status;
}

attn_status attn_models_check_target(const attn_model *model, const int32_t *target, size_t B,
                                     size_t T, const char *name, attn_error *err) {
    char where[64];
    attn_status status = check_length(T, model, name, err);
    if (!status && (!B || !T))
        status = attn_fail(err, ATTN_ESHAPE, name, "expected at least one token");
    for (size_t b = 0; !status && b < B; b++) {
        snprintf(where, sizeof where, "%s/%zu", name, b);
        status = attn_ids_check(target + b * T, T, model->config.target_vocabulary, where, err);
    }
    return status;
}
