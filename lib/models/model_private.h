/* The parts of a model and a pass through it; shared by the files of lib/models.
 *
 * A model has one or two stacks of blocks, encoder and decoder. Each stack reads embeddings, and a
 * head makes logits from the outputs of the last stack. A block is one operation (an LSTM, an
 * attention layer, feed-forward or a norm), with or without a residual connection and a norm. The
 * architectures differ only in the blocks that they declare.
 *
 * A walk (model_walk) is one pass through all stacks. A search runs the decoder step by step, and
 * each step reads one token of each row; before the steps, a decoder alone reads its prompts. A row
 * is one hypothesis (a beam) for one source. Caches keep keys, values and LSTM states, so that a
 * step does not compute earlier tokens again.
 *
 * Shapes: B sequences, S source and T target tokens, D the width, V the target vocabulary. */
#ifndef ATTN_MODEL_PRIVATE_H
#define ATTN_MODEL_PRIVATE_H

#include <attn/models.h>

#include "layers/layers.h"

enum { MODEL_WIDTH_MOST = 4096 }; /* largest width */

/* Most buffers [B, T, D] of a kind that the blocks of a lean pass write in turn. */
enum { MODEL_OUTPUTS = 3, MODEL_INNERS = 2 };

/* How a block applies its operation f to its input x. */
typedef enum model_wrap {
    WRAP_NONE,   /* output f(x) */
    WRAP_AFTER,  /* output norm(x + dropout(f(x))) */
    WRAP_BEFORE, /* output x + dropout(f(norm(x))); without a norm x + dropout(f(x)) */
    WRAP_AROUND, /* output x + second(f(norm(x))) */
    WRAP_INSIDE, /* output x + norm(f(x)) */
} model_wrap;

typedef struct model_operation model_operation;

/* Position-wise feed-forward: linear2(dropout(h)), where h = activation(linear1(x)) or, if `gated`,
 * h = activation(gate(x)) * linear1(x). */
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
    attn_norm norm; /* norm of the wrap, or of the operation attn_models_norm, which has no wrap */
    attn_norm second;     /* only with WRAP_AROUND */
    float residual_scale; /* factor of the vector that is added to x; 0: 1 */
    /* f reads the input of the block before instead of its output. With shares_norm it reads this
     * input after the norm of that block. */
    bool parallel, shares_norm;
    /* index of the block whose parameters this block shares; its own index: it has parameters of
     * its own */
    size_t like;
    /* The layer of the operation: the member of its type. attn_models_norm has no layer. */
    union {
        attn_lstm lstm;
        attn_attend attend;
        model_feed feed;
    };
} model_block;

/* The embeddings that a stack reads: dropout(projection(norm(tokens + positions + segments))). */
typedef struct model_embedding {
    attn_embedding tokens, segments; /* segments.rows is 0 if the stack has no segments */
    attn_embedding positions;        /* learned positions of this stack; rows is 0 if it has none */
    attn_norm norm;                  /* norm.width is 0 if the stack has no such norm */
    attn_linear projection;          /* projection.out is 0 if the tables have the model's width */
} model_embedding;

/* A stack of blocks: the encoder or the decoder. */
typedef struct model_stack {
    model_block *blocks; /* [count] */
    size_t count;        /* 0: the model has no such stack */
    model_embedding embedding;
    attn_weight buckets; /* [num_buckets, heads] of T5 positions */
} model_stack;

/* The layers that make logits from the outputs of the last stack. */
typedef struct model_head {
    /* Layer for the output of the first token; tanh follows it. pooler.out is 0 if the model does
     * not pool. Then each token has logits. */
    attn_linear pooler;
    /* A head of masked words: layer, activation and norm before the projection; dense.out is 0 if
     * the model has another head. */
    attn_linear dense;
    attn_activation activation;
    attn_norm norm;
    attn_linear projection; /* projection.out is 0 if the model has no head */
} model_head;

/* A model (attn/models.h). */
struct attn_model {
    attn_model_config config;
    attn_arena *arena; /* holds the lists of blocks, sites and states */
    attn_parameters *set;
    /* [max_length, D] table of sinusoidal positions; NULL if positions are not sinusoidal */
    float *sinusoids;
    /* Table [position_offset + max_length, D] of learned positions that both stacks share; rows is 0
     * if there is none. */
    attn_embedding positions;
    /* factors of rotary positions, if longrope scales them */
    attn_weight short_factor, long_factor;
    model_stack encoder, decoder;
    model_head head;
    /* A seq2seq model without attention: the LSTM of the decoder starts from the last LSTM states
     * of the encoder. */
    bool hands;
    bool reads_padding;  /* the encoder's LSTM also reads padding */
    attn_site *sites;    /* [site_count], as attn_model_sites returns them */
    size_t *site_blocks; /* [site_count] index of the block of each site in its stack */
    size_t site_count;
    attn_model_state *states; /* [state_count], as attn_model_states returns them */
    size_t state_count;
};

/* Data that the forward pass of a block keeps for its backward pass, and for callers that want
 * weights or states. Arrays are [B, T, D] unless stated otherwise; n = B * T. */
typedef struct model_trace {
    const float *x; /* the input of the operation or of the norm before it */
    /* the vector to which the wrap adds: x, or the output of the block before if parallel */
    const float *base;
    /* WRAP_BEFORE, WRAP_AROUND: norm(x), the input of the operation; else NULL */
    const float *inner;
    /* WRAP_AFTER: x + dropout(f(x)), the input of the norm; WRAP_AROUND, WRAP_INSIDE: f(…), the
     * input of the last norm; else NULL */
    float *sum;
    float *out;         /* the block's output */
    float *stats;       /* [n, 2] statistics of the block's norm (attn_norm_forward) */
    uint64_t seed;      /* seed of the dropout of the wrap */
    uint64_t feed_seed; /* seed of the dropout within feed-forward */
    /* Feed-forward: three arrays [n, feed_forward].
     *
     * The argument of the activation. For ReLU without a gate this is the same array as `active`:
     * backward needs only to know where the gradient is 0, and `active` is 0 exactly there. */
    float *hidden;
    float *factor; /* linear1(x), which multiplies the activation; NULL: feed.gated is false */
    float *active; /* the hidden layer after dropout, the input of linear2 */
    attn_lstm_saved lstm;
    attn_attend_saved attend;
    /* [B, heads, T, S] gradient of the losses on the block's attention weights, with respect to
     * these weights; NULL: there are no such losses. */
    const float *dweights;
} model_trace;

/* Data that a decoder block keeps between the steps of a search, for all rows. */
typedef struct model_cache {
    attn_lstm_state state;   /* LSTM: [layers, rows, D] states before the current token */
    attn_lstm_state next;    /* LSTM: [layers, rows, D] states after the current token */
    attn_lstm_panels panels; /* LSTM: the matrices of the layer, packed once for all steps */
    /* Attention: keys and values, [rows, most, K] (self) or [rows, S, K] (cross), where K is
     * attn_attend_key_width, and rows and most are members of model_rows. */
    attn_attend_saved seen;
    /* Self-attention: second buffer [rows, most, K], to reorder keys or values; NULL if there is
     * one beam. */
    float *spare;
} model_cache;

/* One stack during a pass. */
typedef struct model_half {
    const model_stack *stack;
    const int32_t *ids;      /* [B, T] */
    const int32_t *segments; /* [B, T]; NULL: the stack has no embeddings of segments */
    size_t B, T;             /* in a search B is the number of rows */
    size_t first;            /* position of the first of the T tokens; 0 except in a search */
    /* Encoder: [B] number of tokens of each sequence before padding; NULL: all T. */
    const int64_t *lengths;
    /* Encoder: [B, T], 0 hides a token from attention; NULL: no token is hidden. */
    const uint8_t *keep;
    float *embedded; /* [B, T, D] input of the first block */
    /* [B, T, D] embeddings of the tokens before positions and segments are added; NULL: the model
     * adds nothing, or the walk does not keep states. */
    const float *unplaced;
    float *summed; /* [B, T, D] sum of the embeddings before their norm; NULL: there is no norm */
    float *stats;  /* [B * T, 2] statistics of the norm of the embeddings; NULL: no norm */
    const float *out;    /* [B, T, D] output of the last block */
    uint64_t seed;       /* seed of the dropout after embedding */
    model_trace *traces; /* [stack->count] */
    bool want_weights;
    /* The next five members are used only in a decoder that follows an encoder. */
    const float *memory; /* [B, S, D] outputs of the encoder; NULL in a search, which has caches */
    size_t S;
    const int64_t *memory_lengths; /* [B] number of source tokens before padding */
    const uint8_t *memory_keep;    /* [B, S] 0: the source token is hidden; NULL: none is hidden */
    float *dmemory;                /* [B, S, D] gradient of memory */
    /* LSTM states before the first token and after the last token, and the gradients of both. A
     * struct that is not used has NULL pointers. */
    attn_lstm_state initial, last, dinitial, dlast;
    model_cache *caches; /* in a search: [stack->count]; NULL: whole sequences are decoded */
} model_half;

/* Vectors that a pass keeps at n places: after a block, or before the first block. */
typedef struct model_kept {
    float *heads; /* [n, Q] outputs of the heads; NULL: the block is no attention */
    float *made; /* [n, D] output of the operation, without the wrap; NULL: the block has no wrap */
    float *out;  /* [n, D] output of the block */
    float *stats;  /* [n, 2] statistics of the last norm of the block */
    bool *patched; /* [n] whether the output was patched */
} model_kept;

struct attn_activations {
    const attn_model *model;
    const model_stack *stack; /* the stack whose activations are kept: the last one */
    size_t *rows;             /* [count] rows of the places in the arrays [B, T, …] of a pass */
    size_t count;
    model_kept *blocks; /* [1 + stack->count]; the first has the input of the first block */
};

/* A pass through a model. */
typedef struct model_walk {
    const attn_model *model;
    attn_pass pass;
    model_half encoder, decoder;
    bool keep_states; /* also keep model_half.unplaced, which only attn_models_states_of reads */
    /* If last_logits is above 0, only the last `last_logits` tokens of each sequence get logits; 0:
     * all tokens. no_logits: no token gets logits. */
    size_t last_logits;
    bool no_logits;
    const attn_intervention *interventions; /* [intervention_count] */
    size_t intervention_count;
    const int64_t *target_lengths; /* [B] or NULL, as in attn_batch */
    attn_activations *activations; /* NULL: no activations are kept */
    /* Number of rows of logits, with B and T of the last stack: B if the model pools, else B *
     * T. */
    size_t rows;
    float *logits; /* [rows, V]; NULL: there are none */
    float *pooled; /* [B, D] output of the pooler, after tanh; NULL: the model does not pool */
} model_walk;

/* The block whose head outputs attn_models_see_heads receives. */
typedef struct model_heads {
    const model_walk *walk;
    const model_half *half;
    const model_block *block;
} model_heads;

/* The rows of a search. Row r is a hypothesis for source r / beams. */
typedef struct model_rows {
    size_t rows; /* number of sources * beams */
    size_t beams;
    size_t most; /* largest number of tokens of a row */
} model_rows;

/* Largest number of tokens of a prompt that a search reads together. */
enum { ATTN_MODELS_TOGETHER = 256 };

/* The sizes of a stack in a pass, for its cost. */
typedef struct model_extent {
    size_t B, T;    /* number of sequences, and number of tokens that the pass reads of each */
    size_t earlier; /* number of earlier tokens, whose keys and values are in caches */
    size_t S;       /* number of source tokens, that is of rows of the encoder's outputs */
    attn_pass_use use;
} model_extent;

/* The functions of an operation. `half` runs the stack of the block, and `trace` is the trace of
 * the block. x, out, dx and dout are [half->B, half->T, D]. Functions that return a status have the
 * errors ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE and those of the layers. */
struct model_operation {
    /* Computes `out` from x, and stores in *trace the data that backward needs. */
    attn_status (*forward)(float *out, const float *x, model_walk *walk, model_half *half,
                           const model_block *block, model_trace *trace, attn_error *err);
    /* Adds the gradient of x to dx, and the gradients of parameters to those of the set. */
    attn_status (*backward)(float *dx, const float *dout, model_walk *walk, model_half *half,
                            const model_block *block, model_trace *trace, attn_error *err);
    /* Adds the cost of the operation alone to *cost; the caller adds the costs of the wrap and of
     * block->norm. NULL for attn_models_norm, whose only cost is that of block->norm. */
    void (*cost)(const model_block *block, const model_extent *extent, attn_layer_cost *cost);
    /* Adds the cost of `start` for sources of S tokens to *cost. NULL if `start` is NULL. */
    void (*start_cost)(const model_block *block, const model_rows *rows, size_t S,
                       attn_layer_cost *cost);
    /* Makes the cache of the block before a search. NULL: the operation needs no cache. */
    attn_status (*start)(model_walk *walk, const model_block *block, const model_rows *rows,
                         model_cache *cache, attn_error *err);
    /* Prepares the cache for the next step, when the rows have `steps` tokens: row r of the cache
     * becomes a copy of row parents[r]. NULL: all rows of a source have the same cache, or there is
     * no cache. */
    void (*follow)(const model_walk *walk, const model_block *block, const model_rows *rows,
                   const size_t *parents, size_t steps, model_cache *cache);
    attn_site_kind site; /* encoder, decoder or cross attention; used only if has_site */
    bool has_site;       /* the operation is an attention */
    /* The steps (attn/models.h) of the states of a block. */
    attn_state_step step;      /* after the operation and the residual sum */
    attn_state_step norm_step; /* after the norm of the wrap */
};

extern const model_operation attn_models_lstm;
extern const model_operation attn_models_self;   /* self-attention of an encoder */
extern const model_operation attn_models_causal; /* causal self-attention of a decoder */
extern const model_operation attn_models_cross;  /* attention to the encoder's outputs */
extern const model_operation attn_models_feed;   /* feed-forward */
extern const model_operation attn_models_norm;   /* a norm without another operation */

/* Declare all stacks, embeddings and the projection to logits, in the order of PyTorch's state
 * dict. Return false if memory runs out. */
bool attn_models_declare_seq2seq(attn_model *model);
bool attn_models_declare_transformer(attn_model *model);
bool attn_models_declare_encoder(attn_model *model);
bool attn_models_declare_decoder(attn_model *model);
/* Returns an attention layer of the configured kind, width and pattern. The layer is not yet
 * declared. If `across`, it attends to the encoder's outputs; else it is self-attention. */
attn_attend attn_models_attend(const attn_model_config *config, bool across);
/* The numbers of buffers [B, T, D] that the blocks of a lean pass write in turn. The output of a block
 * is read by the next one, and by a parallel one behind it; its inner input is read by itself, and by
 * the next block if that shares the norm. `sums` is 1 if a block keeps what its last norm reads. */
typedef struct model_shared {
    size_t outputs, inners, sums;
} model_shared;
model_shared attn_models_shared(const model_stack *stack);
/* Returns whether passes may be lean: attention without projections keeps the outputs of the block
 * before as its queries, which a lean pass overwrites. */
bool attn_models_may_be_lean(const attn_model *model);
/* Returns whether a part of a model has a bias. `choice` is its setting; `usual` is the default. */
bool attn_models_has_bias(attn_model_choice choice, bool usual);
/* Returns the activation of layers (layers.h) that corresponds to one of a configuration. */
attn_activation attn_models_activation(attn_model_activation activation);
/* Completes a model whose parameters are sealed: shared layers, and the table of sinusoids. Error:
 * ATTN_ENOMEM. */
attn_status attn_models_complete(attn_model *model, attn_error *err);
/* Sets a setting to the value in `text`. Returns false if the text is no value of this setting. */
bool attn_models_set(const attn_model_setting *setting, attn_model_config *config,
                     const char *text);
/* Returns the options of rotary positions of a layer. If `local`, returns those for layers with
 * windows, which may have a base of their own. */
attn_position attn_models_rotary(const attn_model_config *config, bool local);
/* Copies layers, once they have values, to the blocks that share the parameters of another
 * block. */
void attn_models_share_blocks(attn_model *model);
/* attn_models_last returns the last stack, whose outputs the head reads. attn_models_last_half
 * returns the half of a walk that runs this stack. */
const model_stack *attn_models_last(const attn_model *model);
model_half *attn_models_last_half(model_walk *walk);
/* Returns the index of the last block with this operation, or stack->count if the stack has no such
 * block. */
size_t attn_models_last_block(const model_stack *stack, const model_operation *operation);
/* Returns the layer of block i of a stack: the number of earlier blocks with the same operation. */
size_t attn_models_layer_of(const model_stack *stack, size_t i);
/* Returns whether a stack adds positions or embeddings of segments to the embeddings of tokens. */
bool attn_models_adds_embeddings(const attn_model *model, const model_stack *stack);
/* Make the lists model->sites and model->states of a declared model. Error: ATTN_ENOMEM. */
attn_status attn_models_list_sites(attn_model *model, attn_error *err);
attn_status attn_models_list_states(attn_model *model, attn_error *err);
/* attn_models_sites_of returns the model's sites with the attention operations of a walk. The sites
 * have weights if the walk was to keep weights. attn_models_states_of returns the model's states
 * with their values in a walk. Both lists are in the arena of the walk. NULL: out of memory, and
 * *err is ATTN_ENOMEM. */
attn_site *attn_models_sites_of(const model_walk *walk, attn_error *err);
attn_model_state *attn_models_states_of(const model_walk *walk, attn_error *err);
/* Sets query, key and value of the sites that attn_models_sites_of returned. Errors: those of
 * attn_attention_operands. */
attn_status attn_models_site_inputs(const model_walk *walk, attn_site *sites, attn_error *err);
/* Returns the kind of positions that self-attention layers compute; ATTN_POSITION_NONE if positions
 * are added to the embeddings. */
attn_position_kind attn_models_relative(const attn_model_config *config);

/* Runs the encoder over the sources of a batch. Its outputs are walk->encoder.out. */
attn_status attn_models_encode(model_walk *walk, const attn_batch *batch, bool want_weights,
                               attn_error *err);
/* Runs the decoder over the whole targets [B, T] of a batch. */
attn_status attn_models_decode(model_walk *walk, const attn_batch *batch, bool want_weights,
                               attn_error *err);
/* Runs the decoder in a search. `tokens` [rows, T] has the tokens from index `first` of each row,
 * and `caches` the cache of each block of the decoder. `lengths` [rows] and `keep` [rows, S]
 * describe the source of each row. T is above 1 only without an encoder. */
attn_status attn_models_decode_step(model_walk *walk, const int32_t *tokens, size_t rows, size_t T,
                                    size_t first, model_cache *caches, const int64_t *lengths,
                                    const uint8_t *keep, bool want_weights, attn_error *err);

/* Checks the sides of a batch that the model reads. Errors: those of attn_model_forward. */
attn_status attn_models_check_batch(const attn_model *model, const attn_batch *batch,
                                    attn_error *err);
/* Runs the stacks and the head over whole sequences. */
attn_status attn_models_forward(model_walk *walk, const attn_batch *batch, bool want_weights,
                                attn_error *err);

/* Computes walk->logits from the outputs of the last stack. Error: ATTN_ENOMEM. */
attn_status attn_models_head(model_walk *walk, attn_error *err);
/* Computes logits [rows, V] from x [rows, D], the input of the head. Error: ATTN_ENOMEM. */
attn_status attn_models_logits(const attn_model *model, attn_pass *pass, const float *x,
                               size_t rows, float *logits, attn_error *err);

/* Checks interventions in a batch or, if `batch` is NULL, in a search. Errors: ATTN_EARG, ATTN_EVALUE
 * at "interventions/<index>/…". */
attn_status attn_models_check_interventions(const attn_model *model, const attn_intervention *list,
                                            size_t count, const attn_batch *batch, attn_error *err);
/* Applies the interventions to the outputs of the heads of an attention block, [B, L, Q], and keeps
 * the outputs if they are wanted. ctx is a model_heads. */
void attn_models_see_heads(void *ctx, float *outputs);
/* Applies the patches to the residual stream `out` [B, T, D] after block `after - 1` of a stack, or
 * before the first block if `after` is 0. Keeps the stream and the norm's statistics if they are
 * wanted. */
void attn_models_see_stream(const model_walk *walk, const model_half *half, size_t after,
                            float *out, const float *stats);
/* These functions keep vectors at the places of walk->activations, if there are any: the outputs of
 * the heads of block `index`; the output of the operation of a block, [B, T, D]; the stream; and
 * whether it was patched. */
void attn_models_keep_heads(const model_walk *walk, const model_half *half, size_t index,
                            const float *outputs);
void attn_models_keep_made(const model_walk *walk, const model_half *half, const model_block *block,
                           const float *made);
void attn_models_keep_stream(const model_walk *walk, const model_half *half, size_t after,
                             const float *out, const float *stats);
void attn_models_keep_patch(const model_walk *walk, const model_half *half, size_t after,
                            const attn_intervention *patch);
/* Makes walk->activations for the places of the options, if there are any. Errors: ATTN_EVALUE at
 * "places/<index>/…", ATTN_EARG at "places" or "dropout_p", ATTN_ENOMEM. */
attn_status attn_models_take_activations(model_walk *walk, const attn_batch *batch,
                                         const attn_forward_options *options, attn_error *err);
/* Adds the memory of the activations of `places` places. */
void attn_models_activations_cost(const attn_model *model, size_t places, attn_layer_cost *cost);

/* Runs the backward pass from dlogits [walk->rows, V], and adds the gradients of all parameters to
 * those of the set. The walk must have run a forward pass with pass.training set. */
attn_status attn_models_backward(model_walk *walk, const float *dlogits, attn_error *err);

enum { ATTN_MODELS_BEAMS = 64 }; /* most beams of a search */
/* Checks the options of a search with the model. Errors: ATTN_EARG, ATTN_EVALUE. */
attn_status attn_models_check_generate(const attn_model *model,
                                       const attn_generate_options *options, attn_error *err);
/* Checks the options of sampling, if the search samples. Error: ATTN_EARG. */
attn_status attn_models_check_sampling(const attn_generate_options *options, attn_error *err);
/* Returns whether a search may take a token. It may take pad and begin only with any_ids. */
bool attn_models_may_write(const attn_model_config *config, int32_t token);
/* Draws a token from logits [V] with the temperature, top_k and top_p of the options, and stores
 * the token in *out. `uniform` is a random number in [0, 1). Scratch memory is in the arena. Error:
 * ATTN_ENOMEM. */
attn_status attn_models_draw(const float *logits, const attn_model_config *config,
                             const attn_generate_options *options, double uniform,
                             attn_arena *arena, int32_t *out, attn_error *err);

/* Adds the bytes that attn_models_draw takes. */
void attn_models_draw_cost(const attn_model_config *config, attn_layer_cost *cost);
/* Returns whether the options have a penalty. */
bool attn_models_penalises(const attn_generate_options *options);
/* Checks the penalties. Error: ATTN_EARG. */
attn_status attn_models_check_penalties(const attn_generate_options *options, attn_error *err);
/* Changes the logits [V] of the token after the `count` tokens of a sequence, the first `prompt` of
 * which were not generated, by the penalties of the options. Scratch memory is in the arena. Error:
 * ATTN_ENOMEM. */
attn_status attn_models_penalise(const attn_generate_options *options, const int32_t *ids,
                                 size_t prompt, size_t count, size_t V, float *logits,
                                 attn_arena *arena, attn_error *err);
/* Adds the bytes for the penalties of a sequence of at most `tokens` tokens. */
void attn_models_penalty_cost(const attn_model_config *config, size_t tokens,
                              attn_layer_cost *cost);
/* Adds the memory for the rows, the steps and the generated sequences of a search. */
void attn_models_search_cost(const attn_model *model, const attn_model_pass *pass,
                             attn_layer_cost *cost);

/* Checks a configuration. Error: ATTN_EARG; err->where names the member. */
attn_status attn_models_check_config(const attn_model_config *config, attn_error *err);
/* Checks ids and lengths of prompts [B, S] of at least `least` tokens. Errors: those of
 * attn_model_forward. */
attn_status attn_models_check_prompts(const attn_model *model, const attn_batch *batch,
                                      size_t least, attn_error *err);
/* attn_models_check_source checks the sources of a batch: sizes, lengths, ids, segments and
 * source_keep. attn_models_check_target checks sizes and ids of targets [B, T]; err->where begins
 * with `name`. Errors: those of attn_model_forward. */
attn_status attn_models_check_source(const attn_model *model, const attn_batch *batch,
                                     attn_error *err);
attn_status attn_models_check_target(const attn_model *model, const int32_t *target, size_t B,
                                     size_t T, const char *name, attn_error *err);

#endif
