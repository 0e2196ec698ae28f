/* A small encoder that gives every place of a sequence a symbol: embedding, positions, causal
 * self-attention and feed-forward layers with residuals and layer norms behind them, logits. For
 * experiments on positions, where nothing but attention tells places apart. */
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
    const float *sinusoids; /* [longest, width], of the lab's work */
    attn_attend attend[ATTN_TAGGER_LAYERS];
    attn_norm between[ATTN_TAGGER_LAYERS], behind[ATTN_TAGGER_LAYERS];
    attn_linear up[ATTN_TAGGER_LAYERS], down[ATTN_TAGGER_LAYERS], out;
} attn_tagger;

/* Sizes and positions are set; make the rest, with values drawn from the lab's seed. false: the lab
 * has failed. attn_parameters_free(tagger->set) in the end, whatever happened. */
bool attn_tagger_open(attn_lab *lab, attn_tagger *tagger);
/* ids and wanted [B, T], T <= longest. With `learn` gradients are added to the set's. In the lab's
 * scratch, *logits [B, T, symbols] too (NULL: not asked for). */
bool attn_tagger_pass(attn_lab *lab, attn_tagger *tagger, const int32_t *ids, const int32_t *wanted,
                      size_t B, size_t T, bool learn, attn_cross_entropy_loss *loss,
                      const float **logits);

#endif
