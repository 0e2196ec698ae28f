/* The table of commands. */
#include <stdio.h>
#include <string.h>

#include "command/command.h"

static const struct {
    const char *name;
    srv_command_run *run;
    const char *doc;
} commands[] = {
    {"corpus", srv_command_corpus, "print sentence pairs with their alignments"},
    {"train", srv_command_train, "train a model on such pairs"},
    {"score", srv_command_score, "print BLEU and alignment error of a trained model"},
    {"experiment", srv_command_experiment,
     "run an experiment on attention, or list the experiments"},
    {"models", srv_command_models, "check DIR: say what the files of a models_dir are"},
};

srv_command_run *srv_command_find(const char *name) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(name, commands[i].name))
            return commands[i].run;
    return NULL;
}

void srv_command_print_all(void) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        printf("  attnd %-20s %s\n", commands[i].name, commands[i].doc);
}
