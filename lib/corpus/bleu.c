/* Computes BLEU, the alignment error rate, and the BLEU of two baselines without a model. One
 * baseline translates word by word with a dictionary that is learnt from the corpus; the other
 * copies the source. */
#include <math.h>
#include <string.h>

#include "attn/tokens.h"
#include "base/try.h"
#include "corpus/bleu.h"

static bool are_equal(const int32_t *a, const int32_t *b, size_t n) {
    return !memcmp(a, b, n * sizeof *a);
}

/* Counts the n-grams of `words` that are in the reference. If an n-gram occurs k times in the
 * reference, only its first k occurrences in `words` count. */
static size_t count_matches(const int32_t *words, size_t count, const int32_t *reference,
                            size_t reference_count, size_t n) {
    size_t right = 0;
    for (size_t i = 0; i + n <= count; i++) {
        size_t nth = 0, there = 0;
        for (size_t j = 0; j <= i; j++)
            nth += are_equal(words + j, words + i, n);
        for (size_t j = 0; j + n <= reference_count; j++)
            there += are_equal(reference + j, words + i, n);
        right += nth <= there;
    }
    return right;
}

void attn_bleu_add(attn_bleu *b, const int32_t *words, size_t count, const int32_t *reference,
                   size_t reference_count) {
    enum { MOST = 4096 };
    count = count < MOST ? count : MOST;
    reference_count = reference_count < MOST ? reference_count : MOST;
    for (size_t n = 1; n <= ATTN_BLEU_ORDER; n++) {
        b->right[n - 1] += count_matches(words, count, reference, reference_count, n);
        b->total[n - 1] += count >= n ? count - n + 1 : 0;
    }
    b->length += count;
    b->reference_length += reference_count;
    b->sentences++;
    b->exact += count == reference_count && are_equal(words, reference, count);
}

double attn_bleu_score(const attn_bleu *b, bool effective_order) {
    double sum = 0, smooth = 1;
    size_t orders = 0, any = 0;
    for (size_t n = 0; n < ATTN_BLEU_ORDER; n++)
        any += b->right[n];
    for (; any && orders < ATTN_BLEU_ORDER && b->total[orders]; orders++) {
        double total = (double)b->total[orders];
        smooth *= b->right[orders] ? 1 : 2;
        sum += log(b->right[orders] ? (double)b->right[orders] / total : 1 / (smooth * total));
    }
    if (!orders || (!effective_order && orders < ATTN_BLEU_ORDER))
        return 0;
    double brevity = 1;
    if (b->length < b->reference_length)
        brevity = exp(1 - (double)b->reference_length / (double)b->length);
    return 100 * brevity * exp(sum / (double)orders);
}

void attn_alignment_add(attn_alignment *a, const attn_pair *gold, const size_t *chosen) {
    for (size_t t = 0; t < gold->target_count; t++)
        a->proposed += chosen[t] < ATTN_PAIR_WORDS;
    for (size_t i = 0; i < gold->link_count; i++) {
        const attn_link *link = &gold->links[i];
        bool hit = chosen[link->target] == link->source;
        a->sure += link->sure;
        a->sure_hits += hit && link->sure;
        a->hits += hit;
    }
}

double attn_alignment_error(const attn_alignment *a) {
    size_t all = a->proposed + a->sure;
    return all ? 1 - (double)(a->sure_hits + a->hits) / (double)all : 0;
}

typedef struct dictionary {
    attn_tokenizer *words; /* words of both languages */
    /* [size, size] number of sure links between each source word (row) and target word (column);
     * size is the number of words */
    uint32_t *counts;
    int32_t *best; /* [size] for each source word, the target word with the largest count */
} dictionary;

static int32_t id_of(const dictionary *d, const char *word) {
    return attn_tokenizer_id(d->words, word, strlen(word));
}

/* Finds for each source word the target word to which it has the largest number of sure links. A
 * word without sure links is translated as itself. */
static attn_status learn_dictionary(const attn_corpus *corpus, size_t pairs, dictionary *d,
                                    attn_pair *pair, attn_error *err) {
    size_t n = attn_tokenizer_size(d->words);
    for (size_t i = 0; i < pairs; i++) {
        ATTN_TRY(attn_corpus_pair(corpus, ATTN_TRAIN, i, pair, err));
        for (size_t k = 0; k < pair->link_count; k++) {
            const attn_link *link = &pair->links[k];
            size_t row = (size_t)id_of(d, pair->source[link->source]);
            d->counts[row * n + (size_t)id_of(d, pair->target[link->target])] += link->sure;
        }
    }
    for (size_t s = 0; s < n; s++) {
        d->best[s] = (int32_t)s;
        for (size_t t = 0; t < n; t++)
            if (d->counts[s * n + t] > (d->counts[s * n + (size_t)d->best[s]]))
                d->best[s] = (int32_t)t;
    }
    return ATTN_OK;
}

static attn_status score_sentences(const attn_corpus *corpus, size_t sentences, const dictionary *d,
                                   attn_pair *pair, attn_baselines *out, attn_error *err) {
    attn_bleu words = {0}, copy = {0};
    int32_t source[ATTN_PAIR_WORDS], target[ATTN_PAIR_WORDS], guess[ATTN_PAIR_WORDS];
    for (size_t i = 0; i < sentences; i++) {
        ATTN_TRY(attn_corpus_pair(corpus, ATTN_HELD_OUT, i, pair, err));
        for (size_t k = 0; k < pair->source_count; k++) {
            source[k] = id_of(d, pair->source[k]);
            guess[k] = d->best[source[k]];
        }
        for (size_t k = 0; k < pair->target_count; k++)
            target[k] = id_of(d, pair->target[k]);
        attn_bleu_add(&words, guess, pair->source_count, target, pair->target_count);
        attn_bleu_add(&copy, source, pair->source_count, target, pair->target_count);
    }
    out->dictionary = attn_bleu_score(&words, false);
    out->copy = attn_bleu_score(&copy, false);
    return ATTN_OK;
}

/* Computes the baselines. d->words is a new tokenizer, which learns the words of the first `pairs`
 * training pairs. */
static attn_status find_baselines(const attn_corpus *corpus, size_t pairs, size_t sentences,
                                  dictionary *d, attn_arena *arena, attn_baselines *out,
                                  attn_error *err) {
    attn_pair *pair = attn_arena_zeroed(arena, 1, sizeof *pair);
    size_t cells;
    if (!d->words || !pair)
        return attn_fail(err, ATTN_ENOMEM, "baselines", "no memory");
    ATTN_TRY(attn_corpus_count(corpus, pairs, (attn_tokenizer *const[2]){d->words, d->words}, pair,
                               err));
    ATTN_TRY(attn_tokenizer_settle(d->words, 1, 0, err));
    const size_t n = attn_tokenizer_size(d->words);
    d->counts =
        attn_size_mul(n, n, &cells) ? attn_arena_zeroed(arena, cells, sizeof *d->counts) : NULL;
    d->best = attn_arena_zeroed(arena, n, sizeof *d->best);
    if (!d->counts || !d->best)
        return attn_fail(err, ATTN_ENOMEM, "baselines", "no memory for %zu words", n);
    ATTN_TRY(learn_dictionary(corpus, pairs, d, pair, err));
    return score_sentences(corpus, sentences, d, pair, out, err);
}

attn_status attn_corpus_baselines(const attn_corpus *corpus, size_t pairs, size_t sentences,
                                  attn_arena *arena, attn_baselines *out, attn_error *err) {
    dictionary d = {.words = attn_tokenizer_new(ATTN_ENGLISH)};
    const attn_status status = find_baselines(corpus, pairs, sentences, &d, arena, out, err);
    attn_tokenizer_free(d.words);
    return status;
}
