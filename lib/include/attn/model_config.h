/* The configuration of a model, and the one table of its settings: model files, requests for new
 * models, training and descriptions of models have the same names, ranges and sentences. */
#ifndef ATTN_MODEL_CONFIG_H
#define ATTN_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The lists of the words of settings. Enums and tables of names are built from them. */
#define ATTN_MODEL_ARCHITECTURE_LIST(ITEM)                                                         \
    ITEM(SEQ2SEQ, "seq2seq")                                                                       \
    ITEM(TRANSFORMER, "transformer")                                                               \
    ITEM(ENCODER, "encoder")                                                                       \
    ITEM(DECODER, "decoder")

/* How the decoder attends to the encoder's outputs. DOT to CONCAT are score forms (forms.h); a
 * model of an encoder or a decoder alone cannot have them. The other kinds are also kinds of
 * self-attention.
 *   LOCAL    MULTIHEAD, but a query sees only keys at a distance of at most `radius`
 *   STRIDED  MULTIHEAD, but a query sees only keys at a distance of at most `radius` or at a
 *            multiple of `stride`
 *   BLOCK    MULTIHEAD, but a query sees only keys of its block of `block_size` positions. A target
 *            token beyond the blocks of the source sees no key of the source
 *   GLOBAL   MULTIHEAD, but a query sees only keys at a distance of at most `radius`; the first
 *            `num_global_keys` positions see all keys, and all queries see them
 *   NONE     no attention at all, also not in the encoder: the decoder starts from the encoder's
 *            last state. Not for transformers. */
#define ATTN_MODEL_ATTENTION_LIST(ITEM)                                                            \
    ITEM(MULTIHEAD, "multihead")                                                                   \
    ITEM(DOT, "dot")                                                                               \
    ITEM(ADDITIVE, "additive")                                                                     \
    ITEM(GENERAL, "general")                                                                       \
    ITEM(CONCAT, "concat")                                                                         \
    ITEM(LOCAL, "local")                                                                           \
    ITEM(STRIDED, "strided")                                                                       \
    ITEM(BLOCK, "block")                                                                           \
    ITEM(GLOBAL, "global")                                                                         \
    ITEM(NONE, "none")

/* How positions enter the model: by a table that is added to embeddings (SINUSOIDAL, LEARNED), or
 * in self-attention.
 *   LEARNED   a learned table of max_length rows
 *   RELATIVE  a learned bias for each head and distance
 *   SHAW      learned vectors for distances (Shaw et al. 2018)
 *   ALIBI     a bias that falls with distance (Press et al. 2022)
 *   ROTARY    queries and keys are rotated (Su et al. 2021); only self-attention */
#define ATTN_MODEL_POSITIONS_LIST(ITEM)                                                            \
    ITEM(SINUSOIDAL, "sinusoidal")                                                                 \
    ITEM(LEARNED, "learned")                                                                       \
    ITEM(RELATIVE, "relative")                                                                     \
    ITEM(SHAW, "shaw")                                                                             \
    ITEM(ALIBI, "alibi")                                                                           \
    ITEM(NO_POSITIONS, "none")                                                                     \
    ITEM(ROTARY, "rotary")

/* The activation of feed-forward:
 *   RELU       max(x, 0)
 *   GELU       x Phi(x), exact (Hendrycks and Gimpel 2016)
 *   GELU_TANH  x Phi(x), approximated with tanh
 *   SILU       x sigmoid(x) */
#define ATTN_MODEL_ACTIVATION_LIST(ITEM)                                                           \
    ITEM(RELU, "relu")                                                                             \
    ITEM(GELU, "gelu")                                                                             \
    ITEM(GELU_TANH, "gelu_tanh")                                                                   \
    ITEM(SILU, "silu")

/* The norm of sublayers: layer norm (Ba et al. 2016), RMS norm (Zhang and Sennrich 2019). */
#define ATTN_MODEL_NORM_LIST(ITEM)                                                                 \
    ITEM(LAYER_NORM, "layer")                                                                      \
    ITEM(RMS_NORM, "rms")

/* What a model computes of the outputs of its last stack: logits of each token, or of the whole
 * sequence, from tanh(linear(output of the first token)) as BERT does. Only ATTN_MODEL_ENCODER can
 * be POOLED. */
#define ATTN_MODEL_HEAD_LIST(ITEM)                                                                 \
    ITEM(TOKENS, "tokens")                                                                         \
    ITEM(POOLED, "pooled")

/* Where the layer norm of a residual connection is. */
#define ATTN_MODEL_NORM_PLACE_LIST(ITEM)                                                           \
    ITEM(NORM_BEFORE, "before")                                                                    \
    ITEM(NORM_AFTER, "after")

/* Whether an encoder's LSTM stops at the end of each sequence, or reads padding, as in textbooks.
 */
#define ATTN_MODEL_PADDING_LIST(ITEM)                                                              \
    ITEM(RESPECT_PADDING, "respect")                                                               \
    ITEM(READ_PADDING, "read")

#define ATTN_MODEL_NUMBER(name, text) ATTN_MODEL_##name,
typedef enum attn_model_architecture {
    ATTN_MODEL_ARCHITECTURE_LIST(ATTN_MODEL_NUMBER) ATTN_MODEL_ARCHITECTURES
} attn_model_architecture;
typedef enum attn_model_attention {
    ATTN_MODEL_ATTENTION_LIST(ATTN_MODEL_NUMBER) ATTN_MODEL_ATTENTIONS
} attn_model_attention;
typedef enum attn_model_positions {
    ATTN_MODEL_POSITIONS_LIST(ATTN_MODEL_NUMBER) ATTN_MODEL_POSITIONS
} attn_model_positions;
typedef enum attn_model_activation {
    ATTN_MODEL_ACTIVATION_LIST(ATTN_MODEL_NUMBER) ATTN_MODEL_ACTIVATIONS
} attn_model_activation;
typedef enum attn_model_norm {
    ATTN_MODEL_NORM_LIST(ATTN_MODEL_NUMBER) ATTN_MODEL_NORMS
} attn_model_norm;
typedef enum attn_model_head {
    ATTN_MODEL_HEAD_LIST(ATTN_MODEL_NUMBER) ATTN_MODEL_HEADS
} attn_model_head;
typedef enum attn_model_norm_place {
    ATTN_MODEL_NORM_PLACE_LIST(ATTN_MODEL_NUMBER)
} attn_model_norm_place;
typedef enum attn_model_padding { ATTN_MODEL_PADDING_LIST(ATTN_MODEL_NUMBER) } attn_model_padding;
#undef ATTN_MODEL_NUMBER

/* The names of the values of these enums, in their order. NULL ends each list. */
extern const char *const attn_model_architectures[],
    *const attn_model_attentions[], *const attn_model_position_names[],
                                        *const attn_model_norm_places[],
                                            *const attn_model_paddings[],
                                                *const attn_model_activations[],
                                                    *const attn_model_norm_kinds[],
                                                        *const attn_model_head_names[];

/* The configuration of a model. Start from attn_model_defaults(). */
typedef struct attn_model_config {
    attn_model_architecture architecture;
    attn_model_attention attention;
    attn_model_positions positions;
    /* Number of ids of the source and of the target, at least 4 each; required for each side that
     * the model reads. target_vocabulary is the number of logits of a row. In a model without a
     * decoder the logits stand for words or classes. */
    size_t source_vocabulary, target_vocabulary;
    size_t width;        /* D: default 128, even */
    size_t num_heads;    /* default 4; divides D */
    size_t num_layers;   /* layers of each stack; default 1, at most 64, or 8 for seq2seq */
    size_t feed_forward; /* transformer: hidden width of feed-forward; 0 (default): 4 D */
    size_t max_length;   /* longest source or target in tokens, default 512 */
    size_t radius;       /* LOCAL, STRIDED and GLOBAL attention: in tokens, default 4 */
    size_t stride;       /* STRIDED attention: in tokens, default 4 */
    /* RELATIVE and SHAW positions: the largest distance in tokens with its own entry in their
     * tables; default 16 */
    size_t reach;
    size_t block_size; /* ATTN_MODEL_BLOCK: positions of a block, default 8 */
    /* ATTN_MODEL_GLOBAL: number of first positions that see all keys and are seen by all queries;
     * default 1 */
    size_t num_global_keys;
    double dropout_p; /* probability of dropout, default 0.1 */
    /* probability for attention weights; NaN (default): dropout_p. Weights of DOT to CONCAT are
     * never dropped. */
    double attention_dropout_p;
    /* standard deviation of the initial embeddings; 0 (default): 1 / sqrt(D), so that embedding x
     * sqrt(D) is N(0, 1) */
    double embedding_std;
    attn_model_padding padding; /* seq2seq: whether the encoder's LSTM reads padding */
    attn_model_norm_place norm; /* models without LSTMs: where the norm of a sublayer is */
    /* The members from here to `head` belong to models without LSTMs. */
    attn_model_activation activation; /* default ATTN_MODEL_RELU */
    bool gated;                       /* feed-forward is gated; default false */
    attn_model_norm norm_kind;        /* default ATTN_MODEL_LAYER_NORM */
    double norm_epsilon;              /* added to the variance, default 1e-5 */
    /* number of heads of keys and values, a divisor of num_heads; num_heads / num_kv_heads heads of
     * queries share each head of keys and values (Ainslie et al. 2023). 0 (default): num_heads. Not
     * with SHAW positions. */
    size_t num_kv_heads;
    double rotary_base;     /* base of the angles of ROTARY positions; default 10,000 */
    bool bias;              /* linear layers and layer norms have a bias; default true */
    bool embedding_norm;    /* a norm of the sum of all embeddings; default false */
    double embedding_scale; /* factor of token embeddings; 0 (default): sqrt(D) */
    size_t num_segments;    /* rows of a table of segments that the encoder adds; default 0 */
    /* The matrix of the logits is the embedding of the tokens that the last stack reads, without a
     * bias (Press and Wolf 2017); default false. */
    bool tied;
    attn_model_head head;    /* default ATTN_MODEL_TOKENS */
    int32_t pad, begin, end; /* the same ids in both vocabularies; default 0, 1, 2 */
} attn_model_config;

/* Returns the default configuration. */
attn_model_config attn_model_defaults(void);

/* Which models have a setting. Files and descriptions of the other models lack the setting, and the
 * other models have its default value. */
typedef enum attn_model_setting_of {
    ATTN_OF_ALL,
    ATTN_OF_CHANGED,      /* models that have another value than the default */
    ATTN_OF_ENCODERS,     /* models that have an encoder */
    ATTN_OF_TRANSFORMERS, /* models without LSTMs */
    ATTN_OF_SEQ2SEQ,
    ATTN_OF_BLOCK,  /* models with the attention BLOCK */
    ATTN_OF_GLOBAL, /* models with the attention GLOBAL */
    ATTN_OF_NONE,   /* no model: the setting affects initial values alone */
} attn_model_setting_of;

/* The settings, in the order of files: ITEM(member, kind, words, least, most, use, of, sentence).
 * The sizes of the vocabularies have a list of their own between two others, because answers of the
 * service have the members "source" and "target" in their place.
 *
 *   kind      WORD: an enum, whose names are `words`; SIZE: a size_t; REAL: a double; FLAG: a bool
 *   least, most
 *             range of a SIZE or REAL, besides the default
 *   use       who may choose the setting: NEW: requests for new models; TRAIN: training; BOTH;
 *             NONE: only programs in C
 *   of        ATTN_OF_<of> */
#define ATTN_MODEL_FORM_LIST(ITEM)                                                                 \
    ITEM(architecture, WORD, attn_model_architectures, 0, 0, BOTH, ALL,                            \
         "seq2seq (default): bidirectional LSTM and self-attention, then an LSTM with cross "      \
         "attention. transformer: encoder layers of self-attention and feed-forward, then "        \
         "decoder layers of causal self-attention, cross attention and feed-forward. encoder: "    \
         "its encoder alone, which answers a class of each token. decoder: its decoder alone, "    \
         "without cross attention, which predicts the next token.")                                \
    ITEM(attention, WORD, attn_model_attentions, 0, 0, BOTH, ALL,                                  \
         "The attention of the model: multihead (default), dot, additive, general, concat, "       \
         "local (keys within radius, at all sites), strided (every stride-th key and keys "        \
         "within radius), block (keys of the same block_size positions), global (the first "       \
         "num_global_keys positions see and are seen by all, others keys within radius) or none "  \
         "(only for seq2seq). An encoder or a decoder alone has none of dot to concat.")           \
    ITEM(                                                                                          \
        positions, WORD, attn_model_position_names, 0, 0, BOTH, ALL,                               \
        "sinusoidal (default), learned, relative, shaw, alibi, none or rotary (not for seq2seq).") \
    ITEM(norm, WORD, attn_model_norm_places, 0, 0, BOTH, TRANSFORMERS,                             \
         "For a transformer: layer norm before (default) or after each attention and "             \
         "feed-forward.")                                                                          \
    ITEM(feed_forward, SIZE, NULL, 0, 16384, BOTH, TRANSFORMERS,                                   \
         "For a transformer: width of the hidden feed-forward layer; default 4 x width, as 0.")    \
    ITEM(padding, WORD, attn_model_paddings, 0, 0, NEW, SEQ2SEQ,                                   \
         "respect (default): the LSTM of the encoder stops at the end of each sequence; read: it " \
         "reads padding as text. Only for seq2seq.")
#define ATTN_MODEL_VOCABULARY_LIST(ITEM)                                                           \
    ITEM(source_vocabulary, SIZE, NULL, 4, 1048576, NEW, ENCODERS,                                 \
         "Number of ids of the source. Ids 0 to 3 are <pad>, <bos>, <eos> and <unk>. Required "    \
         "without source_words.")                                                                  \
    ITEM(target_vocabulary, SIZE, NULL, 4, 1048576, NEW, ALL,                                      \
         "Number of ids of the target, like source_vocabulary.")
#define ATTN_MODEL_SIZE_LIST(ITEM)                                                                 \
    ITEM(width, SIZE, NULL, 2, 4096, BOTH, ALL,                                                    \
         "Width of embeddings and states, an even number; default 128.")                           \
    ITEM(num_heads, SIZE, NULL, 1, 4096, BOTH, ALL,                                                \
         "Heads of multi-head attention; the number divides the width; default 4.")                \
    ITEM(num_layers, SIZE, NULL, 1, 64, BOTH, ALL,                                                 \
         "Layers of each LSTM, or of the encoder and of the decoder of a transformer; default 1.") \
    ITEM(max_length, SIZE, NULL, 2, 65536, NEW, ALL, "Most tokens of a sequence; default 512.")    \
    ITEM(radius, SIZE, NULL, 0, 65536, BOTH, ALL,                                                  \
         "For local, strided and global: visible keys on either side; default 4.")                 \
    ITEM(stride, SIZE, NULL, 1, 65536, BOTH, ALL,                                                  \
         "For strided: every stride-th key is visible; default 4.")                                \
    ITEM(reach, SIZE, NULL, 1, 65536, NEW, ALL,                                                    \
         "For relative and shaw: distances are clipped to -reach to reach; default 16.")           \
    ITEM(block_size, SIZE, NULL, 1, 65536, BOTH, BLOCK,                                            \
         "For block: positions of a block; default 8.")                                            \
    ITEM(num_global_keys, SIZE, NULL, 0, 65536, BOTH, GLOBAL,                                      \
         "For global: first positions that see and are seen by all; default 1.")                   \
    ITEM(dropout_p, REAL, NULL, 0, 0.99, BOTH, ALL,                                                \
         "Probability of dropout in training, default 0.1. It is stored with a new model and has " \
         "no effect there; dropout_p of its attention drops in a pass.")                           \
    ITEM(attention_dropout_p, REAL, NULL, 0, 0.99, TRAIN, ALL,                                     \
         "Probability of dropout of attention weights, without those of dot, additive, general "   \
         "and concat cross attention, which are never dropped; by default dropout_p.")             \
    ITEM(embedding_std, REAL, NULL, 1e-6, 1000, NEW, NONE,                                         \
         "Standard deviation of the initial embeddings, which are normal. Default 1 / "            \
         "sqrt(width): the model multiplies embeddings by sqrt(width), so that they enter it as "  \
         "N(0, 1). 1 is nn.Embedding of PyTorch.")                                                 \
    ITEM(activation, WORD, attn_model_activations, 0, 0, BOTH, CHANGED,                            \
         "Activation of feed-forward: relu (default), gelu, gelu_tanh or silu.")                   \
    ITEM(gated, FLAG, NULL, 0, 0, BOTH, CHANGED,                                                   \
         "Feed-forward multiplies its activation by a second linear layer.")                       \
    ITEM(norm_kind, WORD, attn_model_norm_kinds, 0, 0, BOTH, CHANGED,                              \
         "Norm of sublayers: layer (default) or rms.")                                             \
    ITEM(norm_epsilon, REAL, NULL, 1e-12, 1, NEW, CHANGED,                                         \
         "Number that norms add to the variance; default 1e-5.")                                   \
    ITEM(num_kv_heads, SIZE, NULL, 0, 4096, BOTH, CHANGED,                                         \
         "Heads of keys and values, which divides num_heads; default num_heads, as 0.")            \
    ITEM(rotary_base, REAL, NULL, 1.001, 1e9, NEW, CHANGED,                                        \
         "For rotary: base of the angles; default 10,000.")                                        \
    ITEM(bias, FLAG, NULL, 0, 0, BOTH, CHANGED, "Linear layers and norms have a bias (default).")  \
    ITEM(embedding_norm, FLAG, NULL, 0, 0, NEW, CHANGED, "A norm of the sum of all embeddings.")   \
    ITEM(embedding_scale, REAL, NULL, 0, 1000, NEW, CHANGED,                                       \
         "Factor of token embeddings; default sqrt(width), as 0.")                                 \
    ITEM(num_segments, SIZE, NULL, 0, 1024, NONE, CHANGED,                                         \
         "Rows of a table of segments that the encoder adds to embeddings; default 0.")            \
    ITEM(tied, FLAG, NULL, 0, 0, BOTH, CHANGED,                                                    \
         "The matrix of the logits is the embedding of the tokens that the last stack reads.")     \
    ITEM(head, WORD, attn_model_head_names, 0, 0, NEW, CHANGED,                                    \
         "What an encoder computes: logits of each token (default), or of the pooled sequence.")
#define ATTN_MODEL_SETTING_LIST(ITEM)                                                              \
    ATTN_MODEL_FORM_LIST(ITEM)                                                                     \
    ATTN_MODEL_VOCABULARY_LIST(ITEM)                                                               \
    ATTN_MODEL_SIZE_LIST(ITEM)

typedef enum attn_model_setting_kind {
    ATTN_SETTING_WORD,
    ATTN_SETTING_SIZE,
    ATTN_SETTING_REAL,
    ATTN_SETTING_FLAG
} attn_model_setting_kind;

/* A row of the list. */
typedef struct attn_model_setting {
    const char *name; /* name of the member in attn_model_config */
    attn_model_setting_kind kind;
    size_t offset; /* offset of this member */
    const char *const *words;
    double least, most;
    attn_model_setting_of of;
} attn_model_setting;

/* All settings; a row without a name ends them. */
extern const attn_model_setting attn_model_settings[];
/* Returns whether a model of this configuration has the setting. */
bool attn_model_has_setting(const attn_model_config *config, const attn_model_setting *setting);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
