/* Dot-product attention: outputs, exact weights, row statistics, and any cell of the weights later.
 *
 *   softmax(scale * Q K^T + mask) V    (Vaswani et al., "Attention is all you need", 2017, eq. 1)
 *
 * or with another normaliser in place of softmax (forms.h).
 *
 * Sizes: B batch entries (all batch axes together), Hq query heads, Hkv key/value heads, L queries,
 * S keys (cached ones included), P cached keys, E width of a head, Ev width of a value. Query head
 * h uses key/value head h / (Hq / Hkv).
 *
 * A cell of the weights is computed in this order: score (a mix of all heads if `mix` asks for it),
 * scale, softcap c * tanh(s / c), additive parts (positions, float masks), hidden cells become
 * -infinity, softmax (a sink logit is part of the denominator) or another normaliser, dropout. The
 * weights are then multiplied by the values. A row that sees no key gives zero output, zero weights
 * and the logsumexp -infinity, or the sink logit if there is a sink.
 *
 * Four steps make an operation:
 *
 *   attn_attention_shape  computes shapes only
 *   attn_attention_cost   computes bytes and operations from the shapes
 *   attn_attention_new    checks values and compiles masks
 *   attn_attention_run    computes the results
 *
 * Afterwards attn_attention_cells computes any part of the weights, bit for bit as in the full
 * matrix. */
#ifndef ATTN_ATTENTION_H
#define ATTN_ATTENTION_H

#include "forms.h"
#include "isa.h"
#include "mask.h"
#include "memory.h"
#include "pool.h"
#include "status.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum attn_layout {
    ATTN_BHLE = 0, /* [.., H, L, E]; rank 2 is [L, E], rank 3 is [B, L, E] */
    ATTN_BLHE,     /* [.., L, H, E], rank >= 3 */
    ATTN_BLD,      /* [.., L, H * E], and num_heads is given */
} attn_layout;

/* Stages of a cell's computation, in order. */
typedef enum attn_stage {
    ATTN_STAGE_RAW = 0,    /* q . k, or another score form */
    ATTN_STAGE_SCALED,     /* raw score times scale */
    ATTN_STAGE_SOFTCAPPED, /* scaled score after softcap */
    ATTN_STAGE_BIASED,     /* after additive parts and masks; -infinity: hidden */
    ATTN_STAGE_PROBS,      /* weights: softmax, or another normaliser, of the biased scores */
} attn_stage;

/* All inputs of an operation. Start from attn_attention_defaults(). An absent key is the query, and
 * an absent value is the key (self-attention). If query, key or value is float64, everything is
 * computed in double; else in float32. */
typedef struct attn_inputs {
    attn_tensor query; /* [.., Hq, L, E] in `layout` */
    /* [.., Hkv, S - P, E], same rank as query; a batch axis of length 1 broadcasts */
    attn_tensor key;
    attn_tensor value;      /* [.., Hkv, S - P, Ev] */
    attn_tensor past_key;   /* cached keys, [.., Hkv, P, E] in every layout */
    attn_tensor past_value; /* cached values, [.., Hkv, P, Ev] in every layout */
    attn_layout layout;
    size_t num_heads;    /* BLD: number of query heads, required */
    size_t num_kv_heads; /* BLD: number of key/value heads; 0: num_heads */
    bool forbid_gqa;     /* true: unequal numbers of query and key/value heads are an error */
    /* factor of the scores; NaN: the score form's default, 1/sqrt(E) or 1 (forms.h) */
    double scale;
    double softcap;         /* c of the softcap, above 0; 0: no softcap */
    attn_score score;       /* forms.h; all zero: scaled dot product */
    attn_position position; /* forms.h; all zero: none */
    /* A second kind of position, which changes the scores (ALIBI, T5, RELATIVE, SHAW,
     * DISENTANGLED). All zero: there is none. `position` is then of a kind that changes queries and
     * keys (ROTARY, SINUSOIDAL, LEARNED), or none. The tables of SHAW and DISENTANGLED multiply
     * queries and keys after their rotation. */
    attn_position score_position;
    attn_normalizer normalizer; /* forms.h; all zero: softmax */
    /* Mixing of heads (forms.h); all zero: none. mix.logits requires the score scaled_dot or dot,
     * and excludes the positions SHAW and DISENTANGLED. A score is then a product of Hkv * E
     * numbers, and NaN in the query or key of a head counts as seen if any head sees it.
     *
     * mix.weights and subtract exclude position.value_table. With projections they require that the
     * number of output heads is Hq. A head then multiplies its weights by all values that its
     * output heads use. With mix.weights these are all Hv value heads, so an output takes Hv times
     * the operations and memory, and NaN in a value counts as seen if any of these heads sees it. A
     * mixed weight takes the operations of Hq weights, or of two weights with `subtract`. */
    attn_mix mix;
    attn_subtract subtract;
    /* The positions of queries [L], [1, L] or [B, L] and of keys, cached ones first, [S], [1, S] or
     * [B, S], for the kinds of position: int32 or int64 within ±2^40, in any order, repeated or
     * not. ATTN_NO_POSITION: the row is not encoded, and distances from it have no bias and no row of
     * a table. Rank 0: query i has the position i + query_offset, and key j the position j. Masks
     * count rows, unless mask.query_positions or mask.key_positions says otherwise. */
    attn_tensor query_positions, key_positions;
    /* `sinks` and `scales` hold numbers for rows. [Hq] has one number for each head. A shape of 2
     * or more axes is broadcast to that of the logsumexp, [.., Hq, L]; so [1, L] has one number for
     * each query. With one head, [L] has one for each query too.
     *
     * A sink is a logit that is added to the softmax denominator only. With sparsemax or entmax it
     * takes a weight of its own. The other normalisers have no sinks. */
    attn_tensor sinks;
    attn_tensor scales; /* factors of the scores of each row, in place of `scale` (Llama 4) */
    double dropout_p;   /* probability with which a weight is set to 0, below 1; 0: none */
    /* Cell (b, h, i, j) is dropped if attn_rng_uniform(seed, n) < p, where n is the row-major index
     * of the cell in [B, Hq, L, S]. */
    uint64_t dropout_seed;
    attn_mask_spec mask;
    /* The next two members say how errors name elements of query, key and value. */
    /* true: query, key and value are projections of other tensors (attn_projections_shape sets
     * this), so errors name a row but no element in it */
    bool projected;
    /* true: the caller's query has no axis L, and an axis of length 1 was added for it, so errors
     * leave the index on this axis out */
    bool one_query;
    bool score_gradients; /* true: a backward pass also computes attn_gradients.scores */
    /* For a backward pass: the gradient of the loss with respect to the logsumexp, in the shape of
     * the logsumexp. A z-loss has such a gradient. Rank 0: the gradient is 0. */
    attn_tensor grad_logsumexp;
    bool allow_nonfinite;     /* true: NaN and infinity are accepted; false: ATTN_ENONFINITE */
    attn_precision precision; /* isa.h; float64 tensors and gradients require ATTN_PRECISION_FP32 */
    const char *kernel;       /* name of the kernel table; NULL: the chosen one (isa.h) */
    /* Only attn_attention_new reads these two. It mixes heads on the threads of `pool` (NULL: on
     * the calling thread) and stops when `control` says so (NULL: never). */
    attn_pool *pool;
    const attn_control *control;
} attn_inputs;

/* Returns inputs with default values and no tensors. */
attn_inputs attn_attention_defaults(void);

/* Shapes and sizes of an operation. */
typedef struct attn_attention_dims {
    int batch_rank;
    size_t batch[ATTN_MAX_RANK];
    bool has_heads; /* output and weights have a head axis */
    /* E and Ek: widths of a query and a key; they are equal except for some learned scores. */
    size_t B, Hq, Hkv, L, S, past, E, Ek, Ev;
    size_t Ho; /* heads of output and weights; Hq unless weights are mixed */
    size_t Hv; /* value heads; Hkv unless weights are mixed */
    /* width of the values that a head multiplies by its weights: Ev, or more if weights are
     * mixed */
    size_t value_width;
    size_t factors;   /* elements of the matrix that mixes weights, [Ho, reads]; 0: none */
    size_t reads;     /* heads whose weights an output head reads */
    attn_pairs pairs; /* which heads an output head reads; ATTN_PAIRS_UNSTATED: all */
    /* number of terms in a score: E, A for additive forms, Hkv * E if heads are mixed */
    size_t score_width;
    size_t mixed; /* elements of the matrix that mixes the scores of heads; 0: none */
    /* different pairs of (key, value) batch entries: B, or 1 if all queries share them */
    size_t sets;
    size_t relative; /* rows of tables of vectors by distance (SHAW, DISENTANGLED); 0: none */
    /* how many tables of keys, queries and values there are: 0, 1 if all heads share one, or Hq */
    size_t relative_keys, relative_queries, relative_values;
    size_t entries; /* distances whose biases get a gradient, for one head; 0: none */
    bool softcap;   /* the scores have a softcap */
    attn_normalizer_kind normalizer;
    size_t normalizer_bias; /* elements of the normaliser's bias; 0: none */
    size_t positions;       /* elements of position tables and given positions; 0: none */
    size_t encoded;         /* elements of query, key and value that get an encoding; 0: none */
    bool scales;            /* the scores have a factor for each row */
    size_t by_row;          /* elements of scales and sinks */
    bool grad_logsumexp;    /* a backward pass starts from a gradient of the logsumexp, too */
    size_t query_map;       /* elements of the score form's matrix for queries; 0: none */
    size_t key_map;         /* elements of the score form's matrix for keys; 0: none */
    bool transforms;        /* queries or keys are transformed before the product */
    attn_dtype result; /* type of the results: ATTN_F64 if an input is float64, else ATTN_F32 */
    attn_precision precision;
    attn_isa isa;    /* instruction set of the kernels; ATTN_ISA_REF for double */
    bool tanh_score; /* true: a score is a sum of tanh terms instead of products */
    /* A strided pattern of the mask: its stride, and how many positions on either side of a query
     * are near. The pass takes the near keys and the other keys of the pattern separately. 0: the
     * mask has no such pattern, or taking them separately would not save
     * time. */
    int64_t stride, near;
    /* By the mask alone, a query sees at most the first first_keys keys and `reach` consecutive
     * keys. The first queries of a global pattern see more. 0: there is no such bound below S. With
     * `stride`, the bound holds for the keys that are near. */
    size_t reach, first_keys;
    int output_rank, weights_rank, rows_rank;
    /* shape of the output: that of query, in its layout, with Ev for E */
    size_t output[ATTN_MAX_RANK];
    /* shape of the weights: [batch.., Ho, L, S]; without Ho if query has rank 2 or 3 (BHLE) */
    size_t weights[ATTN_MAX_RANK];
    size_t scores[ATTN_MAX_RANK]; /* shape of scores and masks: that of the weights with Hq heads */
    size_t rows[ATTN_MAX_RANK];   /* shape of the logsumexp: that of the scores without S */
} attn_attention_dims;

/* Checks shapes and options and computes all sizes. It reads no element of a tensor. Errors:
 * ATTN_ESHAPE, ATTN_EARG, ATTN_EDTYPE, ATTN_ELIMIT; err->where names the field. Any thread may call
 * it. */
attn_status attn_attention_shape(const attn_inputs *in, attn_attention_dims *out, attn_error *err);

/* Bits of `want`: the results to compute. */
enum {
    ATTN_WANT_OUTPUT = 1,
    ATTN_WANT_WEIGHTS = 2,
    ATTN_WANT_LOGSUMEXP = 4,
    ATTN_WANT_SCORES = 8,
    ATTN_WANT_PRESENT = 16,
    /* weights after dropout; those that are kept are divided by 1 - p */
    ATTN_WANT_WEIGHTS_DROPPED = 32,
    /* No result. Prepares the run for attn_attention_cells on many cells, or for gradients. Both
     * then take less time, with the same results, but the run takes more memory and a little more
     * time. The prepared data is in the arena of the run, which must live until the operation runs
     * again or is no longer used. */
    ATTN_WANT_CELLS = 1 << 16,
};

/* The cost of a computation. */
typedef struct attn_cost {
    double cells; /* cells of the weights: B * Hq * L * S */
    /* Floating-point operations: the products of queries and keys with the matrices of the score
     * form, position encodings, the scores, the products of weights and values, and the mixing of
     * heads. The normaliser is not counted. A multiply-add counts as 2, a tanh as 1. */
    double operations;
    size_t work_bytes; /* bytes of scratch memory and packed operands */
    /* the part of work_bytes that attn_attention_new takes; attn_attention_run takes the rest */
    size_t operation_bytes;
    size_t result_bytes; /* bytes of the results */
    /* Bytes that a run needs in addition to work_bytes if it meets NaN, infinity or an overflow and
     * computes again in double. If they are not available, the run fails with ATTN_ENOMEM. */
    size_t fallback_bytes;
} attn_cost;

/* Computes the cost of a run on `slots` threads from shapes alone. work_bytes + result_bytes is an
 * upper bound of what attn_attention_new and attn_attention_run take from the arena, apart from
 * compiled masks. A run that falls back to double takes fallback_bytes in addition. Errors:
 * ATTN_ELIMIT (overflow), ATTN_EARG at "want" (unknown bits). */
attn_status attn_attention_cost(const attn_attention_dims *dims, unsigned want, size_t slots,
                                attn_cost *out, attn_error *err);

/* Returns the floating-point operations of a cell: those of its score, and 2 for each element of
 * the value. */
double attn_attention_cell_operations(const attn_attention_dims *dims);

/* How many cells of the weights the forward pass computes, over all batch entries and heads: all
 * visible cells, and some hidden cells between them. The pass skips the other hidden cells. */
typedef struct attn_visits {
    double cells;
    /* how many of these cells lie in tiles with hidden cells, which take more time */
    double edited;
} attn_visits;

/* Counts the cells under a mask that is compiled for the shape of dims. Weights, scores and
 * gradients that are wanted may need more cells. */
attn_visits attn_attention_visited(const attn_attention_dims *dims, const attn_mask *mask);

/* Compiles a mask for the weights of an operation with these dims (attn_mask_new). */
attn_status attn_attention_mask_new(const attn_mask_spec *spec, const attn_attention_dims *dims,
                                    attn_arena *arena, attn_mask **out, attn_error *err);

/* Returns dims for functions that read B, Hq, L and S of matrices of weights: Hq becomes Ho. */
static inline attn_attention_dims attn_attention_map_dims(const attn_attention_dims *dims) {
    attn_attention_dims maps = *dims;
    maps.Hq = dims->Ho;
    return maps;
}

typedef struct attn_attention attn_attention;

/* A rectangle of the [L, S] matrix of one head: rows row … row + rows - 1 and columns (keys) col …
 * col + cols - 1. `head` is one of Ho heads if the cells are weights, else one of Hq. */
typedef struct attn_range {
    size_t batch, head, row, rows, col, cols;
} attn_range;

/* Checks values and compiles masks. The operation is in the arena; the tensors of the inputs must
 * outlive it. Errors: those of attn_attention_shape, now also for position tables and masks;
 * ATTN_EVALUE and ATTN_ESEMANTICS (attn_mask_new); ATTN_ENOMEM; ATTN_ECANCELED and ATTN_EDEADLINE
 * (in->control). err->where names the field as in JSON requests ("mask_fill/value",
 * "position/table"). A visible NaN or infinity is found later, by attn_attention_run:
 * ATTN_ENONFINITE with err->where = "key/0/3/1". */
attn_status attn_attention_new(const attn_inputs *in, attn_arena *arena, attn_attention **out,
                               attn_error *err);
/* If weights are mixed, output head g is a sum over dims.reads heads. Term n of the sum is `factor`
 * times the weights of head `head` times the values of g. This product of weights and values begins
 * at column `column` in the rows of `head` in attn_results.head_outputs. */
typedef struct attn_head_read {
    size_t head, column;
    double factor;
} attn_head_read;
attn_head_read attn_attention_read(const attn_attention *a, size_t g, size_t n);
/* Return the sizes and the compiled mask of the operation, which live as long as it does. */
const attn_attention_dims *attn_attention_dims_of(const attn_attention *a);
const attn_mask *attn_attention_mask(const attn_attention *a);
/* Returns the factor of the scores: the given scale, or the default of the score form. With
 * `scales`, returns the factor of the largest magnitude. */
double attn_attention_scale(const attn_attention *a);
/* Returns the position encoding in words: "rotary: queries at i + 3, keys at j", or with given
 * positions "queries at 0 to 9, of which 2 have no position". NULL: there is no encoding, or the
 * arena, which holds the text, is full. */
const char *attn_attention_position(const attn_attention *a, attn_arena *arena);
/* Returns the name of the kernel table that the operation uses: "ref", "avx2", "avx512", or for
 * bf16 products "avx512_bf16" or "amx". The inputs, this name and the precision determine the
 * results. */
const char *attn_attention_kernel(const attn_attention *a);

/* Statistics of each row, [B, Hq, L]. attn_attention_cells computes exact weights from them. `sum`
 * is relative to a power of two that depends on `max` (lib/kernels/kernels.h), so callers use the
 * logsumexp instead. With another normaliser than softmax, `max` and `sum` hold the threshold and
 * the divisor of the row (lib/attention/normalizer.h). */
typedef struct attn_stats {
    /* largest visible score or sink; -infinity: the row sees no key and has no sink */
    double *max;
    double *sum;   /* sum of the exponentials, see above; 0: all weights of the row are 0 */
    uint8_t *kind; /* how the row was computed; only the library reads it */
    /* Computes the statistics of those of the rows that have none yet. attn_attention_cells calls
     * this function before it reads the rows of a head. NULL: all rows have statistics. Any number
     * of threads may call it. */
    attn_status (*need)(void *ctx, const attn_range *rows, attn_error *err);
    void *ctx;
} attn_stats;

/* The results of a run, in the arena. A tensor that was not wanted has rank 0. Elements have the
 * type dims.result; present_key and present_value have the type in which the operation computes.
 * Hidden scores are -infinity, and so is the logsumexp of a row that sees no key. The logsumexp of
 * another normaliser than softmax is NaN. If weights are mixed, the logsumexp is that of each head
 * before the mixing. */
typedef struct attn_results {
    attn_tensor output, weights, weights_dropped, logsumexp, scores, present_key, present_value;
    /* The products of the weights of each head and its values, [B, Hq, L, dims.value_width].
     * Gradients are computed from them. Only if weights are mixed and the output is wanted. */
    attn_tensor head_outputs;
    attn_stats stats;
    size_t hidden_rows; /* rows that see no key, over all batch entries and heads */
} attn_results;

/* Runs the operation. `stage` selects the scores of ATTN_WANT_SCORES. The same inputs and the same
 * kernel table give the same bytes on any pool. During a call no other thread may run the operation
 * or compute its cells. Errors:
 *
 *   ATTN_EARG                       unknown bits ("want") or no such stage ("stage")
 *   ATTN_ENONFINITE                 a visible NaN or infinity, or scores that overflow
 *   ATTN_ENOMEM                     the arena is full
 *   ATTN_ECANCELED, ATTN_EDEADLINE  `control` stopped it */
attn_status attn_attention_run(attn_attention *a, unsigned want, attn_stage stage, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_results *out,
                               attn_error *err);

/* Runs several operations at once, as a batch whose entries have lengths of their own: out[i] gets
 * the results of ops[i], with the bits that attn_attention_run gives. The threads of the pool
 * share the pieces of all operations, so that a long operation among short ones occupies all of
 * them. The operations must differ from each other. Errors as attn_attention_run, but those of
 * values have the index of the operation in front of err->where: "2/key/0/3/1". On failure `out` is
 * untouched. */
attn_status attn_attention_run_each(attn_attention *const *ops, size_t count, unsigned want,
                                    attn_stage stage, attn_pool *pool, const attn_control *control,
                                    attn_arena *arena, attn_results *out, attn_error *err);
/* Returns the bytes of scratch memory that attn_attention_run_each takes in addition to those of
 * its operations (attn_attention_cost). */
size_t attn_attention_each_bytes(size_t count);

/* Computes the mean of weights [batch.., Ho, L, S] over the heads into *out [batch.., L, S], in the
 * arena. Sums are in double. `weights` is a dense result of a run with these dims; if it has no
 * head axis, or rank 0, *out = *weights. torch.nn.MultiheadAttention returns this mean for
 * average_attn_weights. Errors: ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_attention_mean_heads(const attn_attention_dims *dims, const attn_tensor *weights,
                                      const attn_control *control, attn_arena *arena,
                                      attn_tensor *out, attn_error *err);

/* Computes the sum of each row of weights [batch.., Ho, L, S] in double, *out [batch.., Ho, L] in
 * the arena. A sum is 1, or less with a sink, or 0 for a row that sees no key; with sigmoid, relu
 * and relu_squared any number from 0 on, and with mixed weights any number. `weights` is a dense
 * result of a run with these dims. Errors: ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_attention_row_sums(const attn_attention_dims *dims, const attn_tensor *weights,
                                    const attn_control *control, attn_arena *arena,
                                    attn_tensor *out, attn_error *err);

/* Copies the operands of a run into dense tensors in the arena: *query [batch.., Hq, L, E], *key
 * [batch.., Hkv, S, Ek] and *value [batch.., Hv, S, Ev], without the axis of heads if the weights
 * have none. Encodings are added and rotations are applied, but not the maps of a score form.
 * Cached rows stand in front of the new rows. Errors: ATTN_ENOMEM. */
attn_status attn_attention_operands(const attn_attention *a, attn_arena *arena, attn_tensor *query,
                                    attn_tensor *key, attn_tensor *value, attn_error *err);

/* Computes the terms whose sum over the keys is the output: weight times value, [batch.., Ho, L, S,
 * Ev], in the arena. `weights` are those of a run of `a`, or its weights after dropout. A weight of
 * 0 gives zeros, whatever the value is. Errors: ATTN_EARG at "position/value_table" (with that
 * table the values depend on the query), ATTN_ESHAPE (rank ATTN_MAX_RANK), ATTN_ENOMEM,
 * ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_attention_weighted_values(const attn_attention *a, const attn_tensor *weights,
                                           const attn_control *control, attn_arena *arena,
                                           attn_tensor *out, attn_error *err);

/* Checks results: computes n random rows (chosen by attn_rng with `seed`) again, in double, from
 * the inputs. output_error is the largest difference of the output. It is relative to the largest
 * magnitude of value (if that is finite), multiplied by the sum of the row's weights where this sum
 * is above 1. logsumexp_error is the largest difference of the logsumexp. The run must have had
 * ATTN_WANT_OUTPUT. Errors: ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. */
typedef struct attn_verification {
    size_t rows;
    double output_error, logsumexp_error;
} attn_verification;
attn_status attn_attention_verify(const attn_attention *a, const attn_results *results, size_t n,
                                  uint64_t seed, const attn_control *control, attn_arena *arena,
                                  attn_verification *out, attn_error *err);

/* Scratch memory of attn_attention_cells. Each thread needs its own. */
typedef struct attn_cells_scratch attn_cells_scratch;
/* Makes scratch memory in the arena. NULL: the arena is full. */
attn_cells_scratch *attn_cells_scratch_new(const attn_attention *a, attn_arena *arena);

/* Computes exact cells: weights (ATTN_STAGE_PROBS), or scores of another stage. dst has rows of
 * `ld` >= cols elements of the type dims.result. `stats` are those of the run; for scores they may
 * be NULL. Weights have the bits that attn_attention_run gives. Any number of threads may call it,
 * each with its own scratch memory. Errors: ATTN_EARG with err->where = "range" (outside of the
 * matrix), "stage" (no such stage) or "stats" (NULL for weights). */
attn_status attn_attention_cells(const attn_attention *a, const attn_stats *stats,
                                 const attn_range *range, attn_stage stage, void *dst, size_t ld,
                                 attn_cells_scratch *scratch, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
