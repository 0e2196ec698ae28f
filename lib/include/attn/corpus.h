/* Sentence pairs with gold alignments, made by rule from a seed: English and French of one grammar,
 * and the tasks copy, reverse and sort.
 *
 * The grammar knows articles, demonstratives, possessives and numbers, gender and number agreement,
 * adjectives before and after the noun, plurals, negation, present, past and future, pronouns,
 * relative clauses (qui, que), adverbs, prepositional phrases, coordination, "that" clauses and
 * modal verbs. One sentence in eight lacks its full stop, one in 25 is a noun phrase. The French
 * has its elisions, contractions and agreement of participles. "you" is "vous" of several men,
 * "they" is "ils", "I" and "we" are men.
 *
 * Some pairs of words never meet in training: one in ten of (adjective, noun) and (verb, object),
 * chosen by a hash of the two words; in the other tasks, one in ten of (symbol, next symbol). A
 * sentence of the split ATTN_HELD_OUT has at least one such pair. It tests whether a model has
 * learnt words and rules separately. Validation has no such pair, and its sentences are never those
 * of training (a hash of the words decides). */
#ifndef ATTN_CORPUS_H
#define ATTN_CORPUS_H

#include "memory.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum attn_task { ATTN_EN_FR = 0, ATTN_COPY, ATTN_REVERSE, ATTN_SORT } attn_task;
typedef enum attn_split { ATTN_TRAIN = 0, ATTN_VALIDATION, ATTN_HELD_OUT } attn_split;

/* Returns "en-fr", "copy", "reverse" or "sort"; never NULL. */
const char *attn_task_name(attn_task task);
/* Find a task, or a split ("train", "validation", "held-out"), by its name. Return false for any
 * other name. */
bool attn_task_parse(const char *name, attn_task *out);
bool attn_split_parse(const char *name, attn_split *out);

typedef struct attn_corpus_options {
    attn_task task;
    bool large;               /* false: the words of the shipped model; true: all */
    uint64_t seed;            /* 0 */
    size_t shortest, longest; /* 3, 60: source words, the full stop among them; 1 to 60 */
    double skew;              /* 1: lengths uniform; k: shortest + (longest - shortest) u^k */
    size_t symbols;           /* 50: of copy, reverse and sort; 2 to 1000 */
} attn_corpus_options;
attn_corpus_options attn_corpus_defaults(void);

enum { ATTN_PAIR_WORDS = 160, ATTN_PAIR_LINKS = 640 };

/* Source word `source` and target word `target` belong together. Sure: one translates the other.
 * Possible (not sure): one takes its form from the other, as an article its gender from the noun.
 */
typedef struct attn_link {
    uint16_t source, target;
    bool sure;
} attn_link;

/* Words are UTF-8, lower case, and live as long as the corpus. `links` are sorted by target, then
 * source, and hold each pair of words at most once. */
typedef struct attn_pair {
    const char *source[ATTN_PAIR_WORDS], *target[ATTN_PAIR_WORDS];
    size_t source_count, target_count;
    attn_link links[ATTN_PAIR_LINKS];
    size_t link_count;
} attn_pair;

typedef struct attn_corpus attn_corpus;

/* Makes a corpus in the arena. Errors: ATTN_ENOMEM; ATTN_EVALUE for an option outside its range. */
attn_status attn_corpus_new(const attn_corpus_options *options, attn_arena *arena,
                            attn_corpus **out, attn_error *err);

/* Makes pair `index` of a split, which depends only on options, split and index. Errors:
 * ATTN_EVALUE (no sentence has a length in the range, or there is no such split). Any thread may
 * call it. */
attn_status attn_corpus_pair(const attn_corpus *corpus, attn_split split, uint64_t index,
                             attn_pair *out, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
