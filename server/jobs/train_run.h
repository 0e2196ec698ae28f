/* A training run: corpus, vocabularies, model and state, new or from a checkpoint, and its files.
 * The caller owns pool, hooks and thread. */
#ifndef SRV_TRAIN_RUN_H
#define SRV_TRAIN_RUN_H

#include "jobs/train_options.h"
#include "store/model_file.h"

typedef struct srv_train_run {
    srv_train_options options;
    const char *init;       /* "": a new model; else the file with the initial values */
    const char *out;        /* file of the best model; "": none */
    const char *checkpoint; /* "": none */
    char said[SRV_TRAIN_TEXT];
    attn_arena *arena;
    attn_corpus *corpus;
    srv_model_file file; /* model and vocabularies; contents: of the loaded checkpoint */
    attn_training_options loop;
    attn_training_state state;
    attn_dataset train, validation;
} srv_train_run;

/* Fills `run`, whose first four members are set and the rest zero. `resume` continues from the
 * checkpoint if there is one, and *resumed tells whether it did. `control` is checked between
 * pairs. Errors: those of the parts, and ATTN_EARG for a checkpoint of other options. */
attn_status srv_train_prepare(srv_train_run *run, bool resume, const attn_control *control,
                              bool *resumed, attn_error *err);
void srv_train_close(srv_train_run *run);

/* train_keep.c: write the checkpoint and the best model. Without a file name they do nothing. */
attn_status srv_train_keep(srv_train_run *run, const attn_training_state *state, attn_error *err);
attn_status srv_train_keep_best(srv_train_run *run, attn_error *err);

#endif
