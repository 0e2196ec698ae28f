/* Measures, distances and diagnoses of attention heads, over any source of weights (heatmap.h).
 *
 * p_ij is the weight of query i on key j. V_i is the set of keys that query i sees, n_i their
 * number. s_i = sum_j p_ij and q_ij = p_ij / s_i. Query i sits at key position t_i = i +
 * query_offset. "rows" are the rows that see a key and have s_i > 0. Means go over these rows
 * unless another set is named. Every measure also has its value under uniform attention with the
 * same mask (p_ij = 1/n_i on V_i). Compare with that value: early rows of a causal mask have low
 * entropy and near keys by construction.
 *
 *   entropy             mean of H_i = -sum_j q_ij ln q_ij, nats, [0, ln S]
 *                       Ghader and Monz 2017; Clark et al. 2019
 *   normalized_entropy  mean of H_i / ln n_i over rows with n_i > 1, [0, 1]
 *   effective_tokens    mean of exp(H_i), [1, S]
 *   participation       mean of 1 / sum_j q_ij^2, [1, S] (inverse participation ratio)
 *   confidence          mean of max_j p_ij, [0, 1]                       Voita et al. 2019
 *   saturated_rows      share of the rows with n_i > 1 whose max_j q_ij >= 0.99, [0, 1]
 *   distance            sum_ij p_ij |t_i - j| / sum_ij p_ij, tokens      Vig and Belinkov 2019
 *   signed_distance     sum_ij p_ij (t_i - j) / sum_ij p_ij; above 0 the head looks back
 *   relative_distance   distance / its value under uniform attention
 *   previous_token      mean of p_i,t_i-1 over rows where that key exists, [0, 1]
 *   current_token       mean of p_i,t_i                                  Clark et al. 2019
 *   next_token          mean of p_i,t_i+1
 *   positional_offset   the most frequent offset d = j - t_i, in [-64, 64], where j is the key of
 *                       the row's largest weight (ties: nearest to 0, then the negative one)
 *   positional_share    share of the rows whose largest weight lies at offset d; a positional head
 *                       has >= 0.9                                       Voita et al. 2019
 *   positional_mass     mean of p_i,t_i+d over rows where that key exists
 *   local_mass          mean of the sum of p_ij over |t_i - j| <= radius, [0, 1]
 *                                                                        Kovaleva et al. 2019
 *   first_token         mean of p_i0 over rows with t_i > 0, [0, 1]      Xiao et al. 2023
 *   sink                max over keys k that at least half of the rows see of
 *                       alpha_k = mean of p_ik over the rows that see k, [0, 1]; a sink has > 0.3.
 *                       For a square causal mask alpha_k = sum_{i>=k} p_ik / (L - k)
 *                                                                        Gu et al. 2024
 *   sink_key            the key k at which `sink` takes its maximum
 *   sink_logit_mass     mean of 1 - s_i, the mass that a sink logit holds
 *   top_share           share of all mass that the ceil(S/5) most attended keys receive, [0, 1]
 *                                                                        Zhang et al. 2023 (H2O)
 *   gini                Gini coefficient of the mass received by the keys that any row sees, [0, 1)
 *   duplicate_token     mean of the sum of p_ij over j < t_i with token_j = token_i, over rows that
 *                       have such a key                                  TransformerLens
 *   induction           mean of the sum of p_ij over 1 <= j <= t_i with token_{j-1} = token_i, over
 *                       rows that have such a key (prefix matching)      Olsson et al. 2022
 *   same_kind           mean of the sum of p_ij over j != t_i with kind_j = kind_i, over rows that
 *                       have such a key
 *   block_mass          mean of the sum of p_ij over keys of the row's own segment
 *                                                                        Kovaleva et al. 2019
 *   score_spread        mean over rows with n_i > 1 of the standard deviation of the scores on V_i
 *   score_max           the largest score                                Zhai et al. 2023
 *   class mass          mean of the sum of p_ij over keys j of a class; its lift is this mass
 *                       divided by its value under uniform attention     Clark et al. 2019
 *   blocks              [a][b]: mean over rows of segment a of the mass on keys of segment b
 *
 * A measure is NaN when no row counts for it. Weights are not an explanation by themselves (Jain
 * and Wallace 2019; Wiegreffe and Pinter 2019). */
#ifndef ATTN_ANALYSIS_H
#define ATTN_ANALYSIS_H

#include "heatmap.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum attn_measure {
    ATTN_ENTROPY = 0,
    ATTN_NORMALIZED_ENTROPY,
    ATTN_EFFECTIVE_TOKENS,
    ATTN_PARTICIPATION,
    ATTN_CONFIDENCE,
    ATTN_SATURATED_ROWS,
    ATTN_DISTANCE,
    ATTN_SIGNED_DISTANCE,
    ATTN_RELATIVE_DISTANCE,
    ATTN_PREVIOUS_TOKEN,
    ATTN_CURRENT_TOKEN,
    ATTN_NEXT_TOKEN,
    ATTN_POSITIONAL_OFFSET,
    ATTN_POSITIONAL_SHARE,
    ATTN_POSITIONAL_MASS,
    ATTN_LOCAL_MASS,
    ATTN_FIRST_TOKEN,
    ATTN_SINK,
    ATTN_SINK_KEY,
    ATTN_SINK_LOGIT_MASS,
    ATTN_TOP_SHARE,
    ATTN_GINI,
    ATTN_DUPLICATE_TOKEN,
    ATTN_INDUCTION,
    ATTN_SAME_KIND,
    ATTN_BLOCK_MASS,
    ATTN_MEASURE_SCORE_SPREAD,
    ATTN_MEASURE_SCORE_MAX,
    ATTN_MEASURES
} attn_measure;

/* Describes a measure in words, for legends. All texts are static. */
typedef struct attn_measure_info {
    const char *name, *formula, *range, *paper; /* paper is "" for a measure of this project */
} attn_measure_info;
/* Returns the description of a measure, or NULL if there is no such measure. */
const attn_measure_info *attn_measure_about(attn_measure measure);

typedef struct attn_key_class {
    const char *name;
    const size_t *keys; /* ascending, < S */
    size_t count;
} attn_key_class;

#define ATTN_CLASSES_MOST  32
#define ATTN_SEGMENTS_MOST 32

typedef struct attn_measure_options {
    /* Gives the offsets t_i - i and, for a source without logits, the hidden cells. Batch b of the
     * source uses the mask's batch entry b modulo attn_mask_batches. NULL: the offset is 0, and
     * only logits of -infinity hide cells. */
    const attn_mask *mask;
    size_t radius; /* of local_mass, default 2 */
    const attn_key_class *classes;
    size_t class_count; /* <= ATTN_CLASSES_MOST */
    /* Token ids [token_batches, L] and [token_batches, S]. token_batches divides the number of
     * batches, and batch b uses row b modulo token_batches. NULL: duplicate_token and induction are
     * NaN. */
    const int64_t *query_tokens, *key_tokens;
    size_t token_batches;
    /* Kinds [L] and [S] of the tokens: equal non-negative numbers mean the same kind. NULL:
     * same_kind is NaN. */
    const int64_t *query_kinds, *key_kinds;
    /* Segment numbers [L] and [S], < segment_count. NULL: there are no blocks. */
    const uint32_t *query_segments, *key_segments;
    size_t segment_count; /* <= ATTN_SEGMENTS_MOST */
    size_t top_keys;      /* how many of the most attended keys to name, default 5 */
} attn_measure_options;

attn_measure_options attn_measure_defaults(void);

typedef struct attn_key_mass {
    size_t key;
    double mass, mean; /* mass received from all rows; mean alpha_k over rows that see the key */
} attn_key_mass;

typedef struct attn_head_measures {
    size_t batch, head;
    size_t rows, blind; /* rows that count; rows that see no key or hold no weight */
    double values[ATTN_MEASURES];
    double uniform[ATTN_MEASURES];      /* under uniform attention with the same mask */
    double *class_mass, *class_uniform; /* [class_count]; lift = class_mass / class_uniform */
    double *blocks;                     /* [segment_count, segment_count] */
    attn_key_mass *top;                 /* most attended keys first; ties: the lower key first */
    size_t top_count;
    double hidden_mass; /* mean weight of a row on hidden keys (0 unless a caller gave weights) */
} attn_head_measures;

typedef struct attn_measures {
    attn_head_measures *items; /* batch-major */
    size_t count, batches, heads;
} attn_measures;

/* Computes the bytes and operations of attn_measure_heads on `slots` threads from shapes alone. */
attn_status attn_measure_cost(const attn_measure_options *options, size_t B, size_t H, size_t L,
                              size_t S, size_t slots, attn_cost *out, attn_error *err);
/* Computes all measures of all heads and reads each row once. Beside the result it takes O(L + S)
 * memory, whatever the number of heads. Results do not depend on the pool. Errors: ATTN_EARG
 * (err->where: "classes", "segments"), ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE, and those of
 * the source. */
attn_status attn_measure_heads(const attn_weight_source *source,
                               const attn_measure_options *options, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_measures *out,
                               attn_error *err);

/* Distances between the heads of two sources of equal L and S, for batch entry `batch`. Each array
 * is [Ha, Hb], row-major. A distance is NaN if the two heads have no row in common.
 *   js        mean over rows of H((q + r)/2) - (H(q) + H(r))/2, nats, [0, ln 2]; Clark et al. 2019
 *   cosine    cosine of the two matrices as vectors, [-1, 1]                    Li et al. 2018
 *   centered  cosine after uniform attention under the mask is subtracted from each matrix. Two
 *             masked heads have a high cosine by construction (0.9 and more for random causal
 *             heads); `centered` has no such bias
 * The mean over pairs h < g of one source says how similar its heads are. */
typedef struct attn_head_distances {
    size_t batch, rows, cols;
    double *js, *cosine, *centered;
    double mean_js, mean_cosine, mean_centered; /* over pairs h < g of one source, else all pairs */
} attn_head_distances;

attn_status attn_head_distances_cost(size_t batches, size_t heads_a, size_t heads_b, size_t L,
                                     size_t S, size_t slots, attn_cost *out, attn_error *err);
/* Computes the distances of every batch entry; *out is one record for each, in the arena. With b
 * NULL it compares the heads of a with each other (then heads_b is 0 in the cost). The masks have
 * the meaning of attn_measure_options.mask. ATTN_ESHAPE: the sources differ in batch entries, L or
 * S. Results do not depend on the pool. */
attn_status attn_head_distances_measure(const attn_weight_source *a, const attn_mask *mask_a,
                                        const attn_weight_source *b, const attn_mask *mask_b,
                                        attn_pool *pool, const attn_control *control,
                                        attn_arena *arena, attn_head_distances **out,
                                        attn_error *err);

/* --- Sources derived from other sources. They too give rows on demand, so no L x S matrix exists.
 * Each derived source takes `lanes` scratch areas from the arena. The sources that it reads must
 * outlive it. --- */

/* Makes a source of a caller's weights with a mask. Its logits are ln p, and -infinity where the
 * mask hides. */
attn_status attn_masked_source(const attn_weight_source *source, const attn_mask *mask,
                               size_t lanes, attn_arena *arena, attn_weight_source *out,
                               attn_error *err);
/* Makes a source of a - b, cell by cell. A cell is hidden if it is hidden in both a and b.
 * ATTN_ESHAPE: batches, heads, rows or columns differ. */
attn_status attn_difference_source(const attn_weight_source *a, const attn_weight_source *b,
                                   size_t lanes, attn_arena *arena, attn_weight_source *out,
                                   attn_error *err);
/* Makes a source of the attention rollout over layers (Abnar and Zuidema 2020). The source has
 * layers * B batches, layer first. The rollout has B batches and one head:
 *   R_0 = I,  R_l = N(mean_h A_l + I) R_{l-1},  N divides each row by its sum
 * (if rows of A_l sum to 1, N(…) is 0.5 mean_h A_l + 0.5 I). ATTN_ESHAPE unless L = S and `layers`
 * divides the number of batches. Row i costs layers * (H + 1) * S^2 operations. While it computes,
 * the source checks `control` (NULL: none). */
attn_status attn_rollout_source(const attn_weight_source *source, size_t layers, size_t lanes,
                                const attn_control *control, attn_arena *arena,
                                attn_weight_source *out, attn_error *err);
/* Kinds of gradient sources. With O = A V the gradient of a loss F with respect to a weight is
 * exactly dF/dA_ij = dO_i . v_j. grad_output [B, H, L, Ev] and value [B, Hkv, S, Ev] are dense
 * float32 or float64 and fit the sizes of the source (else ATTN_ESHAPE). An unknown kind is
 * ATTN_EARG.
 *   ATTN_GRADIENT           dA = dF/dA
 *   ATTN_GRADIENT_PRODUCT   A * dA (input x gradient at the weights)
 *   ATTN_GRADIENT_POSITIVE  max(A * dA, 0); its mean over heads is the A-bar of Chefer et al. 2021,
 *                           eq. 5 */
typedef enum attn_gradient_kind {
    ATTN_GRADIENT = 0,
    ATTN_GRADIENT_PRODUCT,
    ATTN_GRADIENT_POSITIVE,
} attn_gradient_kind;
attn_status attn_gradient_source(const attn_weight_source *source, const attn_tensor *grad_output,
                                 const attn_tensor *value, attn_gradient_kind kind, size_t lanes,
                                 attn_arena *arena, attn_weight_source *out, attn_error *err);

/* Sums of all visible cells of one head. attn_head_sums fills [batches * heads] of them,
 * batch-major. For a source of A * dA the sum is <O_h, dF/dO_h>, and its absolute value is the head
 * importance of Michel et al. 2019. */
typedef struct attn_head_sum {
    double sum, magnitude; /* sum of the cells; sum of their absolute values */
} attn_head_sum;
attn_status attn_head_sums(const attn_weight_source *source, attn_pool *pool,
                           const attn_control *control, attn_arena *arena, attn_head_sum **out,
                           attn_error *err);

/* --- in words --- */

/* Says what a head looks at, by the first naming rule that applies to it. */
typedef struct attn_pattern_name {
    const char *name;  /* "previous token", "adjacent", "punctuation", a class's name, … */
    const char *shape; /* category of Kovaleva et al. 2019: vertical, diagonal, vertical+diagonal,
                          block, heterogeneous */
    const char *text;  /* one sentence with the numbers */
} attn_pattern_name;
attn_status attn_name_pattern(const attn_head_measures *head, const attn_measure_options *options,
                              attn_arena *arena, attn_pattern_name *out, attn_error *err);

typedef struct attn_number {
    const char *name;
    double value;
} attn_number;

typedef struct attn_diagnosis {
    const char *code; /* "near_uniform", "head_collapse", …; codes do not change */
    const char *text; /* what was found, what it usually means, what to do */
    const attn_number *numbers;
    size_t number_count;
    const size_t *heads; /* indices in attn_measures.items of the heads that it is about */
    size_t head_count;
} attn_diagnosis;

typedef struct attn_diagnoses {
    attn_diagnosis *items;
    size_t count;
} attn_diagnoses;

typedef struct attn_diagnose_input {
    const attn_measures *measures;
    const attn_head_distances *distances; /* [batches]; NULL: head_collapse is not tested */
    const attn_attention *run;            /* NULL: causes of near-uniform weights are not sought */
    size_t layers;                        /* number of layers that the batches cover, or 1 */
    bool layered;                         /* texts name heads with their layer */
    size_t L, S;
} attn_diagnose_input;

/* Finds what is unusual about the heads. Codes: near_uniform (near_uniform_scores,
 * near_uniform_keys or near_uniform_task if the cause is known), saturated_softmax, sink_heads,
 * head_collapse, similar_heads, mask_leak, memory. The texts are in the arena and name the
 * thresholds (lib/analysis/diagnose.h). */
attn_status attn_diagnose(const attn_diagnose_input *in, attn_arena *arena, attn_diagnoses *out,
                          attn_error *err);
/* Returns the sentence to show with every analysis: weights are not an explanation. */
const char *attn_analysis_caveat(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
