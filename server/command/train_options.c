/* The options of `attnd train`: the wishes of a training run, and files and threads. */
#include <string.h>

#include "command/train_command.h"

void srv_train_table(srv_train_command *c, srv_option table[TRAIN_OPTIONS]) {
    const srv_option rows[] = {
        {"init", SRV_OPTION_TEXT, &c->run.init,
         "begin with the values and vocabularies of this model"},
        {"out", SRV_OPTION_TEXT, &c->run.out, "file of the model; its checkpoint stands beside it"},
        {"threads", SRV_OPTION_SIZE, &c->threads, "of the pool"},
        {"log", SRV_OPTION_TEXT, &c->log_path, "append a JSON line an evaluation to this file"},
        {"resume", SRV_OPTION_FLAG, &c->resume, "go on from the checkpoint, if there is one"},
        {"quiet", SRV_OPTION_FLAG, &c->quiet, "no progress"},
        {0},
    };
    c->run.init = "";
    c->run.out = "model.safetensors";
    c->threads = 1;
    srv_train_defaults(&c->run.wishes);
    _Static_assert(sizeof rows / sizeof *rows <= TRAIN_OPTIONS, "room");
    memcpy(table, rows, sizeof rows);
}
