/* Thresholds of diagnoses and of names of heads, and a buffer for a sentence. */
#ifndef ATTN_ANALYSIS_DIAGNOSE_H
#define ATTN_ANALYSIS_DIAGNOSE_H

#include "attn/analysis.h"
#include "attn/text.h"

/* Grades of uniformity by normalized entropy. Above the first number a head is uniform (its
 * diagnosis is near_uniform). Above the second number it is nearly uniform (its diagnosis is
 * broad_heads). With 12 keys, 0.9 is the entropy of an even choice among 9.4 of them. */
#define ATTN_UNIFORM_ENTROPY        0.98
#define ATTN_NEARLY_UNIFORM_ENTROPY 0.9
/* queries or keys are too short if the expected spread of their scores is lower than this */
#define ATTN_SMALL_SPREAD    0.5
#define ATTN_ALIKE_KEYS      0.1 /* keys are alike if |k - mean k| / |k| is lower */
#define ATTN_SATURATED_SHARE 0.5 /* softmax is saturated if the share of saturated rows is higher */
/* a larger standard deviation of scores saturates softmax in any case */
#define ATTN_STEEP_SPREAD 5.0
#define ATTN_COLLAPSED    0.9 /* two heads with a higher centered cosine count as doing the same */
#define ATTN_SINK_EPSILON 0.3 /* lowest mean weight of a sink (Gu et al. 2024) */
/* a measure stands out if it is this many times its value under uniform attention */
#define ATTN_LIFT 2.0
/* lowest positional_share of a positional head (Voita et al. 2019) */
#define ATTN_POSITIONAL 0.9
#define ATTN_LEAK       1e-6 /* a higher weight on hidden keys is no rounding difference */
/* the weights of a layer are reported as large if they have at least this number of bytes */
#define ATTN_LARGE_MATRIX (256.0 * 1024 * 1024)

/* A sentence in a buffer. Text beyond its end is dropped. */
typedef struct attn_sentence {
    char text[768];
    size_t used;
} attn_sentence;
/* Appends formatted text. */
void attn_analysis_say(attn_sentence *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
