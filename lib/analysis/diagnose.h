/* What diagnoses and names of heads share: thresholds, and a buffer for sentences with numbers. */
#ifndef ATTN_ANALYSIS_DIAGNOSE_H
#define ATTN_ANALYSIS_DIAGNOSE_H

#include "attn/analysis.h"

#define ATTN_UNIFORM_ENTROPY 0.98 /* normalised entropy above this is near-uniform */
#define ATTN_SMALL_SPREAD    0.5  /* scores of random directions spread less: too small to choose */
#define ATTN_ALIKE_KEYS      0.1  /* keys differ by less than this of their length */
#define ATTN_SATURATED_SHARE 0.5  /* of the rows; above, the softmax is saturated */
#define ATTN_STEEP_SPREAD    5.0  /* scores that spread more saturate any softmax */
#define ATTN_COLLAPSED       0.9  /* cosine of two heads that are the same */
#define ATTN_SINK_EPSILON    0.3  /* Gu et al. 2024 */
#define ATTN_LIFT            2.0  /* times uniform attention: more than the mask causes */
#define ATTN_POSITIONAL      0.9  /* Voita et al. 2019 */
#define ATTN_LEAK            1e-6 /* weight on hidden keys beyond rounding */
#define ATTN_LARGE_MATRIX    (256.0 * 1024 * 1024) /* bytes of a layer's weights: larger is told */

/* A sentence in a buffer; text that does not fit is dropped. */
typedef struct attn_sentence {
    char text[768];
    size_t used;
} attn_sentence;
void attn_analysis_say(attn_sentence *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
