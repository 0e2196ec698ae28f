/* The options of `attnd train`: the wishes of a training run, and files and threads. */
#include <string.h>

#include "command/train_command.h"

void srv_train_table(srv_train_command *c, srv_option table[TRAIN_OPTIONS]) {
    const srv_option rows[] = {
        {"init", SRV_OPTION_TEXT, &c->run.init,
         "start with the values and vocabularies of this model"},
        {"out", SRV_OPTION_TEXT, &c->run.out, "file of the model; its checkpoint is beside it"},
        {"threads", SRV_OPTION_SIZE, &c->threads, "number of threads"},
        {"log", SRV_OPTION_TEXT, &c->log_path,
         "append one JSON line for each evaluation to this file"},
        {"resume", SRV_OPTION_FLAG, &c->resume, "continue from the checkpoint, if there is one"},
        {"quiet", SRV_OPTION_FLAG, &c->quiet, "show no progress"},
        {0},
    };
    c->run.init = "";
    c->run.out = "model.safetensors";
    c->threads = 1;
    srv_train_defaults(&c->run.wishes);
    _Static_assert(sizeof rows / sizeof *rows <= TRAIN_OPTIONS, "room");
    memcpy(table, rows, sizeof rows);
}
