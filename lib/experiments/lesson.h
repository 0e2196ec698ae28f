/* A lesson: a corpus with vocabularies and datasets, on which an experiment trains several models
 * under equal conditions. */
#ifndef ATTN_EXPERIMENTS_LESSON_H
#define ATTN_EXPERIMENTS_LESSON_H

#include "experiments/lab.h"
#include "train/training.h"

/* The settings that every experiment with training has. Each experiment gives its own numbers. */
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
    /* Corpus and vocabularies. If a lesson only looks into a model of the caller, it has no
     * datasets and the vocabularies are the caller's. */
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

/* Scores a model on held-out pairs with shortest … longest source words. longest = 0: the lengths
 * of the lesson. Returns false if the lab has failed. */
bool attn_lesson_score(attn_lab *lab, const attn_lesson *lesson, const attn_model *model,
                       size_t shortest, size_t longest, attn_model_scores *out);
/* Returns the lowest alignment error of a head or of the mean of all heads; NaN if the model has no
 * attention. */
double attn_lesson_alignment(const attn_model_scores *scores);

/* Makes a held-out pair. For a model of sub-words, words and links of the pair are those of its
 * sub-words; this empties lab->scratch. Returns false if the lab has failed. */
bool attn_lesson_pair(attn_lab *lab, const attn_lesson *lesson, uint64_t index, attn_pair *pair);

/* A held-out pair as an example for pictures, and the labels of the pictures. Labels are among the
 * findings. */
typedef struct attn_specimen {
    attn_pair *pair;                 /* in lab->work */
    const char **sources, **targets; /* [S] and [T] labels; the last target is "<eos>" */
    size_t S;                        /* number of source words */
    size_t T;                        /* number of target words, with the end token */
} attn_specimen;
/* Finds a pair of at least `words` source words. Returns false if the lab has failed. */
bool attn_lesson_specimen(attn_lab *lab, const attn_lesson *lesson, size_t words,
                          attn_specimen *out);
/* Runs a forward pass over a pair and returns all attention weights in *out, in lab->scratch.
 * Returns false if the lab has failed. */
bool attn_lesson_forward(attn_lab *lab, const attn_lesson *lesson, const attn_model *model,
                         const attn_pair *pair, attn_model_outputs *out);

/* ---- models that differ in their attention, trained alike and compared ---- */
typedef struct attn_variant {
    const char *name;
    attn_model_attention attention;
    size_t heads; /* number of heads; 0: the default */
} attn_variant;

/* The results of a trained variant: ITEM(member, name of its column, unit, decimals, measured).
 *
 *   parameters        parameters of all layers
 *   cross_parameters  parameters of the cross-attention
 *   right             validation words that are predicted right
 *   exact             held-out pairs that are translated without a fault
 *   keys_seen         keys that the cross-attention sees */
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

enum { ATTN_RESULTS_SHOWN = 8 }; /* most columns of a contest's table, that of the names included */

typedef struct attn_contest {
    attn_task task;
    /* [count]; a variant without attention must be the last, and has no panel in the picture of the
     * example */
    const attn_variant *variants;
    size_t count;
    const char *title;                     /* title of the table of results */
    const char *shown[ATTN_RESULTS_SHOWN]; /* members of attn_result, ended by NULL */
    const char *learning; /* title of the training curves; NULL: they are not drawn */
    const char *right;    /* name of their y axis */
    /* title of the picture of one example, which shows where each decoder looks; NULL: no picture */
    const char *looking;
    /* The example has at least this number of source words, or that of the setting "longest" if it
     * is smaller. */
    size_t words;
    bool gold;   /* the example has a panel for its gold alignment */
    double from; /* progress of the run (0 … 1) at the beginning of the contest */
    void *ctx;
    /* Changes the configuration of a variant before it is trained. May be NULL. */
    void (*configure)(attn_lab *lab, attn_model_config *config);
    /* Scores a trained model. NULL: the contest finds exact, bleu and alignment_error with the
     * held-out pairs of the lesson. Returns false if the lab has failed. */
    bool (*score)(attn_lab *lab, const attn_lesson *lesson, size_t variant, const attn_model *model,
                  attn_result *out, void *ctx);
    /* Adds to the panel of a variant in the picture of the example. May be NULL. */
    void (*look)(attn_lab *lab, const attn_model_config *config, attn_picture *picture,
                 size_t variant, const attn_specimen *specimen);
} attn_contest;

/* Opens the lesson, trains and scores all variants, and adds a table of their results and two
 * pictures: their training curves ("curves") and the example ("weights"). Fills results
 * [contest->count], which the caller has set to zeros. */
void attn_lesson_contest(attn_lab *lab, const attn_contest *contest, attn_result *results);

#endif
