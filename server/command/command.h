/* Commands of the program beside serving: `attnd corpus …`. Each is a table of options and a
 * function; the exit code is 0, or 2 for a wrong option, SRV_COMMAND_STOPPED after a signal, 1 for
 * anything else. */
#ifndef SRV_COMMAND_H
#define SRV_COMMAND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    void *to; /* holds the default */
    const char *doc;
} srv_option;

/* Fill the table's variables from --name value and --name=value. 0: go on; else leave with this
 * code - 1 (so 1 after --help, 3 after a fault that was said on stderr). */
int srv_options_read(const srv_option *table, const char *about, int argc, char **argv);
/* The same with the rows of a field table before them, whose struct at `base` holds the defaults;
 * a "_" of a field's name is a "-" here. */
int srv_options_read_fields(const srv_field *fields, void *base, const srv_option *table,
                            const char *about, int argc, char **argv);

/* Say an error of the library on stderr; returns the exit code 1. */
int srv_command_fail(const char *command, const attn_error *err);

enum { SRV_COMMAND_STOPPED = 130 };
/* From now on the first SIGINT or SIGTERM sets the number behind the pointer, which lasts as long
 * as the process; a second one ends the process. */
atomic_int *srv_command_watch_stop(void);

typedef int srv_command_run(int argc, char **argv); /* argv[0]: the command's name */

/* The command of that name, or NULL. */
srv_command_run *srv_command_find(const char *name);
/* Names with a line about each, for --help. */
void srv_command_print_all(void);

srv_command_run srv_command_corpus, srv_command_train, srv_command_score, srv_command_experiment;

#endif
