/* Dot-product attention: outputs, exact weights, row statistics, and any cell of the weights later.
 *
 *   softmax(scale * Q K^T + mask) V    (Vaswani et al., "Attention is all you need", 2017, eq. 1)
 *
 * Letters: B batch, Hq query heads, Hkv key/value heads, L queries, S keys (cached ones included),
 * E head width, Ev value width. Query head h uses key/value head h / (Hq / Hkv).
 *
 * Order: score -> scale -> softcap c*tanh(s/c) -> additive parts (positions, float masks) -> hidden
 * cells to -infinity -> sink logit in the denominator -> softmax -> dropout -> times value. A fully
 * hidden row gives zero output, zero weights and logsumexp -infinity, or the sink logit if there is
 * a sink.
 *
 * One operation runs in four steps: attn_attention_shape (shapes only) -> attn_attention_cost ->
 * attn_attention_new (checks values, compiles masks) -> attn_attention_run; afterwards
 * attn_attention_cells gives any part of the weights, bit for bit as the full matrix has it. */
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
    ATTN_BHLE = 0, /* [.., H, L, E]; rank 2 = [L, E], 3 = [B, L, E] */
    ATTN_BLHE,     /* [.., L, H, E], rank >= 3 */
    ATTN_BLD,      /* [.., L, H*E] with num_heads */
} attn_layout;

typedef enum attn_stage {
    ATTN_STAGE_RAW = 0,    /* q . k */
    ATTN_STAGE_SCALED,     /* times scale */
    ATTN_STAGE_SOFTCAPPED, /* after softcap */
    ATTN_STAGE_BIASED,     /* after additive parts and masks; -infinity = hidden */
    ATTN_STAGE_PROBS,      /* the weights */
} attn_stage;

/* All inputs. Start from attn_attention_defaults(). Without key and value the operation is
 * self-attention. It computes float32, float16 and bfloat16 in float32, and everything in double if
 * query, key or value is float64. */
typedef struct attn_inputs {
    attn_tensor query; /* [.., Hq, L, E] in `layout` */
    attn_tensor key;   /* [.., Hkv, S - P, E], equal rank; batch axes broadcast from 1 */
    attn_tensor value; /* [.., Hkv, S - P, Ev] */
    attn_tensor past_key, past_value; /* [.., Hkv, P, E], [.., Hkv, P, Ev], in every layout */
    attn_layout layout;
    size_t num_heads, num_kv_heads; /* BLD: required; num_kv_heads 0 = num_heads */
    bool forbid_gqa;                /* unequal head counts are an error */
    double scale;                   /* NaN = the form's own: 1/sqrt(E) or 1 (forms.h) */
    double softcap;                 /* 0 = off, else > 0 */
    attn_score score;               /* forms.h; all zero = scaled dot product */
    attn_position position;
    attn_tensor sinks;     /* [Hq]: one logit a head in the softmax denominator, without a value */
    double dropout_p;      /* 0 = none; weights dropped with this probability, < 1 */
    uint64_t dropout_seed; /* cell (b, h, i, j) is dropped when attn_rng_uniform(seed, its
                              row-major index in [B, Hq, L, S]) < p */
    attn_mask_spec mask;
    bool allow_nonfinite;     /* accept NaN and infinity instead of ATTN_ENONFINITE */
    attn_precision precision; /* isa.h; float64 tensors and gradients need ATTN_PRECISION_FP32 */
    const char *kernel;       /* name of the kernel table; NULL = the chosen one (isa.h) */
} attn_inputs;

attn_inputs attn_attention_defaults(void);

typedef struct attn_attention_dims {
    int batch_rank;
    size_t batch[ATTN_MAX_RANK];
    bool has_heads; /* output and weights have a head axis */
    size_t B, Hq, Hkv, L, S, past, E, Ek,
        Ev;               /* E, Ek: widths of a query and a key, equal for dot forms */
    size_t score_width;   /* width of the product of a score: E, or A for additive forms */
    size_t sets;          /* distinct (key, value) batch entries: B, or 1 if all share them */
    size_t relative;      /* rows of Shaw's tables; 0 = no tables */
    bool relative_values; /* Shaw's table of values is given */
    size_t entries;       /* distance biases of a head that get gradients; 0 = none */
    bool softcap;         /* scores are capped */
    size_t positions;     /* numbers in the position tables; 0 = no tables */
    size_t maps;          /* numbers in the score form's matrices for queries and keys */
    bool transforms;      /* queries or keys are transformed before the product */
    attn_dtype result;    /* ATTN_F32, or ATTN_F64 with a float64 input */
    attn_precision precision;
    attn_isa isa;    /* instruction set of the kernels: ATTN_ISA_REF in double */
    bool tanh_score; /* a score is a sum of tanh, not a product */
    int output_rank, weights_rank, rows_rank;
    size_t output[ATTN_MAX_RANK];  /* query's shape with Ev for E, in the query's layout */
    size_t weights[ATTN_MAX_RANK]; /* [batch.., H, L, S], no H axis for query rank 2 and 3 (BHLE) */
    size_t rows[ATTN_MAX_RANK];    /* weights' shape without S: logsumexp */
} attn_attention_dims;

/* Checks the inputs and computes all shapes without reading a value. Errors: ATTN_ESHAPE,
 * ATTN_EARG, ATTN_EDTYPE, ATTN_ELIMIT; err->where names the field. Any thread may call it. */
attn_status attn_attention_shape(const attn_inputs *in, attn_attention_dims *out, attn_error *err);

/* Bits of `want`: the results to compute. */
enum {
    ATTN_WANT_OUTPUT = 1,
    ATTN_WANT_WEIGHTS = 2,
    ATTN_WANT_LOGSUMEXP = 4,
    ATTN_WANT_SCORES = 8,
    ATTN_WANT_PRESENT = 16,
    ATTN_WANT_WEIGHTS_DROPPED = 32, /* weights after dropout, kept ones divided by 1 - p */
    /* This bit adds no result. It prepares the run for many cells or for gradients: they take less
     * time then, but the run takes more memory and somewhat more time. Their values do not change.
     * The prepared data is in the arena of the run, which must live until the operation runs again
     * or is no longer used. */
    ATTN_WANT_CELLS = 1 << 16,
};

typedef struct attn_cost {
    double cells;      /* B * Hq * L * S */
    double operations; /* floating-point operations, a multiply-add = 2 */
    size_t work_bytes; /* scratch and packed operands */
    size_t result_bytes;
    /* After NaN, infinity or an overflow the run computes again in double. That takes these bytes
     * on top of work_bytes. If they are not available, the status is ATTN_ENOMEM. */
    size_t fallback_bytes;
} attn_cost;

/* Computes the bytes and operations of a run on `slots` threads from shapes alone. The bytes
 * include those of attn_attention_new, except for masks, and are an upper bound of what the arena
 * hands out without a second attempt. Errors: ATTN_ELIMIT (overflow), ATTN_EARG at "want" (unknown
 * bits). */
attn_status attn_attention_cost(const attn_attention_dims *dims, unsigned want, size_t slots,
                                attn_cost *out, attn_error *err);

typedef struct attn_attention attn_attention;

/* Checks values and compiles masks. The object is in the arena, and the inputs' tensors must
 * outlive it. Errors: those of attn_attention_shape, also for position tables, sinks and masks, and
 * ATTN_EVALUE, ATTN_ESEMANTICS (attn_mask_new) and ATTN_ENOMEM. err->where names the field as in
 * JSON requests ("mask_fill/value", "position/table"). A visible NaN or infinity is reported by
 * attn_attention_run: ATTN_ENONFINITE, where = "key/0/3/1". */
attn_status attn_attention_new(const attn_inputs *in, attn_arena *arena, attn_attention **out,
                               attn_error *err);
const attn_attention_dims *attn_attention_dims_of(const attn_attention *a);
const attn_mask *attn_attention_mask(const attn_attention *a);
/* Returns the factor of the scores: the scale of the inputs, or the score form's default. */
double attn_attention_scale(const attn_attention *a);
/* Returns the name of the kernel table: "ref", "avx2", "avx512", or with bf16 products
 * "avx512_bf16" or "amx". Results depend only on the inputs, this name and the precision. */
const char *attn_attention_kernel(const attn_attention *a);

/* Statistics of each row [B, Hq, L], from which attn_attention_cells computes exact weights. `sum`
 * is relative to a power of two chosen from `max` (lib/kernels/kernels.h), so use logsumexp for
 * arithmetic. */
typedef struct attn_stats {
    double *max; /* largest visible score or sink; -infinity for a fully hidden row without sink */
    double *sum;
    uint8_t *kind; /* private: the method that computed the row */
} attn_stats;

/* The results of a run, in the arena. Tensors that were not wanted have rank 0. The element type is
 * dims.result (present_*: the type to which the inputs are widened). Hidden scores, and the
 * logsumexp of fully hidden rows, are -infinity. */
typedef struct attn_results {
    attn_tensor output, weights, weights_dropped, logsumexp, scores, present_key, present_value;
    attn_stats stats;
    size_t hidden_rows; /* fully hidden rows, over all batches and heads */
} attn_results;

/* Runs the operation. `stage` selects the scores of ATTN_WANT_SCORES. Errors: ATTN_EARG ("want":
 * unknown bits, "stage": no such stage), ATTN_ENONFINITE (a visible NaN or infinity, scores that
 * overflow), ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. The same inputs on the same kernel table
 * give the same bytes, for any pool. While a call runs, no other thread may run the operation or
 * call attn_attention_cells for it. The tensors of the inputs must still be valid. */
attn_status attn_attention_run(attn_attention *a, unsigned want, attn_stage stage, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_results *out,
                               attn_error *err);

/* A rectangle of one head's [L, S] matrix: rows row … row + rows - 1, keys col … col + cols - 1. */
typedef struct attn_range {
    size_t batch, head, row, rows, col, cols;
} attn_range;

/* Computes n random rows (attn_rng, `seed`) again in double from the inputs and gives the largest
 * differences of output (relative to the largest magnitude of value, if that is finite) and of
 * logsumexp. The run must have had ATTN_WANT_OUTPUT. Errors: ATTN_ECANCELED, ATTN_EDEADLINE. */
typedef struct attn_verification {
    size_t rows;
    double output_error, logsumexp_error;
} attn_verification;
attn_status attn_attention_verify(const attn_attention *a, const attn_results *results, size_t n,
                                  uint64_t seed, const attn_control *control, attn_arena *arena,
                                  attn_verification *out, attn_error *err);

/* Scratch for attn_attention_cells. Each thread needs its own. */
typedef struct attn_cells_scratch attn_cells_scratch;
attn_cells_scratch *attn_cells_scratch_new(const attn_attention *a, attn_arena *arena);

/* Computes exact cells of the weights (stage PROBS) or of a score stage. It writes them to dst,
 * row-major [rows, cols] with a row stride of ld >= cols elements of dims.result. `stats` are those
 * of the run and may be NULL for score stages. Weights equal those of attn_attention_run bit for
 * bit. Errors: ATTN_EARG ("range" outside of the matrix, no such "stage", "stats" NULL for
 * weights). Any thread with its own scratch may call it. */
attn_status attn_attention_cells(const attn_attention *a, const attn_stats *stats,
                                 const attn_range *range, attn_stage stage, void *dst, size_t ld,
                                 attn_cells_scratch *scratch, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
