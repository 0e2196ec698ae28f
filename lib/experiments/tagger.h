/* A small encoder that predicts a symbol for each place of a sequence. It consists of embedding,
 * positions, layers of causal self-attention and feed-forward with residuals and subsequent layer
 * norms, and logits. Experiments on positions use it, since only attention distinguishes places. */
#ifndef ATTN_EXPERIMENTS_TAGGER_H
#define ATTN_EXPERIMENTS_TAGGER_H

#include "experiments/lab.h"
#include "layers/layers.h"

enum { ATTN_TAGGER_LAYERS = 2 };

typedef enum attn_tagger_positions {
    ATTN_TAGGER_NONE,
    ATTN_TAGGER_SINUSOIDAL,
    ATTN_TAGGER_LEARNED,
    ATTN_TAGGER_RELATIVE,
    ATTN_TAGGER_SHAW,
    ATTN_TAGGER_ALIBI,
    ATTN_TAGGER_POSITIONS
} attn_tagger_positions;

typedef struct attn_tagger {
    attn_parameters *set;
    size_t symbols, width, heads, reach, longest;
    attn_tagger_positions positions;
    attn_embedding words, places;
    const float *sinusoids; /* [longest, width], in the memory for work */
    attn_attend attend[ATTN_TAGGER_LAYERS];
    attn_norm between[ATTN_TAGGER_LAYERS], behind[ATTN_TAGGER_LAYERS];
    attn_linear up[ATTN_TAGGER_LAYERS], down[ATTN_TAGGER_LAYERS], out;
} attn_tagger;

/* Makes the layers, with values drawn from the lab's seed. The caller has set sizes and positions,
 * and calls attn_parameters_free(tagger->set) in the end, also after a failure. false: the lab has
 * failed. */
bool attn_tagger_open(attn_lab *lab, attn_tagger *tagger);
/* Runs a pass over ids and wanted [B, T], T <= longest. With `learn` it adds to the gradients of
 * the set. *logits [B, T, symbols] is in the lab's scratch; `logits` may be NULL. */
bool attn_tagger_pass(attn_lab *lab, attn_tagger *tagger, const int32_t *ids, const int32_t *wanted,
                      size_t B, size_t T, bool learn, attn_cross_entropy_loss *loss,
                      const float **logits);

#endif
