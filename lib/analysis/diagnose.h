/* The thresholds of diagnoses and pattern names, and sentences made of numbers. */
#ifndef ATTN_ANALYSIS_DIAGNOSE_H
#define ATTN_ANALYSIS_DIAGNOSE_H

#include "attn/analysis.h"

#define ATTN_UNIFORM_ENTROPY 0.98 /* normalised entropy above this is near-uniform */
#define ATTN_SMALL_SPREAD    0.5  /* scores of random directions spread less: too small to choose */
#define ATTN_ALIKE_KEYS      0.1  /* keys differ by less than this of their length */
#define ATTN_SATURATED_SHARE 0.5  /* of the rows: more are a saturated softmax */
#define ATTN_STEEP_SPREAD    5.0  /* scores that spread more saturate any softmax */
#define ATTN_COLLAPSED       0.9  /* cosine of two heads that are the same */
#define ATTN_SINK_EPSILON    0.3  /* Gu et al. 2024 */
#define ATTN_LIFT            2.0  /* times uniform attention: not the mask's doing */
#define ATTN_POSITIONAL      0.9  /* Voita et al. 2019 */
#define ATTN_LEAK            1e-6 /* weight on hidden keys beyond rounding */
#define ATTN_LARGE_MATRIX    (256.0 * 1024 * 1024) /* bytes of a layer's weights worth a word */

/* A sentence in a buffer: what does not fit is dropped. */
typedef struct attn_sentence {
    char text[768];
    size_t used;
} attn_sentence;
void attn_analysis_say(attn_sentence *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds a diagnosis; numbers and heads are copied. false: out of memory. */
typedef struct attn_findings {
    attn_arena *arena;
    attn_diagnosis *items;
    size_t count, room;
} attn_findings;
bool attn_analysis_find(attn_findings *f, const char *code, const attn_sentence *text,
                        const attn_number *numbers, size_t number_count, const size_t *heads,
                        size_t head_count);

/* Near-uniform heads, sorted by what made them so (diagnose_uniform.c). `heads` is scratch for all
 * heads. */
attn_status attn_analysis_uniform_heads(const attn_diagnose_input *in, size_t *heads,
                                        attn_findings *f, attn_error *err);
/* "head 3", "3 of 12 heads" */
void attn_analysis_say_heads(attn_sentence *s, const attn_diagnose_input *in, const size_t *heads,
                             size_t count);

#endif
