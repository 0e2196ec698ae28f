/* A small causal encoder that predicts a symbol at each place of a sequence. It has an embedding,
 * positions of one kind, layers of self-attention and feed-forward (each with a residual connection
 * and a layer norm after it), and a projection to logits. Only attention connects places, so its
 * success depends on the positions alone. */
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

/* The caller sets symbols, width, heads, max_distance, longest and positions before
 * attn_tagger_open. */
typedef struct attn_tagger {
    attn_parameters *set;
    /* symbols: size of the vocabulary; max_distance: largest distance in the tables of relative
     * positions; longest: places of the longest sequence. */
    size_t symbols, width, heads, max_distance, longest;
    attn_tagger_positions positions;
    attn_embedding words, places; /* embedding of symbols; learned positions */
    const float *sinusoids; /* [longest, width] in lab->work; only of ATTN_TAGGER_SINUSOIDAL */
    attn_attend attend[ATTN_TAGGER_LAYERS];
    /* Layer norms after attention and after feed-forward. */
    attn_norm between[ATTN_TAGGER_LAYERS], behind[ATTN_TAGGER_LAYERS];
    /* both layers of feed-forward; projection to logits */
    attn_linear up[ATTN_TAGGER_LAYERS], down[ATTN_TAGGER_LAYERS], out;
} attn_tagger;

/* Declares the layers and draws their parameters from the lab's seed. Returns false if the lab has
 * failed. The caller calls attn_parameters_free(tagger->set) in the end, also after a failure. */
bool attn_tagger_open(attn_lab *lab, attn_tagger *tagger);
/* Runs a forward pass over ids [B, T], T <= longest, and computes the loss against wanted [B, T].
 * With `learn` it also runs a backward pass, which adds to the gradients in the set. If `logits` is
 * not NULL, *logits becomes [B, T, symbols] in lab->scratch. Returns false if the lab has
 * failed. */
bool attn_tagger_pass(attn_lab *lab, attn_tagger *tagger, const int32_t *ids, const int32_t *wanted,
                      size_t B, size_t T, bool learn, attn_cross_entropy_loss *loss,
                      const float **logits);

#endif
