/* Models of sequences with attention, made of blocks. D is the width. A model has an encoder, which
 * reads the source, a decoder, which reads the target, or both.
 *
 * ATTN_MODEL_SEQ2SEQ is the model of textbooks:
 *
 *   encoder  embedding x sqrt(D) + positions; bidirectional LSTM, D / 2 in each direction;
 *            self-attention with a residual connection; layer norm
 *   decoder  embedding x sqrt(D) + positions; LSTM of width D; attention over the encoder's
 *            outputs with a residual connection; layer norm; logits
 *
 * ATTN_MODEL_TRANSFORMER is the model of Vaswani et al. 2017:
 *
 *   encoder  embedding x sqrt(D) + positions; layers of self-attention and feed-forward; layer norm
 *   decoder  embedding x sqrt(D) + positions; layers of causal self-attention, attention over the
 *            encoder's outputs and feed-forward; layer norm; logits
 *
 * ATTN_MODEL_ENCODER is the encoder of this model alone, as in BERT (Devlin et al. 2018).
 * ATTN_MODEL_DECODER is its decoder without cross-attention, as in GPT (Radford et al. 2018), and
 * predicts the next token. If norms stand after sublayers, these three models have no layer norm at
 * the end.
 *
 * Feed-forward is linear, activation, linear; `gated` multiplies the activation by a second linear
 * layer (Shazeer 2020). Each sublayer of the three models without LSTMs has a residual connection,
 * and a norm before it (Xiong et al. 2020) or after it (the setting `norm`). The parameters of
 * these models are named as in torch.nn.Transformer, without a prefix.
 *
 * Ids are int32, all other numbers float32. */
#ifndef ATTN_MODELS_H
#define ATTN_MODELS_H

#include "attention.h"
#include "interventions.h"
#include "model_config.h"
#include "parameters.h"
#include "pool.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct attn_model attn_model;

/* Checks the configuration and makes a model with values drawn from the seed. `gradients` adds
 * memory for gradients, which training needs. The caller frees the model. Errors: ATTN_EARG and
 * ATTN_ELIMIT (err->where names the member of the configuration), ATTN_ENOMEM. */
attn_status attn_model_new(const attn_model_config *config, uint64_t seed, bool gradients,
                           attn_model **out, attn_error *err);
/* Makes a model without values, for questions about its sites, states and costs alone. Errors as
 * attn_model_new. */
attn_status attn_model_declare(const attn_model_config *config, attn_model **out, attn_error *err);
void attn_model_free(attn_model *model); /* model may be NULL */
/* Return whether a model reads a source, with its encoder, and a target, with its decoder. */
bool attn_model_has_encoder(const attn_model_config *config);
bool attn_model_has_decoder(const attn_model_config *config);
/* Sets *out to the pattern of the configuration's attention. false: all keys are visible. */
bool attn_model_pattern(const attn_model_config *config, attn_pattern *out);
/* Computes the bytes of the model's values (and gradients) without making it. Errors as
 * attn_model_new. */
attn_status attn_model_bytes(const attn_model_config *config, bool gradients, size_t *out,
                             attn_error *err);
/* Return parts of the model, which live as long as the model. */
const attn_model_config *attn_model_configuration(const attn_model *model);
attn_parameters *attn_model_parameters(attn_model *model);

/* A batch of padded sequences. Elements beyond the length of a sequence are config.pad. A model
 * without an encoder reads no source, and one without a decoder no target. */
typedef struct attn_batch {
    size_t B, S, T; /* sequences, and tokens of the longest source and target; each at least 1 */
    const int32_t *source;         /* [B, S] */
    const int64_t *source_lengths; /* [B] tokens of each source, 1 … S */
    const int32_t *target; /* [B, T] what the decoder reads: config.begin first in training */
    /* [B, T] what the decoder has to predict: the target shifted by one; each row ends with
     * config.end before padding. Padding does not count. For a model without a decoder: [B, S] the
     * class of each source token, or [B] the class of each sequence with a POOLED head. Only
     * attn_model_step reads it. */
    const int32_t *expected;
    /* [B, T, S] or NULL: the alignment of each token of `expected` with the source. A row sums to
     * 1, or is 0 if the alignment is unknown. Only attn_model_step with guidance > 0 reads it. */
    const float *alignment;
    /* [B, S] or NULL: 0 hides a source token, 1 shows it. No attention of encoder or decoder sees a
     * hidden token as a key. The encoder's LSTM still reads it. */
    const uint8_t *source_keep;
    const int32_t *source_segments; /* [B, S], below num_segments; NULL: all 0 */
    /* [B] number of tokens of each target before padding; NULL: all T. Only ATTN_ABLATE_MEAN reads
     * it: nothing else needs it, since no token of a decoder sees later tokens. */
    const int64_t *target_lengths;
} attn_batch;

/* An attention layer (site) of a model. Tensors that a pass does not keep have rank 0. */
typedef struct attn_site {
    attn_site_kind kind;
    size_t layer, heads; /* layer: number among the sites of its kind, from 0 */
    attn_tensor weights; /* [B, heads, L, S] */
    /* The operands of the scores and of the output: query [B, heads, L, d], key and value [B,
     * heads, S, d], where d is the width of a head; heads that are shared are repeated. Rows of
     * padding have no meaning. Positions inside attention and the matrices of GENERAL, ADDITIVE and
     * CONCAT are not applied. */
    attn_tensor query, key, value;
    /* The operation that a pass ran here, and the statistics of its rows; NULL without a pass. They
     * are in the arena of the pass, and refer to the batch and to the parameters of the model. */
    const attn_attention *operation;
    const attn_stats *stats;
} attn_site;

/* Returns the sites of a model ordered by kind and layer, without weights, and sets *count to their
 * number. They live as long as the model. */
const attn_site *attn_model_sites(const attn_model *model, size_t *count);

/* The two sides of a model: the encoder reads the source, the decoder the target. */
typedef enum attn_model_side { ATTN_SIDE_SOURCE, ATTN_SIDE_TARGET } attn_model_side;

/* The steps after which a pass has a state, each with the name that requests use. x is the state
 * before the step.
 *
 *   EMBEDDING            embedding of the ids x sqrt(D)
 *   POSITIONS            x + positional encodings + embeddings of segments; only models with
 *                        SINUSOIDAL and LEARNED positions or with segments have it
 *   START_HIDDEN, START_CELL
 *                        without attention: the states h and c with which a layer of the decoder's
 *                        LSTM starts; the decoder gets nothing else of the source. They are the
 *                        states of the same layer of the encoder: forward after the last token,
 *                        then backward after the first
 *   LSTM                 hidden states h of a layer of the LSTM; those of both directions of the
 *                        encoder stand side by side
 *   SELF_ATTENTION_SUM, CROSS_ATTENTION_SUM, FEED_FORWARD_SUM
 *                        residual sum x + f(x), or x + f(norm(x)) if the layer norm comes before
 *   SELF_ATTENTION_NORM, CROSS_ATTENTION_NORM, FEED_FORWARD_NORM
 *                        layer norm of this sublayer: of x before its attention or feed-forward, or
 *                        of the residual sum after it (seq2seq, ATTN_MODEL_NORM_AFTER)
 *   NORM                 layer norm at the end of an encoder or a decoder
 *   EMBEDDING_NORM       norm of the sum of all embeddings, with the configuration's
 *                        embedding_norm */
#define ATTN_STATE_STEP_LIST(ITEM)                                                                 \
    ITEM(EMBEDDING, "embedding")                                                                   \
    ITEM(POSITIONS, "positions")                                                                   \
    ITEM(START_HIDDEN, "start_hidden")                                                             \
    ITEM(START_CELL, "start_cell")                                                                 \
    ITEM(LSTM, "lstm")                                                                             \
    ITEM(SELF_ATTENTION_SUM, "self_attention_sum")                                                 \
    ITEM(SELF_ATTENTION_NORM, "self_attention_norm")                                               \
    ITEM(CROSS_ATTENTION_SUM, "cross_attention_sum")                                               \
    ITEM(CROSS_ATTENTION_NORM, "cross_attention_norm")                                             \
    ITEM(FEED_FORWARD_SUM, "feed_forward_sum")                                                     \
    ITEM(FEED_FORWARD_NORM, "feed_forward_norm")                                                   \
    ITEM(NORM, "norm")                                                                             \
    ITEM(EMBEDDING_NORM, "embedding_norm")

#define ATTN_STATE_NUMBER(name, text) ATTN_STATE_##name,
typedef enum attn_state_step {
    ATTN_STATE_STEP_LIST(ATTN_STATE_NUMBER) ATTN_STATE_STEPS
} attn_state_step;
#undef ATTN_STATE_NUMBER

/* A state: one hidden vector for each token of a side, between two steps of a pass. START_HIDDEN
 * and START_CELL have one for each sequence. */
typedef struct attn_model_state {
    attn_model_side side;
    attn_state_step step;
    bool has_layer; /* false: the step belongs to no layer (EMBEDDING, POSITIONS, NORM) */
    size_t layer;   /* among the layers of the same operation, from 0 */
    bool single;    /* values are [B, D] */
    /* [B, S, D] of the source or [B, T, D] of the target; rows of padding have no meaning */
    const float *values;
} attn_model_state;

/* Returns the states of a model, without values, in the order in which a pass computes them: first
 * the states of the source. Sets *count to their number. The states live as long as the model. The
 * last state of the source is attn_model_outputs.encoder, and logits are the projection of the last
 * state of the target. */
const attn_model_state *attn_model_states(const attn_model *model, size_t *count);

/* What attn_model_forward keeps beside the logits and the outputs of the encoder; bits.
 * ATTN_KEEP_OPERATIONS alone takes no additional memory: the pass only lists its sites. */
enum {
    ATTN_KEEP_WEIGHTS = 1,
    ATTN_KEEP_STATES = 2,
    ATTN_KEEP_INPUTS = 4,
    ATTN_KEEP_OPERATIONS = 8
};

/* A token of the stack from whose outputs the logits are computed: a token of the target, or of the
 * source if the model has no decoder. */
typedef struct attn_place {
    size_t sequence, position;
} attn_place;

/* What a pass computed at some places, for the functions of interpret.h. */
typedef struct attn_activations attn_activations;

/* Results of a forward pass, in the arena. */
typedef struct attn_model_outputs {
    /* [B, T, V], V = target_vocabulary; [B, S, V] of a model without a decoder, [B, V] if POOLED.
     * Rank 0 if the model is headless */
    attn_tensor logits;
    /* [B, S, D] outputs of the encoder, which cross-attention sees; rows of padding have no
     * meaning. Rank 0: the model has no encoder */
    attn_tensor encoder;
    /* [site_count] in the order of attn_model_sites, with the tensors that are kept */
    attn_site *sites;
    size_t site_count; /* 0 without ATTN_KEEP_WEIGHTS, _INPUTS and _OPERATIONS */
    /* [state_count] in the order of attn_model_states, with values */
    attn_model_state *states;
    size_t state_count;                  /* 0 without ATTN_KEEP_STATES */
    const attn_activations *activations; /* NULL without places */
} attn_model_outputs;

/* Options of a forward pass; zeros: logits alone, without dropout. */
typedef struct attn_forward_options {
    unsigned keep; /* bits ATTN_KEEP_* */
    /* Below 1. If above 0, every place that drops in training drops with this probability, whatever
     * the configuration says: embeddings with their positions, the outputs between layers of an
     * LSTM, attention weights (not those of DOT to CONCAT), the hidden layer of feed-forward, and
     * what a sublayer adds to a residual sum. Weights that are kept are those before dropout. */
    double dropout_p;
    uint64_t seed; /* seed of dropout; equal seeds and batches give equal bytes */
    /* If above 0, only the last `last_logits` tokens of each sequence, padding included, get
     * logits; 0: all tokens get them. Not for a POOLED head. */
    size_t last_logits;
    bool no_logits; /* no logits at all */
    /* [intervention_count], made in this order at each place of the pass */
    const attn_intervention *interventions;
    size_t intervention_count;
    /* [place_count] places whose activations are kept. Requires a pass without dropout. Not for
     * seq2seq, which has no residual stream. They must live as long as the results. */
    const attn_place *places;
    size_t place_count;
} attn_forward_options;

/* Computes logits, and what `keep` names: the weights of all sites, their queries, keys and values,
 * all states. Any number of threads may call it while no thread changes the parameters. Errors:
 *
 *   ATTN_EVALUE                     an id, a length, a place or dropout is out of range
 *                                   ("source/1/3")
 *   ATTN_EARG                       the model has nothing of the kind that an intervention or a
 *                                   place names ("interventions/0/head")
 *   ATTN_ELIMIT                     a sequence is longer than max_length
 *   ATTN_ENOMEM                     the arena is full
 *   ATTN_ECANCELED, ATTN_EDEADLINE  `control` stopped it */
attn_status attn_model_forward(const attn_model *model, const attn_batch *batch,
                               const attn_forward_options *options, attn_arena *arena,
                               attn_pool *pool, const attn_control *control,
                               attn_model_outputs *out, attn_error *err);

/* The cross entropy of logits: the mean over the rows that count, or 0 if no row counts. */
typedef struct attn_cross_entropy_loss {
    double loss;  /* mean cross entropy in nats */
    size_t rows;  /* rows that count: those that are not padding */
    size_t right; /* rows that count and whose largest logit is that of the expected id */
} attn_cross_entropy_loss;

/* Options of a training step (attn_model_step). */
typedef struct attn_step_options {
    uint64_t seed;    /* seed of dropout; equal seeds and batches give equal bytes */
    double smoothing; /* label smoothing, default 0 */
    /* Weights of two additional losses on the last cross-attention layer, default 0. guidance:
     * difference of the mean weights of this layer from batch->alignment. diversity: similarity of
     * the heads of this layer. Models without attention ignore both. */
    double guidance, diversity;
} attn_step_options;
/* Runs the forward pass, the loss and the backward pass, and adds the gradients to those of the
 * parameters. The model must have been made with gradients. During a call no other thread may use
 * the model. Errors as attn_model_forward. */
attn_status attn_model_step(attn_model *model, const attn_batch *batch,
                            const attn_step_options *options, attn_arena *arena, attn_pool *pool,
                            const attn_control *control, attn_cross_entropy_loss *loss,
                            attn_error *err);

enum { ATTN_ALTERNATIVES_MOST = 64 };

/* The most probable tokens of a step of a search, the most probable one first. pad and begin are
 * among them only if the configuration has any_ids, since else a search never takes them. Log
 * probabilities are those of the softmax over all tokens, pad and begin included. `count` is
 * attn_generate_options.alternatives, or the number of tokens that a search may take if these are
 * fewer. */
typedef struct attn_alternatives {
    size_t count;
    int32_t *ids;              /* [count] */
    double *log_probabilities; /* [count] */
} attn_alternatives;

/* A token of a search with one beam. */
typedef struct attn_generated_token {
    int32_t id;
    bool ends; /* true: the token ends the sequence */
    double log_probability;
    /* [heads, columns] the token's row in attn_generated.weights; the rows of successive heads are
     * `stride` floats apart. NULL: there is no attention */
    const float *weights;
    size_t heads, columns, stride;
    attn_alternatives alternatives; /* the token is one of them unless count is 0 */
} attn_generated_token;

/* A step of a search with one beam. */
typedef struct attn_generated_step {
    size_t index; /* index of the step, from 0 */
    /* [site_count] as attn_model_sites lists them, with operations that live until the callback
     * returns. The operations of the encoder cover the whole source. The operations of the decoder
     * have one query for each sequence, the query of this step; in self-attention they have the
     * keys of all steps so far. A model without an encoder has steps for the tokens of its prompt,
     * too. */
    const attn_site *sites;
    size_t site_count;
    const int32_t *ids; /* [B] the next token of each sequence; config.end after its end */
} attn_generated_step;

/* Options of attn_model_generate: greedy search (beams = 1), beam search, or sampling. The score of
 * a sequence is the sum of its log probabilities, divided by ((5 + length) / 6)^length_penalty (Wu
 * et al. 2016, section 7).
 *
 * Sampling draws token t of sequence b. It sorts all tokens but pad and begin by falling
 * probability, then by id, and gives them the weights e^(logit / temperature). It keeps the first
 * top_k tokens, of these the fewest first ones whose weights reach the share top_p of their sum
 * (Holtzman et al. 2020), and of these the tokens whose weights are at least min_p times the largest
 * weight (Nguyen et al. 2024). It adds up the weights that are kept, in order, and takes the token
 * at which the sum first exceeds u times the sum of them all, where u =
 * attn_rng_uniform(attn_rng_bits(seed, b), t) (rng.h).
 *
 * Penalties change the logits of a step before a token is taken, with one beam, greedily or by
 * sampling; log probabilities are those of the changed logits. The tokens of a sequence are those
 * of its prompt, its begin token included, and those generated so far. First each of them has its
 * logit divided by repetition_penalty, or multiplied if it is below 0 (Keskar et al. 2019). Then
 * each generated token loses frequency_penalty for each time that it was generated, and
 * presence_penalty once. Last, the tokens that would repeat no_repeat_ngram_size tokens of the
 * sequence in a row get -infinity (Paulus et al. 2018). If all tokens have it, the search ends
 * there. */
typedef struct attn_generate_options {
    size_t beams; /* hypotheses for each source; 1 (default): greedy search */
    /* most new tokens of a target, its end token included; 0 (default): 2 S + 10 */
    size_t most;
    double length_penalty; /* default 0.6; only for beams > 1 */
    /* whether to return the weights of the last cross-attention layer, or of the last layer if the
     * model has no encoder */
    bool want_weights;
    const uint8_t *source_keep; /* [B, S] as in attn_batch; NULL (default): nothing is hidden */
    /* how many of the most probable tokens are returned for each step; default 0, at most
     * ATTN_ALTERNATIVES_MOST */
    size_t alternatives;
    bool samples;                               /* draw each token; only with one beam */
    double temperature;                         /* sampling: above 0, default 1 */
    double top_p;                               /* sampling: above 0, at most 1 (default) */
    double min_p;                               /* sampling: 0 (default) to 1 */
    size_t top_k;                               /* sampling: 0 (default) keeps all tokens */
    uint64_t seed;                              /* sampling: default 0 */
    double repetition_penalty;                  /* above 0; 0 (default) and 1: none */
    double frequency_penalty, presence_penalty; /* finite; default 0 */
    size_t no_repeat_ngram_size;                /* 0 (default): tokens may repeat */
    /* [intervention_count], default none. Allowed are ATTN_ABLATE_ZERO and ATTN_SCALE_HEAD of all
     * sequences and positions, since a search never sees a sequence as a whole. */
    const attn_intervention *interventions;
    size_t intervention_count;
    /* [stop_count] ids that end a sequence as config.end does; default none */
    const int32_t *stop;
    size_t stop_count;
    /* The prompt begins with the token that the decoder reads first, so config.begin is not put
     * before it. Only for a model without an encoder; its prompts then have at least one token. */
    bool bare;
    /* Called after each new token with one beam and one source; or NULL. If it returns non-zero,
     * the search ends with ATTN_ECANCELED. */
    int (*token)(void *ctx, const attn_generated_token *token);
    void *ctx;
    /* Called after each step with one beam, before `token`; or NULL. If it returns non-zero,
     * the search ends with ATTN_ECANCELED. */
    int (*step)(void *step_ctx, const attn_generated_step *step);
    void *step_ctx;
} attn_generate_options;

/* Returns the options with their default values. */
attn_generate_options attn_generate_defaults(void);

/* A generated sequence. */
typedef struct attn_generated {
    int32_t *ids; /* [length], without begin, prompt and end */
    size_t length;
    /* true: an end token follows; false: the sequence has as many tokens as options->most allows */
    bool ended;
    int32_t end;  /* the end token that follows: config.end or one of options->stop */
    double score; /* score of the sequence, see attn_generate_options */
    /* [heads, length + ended, columns] attention of each token and of the end; NULL: not wanted, or
     * the model has no attention. Columns are the S source tokens. In a model without an encoder
     * they are the begin token (unless the prompt is bare), the prompt, and all generated tokens
     * but the last one. */
    float *weights;
    size_t heads, columns;
    /* [length + ended] each: the log probability of each token and of the end, and the most
     * probable tokens of its step. A token of a beam search need not be one of the most probable
     * ones. NULL without attn_generate_options.alternatives. */
    double *log_probabilities;
    attn_alternatives *alternatives;
} attn_generated;

/* Generates a sequence for each of B sources [B, S] into out [B]. A model without an encoder
 * continues its source, the prompt, which may be empty (length 0). Sequences are in the arena.
 * Errors as attn_model_forward; ATTN_EARG also for an option out of its range, or a model without a
 * decoder. */
attn_status attn_model_generate(const attn_model *model, const int32_t *source,
                                const int64_t *source_lengths, size_t B, size_t S,
                                const attn_generate_options *options, attn_arena *arena,
                                attn_pool *pool, const attn_control *control, attn_generated *out,
                                attn_error *err);

/* The sizes of one use of a model, for its cost. If `searches` is true, the decoder reads one token
 * of each target at a time behind a prompt, as in generation. Else it reads all tokens together. */
typedef struct attn_model_pass {
    /* Number of sources, and tokens of each. In a search without an encoder these are prompts. */
    size_t B, S;
    size_t rows, T;     /* number of targets (beams included), and tokens of each */
    bool hides;         /* some source tokens are hidden by a mask (source_keep) */
    bool keeps_weights; /* ATTN_KEEP_WEIGHTS, or attn_generate_options.want_weights or `token` */
    /* attn_model_forward */
    bool keeps_states, keeps_inputs; /* ATTN_KEEP_STATES, ATTN_KEEP_INPUTS */
    bool drops;                      /* attn_forward_options.dropout_p is above 0 */
    bool no_logits;                  /* attn_forward_options.no_logits */
    size_t places;                   /* attn_forward_options.place_count */
    /* attn_model_step */
    bool trains;
    bool guides; /* the step has losses of guidance or diversity */
    /* attn_model_generate; the members are those of attn_generate_options */
    bool searches, samples, penalises; /* penalises: any penalty is set */
    size_t beams, alternatives;
} attn_model_pass;

/* The cost of an attn_model_pass. The sizes may be beyond any memory. */
typedef struct attn_model_cost {
    double cells;          /* cells of the score matrices of all heads */
    double operations;     /* floating-point operations; a multiply-add counts as 2 */
    double bytes;          /* upper bound of the bytes that the pass takes from its arena */
    double fallback_bytes; /* more bytes if all attention is computed again in double (attn_cost) */
} attn_model_cost;
/* Computes the cost of a pass on `slots` threads. */
attn_model_cost attn_model_pass_cost(const attn_model *model, const attn_model_pass *pass,
                                     size_t slots);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
