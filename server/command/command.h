/* The commands of the program besides the daemon, such as `attnd corpus`. Each is a table of
 * options and a function. The exit code is 0, 2 for a wrong option, SRV_COMMAND_STOPPED after a
 * signal, and 1 for any other failure. */
#ifndef SRV_COMMAND_H
#define SRV_COMMAND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "attn/attn.h"
#include "wire/decode.h"

typedef enum srv_option_kind {
    SRV_OPTION_FLAG,   /* bool: no value */
    SRV_OPTION_SIZE,   /* size_t */
    SRV_OPTION_NUMBER, /* double */
    SRV_OPTION_SEED,   /* uint64_t */
    SRV_OPTION_TEXT,   /* const char * */
} srv_option_kind;

typedef struct srv_option {
    const char *name; /* without dashes; NULL ends a table */
    srv_option_kind kind;
    void *to; /* the variable, which holds the default */
    const char *doc;
} srv_option;

/* Fills the table's variables from --name value and --name=value. 0: continue; otherwise exit with
 * the returned code - 1 (1 after --help, 3 after an error that was printed on stderr). */
int srv_options_read(const srv_option *table, const char *about, int argc, char **argv);
/* Does the same with the rows of a field table before the options. The struct at `base` holds the
 * defaults; a "_" in a field name is a "-" in the option. */
int srv_options_read_fields(const srv_field *fields, void *base, const srv_option *table,
                            const char *about, int argc, char **argv);

/* Prints an error of the library on stderr and returns the exit code 1. */
int srv_command_fail(const char *command, const attn_error *err);

enum { SRV_COMMAND_STOPPED = 130 };
/* Returns a pointer to a flag that the first SIGINT or SIGTERM sets. A second signal ends the
 * process. The pointer is valid until then. */
atomic_int *srv_command_watch_stop(void);

typedef int srv_command_run(int argc, char **argv); /* argv[0]: the command's name */

/* Returns the command with that name, or NULL. */
srv_command_run *srv_command_find(const char *name);
/* Writes the names of the commands with one line about each, for --help. */
void srv_command_print_all(void);

/* score_command.c: writes scores as a line of text, and as JSON. */
void srv_scores_print(FILE *to, const char *name, const attn_model_scores *scores);
void srv_scores_json(FILE *to, const attn_model_scores *scores);

srv_command_run srv_command_corpus, srv_command_train, srv_command_score, srv_command_experiment;

#endif
