/* The parts of a model and a pass through it; shared by the files of lib/models.
 *
 * A model has one or two stacks of blocks, encoder and decoder, each behind its embeddings, and a
 * head behind the last stack. A block is one operation (an LSTM, an attention layer, feed-forward or
 * a norm), with or without a residual connection and a norm. The architectures differ only in the
 * blocks that they declare.
 *
 * A walk (model_walk) is one pass through all stacks. A search decodes one token of each row in a
 * step; a row is one hypothesis (a beam) of one source. It uses caches, so that a step does not
 * compute earlier tokens again.
 *
 * Shapes: B sequences, S source and T target tokens, D the width, V the target vocabulary. */
#ifndef ATTN_MODEL_PRIVATE_H
#define ATTN_MODEL_PRIVATE_H

#include <attn/models.h>

#include "layers/layers.h"

enum { MODEL_WIDTH_MOST = 4096 }; /* largest width */

/* How a block applies its operation f to its input x. */
typedef enum model_wrap {
    WRAP_NONE,   /* output f(x) */
    WRAP_AFTER,  /* output norm(x + dropout(f(x))) */
    WRAP_BEFORE, /* output x + dropout(f(norm(x))) */
} model_wrap;

typedef struct model_operation model_operation;

/* Position-wise feed-forward: linear2(dropout(h)) with h = activation(linear1(x)) or, if `gated`, h
 * = activation(gate(x)) * linear1(x). */
typedef struct model_feed {
    attn_linear linear1, linear2, gate;
    attn_activation activation;
    bool gated;
    double dropout;
} model_feed;

/* One block of a stack. */
typedef struct model_block {
    const model_operation *operation;
    model_wrap wrap;
    attn_norm norm; /* layer norm of the wrap; for attn_models_norm it is the operation itself */
    /* The layer of the operation. */
    union {
        attn_lstm lstm;
        attn_attend attend;
        model_feed feed;
    };
} model_block;

/* What a stack reads: dropout(norm(tokens + positions + segments)). The positions are those of the
 * model. */
typedef struct model_embedding {
    attn_embedding tokens, segments; /* segments.rows is 0 if there are none */
    attn_norm norm;                  /* norm.width is 0 if there is none */
} model_embedding;

/* A stack of blocks: the encoder or the decoder. */
typedef struct model_stack {
    model_block *blocks; /* [count] */
    size_t count;        /* 0: the model has no such stack */
    model_embedding embedding;
} model_stack;

/* From the outputs of the last stack to logits. */
typedef struct model_head {
    attn_linear pooler; /* of the first token, before tanh; pooler.out is 0 if there is none */
    attn_linear projection;
} model_head;

/* A model (attn/models.h). */
struct attn_model {
    attn_model_config config;
    attn_arena *arena; /* of the model's lists: blocks, sites and states */
    attn_parameters *set;
    float *sinusoids;         /* [max_length, D] sinusoidal positions; NULL: other positions */
    attn_embedding positions; /* learned positions; without values if there are none */
    model_stack encoder, decoder;
    model_head head;
    bool hands; /* without attention: the decoder's LSTM starts from the encoder's last state */
    bool reads_padding;  /* the encoder's LSTM also reads padding */
    attn_site *sites;    /* [site_count], as attn_model_sites returns them */
    size_t *site_blocks; /* [site_count] index of the block of each site in its stack */
    size_t site_count;
    attn_model_state *states; /* [state_count], as attn_model_states returns them */
    size_t state_count;
};

/* What the forward pass of a block keeps for its backward pass, and for callers that want weights.
 * Arrays are [B, T, D] unless stated otherwise; n = B * T. */
typedef struct model_trace {
    const float *x; /* the block's input */
    float *inner;   /* WRAP_BEFORE: norm(x), the input of the operation; else NULL */
    /* sum: WRAP_AFTER: x + dropout(f(x)), the input of the norm, else NULL; out: the block's
     * output. */
    float *sum, *out;
    float *stats;             /* [n, 2] statistics of the layer norm */
    uint64_t seed, feed_seed; /* seeds of the dropout of the wrap, and of feed-forward */
    /* Feed-forward, [n, feed_forward] each. For ReLU without a gate `hidden` is `active`: it is 0
     * exactly where the argument was not positive or was dropped, and the gradient there is 0. */
    float *hidden; /* the argument of the activation */
    float *factor; /* by which a gate multiplies its result; NULL: there is no gate */
    float *active; /* the hidden layer after dropout */
    attn_lstm_saved lstm;
    attn_attend_saved attend;
    /* [B, heads, L, S] gradient with respect to the attention weights, of the losses that are
     * computed from these weights; NULL: there is no such loss. */
    const float *dweights;
} model_trace;

/* What a decoder block keeps between the steps of a search, for all rows. */
typedef struct model_cache {
    attn_lstm_state state, next; /* LSTM: [layers, rows, D] before and after the current token */
    attn_lstm_panels panels;     /* LSTM: its matrices, packed for all steps */
    /* attention: keys and values, [rows, most, D] (self) or [rows, S, D] (cross) */
    attn_attend_saved seen;
    float *spare; /* [rows, most, D] second buffer, to reorder keys or values; NULL: one beam */
} model_cache;

/* One stack during a pass. */
typedef struct model_half {
    const model_stack *stack;
    const int32_t *ids;      /* [B, T] */
    const int32_t *segments; /* [B, T]; NULL: all 0 */
    size_t B, T, first; /* first: position of the first of the T tokens (0, except in a search) */
    /* [B] tokens of each sequence without padding, for the encoder; NULL: all T */
    const int64_t *lengths;
    const uint8_t *keep; /* [B, T] for the encoder: 0 hides a token from attention; NULL: none */
    float *embedded;     /* [B, T, D] input of the first block */
    /* [B, T, D] embeddings of tokens before anything is added; NULL: not kept, or nothing is */
    const float *unplaced;
    /* [B, T, D] sum of the embeddings before their norm, and statistics of the norm [n, 2]; NULL:
     * there is no norm */
    float *summed, *stats;
    const float *out;    /* [B, T, D] output of the last block */
    uint64_t seed;       /* seed of the dropout after embedding */
    model_trace *traces; /* [stack->count] */
    bool want_weights;
    /* In a decoder: the encoder's outputs [B, S, D], their lengths [B], which of them are visible
     * [B, S] (NULL: all), and their gradient [B, S, D]. */
    const float *memory;
    size_t S;
    const int64_t *memory_lengths;
    const uint8_t *memory_keep;
    float *dmemory;
    /* States of LSTMs before the first and after the last token, and their gradients (d…). Pointers
     * are NULL where they are not used. */
    attn_lstm_state initial, last, dinitial, dlast;
    model_cache *caches; /* in a search: [stack->count]; NULL: whole sequences are decoded */
} model_half;

/* A pass through a model. */
typedef struct model_walk {
    const attn_model *model;
    attn_pass pass;
    model_half encoder, decoder;
    bool keep_states; /* keep states that no later step of a pass reads */
    size_t rows;      /* rows of logits */
    float *logits;    /* [rows, V] */
    float *pooled;    /* [B, D] output of the pooler */
} model_walk;

/* The rows of a search. Row r is a hypothesis for source r / beams. */
typedef struct model_rows {
    size_t rows, beams, most; /* rows = sources * beams; most: largest number of tokens */
} model_rows;

/* The sizes of a stack in a pass, for its cost. */
typedef struct model_extent {
    size_t B, T;    /* sequences, and tokens of each */
    size_t earlier; /* tokens before them, whose keys and values are in caches */
    size_t S;       /* tokens of the encoder's outputs */
    attn_pass_use use;
} model_extent;

/* The functions of an operation. `half` is the stack of the block; x, out, dx and dout are
 * [half->B, half->T, D]. They return ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE and errors of the
 * layers. */
struct model_operation {
    attn_status (*forward)(float *out, const float *x, model_walk *walk, model_half *half,
                           const model_block *block, model_trace *trace, attn_error *err);
    /* Adds the gradient of x to dx, and the gradients of parameters to those of the set. */
    attn_status (*backward)(float *dx, const float *dout, model_walk *walk, model_half *half,
                            const model_block *block, model_trace *trace, attn_error *err);
    /* Adds the cost of the block, without its wrap. NULL: it has none beside that of its norm. */
    void (*cost)(const model_block *block, const model_extent *extent, attn_layer_cost *cost);
    /* Adds the cost of `start` for sources of S tokens. */
    void (*start_cost)(const model_block *block, const model_rows *rows, size_t S,
                       attn_layer_cost *cost);
    /* Makes the cache of the block before a search. NULL: the operation needs no cache. */
    attn_status (*start)(model_walk *walk, const model_block *block, const model_rows *rows,
                         model_cache *cache, attn_error *err);
    /* Reorders the cache after `steps` tokens, so that row r continues hypothesis parents[r]. NULL:
     * the cache is the same for all rows of a source, or there is none. */
    void (*follow)(const model_walk *walk, const model_block *block, const model_rows *rows,
                   const size_t *parents, size_t steps, model_cache *cache);
    attn_site_kind site; /* valid if has_site: encoder, decoder or cross attention */
    bool has_site;       /* the operation is an attention */
    /* The state after the operation, without the layer norm of its wrap, and the state after that
     * norm. */
    attn_state_step step, norm_step;
};

/* An LSTM; self-attention of an encoder; causal self-attention; attention to the encoder's outputs;
 * feed-forward; a layer norm. */
extern const model_operation attn_models_lstm, attn_models_self, attn_models_causal,
    attn_models_cross, attn_models_feed, attn_models_norm;

/* Declare all stacks, embeddings and the projection to logits, in the order of PyTorch's state
 * dict. false: out of memory. */
bool attn_models_declare_seq2seq(attn_model *model);
bool attn_models_declare_transformer(attn_model *model);
bool attn_models_declare_encoder(attn_model *model);
bool attn_models_declare_decoder(attn_model *model);
/* Returns an attention layer of the configured kind, width and pattern, not yet declared. `across`:
 * it attends to the encoder's outputs. */
attn_attend attn_models_attend(const attn_model_config *config, bool across);
/* Returns the last stack, whose outputs the head reads, and its part of a walk. */
const model_stack *attn_models_last(const attn_model *model);
model_half *attn_models_last_half(model_walk *walk);
/* Returns the index of the last block with this operation, or the number of blocks if there is none. */
size_t attn_models_last_block(const model_stack *stack, const model_operation *operation);
/* Returns whether embeddings are added to those of the tokens of a stack. */
bool attn_models_adds_embeddings(const attn_model *model, const model_stack *stack);
/* Make the lists of a declared model's sites and states. ATTN_ENOMEM. */
attn_status attn_models_list_sites(attn_model *model, attn_error *err);
attn_status attn_models_list_states(attn_model *model, attn_error *err);
/* Return the model's sites with the operations of a walk, and with the weights if it keeps them;
 * and its states with the values of a walk. Both are in the arena of the walk. NULL: ATTN_ENOMEM. */
attn_site *attn_models_sites_of(const model_walk *walk, attn_error *err);
attn_model_state *attn_models_states_of(const model_walk *walk, attn_error *err);
/* Sets query, key and value of sites that attn_models_sites_of returned. Errors as
 * attn_attention_operands. */
attn_status attn_models_site_inputs(const model_walk *walk, attn_site *sites, attn_error *err);
/* Returns the relative positions of self-attention layers. */
attn_position_kind attn_models_relative(const attn_model_config *config);

/* Runs the encoder over the sources of a batch. The outputs are walk->encoder.out. */
attn_status attn_models_encode(model_walk *walk, const attn_batch *batch, bool want_weights,
                               attn_error *err);
/* Run the decoder. attn_models_decode reads whole targets
 * [B, T]. attn_models_decode_step is a step of a search: it reads `tokens` [rows], which are token
 * number `first` of each row. `lengths` [rows] and `keep` [rows, S] are those of the rows' sources;
 * `caches` are those of the decoder's blocks. */
attn_status attn_models_decode(model_walk *walk, const attn_batch *batch, bool want_weights,
                               attn_error *err);
attn_status attn_models_decode_step(model_walk *walk, const int32_t *tokens, size_t rows,
                                    size_t first, model_cache *caches, const int64_t *lengths,
                                    const uint8_t *keep, bool want_weights, attn_error *err);

/* Checks a batch for the stacks of the model. Errors as attn_model_forward. */
attn_status attn_models_check_batch(const attn_model *model, const attn_batch *batch,
                                    attn_error *err);
/* Runs the stacks and the head over whole sequences. */
attn_status attn_models_forward(model_walk *walk, const attn_batch *batch, bool want_weights,
                                attn_error *err);

/* Computes walk->logits of the outputs of the last stack. ATTN_ENOMEM. */
attn_status attn_models_head(model_walk *walk, attn_error *err);

/* Runs the backward pass from dlogits [rows, V], and adds the gradients of all parameters to those
 * of the set. The walk must be a forward pass with training on. */
attn_status attn_models_backward(model_walk *walk, const float *dlogits, attn_error *err);

/* Draws a token from logits [V] as the options of a generation say. `uniform` is a random number in
 * [0, 1). ATTN_ENOMEM. */
attn_status attn_models_draw(const float *logits, const attn_model_config *config,
                             const attn_generate_options *options, double uniform,
                             attn_arena *arena, int32_t *out, attn_error *err);

/* Adds the bytes that attn_models_draw takes. */
void attn_models_draw_cost(const attn_model_config *config, attn_layer_cost *cost);
/* Adds the bytes that a search keeps of its steps and sequences. */
void attn_models_search_cost(const attn_model *model, const attn_model_pass *pass,
                             attn_layer_cost *cost);

/* Checks sizes and ids of a configuration. ATTN_EARG; err->where names the member. */
attn_status attn_models_check_config(const attn_model_config *config, attn_error *err);
/* Checks ids and lengths of prompts [B, S]; they may be empty. Errors as attn_model_forward. */
attn_status attn_models_check_prompts(const attn_model *model, const attn_batch *batch,
                                      attn_error *err);
/* Check ids, lengths, sizes, visibility and segments of the sources of a batch, or ids and sizes of
 * targets [B, T]. Errors as attn_model_forward. */
attn_status attn_models_check_source(const attn_model *model, const attn_batch *batch,
                                     attn_error *err);
attn_status attn_models_check_target(const attn_model *model, const int32_t *target, size_t B,
                                     size_t T, const char *name, attn_error *err);

#endif
