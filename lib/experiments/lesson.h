/* Training inside of experiments: a corpus with its vocabularies, and models that learn it under
 * equal conditions. */
#ifndef ATTN_EXPERIMENTS_LESSON_H
#define ATTN_EXPERIMENTS_LESSON_H

#include "attn/training.h"
#include "experiments/lab.h"

/* The settings that every experiment with training has, with its own numbers. */
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
    attn_vocabulary *made[2]; /* the same, where this lesson made them */
    attn_dataset train, validation;
} attn_lesson;

/* How a model learnt. steps and right [count]: the share of validation words that were predicted
 * right after so many steps; in the memory of findings. */
typedef struct attn_pupil {
    attn_model *model;
    double loss;                      /* of validation, the best */
    double seconds, words_per_second; /* of processor time, or of time where there is a pool */
    double *steps, *right;
    size_t count;
} attn_pupil;

/* Bytes of lessons with these settings and one model at a time; at most `words` words. */
size_t attn_lesson_bytes(const attn_experiment *about, const double *values, size_t words);
/* Do width and lengths fit together? */
attn_status attn_lesson_check(const attn_experiment *about, const double *values, attn_error *err);

/* A corpus by the settings, of a task, in the work's memory. false: the lab has failed; close it
 * all the same. */
bool attn_lesson_open(attn_lab *lab, attn_task task, attn_lesson *lesson);
void attn_lesson_close(attn_lesson *lesson);
/* Defaults with the settings' width and the lesson's vocabularies, without dropout. */
attn_model_config attn_lesson_config(const attn_lab *lab, const attn_lesson *lesson);
/* Make a model and train it; the lab's part moves on. The caller frees pupil->model (NULL when the
 * lab has failed). */
bool attn_lesson_teach(attn_lab *lab, const attn_lesson *lesson, const attn_model_config *config,
                       attn_pupil *pupil);
/* Score it on held-out pairs of the lesson's corpus, or of lengths of their own (0, 0: its). */
bool attn_lesson_score(attn_lab *lab, const attn_lesson *lesson, const attn_model *model,
                       size_t shortest, size_t longest, attn_model_scores *out);
/* The alignment error of the best head; NaN without attention. */
double attn_lesson_alignment(const attn_model_scores *scores);

/* A held-out pair of at least `words` source words, and the texts of its picture, in the memory of
 * findings: targets end with "<eos>". */
typedef struct attn_specimen {
    attn_pair *pair;
    const char **sources, **targets;
    size_t S, T; /* T: the end among them */
} attn_specimen;
bool attn_lesson_specimen(attn_lab *lab, const attn_lesson *lesson, size_t words,
                          attn_specimen *out);
/* One forward pass over a pair with all weights, in the scratch's memory. */
bool attn_lesson_forward(attn_lab *lab, const attn_lesson *lesson, const attn_model *model,
                         const attn_pair *pair, attn_model_outputs *out);
/* Where the decoder looks: the mean of heads [T, S], in the scratch's memory; NULL without
 * attention, or when the lab has failed. */
const float *attn_lesson_look(attn_lab *lab, const attn_lesson *lesson, const attn_model *model,
                              const attn_specimen *specimen);
/* The gold links as cells [T, S] of the scratch: 1 sure, 0.5 possible. */
const float *attn_lesson_gold(attn_lab *lab, const attn_specimen *specimen);
/* A picture of `panels` such matrices, with the words at its sides. */
attn_picture *attn_lesson_picture(attn_lab *lab, const char *name, const char *title, size_t panels,
                                  const attn_specimen *specimen);

#endif
