/* Training in experiments: a corpus with its vocabularies, and models that are trained on it under
 * equal conditions. */
#ifndef ATTN_EXPERIMENTS_LESSON_H
#define ATTN_EXPERIMENTS_LESSON_H

#include "attn/training.h"
#include "experiments/lab.h"

/* The settings of every experiment with training. Each experiment supplies its own numbers. */
#define ATTN_LESSON_SETTINGS(width, steps, full_steps, rate, pairs, longest, full_longest)         \
    {"width", width, 2 * width, 4, 1024, true, "of the models; a multiple of 4"},                  \
        {"steps", steps, full_steps, 1, 1e6, true, "batches that each model learns from"},         \
        {"rate", rate, rate, 1e-6, 1, false, "learning rate"},                                     \
        {"batch-tokens", 1024, 2048, 64, 65536, true, "words of a batch"},                         \
        {"pairs", pairs, 5 * pairs, 10, 1e6, true, "training pairs"},                              \
        {"shortest", 3, 3, 1, 60, true, "source words at least"},                                  \
        {"longest", longest, full_longest, 3, 60, true, "source words at most"},                   \
        {"scored", 200, 500, 1, 1e5, true, "held-out pairs to score"}, {                           \
        "seed", 1, 1, 0, 9e15, true, "of the models and batches"                                   \
    }

typedef struct attn_lesson {
    attn_corpus_options options;
    attn_corpus *corpus;
    const attn_vocabulary *source, *target;
    attn_vocabulary *made[2]; /* vocabularies that this lesson made and frees */
    attn_dataset train, validation;
} attn_lesson;

/* A trained model and its training curve: right[i] is the share of validation words predicted right
 * after steps[i] steps. Both [count] are in the memory for findings. */
typedef struct attn_pupil {
    attn_model *model;
    double loss;                      /* best validation loss */
    double seconds, words_per_second; /* processor time, or wall-clock time with a pool */
    double *steps, *right;
    size_t count;
} attn_pupil;

/* Returns the bytes of lessons with these settings, one model at a time and at most `words`
 * words. */
size_t attn_lesson_bytes(const attn_experiment *about, const double *values, size_t words);
/* Checks that width and lengths are consistent. */
attn_status attn_lesson_check(const attn_experiment *about, const double *values, attn_error *err);

/* Makes the corpus of a task by the settings, in the memory for work. false: the lab has failed,
 * but the lesson must still be closed. */
bool attn_lesson_open(attn_lab *lab, attn_task task, attn_lesson *lesson);
void attn_lesson_close(attn_lesson *lesson);
/* Returns the default configuration with the width of the settings and the lesson's vocabularies,
 * without dropout. */
attn_model_config attn_lesson_config(const attn_lab *lab, const attn_lesson *lesson);
/* Makes and trains a model, and reports progress in the lab's part. The caller frees pupil->model
 * (NULL if the lab has failed). */
bool attn_lesson_teach(attn_lab *lab, const attn_lesson *lesson, const attn_model_config *config,
                       attn_pupil *pupil);
/* Scores a model on held-out pairs, of the given lengths or (0, 0) of those of the lesson. */
bool attn_lesson_score(attn_lab *lab, const attn_lesson *lesson, const attn_model *model,
                       size_t shortest, size_t longest, attn_model_scores *out);
/* Returns the alignment error of the best head, or NaN without attention. */
double attn_lesson_alignment(const attn_model_scores *scores);

/* A held-out pair of at least `words` source words, and the labels of its picture, in the memory
 * for findings. Targets end with "<eos>". */
typedef struct attn_specimen {
    attn_pair *pair;
    const char **sources, **targets;
    size_t S, T; /* T includes the end */
} attn_specimen;
bool attn_lesson_specimen(attn_lab *lab, const attn_lesson *lesson, size_t words,
                          attn_specimen *out);
/* Runs a forward pass over a pair with all weights, in scratch memory. */
bool attn_lesson_forward(attn_lab *lab, const attn_lesson *lesson, const attn_model *model,
                         const attn_pair *pair, attn_model_outputs *out);
/* Returns the cross-attention, averaged over heads, [T, S] in scratch memory. NULL: the model has
 * no attention, or the lab has failed. */
const float *attn_lesson_look(attn_lab *lab, const attn_lesson *lesson, const attn_model *model,
                              const attn_specimen *specimen);
/* Returns the gold links as cells [T, S] in scratch memory: 1 = sure, 0.5 = possible. */
const float *attn_lesson_gold(attn_lab *lab, const attn_specimen *specimen);
/* Makes a picture of `panels` matrices [T, S], with the words as labels. */
attn_picture *attn_lesson_picture(attn_lab *lab, const char *name, const char *title, size_t panels,
                                  const attn_specimen *specimen);

#endif
