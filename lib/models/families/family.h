/* Families of models that people know. A family is a table of facts: what the keys of its
 * configuration mean, which tensors are which parameters, and which settings are always the same.
 * Configurations are those of the library transformers (config.json) and the metadata of GGUF
 * files, both as JSON objects. */
#ifndef ATTN_FAMILY_H
#define ATTN_FAMILY_H

#include "models/model_private.h"
#include "json/json_tree.h"

/* A configuration that is being read: its keys, and the settings that follow from them. */
typedef struct known_config {
    const attn_json *all;     /* the object of the keys */
    attn_model_config config; /* the settings that have been read so far */
    bool gguf;                /* the keys are metadata of a GGUF file */
    bool layer_types;         /* the keys state for each layer whether it has a window */
    /* factors of longrope, lists of numbers; NULL: there are none, or tensors hold them */
    const attn_json *short_factor, *long_factor;
} known_config;

/* A row of a table of keys. The value of the key is stored in the setting `to` (model_config.h): a
 * number or a word, or true and false as "yes" and "no" of a choice. A key that is absent or null
 * has the value `standard`, a text. AS_IS: the setting does not change. NULL: the key is required.
 *
 *   no key       the setting always has the value `standard`
 *   `read`       the function reads the value, which is NULL if the key is absent
 *   no `to` and no `read`
 *                with `standard`, the value must be `standard`, since another value changes the
 *                arithmetic in a way that is not implemented; without it, the value has no effect */
typedef struct family_key {
    const char *key, *to, *standard;
    attn_status (*read)(known_config *k, const struct family_key *row, const attn_json *value,
                        attn_error *err);
} family_key;

#define AS_IS ""
/* ROW(key, to, standard) or ROW(key, .read = function); trailing members may be left out. */
#define ROW(name, ...)                                                                             \
    { .key = name, __VA_ARGS__ }
#define ALWAYS(setting, value)                                                                     \
    { .to = setting, .standard = value }
#define END                                                                                        \
    { 0 }

/* How a tensor of a file becomes a parameter; bits of family_tensor.how. */
enum {
    TURNED = 1,   /* the matrix has the axes [columns, rows] */
    ONE_PLUS = 2, /* 1 is added to every number */
    PAIRED = 4,   /* the rows of a head are in the order of interleaved rotary positions */
    BY_HEAD = 8, /* the parts of a tensor alternate by heads: q, k and v of head 0, of head 1, … */
    COPIED = 16, /* the model copies the matrix; others stay views of the file's tensors */
    WHOLE = 32,  /* both names are complete, without ".weight" or ".bias" */
    /* one tensor has the rows of several parameters; this parameter is the first of them */
    PART_ONE = 64,
    PART_TWO = 128,
    PART_THREE = 256,
    PARTS = PART_ONE | PART_TWO | PART_THREE,
};

/* A row of a table of tensors. Names lack ".weight" and ".bias", and `*` stands for the number of a
 * layer. ours NULL: tensors of this complete name are not used; `*` then stands for any text. If
 * several rows name the same parameter, the first row whose tensor is in the file counts. */
typedef struct family_tensor {
    const char *theirs, *ours;
    unsigned how;
} family_tensor;

#define TENSOR(first, ...)                                                                         \
    { .theirs = first, __VA_ARGS__ }

/* How a family reads one kind of files: tables of keys and of tensors. NULL ends each list. */
typedef struct family_tables {
    const family_key *const *keys;
    const family_tensor *const *tensors;
} family_tables;

#define KEYS(...)                                                                                  \
    (const family_key *const[]) {                                                                  \
        __VA_ARGS__, NULL                                                                          \
    }
#define TENSORS(...)                                                                               \
    (const family_tensor *const[]) {                                                               \
        __VA_ARGS__, NULL                                                                          \
    }

typedef struct attn_family {
    const char *name;
    const char *types[4]; /* model_type of config.json; NULL ends the list */
    /* prefix of the names of tensors, which is missing if the model was saved without its head */
    const char *prefix;
    /* Stem of the tensor that only models with a head have. If the tensor is absent and the head is
     * not tied, the model is headless. In GGUF files the stem is "output". */
    const char *head;
    family_tables folder; /* config.json and safetensors */
    /* GGUF files: general.architecture (NULL: the family has no GGUF files), and the tables for
     * such a file. Before its keys are read, the settings have the standard values of
     * config.json. */
    const char *architecture;
    family_tables gguf;
} attn_family;

/* All families; NULL ends the list. */
extern const attn_family *const attn_families[];

/* Returns the family of a configuration, by its model_type or its architecture in GGUF files; NULL:
 * no family has it. */
const attn_family *attn_family_of(const char *type, bool gguf);
/* Reads the keys of a configuration. Errors: ATTN_EARG (a key is missing or has no fitting value),
 * ATTN_EUNSUPPORTED (a key changes the arithmetic, or is unknown); err->where is the key. */
attn_status attn_family_configure(const attn_family *family, known_config *k, attn_error *err);

/* Sets a setting from the value of a key as text; NULL: the value is a list or an object. */
attn_status attn_family_set(known_config *k, const char *key, const char *setting, const char *text,
                            attn_error *err);

/* Adds layer l to a set, or removes it. Does nothing if l is beyond the bits of a set. */
void attn_layers_set(attn_model_layers *set, size_t l, bool has);
/* Returns the number of layers that a set may have. */
size_t attn_layers_count(const known_config *k);

/* --- words that several families have --- */

#define ENCODER "encoder.layers.*."
#define DECODER "decoder.layers.*."

/* Tables of keys. Keys of attn_keys_common have no effect in any family. */
extern const family_key attn_keys_common[], attn_keys_decoder[], attn_keys_encoder[];
extern const family_key attn_keys_bert[], attn_keys_llama[], attn_keys_qwen[];
extern const family_key attn_keys_seq2seq[], attn_keys_bart[], attn_keys_gguf[];

/* Functions that read values. Those that read numbers store them in the setting of their row. */
typedef attn_status attn_reader(known_config *k, const family_key *row, const attn_json *value,
                                attn_error *err);
attn_reader attn_read_inverse;      /* stores 1 / value */
attn_reader attn_read_inverse_root; /* stores 1 / sqrt(value) */
attn_reader attn_read_rope, attn_read_rope_type, attn_read_rotary_part;
attn_reader attn_read_layer_types, attn_read_unplaced;
attn_reader attn_read_window, attn_read_half_window, attn_read_window_on, attn_read_full_from;
/* Without layer_types, every n-th layer has no window: layers 0, n, … (first) or n - 1, 2n - 1, …
 * (last). */
attn_reader attn_read_every_first, attn_read_every_last;
attn_reader attn_read_pad_offset, attn_read_embedding_width, attn_read_causal;
attn_reader attn_read_decoder_heads, attn_read_decoder_feed, attn_read_scale_embedding;
attn_reader attn_read_gated, attn_read_root_scaled;

/* Tensors of decoders like Llama, and of BART. */
extern const family_tensor attn_tensors_llama[], attn_tensors_bart[];
/* Tensors of GGUF files, whose names are the same in all architectures. attn_gguf_paired has the
 * queries and keys of decoders with interleaved rotary positions, attn_gguf_decoder all tensors of
 * decoders with halves, and attn_gguf_encoder those of encoders. */
extern const family_tensor attn_gguf_paired[], attn_gguf_decoder[], attn_gguf_encoder[];

/* The four matrices of attention, whose names in the file are q, k, v and o behind the prefix
 * `p`. */
#define ATTENTION_TENSORS(p, q, k, v, o, ours)                                                     \
    TENSOR(p q, ours ".W_q"), TENSOR(p k, ours ".W_k"), TENSOR(p v, ours ".W_v"),                  \
        TENSOR(p o, ours ".W_o")
/* PACKED_THREE: one tensor with the matrices of queries, keys and values. PACKED_TWO: one tensor
 * with two matrices. */
#define PACKED_THREE(theirs, ours, how)                                                            \
    TENSOR(theirs, ours ".W_q", (how) | PART_ONE), TENSOR(theirs, ours ".W_k", (how) | PART_TWO),  \
        TENSOR(theirs, ours ".W_v", (how) | PART_THREE)
#define PACKED_TWO(theirs, one, two) TENSOR(theirs, one, PART_ONE), TENSOR(theirs, two, PART_TWO)

/* Embeddings as BERT names them. */
#define BERT_EMBEDDING_TENSORS(p)                                                                  \
    TENSOR(p "word_embeddings", "src_embedding"),                                                  \
        TENSOR(p "position_embeddings", "pos_encoding.position_embeddings"),                       \
        TENSOR(p "token_type_embeddings", "seg_embedding"),                                        \
        TENSOR(p "LayerNorm", "src_embedding_norm"), TENSOR(p "position_ids")

/* The tensors of a BERT layer that follow the matrices of its attention. */
#define BERT_FEED_TENSORS(p)                                                                       \
    TENSOR(p "intermediate.dense", ENCODER "linear1"),                                             \
        TENSOR(p "output.dense", ENCODER "linear2"), TENSOR(p "output.LayerNorm", ENCODER "norm2")
/* The tensors of layers as BERT names them, behind the prefix `p`. */
#define BERT_LAYER_TENSORS(p)                                                                      \
    ATTENTION_TENSORS(p "layer.*.attention.", "self.query", "self.key", "self.value",              \
                      "output.dense", ENCODER "self_attn"),                                        \
        TENSOR(p "layer.*.attention.output.LayerNorm", ENCODER "norm1"),                           \
        BERT_FEED_TENSORS(p "layer.*.")

/* The head of masked words: its matrix, its norm, and the logits. Files of tied models repeat the
 * matrix of the logits. */
#define MASKED_HEAD(dense, norm, logits)                                                           \
    TENSOR(dense, "head_dense"), TENSOR(norm, "head_norm"), TENSOR(logits, "output_projection"),   \
        TENSOR(logits ".weight")
/* The head of masked words behind the prefix `p`. Files repeat its bias. */
#define MASKED_HEAD_TENSORS(p, dense, norm)                                                        \
    MASKED_HEAD(p dense, p norm, p "decoder"), TENSOR(p "bias", "output_projection.bias", WHOLE),  \
        TENSOR(p "decoder.*"), TENSOR(p "bias")

#endif
