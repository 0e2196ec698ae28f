/* A lesson: a corpus with vocabularies and datasets, on which an experiment trains several models
 * under equal conditions. */
#ifndef ATTN_EXPERIMENTS_LESSON_H
#define ATTN_EXPERIMENTS_LESSON_H

#include "experiments/lab.h"
#include "train/training.h"

/* The settings that every experiment with training has. The arguments are the numbers that differ
 * between experiments. */
#define ATTN_LESSON_SETTINGS(width, steps, full_steps, rate, pairs, longest, full_longest)         \
    {"width", width, 2 * width, 4, 1024, true, "of the models; a multiple of 4"},                  \
        {"num_steps", steps, full_steps, 1, 1e6, true, "batches that each model learns from"},     \
        {"rate", rate, rate, 1e-6, 1, false, "learning rate"},                                     \
        {"batch_tokens", 1024, 2048, 64, 65536, true, "words of a batch"},                         \
        {"num_pairs", pairs, 5 * pairs, 10, 1e6, true, "training pairs"},                          \
        {"shortest", 3, 3, 1, 60, true, "source words at least"},                                  \
        {"longest", longest, full_longest, 3, 60, true, "source words at most"},                   \
        {"num_scored_pairs", 200, 500, 1, 1e5, true, "held-out pairs to score"}, {                 \
        "seed", 1, 1, 0, 9e15, true, "of the models and batches"                                   \
    }

typedef struct attn_lesson {
    /* Corpus and vocabularies. A lesson that only looks into a model of the caller has no datasets,
     * and its vocabularies belong to the caller. */
    attn_corpus_options options;
    attn_corpus *corpus;
    const attn_tokenizer *source, *target;
    attn_tokenizer *made[2]; /* vocabularies that the lesson made and frees */
    attn_dataset train, validation;
} attn_lesson;

/* Returns an upper bound for the bytes of an experiment with these settings that trains one model
 * at a time. */
size_t attn_lesson_bytes(const attn_experiment *about, const double *values);
extern const attn_setting_rule attn_lesson_rules[]; /* the rules for the settings above */

/* Scores a model on held-out pairs with shortest … longest source words. If longest is 0, the
 * lengths are those of lesson->options. Returns false if the lab has failed. */
bool attn_lesson_score(attn_lab *lab, const attn_lesson *lesson, const attn_model *model,
                       size_t shortest, size_t longest, attn_model_scores *out);
/* Returns the lowest alignment error among those of the heads and of the mean of all heads; NaN if
 * the model has no cross-attention. */
double attn_lesson_alignment(const attn_model_scores *scores);

/* Makes a held-out pair. If the tokens of lesson->source are sub-words, the words of the pair are
 * sub-words, its links are links between sub-words, and lab->scratch is emptied. Returns false if
 * the lab has failed. */
bool attn_lesson_pair(attn_lab *lab, const attn_lesson *lesson, uint64_t index, attn_pair *pair);

/* A held-out pair as an example for pictures, and the labels of the pictures. The labels are in
 * lab->arena, among the findings. */
typedef struct attn_specimen {
    attn_pair *pair;                 /* in lab->work */
    const char **sources, **targets; /* [S] and [T] labels; the last target is "<eos>" */
    size_t S;                        /* number of source words */
    size_t T;                        /* number of target words, with the end token */
} attn_specimen;
/* Finds a pair of at least `words` source words. Returns false if the lab has failed. */
bool attn_lesson_specimen(attn_lab *lab, const attn_lesson *lesson, size_t words,
                          attn_specimen *out);
/* Runs a forward pass over a pair and stores the outputs, with all attention weights, in *out.
 * Their memory is in lab->scratch. Returns false if the lab has failed. */
bool attn_lesson_forward(attn_lab *lab, const attn_lesson *lesson, const attn_model *model,
                         const attn_pair *pair, attn_model_outputs *out);

/* ---- models that differ in their attention, trained alike and compared ---- */
typedef struct attn_variant {
    const char *name;
    attn_model_attention attention;
    size_t heads; /* number of heads; 0: the default */
} attn_variant;

/* The results of a trained variant: ITEM(member, name of its column, unit, decimals, measured). A
 * share of words, pairs or keys is in percent.
 *
 *   parameters        parameters of all layers
 *   cross_parameters  parameters of the cross-attention
 *   right             share of the validation words that are predicted right
 *   exact             share of the held-out pairs that are translated without a fault
 *   keys_seen         share of the keys that the cross-attention sees */
#define ATTN_RESULT_LIST(ITEM)                                                                     \
    ITEM(parameters, "parameters", "", 0, false)                                                   \
    ITEM(cross_parameters, "its parameters", "", 0, false)                                         \
    ITEM(loss, "validation loss", "nats", 3, false)                                                \
    ITEM(right, "right", "%", 1, false)                                                            \
    ITEM(exact, "exact", "%", 1, false)                                                            \
    ITEM(bleu, "BLEU", "", 2, false)                                                               \
    ITEM(alignment_error, "alignment error", "%", 1, false)                                        \
    ITEM(seconds, "training", "s", 1, true)                                                        \
    ITEM(speed, "speed", "words/s", 0, true)                                                       \
    ITEM(keys_seen, "keys seen", "%", 1, false)                                                    \
    ITEM(short_bleu, "BLEU, short", "", 2, false)                                                  \
    ITEM(long_bleu, "BLEU, long", "", 2, false)
#define ATTN_RESULT_MEMBER(member, ...) double member;
typedef struct attn_result {
    ATTN_RESULT_LIST(ATTN_RESULT_MEMBER)
} attn_result;

/* largest number of columns of a contest's table, the column of names included */
enum { ATTN_RESULTS_SHOWN = 8 };

typedef struct attn_contest {
    attn_task task;
    /* [count] A variant without attention must be the last. It has no panel in the picture of the
     * example. */
    const attn_variant *variants;
    size_t count;
    const char *title;                     /* title of the table of results */
    const char *shown[ATTN_RESULTS_SHOWN]; /* members of attn_result, ended by NULL */
    const char *learning; /* title of the picture of training curves; NULL: no picture */
    const char *right;    /* label of the y axis of the training curves */
    /* title of the picture of one example, which shows where each decoder looks; NULL: no
     * picture */
    const char *looking;
    /* The example has at least `words` source words, or at least as many as the setting "longest"
     * if this setting is smaller. */
    size_t words;
    bool gold;   /* the picture of the example has a panel for the gold alignment */
    double from; /* progress of the run (0 … 1) at the beginning of the contest */
    void *ctx;
    /* Changes the configuration of a variant before it is trained. May be NULL. */
    void (*configure)(attn_lab *lab, attn_model_config *config);
    /* Scores a trained model. Returns false if the lab has failed. If score is NULL, the contest
     * computes exact, bleu and alignment_error from the held-out pairs of the lesson. */
    bool (*score)(attn_lab *lab, const attn_lesson *lesson, size_t variant, const attn_model *model,
                  attn_result *out, void *ctx);
    /* Changes the panel of a variant in the picture of the example. May be NULL. */
    void (*look)(attn_lab *lab, const attn_model_config *config, attn_picture *picture,
                 size_t variant, const attn_specimen *specimen);
} attn_contest;

/* Opens the lesson, trains and scores all variants, and adds a table of their results. Adds two
 * pictures, if the contest has titles for them: the training curves ("curves") and the example
 * ("weights"). Fills results [contest->count], which the caller has set to zeros. */
void attn_lesson_contest(attn_lab *lab, const attn_contest *contest, attn_result *results);

#endif
