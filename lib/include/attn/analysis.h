/* Measures, distances and diagnoses of attention heads. They read weights from any source
 * (heatmap.h). Notation:
 *
 *   p_ij      weight of query i on key j
 *   V_i, n_i  the keys that query i sees, and their number
 *   s_i       sum_j p_ij
 *   q_ij      p_ij / s_i
 *   t_i       key position of query i: i + query_offset
 *   rows      queries that see a key, have s_i > 0 and are no padding (attn_weight_source). Means
 *             are over these rows unless they state others
 *   L, S      numbers of queries and keys; in the formulas below without padding
 *   mass      a sum of weights p_ij
 *   uniform   p_ij = 1/n_i on V_i: attention under the same mask without any preference
 *
 * The value of each measure under uniform attention is computed too. Compare a measure with this
 * value: under a causal mask, for example, early rows have low entropy and look at near keys
 * whatever the head does.
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
 *   sink_logit_mass     mean of max(0, 1 - s_i), the mass that a sink logit holds
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
 *   value_norm          mean of sum_j c_ij with c_ij = ||p_ij v_j||, or ||p_ij v_j W_o^h||: the
 *                       lengths of the vectors that a head adds up      Kobayashi et al. 2020
 *   value_entropy       mean of -sum_j r_ij ln r_ij with r_ij = c_ij / sum_j c_ij, nats, [0, ln S]
 *   value_first_token   mean of r_i0 over rows with t_i > 0, [0, 1]; a sink whose value is short
 *                       has a first_token far above it                  Kobayashi et al. 2020
 *   class mass          mean of the sum of p_ij over keys j of a class; its lift is this mass
 *                       divided by its value under uniform attention     Clark et al. 2019
 *   blocks              [a][b]: mean over the rows of segment a of their mass on the keys of
 *                       segment b
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
    ATTN_VALUE_NORM,
    ATTN_VALUE_ENTROPY,
    ATTN_VALUE_FIRST_TOKEN,
    ATTN_MEASURES
} attn_measure;

/* A measure in words, for legends. All texts are static. */
typedef struct attn_measure_info {
    const char *name, *formula, *range, *paper; /* paper is "" for a measure of this project */
} attn_measure_info;
/* Returns the description of a measure, or NULL if there is no such measure. */
const attn_measure_info *attn_measure_about(attn_measure measure);

/* A class of keys, such as all keys that are punctuation. */
typedef struct attn_key_class {
    const char *name;
    const size_t *keys; /* [count] ascending, below S */
    size_t count;
} attn_key_class;

#define ATTN_CLASSES_MOST  32
#define ATTN_SEGMENTS_MOST 32

typedef struct attn_measure_options {
    /* The mask gives the offsets t_i - i and, for a source without logits, the hidden cells. Batch
     * entry b of the source uses batch entry b modulo attn_mask_batches of the mask. NULL: offsets
     * are 0, and a cell is hidden only if its logit is -infinity. */
    const attn_mask *mask;
    size_t radius; /* keys that local_mass counts on each side of t_i; default 2 */
    /* [class_batches, class_count] classes of the same names in the same order for each batch
     * entry; class_batches 0 counts as 1. As with token_batches, entry b uses row b modulo
     * class_batches. */
    const attn_key_class *classes;
    size_t class_count; /* at most ATTN_CLASSES_MOST */
    size_t class_batches;
    /* Token ids [token_batches, L] and [token_batches, S]. token_batches divides the number of
     * batch entries B of the source, and entry b uses row b modulo token_batches. NULL:
     * duplicate_token and induction are NaN. */
    const int64_t *query_tokens, *key_tokens;
    size_t token_batches;
    /* Kinds of the tokens, [kind_batches, L] and [kind_batches, S]; kind_batches 0 counts as 1.
     * Tokens with equal numbers >= 0 are of the same kind; negative numbers mean no kind. NULL:
     * same_kind is NaN. */
    const int64_t *query_kinds, *key_kinds;
    size_t kind_batches;
    /* [special_batches, L] 1: the query is a special token, such as an end token. A special token
     * belongs to no key, so attn_head_measures.ordered leaves its row out. special_batches 0 counts
     * as 1. NULL: no query is special. */
    const uint8_t *query_special;
    size_t special_batches;
    /* Segments of the tokens, [L] and [S]: numbers below segment_count. NULL: no blocks are
     * computed. */
    const uint32_t *query_segments, *key_segments;
    size_t segment_count; /* at most ATTN_SEGMENTS_MOST */
    size_t top_keys;      /* how many of the keys with most mass are listed; default 5 */
    /* Queries and keys are different sequences, as in cross-attention. false: this is decided for
     * each batch entry. With tokens, the sequences are different if the token of a query i is not
     * that of key t_i. Without tokens, they are different if L is not S, t_i = i, and the mask
     * shows the first and the last query the same keys. */
    bool across;
    /* Norms [B, H, S] of attn_value_norms for the heads of the source. NULL: the measures of values
     * are NaN. */
    const double *value_norms;
} attn_measure_options;

/* Returns the options with their default values. */
attn_measure_options attn_measure_defaults(void);

/* The mass on one key. */
typedef struct attn_key_mass {
    size_t key;
    double mass; /* sum of p_ij over all rows i */
    double mean; /* mean of p_ij over the rows that see the key (alpha_k above) */
} attn_key_mass;

/* The measures of one head. */
typedef struct attn_head_measures {
    size_t batch, head;
    size_t rows;  /* number of rows over which means are taken */
    size_t blind; /* number of rows that see no key or have s_i = 0 */
    double values[ATTN_MEASURES];
    double uniform[ATTN_MEASURES]; /* the same measures under uniform attention */
    double *class_mass;            /* [class_count] the head's mean mass on each class */
    double *class_uniform;         /* [class_count] the same under uniform attention */
    /* [segment_count, segment_count] blocks[a][b]: mean over the rows of segment a of their mass on
     * the keys of segment b. */
    double *blocks;
    /* [top_count] keys by falling mass; of keys with equal mass, the lower one first */
    attn_key_mass *top;
    size_t top_count;
    /* Mean over rows of the weight on hidden keys. It is 0 unless a caller gave the weights. */
    double hidden_mass;
    /* Whether queries and keys are different sequences (attn_measure_options.across). */
    bool across;
    /* Mean over rows i of the mass on keys at most max(1, S / 8) away from the line i (S - 1) / (L
     * - 1). NaN unless across is true and L > 1. */
    double aligned;
    double aligned_uniform; /* the same under uniform attention */
    /* True if across is true and the keys of the rows' largest weights are in order. Rows of
     * special tokens (attn_measure_options.query_special) are left out. Keys in order rise from row
     * to row, except where two neighbouring rows exchange two keys at most max(1, S / 8) apart.
     * This happens `exchanges` times, at most once in four rows. The keys begin in the first
     * quarter of all keys and end in the last one. The number of different keys is at least 0.8
     * times the number of rows or S, whichever is smaller; S counts the keys from the first visible
     * one to the last. Fewer than three rows or keys are never in order. */
    bool ordered;
    size_t exchanges;
} attn_head_measures;

typedef struct attn_measures {
    attn_head_measures *items; /* [count] ordered by batch entry, then head */
    size_t count, batches, heads;
} attn_measures;

/* Computes the bytes and operations of attn_measure_heads on `slots` threads from shapes alone: B
 * batch entries, H heads, L queries, S keys. ATTN_ELIMIT: a size overflows. */
attn_status attn_measure_cost(const attn_measure_options *options, size_t B, size_t H, size_t L,
                              size_t S, size_t slots, attn_cost *out, attn_error *err);
/* Computes the measures of all heads and reads each row of weights once. The results are in the
 * arena. Besides the results it takes O(L + S) bytes for each thread, whatever the number of heads.
 * Results do not depend on the pool. Errors: ATTN_EARG (err->where is "classes" or "segments"),
 * ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE, and those of the source. */
attn_status attn_measure_heads(const attn_weight_source *source,
                               const attn_measure_options *options, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_measures *out,
                               attn_error *err);

/* Distances between the heads of two sources a and b with equal L and S, for one batch entry. Each
 * array is [rows, cols]: heads of a by heads of b, row-major. q and r are the normalized rows of
 * the two heads. A distance is NaN if the heads have no row in common.
 *
 *   js        mean over rows of H((q + r)/2) - (H(q) + H(r))/2, nats, [0, ln 2]; Clark et al. 2019
 *   cosine    cosine of the two matrices as vectors, [-1, 1]; Li et al. 2018
 *   centered  cosine after uniform attention is subtracted from each matrix. Under a mask all heads
 *             have a high cosine (0.9 and more for random causal heads); `centered` leaves out what
 *             the heads share by the mask alone */
typedef struct attn_head_distances {
    size_t batch, rows, cols;
    double *js, *cosine, *centered;
    /* Means of js, cosine and centered over all pairs of different heads of one source, or over all
     * pairs of a head of a and a head of b. */
    double mean_js, mean_cosine, mean_centered;
} attn_head_distances;

/* Computes the bytes and operations of attn_head_distances_measure; heads_b = 0: the heads of one
 * source are compared with each other. ATTN_ELIMIT: a size overflows. */
attn_status attn_head_distances_cost(size_t batches, size_t heads_a, size_t heads_b, size_t L,
                                     size_t S, size_t slots, attn_cost *out, attn_error *err);
/* Computes the distances for every batch entry. *out is an array with one element for each entry,
 * in the arena. With b = NULL it compares the heads of a with each other. The masks have the
 * meaning of attn_measure_options.mask. Results do not depend on the pool. Errors: ATTN_ESHAPE (the
 * sources differ in batch entries, L or S), ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE, and those
 * of the sources. */
attn_status attn_head_distances_measure(const attn_weight_source *a, const attn_mask *mask_a,
                                        const attn_weight_source *b, const attn_mask *mask_b,
                                        attn_pool *pool, const attn_control *control,
                                        attn_arena *arena, attn_head_distances **out,
                                        attn_error *err);

/* --- sources derived from other sources. They compute rows on demand too, so no L x S matrix is
 * made. A derived source has `lanes` scratch areas in the arena, one for each thread that reads it
 * at a time (attn_weight_source.fetch). The sources that it reads must outlive it. All may return
 * ATTN_ENOMEM. --- */

/* Makes a source of given weights and a mask. Its logits are ln p, or -infinity in cells that the
 * mask hides. */
attn_status attn_masked_source(const attn_weight_source *source, const attn_mask *mask,
                               size_t lanes, attn_arena *arena, attn_weight_source *out,
                               attn_error *err);
/* Makes a source of a - b, cell by cell. A cell is hidden if it is hidden in both. ATTN_ESHAPE:
 * batch entries, heads, rows or columns differ. */
attn_status attn_difference_source(const attn_weight_source *a, const attn_weight_source *b,
                                   size_t lanes, attn_arena *arena, attn_weight_source *out,
                                   attn_error *err);
/* Makes a source of the attention rollout (Abnar and Zuidema 2020). `source` has the weights A_l of
 * `layers` layers: batch entry l * B + b is layer l of entry b. The rollout has B batch entries and
 * one head:
 *
 *   R_0 = I,  R_l = N(mean_h A_l + I) R_{l-1},  where N divides each row by its sum
 *
 * If the rows of A_l sum to 1, N(…) is 0.5 mean_h A_l + 0.5 I. A row costs layers * (H + 1) * S^2
 * operations. `control` (NULL: none) can stop fetch, with ATTN_ECANCELED or ATTN_EDEADLINE.
 * ATTN_ESHAPE: L is not S, or `layers` does not divide the batch entries. */
attn_status attn_rollout_source(const attn_weight_source *source, size_t layers, size_t lanes,
                                const attn_control *control, attn_arena *arena,
                                attn_weight_source *out, attn_error *err);
/* Sets *out to the operations of all rows of the rollout of `batches` entries of [heads, S, S], and
 * to the largest number of bytes that its source takes for `lanes`. */
void attn_rollout_cost(size_t layers, size_t batches, size_t heads, size_t S, size_t lanes,
                       attn_cost *out);
/* The values of a gradient source. For the output O = A V and a loss F, the gradient of a weight is
 * dA_ij = dF/dA_ij = dO_i . v_j.
 *
 *   ATTN_GRADIENT           dA
 *   ATTN_GRADIENT_PRODUCT   A * dA (input x gradient, at the weights)
 *   ATTN_GRADIENT_POSITIVE  max(A * dA, 0); its mean over heads is A-bar of Chefer et al. 2021,
 *                           eq. 5 */
typedef enum attn_gradient_kind {
    ATTN_GRADIENT = 0,
    ATTN_GRADIENT_PRODUCT,
    ATTN_GRADIENT_POSITIVE,
} attn_gradient_kind;
/* Makes a source of gradients from the weights of `source`, grad_output [B, H, L, Ev] and value
 * [B, Hkv, S, Ev]. Both tensors are dense float32 or float64 and must outlive the source.
 * ATTN_ESHAPE: they do not fit the source. ATTN_EARG: unknown kind. */
attn_status attn_gradient_source(const attn_weight_source *source, const attn_tensor *grad_output,
                                 const attn_tensor *value, attn_gradient_kind kind, size_t lanes,
                                 attn_arena *arena, attn_weight_source *out, attn_error *err);

/* Norms of the vectors that weights multiply (Kobayashi, Kuribayashi, Yokoi and Inui, "Attention is
 * not only a weight: analyzing Transformers with vector norms", 2020, section 2.3). With a weight
 * a_ij >= 0, ||a_ij v_j|| = a_ij ||v_j||, so a norm for each key is enough:
 *
 *   norms[b][h][j] = ||v_j||         v_j the value of query head h, after its projection W_v
 *   norms[b][h][j] = ||v_j W_o^h||   if w_o [Do, Hq * Ev] is given: W_o^h are the columns of head h
 *
 * attn_value_norms computes norms [B, Hq, S] in double, in the arena; w_o may be NULL. The norm of
 * a value that is not finite is not finite. Errors: ATTN_EARG at "position/value_table" (Shaw's
 * values depend on the query, too), ATTN_ESHAPE at "projections/w_o", ATTN_ENOMEM, ATTN_ECANCELED,
 * ATTN_EDEADLINE. attn_value_norms_cost computes the operations and bytes from shapes. ATTN_ELIMIT:
 * a size overflows. */
attn_status attn_value_norms_cost(const attn_attention_dims *dims, const attn_tensor *w_o,
                                  size_t slots, attn_cost *out, attn_error *err);
attn_status attn_value_norms(const attn_attention *a, const attn_tensor *w_o, attn_pool *pool,
                             const attn_control *control, attn_arena *arena, const double **out,
                             attn_error *err);
/* Makes a source of weights times norms [batches, heads, cols]: cell (i, j) is ||a_ij v_j||. Its
 * rows do not sum to 1. Its logits are those of the rows after normalisation. `source` and `norms`
 * must outlive the new source, which as many threads may read as `source`. Error: ATTN_ENOMEM. */
attn_status attn_value_norm_source(const attn_weight_source *source, const double *norms,
                                   attn_arena *arena, attn_weight_source *out, attn_error *err);

/* Sums over the visible cells of one head, and the cell of largest magnitude. Rows of padding do not
 * count. */
typedef struct attn_head_sum {
    double sum;       /* sum of the cells */
    double magnitude; /* sum of their absolute values */
    double largest;   /* the first cell of largest magnitude, with its sign; 0 if all cells are 0 */
    size_t row, col;  /* its row and column */
    size_t rows;      /* number of rows that are no padding */
} attn_head_sum;
/* Computes the sums of all heads. *out is [batches * heads] in the arena, ordered by batch entry,
 * then head. For a source of A * dA the sum is <O_h, dF/dO_h>; its absolute value is the head
 * importance of Michel et al. 2019. Errors: ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE, and those
 * of the source. */
attn_status attn_head_sums(const attn_weight_source *source, attn_pool *pool,
                           const attn_control *control, attn_arena *arena, attn_head_sum **out,
                           attn_error *err);

/* --- in words --- */

/* The name of a head's attention pattern. Rules are tried in a fixed order, and the first that fits
 * names the pattern. The name "alignment" has two rules, both for cross-attention. By the first one
 * at least 0.6 of the mass lies near the line from the first query and key to the last
 * (attn_head_measures.aligned), and this is at least 1.5 times as much as under uniform attention.
 * By the second one the largest weights are in order (attn_head_measures.ordered), and their mean
 * is at least 0.8, or 0.85 with exchanges. Between related sequences, such as a sentence and its
 * translation, such a head connects the words that belong together. "duplicate token", "induction"
 * and "structural" name only heads whose queries and keys are the same sequence. */
typedef struct attn_pattern_name {
    /* "previous token", "alignment", "punctuation", a class's name, …; "uniform" for a normalized
     * entropy above 0.98; "nearly uniform" above 0.9, if no other rule fits; else
     * "heterogeneous" */
    const char *name;
    /* Category of Kovaleva et al. 2019: vertical, diagonal, vertical+diagonal, block or
     * heterogeneous. */
    const char *shape;
    const char *text; /* one sentence with the numbers */
} attn_pattern_name;
/* Names the pattern of a head. Texts are in the arena. Error: ATTN_ENOMEM. */
attn_status attn_name_pattern(const attn_head_measures *head, const attn_measure_options *options,
                              attn_arena *arena, attn_pattern_name *out, attn_error *err);

/* A number that a diagnosis is based on. */
typedef struct attn_number {
    const char *name;
    double value;
} attn_number;

/* Faults of the weights [L, S] of one head. Start with all members 0, then call attn_weights_check
 * for each row. */
typedef struct attn_weights_faults {
    size_t sums;           /* number of rows whose sum is not 1 (within 0.01) */
    size_t row;            /* the row whose sum differs most from 1 */
    double sum;            /* the sum of this row */
    size_t outside;        /* number of weights outside of 0 … 1 (by more than 1e-6) */
    size_t at_row, at_key; /* row and key of the weight that is farthest outside */
    double value;          /* value of this weight */
    size_t unshared;       /* number of rows with a negative weight, or a sum above 1 */
} attn_weights_faults;

/* Checks the weights [S] of a row. A row of zeros belongs to a query that sees no key, so its sum
 * is accepted. */
void attn_weights_check(attn_weights_faults *f, size_t row, const double *weights, size_t S);

/* The weights of one head on padding keys. Start with all members 0, then call attn_padding_check
 * for each row that is not padding. */
typedef struct attn_padding_mass {
    double mass;     /* sum of the weights on padding keys */
    double most;     /* the largest weight on a padding key */
    size_t rows;     /* number of rows that were added */
    size_t row, key; /* the query and the key of the largest weight */
} attn_padding_mass;

/* Adds a row. weights [count] are its weights on the padding keys keys [count]. */
void attn_padding_check(attn_padding_mass *p, size_t row, const double *weights, const size_t *keys,
                        size_t count);

/* Something unusual about some heads. */
typedef struct attn_diagnosis {
    const char *code;           /* "near_uniform", "head_collapse", …; codes do not change */
    const char *text;           /* the finding, its usual meaning, and the remedy */
    const attn_number *numbers; /* [number_count] */
    size_t number_count;
    const size_t *heads; /* [head_count] indices of these heads in attn_measures.items */
    size_t head_count;
} attn_diagnosis;

typedef struct attn_diagnoses {
    attn_diagnosis *items;
    size_t count;
} attn_diagnoses;

/* The input of attn_diagnose. */
typedef struct attn_diagnose_input {
    const attn_measures *measures;
    /* [batches] distances between the heads that are measured; NULL: head_collapse is not tested */
    const attn_head_distances *distances;
    /* the operation that gave the weights; NULL: no cause is sought for near-uniform weights */
    const attn_attention *run;
    size_t layers; /* batch entry l * B + b is layer l of entry b; 1: there is one layer */
    bool layered;  /* texts name heads with their layer */
    size_t L, S;
} attn_diagnose_input;

/* Finds what is unusual about the heads. Codes are near_uniform (with a known cause
 * near_uniform_scores, near_uniform_keys or near_uniform_task), broad_heads (nearly uniform),
 * saturated_softmax, sink_heads, head_collapse, similar_heads, mask_leak and memory. The texts are
 * in the arena and name the thresholds (lib/analysis/diagnose.h). Error: ATTN_ENOMEM. */
attn_status attn_diagnose(const attn_diagnose_input *in, attn_arena *arena, attn_diagnoses *out,
                          attn_error *err);
/* Returns a sentence to be shown with every analysis: weights alone do not explain a model. The
 * text is static. */
const char *attn_analysis_caveat(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
