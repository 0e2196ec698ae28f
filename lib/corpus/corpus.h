/* Sentence pairs with gold alignments, made by rules from a seed. The tasks are translation
 * (English and French sentences of one grammar), copy, reverse and sort, and word-classes, whose
 * target is the class of each English word.
 *
 * The grammar has articles, demonstratives, possessives and numbers, agreement in gender and
 * number, adjectives before and after the noun, plurals, negation, present, past and future,
 * pronouns, relative clauses (qui, que), adverbs, prepositional phrases, coordination, "that"
 * clauses and modal verbs. One sentence in eight lacks its full stop, and one in 25 is only a noun
 * phrase. French has elisions, contractions and agreement of participles. Where English leaves the
 * French form open, the corpus has one form: "you" is "vous" and means several men, "they" is
 * "ils", and "I" and "we" are men.
 *
 * The task en-fr-text has the whole lexicon, more words and more forms: capital letters,
 * contractions (didn't, it's), questions, mass nouns, professions, verbs of posture, progressive
 * tenses, and "because it was too …". There the adjective fits only one of the nouns before it, and
 * the French pronoun has the gender of this noun. The task also has names that mean nothing and are
 * copied. Training and validation have none of the sentences that textbooks on attention translate.
 *
 * Splits. Some pairs of words never occur together in training: one in ten of the pairs (adjective,
 * noun) and (verb, object), chosen by a hash of the two words. In the tasks copy, reverse and sort,
 * one in ten of the pairs (symbol, next symbol) is excluded from training. Each sentence of the
 * split ATTN_HELD_OUT has at least one excluded pair, so this split tests whether a model has
 * learnt words and rules separately. The split ATTN_VALIDATION has no excluded pair. Its sentences
 * differ from those of training, since a hash of all words decides to which of both splits a
 * sentence belongs. */
#ifndef ATTN_CORPUS_H
#define ATTN_CORPUS_H

#include "attn/memory.h"
#include "attn/status.h"
#include "attn/tokens.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum attn_task {
    ATTN_EN_FR = 0,
    ATTN_COPY,
    ATTN_REVERSE,
    ATTN_SORT,
    ATTN_EN_FR_TEXT,
    ATTN_WORD_CLASSES
} attn_task;

/* The classes of words in sentences. A contraction such as "don't" has the class of its first
 * word. */
#define ATTN_PART_LIST(ITEM)                                                                       \
    ITEM(NOUN, "noun")                                                                             \
    ITEM(NAME, "name")                                                                             \
    ITEM(PRONOUN, "pronoun")                                                                       \
    ITEM(DETERMINER, "determiner")                                                                 \
    ITEM(ADJECTIVE, "adjective")                                                                   \
    ITEM(ADVERB, "adverb")                                                                         \
    ITEM(VERB, "verb")                                                                             \
    ITEM(AUXILIARY, "auxiliary")                                                                   \
    ITEM(PREPOSITION, "preposition")                                                               \
    ITEM(CONJUNCTION, "conjunction")                                                               \
    ITEM(PARTICLE, "particle")                                                                     \
    ITEM(MARK, "mark")

#define ATTN_PART_NUMBER(name, text) ATTN_##name,
typedef enum attn_part { ATTN_PART_LIST(ATTN_PART_NUMBER) ATTN_PARTS } attn_part;
#undef ATTN_PART_NUMBER

typedef enum attn_split { ATTN_TRAIN = 0, ATTN_VALIDATION, ATTN_HELD_OUT } attn_split;

/* The names of the tasks, such as "en-fr", and of the splits, such as "held-out", ended by NULL. */
extern const char *const attn_task_names[], *const attn_split_names[];
/* Finds a task by its name. Returns false if there is no such name. */
bool attn_task_parse(const char *name, attn_task *out);

/* Options of a corpus. */
typedef struct attn_corpus_options {
    attn_task task;
    /* For en-fr and word-classes. true: all words of the lexicon; false (default): only the words
     * that the model en-fr knows. */
    bool large;
    uint64_t seed; /* seed of all random numbers; default 0 */
    /* smallest and largest number of words of a source sentence, full stop included, 1 … 60;
     * defaults 3 and 60 */
    size_t shortest, longest;
    /* The wanted length is shortest + floor((longest - shortest + 1) u^skew) with u uniform in [0,
     * 1), so all wanted lengths are equally frequent if skew is 1. skew is above 0 and at most 100;
     * default 1. */
    double skew;
    /* number of different symbols of copy, reverse and sort, 2 … 1000; default 50 */
    size_t symbols;
} attn_corpus_options;
/* Returns the options with their default values. */
attn_corpus_options attn_corpus_defaults(void);

enum {
    ATTN_PAIR_WORDS = 160, /* largest number of words of a side of a pair */
    ATTN_PAIR_LINKS = 640, /* largest number of links of a pair */
};

/* A link between source word `source` and target word `target` (indices in their sentences). If the
 * link is sure, the words are translations of each other. Else the target word takes its form from
 * the source word, as a French article takes its gender from a noun, or it also stands for the
 * source word, as a French infinitive stands for "to". */
typedef struct attn_link {
    uint16_t source, target;
    bool sure;
} attn_link;

/* A sentence pair. Words are UTF-8 and live as long as the corpus. They are in lower case, except
 * that en-fr-text writes names and "I" with capitals. `links` are sorted by target index, then by
 * source index. No link occurs twice. */
typedef struct attn_pair {
    const char *source[ATTN_PAIR_WORDS], *target[ATTN_PAIR_WORDS];
    size_t source_count, target_count;
    attn_link links[ATTN_PAIR_LINKS];
    size_t link_count;
    /* How the pair is written as text (attn_pair_text). All are false except in en-fr-text. */
    bool capital; /* sentences begin with a capital letter */
    bool spaced;  /* a blank is before full stops, commas and question marks */
    bool curly;   /* English apostrophes are U+2019 */
} attn_pair;

typedef struct attn_corpus attn_corpus;

/* Makes a corpus in the arena. Errors: ATTN_ENOMEM; ATTN_EVALUE if an option is outside of its
 * range (err->where names the option). */
attn_status attn_corpus_new(const attn_corpus_options *options, attn_arena *arena,
                            attn_corpus **out, attn_error *err);

/* Makes the pair at `index` of a split. The pair depends only on options, split and index. Error:
 * ATTN_EVALUE if there is no such split or if no sentence with an allowed length was found. Any
 * number of threads may call this function at the same time. */
attn_status attn_corpus_pair(const attn_corpus *corpus, attn_split split, uint64_t index,
                             attn_pair *out, attn_error *err);

/* Sets the languages of source and target: English and French for the translation tasks, else
 * English twice, since the rules of English leave symbols as they are. */
void attn_task_languages(attn_task task, attn_language out[2]);

/* Returns the source or target of a pair as text in the arena: words joined with blanks, except
 * after an apostrophe and before marks. The members capital, spaced and curly of the pair decide
 * how it is written. NULL: memory ran out. */
const char *attn_pair_text(const attn_pair *pair, bool target, attn_language language,
                           attn_arena *arena);

/* Counts the words of a side of a pair in `to`, a tokenizer that is not settled yet. Errors: those
 * of attn_tokenizer_count. */
attn_status attn_pair_count(const attn_pair *pair, bool target, attn_tokenizer *to,
                            attn_error *err);

/* Counts the words of the first `pairs` training pairs: those of the sources in to[0], those of the
 * targets in to[1]. `pair` is working memory. Errors: those of attn_corpus_pair and
 * attn_pair_count. */
attn_status attn_corpus_count(const attn_corpus *corpus, size_t pairs, attn_tokenizer *const to[2],
                              attn_pair *pair, attn_error *err);

/* A side of a pair as ids of a tokenizer: the ids of its words or, for a tokenizer of sub-words,
 * those of the sub-words of its text. */
typedef struct attn_pair_tokens {
    int32_t *ids;  /* [count] */
    size_t *words; /* [count] index of the word of the pair to which the token belongs */
    size_t count;
} attn_pair_tokens;

/* Reads a side of a pair as tokens. The tokens are in the arena. Errors: ATTN_ENOMEM; those of
 * attn_tokenizer_encode. */
attn_status attn_pair_read(const attn_pair *pair, bool target, const attn_tokenizer *tokenizer,
                           attn_arena *arena, attn_pair_tokens *out, attn_error *err);

#endif
