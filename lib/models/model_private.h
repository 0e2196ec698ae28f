/* The parts of a model, and the walk through them.
 *
 * A model is two stacks of blocks, encoder and decoder, between embeddings and logits. A block is
 * one operation, perhaps with a residual and a layer norm around it. operation.c has a table of
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
    attn_norm norm; /* of the wrap, or all that the block is */
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

/* What a block's backward needs, and who follows a pass wants to see. */
typedef struct model_trace {
    const float *x;   /* what the block read */
    float *inner;     /* what the operation read: x, or its norm */
    float *sum, *out; /* sum: what the norm of WRAP_AFTER reads */
    float *stats;
    uint64_t seed, feed_seed;
    float *active; /* of feed-forward: behind activation and dropout */
    attn_lstm_saved lstm;
    attn_attend_saved attend;
    const float *dweights; /* what losses of their own ask of its weights; NULL: nothing */
} model_trace;

/* What a search keeps of a block of the decoder from one token to the next, rows at a time. */
typedef struct model_cache {
    attn_lstm_state state, next; /* [layers, rows, D] */
    attn_attend_saved seen;      /* keys and values, [rows, most, D] or [rows, S, D] */
    float *spare;                /* [rows, most, D]: for rows in a new order */
} model_cache;

/* One stack on its way. */
typedef struct model_half {
    const model_stack *stack;
    const int32_t *ids;
    size_t B, T, first;     /* first: position of step 0 */
    const int64_t *lengths; /* of the sequences that are read; NULL: all T */
    float *embedded;
    const float *out; /* of the last block */
    uint64_t seed;    /* of dropout of the embeddings */
    model_trace *traces;
    bool want_weights;
    /* What the blocks of a decoder look at, and its gradient. */
    const float *memory;
    size_t S;
    const int64_t *memory_lengths;
    float *dmemory;
    /* The states that LSTMs start from and end with, and their gradients; NULL where there are
     * none. */
    attn_lstm_state initial, last, dinitial, dlast;
    model_cache *caches; /* a search's, one a block; NULL: whole sequences */
} model_half;

typedef struct model_walk {
    const attn_model *model;
    attn_pass pass;
    model_half encoder, decoder;
    float *logits; /* [B, T, V] */
} model_walk;

/* Rows of a search, in which source r / beams is translated. */
typedef struct model_rows {
    size_t rows, beams, most; /* most: tokens */
} model_rows;

/* `half` is one of the walk's; x [B, T, D] is what the operation reads. */
struct model_operation {
    attn_status (*forward)(float *out, const float *x, model_walk *walk, model_half *half,
                           const model_block *block, model_trace *trace, attn_error *err);
    /* dx is added to. */
    attn_status (*backward)(float *dx, const float *dout, model_walk *walk, model_half *half,
                            const model_block *block, model_trace *trace, attn_error *err);
    /* A search begins: what the block keeps. NULL: nothing. */
    attn_status (*start)(model_walk *walk, const model_block *block, const model_rows *rows,
                         model_cache *cache, attn_error *err);
    /* Row r goes on from row parents[r], after `steps` tokens. NULL: the rows of a source keep
     * the same. */
    void (*follow)(const model_walk *walk, const model_block *block, const model_rows *rows,
                   const size_t *parents, size_t steps, model_cache *cache);
    attn_site_kind site;
    bool has_site;
};

extern const model_operation attn_models_lstm, attn_models_self, attn_models_causal,
    attn_models_cross, attn_models_feed, attn_models_norm;

/* Declare the stacks and what stands between them, in order of their names. */
void attn_models_declare_seq2seq(attn_model *model);
void attn_models_declare_transformer(attn_model *model);
/* An attention of the kind and pattern that the configuration asks for. */
attn_attend attn_models_attend(const attn_model_config *config, bool across);
attn_attend_position attn_models_relative(const attn_model_config *config);

/* Sources [B, S] to walk->encoder.out. */
attn_status attn_models_encode(model_walk *walk, const int32_t *source, const int64_t *lengths,
                               size_t B, size_t S, bool want_weights, attn_error *err);
/* Targets [B, T] to walk->logits, all at once; a token of each row of a search, number `first`,
 * with what `caches` and `lengths` (of each row's source) hold. */
attn_status attn_models_decode(model_walk *walk, const int32_t *target, size_t T, bool want_weights,
                               attn_error *err);
attn_status attn_models_decode_step(model_walk *walk, const int32_t *tokens, size_t rows,
                                    size_t first, model_cache *caches, const int64_t *lengths,
                                    bool want_weights, attn_error *err);

/* From the gradients of the logits to those of all parameters. */
attn_status attn_models_backward(model_walk *walk, const float *dlogits, attn_error *err);

attn_status attn_models_check_config(const attn_model_config *config, attn_error *err);
/* Ids, lengths and sizes of a batch's sources, and of its targets. */
attn_status attn_models_check_source(const attn_model *model, const int32_t *source,
                                     const int64_t *lengths, size_t B, size_t S, attn_error *err);
attn_status attn_models_check_target(const attn_model *model, const int32_t *target, size_t B,
                                     size_t T, const char *name, attn_error *err);

#endif
