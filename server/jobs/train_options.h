/* The options of a training run: one table for the command line (--batch-tokens) and for
 * bodies of POST /v1/jobs ("batch_tokens"). */
#ifndef SRV_TRAIN_OPTIONS_H
#define SRV_TRAIN_OPTIONS_H

#include <attn/attn.h>

#include "wire/decode.h"

enum { SRV_TRAIN_TEXT = 1536 };

typedef struct srv_train_options {
    uint64_t given;
    int task, architecture, attention, positions, norm, schedule; /* the library's enumerations */
    bool large;
    int64_t shortest, longest, symbols, pairs, validation, minimum; /* the corpus */
    int64_t width, heads, layers, feed_forward;                     /* the model */
    int64_t seed, steps, batch_tokens, warmup, evaluate_every, patience, checkpoint_every, scored;
    double skew, dropout, rate, decay, clip, smoothing, guidance, diversity;
} srv_train_options;

/* Options that affect the result come first; those that do not begin with the row
 * "checkpoint_every". */
extern const srv_field srv_train_fields[];

void srv_train_defaults(srv_train_options *options);

/* Convert the options to those of the library. */
attn_corpus_options srv_train_corpus(const srv_train_options *options);
attn_model_config srv_train_config(const srv_train_options *options); /* without vocabularies */
attn_training_options srv_train_loop(const srv_train_options *options);

/* Writes "task=copy large=false …", the options that affect the result. A checkpoint stores the
 * text to detect other options. */
void srv_train_say(const srv_train_options *options, char said[SRV_TRAIN_TEXT]);

typedef struct srv_train_cost {
    size_t bytes; /* upper bound on one thread: model, moments, data, passes, file buffers */
} srv_train_cost;

/* Checks the options and computes the cost of a run. Errors: ATTN_EVALUE, ATTN_EARG and ATTN_ELIMIT
 * name the option; ATTN_ENOMEM. */
attn_status srv_train_check(const srv_train_options *options, srv_train_cost *cost,
                            attn_error *err);

#endif
