/* Quality of translations and alignments: BLEU, sentences that are right as a whole, alignment
 * error rate. Counts are summed over sentences, and scores are computed from the sums. The caller
 * sets the structs to zeros before the first addition. */
#ifndef ATTN_BLEU_H
#define ATTN_BLEU_H

#include "corpus/corpus.h"

/* BLEU counts n-grams of 1 … ATTN_BLEU_ORDER words. */
enum { ATTN_BLEU_ORDER = 4 };

typedef struct attn_bleu {
    size_t right[ATTN_BLEU_ORDER]; /* [n - 1] number of n-grams that match the reference */
    size_t total[ATTN_BLEU_ORDER]; /* [n - 1] number of all n-grams of the translations */
    size_t length;                 /* number of words of the translations */
    size_t reference_length;       /* number of words of the references */
    size_t sentences;              /* number of translations */
    size_t exact;                  /* number of translations that equal their reference */
} attn_bleu;

/* Adds one translation and its reference, both as word ids. Words beyond 4,096 are ignored. */
void attn_bleu_add(attn_bleu *b, const int32_t *words, size_t count, const int32_t *reference,
                   size_t reference_count);

/* Returns corpus BLEU, 0 … 100 (Papineni et al. 2002): brevity penalty times the geometric mean of
 * the precisions of 1- to 4-grams. The result equals that of sacrebleu with tokenize "none" and
 * smoothing "exp": the first precision without a match counts as 1 / (2 total), the next such
 * precision as 1 / (4 total), and so on (Chen and Cherry 2014, method 3). Without any match BLEU is
 * 0. If there are no n-grams of some order, BLEU is 0 too; with effective_order, which is meant for
 * single sentences, such an order is left out of the mean instead. */
double attn_bleu_score(const attn_bleu *b, bool effective_order);

/* Sums for the alignment error rate (Och and Ney 2003): 1 - (|A and S| + |A and P|) / (|A| + |S|).
 * A are the proposed links, S the sure gold links and P all gold links. Lower is better. */
typedef struct attn_alignment {
    size_t proposed;  /* |A| */
    size_t sure;      /* |S| */
    size_t sure_hits; /* |A and S| */
    size_t hits;      /* |A and P| */
} attn_alignment;

/* Adds the alignment of one pair. chosen[t] is the source word that is proposed for target word t,
 * or ATTN_PAIR_WORDS for none. */
void attn_alignment_add(attn_alignment *a, const attn_pair *gold, const size_t *chosen);
double attn_alignment_error(const attn_alignment *a); /* 0 … 1; 0 if there are no links */

/* BLEU of two translations that need no model, on the first `sentences` held-out pairs. `copy` is
 * the BLEU of the unchanged source. `dictionary` is the BLEU of word-by-word translation: each
 * source word becomes the target word to which it has the largest number of sure links in the first
 * `pairs` training pairs. The arena holds a count of 4 bytes for each pair of words, where both
 * words are from the words of both languages. Errors: ATTN_ENOMEM and those of attn_corpus_pair. */
typedef struct attn_baselines {
    double dictionary, copy;
} attn_baselines;
attn_status attn_corpus_baselines(const attn_corpus *corpus, size_t pairs, size_t sentences,
                                  attn_arena *arena, attn_baselines *out, attn_error *err);

#endif
