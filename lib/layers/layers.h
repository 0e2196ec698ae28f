/* Layers with forward and backward passes.
 *
 * Shapes: B sequences, T tokens of a sequence (attention: L queries, S keys), D input width, H
 * width of a hidden state, V vocabulary. All tensors are float32, row-major and without gaps. A
 * layer struct has sizes and pointers to its weights. The functions of a layer:
 *
 *   declare   adds the layer's tensors to a set, under `name` + "." + PyTorch's name, with
 *             PyTorch's initial values
 *   forward   computes the output
 *   backward  ADDS the gradient of each input to the d… argument (NULL: not wanted). If the set has
 *             gradients, ADDS those of the layer's weights to them.
 *
 * A `saved` struct has what backward needs, in the arena of the pass; no other memory is allocated.
 * The order of the summands of each sum depends on the shapes alone. Several threads may run passes
 * at the same time, but only one thread at a time may run backward on a set. */
#ifndef ATTN_LAYERS_H
#define ATTN_LAYERS_H

#include <attn/attention.h>
#include <attn/gradients.h>
#include <attn/parameters.h>
#include <attn/pool.h>

#include "kernels/blocks.h"

/* ---- declaring parameters ----
 *
 * Layers declare their tensors in a set. attn_parameters_seal then allocates one block for all
 * values and one for all gradients, with the same offsets, and stores pointers to the tensors in
 * the layers. */

/* A matrix [rows, columns] in the form that a model file has, in memory that the set does not own.
 * Row r of the model is row r of the file. If `group` is set, it is
 *
 *   file row = r / group * group_stride + (paired ? (i % half) * 2 + i / half : i),
 *   where i = r % group and half = group / 2 */
typedef struct attn_weight_view {
    const attn_block_format *format; /* NULL: there is no view */
    const void *data;                /* the first block of row 0 */
    /* the file has [columns, stride] numbers instead, without groups; data points to row 0 of the
     * model */
    bool transposed;
    size_t stride;
    size_t group, group_stride;
    bool paired; /* the rows of a group are in the order of interleaved rotary positions */
} attn_weight_view;

/* The values and the gradient of one tensor: pointers into the blocks of its set, or a view. */
typedef struct attn_weight {
    float *value;          /* NULL: the values are those of `view` */
    float *gradient;       /* NULL: the set has no gradients */
    attn_weight_view view; /* only for matrices; used if value is NULL */
} attn_weight;

/* Returns the bytes of a row of `width` values. */
size_t attn_weight_row_bytes(const attn_block_format *format, size_t width);
/* attn_weight_row widens row r of a matrix with `width` columns to floats. attn_weight_part widens
 * only n columns from `at` on; they must be whole blocks. */
void attn_weight_row(float *to, const attn_weight *weight, size_t r, size_t width);
void attn_weight_part(float *to, const attn_weight *weight, size_t r, size_t width, size_t at,
                      size_t n);

typedef enum attn_init_kind {
    ATTN_INIT_CONSTANT, /* all elements are `amount` */
    ATTN_INIT_UNIFORM,  /* uniform in [-amount, amount) */
    ATTN_INIT_NORMAL,   /* normal with mean 0 and standard deviation `amount` */
} attn_init_kind;

/* How the initial values of a tensor are made. */
typedef struct attn_init {
    attn_init_kind kind;
    double amount;
    bool blank; /* row blank_row of the matrix is 0, like the row padding_idx in torch */
    size_t blank_row;
} attn_init;

/* Returns an empty set, which the caller frees with attn_parameters_free. NULL: out of memory. */
attn_parameters *attn_parameters_new(void);
/* Declares a tensor, before the set is sealed. attn_parameters_seal fills *weight, so *weight must
 * stay at its address until then. If the declaration fails (no memory; a name that is repeated or
 * too long; more than ATTN_PARAMETER_RANK axes; an overflow), attn_parameters_seal returns the
 * error. */
void attn_parameters_add(attn_parameters *set, const char *name, int rank, const size_t *dims,
                         attn_init init, attn_weight *weight);
/* Allocates a block of zeros for the values and, if `gradients`, another for the gradients. Sets
 * the pointers in the weights of all layers. Errors: that of the first declaration that failed
 * (ATTN_EARG, ATTN_ELIMIT, ATTN_ENOMEM); ATTN_EARG: the set is sealed already; ATTN_ENOMEM. */
attn_status attn_parameters_seal(attn_parameters *set, bool gradients, attn_error *err);

/* Seals a set whose values come from elsewhere. views [attn_parameters_length(set)] has a view of
 * each matrix that stays where it is; the viewed memory must outlive the set. Tensors whose view
 * has no format get memory, set to 0. The set has no gradients. Errors as attn_parameters_seal. */
attn_status attn_parameters_seal_views(attn_parameters *set, const attn_weight_view *views,
                                       attn_error *err);

/* Draws the initial values. Element e of tensor p is the random number (attn/rng.h) of the seed
 * attn_rng_bits(seed, p) at index e. */
void attn_parameters_init(attn_parameters *set, uint64_t seed);
/* Sets all gradients to 0. */
void attn_parameters_zero_gradients(attn_parameters *set);

/* attn_parameters_gradients returns the block of gradients, attn_parameters_size(set) floats; NULL:
 * the set has no gradients. attn_parameters_gradient returns a view of the gradient of tensor
 * `index`. */
float *attn_parameters_gradients(attn_parameters *set);
attn_tensor attn_parameters_gradient(const attn_parameters *set, size_t index);

/* The context of one pass through layers. */
typedef struct attn_pass {
    attn_arena *arena;           /* for outputs and `saved` structs */
    attn_pool *pool;             /* NULL: only the calling thread */
    const attn_control *control; /* cancellation and deadline; NULL: none */
    bool training;               /* a backward pass follows */
    /* Only without training: layers give back memory that only a backward pass or a caller that
     * wants states would read. */
    bool lean;
    /* Probability of all dropouts of the pass. NULL: each layer's own probability if `training`,
     * else 0. */
    const double *dropout;
    uint64_t seed;  /* seed of all dropouts of the pass */
    uint64_t drawn; /* number of dropouts so far; dropout n has the seed attn_rng_bits(seed, n) */
} attn_pass;

/* ---- cost ----
 *
 * The function …_cost of a layer adds the cost of a pass through the layer to *cost. */
typedef struct attn_layer_cost {
    double cells;      /* cells of score matrices over all heads */
    double operations; /* floating-point operations; a multiply-add counts as 2 */
    double bytes;      /* upper bound for the bytes in the arena; INFINITY: too many */
    /* largest number of bytes that a layer of a lean pass takes and gives back */
    double passing;
    double fallback_bytes; /* additional bytes if attention must be computed again in double */
} attn_layer_cost;

/* The properties of a pass on which the cost of its layers depends. */
typedef struct attn_pass_use {
    bool training;     /* a backward pass follows */
    bool lean;         /* attn_pass.lean */
    bool drops;        /* dropout is applied between the layers of an LSTM */
    bool want_weights; /* attention keeps its weights */
    bool hides;        /* `keep` hides keys from attention */
    bool ready;        /* keys, values and packed matrices exist, as in a step of a search */
    size_t slots;      /* threads of the pool */
} attn_pass_use;

/* Add the bytes of an array of `count` floats, or of `bytes` bytes, rounded up as an arena does. */
void attn_cost_floats(attn_layer_cost *cost, double count);
void attn_cost_bytes(attn_layer_cost *cost, double bytes);
/* Adds the operations of `multiply_adds` multiply-adds in the forward pass and, in training, of
 * twice as many in the backward pass. */
void attn_cost_products(attn_layer_cost *cost, double multiply_adds, bool training);

/* ---- linear: y [rows, out] = x [rows, in] W^T + b; weight [out, in], bias [out] ---- */
typedef struct attn_linear {
    attn_weight weight, bias; /* bias.value is NULL if there is no bias */
    size_t in, out;
} attn_linear;

void attn_linear_declare(attn_linear *layer, attn_parameters *set, const char *name, size_t in,
                         size_t out, bool bias);
void attn_linear_forward(float *y, const float *x, size_t rows, const attn_linear *layer);
void attn_linear_backward(float *dx, const float *dy, const float *x, size_t rows,
                          const attn_linear *layer);
void attn_linear_cost(const attn_linear *layer, double rows, bool training, attn_layer_cost *cost);

/* ---- embedding: y [n, width] = scale * weight[ids], for ids [n] below `rows` ---- */
typedef struct attn_embedding {
    attn_weight weight; /* [rows, width], initially N(0, std^2) */
    size_t rows, width;
    float scale;
    int32_t padding; /* id whose row is 0 and gets no gradient; -1: none */
} attn_embedding;

/* Declares the table. `std` is the standard deviation of its initial values. 0 means 1 / scale; the
 * initial outputs are then N(0, 1). */
void attn_embedding_declare(attn_embedding *layer, attn_parameters *set, const char *name,
                            size_t rows, size_t width, float scale, double std, int32_t padding);
void attn_embedding_forward(float *y, const int32_t *ids, size_t n, const attn_embedding *layer);
void attn_embedding_backward(const float *dy, const int32_t *ids, size_t n,
                             const attn_embedding *layer);
/* Checks that ids [n] are from 0 to rows - 1. Error: ATTN_EVALUE at "<where>/<index>". */
attn_status attn_ids_check(const int32_t *ids, size_t n, size_t rows, const char *where,
                           attn_error *err);

/* ---- positions: row first + t of a table [.., D] is added to token t ---- */
/* Adds rows first … first + T - 1 of the table to each sequence of x [B, T, D]. */
void attn_positions_add(float *x, size_t B, size_t T, size_t D, const attn_weight *table,
                        size_t first);
/* Adds row ids[i] of a table to row i of x [n, width]. */
void attn_segments_add(float *x, const int32_t *ids, size_t n, const attn_embedding *table);
/* Declares a learned table [most, width], initially N(0, 0.02^2). In later calls first + T must be
 * at most `most`. */
void attn_positions_declare(attn_embedding *layer, attn_parameters *set, const char *name,
                            size_t most, size_t width);
/* Adds dx [B, T, D] to the gradient of the rows first … first + T - 1 of the table. */
void attn_positions_backward(const float *dx, size_t B, size_t T, size_t first,
                             const attn_embedding *layer);

/* ---- norms of each row of x [rows, width] ----
 *
 *   layer norm  y = (x - mean) / sqrt(variance + epsilon) * weight + bias  (Ba et al. 2016)
 *   RMS norm    y = x / sqrt(mean of x^2 + epsilon) * weight    (Zhang and Sennrich 2019)
 *
 * forward stores mean (RMS: 0) and 1 / sqrt(…) of each row in stats [rows, 2], for backward. If
 * stats is NULL, it stores nothing. y may be x. */
typedef struct attn_norm {
    size_t width;
    float epsilon;            /* 1e-5 in models whose papers state no epsilon */
    bool rms;                 /* RMS norm, which has no bias; false: layer norm */
    bool unbiased;            /* the layer norm has no bias */
    attn_weight weight, bias; /* [width], initially ones and zeros */
} attn_norm;

/* Declares the weights of a norm. The caller has set the other members. */
void attn_norm_declare(attn_norm *layer, attn_parameters *set, const char *name);
void attn_norm_forward(float *y, float *stats, const float *x, size_t rows, const attn_norm *layer);
void attn_norm_backward(float *dx, const float *dy, const float *x, const float *stats, size_t rows,
                        const attn_norm *layer);
void attn_norm_cost(const attn_norm *layer, double rows, bool training, attn_layer_cost *cost);

/* ---- activations of n elements; backward reads the same x as forward ---- */
typedef enum attn_activation {
    ATTN_RELU = 0,
    ATTN_GELU,      /* x Phi(x), exact                    Hendrycks and Gimpel 2016 */
    ATTN_GELU_TANH, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    ATTN_SILU,      /* x sigmoid(x), also called swish        Elfwing et al. 2018 */
    ATTN_TANH,
    ATTN_SIGMOID,
} attn_activation;

/* Computes y from x; both may be the same array. */
void attn_activation_forward(float *y, const float *x, size_t n, attn_activation kind);
void attn_activation_backward(float *dx, const float *dy, const float *x, size_t n,
                              attn_activation kind);

/* ---- dropout ---- */
/* Drops elements of x [n] in place: element i becomes 0 if attn_rng_uniform(seed, first + i) < p, else
 * x[i] / (1 - p). The same call on a gradient is the backward pass. 0 <= p < 1; p = 0 changes
 * nothing. */
void attn_dropout(float *x, size_t n, uint64_t first, double p, uint64_t seed);
/* Returns the probability with which a layer drops in this pass: *pass->dropout if it is set; else
 * `own`, the layer's own probability, in training; else 0. */
double attn_dropout_of(const attn_pass *pass, double own);
/* Returns the seed of the next dropout of a pass. A layer takes a seed even if it drops nothing, so
 * the seeds of later dropouts do not depend on whether it drops. */
uint64_t attn_dropout_seed(attn_pass *pass);

/* ---- LSTM: Hochreiter and Schmidhuber 1997, with gates and order of torch.nn.LSTM ----
 *
 *   i, f, o = sigmoid, g = tanh of W_ih x_t + b_ih + W_hh h_(t-1) + b_hh
 *   c_t = f c_(t-1) + i g,   h_t = o tanh(c_t)
 *
 * There are `layers` layers, each with one or (bidirectional) two directions. The output of a
 * bidirectional layer is [.., 2H]: forward, then backward. Outputs between layers are dropped with
 * the probability `dropout`.
 *
 * With lengths [B] the results equal those of torch's packed sequences: the backward direction
 * starts at the last token before padding, outputs at padding are 0, and the final states are those
 * after the last token before padding. Without lengths no token is padding. */
/* Largest number of layers of an LSTM. */
enum { ATTN_LSTM_LAYERS = 8 };

/* The weights of one layer and direction. */
typedef struct attn_lstm_cell {
    attn_weight weight_ih, weight_hh; /* [4H, D], [4H, H] */
    attn_weight bias_ih, bias_hh;     /* [4H] */
} attn_lstm_cell;

typedef struct attn_lstm {
    size_t input, hidden; /* D and H */
    size_t layers;        /* 1 … ATTN_LSTM_LAYERS */
    bool bidirectional;
    double dropout;
    /* [layers * directions], layer by layer; forward before backward */
    attn_lstm_cell cells[2 * ATTN_LSTM_LAYERS];
} attn_lstm;

/* States h and c, [layers * directions, B, H] each, in the order of `cells`. In an input, a NULL
 * pointer means zeros. In an output, NULL means that the state is not wanted. */
typedef struct attn_lstm_state {
    float *h, *c;
} attn_lstm_state;

/* Data that the backward pass needs. Elements of gates and states are in the order of `cells`. */
typedef struct attn_lstm_saved {
    const float *inputs[ATTN_LSTM_LAYERS]; /* [B, T, D] input of each layer, after dropout */
    float *outputs[ATTN_LSTM_LAYERS];      /* [B, T, directions * H] output of each layer */
    /* [B, T, 4H] gates after activation; backward overwrites them */
    float *gates[2 * ATTN_LSTM_LAYERS];
    float *states[2 * ATTN_LSTM_LAYERS]; /* [B, T, H] cell states c */
    uint64_t seeds[ATTN_LSTM_LAYERS];    /* seed of the dropout before each layer */
    attn_lstm_state initial;
    const int64_t *lengths;
    size_t B, T;
} attn_lstm_saved;

/* W_hh of each cell, packed by attn_lstm_pack; NULL: not packed. */
typedef struct attn_lstm_panels {
    float *cells[2 * ATTN_LSTM_LAYERS];
} attn_lstm_panels;

void attn_lstm_declare(attn_lstm *layer, attn_parameters *set, const char *name, size_t input,
                       size_t hidden, size_t layers, bool bidirectional, double dropout);
/* Packs the matrices of a layer for many calls of forward with B sequences, such as the steps of a
 * search. Error: ATTN_ENOMEM. */
attn_status attn_lstm_pack(attn_lstm_panels *panels, size_t B, const attn_lstm *layer,
                           attn_pass *pass, attn_error *err);
/* attn_lstm_cost adds the cost of a pass over B sequences of T tokens. attn_lstm_pack_cost adds the
 * cost of attn_lstm_pack. */
void attn_lstm_cost(const attn_lstm *layer, size_t B, size_t T, const attn_pass_use *use,
                    attn_layer_cost *cost);
void attn_lstm_pack_cost(const attn_lstm *layer, size_t B, attn_layer_cost *cost);
/* Computes y [B, T, directions * H] from x [B, T, input] and, if `last` is not NULL, the final
 * states. `initial` are the initial states; NULL: zeros. `lengths` [B], each 1 … T, are the numbers
 * of tokens before padding; NULL: there is no padding. attn_lstm_pack has made `panels`; NULL: this
 * call packs the layer. T calls with one token give the same bytes as one call with T tokens.
 * All arguments must outlive the backward pass. Errors: ATTN_EARG (a bidirectional LSTM with
 * lengths and initial states), ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_lstm_forward(float *y, const attn_lstm_state *last, const float *x,
                              const attn_lstm_state *initial, const int64_t *lengths,
                              const attn_lstm_panels *panels, size_t B, size_t T,
                              const attn_lstm *layer, attn_lstm_saved *saved, attn_pass *pass,
                              attn_error *err);
/* Runs the backward pass. It may run only once after each forward pass. dy is the gradient of y,
 * and dlast the gradient of the final states (NULL: zeros). The gradient of x is added to dx, and
 * that of the initial states to dinitial (NULL: not wanted). Errors: ATTN_ENOMEM, ATTN_ECANCELED,
 * ATTN_EDEADLINE. */
attn_status attn_lstm_backward(float *dx, const attn_lstm_state *dinitial, const float *dy,
                               const attn_lstm_state *dlast, const attn_lstm *layer,
                               attn_lstm_saved *saved, attn_pass *pass, attn_error *err);

/* ---- attention layers: out [B, L, D] from x [B, L, D], which gives the queries, and a memory [B,
 * S, D], which gives keys and values. E is the width of a head, and Q = heads * E the width of all
 * heads of queries ----
 *
 * The score form is the kind of a layer. scaled_dot is multi-head attention. Layers of the other
 * kinds have one head, and the rows of the memory are their keys and values. Parameters of each
 * kind, whose names follow "<name>.":
 *
 *   scaled_dot  W_q, W_k, W_v (.weight [Q, D], .bias [Q]), W_o (.weight [D, Q], .bias [D]), named
 *               as in textbooks; or, if `packed`, in_proj_weight [3Q, D], in_proj_bias [3Q],
 *               out_proj.weight and out_proj.bias, as in torch.nn.MultiheadAttention. If kv_heads
 *               is not 0, the matrices of keys and values have K = kv_heads E rows instead of Q.
 *               With norms of queries and keys, q_norm.weight and k_norm.weight.
 *   dot         none
 *   additive    W1.weight [A, D] of keys, W2.weight [A, D] of queries, v.weight [1, A]
 *   general     W.weight [D, D]
 *   concat      W.weight [A, 2D] of [key; query], v.weight [1, A]
 *
 * Positions that a layer can have:
 *
 *   NONE      no parameters
 *   ALIBI     no parameters
 *   ROTARY    no parameters; `rotary` has its options. Without a backward pass the layer rotates
 *             queries and keys itself, so that the operation has rotated ones and no positions;
 *             but not with dynamic scaling and longrope, whose angles depend on the number of keys
 *   RELATIVE  relative.weight [heads, 2m + 1], initially 0; m is max_distance
 *   SHAW      key_table.weight and value_table.weight, [2m + 1, E]
 *   T5        no parameters of its own; `buckets` is a table that other layers share */

/* An attention layer. The caller sets the members up to `causal` before it declares the layer, and
 * the width and kind of query_norm and key_norm. */
typedef struct attn_attend {
    attn_score_kind kind;
    attn_position_kind position;
    size_t width;        /* D */
    size_t heads;        /* heads of queries; 1 unless the kind is scaled_dot */
    size_t score_width;  /* A of additive and concat */
    size_t max_distance; /* m of RELATIVE and SHAW: distances are clipped to -m … m */
    /* scaled_dot: number of heads of keys and values, a divisor of `heads`. heads / kv_heads heads
     * of queries share one head of keys and values (Ainslie et al. 2023). 0: the same as
     * `heads`. */
    size_t kv_heads;
    double dropout;    /* scaled_dot: probability with which a weight is dropped in training */
    size_t head_width; /* scaled_dot: E; 0: D / heads */
    double scale;      /* factor of the scores; 0: the default of the kind (forms.h) */
    double softcap;    /* softcap of the scores; 0: none */
    /* ROTARY: the options of positions (forms.h). The tensors of its scaling are short_factor and
     * long_factor, [dims / 2] each, if these are not NULL. */
    attn_position rotary;
    const attn_weight *short_factor, *long_factor;
    attn_weight *buckets; /* T5: table [num_buckets, heads] */
    size_t num_buckets;
    int64_t bucket_distance; /* T5: max_distance of forms.h */
    bool unidirectional;     /* T5: as in forms.h */
    bool packed;             /* scaled_dot with parameters named as in PyTorch */
    bool unbiased;           /* scaled_dot: queries, keys and values have no bias */
    bool output_unbiased;    /* scaled_dot: the output has no bias */
    attn_pattern pattern;    /* used if has_pattern: hides keys by distance */
    bool has_pattern;
    /* a query sees at most `window` keys before it and, unless `causal`, as many after it */
    bool has_window;
    size_t window;
    bool causal; /* keys after the query are hidden */
    /* width E: one norm for each head; Q and K: one norm for all heads; 0: no norm */
    attn_norm query_norm, key_norm;
    /* scaled_dot; if `packed`, in_proj takes the place of q, k and v */
    attn_linear q, k, v, o;
    attn_weight in_proj;                /* packed: [Q + 2 K, D] */
    attn_weight in_bias;                /* packed: [Q + 2 K] */
    attn_weight w1, w2;                 /* additive: W1 and W2 */
    attn_weight w;                      /* general and concat: W */
    attn_weight score;                  /* additive and concat: v */
    attn_weight relative;               /* RELATIVE */
    attn_weight key_table, value_table; /* SHAW */
} attn_attend;

/* Data that the backward pass needs. */
typedef struct attn_attend_saved {
    const float *x, *memory; /* the arguments of forward */
    const float *q;          /* [B, L, Q] queries; x if the kind has no projections */
    const float *k, *v;      /* [B, S, K] keys and values; memory if the kind has no projections */
    size_t B, L, S;
    size_t step;    /* number of rows of k and v that each sequence occupies; 0: S */
    int64_t first;  /* position of query 0 among the keys */
    attn_inputs in; /* inputs of the operation */
    attn_attention *operation;
    /* results of the operation; weights [B, heads, L, S] are before dropout */
    attn_results results;
} attn_attend_saved;

/* Conditions of a call besides the layer's pattern and causal mask: which keys are hidden, where
 * the queries are, whether the keys exist already, and who reads the outputs of heads. NULL stands
 * for a struct of zeros. */
typedef struct attn_attend_sight {
    const int64_t *lengths; /* [B] number of keys before padding; NULL: all S */
    const uint8_t *keep;    /* [B, S] 0: the key is hidden, 1: visible; NULL: all are visible */
    size_t first;           /* query i has the position of key first + i */
    /* Keys and values that attn_attend_ready or attn_attend_append computed; NULL: forward computes
     * keys and values from the memory. After a forward pass with `ready`, no backward pass may
     * run. */
    const attn_attend_saved *ready;
    /* Receives the outputs of the heads [B, L, Q] before W_o, and may change them; NULL: not
     * called. After a change no backward pass may run. */
    void (*heads)(void *ctx, float *outputs);
    void *ctx;
} attn_attend_sight;

/* Return the width Q of all queries, and the width K of keys and values. */
size_t attn_attend_query_width(const attn_attend *layer);
size_t attn_attend_key_width(const attn_attend *layer);
/* Declares the parameters of the layer. */
void attn_attend_declare(attn_attend *layer, attn_parameters *set, const char *name);
/* Computes out [B, L, D]. x and memory must outlive the backward pass; in self-attention they are
 * the same array. If want_weights, saved->results.weights are the weights. In a lean pass without
 * want_weights, saved->results has only the statistics of rows. Errors: those of attn_attention_new
 * and attn_attention_run; ATTN_EARG at "kind" if layers have no such kind or position;
 * ATTN_ENOMEM. */
attn_status attn_attend_forward(float *out, const float *x, const float *memory, size_t B, size_t L,
                                size_t S, const attn_attend_sight *sight, bool want_weights,
                                const attn_attend *layer, attn_attend_saved *saved, attn_pass *pass,
                                attn_error *err);
/* Computes keys and values of a memory [B, S, D] once, for many calls of forward: sets k and v of
 * *ready, in the arena of the pass. Error: ATTN_ENOMEM. */
attn_status attn_attend_ready(const float *memory, size_t B, size_t S, const attn_attend *layer,
                              attn_attend_saved *ready, attn_pass *pass, attn_error *err);
/* Appends the keys and values of n tokens to each of B growing sequences, for searches. x [B, n, D]
 * has the tokens from index `at` of each sequence. Keys and values are stored in k and v of *ready,
 * [B, step, K] each, which the caller has allocated. Only for scaled_dot. Error: ATTN_ENOMEM. */
attn_status attn_attend_append(attn_attend_saved *ready, const float *x, size_t n, size_t at,
                               const attn_attend *layer, attn_pass *pass, attn_error *err);
/* Runs the backward pass. dout [B, L, D] is the gradient of `out`. dx and dmemory may be the same
 * array. Errors: those of attn_attention_backward, ATTN_ENOMEM. */
attn_status attn_attend_backward(float *dx, float *dmemory, const float *dout,
                                 const attn_attend *layer, attn_attend_saved *saved,
                                 attn_pass *pass, attn_error *err);
/* Runs the backward pass of a loss on the attention weights. dweights [B, heads, L, S] is the
 * gradient of the loss with respect to the attention weights before dropout. Not for layers with
 * Shaw's value tables. Errors: those of attn_attend_backward. */
attn_status attn_attend_weights_backward(float *dx, float *dmemory, const float *dweights,
                                         const attn_attend *layer, const attn_attend_saved *saved,
                                         attn_pass *pass, attn_error *err);

/* Add costs for B sequences of L queries and S keys. attn_attend_cost adds the cost of forward and,
 * in training, of backward. attn_attend_weights_cost adds the cost of attn_attend_weights_backward,
 * attn_attend_ready_cost the cost of attn_attend_ready. */
void attn_attend_cost(const attn_attend *layer, size_t B, size_t L, size_t S,
                      const attn_pass_use *use, attn_layer_cost *cost);
void attn_attend_weights_cost(const attn_attend *layer, size_t B, size_t L, size_t S,
                              const attn_pass_use *use, attn_layer_cost *cost);
void attn_attend_ready_cost(const attn_attend *layer, size_t B, size_t S, attn_layer_cost *cost);

/* ---- losses on attention weights [B, H, L, S] ----
 *
 * Both functions add the gradient, times `amount`, to dweights [B, H, L, S], unless it is NULL. */
/* Returns the alignment loss (guided alignment, Chen et al. 2016; for one head, as in Garg et al.
 * 2019): the mean of -sum_j gold_j log(weights_j of head 0) over the rows of gold [B, L, S] that
 * are not all 0; 0 if there are none. Only head 0 has a gradient. */
double attn_alignment_loss(float *dweights, const float *weights, const float *gold, size_t B,
                           size_t H, size_t L, size_t S, double amount);
/* Returns the similarity of heads, 0 … 1. Training that minimises the similarity makes heads
 * differ. In each row, the similarity of two heads is the cosine of their weights, or 0 if all
 * weights of one of them are 0. The result is the mean over all pairs of heads and over the first
 * rows[b] rows of each sequence b (`rows` [B]; NULL: all L rows). It is 0 if there is one head. */
double attn_similarity_loss(float *dweights, const float *weights, const int64_t *rows, size_t B,
                            size_t H, size_t L, size_t S, double amount);

/* ---- cross entropy of logits [rows, V] and targets [rows] ----
 *
 * Rows with the target `ignored` do not count. The loss is the mean over the other rows of -sum_v
 * t_v log softmax(logits)_v, where t = (1 - smoothing) one-hot + smoothing / V (Szegedy et al.
 * 2016; torch.nn.functional.cross_entropy). */
/* Returns the loss, 0 if no row counts. Sets *counted to the number of rows that count. Sets *right
 * to the number of counted rows in which no logit is larger than that of the target. dlogits
 * [rows, V] is overwritten with the gradient, and may be the same array as logits. Targets are ids
 * below V, or `ignored`. */
double attn_cross_entropy(float *dlogits, const float *logits, const int32_t *targets, size_t rows,
                          size_t V, int32_t ignored, double smoothing, size_t *counted,
                          size_t *right);

/* ---- functions that the files of lib/layers share ---- */

/* Declares the parameter "<name>.<what>" (attn_parameters_add). */
void attn_layers_add(attn_parameters *set, const char *name, const char *what, int rank,
                     const size_t *dims, attn_init init, attn_weight *weight);
/* attn_layers_fill_rows sets each row of y [rows, width] to bias [width]. attn_layers_sum_rows adds
 * all rows of x [rows, width] to sum [width]. */
void attn_layers_fill_rows(float *y, size_t rows, const float *bias, size_t width);
void attn_layers_sum_rows(float *sum, const float *x, size_t rows, size_t width);
/* The three products of a linear layer with weight [out, in]: y [rows, out] = x [rows, in] weight^T
 * + beta y, for the forward pass; dx += dy weight; dweight += dy^T x. */
void attn_layers_product(float *y, const float *x, size_t rows, const attn_weight *weight,
                         size_t in, size_t out, float beta);
void attn_layers_product_back(float *dx, const float *dy, size_t rows, const float *weight,
                              size_t in, size_t out);
void attn_layers_weight_back(float *dweight, const float *dy, const float *x, size_t rows,
                             size_t in, size_t out);
/* attn_layers_pack packs a matrix [K, N] (stored as [N, K] if `transposed`) for
 * attn_pointwise.product, into panels of POINTWISE_LANES columns. attn_layers_panel_floats returns
 * the number of floats in the panels of a matrix [K, N]. */
size_t attn_layers_panel_floats(size_t K, size_t N);
void attn_layers_pack(float *panels, const float *matrix, size_t K, size_t N, bool transposed);
/* Return count * width floats in the arena of the pass; attn_layers_zeroed sets them to 0. NULL:
 * out of memory, and *err is ATTN_ENOMEM. */
float *attn_layers_take(attn_pass *pass, size_t count, size_t width, attn_error *err);
float *attn_layers_zeroed(attn_pass *pass, size_t count, size_t width, attn_error *err);

#endif
