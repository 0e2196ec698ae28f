/* A training run: its corpus, vocabularies, model, training state and files. `attnd train` and
 * training jobs use it. They call attn_train themselves, with a thread pool and hooks of their own.
 */
#ifndef SRV_TRAIN_RUN_H
#define SRV_TRAIN_RUN_H

#include "jobs/train_options.h"
#include "store/model_disk.h"

typedef struct srv_train_run {
    srv_train_options options;
    const char *init;          /* model file to start from; "": a new model with random values */
    const char *out;           /* file for the best model; "": do not write it */
    const char *checkpoint;    /* file for the checkpoint; "": do not write it */
    char said[SRV_TRAIN_TEXT]; /* srv_train_say and `init`; must be the same to continue a run */
    attn_arena *arena;         /* holds corpus, state and data sets */
    attn_corpus *corpus;
    attn_model_file file; /* the model and the vocabularies */
    attn_training_state state;
    attn_dataset train, validation; /* the sentence pairs as word ids */
    int failed; /* errno value of trouble for which the checkpoint cannot be read now; 0: none */
} srv_train_run;

/* Prepares the run. The caller has set options, init, out and checkpoint, and the other members to
 * zero. `resume`: continue from the checkpoint if the file exists; *resumed says whether it did.
 * `control` can cancel the reading of the corpus. Errors: ATTN_EARG if the checkpoint was made with
 * other options, and the errors of the library's functions that make corpus, model and data. The
 * caller must call srv_train_close in any case. */
attn_status srv_train_prepare(srv_train_run *run, bool resume, const attn_control *control,
                              bool *resumed, attn_error *err);
void srv_train_close(srv_train_run *run);

/* The first one writes the checkpoint and, if its step is the best so far, the best model; the second
 * one writes the best model. Without a file name they write nothing. */
attn_status srv_train_write_checkpoint(srv_train_run *run, const attn_training_state *state,
                                       attn_error *err);
attn_status srv_train_write_best(srv_train_run *run, attn_error *err);

#endif
