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
 *   ROTARY    queries and keys are rotated (Su et al. 2021); only self-attention
 *   T5        a learned bias for each head and bucket of distances, which the layers of a stack
 *             share (Raffel et al. 2020) */
#define ATTN_MODEL_POSITIONS_LIST(ITEM)                                                            \
    ITEM(SINUSOIDAL, "sinusoidal")                                                                 \
    ITEM(LEARNED, "learned")                                                                       \
    ITEM(RELATIVE, "relative")                                                                     \
    ITEM(SHAW, "shaw")                                                                             \
    ITEM(ALIBI, "alibi")                                                                           \
    ITEM(NO_POSITIONS, "none")                                                                     \
    ITEM(ROTARY, "rotary")                                                                         \
    ITEM(T5, "t5")

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

/* What a model computes from the outputs of its last stack: logits of each token, or of the whole
 * sequence, from tanh(linear(output of the first token)) as BERT does. Only ATTN_MODEL_ENCODER can
 * be POOLED.
 *   MASKED  logits of each token from norm(activation(linear(output))), as BERT names masked words */
#define ATTN_MODEL_HEAD_LIST(ITEM)                                                                 \
    ITEM(TOKENS, "tokens")                                                                         \
    ITEM(POOLED, "pooled")                                                                         \
    ITEM(MASKED, "masked")

/* Where the norms of a sublayer f with the input x are:
 *   BEFORE  x + f(norm(x))
 *   AFTER   norm(x + f(x))
 *   AROUND  x + norm'(f(norm(x))), as in Gemma 2
 *   INSIDE  x + norm(f(x)), as in OLMo 2 */
#define ATTN_MODEL_NORM_PLACE_LIST(ITEM)                                                           \
    ITEM(NORM_BEFORE, "before")                                                                    \
    ITEM(NORM_AFTER, "after")                                                                      \
    ITEM(NORM_AROUND, "around")                                                                    \
    ITEM(NORM_INSIDE, "inside")

/* A yes or no that has another setting as its default. */
#define ATTN_MODEL_CHOICE_LIST(ITEM)                                                               \
    ITEM(AS_USUAL, "default")                                                                      \
    ITEM(YES, "yes")                                                                               \
    ITEM(NO, "no")

/* Norms of queries and keys before positions: none, of each head (Qwen3), or of all heads together
 * (OLMo 2). */
#define ATTN_MODEL_QUERY_NORM_LIST(ITEM)                                                           \
    ITEM(NO_QUERY_NORM, "none")                                                                    \
    ITEM(NORM_OF_HEAD, "head")                                                                     \
    ITEM(NORM_OF_ALL, "whole")

/* Whether feed-forward reads the input of attention instead of its output: x + attention(norm(x)) +
 * feed_forward(norm(x)), with one norm for both (GPT-J) or with two (GPT-NeoX). */
#define ATTN_MODEL_PARALLEL_LIST(ITEM)                                                             \
    ITEM(IN_TURN, "no")                                                                            \
    ITEM(ONE_NORM, "one_norm")                                                                     \
    ITEM(TWO_NORMS, "two_norms")

/* Which coordinates of a head are a pair of ROTARY positions, and how their frequencies are scaled
 * (forms.h). */
#define ATTN_MODEL_PAIR_LIST(ITEM)                                                                 \
    ITEM(HALVES, "halves")                                                                         \
    ITEM(INTERLEAVED, "interleaved")
#define ATTN_MODEL_SCALING_LIST(ITEM)                                                              \
    ITEM(NO_SCALING, "none")                                                                       \
    ITEM(LINEAR, "linear")                                                                         \
    ITEM(DYNAMIC, "dynamic")                                                                       \
    ITEM(YARN, "yarn")                                                                             \
    ITEM(LLAMA3, "llama3")                                                                         \
    ITEM(LONGROPE, "longrope")

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
typedef enum attn_model_choice { ATTN_MODEL_CHOICE_LIST(ATTN_MODEL_NUMBER) } attn_model_choice;
typedef enum attn_model_query_norm {
    ATTN_MODEL_QUERY_NORM_LIST(ATTN_MODEL_NUMBER)
} attn_model_query_norm;
typedef enum attn_model_parallel {
    ATTN_MODEL_PARALLEL_LIST(ATTN_MODEL_NUMBER)
} attn_model_parallel;
typedef enum attn_model_pairs { ATTN_MODEL_PAIR_LIST(ATTN_MODEL_NUMBER) } attn_model_pairs;
typedef enum attn_model_scaling { ATTN_MODEL_SCALING_LIST(ATTN_MODEL_NUMBER) } attn_model_scaling;
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
extern const char *const attn_model_choices[],
    *const attn_model_query_norms[],
        *const attn_model_parallels[], *const attn_model_pair_names[], *const attn_model_scalings[];

/* A set of layers of a stack; bit l of the words is layer l. */
enum { ATTN_MODEL_LAYER_WORDS = 2 };
typedef struct attn_model_layers {
    uint64_t bits[ATTN_MODEL_LAYER_WORDS];
} attn_model_layers;

/* Returns whether layer l is in a set. A set holds no layer beyond its bits. */
static inline bool attn_model_layers_have(const attn_model_layers *set, size_t l) {
    return l / 64 < ATTN_MODEL_LAYER_WORDS && set->bits[l / 64] >> l % 64 & 1;
}

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
    attn_model_head head; /* default ATTN_MODEL_TOKENS */
    /* the same ids in both vocabularies; default 0, 1, 2. With any_ids, -1 means that there is
     * none */
    int32_t pad, begin, end;
    /* The members from here on are those of ATTN_MODEL_KNOWN_LIST, which describes them. */
    size_t head_width, num_decoder_layers, num_layer_groups, embedding_width;
    bool separate, own_positions, any_ids;
    attn_model_choice qkv_bias, output_bias, feed_forward_bias, norm_bias, logits_bias;
    attn_model_choice stack_norm;
    attn_model_query_norm query_norm;
    attn_model_parallel parallel;
    bool skips_first_norm;
    double score_scale, score_softcap, logit_scale, logit_softcap, residual_scale;
    size_t window;
    attn_model_layers windowed_layers, unplaced_layers;
    attn_model_pairs rotary_pairs;
    attn_model_scaling rotary_scaling;
    size_t rotary_dims, rotary_original_length;
    double local_rotary_base;
    double rotary_factor, rotary_beta_fast, rotary_beta_slow, rotary_mscale, rotary_mscale_all_dim;
    double rotary_low_freq_factor, rotary_high_freq_factor, rotary_attention_factor;
    bool rotary_unrounded, local_scaling;
    size_t num_buckets, bucket_distance;
    bool bucket_bias;
    size_t position_offset;
    bool sinusoid_halves;
    bool headless;
    attn_model_activation head_activation;
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
    /* KNOWN and FIXED: models that have another value than the default. Descriptions of models lack
     * these settings. Models with a FIXED setting cannot be trained. */
    ATTN_OF_KNOWN,
    ATTN_OF_FIXED,
} attn_model_setting_of;

/* The settings, in the order of files: ITEM(member, kind, words, least, most, use, of, sentence).
 * The sizes of the vocabularies have a list of their own between two others, because answers of the
 * service have the members "source" and "target" in their place.
 *
 *   kind      WORD: an enum, whose names are `words`; SIZE: a size_t; REAL: a double; FLAG: a
 *             bool; LAYERS: an attn_model_layers, as text the ranges of its layers: "0-3,5"
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
    ITEM(positions, WORD, attn_model_position_names, 0, 0, BOTH, ALL,                              \
         "sinusoidal (default), learned, relative, shaw, alibi, none, rotary or t5 (both not for " \
         "seq2seq).")                                                                              \
    ITEM(norm, WORD, attn_model_norm_places, 0, 0, BOTH, TRANSFORMERS,                             \
         "For a transformer: norm before (default) or after each attention and feed-forward, "     \
         "around both sides of it, or inside its residual connection. Models with the last two "   \
         "cannot be trained.")                                                                     \
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
         "What an encoder computes: logits of each token (default), of the pooled sequence, or "   \
         "masked: logits of each token behind one more layer, which cannot be trained.")
/* Settings of models that people know. Programs in C and files of models choose them. */
#define ATTN_MODEL_KNOWN_LIST(ITEM)                                                                \
    ITEM(head_width, SIZE, NULL, 0, 4096, NONE, KNOWN,                                             \
         "Width of a head; default width / num_heads, as 0.")                                      \
    ITEM(num_decoder_layers, SIZE, NULL, 0, 64, NONE, KNOWN,                                       \
         "Layers of the decoder behind an encoder; default num_layers, as 0.")                     \
    ITEM(num_layer_groups, SIZE, NULL, 0, 64, NONE, KNOWN,                                         \
         "Groups of successive layers that share their parameters (ALBERT); default one a "        \
         "layer, as 0.")                                                                           \
    ITEM(embedding_width, SIZE, NULL, 0, 4096, NONE, FIXED,                                        \
         "Width of the tables of embeddings, from which a linear layer leads to the width "        \
         "(ALBERT, ELECTRA); default width, as 0.")                                                \
    ITEM(separate, FLAG, NULL, 0, 0, NONE, KNOWN,                                                  \
         "Queries, keys and values have three matrices instead of one.")                           \
    ITEM(own_positions, FLAG, NULL, 0, 0, NONE, KNOWN,                                             \
         "For learned: encoder and decoder have tables of their own.")                             \
    ITEM(any_ids, FLAG, NULL, 0, 0, NONE, FIXED,                                                   \
         "The ids pad, begin and end may be equal, and a model may write any token.")              \
    ITEM(qkv_bias, WORD, attn_model_choices, 0, 0, NONE, KNOWN,                                    \
         "Whether the matrices of queries, keys and values have a bias; default bias.")            \
    ITEM(output_bias, WORD, attn_model_choices, 0, 0, NONE, KNOWN,                                 \
         "Whether the output matrix of attention has a bias; default bias.")                       \
    ITEM(feed_forward_bias, WORD, attn_model_choices, 0, 0, NONE, KNOWN,                           \
         "Whether the matrices of feed-forward have a bias; default bias.")                        \
    ITEM(norm_bias, WORD, attn_model_choices, 0, 0, NONE, KNOWN,                                   \
         "Whether layer norms have a bias; default bias.")                                         \
    ITEM(logits_bias, WORD, attn_model_choices, 0, 0, NONE, KNOWN,                                 \
         "Whether the logits have a bias; default bias, but no for tied ones.")                    \
    ITEM(stack_norm, WORD, attn_model_choices, 0, 0, NONE, KNOWN,                                  \
         "Whether a stack ends with a norm; default yes, but no for one stack with norms "         \
         "after its sublayers.")                                                                   \
    ITEM(query_norm, WORD, attn_model_query_norms, 0, 0, NONE, FIXED,                              \
         "Norms of queries and keys: none (default), head or whole.")                              \
    ITEM(parallel, WORD, attn_model_parallels, 0, 0, NONE, FIXED,                                  \
         "Whether feed-forward reads what attention reads: no (default), one_norm or "             \
         "two_norms.")                                                                             \
    ITEM(skips_first_norm, FLAG, NULL, 0, 0, NONE, FIXED,                                          \
         "The first attention of an encoder has no norm before it (ModernBERT).")                  \
    ITEM(score_scale, REAL, NULL, 0, 1000, NONE, KNOWN,                                            \
         "Factor of the scores of queries and keys; default 1 / sqrt(head width), as 0.")          \
    ITEM(score_softcap, REAL, NULL, 0, 1000000.0, NONE, KNOWN,                                     \
         "c of c tanh(score / c); default no bound, as 0.")                                        \
    ITEM(logit_scale, REAL, NULL, 0, 1000000.0, NONE, FIXED,                                       \
         "Factor of the logits; default 1, as 0.")                                                 \
    ITEM(logit_softcap, REAL, NULL, 0, 1000000.0, NONE, FIXED,                                     \
         "c of c tanh(logit / c); default no bound, as 0.")                                        \
    ITEM(residual_scale, REAL, NULL, 0, 1000, NONE, FIXED,                                         \
         "Factor of what a sublayer adds to its input; default 1, as 0.")                          \
    ITEM(window, SIZE, NULL, 0, 1048576, NONE, KNOWN,                                              \
         "In windowed_layers: how many keys a query sees on either side of it, or before "         \
         "it in a decoder; 0 (default): no bound.")                                                \
    ITEM(windowed_layers, LAYERS, NULL, 0, 0, NONE, KNOWN, "Layers with a window.")                \
    ITEM(unplaced_layers, LAYERS, NULL, 0, 0, NONE, KNOWN, "Layers without rotary positions.")     \
    ITEM(rotary_pairs, WORD, attn_model_pair_names, 0, 0, NONE, KNOWN,                             \
         "Coordinates that rotary positions turn together: halves (default) or "                   \
         "interleaved.")                                                                           \
    ITEM(rotary_dims, SIZE, NULL, 0, 4096, NONE, KNOWN,                                            \
         "Coordinates of a head that rotary positions turn; default all, as 0.")                   \
    ITEM(local_rotary_base, REAL, NULL, 0, 1000000000.0, NONE, KNOWN,                              \
         "Base of the angles in windowed_layers; default rotary_base, as 0.")                      \
    ITEM(local_scaling, FLAG, NULL, 0, 0, NONE, KNOWN,                                             \
         "Rotary positions are scaled in windowed_layers with a base of their own, too.")          \
    ITEM(rotary_scaling, WORD, attn_model_scalings, 0, 0, NONE, KNOWN,                             \
         "How the frequencies of rotary positions are scaled; default none.")                      \
    ITEM(rotary_factor, REAL, NULL, 0, 1000000.0, NONE, KNOWN,                                     \
         "Factor of the scaling; default 1, as 0.")                                                \
    ITEM(rotary_original_length, SIZE, NULL, 0, 1048576, NONE, KNOWN,                              \
         "Length of the texts of the training before the scaling.")                                \
    ITEM(rotary_beta_fast, REAL, NULL, 0, 1000000.0, NONE, KNOWN,                                  \
         "beta_fast of yarn; default 32, as 0.")                                                   \
    ITEM(rotary_beta_slow, REAL, NULL, 0, 1000000.0, NONE, KNOWN,                                  \
         "beta_slow of yarn; default 1, as 0.")                                                    \
    ITEM(rotary_mscale, REAL, NULL, 0, 1000000.0, NONE, KNOWN, "mscale of yarn.")                  \
    ITEM(rotary_mscale_all_dim, REAL, NULL, 0, 1000000.0, NONE, KNOWN, "mscale_all_dim of yarn.")  \
    ITEM(rotary_unrounded, FLAG, NULL, 0, 0, NONE, KNOWN,                                          \
         "The two pairs of yarn are not rounded outwards.")                                        \
    ITEM(rotary_low_freq_factor, REAL, NULL, 0, 1000000.0, NONE, KNOWN,                            \
         "low_freq_factor of llama3; default 1, as 0.")                                            \
    ITEM(rotary_high_freq_factor, REAL, NULL, 0, 1000000.0, NONE, KNOWN,                           \
         "high_freq_factor of llama3; default 4, as 0.")                                           \
    ITEM(rotary_attention_factor, REAL, NULL, 0, 1000000.0, NONE, KNOWN,                           \
         "Factor of cosines and sines; default that of the scaling, as 0.")                        \
    ITEM(bucket_bias, FLAG, NULL, 0, 0, NONE, KNOWN,                                               \
         "Self-attention has the bias of t5 beside other positions (MPNet).")                      \
    ITEM(num_buckets, SIZE, NULL, 2, 4096, NONE, KNOWN,                                            \
         "For t5: buckets of distances; default 32.")                                              \
    ITEM(bucket_distance, SIZE, NULL, 2, 1048576, NONE, KNOWN,                                     \
         "For t5: distance from which all keys share a bucket; default 128.")                      \
    ITEM(position_offset, SIZE, NULL, 0, 1024, NONE, KNOWN,                                        \
         "For learned: the row of the table that the first token has; default 0.")                 \
    ITEM(sinusoid_halves, FLAG, NULL, 0, 0, NONE, KNOWN,                                           \
         "For sinusoidal: all sines stand before all cosines instead of in turn.")                 \
    ITEM(headless, FLAG, NULL, 0, 0, NONE, FIXED,                                                  \
         "The model has no logits: the outputs of its last stack are the result.")                 \
    ITEM(head_activation, WORD, attn_model_activations, 0, 0, NONE, KNOWN,                         \
         "Activation of the head masked; default relu.")
#define ATTN_MODEL_SETTING_LIST(ITEM)                                                              \
    ATTN_MODEL_FORM_LIST(ITEM)                                                                     \
    ATTN_MODEL_VOCABULARY_LIST(ITEM)                                                               \
    ATTN_MODEL_SIZE_LIST(ITEM)                                                                     \
    ATTN_MODEL_KNOWN_LIST(ITEM)

typedef enum attn_model_setting_kind {
    ATTN_SETTING_WORD,
    ATTN_SETTING_SIZE,
    ATTN_SETTING_REAL,
    ATTN_SETTING_FLAG,
    ATTN_SETTING_LAYERS
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
