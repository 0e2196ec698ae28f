/* The commands of the program besides the daemon: `attnd corpus`, `attnd train`, `attnd score`,
 * `attnd experiment` and `attnd models`. Each command has a function, and all but the last have a
 * table of options. Exit codes: 0 success, 2 a wrong option, SRV_COMMAND_STOPPED stopped by a
 * signal, 1 any other failure. */
#ifndef SRV_COMMAND_H
#define SRV_COMMAND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "attn/attn.h"
#include "experiments/experiments.h"
#include "train/training.h"
#include "wire/decode.h"

enum { SRV_OPTION_NAME = 64 }; /* buffer size of an option's name */
/* Writes the name to `text`, with "-" in place of "_", and returns `text`. Fields and settings have
 * underscores, options have dashes. */
const char *srv_option_dashed(const char *name, char text[SRV_OPTION_NAME]);

/* Options are rows of a field table (wire/decode.h) of the kinds BOOL, INT, REAL, STRING and ENUM.
 * They set members of the struct at `base`, which must hold the default values before. The option
 * of the field "batch_tokens" is --batch-tokens. The table ends before the first row whose member
 * lies beyond the first `size` bytes of the struct. */
typedef struct srv_options {
    const srv_field *fields;
    void *base;
    size_t size;
} srv_options;

/* Reads a command line of --name value and --name=value. `count` tables have its options. `about`
 * is the first line of --help, which lists the options in the order of the tables.
 *
 *   0   the command shall run
 *   1   --help was printed; exit with code 0
 *   3   an error was printed to stderr; exit with code 2 */
int srv_options_read(const srv_options *tables, size_t count, const char *about, int argc,
                     char **argv);

/* Prints an error of the library on stderr and returns the exit code 1. */
int srv_command_fail(const char *command, const attn_error *err);

enum { SRV_COMMAND_STOPPED = 130 };
/* Makes the first SIGINT or SIGTERM set a flag to 1 instead of ending the process. A second signal
 * of the same kind ends the process. Returns the flag, a global variable. */
atomic_int *srv_command_watch_stop(void);

/* A progress bar on the last line of a terminal, which is stderr. */
typedef struct srv_bar {
    bool wanted; /* stderr is a terminal */
    bool drawn;  /* the bar is now on the last line */
} srv_bar;
/* Draws the bar for the completed share `done` (0 … 1). The caller writes text behind it and
 * flushes stderr. */
void srv_bar_draw(srv_bar *bar, double done);
void srv_bar_clear(srv_bar *bar);

typedef int srv_command_run(int argc, char **argv); /* argv[0]: the command's name */

/* Returns the command with this name; NULL: there is none. */
srv_command_run *srv_command_find(const char *name);
/* Prints a line with the name and the purpose of each command to stdout, for --help. */
void srv_command_print_all(void);

/* score_command.c: write the scores of a model as a line of text that begins with `name`, or as a
 * JSON object. */
void srv_scores_print(FILE *to, const char *name, const attn_model_scores *scores);
void srv_scores_json(FILE *to, const attn_model_scores *scores);

srv_command_run srv_command_corpus, srv_command_train, srv_command_score, srv_command_experiment,
    srv_command_models;

#endif
