/* Configurations of models: names, defaults and checks. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "models/model_private.h"

#define NAME(name, text) text,
const char *const attn_model_architectures[] = {ATTN_MODEL_ARCHITECTURE_LIST(NAME) NULL};
const char *const attn_model_attentions[] = {ATTN_MODEL_ATTENTION_LIST(NAME) NULL};
const char *const attn_model_position_names[] = {ATTN_MODEL_POSITIONS_LIST(NAME) NULL};
const char *const attn_model_norm_places[] = {ATTN_MODEL_NORM_PLACE_LIST(NAME) NULL};
const char *const attn_model_paddings[] = {ATTN_MODEL_PADDING_LIST(NAME) NULL};
const char *const attn_model_activations[] = {ATTN_MODEL_ACTIVATION_LIST(NAME) NULL};
const char *const attn_model_norm_kinds[] = {ATTN_MODEL_NORM_LIST(NAME) NULL};
const char *const attn_model_head_names[] = {ATTN_MODEL_HEAD_LIST(NAME) NULL};
const char *const attn_model_choices[] = {ATTN_MODEL_CHOICE_LIST(NAME) NULL};
const char *const attn_model_query_norms[] = {ATTN_MODEL_QUERY_NORM_LIST(NAME) NULL};
const char *const attn_model_parallels[] = {ATTN_MODEL_PARALLEL_LIST(NAME) NULL};
const char *const attn_model_pair_names[] = {ATTN_MODEL_PAIR_LIST(NAME) NULL};
const char *const attn_model_scalings[] = {ATTN_MODEL_SCALING_LIST(NAME) NULL};
#undef NAME

#define ROW(member, kind, words, least, most, use, of, sentence)                                   \
    {#member, ATTN_SETTING_##kind, offsetof(attn_model_config, member), words, least,              \
     most,    ATTN_OF_##of},
const attn_model_setting attn_model_settings[] = {ATTN_MODEL_SETTING_LIST(ROW){0}};
#undef ROW

bool attn_model_has_encoder(const attn_model_config *c) {
    return c->architecture != ATTN_MODEL_DECODER;
}
bool attn_model_has_decoder(const attn_model_config *c) {
    return c->architecture != ATTN_MODEL_ENCODER;
}

bool attn_models_has_bias(attn_model_choice choice, bool usual) {
    return choice == ATTN_MODEL_AS_USUAL ? usual : choice == ATTN_MODEL_YES;
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
                               .attention_dropout_p = (double)NAN,
                               .norm_epsilon = 1e-5,
                               .rotary_base = 10000,
                               .bias = true,
                               .num_buckets = 32,
                               .bucket_distance = 128,
                               .pad = 0,
                               .begin = 1,
                               .end = 2};
}

/* Returns whether both configurations have the same value of the setting. */
static bool has_same(const attn_model_setting *s, const attn_model_config *a,
                     const attn_model_config *b) {
    static const size_t sizes[] = {[ATTN_SETTING_WORD] = sizeof(int),
                                   [ATTN_SETTING_SIZE] = sizeof(size_t),
                                   [ATTN_SETTING_REAL] = sizeof(double),
                                   [ATTN_SETTING_FLAG] = sizeof(bool),
                                   [ATTN_SETTING_LAYERS] = sizeof(attn_model_layers)};
    return !memcmp((const char *)a + s->offset, (const char *)b + s->offset, sizes[s->kind]);
}

bool attn_model_has_setting(const attn_model_config *c, const attn_model_setting *s) {
    const attn_model_config standard = attn_model_defaults();
    const bool changed =
        s->of == ATTN_OF_CHANGED || s->of == ATTN_OF_KNOWN || s->of == ATTN_OF_FIXED;
    return s->of == ATTN_OF_ALL || (changed && !has_same(s, c, &standard)) ||
           (s->of == ATTN_OF_ENCODERS && attn_model_has_encoder(c)) ||
           (s->of == ATTN_OF_TRANSFORMERS && c->architecture != ATTN_MODEL_SEQ2SEQ) ||
           (s->of == ATTN_OF_SEQ2SEQ && c->architecture == ATTN_MODEL_SEQ2SEQ) ||
           (s->of == ATTN_OF_BLOCK && c->attention == ATTN_MODEL_BLOCK) ||
           (s->of == ATTN_OF_GLOBAL && c->attention == ATTN_MODEL_GLOBAL);
}

static attn_status check_word(const attn_model_setting *s, int value, attn_error *err) {
    int count = 0;
    while (s->words[count])
        count++;
    return value >= 0 && value < count
               ? ATTN_OK
               : attn_fail(err, ATTN_EARG, s->name, "there is no number %d of it", value);
}

/* Checks that the value of a setting in `c` is in the range of the setting, or equal to the default
 * value, which `standard` has. */
static attn_status check_setting(const attn_model_setting *s, const attn_model_config *c,
                                 const attn_model_config *standard, attn_error *err) {
    const char *at = (const char *)c + s->offset;
    if (s->kind == ATTN_SETTING_WORD)
        return check_word(s, *(const int *)at, err);
    if (s->kind == ATTN_SETTING_FLAG || s->kind == ATTN_SETTING_LAYERS || has_same(s, c, standard))
        return ATTN_OK;
    const double value =
        s->kind == ATTN_SETTING_SIZE ? (double)*(const size_t *)at : *(const double *)at;
    return value >= s->least && value <= s->most
               ? ATTN_OK
               : attn_fail(err, ATTN_EARG, s->name, "expected %.9g to %.9g, found %.9g", s->least,
                           s->most, value);
}
static attn_status check_settings(const attn_model_config *c, attn_error *err) {
    const attn_model_config standard = attn_model_defaults();
    for (const attn_model_setting *s = attn_model_settings; s->name; s++)
        ATTN_TRY(check_setting(s, c, &standard, err));
    return ATTN_OK;
}

/* Checks the sizes of the vocabularies, which have no default. */
static attn_status check_vocabularies(const attn_model_config *c, attn_error *err) {
    const bool source = !c->source_vocabulary && attn_model_has_encoder(c);
    if (!source && c->target_vocabulary)
        return ATTN_OK;
    return attn_fail(err, ATTN_EARG, source ? "source_vocabulary" : "target_vocabulary",
                     "expected the number of its ids");
}

/* Checks that an id is in every vocabulary that the model reads or writes. */
static attn_status check_id(int32_t id, const attn_model_config *c, const char *where,
                            attn_error *err) {
    const size_t source = attn_model_has_encoder(c) ? c->source_vocabulary : SIZE_MAX;
    const size_t least = source < c->target_vocabulary ? source : c->target_vocabulary;
    if ((id >= 0 && (size_t)id < least) || (c->any_ids && id == -1))
        return ATTN_OK;
    return attn_fail(err, ATTN_EARG, where, "expected an id of both vocabularies, found %d",
                     (int)id);
}

/* Checks that the architecture can have this kind of attention. */
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
            attn_model_attentions[c->attention]);
    return ATTN_OK;
}

/* Checks that a seq2seq model has only options that models with LSTMs have, and at most
 * ATTN_LSTM_LAYERS layers. */
static attn_status check_lstm_options(const attn_model_config *c, attn_error *err) {
    const char *where = c->positions == ATTN_MODEL_ROTARY ? "positions" : NULL;
    if (c->architecture != ATTN_MODEL_SEQ2SEQ)
        return ATTN_OK;
    for (const attn_model_setting *s = attn_model_settings; !where && s->name; s++)
        if ((s->of == ATTN_OF_CHANGED || s->of == ATTN_OF_KNOWN || s->of == ATTN_OF_FIXED) &&
            attn_model_has_setting(c, s))
            where = s->name;
    if (!where && c->norm >= ATTN_MODEL_NORM_AROUND)
        where = "norm";
    if (!where && c->positions == ATTN_MODEL_T5)
        where = "positions";
    if (where)
        return attn_fail(err, ATTN_EARG, where,
                         "a seq2seq model has no such option: choose another architecture");
    if (c->num_layers > ATTN_LSTM_LAYERS)
        return attn_fail(err, ATTN_EARG, "num_layers", "expected 1 to %d, found %zu",
                         ATTN_LSTM_LAYERS, c->num_layers);
    return ATTN_OK;
}

static attn_status check_heads(const attn_model_config *c, attn_error *err) {
    const size_t E = c->head_width ? c->head_width : c->width / c->num_heads;
    const size_t turned = c->rotary_dims ? c->rotary_dims : E;
    if (c->num_heads > c->width && !c->head_width)
        return attn_fail(err, ATTN_EARG, "num_heads", "expected 1 to %zu, found %zu", c->width,
                         c->num_heads);
    if (c->width % c->num_heads && !c->head_width)
        return attn_fail(err, ATTN_EARG, "num_heads", "%zu heads do not divide a width of %zu",
                         c->num_heads, c->width);
    if (c->num_kv_heads && (c->num_heads % c->num_kv_heads || c->num_kv_heads > c->num_heads))
        return attn_fail(err, ATTN_EARG, "num_kv_heads", "%zu of them do not divide %zu heads",
                         c->num_kv_heads, c->num_heads);
    if (c->num_kv_heads && c->positions == ATTN_MODEL_SHAW)
        return attn_fail(err, ATTN_EARG, "num_kv_heads",
                         "Shaw's positions have as many heads of keys as of queries");
    if (c->positions == ATTN_MODEL_ROTARY && (turned % 2 || turned > E))
        return attn_fail(err, ATTN_EARG, c->rotary_dims ? "rotary_dims" : "positions",
                         "rotary positions turn pairs of a head's coordinates: expected an even "
                         "number up to the width of a head, %zu, found %zu",
                         E, turned);
    return ATTN_OK;
}

/* Checks settings of positions and of layers that only some models support. */
static attn_status check_layers(const attn_model_config *c, attn_error *err) {
    const bool rotary = c->positions == ATTN_MODEL_ROTARY;
    const attn_scaling_kind none = ATTN_SCALING_NONE;
    if (c->parallel &&
        (c->norm != ATTN_MODEL_NORM_BEFORE || c->architecture == ATTN_MODEL_TRANSFORMER))
        return attn_fail(err, ATTN_EARG, "parallel",
                         "feed-forward beside attention needs one stack, with norms before");
    const bool embedded = c->positions == ATTN_MODEL_SINUSOIDAL ||
                          c->positions == ATTN_MODEL_LEARNED ||
                          c->positions == ATTN_MODEL_NO_POSITIONS;
    if (c->bucket_bias && !embedded)
        return attn_fail(err, ATTN_EARG, "bucket_bias", "attention has another kind of position");
    if (!rotary && (unsigned)c->rotary_scaling != (unsigned)none)
        return attn_fail(err, ATTN_EARG, "rotary_scaling", "only rotary positions are scaled");
    if (c->num_layer_groups > c->num_layers)
        return attn_fail(err, ATTN_EARG, "num_layer_groups", "expected at most %zu, found %zu",
                         c->num_layers, c->num_layer_groups);
    if (c->num_layer_groups && (c->window || c->skips_first_norm))
        return attn_fail(err, ATTN_EARG, "num_layer_groups",
                         "layers that share their parameters are alike: expected no window");
    if (c->num_decoder_layers && c->architecture != ATTN_MODEL_TRANSFORMER)
        return attn_fail(err, ATTN_EARG, "num_decoder_layers", "the model has one stack");
    if (c->embedding_width && c->positions == ATTN_MODEL_SINUSOIDAL)
        return attn_fail(err, ATTN_EARG, "embedding_width",
                         "sinusoidal positions have the width of the model");
    return ATTN_OK;
}

static attn_status check_head(const attn_model_config *c, attn_error *err) {
    if (c->head != ATTN_MODEL_TOKENS && c->architecture != ATTN_MODEL_ENCODER)
        return attn_fail(err, ATTN_EARG, "head",
                         "only an encoder can be pooled or name masked words: expected \"tokens\"");
    if (c->headless && (c->tied || c->head == ATTN_MODEL_POOLED))
        return attn_fail(err, ATTN_EARG, "headless", "a model without logits has no head");
    if (c->tied && c->head == ATTN_MODEL_POOLED)
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
    const bool halves = c->architecture == ATTN_MODEL_SEQ2SEQ ||
                        (c->positions == ATTN_MODEL_SINUSOIDAL && c->width % 2);
    if (halves && c->width % 2)
        return attn_fail(
            err, ATTN_EARG, "width",
            "the two directions of an LSTM, and sine and cosine of positions, have half "
            "of it each: expected an even number, found %zu",
            c->width);
    ATTN_TRY(check_heads(c, err));
    ATTN_TRY(check_attention(c, err));
    ATTN_TRY(check_lstm_options(c, err));
    ATTN_TRY(check_layers(c, err));
    ATTN_TRY(check_head(c, err));
    ATTN_TRY(check_id(c->pad, c, "pad", err));
    ATTN_TRY(check_id(c->begin, c, "begin", err));
    ATTN_TRY(check_id(c->end, c, "end", err));
    if (!c->any_ids && (c->pad == c->begin || c->pad == c->end || c->begin == c->end))
        return attn_fail(err, ATTN_EARG, "pad", "pad, begin and end must be three different ids");
    return ATTN_OK;
}

attn_status attn_models_check_config(const attn_model_config *c, attn_error *err) {
    ATTN_TRY(check_settings(c, err));
    ATTN_TRY(check_vocabularies(c, err));
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
    ATTN_TRY(attn_ids_check(batch->source + b * S, S, c->source_vocabulary, where, err));
    if (!batch->source_segments)
        return ATTN_OK;
    snprintf(where, sizeof where, "source_segments/%zu", b);
    return attn_ids_check(batch->source_segments + b * S, S, c->num_segments ? c->num_segments : 1,
                          where, err);
}

attn_status attn_models_check_source(const attn_model *model, const attn_batch *batch,
                                     attn_error *err) {
    ATTN_TRY(check_length(batch->S, model, "source", err));
    if (!batch->B || !batch->S)
        return attn_fail(err, ATTN_ESHAPE, "source", "expected at least one token");
    for (size_t b = 0; b < batch->B; b++)
        ATTN_TRY(check_sequence(model, batch, b, err));
    return check_keep(batch->source_keep, batch->B, batch->S, err);
}

attn_status attn_models_check_prompts(const attn_model *model, const attn_batch *batch,
                                      size_t least, attn_error *err) {
    ATTN_TRY(check_length(batch->S, model, "source", err));
    if (!batch->B)
        return attn_fail(err, ATTN_ESHAPE, "source", "expected at least one prompt");
    for (size_t b = 0; b < batch->B; b++) {
        char where[64];
        snprintf(where, sizeof where, "source_lengths/%zu", b);
        if (batch->source_lengths[b] < (int64_t)least ||
            (size_t)batch->source_lengths[b] > batch->S)
            return attn_fail(err, ATTN_EVALUE, where, "expected %zu to %zu, found %lld", least,
                             batch->S, (long long)batch->source_lengths[b]);
        snprintf(where, sizeof where, "source/%zu", b);
        ATTN_TRY(attn_ids_check(batch->source + b * batch->S, batch->S,
                                model->config.target_vocabulary, where, err));
    }
    return ATTN_OK;
}

attn_status attn_models_check_target(const attn_model *model, const int32_t *target, size_t B,
                                     size_t T, const char *name, attn_error *err) {
    char where[64];
    ATTN_TRY(check_length(T, model, name, err));
    if (!B || !T)
        return attn_fail(err, ATTN_ESHAPE, name, "expected at least one token");
    for (size_t b = 0; b < B; b++) {
        snprintf(where, sizeof where, "%s/%zu", name, b);
        ATTN_TRY(attn_ids_check(target + b * T, T, model->config.target_vocabulary, where, err));
    }
    return ATTN_OK;
}
