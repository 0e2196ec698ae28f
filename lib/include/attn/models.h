/* Sequence-to-sequence models with attention, made of layers.
 *
 * `seq2seq` is the model of the textbook. Encoder: embedding x sqrt(D) + positions, a bidirectional
 * LSTM of width D / 2 in each direction, self-attention, layer norm. Decoder: embedding x sqrt(D) +
 * positions, an LSTM of width D, attention over the encoder's outputs, layer norm, logits. Both
 * attentions have a residual connection.
 *
 * `transformer` is the model of Vaswani et al. 2017. Both stacks begin with embedding x sqrt(D) +
 * positions. Encoder layers consist of self-attention and feed-forward, decoder layers of causal
 * self-attention, attention over the encoder's outputs and feed-forward (linear, ReLU, linear).
 * Each of these has a residual connection and a layer norm before it (Xiong et al. 2020) or after
 * it (norm_after). Each stack ends with a layer norm. Parameters of the layers are named as in
 * torch.nn.Transformer, without a prefix.
 *
 * Ids are int32, everything else float32. */
#ifndef ATTN_MODELS_H
#define ATTN_MODELS_H

#include "attention.h"
#include "parameters.h"
#include "pool.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum { ATTN_MODEL_LAYERS = 8 }; /* most layers of encoder and decoder */

typedef enum attn_model_architecture {
    ATTN_SEQ2SEQ = 0,
    ATTN_TRANSFORMER,
    ATTN_MODEL_ARCHITECTURES
} attn_model_architecture;

/* How the decoder attends to the encoder. */
typedef enum attn_model_attention {
    ATTN_MODEL_MULTIHEAD = 0,
    ATTN_MODEL_DOT,
    ATTN_MODEL_ADDITIVE,
    ATTN_MODEL_GENERAL,
    ATTN_MODEL_CONCAT,
    ATTN_MODEL_LOCAL,   /* as MULTIHEAD, but a query sees only keys within `radius` of it */
    ATTN_MODEL_STRIDED, /* as MULTIHEAD, but a query sees only every `stride`-th key and keys
                           within `radius` of it */
    ATTN_MODEL_NONE,    /* the decoder starts from the encoder's last state and has no other
                           access to the source; the encoder has no attention either. Not for
                           transformers */
    ATTN_MODEL_ATTENTIONS
} attn_model_attention;

typedef enum attn_model_positions {
    ATTN_MODEL_SINUSOIDAL = 0,
    ATTN_MODEL_LEARNED,  /* up to max_length */
    ATTN_MODEL_RELATIVE, /* a learned bias for each head and distance in self-attention */
    ATTN_MODEL_SHAW,
    ATTN_MODEL_ALIBI,
    ATTN_MODEL_NO_POSITIONS,
    ATTN_MODEL_POSITIONS
} attn_model_positions;

/* Start from attn_model_defaults(). */
typedef struct attn_model_config {
    attn_model_architecture architecture;
    attn_model_attention attention;
    attn_model_positions positions;
    size_t source_vocabulary, target_vocabulary; /* required, >= 4 */
    size_t width;                                /* D, default 128, even */
    size_t heads;                                /* default 4, divides D */
    size_t layers;       /* of encoder and decoder each, default 1, at most ATTN_MODEL_LAYERS */
    size_t feed_forward; /* transformer: hidden width of feed-forward; 0, the default: 4 D */
    size_t max_length;   /* of either sequence, default 512 */
    size_t radius, stride, reach; /* default 4, 4, 16; reach: largest distance of position tables */
    double dropout;               /* default 0.1 */
    bool read_padding;       /* the encoder's LSTM also reads padding, as in the textbook model */
    bool norm_after;         /* transformer: layer norm after each residual; default false */
    int32_t pad, begin, end; /* ids in both vocabularies: default 0, 1, 2 */
} attn_model_config;

attn_model_config attn_model_defaults(void);
/* Names of the enumerations, NULL beyond the last. The parsers return false for other names. */
const char *attn_model_architecture_name(attn_model_architecture a);
const char *attn_model_attention_name(attn_model_attention a);
const char *attn_model_positions_name(attn_model_positions p);
bool attn_model_architecture_parse(const char *name, attn_model_architecture *out);
bool attn_model_attention_parse(const char *name, attn_model_attention *out);
bool attn_model_positions_parse(const char *name, attn_model_positions *out);

typedef struct attn_model attn_model;

/* Checks the sizes and makes a model with values drawn from the seed. Only a model with gradients
 * can be trained. Errors: ATTN_EARG and ATTN_ELIMIT (err->where names the member of the
 * configuration), ATTN_ENOMEM. */
attn_status attn_model_new(const attn_model_config *config, uint64_t seed, bool gradients,
                           attn_model **out, attn_error *err);
void attn_model_free(attn_model *model); /* model may be NULL */
/* Computes the bytes of the values (and gradients) without making the model. */
attn_status attn_model_bytes(const attn_model_config *config, bool gradients, size_t *out,
                             attn_error *err);
const attn_model_config *attn_model_configuration(const attn_model *model);
attn_parameters *attn_model_parameters(attn_model *model);

/* A padded batch. Positions beyond the length of a sequence hold config.pad. */
typedef struct attn_batch {
    size_t B, S, T;                /* >= 1 each */
    const int32_t *source;         /* [B, S] */
    const int64_t *source_lengths; /* [B], 1 … S */
    const int32_t *target;         /* [B, T]: input of the decoder; begins with config.begin */
    const int32_t *expected; /* [B, T]: target shifted by one, ends with config.end; padding does
                                not count. Only attn_model_step reads it. */
    /* [B, T, S] or NULL: the alignment of each word of `expected` with the source. Rows sum to 1,
     * or are 0 if the alignment is unknown. Only attn_model_step with a guidance reads it. */
    const float *alignment;
} attn_batch;

typedef enum attn_site_kind {
    ATTN_SITE_ENCODER,
    ATTN_SITE_DECODER,
    ATTN_SITE_CROSS
} attn_site_kind;

/* One attention layer of a model. Its weights [B, heads, L, S] are in the arena. */
typedef struct attn_site {
    attn_site_kind kind;
    size_t layer, heads; /* layer: index among those of its kind */
    attn_tensor weights;
} attn_site;

enum { ATTN_MODEL_SITES = 3 * ATTN_MODEL_LAYERS };

/* Lists the attention layers of a model by kind and layer, without weights. Returns their
 * number. */
size_t attn_model_sites(const attn_model *model, attn_site sites[ATTN_MODEL_SITES]);

typedef struct attn_model_outputs {
    attn_tensor logits;                /* [B, T, V] */
    attn_site sites[ATTN_MODEL_SITES]; /* in the order of attn_model_sites, with weights */
    size_t site_count;                 /* 0: the caller did not ask for weights */
} attn_model_outputs;

/* Computes logits (and weights) without dropout. Errors: ATTN_EVALUE (an id or a length is out of
 * range; err->where is "source/1/3"), ATTN_ELIMIT (a sequence exceeds max_length), ATTN_ENOMEM,
 * ATTN_ECANCELED, ATTN_EDEADLINE. Any thread may call it while no thread changes the parameters. */
attn_status attn_model_forward(const attn_model *model, const attn_batch *batch, bool want_weights,
                               attn_arena *arena, attn_pool *pool, const attn_control *control,
                               attn_model_outputs *out, attn_error *err);

/* Cross entropy: the mean over the rows that count, or 0 without such rows. */
typedef struct attn_cross_entropy_loss {
    double loss;
    size_t rows;  /* rows that count */
    size_t right; /* counted rows whose largest logit is the target */
} attn_cross_entropy_loss;

/* Options of attn_model_step, which runs the forward pass, the loss and the backward pass, and adds
 * the gradients to those of the parameter set. Dropout is drawn from `seed`: the same seed and
 * batch give the same bytes. While it runs, no other thread may use the model. */
typedef struct attn_step_options {
    uint64_t seed;
    double smoothing; /* of labels, default 0 */
    /* Factors of two more losses on the last cross-attention layer, default 0. guidance: its
     * difference from batch->alignment. diversity: the similarity of its heads. Both are ignored
     * for models without attention. */
    double guidance, diversity;
} attn_step_options;
attn_status attn_model_step(attn_model *model, const attn_batch *batch,
                            const attn_step_options *options, attn_arena *arena, attn_pool *pool,
                            const attn_control *control, attn_cross_entropy_loss *loss,
                            attn_error *err);

/* Options of greedy (beams = 1) or beam search. Scores are sums of log probabilities divided by
 * ((5 + length) / 6)^length_penalty (Wu et al. 2016, section 7). */
typedef struct attn_generate_options {
    size_t beams;          /* default 1 */
    size_t most;           /* most target tokens, the end token included; default 2 S + 10 */
    double length_penalty; /* default 0.6; used with beams > 1 */
    bool want_weights;     /* keep the weights of the last cross-attention layer */
    /* Called after each token of a greedy search for one source. `weights` [heads, S] is the
     * token's row of cross-attention (NULL for models without attention). If the function returns
     * non-zero, the search ends with ATTN_ECANCELED. May be NULL. */
    int (*token)(void *ctx, int32_t id, double log_probability, const float *weights);
    void *ctx;
} attn_generate_options;

attn_generate_options attn_generate_defaults(void);

typedef struct attn_generated {
    int32_t *ids; /* without begin and end */
    size_t length;
    bool ended; /* the end token was generated; false: the sequence reached its most tokens */
    double score;
    float *weights; /* [heads, length + ended, S]: a row for each token and for the end; or NULL */
    size_t heads;
} attn_generated;

/* Generates the best sequence of each source into out [B], in the arena. Errors are those of
 * attn_model_forward. */
attn_status attn_model_generate(const attn_model *model, const int32_t *source,
                                const int64_t *source_lengths, size_t B, size_t S,
                                const attn_generate_options *options, attn_arena *arena,
                                attn_pool *pool, const attn_control *control, attn_generated *out,
                                attn_error *err);

/* Sizes of one use of a model: B sources of S tokens, and `rows` targets of T tokens. With
 * `searches` the decoder reads one token of each target at a time, as generation does; without, it
 * reads all tokens together. */
typedef struct attn_model_pass {
    double B, S, rows, T;
    bool searches;
} attn_model_pass;

/* Cost of an attn_model_pass: score cells of all heads, floating-point operations (a multiply-add
 * counts as two), and an upper bound of the scratch bytes on `slots` threads. The sizes may be
 * larger than any memory. */
typedef struct attn_model_cost {
    double cells, operations, bytes;
} attn_model_cost;
attn_model_cost attn_model_pass_cost(const attn_model *model, const attn_model_pass *pass,
                                     size_t slots);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
