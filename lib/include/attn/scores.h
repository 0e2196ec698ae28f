/* How good translations and alignments are: BLEU, exact sentences, alignment error rate. Counts are
 * added up over sentences, then read. */
#ifndef ATTN_SCORES_H
#define ATTN_SCORES_H

#include "corpus.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum { ATTN_BLEU_ORDER = 4 };

typedef struct attn_bleu {
    size_t right[ATTN_BLEU_ORDER], total[ATTN_BLEU_ORDER]; /* n-grams: clipped matches, all */
    size_t length, reference_length;                       /* words */
    size_t sentences, exact;                               /* exact: equal in every word */
} attn_bleu;

/* Add a sentence, both sides as numbers of words; at most 4096 words each count. */
void attn_bleu_add(attn_bleu *b, const int32_t *words, size_t count, const int32_t *reference,
                   size_t reference_count);

/* Corpus BLEU, 0 to 100 (Papineni et al. 2002): brevity penalty x geometric mean of the 1- to
 * 4-gram precisions, as sacrebleu computes it from words ("tokenize": "none"): with smoothing "exp"
 * the k-th precision without a match counts as 1 / (2^k total) (Chen and Cherry 2014, method 3),
 * and without any match at all it is 0. effective_order: only the orders that the sentence is long
 * enough for, for single sentences. */
double attn_bleu_score(const attn_bleu *b, bool effective_order);

/* Alignment error rate (Och and Ney 2003): 1 - (|A and S| + |A and P|) / (|A| + |S|), where A are
 * the proposed links, S the sure ones and P all of the gold links. Lower is better. */
typedef struct attn_alignment {
    size_t proposed, sure, sure_hits, hits;
} attn_alignment;

/* chosen[t]: the source word that target word t was aligned with; ATTN_PAIR_WORDS: none. */
void attn_alignment_add(attn_alignment *a, const attn_pair *gold, const size_t *chosen);
double attn_alignment_error(const attn_alignment *a); /* 0 to 1; 0 without links */

/* BLEU on held-out sentences of what needs no model: each word replaced by the target word that it
 * is surely linked with most often in the first `pairs` training pairs, and the source unchanged.
 * Memory (4 bytes a pair of words) comes from the arena. ATTN_ENOMEM; errors of attn_corpus_pair.
 */
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
