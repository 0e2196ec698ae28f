/* What each head of a model does: scores on sequences of random tokens (probes) and on texts, and
 * the pairs of words that it connects in sentences.
 *
 * A pass keeps the attention operations of all layers, and every row of weights is computed from
 * them when it is read. So the memory grows with the lengths of the sequences and not with their
 * squares.
 *
 * Probes. A probe begins and ends with the special tokens that the model's template puts around a
 * text; if there are none, it begins with the begin token of the model, if it has one. Between them
 * stand
 *
 *   repeated    n different random tokens, then the same n tokens in the same order (Olsson et al.,
 *               "In-context Learning and Induction Heads", 2022)
 *   separated   2 n random tokens of which every eighth is a separator
 *
 * Separators are tokens of punctuation or line breaks, and special tokens except the first token of
 * a sequence (Clark et al., "What Does BERT Look At?", 2019). In a text, a token of the first kind
 * consists of ASCII punctuation and white space, and contains a punctuation mark or a line break. A
 * probe takes as separators the end token of the model, and those of . , ; : ! ? and the line break
 * that are tokens. */
#ifndef ATTN_HEAD_SCORES_H
#define ATTN_HEAD_SCORES_H

#include "models.h"
#include "tokens.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The scores: name, formula, source. The formulas have the notation of analysis.h, and all but
 * POSITIONAL are measures of that header: means over the rows of a sequence. */
#define ATTN_HEAD_SCORE_LIST(ITEM)                                                                 \
    ITEM(INDUCTION, "induction",                                                                   \
         "Mean weight of a token that occurred before on the token after that occurrence.",        \
         "Olsson et al. 2022 (prefix matching)")                                                   \
    ITEM(DUPLICATE, "duplicate_token",                                                             \
         "Mean weight of a token that occurred before on its earlier occurrences.",                \
         "Wang et al. 2022 (duplicate token heads)")                                               \
    ITEM(PREVIOUS, "previous_token", "Mean weight of a token on the token before it.",             \
         "Elhage et al. 2021; Clark et al. 2019")                                                  \
    ITEM(CURRENT, "current_token", "Mean weight of a token on itself, the diagonal.",              \
         "Clark et al. 2019")                                                                      \
    ITEM(NEXT, "next_token", "Mean weight of a token on the token after it.", "Clark et al. 2019") \
    ITEM(FIRST, "first_token", "Mean weight on the first token, a sink.",                          \
         "Xiao et al. 2023; Clark et al. 2019")                                                    \
    ITEM(SEPARATOR, "separator",                                                                   \
         "Mean weight on separators: punctuation, line breaks and special tokens but the first.",  \
         "Clark et al. 2019")                                                                      \
    ITEM(POSITIONAL, "positional",                                                                 \
         "How much a row depends on its position alone: 1 - JS / ln 2, where JS is the mean "      \
         "Jensen-Shannon divergence between the same rows of a sequence and of the one before "    \
         "it. 1: the tokens do not matter.",                                                       \
         "divergence of heads: Clark et al. 2019")                                                 \
    ITEM(ENTROPY, "entropy", "Mean entropy of a row in nats.",                                     \
         "Ghader and Monz 2017; Clark et al. 2019")                                                \
    ITEM(NORMALIZED_ENTROPY, "normalized_entropy",                                                 \
         "Mean entropy of a row divided by that of equal weights on the keys that it sees.",       \
         "Ghader and Monz 2017")

#define ATTN_HEAD_SCORE_NUMBER(name, ...) ATTN_HEAD_##name,
typedef enum attn_head_score {
    ATTN_HEAD_SCORE_LIST(ATTN_HEAD_SCORE_NUMBER) ATTN_HEAD_SCORES
} attn_head_score;
#undef ATTN_HEAD_SCORE_NUMBER

/* Returns the name of a score; NULL: there is no such score. */
const char *attn_head_score_name(attn_head_score score);

/* A model with the tokenizers of its two sides. `source` is NULL if the model has no encoder, and
 * `target` if it has no decoder. A side without a tokenizer has probes, whose tokens are all ids
 * but pad, begin and end of the configuration, but no texts. */
typedef struct attn_head_subject {
    const attn_model *model;
    const attn_tokenizer *source, *target;
} attn_head_subject;

/* The sequences of one side. Elements beyond the length of a sequence are padding. */
typedef struct attn_head_side {
    size_t longest;      /* 0: the model does not read this side */
    int32_t *ids;        /* [count, longest] */
    int64_t *lengths;    /* [count] */
    uint8_t *separators; /* [count, longest] 1: the token is a separator */
} attn_head_side;

/* Sequences that heads are scored on, in the arena of the call that made them. */
typedef struct attn_head_batch {
    size_t count;
    attn_head_side source, target;
    /* The target is the begin token alone: only the encoder is scored. */
    bool encoder_only;
} attn_head_batch;

typedef struct attn_head_probes {
    size_t count;  /* number of probes; default 4 */
    size_t length; /* n, tokens before the repetition; default 48 */
    uint64_t seed; /* seed of attn_rng_bits (rng.h); default 0 */
} attn_head_probes;
/* Returns the options with their default values. */
attn_head_probes attn_head_probes_defaults(void);

/* Sets *length to the largest n of at most `most` for which probes can be drawn; at least 1. Errors:
 * ATTN_ENOMEM. */
attn_status attn_head_probe_length(const attn_head_subject *subject, size_t most, attn_arena *arena,
                                   size_t *length, attn_error *err);
/* Draws probes. A model with encoder and decoder gets probes on both sides. separated->count is 0
 * if the model has no separators. Errors: ATTN_EVALUE at "length" (the model has fewer different
 * tokens, or reads fewer tokens; the text says how many), ATTN_EARG at "count", ATTN_ENOMEM. */
attn_status attn_head_draw(const attn_head_subject *subject, const attn_head_probes *probes,
                           attn_arena *arena, attn_head_batch *repeated, attn_head_batch *separated,
                           attn_error *err);
/* Divides texts into tokens, with the special tokens of the model around them. The encoder reads
 * them if there is one, else the decoder. Errors, with err->where = "2" for text 2: ATTN_EVALUE (not
 * UTF-8; more tokens than the model reads; none), ATTN_EARG (the model has no tokens with texts),
 * ATTN_ENOMEM. */
attn_status attn_head_texts(const attn_head_subject *subject, const char *const *texts,
                            size_t count, attn_arena *arena, attn_head_batch *out, attn_error *err);

/* The mean of a score over sequences, and its sample standard deviation. */
typedef struct attn_head_mean {
    size_t count;        /* number of sequences, or of pairs of them, that have the score */
    double mean, spread; /* NaN: count is 0; spread is NaN below 2 */
} attn_head_mean;

/* The scores of a head. */
typedef struct attn_scored_head {
    attn_site_kind kind;
    size_t layer, head;
    attn_head_mean scores[ATTN_HEAD_SCORES];
} attn_scored_head;

/* Returns the number of heads of all sites that are scored. */
size_t attn_head_count(const attn_model *model, bool encoder_only);
/* Computes the cost of attn_head_score_all or, with the batch of sentences, of attn_head_relate, on
 * `slots` threads. The bytes are an upper bound of the memory that these calls take from the arena
 * in addition to their results. */
attn_model_cost attn_head_cost(const attn_head_subject *subject, const attn_head_batch *batch,
                               size_t slots);
/* Runs the model over the batch and computes the scores `wanted`, bits 1 << attn_head_score, into
 * `heads` [attn_head_count]. It orders `heads` by site, layer and head, and leaves their other
 * scores as they are. It gives back all that it takes from the arena. Cross-attention has no
 * INDUCTION and no DUPLICATE. Results do not depend on the pool. Errors as attn_model_forward and
 * attn_measure_heads (analysis.h). */
attn_status attn_head_score_all(const attn_head_subject *subject, const attn_head_batch *batch,
                                unsigned wanted, attn_arena *arena, attn_pool *pool,
                                const attn_control *control, attn_scored_head *heads,
                                attn_error *err);

/* --- what a head connects --- */

/* A sentence with a pair of words: the last occurrence of `from` in it and the first one of `to`.
 * An occurrence counts only as whole words: where it begins or ends with a letter or digit, no
 * letter or digit stands beside it. */
typedef struct attn_head_sentence {
    const char *text, *from, *to;
} attn_head_sentence;

/* A relation of words, such as that of a pronoun and its noun. */
typedef struct attn_head_relation {
    const char *does; /* "pronoun to its noun" */
    const attn_head_sentence *sentences;
    size_t count;
    bool lenient; /* sentences that the model cannot read are left out, and are no errors */
} attn_head_relation;

/* The sentences of relations as tokens. */
typedef struct attn_head_words {
    attn_head_batch batch;
    /* [count, longest] the word of each token: 0 is `from`, 1 is `to`; -1: a special token of the
     * model or the first token, whose column does not count */
    int32_t *words;
    size_t *relations; /* [count] the relation of each sentence */
    size_t relation_count;
} attn_head_words;

/* Reads the sentences of all relations. Errors, with err->where = "1/sentences/4/from": ATTN_EVALUE
 * (a word does not occur in the sentence; both are the same occurrence, or share a token; `to` is
 * the first token; in a model without an encoder `to` stands behind `from`, which it cannot see),
 * and those of attn_head_texts at "1/sentences/4/text". */
attn_status attn_head_sentences(const attn_head_subject *subject,
                                const attn_head_relation *relations, size_t count,
                                attn_arena *arena, attn_head_words *out, attn_error *err);

/* How often a head connects the words of a relation. The weights of a word are the mean of the rows
 * of its tokens, and the columns of a word are added (Clark et al. 2019, section 4.1). The columns
 * of the first token of a sequence and of special tokens are left out. A head hits if, in the mean
 * row of the word `from`, the word `to` has the largest of these sums. */
typedef struct attn_related_head {
    attn_site_kind kind;
    size_t layer, head, relation;
    size_t hits, of; /* number of hits, and number of sentences */
    double weight;   /* mean weight of the word `to`, over all sentences */
} attn_related_head;

/* Runs the model over the sentences and fills *out, [attn_head_count * relation_count] in the arena,
 * in the order of falling hits / of, then of falling weight, then of relation, site, layer and head.
 * Errors as attn_model_forward. */
attn_status attn_head_relate(const attn_head_subject *subject, const attn_head_words *words,
                             attn_arena *arena, attn_pool *pool, const attn_control *control,
                             attn_related_head **out, size_t *count, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
