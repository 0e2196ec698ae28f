/* Forms of attention beyond the scaled dot product: learned scores and positions.
 *
 * Letters as in attention.h; A = score width, m = largest distance of a relative table.
 *
 * Scores (query q of width Eq, key k of width Ek):
 *   scaled_dot  q . k, scale 1/sqrt(E)           Vaswani et al. 2017, eq. 1
 *   dot         q . k, scale 1                    Luong, Pham and Manning 2015, eq. 8 "dot"
 *   additive    v . tanh(W_q q + W_k k [+ b])     Bahdanau, Cho and Bengio 2015, appendix A.1.2
 *   general     k . (W q)                         Luong et al. 2015, "general"
 *   concat      v . tanh(W [k ; q])               Luong et al. 2015, "concat"
 * A given scale multiplies the scores of every form. The default is 1/sqrt(E) for scaled_dot and 1
 * for the others. */
#ifndef ATTN_FORMS_H
#define ATTN_FORMS_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* All score forms, in the order of their numbers. The tables are built from this list. A form
 * consists of one line here, its parameters in attn_score, and its plan in
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

/* A form and its parameters, which all heads share. Absent tensors have rank 0. */
typedef struct attn_score {
    attn_score_kind kind; /* default scaled_dot */
    attn_tensor w_q;      /* additive: [A, Eq] */
    attn_tensor w_k;      /* additive: [A, Ek] */
    attn_tensor b;        /* additive: [A], optional */
    attn_tensor v;        /* additive, concat: [A] */
    attn_tensor w;        /* general: [Ek, Eq]; concat: [A, Ek + Eq] */
} attn_score;

const char *attn_score_name(attn_score_kind kind); /* "scaled_dot", …; NULL beyond the last */

/* Kinds of positions. Query i has position p = i + query_offset, key j has position j, and their
 * distance is j - p. */
typedef enum attn_position_kind {
    ATTN_POSITION_NONE = 0,
    ATTN_POSITION_ALIBI,    /* bias -slope_h |j - p|            Press, Smith and Lewis 2022 */
    ATTN_POSITION_T5,       /* bias table[bucket(j - p)][h]     Raffel et al. 2020, section 2.1 */
    ATTN_POSITION_RELATIVE, /* bias table[h][clip(j - p, -m, m) + m] */
    ATTN_POSITION_SHAW,     /* q . (k + key_table[clip(j - p)]), and likewise for values
                                                                Shaw et al. 2018, eq. 3, 4 */
    ATTN_POSITION_ROTARY,   /* rotated query and key            Su et al. 2021, eq. 34 */
} attn_position_kind;

typedef enum attn_rotary {
    ATTN_ROTARY_UNSTATED = 0,
    ATTN_ROTARY_INTERLEAVED,
    ATTN_ROTARY_HALVES
} attn_rotary;

typedef struct attn_position {
    attn_position_kind kind;
    attn_tensor slopes;      /* ALIBI: [H]; default attn_alibi_slopes */
    attn_tensor table;       /* T5: [buckets, H]; RELATIVE: [H, 2m+1] */
    int64_t max_distance;    /* T5: default 128 */
    bool unidirectional;     /* T5: buckets for the past only */
    attn_tensor key_table;   /* SHAW: [2m+1, E] */
    attn_tensor value_table; /* SHAW: [2m+1, Ev], optional */
    attn_rotary rotary;      /* ROTARY: the coordinates that form a pair; required */
    double base;             /* ROTARY: 0 = 10,000 */
    int64_t dims;            /* ROTARY: number of rotated leading coordinates, even; 0 = E */
} attn_position;

/* Computes slopes[h] for h < H as the paper's reference code does: 2^(-8(h+1)/H) if H is a power of
 * two. Else it takes the slopes of the next lower power n and then every other slope of 2n. Any
 * thread may call it. */
void attn_alibi_slopes(size_t H, double *slopes);
/* Returns the T5 bucket of distance j - p, in [0, buckets). `buckets` is at least 2 if
 * unidirectional, else even and at least 4. max_distance exceeds half the buckets of one side. */
size_t attn_t5_bucket(int64_t distance, size_t buckets, int64_t max_distance, bool unidirectional);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
