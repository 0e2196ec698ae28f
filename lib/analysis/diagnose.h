/* Thresholds and a sentence buffer, shared by the diagnoses and the naming of heads. */
#ifndef ATTN_ANALYSIS_DIAGNOSE_H
#define ATTN_ANALYSIS_DIAGNOSE_H

#include "attn/analysis.h"

#define ATTN_UNIFORM_ENTROPY 0.98 /* normalised entropy above this is near-uniform */
#define ATTN_SMALL_SPREAD    0.5  /* vectors whose expected score spread is less are too short */
#define ATTN_ALIKE_KEYS      0.1  /* keys are alike if |k - mean k| / |k| is less */
#define ATTN_SATURATED_SHARE 0.5  /* softmax is saturated if a larger share of the rows is */
#define ATTN_STEEP_SPREAD    5.0  /* a larger spread of scores saturates any softmax */
#define ATTN_COLLAPSED       0.9  /* two heads with a larger cosine count as the same */
#define ATTN_SINK_EPSILON    0.3  /* least mean weight of a sink (Gu et al. 2024) */
#define ATTN_LIFT            2.0  /* a value this many times that of uniform attention stands out */
#define ATTN_POSITIONAL      0.9  /* least share of a positional head (Voita et al. 2019) */
#define ATTN_LEAK            1e-6 /* more weight on hidden keys is no rounding difference */
#define ATTN_LARGE_MATRIX    (256.0 * 1024 * 1024) /* bytes of weights in a layer to report */

/* A sentence in a fixed buffer. Text that does not fit is dropped. */
typedef struct attn_sentence {
    char text[768];
    size_t used;
} attn_sentence;
void attn_analysis_say(attn_sentence *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
