/* Layers with forward and backward passes.
 *
 * Letters: B batch, T time steps (L of queries, S of keys), D width in, H width of a hidden state,
 * V vocabulary. All tensors are float32, row-major, without gaps. A layer consists of sizes and
 * pointers to its weights. `declare` adds its tensors to a set under `name` + "." + the PyTorch
 * name, with PyTorch's initialisation.
 *
 * forward writes its output. backward ADDS to the gradients of inputs (the d… arguments, which may
 * be NULL) and of weights (if the set has gradients). A `saved` struct holds the intermediate
 * results for backward, in the pass's arena; nothing else is allocated. Only the shapes decide the
 * order of sums. Any thread may run its own pass; two threads must not run backward on the same
 * set. */
#ifndef ATTN_LAYERS_H
#define ATTN_LAYERS_H

#include <attn/attention.h>
#include <attn/gradients.h>
#include <attn/parameters.h>
#include <attn/pool.h>

/* ---- declaring parameters ---- Layers declare their tensors. attn_parameters_seal then takes one
 * block for all values and one for all gradients, with the same offsets, and tells each layer where
 * its tensors are. */

/* Pointers to one tensor of a sealed set. */
typedef struct attn_weight {
    float *value;
    float *gradient; /* NULL in a set without gradients */
} attn_weight;

typedef enum attn_init_kind {
    ATTN_INIT_CONSTANT, /* amount */
    ATTN_INIT_UNIFORM,  /* in [-amount, amount) */
    ATTN_INIT_NORMAL,   /* standard deviation amount */
} attn_init_kind;

typedef struct attn_init {
    attn_init_kind kind;
    double amount;
    bool blank; /* row blank_row of a matrix is 0, as for torch's padding_idx */
    size_t blank_row;
} attn_init;

attn_parameters *attn_parameters_new(void); /* NULL: out of memory */
/* Declares a tensor before the set is sealed. *weight is filled by attn_parameters_seal and must
 * outlive the set at the same place. A failure (no memory, a repeated or too long name, more than
 * ATTN_PARAMETER_RANK axes, sizes that overflow) is kept and reported by attn_parameters_seal. */
void attn_parameters_add(attn_parameters *set, const char *name, int rank, const size_t *dims,
                         attn_init init, attn_weight *weight);
/* Allocates the blocks, zeroed, and fills in the weights of the layers. Errors: ATTN_ENOMEM,
 * ATTN_EARG, ATTN_ELIMIT. */
attn_status attn_parameters_seal(attn_parameters *set, bool gradients, attn_error *err);

/* Draws the initial values. Element e of parameter p has seed attn_rng_bits(seed, p) and index e
 * (attn/rng.h). */
void attn_parameters_init(attn_parameters *set, uint64_t seed);
void attn_parameters_zero_gradients(attn_parameters *set);

/* attn_parameters_gradients returns the block of gradients, attn_parameters_size() floats, or NULL.
 * attn_parameters_gradient returns a view of the gradient of one parameter. */
float *attn_parameters_gradients(attn_parameters *set);
attn_tensor attn_parameters_gradient(const attn_parameters *set, size_t index);

/* The context of one pass through a network. */
typedef struct attn_pass {
    attn_arena *arena; /* memory of the pass */
    attn_pool *pool;   /* NULL: only the calling thread */
    const attn_control *control;
    bool training;  /* dropout is active, and backward follows */
    uint64_t seed;  /* of dropout */
    uint64_t drawn; /* dropouts so far; dropout n has seed attn_rng_bits(seed, n) */
} attn_pass;

/* ---- linear: y [rows, out] = x [rows, in] W^T + b; weight [out, in], bias [out] ---- */
typedef struct attn_linear {
    attn_weight weight, bias; /* bias.value NULL: none */
    size_t in, out;
} attn_linear;

void attn_linear_declare(attn_linear *layer, attn_parameters *set, const char *name, size_t in,
                         size_t out, bool bias);
void attn_linear_forward(float *y, const float *x, size_t rows, const attn_linear *layer);
void attn_linear_backward(float *dx, const float *dy, const float *x, size_t rows,
                          const attn_linear *layer);

/* ---- embedding: y [n, width] = scale * weight[ids]; ids must be below `rows` ---- */
typedef struct attn_embedding {
    attn_weight weight; /* [rows, width], N(0, 1 / scale^2), so that outputs are N(0, 1) */
    size_t rows, width;
    float scale;
    int32_t padding; /* the row of this id is 0 and has no gradient; -1 = none */
} attn_embedding;

void attn_embedding_declare(attn_embedding *layer, attn_parameters *set, const char *name,
                            size_t rows, size_t width, float scale, int32_t padding);
void attn_embedding_forward(float *y, const int32_t *ids, size_t n, const attn_embedding *layer);
void attn_embedding_backward(const float *dy, const int32_t *ids, size_t n,
                             const attn_embedding *layer);
/* Checks that all ids are in the table. Errors: ATTN_EVALUE at "where/i". */
attn_status attn_ids_check(const int32_t *ids, size_t n, size_t rows, const char *where,
                           attn_error *err);

/* ---- positions: row t of every sequence of x [B, T, D] += row first + t of a table [.., D] ----
 */
void attn_positions_add(float *x, size_t B, size_t T, size_t D, const float *table, size_t first);
/* A learned table of positions [most, width], drawn from N(0, 0.02). first + T <= most. */
void attn_positions_declare(attn_embedding *layer, attn_parameters *set, const char *name,
                            size_t most, size_t width);
void attn_positions_backward(const float *dx, size_t B, size_t T, size_t first,
                             const attn_embedding *layer);

/* ---- layer norm: y = (x - mean) / sqrt(variance + epsilon) * weight + bias, a row at a time ----
 * Ba, Kiros and Hinton 2016. stats [rows, 2]: mean and 1 / sqrt(variance + epsilon), written by
 * forward. */
typedef struct attn_norm {
    attn_weight weight, bias; /* [width], ones and zeros */
    size_t width;
    float epsilon; /* 1e-5 */
} attn_norm;

void attn_norm_declare(attn_norm *layer, attn_parameters *set, const char *name, size_t width);
void attn_norm_forward(float *y, float *stats, const float *x, size_t rows, const attn_norm *layer);
void attn_norm_backward(float *dx, const float *dy, const float *x, const float *stats, size_t rows,
                        const attn_norm *layer);

/* ---- activations, element by element; x is what forward read ---- */
typedef enum attn_activation {
    ATTN_RELU = 0,
    ATTN_GELU,      /* x Phi(x), exact                    Hendrycks and Gimpel 2016 */
    ATTN_GELU_TANH, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    ATTN_TANH,
    ATTN_SIGMOID,
} attn_activation;

void attn_activation_forward(float *y, const float *x, size_t n, attn_activation kind);
void attn_activation_backward(float *dx, const float *dy, const float *x, size_t n,
                              attn_activation kind);

/* ---- dropout, in place ---- x[i] is 0 where attn_rng_uniform(seed, i) < p, else x[i] / (1 - p).
 * The same call on a gradient is its backward pass. 0 <= p < 1; p = 0 does nothing. */
void attn_dropout(float *x, size_t n, double p, uint64_t seed);
/* Returns the next dropout seed of a pass. Each dropout takes one, even if it drops nothing, so
 * that later seeds do not depend on it. */
uint64_t attn_dropout_seed(attn_pass *pass);

/* ---- LSTM: Hochreiter and Schmidhuber 1997, with the gates of torch.nn.LSTM in its order ----
 *   i, f, o = sigmoid, g = tanh of W_ih x_t + b_ih + W_hh h_(t-1) + b_hh
 *   c_t = f c_(t-1) + i g,   h_t = o tanh(c_t)
 * Stacked `layers` times; bidirectional: outputs are [forward, backward] side by side. Between
 * layers the outputs are dropped with probability dropout. With lengths [B] the results are those
 * of torch's packed sequences: the backward direction starts at the last real step of each
 * sequence, outputs of later steps are 0, and final states are those of the last real step. Without
 * lengths every step is real. */
enum { ATTN_LSTM_LAYERS = 8 };

typedef struct attn_lstm_cell {
    attn_weight weight_ih, weight_hh; /* [4H, D], [4H, H] */
    attn_weight bias_ih, bias_hh;     /* [4H] */
} attn_lstm_cell;

typedef struct attn_lstm {
    size_t input, hidden, layers; /* D, H, 1 … ATTN_LSTM_LAYERS */
    bool bidirectional;
    double dropout;
    attn_lstm_cell cells[2 * ATTN_LSTM_LAYERS]; /* layer by layer, forward before backward */
} attn_lstm;

/* States [layers * directions, B, H] in the order of cells; NULL: zeros, or not wanted. */
typedef struct attn_lstm_state {
    float *h, *c;
} attn_lstm_state;

typedef struct attn_lstm_saved {
    const float *inputs[ATTN_LSTM_LAYERS]; /* of each layer, after dropout */
    float *outputs[ATTN_LSTM_LAYERS];
    float *gates[2 * ATTN_LSTM_LAYERS];  /* [B, T, 4H], activated; backward overwrites them */
    float *states[2 * ATTN_LSTM_LAYERS]; /* c [B, T, H] */
    uint64_t seeds[ATTN_LSTM_LAYERS];
    attn_lstm_state initial;
    const int64_t *lengths;
    size_t B, T;
} attn_lstm_saved;

void attn_lstm_declare(attn_lstm *layer, attn_parameters *set, const char *name, size_t input,
                       size_t hidden, size_t layers, bool bidirectional, double dropout);
/* Computes y [B, T, directions * H]. initial, last and lengths may be NULL; all arguments must
 * outlive the backward pass. 1 <= lengths <= T. Errors: ATTN_EARG (initial states of a
 * bidirectional LSTM with lengths), ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_lstm_forward(float *y, const attn_lstm_state *last, const float *x,
                              const attn_lstm_state *initial, const int64_t *lengths, size_t B,
                              size_t T, const attn_lstm *layer, attn_lstm_saved *saved,
                              attn_pass *pass, attn_error *err);
/* Computes the backward pass. dlast holds the gradients of the final states; the gradients of the
 * initial states are added to dinitial. Both may be NULL. It may be called only once for each
 * forward pass. */
attn_status attn_lstm_backward(float *dx, const attn_lstm_state *dinitial, const float *dy,
                               const attn_lstm_state *dlast, const attn_lstm *layer,
                               attn_lstm_saved *saved, attn_pass *pass, attn_error *err);

/* ---- attention layers: out [B, L, D] of queries x [B, L, D] over a memory [B, S, D] ----
 * Parameters by kind, each "name.…":
 *   multihead  W_q, W_k, W_v, W_o (.weight [D, D], .bias [D]), as the classes of textbooks; or
 *              in_proj_weight [3D, D], in_proj_bias, out_proj.weight, out_proj.bias: `packed`,
 *              as torch.nn.MultiheadAttention
 *   dot        none
 *   additive   W1.weight [A, D] of keys, W2.weight [A, D] of queries, v.weight [1, A]
 *   general    W.weight [D, D]
 *   concat     W.weight [A, 2D] of [key; query], v.weight [1, A]
 * All but multihead have one head, and their values are the memory itself. */
typedef enum attn_attend_kind {
    ATTN_ATTEND_MULTIHEAD = 0,
    ATTN_ATTEND_DOT,
    ATTN_ATTEND_ADDITIVE,
    ATTN_ATTEND_GENERAL,
    ATTN_ATTEND_CONCAT,
} attn_attend_kind;

/* Relative positions of an attention layer, by distance j - i. All but alibi are learned. */
typedef enum attn_attend_position {
    ATTN_ATTEND_PLAIN = 0,
    ATTN_ATTEND_ALIBI,
    ATTN_ATTEND_RELATIVE, /* relative.weight [heads, 2m + 1], zeros */
    ATTN_ATTEND_SHAW,     /* key_table.weight, value_table.weight [2m + 1, D / heads] */
} attn_attend_position;

typedef struct attn_attend {
    attn_attend_kind kind;
    attn_attend_position position;
    size_t width, heads, score_width, reach; /* D; H; A; m of the relative tables */
    double dropout;                          /* of the weights */
    bool packed;
    attn_pattern pattern; /* mask pattern, used if has_pattern */
    bool has_pattern, causal;
    attn_linear q, k, v, o;       /* multihead; packed: see in_proj */
    attn_weight in_proj, in_bias; /* packed */
    attn_weight w1, w2, w, score; /* score: v of additive and concat */
    attn_weight relative, key_table, value_table;
} attn_attend;

typedef struct attn_attend_saved {
    const float *x, *memory;
    const float *q, *k, *v;
    size_t B, L, S;
    size_t step; /* rows of k and v for each sequence; 0: S */
    int64_t first;
    attn_inputs in;
    attn_attention *operation;
    attn_results results; /* weights [B, heads, L, S] if wanted, before dropout */
} attn_attend_saved;

/* The visible keys of the queries, in addition to the layer's pattern. */
typedef struct attn_attend_sight {
    const int64_t *lengths; /* [B]: number of real keys; NULL: all S */
    size_t first;           /* query i has the position of key first + i */
    /* Keys and values by attn_attend_ready or _append, or NULL. With them there is no backward
     * pass. */
    const attn_attend_saved *ready;
} attn_attend_sight;

/* Declares the layer. The caller has set the members up to `causal`. */
void attn_attend_declare(attn_attend *layer, attn_parameters *set, const char *name);
/* Computes the layer. x and memory must outlive the backward pass. Errors: those of
 * attn_attention_new and attn_attention_run; ATTN_EARG at "kind" (a number that its enum lacks). */
attn_status attn_attend_forward(float *out, const float *x, const float *memory, size_t B, size_t L,
                                size_t S, const attn_attend_sight *sight, bool want_weights,
                                const attn_attend *layer, attn_attend_saved *saved, attn_pass *pass,
                                attn_error *err);
/* Computes the keys and values of a memory once, for many calls: k and v of *ready. */
attn_status attn_attend_ready(const float *memory, size_t B, size_t S, const attn_attend *layer,
                              attn_attend_saved *ready, attn_pass *pass, attn_error *err);
/* Appends to the keys and values of a growing sequence. It writes those of token `at`, x [B, D], to
 * k and v [B, step, D] of *ready, which the caller allocates. Only for multihead. ATTN_ENOMEM. */
attn_status attn_attend_append(attn_attend_saved *ready, const float *x, size_t at,
                               const attn_attend *layer, attn_pass *pass, attn_error *err);
/* Computes the backward pass. dx and dmemory may be the same block. */
attn_status attn_attend_backward(float *dx, float *dmemory, const float *dout,
                                 const attn_attend *layer, attn_attend_saved *saved,
                                 attn_pass *pass, attn_error *err);
/* Computes the backward pass from dweights [B, heads, L, S], the gradient of a loss with respect to
 * the weights before dropout. It does not support Shaw's value tables. */
attn_status attn_attend_weights_backward(float *dx, float *dmemory, const float *dweights,
                                         const attn_attend *layer, const attn_attend_saved *saved,
                                         attn_pass *pass, attn_error *err);

/* ---- losses of attention weights [B, H, L, S] ----
 * Both losses add their gradients times `amount` to dweights, unless it is NULL. */
/* Returns the alignment loss (guided alignment, Chen et al. 2016; of one head, as Garg et al.
 * 2019): the mean of -sum_j gold_j log(weights_j of head 0) over the rows of gold [B, L, S] that
 * are not all 0, or 0 without such rows. The other heads are free. */
double attn_alignment_loss(float *dweights, const float *weights, const float *gold, size_t B,
                           size_t H, size_t L, size_t S, double amount);
/* Returns the similarity of heads, 0 to 1, which a loss for diverse heads minimises. It is the mean
 * cosine of the weights of two heads, over the batch, rows below rows[b] (`rows` NULL: all L) and
 * pairs of heads. It is 0 for one head. A row of zeros has cosine 0 with any other. */
double attn_similarity_loss(float *dweights, const float *weights, const int64_t *rows, size_t B,
                            size_t H, size_t L, size_t S, double amount);

/* ---- cross entropy of logits [rows, V] against targets [rows], rows of `ignored` left out ----
 * loss = mean over the others of -sum_v t_v log softmax(logits)_v, t = (1 - s) one-hot + s / V
 * (Szegedy et al. 2016; torch.nn.functional.cross_entropy). */
/* Returns the loss, or 0 if no row counts. *counted is the number of rows that count, and *right
 * the number of those whose largest logit is the target. dlogits is overwritten and may be the same
 * block as logits. Targets are < V or equal `ignored`. */
double attn_cross_entropy(float *dlogits, const float *logits, const int32_t *targets, size_t rows,
                          size_t V, int32_t ignored, double smoothing, size_t *counted,
                          size_t *right);

/* ---- shared by the files of lib/layers ---- */

/* Declares a parameter "name.what". */
void attn_layers_add(attn_parameters *set, const char *name, const char *what, int rank,
                     const size_t *dims, attn_init init, attn_weight *weight);
/* attn_layers_fill_rows sets every row of y [rows, width] to bias. attn_layers_sum_rows adds all
 * rows of x to sum [width]. */
void attn_layers_fill_rows(float *y, size_t rows, const float *bias, size_t width);
void attn_layers_sum_rows(float *sum, const float *x, size_t rows, size_t width);
/* The three products of a linear layer:
 *   y [rows, out] = x [rows, in] weight^T + beta y;  dx += dy weight;  dweight += dy^T x. */
void attn_layers_product(float *y, const float *x, size_t rows, const float *weight, size_t in,
                         size_t out, float beta);
void attn_layers_product_back(float *dx, const float *dy, size_t rows, const float *weight,
                              size_t in, size_t out);
void attn_layers_weight_back(float *dweight, const float *dy, const float *x, size_t rows,
                             size_t in, size_t out);
/* Packs a matrix [K, N], stored as [N, K] if `transposed`, in panels for the pointwise product. The
 * panels take attn_layers_panel_floats(K, N) floats. */
size_t attn_layers_panel_floats(size_t K, size_t N);
void attn_layers_pack(float *panels, const float *matrix, size_t K, size_t N, bool transposed);
/* Return count * width floats of the pass's arena, zeroed or not; or NULL, with ATTN_ENOMEM in
 * *err. */
float *attn_layers_take(attn_pass *pass, size_t count, size_t width, attn_error *err);
float *attn_layers_zeroed(attn_pass *pass, size_t count, size_t width, attn_error *err);

#endif
