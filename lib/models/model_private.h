/* The parts of a model, and a pass through them.
 *
 * A model is two stacks of blocks, encoder and decoder, between embeddings and logits. A block is
 * one operation, optionally with a residual and a layer norm. operation.c has a table of
 * operations. Architectures differ only in the blocks that they declare. */
#ifndef ATTN_MODEL_PRIVATE_H
#define ATTN_MODEL_PRIVATE_H

#include <attn/models.h>

#include "layers/layers.h"

enum { MODEL_WIDTH_MOST = 4096, MODEL_BLOCKS = 3 * ATTN_MODEL_LAYERS + 1 };

typedef enum model_wrap {
    WRAP_NONE,   /* f(x) */
    WRAP_AFTER,  /* norm(x + dropout(f(x))) */
    WRAP_BEFORE, /* x + dropout(f(norm(x))) */
} model_wrap;

typedef struct model_operation model_operation;

/* Position-wise feed-forward: linear2(dropout(relu(linear1(x)))). */
typedef struct model_feed {
    attn_linear linear1, linear2;
    double dropout;
} model_feed;

typedef struct model_block {
    const model_operation *operation;
    model_wrap wrap;
    attn_norm norm; /* of the wrap, or the whole block */
    union {
        attn_lstm lstm;
        attn_attend attend;
        model_feed feed;
    };
} model_block;

typedef struct model_stack {
    model_block blocks[MODEL_BLOCKS];
    size_t count;
    attn_embedding embedding;
} model_stack;

struct attn_model {
    attn_model_config config;
    attn_parameters *set;
    float *sinusoids; /* [max_length, D], or NULL */
    attn_embedding positions;
    model_stack encoder, decoder;
    attn_linear projection;
    bool hands; /* the decoder's LSTM starts from the encoder's last state */
    bool reads_padding;
};

/* Intermediate results of a block, for its backward pass and for callers that want weights. */
typedef struct model_trace {
    const float *x;   /* input of the block */
    float *inner;     /* input of the operation: x or norm(x) */
    float *sum, *out; /* sum: input of the norm of WRAP_AFTER */
    float *stats;
    uint64_t seed, feed_seed;
    float *active; /* feed-forward: hidden layer after activation and dropout */
    attn_lstm_saved lstm;
    attn_attend_saved attend;
    const float *dweights; /* gradient of losses on attention weights; NULL: none */
} model_trace;

/* The cache of a decoder block, which a search keeps between tokens for all rows. */
typedef struct model_cache {
    attn_lstm_state state, next; /* [layers, rows, D] */
    attn_attend_saved seen;      /* keys and values, [rows, most, D] or [rows, S, D] */
    float *spare;                /* [rows, most, D]: buffer to reorder rows */
} model_cache;

/* The state of one stack during a pass. */
typedef struct model_half {
    const model_stack *stack;
    const int32_t *ids;
    size_t B, T, first;     /* first: position of step 0 */
    const int64_t *lengths; /* of the sequences that the blocks attend to; NULL: all T */
    float *embedded;
    const float *out; /* output of the last block */
    uint64_t seed;    /* of the dropout of embeddings */
    model_trace *traces;
    bool want_weights;
    /* The encoder's outputs, which the blocks of a decoder attend to, and their gradient. */
    const float *memory;
    size_t S;
    const int64_t *memory_lengths;
    float *dmemory;
    /* The initial and final states of LSTMs, and their gradients; NULL if there are none. */
    attn_lstm_state initial, last, dinitial, dlast;
    model_cache *caches; /* of a search, one for each block; NULL: whole sequences */
} model_half;

typedef struct model_walk {
    const attn_model *model;
    attn_pass pass;
    model_half encoder, decoder;
    float *logits; /* [B, T, V] */
} model_walk;

/* The rows of a search. Row r translates source r / beams. */
typedef struct model_rows {
    size_t rows, beams, most; /* most: maximum of tokens */
} model_rows;

/* The functions of an operation. `half` is the encoder or decoder of the walk; x [B, T, D] is the
 * input. */
struct model_operation {
    attn_status (*forward)(float *out, const float *x, model_walk *walk, model_half *half,
                           const model_block *block, model_trace *trace, attn_error *err);
    /* Adds to dx. */
    attn_status (*backward)(float *dx, const float *dout, model_walk *walk, model_half *half,
                            const model_block *block, model_trace *trace, attn_error *err);
    /* Creates the cache of the block at the start of a search. NULL: the block has none. */
    attn_status (*start)(model_walk *walk, const model_block *block, const model_rows *rows,
                         model_cache *cache, attn_error *err);
    /* Reorders the cache after `steps` tokens: row r continues row parents[r]. NULL: all rows of
     * a source share their cache. */
    void (*follow)(const model_walk *walk, const model_block *block, const model_rows *rows,
                   const size_t *parents, size_t steps, model_cache *cache);
    attn_site_kind site;
    bool has_site;
};

extern const model_operation attn_models_lstm, attn_models_self, attn_models_causal,
    attn_models_cross, attn_models_feed, attn_models_norm;

/* Declare the stacks, embeddings and logits, in the order of the state dict. */
void attn_models_declare_seq2seq(attn_model *model);
void attn_models_declare_transformer(attn_model *model);
/* Returns an attention layer of the configured kind and pattern, for the source if `across`. */
attn_attend attn_models_attend(const attn_model_config *config, bool across);
attn_attend_position attn_models_relative(const attn_model_config *config);

/* Encodes sources [B, S] into walk->encoder.out. */
attn_status attn_models_encode(model_walk *walk, const int32_t *source, const int64_t *lengths,
                               size_t B, size_t S, bool want_weights, attn_error *err);
/* Both compute walk->logits. The first decodes whole targets [B, T]. The second decodes token
 * number `first` of each row of a search, with `caches` and with the `lengths` of the rows'
 * sources. */
attn_status attn_models_decode(model_walk *walk, const int32_t *target, size_t T, bool want_weights,
                               attn_error *err);
attn_status attn_models_decode_step(model_walk *walk, const int32_t *tokens, size_t rows,
                                    size_t first, model_cache *caches, const int64_t *lengths,
                                    bool want_weights, attn_error *err);

/* Computes the gradients of all parameters from those of the logits. */
attn_status attn_models_backward(model_walk *walk, const float *dlogits, attn_error *err);

attn_status attn_models_check_config(const attn_model_config *config, attn_error *err);
/* Check ids, lengths and sizes of the sources and of the targets of a batch. */
attn_status attn_models_check_source(const attn_model *model, const int32_t *source,
                                     const int64_t *lengths, size_t B, size_t S, attn_error *err);
attn_status attn_models_check_target(const attn_model *model, const int32_t *target, size_t B,
                                     size_t T, const char *name, attn_error *err);

#endif
