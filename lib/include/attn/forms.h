/* Forms of scores, positions and normalisers. Sizes are those of attention.h; A is the score width,
 * m the largest distance of a table of relative positions.
 *
 * Scores of a query q (width Eq) and a key k (width Ek):
 *
 *   scaled_dot  q . k                           Vaswani et al. 2017, eq. 1
 *   dot         q . k                           Luong, Pham and Manning 2015, eq. 8 "dot"
 *   additive    v . tanh(W_q q + W_k k [+ b])   Bahdanau, Cho and Bengio 2015, appendix A.1.2
 *   general     k . (W q)                       Luong et al. 2015, "general"
 *   concat      v . tanh(W [k ; q])             Luong et al. 2015, "concat"
 *
 * Every form multiplies its scores by a scale: the given scale, or by default 1/sqrt(E) for
 * scaled_dot and 1 for the others. With ATTN_POSITION_DISENTANGLED and t tables the default of
 * scaled_dot is 1/sqrt((1 + t) E). */
#ifndef ATTN_FORMS_H
#define ATTN_FORMS_H

#include <stdbool.h>
#include <stdint.h>

#include "mask.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* All score forms, in the order of their numbers. The enum and the table of names are built from
 * this list. A new form is a line here, its parameters in attn_score, and its plan in
 * lib/attention/score_forms.c. */
#define ATTN_SCORE_FORMS(FORM)                                                                     \
    FORM(scaled_dot)                                                                               \
    FORM(dot)                                                                                      \
    FORM(additive)                                                                                 \
    FORM(general)                                                                                  \
    FORM(concat)

#define ATTN_SCORE_NUMBER(name) ATTN_SCORE_##name,
typedef enum attn_score_kind {
    ATTN_SCORE_FORMS(ATTN_SCORE_NUMBER) ATTN_SCORE_COUNT
} attn_score_kind;
#undef ATTN_SCORE_NUMBER

/* A score form and its parameters, which all heads share. Tensors that the form does not use have
 * rank 0. */
typedef struct attn_score {
    attn_score_kind kind; /* score form; default ATTN_SCORE_scaled_dot */
    attn_tensor w_q;      /* additive: [A, Eq] */
    attn_tensor w_k;      /* additive: [A, Ek] */
    attn_tensor b;        /* additive: [A]; may be absent */
    attn_tensor v;        /* additive, concat: [A] or [1, A] */
    attn_tensor w;        /* general: [Ek, Eq]; concat: [A, Ek + Eq] */
} attn_score;

extern const char *const attn_score_words[]; /* "scaled_dot", …, NULL, in the order of the enum */
const char *attn_score_name(attn_score_kind kind); /* "scaled_dot", …; NULL: no such form */

/* Kinds of positions. Query i has the position p = i + query_offset, key j the position j, unless
 * attn_inputs gives other ones. Their distance is j - p. A bias is added to the score. */
typedef enum attn_position_kind {
    ATTN_POSITION_NONE = 0,
    ATTN_POSITION_ALIBI,    /* bias -slope_h |j - p|; Press, Smith and Lewis 2022 */
    ATTN_POSITION_T5,       /* bias table[bucket(j - p)][h]; Raffel et al. 2020, section 2.1 */
    ATTN_POSITION_RELATIVE, /* bias table[h][clip(j - p, -m, m) + m] */
    /* q . (k + key_table[c]) with c = clip(j - p, -m, m) + m, and v_j + value_table[c]; Shaw et al.
     * 2018, eq. 3, 4. With tables of each head: Huang et al. 2018, "Music Transformer", eq. 3. */
    ATTN_POSITION_SHAW,
    /* q . k + q . key_table[r] + k . query_table[r] with r = clip(u, -m, m - 1) + m, u = p - j; He et
     * al. 2021, "DeBERTa", eq. 4, as its code computes it, with the row i - j for both terms. With
     * max_distance M and n = m / 2, a u beyond ±n counts as sign(u) (n + ceil(log(|u| / n) /
     * log((M - 1) / n) (n - 1))): the logarithmic buckets of DeBERTa-v2. */
    ATTN_POSITION_DISENTANGLED,
    ATTN_POSITION_ROTARY, /* query and key are rotated by their positions; Su et al. 2021, eq. 34 */
    /* The encodings of the next two kinds are added to query, key and value before anything else,
     * in particular before projections. Query row i gets the encoding of position p = i +
     * query_offset. Row j of key and of value gets the encoding of position j, or of position P + j
     * if there are P cached rows, which get no encoding. An encoding has the width of the last
     * axis. So each head gets the same encoding, except in ATTN_BLD, where one encoding spans all
     * heads. */
    ATTN_POSITION_SINUSOIDAL, /* positions.h; Vaswani et al. 2017, section 3.5 */
    ATTN_POSITION_LEARNED,    /* row p of `table`; Gehring et al. 2017, section 3.1 */
} attn_position_kind;

/* Which coordinates of a vector of width E form a pair. Rotary positions rotate each pair; in a
 * sinusoidal encoding a pair is a sine and its cosine. */
typedef enum attn_rotary {
    ATTN_ROTARY_UNSTATED = 0,
    ATTN_ROTARY_INTERLEAVED, /* 2n and 2n + 1 */
    ATTN_ROTARY_HALVES       /* n and n + dims / 2 */
} attn_rotary;

/* Whether the cached keys of an operation are rotated already, if positions rotate keys. */
typedef enum attn_past {
    ATTN_PAST_ENCODED = 0, /* they are rotated already */
    ATTN_PAST_RAW          /* they are not rotated: the operation rotates them by their positions */
} attn_past;

/* How rotary positions stretch their frequencies theta_t = base^(-2t/dims) for texts longer than
 * those of the training. f is `factor`, M is original_max_position_embeddings.
 *
 *   LINEAR    theta_t / f; Chen et al. 2023, "Extending context window ... via position interpolation"
 *   DYNAMIC   base * (f n/M - (f - 1))^(dims/(dims - 2)) instead of the base, where n is the larger
 *             of M and the largest key position + 1; bloc97 and emozilla 2023, in Peng et al. 2023
 *   YARN      theta_t (1 - r) + theta_t / f r, where r rises from 0 at the pair that turns
 *             beta_fast times within M positions to 1 at the pair that turns beta_slow times; Peng
 *             et al. 2023, section 3.2. Cosines and sines are multiplied by 0.1 ln f + 1
 *   LLAMA3    theta_t for wavelengths below M / high_freq_factor, theta_t / f above M /
 *             low_freq_factor, and between them a mean of both; Llama 3.1, Grattafiori et al. 2024
 *   LONGROPE  theta_t / short_factor[t], or theta_t / long_factor[t] if the largest key position is
 *             M or more; Ding et al. 2024. Cosines and sines are multiplied by
 *             sqrt(1 + ln f / ln M) */
typedef enum attn_scaling_kind {
    ATTN_SCALING_NONE = 0,
    ATTN_SCALING_LINEAR,
    ATTN_SCALING_DYNAMIC,
    ATTN_SCALING_YARN,
    ATTN_SCALING_LLAMA3,
    ATTN_SCALING_LONGROPE,
} attn_scaling_kind;

/* A kind of scaling and its parameters, with the names of a config.json of the library
 * transformers. */
typedef struct attn_rotary_scaling {
    uint64_t given[2]; /* free for the caller, who may note here which members it has set */
    attn_scaling_kind kind;
    double factor;                            /* f, 1 or more; 0: 1 */
    int64_t original_max_position_embeddings; /* M; all but LINEAR */
    double beta_fast, beta_slow;              /* YARN; 0: 32 and 1 */
    /* YARN: cosines and sines are multiplied by
     * (0.1 mscale ln f + 1) / (0.1 mscale_all_dim ln f + 1); 0: they are not */
    double mscale, mscale_all_dim;
    /* YARN: the pairs at which r begins and ends to rise are real numbers; false: they are rounded
     * outwards */
    bool rounded_off;
    double low_freq_factor, high_freq_factor; /* LLAMA3; 0: 1 and 4 */
    attn_tensor short_factor, long_factor;    /* LONGROPE: [dims / 2] */
    double attention_factor; /* YARN, LONGROPE: multiplies cosines and sines; 0: as stated above */
} attn_rotary_scaling;

/* Rotary positions in two or more dimensions: every pair turns by the position of the row on one
 * axis, such as time, height or width. Wang et al. 2024, "Qwen2-VL", section 2.1 (M-RoPE); Heo et
 * al. 2024, "Rotary position embedding for vision transformer", section 3.2 (axial). The axes are
 * present if `pairs` is. There are at most ATTN_ROTARY_AXES axes. */
#define ATTN_ROTARY_AXES 16
typedef struct attn_rotary_axes {
    attn_tensor pairs; /* [dims / 2], integers: the axis of each pair */
    /* [axes, L] and [axes, S], cached keys first, or with a batch axis [axes, B, L] and [axes, B,
     * S]: real numbers or integers. -infinity and ATTN_NO_POSITION: pairs of this axis do not turn
     * in this row. */
    attn_tensor query_positions, key_positions;
    /* [axes], or absent. If the base of an axis is not 0, pair k among the n pairs of this axis has
     * the frequency base^(-k/n). If it is 0, pair t of all pairs has theta_t. */
    attn_tensor bases;
} attn_rotary_axes;

/* A kind of position and its parameters. */
typedef struct attn_position {
    attn_position_kind kind;
    attn_tensor slopes; /* ALIBI: [H]; absent: attn_alibi_slopes */
    attn_tensor table;  /* T5: [buckets, H]; RELATIVE: [H, 2m+1]; LEARNED: [positions, D] */
    /* T5: distance from which all keys share a bucket; 0: 128. DISENTANGLED: M of the logarithmic
     * buckets; 0: there are none */
    int64_t max_distance;
    bool unidirectional;     /* T5: true: there are only buckets for keys before the query */
    attn_tensor key_table;   /* SHAW: [2m+1, E]; DISENTANGLED: [2m, E]; with a head axis [Hq, ..] */
    attn_tensor value_table; /* SHAW: [2m+1, Ev] or [Hq, 2m+1, Ev]; may be absent */
    /* DISENTANGLED: [2m, E] or [Hq, 2m, E]. One of key_table and query_table may be absent. */
    attn_tensor query_table;
    /* which coordinates form a pair. ROTARY: required; SINUSOIDAL: 0 is interleaved */
    attn_rotary rotary;
    double base;    /* ROTARY: base of the angles; 0: 10,000 */
    attn_past past; /* ROTARY: whether past_key holds rotated keys */
    int64_t dims;   /* ROTARY: how many coordinates are rotated, even; 0: all from `start` on */
    int64_t start;  /* ROTARY: the first rotated coordinate */
    /* ROTARY: [dims / 2], the angle of each pair per position, instead of base^(-2t/dims). `dims` is
     * 0 or twice their number. A pair of frequency 0 stays as it is. */
    attn_tensor frequencies;
    attn_rotary_scaling scaling; /* ROTARY; not with frequencies */
    /* ROTARY: `dims` is 0 or twice the number of axes.pairs. Frequencies and angles are then float32
     * as with a scaling, unless `frequencies` are float64. */
    attn_rotary_axes axes;
    double factor; /* ROTARY: multiplies the rotated coordinates, beside attention_factor; 0: 1 */
    /* SINUSOIDAL, LEARNED: the probability, below 1, with which an element of an input plus its
     * encoding is set to 0; the others are divided by 1 - p. Element i of the query, in row-major
     * order, is dropped if attn_rng_uniform(seed, i) < p. Key and value have seeds of their own.
     * But if a tensor is given twice in the order query, key, value, both inputs have the seed of
     * the first. Gradients require 0. */
    double dropout_p;
    uint64_t dropout_seed;
} attn_position;

/* Computes the slopes [H] of ALiBi as the paper's reference code does. If H is a power of two,
 * slopes[h] = 2^(-8(h+1)/H). Else the first n slopes are those of n heads, where n is the largest
 * power of two below H; the rest are every other slope of 2n heads. Any thread may call it. */
void attn_alibi_slopes(size_t H, double *slopes);

/* Kinds of normalisers. A normaliser turns the biased scores of a row into weights. s is a score.
 * Hidden cells have the weight 0, and so has every cell of a row that sees no key.
 *
 *   softmax       e^s / sum of e^s                    Vaswani et al. 2017, eq. 1
 *   sigmoid       1 / (1 + e^-(s + bias_h))           Ramapuram et al. 2024, eq. 3
 *   relu          max(0, s) / divisor                 Wortsman et al. 2023, section 3
 *   relu_squared  max(0, s)^2 / divisor               So et al. 2021; Wortsman et al. 2023
 *   sparsemax     max(0, s - t)                       Martins and Astudillo 2016, eq. 3
 *   entmax        max(0, (alpha - 1)(s - t))^(1 / (alpha - 1))   Peters et al. 2019, eq. 9;
 *                                                                Correia et al. 2019
 *
 * The threshold t of a row is the number for which its weights, that of a sink included, sum to 1.
 * So the weights of softmax, sparsemax and entmax sum to 1, and the others do not. */
#define ATTN_NORMALIZERS(KIND)                                                                     \
    KIND(softmax)                                                                                  \
    KIND(sigmoid)                                                                                  \
    KIND(relu)                                                                                     \
    KIND(relu_squared)                                                                             \
    KIND(sparsemax)                                                                                \
    KIND(entmax)

#define ATTN_NORMALIZER_NUMBER(name) ATTN_NORMALIZER_##name,
typedef enum attn_normalizer_kind {
    ATTN_NORMALIZERS(ATTN_NORMALIZER_NUMBER) ATTN_NORMALIZER_COUNT
} attn_normalizer_kind;
#undef ATTN_NORMALIZER_NUMBER

/* Returns whether the weights of a row are made to sum to 1 by a threshold. */
static inline bool attn_normalizer_sums_to_1(attn_normalizer_kind kind) {
    return kind == ATTN_NORMALIZER_sparsemax || kind == ATTN_NORMALIZER_entmax;
}

/* A normaliser and its parameters. */
typedef struct attn_normalizer {
    attn_normalizer_kind kind; /* default ATTN_NORMALIZER_softmax */
    /* sigmoid: [Hq], or [1] for all heads; absent: 0. The paper starts training with -log(S). */
    attn_tensor bias;
    /* relu, relu_squared: above 0; 0: the number of keys that the row sees, which is the length of
     * the sequence in the paper */
    double divisor;
    /* entmax: 1.000001 to 2; 0: 1.5. It nears softmax towards 1, and 2 is sparsemax. */
    double alpha;
} attn_normalizer;

/* Mixing of heads, "talking heads"; Shazeer, Lan, Cheng, Ding and Hou 2020, section 4; Touvron et
 * al. 2021 (CaiT), section 2. With r_h(i, j) the raw score of head h and W_h(i, j) its weight,
 *
 *   raw score of head g      =  sum over h of logits[g][h] r_h(i, j)
 *   weight of output head g  =  sum over h of weights[g][h] W_h(i, j)
 *
 * The first axis is the mixed head and the second one the head that is read, as in the weight of a
 * torch.nn.Linear over the heads; the matrices P_l and P_w of the paper are their transposes. Every
 * step between the raw score and the weight W_g is that of the mixed head: scale, softcap, biases,
 * masks, sinks, normaliser and dropout. So a cell that a mask hides stays hidden. Output and
 * weights have G heads; scores and logsumexp are those of the Hq heads before their weights are
 * mixed. Output head g uses value head g / (G / Hv), where the number Hv of value heads divides
 * G. */
typedef struct attn_mix {
    attn_tensor logits;  /* [Hq, Hq]; rank 0: each head has its own scores */
    attn_tensor weights; /* [G, Hq], neither 0; rank 0: each head has its own weights */
} attn_mix;

/* Which heads are a pair. */
typedef enum attn_pairs {
    ATTN_PAIRS_UNSTATED = 0,
    ATTN_PAIRS_ADJACENT, /* 2g and 2g + 1 */
    ATTN_PAIRS_HALVES    /* g and g + Hq / 2 */
} attn_pairs;

/* Differential attention; Ye et al. 2024, "Differential Transformer", eq. 1:
 *
 *   weight of output head g  =  W_first(i, j) - lambda_g W_second(i, j)
 *
 * where first and second are the two heads of pair g, and G = Hq / 2. In all else it works as
 * attn_mix.weights. The paper's code pairs adjacent heads; DiffLlama of the library transformers
 * pairs halves. Both have values twice as wide as a key. The paper's norm of each output head and
 * its factor 1 - lambda_init are not part of it. */
typedef struct attn_subtract {
    attn_tensor lambda; /* [1] or [G]; rank 0: nothing is subtracted */
    attn_pairs pairs;   /* required */
} attn_subtract;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
