/* Quality of translations and alignments: BLEU, exact sentences, alignment error rate. Counts are
 * added up over sentences and then evaluated. */
#ifndef ATTN_BLEU_H
#define ATTN_BLEU_H

#include "corpus.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum { ATTN_BLEU_ORDER = 4 };

typedef struct attn_bleu {
    size_t right[ATTN_BLEU_ORDER], total[ATTN_BLEU_ORDER]; /* n-grams: clipped matches; all */
    size_t length, reference_length;                       /* words */
    size_t sentences, exact;                               /* exact: equal in every word */
} attn_bleu;

/* Adds a sentence and its reference, both as word numbers; words beyond 4,096 are ignored. */
void attn_bleu_add(attn_bleu *b, const int32_t *words, size_t count, const int32_t *reference,
                   size_t reference_count);

/* Corpus BLEU, 0 to 100 (Papineni et al. 2002): brevity penalty x geometric mean of the 1- to
 * 4-gram precisions, as sacrebleu computes it from words ("tokenize": "none") with smoothing "exp".
 * The first precision without a match counts as 1 / (2 total), the next as 1 / (4 total), and so on
 * (Chen and Cherry 2014, method 3). Without any match BLEU is 0. With effective_order, for single
 * sentences, n-grams longer than the sentence do not count. */
double attn_bleu_score(const attn_bleu *b, bool effective_order);

/* Alignment error rate (Och and Ney 2003): 1 - (|A and S| + |A and P|) / (|A| + |S|), where A are
 * the proposed links, S the sure ones and P all of the gold links. Lower is better. */
typedef struct attn_alignment {
    size_t proposed, sure, sure_hits, hits;
} attn_alignment;

/* chosen[t] is the source word that target word t was aligned with, ATTN_PAIR_WORDS for none. */
void attn_alignment_add(attn_alignment *a, const attn_pair *gold, const size_t *chosen);
double attn_alignment_error(const attn_alignment *a); /* 0 to 1; 0 without links */

/* BLEU on held-out sentences without a model. `dictionary` replaces each word by the target word
 * with which it has most sure links in the first `pairs` training pairs; `copy` is the source
 * unchanged. Memory (4 bytes for each pair of words) comes from the arena. Errors: ATTN_ENOMEM and
 * those of attn_corpus_pair. */
typedef struct attn_baselines {
    double dictionary, copy;
} attn_baselines;
attn_status attn_corpus_baselines(const attn_corpus *corpus, size_t pairs, size_t sentences,
                                  attn_arena *arena, attn_baselines *out, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
