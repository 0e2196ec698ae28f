/* Keys that several families have, and functions that read values that are lists or objects. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "models/families/family.h"

/* Keys without an effect on a pass: training, generation, labels and notes. */
const family_key attn_keys_common[] = {
    ROW("model_type"),
    ROW("architectures"),
    ROW("transformers_version"),
    ROW("dtype"),
    ROW("torch_dtype"),
    ROW("_name_or_path"),
    ROW("_attn_implementation_autoset"),
    ROW("use_cache"),
    ROW("bos_token_id"),
    ROW("eos_token_id"),
    ROW("pad_token_id"),
    ROW("sep_token_id"),
    ROW("cls_token_id"),
    ROW("mask_token_id"),
    ROW("decoder_start_token_id"),
    ROW("forced_bos_token_id"),
    ROW("forced_eos_token_id"),
    ROW("bad_words_ids"),
    ROW("num_beams"),
    ROW("max_length"),
    ROW("length_penalty"),
    ROW("early_stopping"),
    ROW("no_repeat_ngram_size"),
    ROW("task_specific_params"),
    ROW("tokenizer_class"),
    ROW("unk_token_id"),
    ROW("initializer_range"),
    ROW("gradient_checkpointing"),
    ROW("id2label"),
    ROW("label2id"),
    ROW("num_labels"),
    ROW("problem_type"),
    ROW("output_attentions"),
    ROW("output_hidden_states"),
    ROW("output_past"),
    ROW("return_dict"),
    ROW("chunk_size_feed_forward"),
    ROW("is_encoder_decoder"),
    ROW("classifier_dropout"),
    ROW("attention_dropout"),
    ROW("attention_probs_dropout_prob"),
    ROW("hidden_dropout_prob"),
    ROW("hidden_dropout"),
    ROW("dropout"),
    ROW("activation_dropout"),
    ROW("resid_pdrop"),
    ROW("embd_pdrop"),
    ROW("attn_pdrop"),
    ROW("dropout_rate"),
    ROW("embedding_dropout"),
    ROW("mlp_dropout"),
    ROW("qa_dropout"),
    ROW("seq_classif_dropout"),
    ROW("classif_dropout"),
    ROW("classifier_dropout_prob"),
    ROW("classifier_pooling"),
    ROW("encoder_layerdrop"),
    ROW("decoder_layerdrop"),
    ROW("init_std"),
    ROW("initializer_factor"),
    ROW("initializer_cutoff_factor"),
    ROW("force_bos_token_to_be_generated"),
    ROW("cache_implementation"),
    ROW("deterministic_flash_attn"),
    ROW("reference_compile"),
    ROW("repad_logits_with_grad"),
    ROW("sparse_prediction"),
    ROW("sparse_pred_ignore_index"),
    ROW("summary_type"),
    ROW("summary_use_proj"),
    ROW("summary_activation"),
    ROW("summary_proj_to_labels"),
    ROW("summary_first_dropout"),
    ROW("summary_last_dropout"),
    ROW("pretraining_tp", .standard = "1"),
    ROW("is_decoder", .standard = "false"),
    ROW("add_cross_attention", .standard = "false"),
    ROW("cross_attention_hidden_size", .standard = "null"),
    ROW("quantization_config", .standard = "null"),
    ROW("pruned_heads", .standard = "{}"),
    END,
};

/* Settings that decoders like Llama have in common. */
const family_key attn_keys_decoder[] = {
    ALWAYS("architecture", "decoder"),
    ALWAYS("norm", "before"),
    ALWAYS("separate", "true"),
    ALWAYS("embedding_scale", "1"),
    END,
};

/* Settings that encoders like BERT have in common. */
const family_key attn_keys_encoder[] = {
    ALWAYS("architecture", "encoder"), ALWAYS("norm", "after"),
    ALWAYS("separate", "true"),        ALWAYS("embedding_scale", "1"),
    ALWAYS("embedding_norm", "true"),  ALWAYS("positions", "learned"),
    ALWAYS("head", "masked"),          ALWAYS("head_activation", "gelu"),
    ALWAYS("logits_bias", "yes"),      END,
};

/* Sizes and norms as BERT names them. */
const family_key attn_keys_bert[] = {
    ROW("vocab_size", "target_vocabulary"),
    ROW("hidden_size", "width"),
    ROW("num_hidden_layers", "num_layers"),
    ROW("num_attention_heads", "num_heads"),
    ROW("intermediate_size", "feed_forward"),
    ROW("hidden_act", "activation", "gelu"),
    ROW("max_position_embeddings", "max_length", "512"),
    ROW("layer_norm_eps", "norm_epsilon", "1e-12"),
    ROW("tie_word_embeddings", "tied", "true"),
    ROW("position_embedding_type", .standard = "absolute"),
    END,
};

/* Settings and keys that models with encoder and decoder have in common. */
const family_key attn_keys_seq2seq[] = {
    ROW("vocab_size", "target_vocabulary"),
    ROW("d_model", "width"),
    ROW("tie_word_embeddings", "tied", "true"),
    ALWAYS("architecture", "transformer"),
    ALWAYS("separate", "true"),
    END,
};

#define READER(name)                                                                               \
    attn_status name(known_config *k, const family_key *row, const attn_json *value,               \
                     attn_error *err)

/* --- rotary positions --- */

static attn_status not_a(const char *key, const char *expected, attn_error *err) {
    return attn_fail(err, ATTN_EARG, key, "expected %s", expected);
}

/* A key of the object that describes the scaling of rotary positions, and its setting. */
typedef struct scaling_key {
    const char *key;
    size_t offset; /* offset of a double in attn_model_config */
} scaling_key;

#define KEY(name, member)                                                                          \
    { name, offsetof(attn_model_config, member) }
static const scaling_key scaling_keys[] = {
    KEY("factor", rotary_factor),
    KEY("beta_fast", rotary_beta_fast),
    KEY("beta_slow", rotary_beta_slow),
    KEY("mscale", rotary_mscale),
    KEY("mscale_all_dim", rotary_mscale_all_dim),
    KEY("low_freq_factor", rotary_low_freq_factor),
    KEY("high_freq_factor", rotary_high_freq_factor),
    KEY("attention_factor", rotary_attention_factor),
    {0},
};
#undef KEY

static bool number_of(attn_json *object, const char *key, double *out) {
    const attn_json *value = attn_json_member(object, key);
    if (!value || value->kind != ATTN_JSON_NUMBER)
        return false;
    *out = value->number;
    return true;
}

/* Reads the kind of scaling; "default" means no scaling. */
static attn_status read_kind(known_config *k, attn_json *object, attn_error *err) {
    const attn_json *kind = attn_json_member(object, "rope_type");
    const attn_json *old = attn_json_member(object, "type");
    kind = kind ? kind : old;
    if (!kind || (kind->kind == ATTN_JSON_STRING && !strcmp(kind->text, "default")))
        return ATTN_OK;
    const char *text = kind->kind != ATTN_JSON_STRING ? ""
                       : !strcmp(kind->text, "su")    ? "longrope"
                                                      : kind->text;
    for (int i = 0; attn_model_scalings[i]; i++)
        if (!strcmp(text, attn_model_scalings[i])) {
            k->config.rotary_scaling = (attn_model_scaling)i;
            return ATTN_OK;
        }
    return attn_fail(err, ATTN_EUNSUPPORTED, "rope_type",
                     "\"%.40s\" of rope_type is not implemented", text);
}

/* Sets the factor of longrope: the ratio of the longest text to the longest text of the
 * training. */
static void set_longrope(known_config *k, attn_json *object) {
    attn_model_config *c = &k->config;
    const attn_json *original =
        attn_json_member((attn_json *)(uintptr_t)k->all, "original_max_position_embeddings");
    k->short_factor = attn_json_member(object, "short_factor");
    k->long_factor = attn_json_member(object, "long_factor");
    if (c->rotary_scaling != ATTN_MODEL_LONGROPE)
        return;
    int64_t length;
    if (original && attn_json_integer(original, 2, 1 << 20, &length))
        c->rotary_original_length = (size_t)length;
    if (c->rotary_original_length)
        c->rotary_factor = fmax((double)c->max_length / (double)c->rotary_original_length, 1);
}

/* Reads an object of rotary parameters. rope_theta is stored in *theta. */
static attn_status read_parameters(known_config *k, attn_json *object, double *theta,
                                   attn_error *err) {
    attn_model_config *c = &k->config;
    double part = 1, length = 0;
    bool truncate = true;
    if (object->kind != ATTN_JSON_OBJECT)
        return not_a("rope_parameters", "an object", err);
    ATTN_TRY(read_kind(k, object, err));
    number_of(object, "rope_theta", theta);
    for (const scaling_key *row = scaling_keys; row->key; row++)
        number_of(object, row->key, (double *)((char *)c + row->offset));
    if (number_of(object, "original_max_position_embeddings", &length) && length >= 1 &&
        length < 1e9)
        c->rotary_original_length = (size_t)length;
    else if (!c->rotary_original_length)
        c->rotary_original_length = c->max_length;
    const attn_json *truncates = attn_json_member(object, "truncate");
    truncate = !truncates || truncates->kind != ATTN_JSON_BOOL || truncates->truth;
    c->rotary_unrounded = !truncate;
    if (number_of(object, "partial_rotary_factor", &part) && part > 0 && part < 1) {
        const size_t heads = c->num_heads ? c->num_heads : 1;
        const size_t E = c->head_width ? c->head_width : c->width / heads;
        c->rotary_dims = (size_t)((double)E * part);
    }
    set_longrope(k, object);
    for (attn_json *m = object->first; m; m = m->next)
        m->known = m->known || m->kind == ATTN_JSON_NULL;
    const attn_json *unknown = attn_json_unknown(object);
    return unknown ? attn_fail(err, ATTN_EUNSUPPORTED, unknown->key,
                               "\"%.60s\" of rotary positions is not implemented", unknown->key)
                   : ATTN_OK;
}

/* Reads the rotary parameters of full and of sliding layers, which are an object each. */
static attn_status read_both(known_config *k, attn_json *full, attn_json *local, attn_error *err) {
    attn_model_config *c = &k->config;
    c->rotary_scaling = ATTN_MODEL_NO_SCALING;
    if (local) {
        ATTN_TRY(read_parameters(k, local, &c->local_rotary_base, err));
        if (c->rotary_scaling)
            return attn_fail(err, ATTN_EUNSUPPORTED, "rope_parameters",
                             "scaled rotary positions of sliding layers are not implemented");
    }
    return full ? read_parameters(k, full, &c->rotary_base, err) : ATTN_OK;
}

READER(attn_read_rope) {
    attn_json *object = (attn_json *)(uintptr_t)value;
    if (!value)
        return ATTN_OK;
    if (value->kind != ATTN_JSON_OBJECT)
        return not_a(row->key, "an object", err);
    attn_json *full = attn_json_member(object, "full_attention"),
              *local = attn_json_member(object, "sliding_attention");
    return full || local ? read_both(k, full, local, err)
                         : read_parameters(k, object, &k->config.rotary_base, err);
}

/* Reads the kind of scaling of a GGUF file. The numbers of the scaling have keys of their own. */
READER(attn_read_rope_type) {
    if (!value || (value->kind == ATTN_JSON_STRING && !strcmp(value->text, "none")))
        return ATTN_OK;
    if (value->kind != ATTN_JSON_STRING ||
        !attn_models_set(
            &(attn_model_setting){.kind = ATTN_SETTING_WORD,
                                  .offset = offsetof(attn_model_config, rotary_scaling),
                                  .words = attn_model_scalings},
            &k->config, value->text))
        return attn_fail(err, ATTN_EUNSUPPORTED, row->key, "this scaling is not implemented");
    return ATTN_OK;
}

/* --- sets of layers --- */

void attn_layers_set(attn_model_layers *set, size_t l, bool has) {
    const uint64_t bit = (uint64_t)1 << l % 64;
    if (l / 64 < ATTN_MODEL_LAYER_WORDS)
        set->bits[l / 64] = has ? set->bits[l / 64] | bit : set->bits[l / 64] & ~bit;
}

size_t attn_layers_count(const known_config *k) {
    const size_t most = 64 * ATTN_MODEL_LAYER_WORDS;
    return k->config.num_layers < most ? k->config.num_layers : most;
}

READER(attn_read_layer_types) {
    size_t l = 0;
    if (!value)
        return ATTN_OK;
    if (value->kind != ATTN_JSON_LIST || value->count != k->config.num_layers)
        return not_a(row->key, "a list with a word for each layer", err);
    k->config.windowed_layers = (attn_model_layers){{0}};
    k->layer_types = true;
    for (const attn_json *word = value->first; word; word = word->next, l++) {
        const bool slides =
            word->kind == ATTN_JSON_STRING && !strcmp(word->text, "sliding_attention");
        if (slides)
            attn_layers_set(&k->config.windowed_layers, l, true);
        else if (word->kind != ATTN_JSON_STRING || strcmp(word->text, "full_attention"))
            return attn_fail(err, ATTN_EUNSUPPORTED, row->key,
                             "expected \"full_attention\" or \"sliding_attention\"");
    }
    return ATTN_OK;
}

/* Reads no_rope_layers: a list with 0 for each layer without positions. */
READER(attn_read_unplaced) {
    size_t l = 0;
    if (!value)
        return ATTN_OK;
    if (value->kind != ATTN_JSON_LIST || value->count != k->config.num_layers)
        return not_a(row->key, "a list with 0 or 1 for each layer", err);
    for (const attn_json *n = value->first; n; n = n->next, l++)
        if (n->kind == ATTN_JSON_NUMBER && n->number == 0)
            attn_layers_set(&k->config.unplaced_layers, l, true);
    return ATTN_OK;
}

/* Reads sliding_window, which counts the query itself; 0 in a GGUF file means no window. Without
 * layer_types all layers have the window. */
READER(attn_read_window) {
    int64_t keys;
    if (!value || (k->gguf && value->kind == ATTN_JSON_NUMBER && value->number == 0))
        return ATTN_OK;
    if (!attn_json_integer(value, 2, 1 << 20, &keys))
        return not_a(row->key, "an integer from 2 on", err);
    k->config.window = (size_t)keys - 1;
    for (size_t l = 0; !k->layer_types && l < attn_layers_count(k); l++)
        attn_layers_set(&k->config.windowed_layers, l, true);
    return ATTN_OK;
}

/* Reads an integer. If the key is absent, the value is the standard of the row. */
static attn_status read_integer(const family_key *row, const attn_json *value, int64_t least,
                                int64_t most, int64_t *out, attn_error *err) {
    *out = row->standard ? strtol(row->standard, NULL, 10) : least;
    return !value || attn_json_integer(value, least, most, out)
               ? ATTN_OK
               : attn_fail(err, ATTN_EARG, row->key, "expected an integer from %lld to %lld",
                           (long long)least, (long long)most);
}

/* Reads a window that counts the keys on both sides of the query together. */
READER(attn_read_half_window) {
    int64_t keys;
    ATTN_TRY(read_integer(row, value, 2, 1 << 20, &keys, err));
    k->config.window = (size_t)keys / 2;
    return ATTN_OK;
}

/* Reads use_sliding_window. If it is false, no layer has a window, whatever sliding_window is. */
READER(attn_read_window_on) {
    if (value && value->kind != ATTN_JSON_BOOL)
        return not_a(row->key, "true or false", err);
    if (!value || !value->truth)
        k->config.windowed_layers = (attn_model_layers){{0}};
    return ATTN_OK;
}

/* Reads max_window_layers: the number of first layers that have no window. */
READER(attn_read_full_from) {
    int64_t first;
    ATTN_TRY(read_integer(row, value, 0, 1 << 20, &first, err));
    for (size_t l = 0; !k->layer_types && l < attn_layers_count(k) && l < (size_t)first; l++)
        attn_layers_set(&k->config.windowed_layers, l, false);
    return ATTN_OK;
}

static attn_status read_every(known_config *k, const family_key *row, const attn_json *value,
                              bool first, attn_error *err) {
    int64_t n;
    ATTN_TRY(read_integer(row, value, 1, 64, &n, err));
    for (size_t l = 0; !k->layer_types && l < attn_layers_count(k); l++)
        attn_layers_set(&k->config.windowed_layers, l, (l + !first) % (size_t)n != 0);
    return ATTN_OK;
}

READER(attn_read_every_first) {
    return read_every(k, row, value, true, err);
}
READER(attn_read_every_last) {
    return read_every(k, row, value, false, err);
}

/* --- numbers that become others --- */

/* Sets the setting of a row to a function of the value, a number above 0. */
static attn_status read_through(known_config *k, const family_key *row, const attn_json *value,
                                double (*function)(double), attn_error *err) {
    char text[32];
    if (!value && row->standard)
        return attn_family_set(k, row->key, row->to, row->standard, err);
    if (!value)
        return attn_fail(err, ATTN_EARG, row->key, "the configuration lacks the key %s", row->key);
    if (value->kind != ATTN_JSON_NUMBER || !(value->number > 0))
        return not_a(row->key, "a number above 0", err);
    snprintf(text, sizeof text, "%.17g", function(value->number));
    return attn_family_set(k, row->key, row->to, text, err);
}

static double inverse(double x) {
    return 1 / x;
}
static double inverse_root(double x) {
    return 1 / sqrt(x);
}
READER(attn_read_inverse) {
    return read_through(k, row, value, inverse, err);
}
READER(attn_read_inverse_root) {
    return read_through(k, row, value, inverse_root, err);
}

/* Reads which part of a head's width rotary positions turn. */
READER(attn_read_rotary_part) {
    attn_model_config *c = &k->config;
    if (!value)
        return ATTN_OK;
    if (value->kind != ATTN_JSON_NUMBER || !(value->number > 0 && value->number <= 1))
        return not_a(row->key, "a number above 0, at most 1", err);
    const size_t E = c->head_width ? c->head_width : c->num_heads ? c->width / c->num_heads : 0;
    c->rotary_dims = (size_t)((double)E * value->number);
    return ATTN_OK;
}

/* Reads the id of padding. Positions count from this id + 1, and the table has
 * max_position_embeddings rows in all. */
READER(attn_read_pad_offset) {
    int64_t pad = 1;
    if (value && !attn_json_integer(value, 0, 1000, &pad))
        return not_a(row->key, "an id below 1000", err);
    if (k->config.max_length < (size_t)pad + 3)
        return not_a("max_position_embeddings", "more rows than the ids up to that of padding",
                     err);
    k->config.position_offset = (size_t)pad + 1;
    k->config.max_length -= (size_t)pad + 1;
    return ATTN_OK;
}

/* Reads the width of embeddings. If it is the width of the model, there is no projection. */
READER(attn_read_embedding_width) {
    int64_t width;
    ATTN_TRY(read_integer(row, value, 1, 4096, &width, err));
    k->config.embedding_width = (size_t)width == k->config.width ? 0 : (size_t)width;
    return ATTN_OK;
}

/* Reads whether tokens see only earlier tokens. In a decoder they do, and in an encoder they do
 * not. */
READER(attn_read_causal) {
    const bool causal = !attn_model_has_encoder(&k->config);
    return !value || (value->kind == ATTN_JSON_BOOL && value->truth == causal)
               ? ATTN_OK
               : attn_fail(err, ATTN_EUNSUPPORTED, row->key, "expected %s in this family",
                           causal ? "true" : "false");
}

static attn_status read_same(const family_key *row, const attn_json *value, size_t encoder,
                             attn_error *err) {
    int64_t found;
    if (value && attn_json_integer(value, 0, 1 << 20, &found) && (size_t)found == encoder)
        return ATTN_OK;
    return attn_fail(err, ATTN_EUNSUPPORTED, row->key,
                     "a decoder of other sizes than the encoder is not implemented: expected %zu",
                     encoder);
}

READER(attn_read_decoder_heads) {
    return read_same(row, value, k->config.num_heads, err);
}
READER(attn_read_decoder_feed) {
    return read_same(row, value, k->config.feed_forward, err);
}

/* Reads whether embeddings are multiplied by sqrt(width). */
READER(attn_read_scale_embedding) {
    if (value && value->kind != ATTN_JSON_BOOL)
        return not_a(row->key, "true or false", err);
    k->config.embedding_scale = value && value->truth ? 0 : 1;
    return ATTN_OK;
}

/* Reads "relu", or "gated-" and an activation; "gated-gelu" is the approximation of GELU by
 * tanh. */
READER(attn_read_gated) {
    const char *text = value && value->kind == ATTN_JSON_STRING ? value->text : "relu";
    k->config.gated = !strncmp(text, "gated-", 6);
    text += k->config.gated ? 6 : 0;
    return attn_family_set(k, row->key, "activation",
                           k->config.gated && !strcmp(text, "gelu") ? "gelu_new" : text, err);
}

/* Reads whether logits are divided by sqrt(width). If the key is absent, they are if the model is
 * tied. */
READER(attn_read_root_scaled) {
    if (value && value->kind != ATTN_JSON_BOOL)
        return not_a(row->key, "true or false", err);
    k->config.logit_scale =
        (value ? value->truth : k->config.tied) ? 1 / sqrt((double)k->config.width) : 0;
    return ATTN_OK;
}
