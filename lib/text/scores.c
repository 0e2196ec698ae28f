/* BLEU and alignment error rate. */
#include <math.h>
#include <string.h>

#include "attn/scores.h"

static bool same(const int32_t *a, const int32_t *b, size_t n) {
    return !memcmp(a, b, n * sizeof *a);
}

/* Matches of n-grams, each of the reference used once: the k-th equal one counts if the reference
 * has k of them. */
static size_t matches(const int32_t *words, size_t count, const int32_t *reference,
                      size_t reference_count, size_t n) {
    size_t right = 0;
    for (size_t i = 0; i + n <= count; i++) {
        size_t nth = 0, there = 0;
        for (size_t j = 0; j <= i; j++)
            nth += same(words + j, words + i, n);
        for (size_t j = 0; j + n <= reference_count; j++)
            there += same(reference + j, words + i, n);
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
        b->right[n - 1] += matches(words, count, reference, reference_count, n);
        b->total[n - 1] += count >= n ? count - n + 1 : 0;
    }
    b->length += count;
    b->reference_length += reference_count;
    b->sentences++;
    b->exact += count == reference_count && same(words, reference, count);
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
