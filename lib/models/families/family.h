/* Families of models that people know. A family is a table: what the keys of its configuration mean,
 * which of its tensors are which parameters, and what it always is. Configurations are those of the
 * library transformers (config.json) and the metadata of GGUF files, both as JSON objects. */
#ifndef ATTN_FAMILY_H
#define ATTN_FAMILY_H

#include "models/model_private.h"
#include "json/json_tree.h"

/* What a model of a family is read from, and what of it the keys say. */
typedef struct known_config {
    const attn_json *all;     /* the object of the keys */
    attn_model_config config; /* what is read so far */
    bool gguf;                /* the keys are metadata of a GGUF file */
    bool layer_types;         /* the keys name the layers with windows one by one */
    /* factors of longrope, lists of numbers; NULL: there are none, or tensors hold them */
    const attn_json *short_factor, *long_factor;
} known_config;

/* A row of a table of keys. The value of the key goes to the setting `to`, as its text says
 * (model_config.h): numbers, words, or true and false as "yes" and "no" of a choice. A key that is
 * absent or null has the value `standard`, a text; NULL: the key is required.
 *
 *   no key       the setting always has the value `standard`
 *   `read`       the function reads the value, which is NULL if the key is absent
 *   no `to` and no `read`
 *                the value changes nothing; or with `standard` it must be this value, since another
 *                one changes the arithmetic in a way that the block does not have */
typedef struct family_key {
    const char *json, *gguf; /* the key in config.json; in GGUF behind "<architecture>." */
    const char *to, *standard;
    attn_status (*read)(known_config *k, const attn_json *value, attn_error *err);
} family_key;

/* ROW(json, gguf, to, standard) and ROW(json, gguf, .read = function); members at the end may be left
 * out. */
#define ROW(first, ...)                                                                            \
    { .json = first, __VA_ARGS__ }

/* How a tensor of a file becomes a parameter; bits of family_tensor.how. */
enum {
    TURNED = 1,   /* safetensors: the matrix has the axes [columns, rows] */
    ONE_PLUS = 2, /* safetensors: 1 is added to every number */
    PAIRED = 4,   /* GGUF: rows of a head stand in the order of interleaved rotary positions */
    BY_HEAD = 8, /* the parts of a tensor alternate by heads: q, k and v of head 0, of head 1, … */
    COPIED = 16,   /* the model has a copy of the matrix */
    WHOLE = 32,    /* both names are complete, without ".weight" or ".bias" */
    PART_ONE = 64, /* rows of several parameters stand in one tensor; this is the first of them */
    PART_TWO = 128,
    PART_THREE = 256,
    PARTS = PART_ONE | PART_TWO | PART_THREE,
};

/* A row of a table of tensors: names without ".weight" and ".bias", in which `*` stands for the
 * number of a layer. gguf NULL: GGUF files have no such tensor. ours NULL: tensors of this complete
 * name (`*` stands for any text) are not used. */
typedef struct family_tensor {
    const char *theirs, *gguf, *ours;
    unsigned how;
} family_tensor;

#define TENSOR(first, ...)                                                                         \
    { .theirs = first, __VA_ARGS__ }

typedef struct attn_family {
    const char *name;
    const char *types[4]; /* model_type of config.json; NULL ends the list */
    const char *gguf;     /* general.architecture of GGUF files, or NULL */
    const char
        *prefix; /* begins the names of tensors unless the model was saved without its head */
    /* The tensor that only models with a head have, its stem in both kinds of files. If it is absent
     * and the head is not tied, the model is headless. */
    const char *head, *gguf_head;
    const family_key *const *keys;       /* tables of keys; NULL ends the list */
    const family_tensor *const *tensors; /* tables of tensors; NULL ends the list */
} attn_family;

/* All families; NULL ends the list. */
extern const attn_family *const attn_families[];

/* Returns the family of a configuration, or NULL. */
const attn_family *attn_family_of(const char *type, bool gguf);
/* Reads the keys of a configuration. Errors: ATTN_EARG (a key is missing or has no fitting value),
 * ATTN_EUNSUPPORTED (a key changes the arithmetic, or is unknown); err->where is the key. */
attn_status attn_family_configure(const attn_family *family, known_config *k, attn_error *err);

/* For functions of a table that do not read all of their arguments. */
#define ATTN_IGNORED(value, err) ((void)(value), (void)(err))

/* Adds layer l to a set, or takes it away; one beyond the bits of a set does not count. */
void attn_layers_set(attn_model_layers *set, size_t l, bool has);
/* Returns the number of layers that a set may have. */
size_t attn_layers_count(const known_config *k);

/* --- keys that several families have --- */

extern const family_key attn_keys_common[]; /* keys that change nothing in any family */
extern const family_key attn_keys_decoder[], attn_keys_encoder[];
attn_status attn_read_rope(known_config *k, const attn_json *value, attn_error *err);
attn_status attn_read_rope_type(known_config *k, const attn_json *value, attn_error *err);
attn_status attn_read_layer_types(known_config *k, const attn_json *value, attn_error *err);
attn_status attn_read_unplaced(known_config *k, const attn_json *value, attn_error *err);
attn_status attn_read_window(known_config *k, const attn_json *value, attn_error *err);
attn_status attn_read_window_on(known_config *k, const attn_json *value, attn_error *err);
attn_status attn_read_full_from(known_config *k, const attn_json *value, attn_error *err);
attn_status attn_read_rotary_part(known_config *k, const attn_json *value, attn_error *err);
attn_status attn_read_score_divisor(known_config *k, const attn_json *value, attn_error *err);
attn_status attn_read_pad_offset(known_config *k, const attn_json *value, attn_error *err);
attn_status attn_read_decoder_heads(known_config *k, const attn_json *value, attn_error *err);
attn_status attn_read_decoder_feed(known_config *k, const attn_json *value, attn_error *err);
attn_status attn_read_scale_embedding(known_config *k, const attn_json *value, attn_error *err);

/* Keys and tensors of Llama, which many decoders have, and its tables without some of them. */
extern const family_key attn_keys_llama[];
extern const family_tensor attn_tensors_llama[], attn_tensors_llama_outer[];

/* Layers as BERT names them, behind `p`. */
#define BERT_LAYER_TENSORS(p)                                                                      \
    TENSOR(p "layer.*.attention.self.query", NULL, "encoder.layers.*.self_attn.W_q"),              \
        TENSOR(p "layer.*.attention.self.key", NULL, "encoder.layers.*.self_attn.W_k"),            \
        TENSOR(p "layer.*.attention.self.value", NULL, "encoder.layers.*.self_attn.W_v"),          \
        TENSOR(p "layer.*.attention.output.dense", NULL, "encoder.layers.*.self_attn.W_o"),        \
        TENSOR(p "layer.*.attention.output.LayerNorm", NULL, "encoder.layers.*.norm1"),            \
        TENSOR(p "layer.*.intermediate.dense", NULL, "encoder.layers.*.linear1"),                  \
        TENSOR(p "layer.*.output.dense", NULL, "encoder.layers.*.linear2"),                        \
        TENSOR(p "layer.*.output.LayerNorm", NULL, "encoder.layers.*.norm2")

/* Embeddings as BERT names them. */
#define BERT_EMBEDDING_TENSORS(p)                                                                  \
    TENSOR(p "word_embeddings", NULL, "src_embedding"),                                            \
        TENSOR(p "position_embeddings", NULL, "pos_encoding.position_embeddings"),                 \
        TENSOR(p "token_type_embeddings", NULL, "seg_embedding"),                                  \
        TENSOR(p "LayerNorm", NULL, "src_embedding_norm"), TENSOR(p "position_ids")

/* The head of masked words behind `p`, with its names of the matrix and of the norm. Files of tied
 * models repeat the matrix and the bias under the names of a decoder. */
#define MASKED_HEAD_TENSORS(p, dense, norm)                                                        \
    TENSOR(p dense, NULL, "head_dense"), TENSOR(p norm, NULL, "head_norm"),                        \
        TENSOR(p "decoder", NULL, "output_projection"),                                            \
        TENSOR(p "bias", NULL, "output_projection.bias", WHOLE), TENSOR(p "decoder.*"),            \
        TENSOR(p "bias")

/* Sizes and norms as BERT names them. */
#define BERT_KEYS                                                                                  \
    ROW("vocab_size", NULL, "target_vocabulary"), ROW("hidden_size", NULL, "width"),               \
        ROW("num_hidden_layers", NULL, "num_layers"),                                              \
        ROW("num_attention_heads", NULL, "num_heads"),                                             \
        ROW("intermediate_size", NULL, "feed_forward"),                                            \
        ROW("hidden_act", NULL, "activation", "gelu"),                                             \
        ROW("max_position_embeddings", NULL, "max_length", "512"),                                 \
        ROW("layer_norm_eps", NULL, "norm_epsilon", "1e-12"),                                      \
        ROW("tie_word_embeddings", NULL, "tied", "true"),                                          \
        ROW("position_embedding_type", .standard = "absolute")

#endif
