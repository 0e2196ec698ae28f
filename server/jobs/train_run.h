/* A training run: its corpus, vocabularies, model, training state and files. `attnd train` and
 * training jobs use it. Each calls attn_train with its own thread pool and hooks.
 * */
#ifndef SRV_TRAIN_RUN_H
#define SRV_TRAIN_RUN_H

#include "jobs/train_options.h"
#include "store/model_disk.h"

typedef struct srv_train_run {
    srv_train_options options;
    const char *init;       /* model file to start from; "": a new model with random values */
    const char *out;        /* file for the best model; "": do not write it */
    const char *checkpoint; /* file for the checkpoint; "": do not write it */
    /* The options as text (srv_train_say), followed by " init=…". A checkpoint with another text is
     * refused. */
    char said[SRV_TRAIN_TEXT];
    attn_arena *arena; /* holds corpus, state and data sets */
    attn_corpus *corpus;
    attn_model_file file; /* the model and the vocabularies */
    attn_training_state state;
    attn_dataset train, validation; /* the sentence pairs as word ids */
    int failed;                     /* errno value why the checkpoint cannot be read now; else 0 */
} srv_train_run;

/* Prepares the run. The caller has set options, init, out and checkpoint, and the other members to
 * zero. If `resume` is true and the checkpoint exists, the run continues from it. Sets *resumed to
 * whether it continues. `control` can cancel the reading of the corpus. Errors: ATTN_EARG if the
 * checkpoint was made with other options, and the errors of the library's functions that make
 * corpus, model and data. The caller must call srv_train_close in any case. */
attn_status srv_train_prepare(srv_train_run *run, bool resume, const attn_control *control,
                              bool *resumed, attn_error *err);
void srv_train_close(srv_train_run *run);

/* Writes the checkpoint and, if its step is the best so far, the best model. Writes nothing if
 * run->checkpoint is "". */
attn_status srv_train_write_checkpoint(srv_train_run *run, const attn_training_state *state,
                                       attn_error *err);
/* Writes the best model. Writes nothing if run->out is "". */
attn_status srv_train_write_best(srv_train_run *run, attn_error *err);

#endif
