/* `attnd train` and `attnd score`: what their files share. */
#ifndef SRV_TRAIN_COMMAND_H
#define SRV_TRAIN_COMMAND_H

#include <stdio.h>

#include "command/command.h"
#include "jobs/train_run.h"

typedef struct srv_train_command {
    srv_train_run run;
    size_t threads;
    const char *log_path;
    bool resume, quiet;
    FILE *log;
    bool bar, drawn; /* a terminal is there; something stands in its last line */
} srv_train_command;

/* train_options.c: the defaults, and what is no wish of the run, NULL-terminated. */
enum { TRAIN_OPTIONS = 8 };
void srv_train_table(srv_train_command *command, srv_option table[TRAIN_OPTIONS]);

/* train_show.c: the hook that reports, on a terminal with a bar, and into the log. */
void srv_train_show(void *command, const attn_training_progress *now);
void srv_train_clear(srv_train_command *command);

/* scores_print.c: a line a set of scores. */
void srv_scores_print(FILE *to, const char *name, const attn_model_scores *scores);
void srv_scores_json(FILE *to, const attn_model_scores *scores);
/* Lengths around 10, 20, … within the corpus' own, a line each. */
int srv_scores_by_length(const srv_model_file *file, attn_corpus_options options, size_t count,
                         size_t beams, attn_pool *pool, FILE *json);

#endif
