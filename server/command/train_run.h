/* A training run of the command line: what was asked for, and what is on the way. */
#ifndef SRV_TRAIN_RUN_H
#define SRV_TRAIN_RUN_H

#include <stdio.h>

#include "command/command.h"
#include "model_file.h"

enum { TRAIN_TEXT = 1024 };

typedef struct srv_train_wishes {
    attn_corpus_options corpus;
    attn_model_config config;
    attn_training_options training;
    const char *task, *architecture, *attention, *positions, *schedule;
    size_t pairs, validation, scored, minimum, threads;
    const char *init, *out, *log;
    bool resume, quiet;
} srv_train_wishes;

typedef struct srv_train_run {
    const srv_train_wishes *wishes;
    char said[TRAIN_TEXT];       /* the options that decide the result, for resuming */
    char checkpoint[TRAIN_TEXT]; /* path */
    attn_arena *arena;
    attn_corpus *corpus;
    srv_model_file file; /* model and vocabularies; contents: of the checkpoint it came from */
    attn_training_state state;
    attn_dataset train, validation;
    FILE *log;
    bool bar, drawn; /* a terminal is there; something stands in its last line */
} srv_train_run;

/* train_options.c: the table, filled with defaults, NULL-terminated; `said` from it. */
enum { TRAIN_OPTIONS = 48 };
srv_train_wishes srv_train_defaults(void);
void srv_train_table(srv_train_wishes *w, srv_option table[TRAIN_OPTIONS]);
/* Names to values; false, said on stderr, when one is unknown. */
bool srv_train_names(srv_train_wishes *w);
void srv_train_say(const srv_option *table, char said[TRAIN_TEXT]);

/* train_keep.c: the hook that keeps a checkpoint (and the model, when it is the best so far), and
 * the way back. */
attn_status srv_train_keep(void *run, const attn_training_state *state, attn_error *err);
attn_status srv_train_keep_best(srv_train_run *run, attn_error *err);
attn_status srv_train_resume(srv_train_run *run, attn_error *err);

/* train_show.c: the hook that reports, on a terminal with a bar, and into the log. */
void srv_train_show(void *run, const attn_training_progress *now);
void srv_train_clear(srv_train_run *run);

/* scores_print.c: a line a set of scores. */
void srv_scores_print(FILE *to, const char *name, const attn_model_scores *scores);
void srv_scores_json(FILE *to, const attn_model_scores *scores);
/* Lengths around 10, 20, … within the corpus' own, a line each. */
int srv_scores_by_length(const srv_model_file *file, attn_corpus_options options, size_t count,
                         size_t beams, attn_pool *pool, FILE *json);
/* The corpus that a model file says it was trained on; false: it says none. */
bool srv_scores_corpus(const srv_model_file *file, attn_corpus_options *out);

#endif
