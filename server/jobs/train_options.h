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

/* What decides the result comes first, what does not from the row "checkpoint_every" on. */
extern const srv_field srv_train_fields[];

void srv_train_defaults(srv_train_options *options);

/* The library's options of it. */
attn_corpus_options srv_train_corpus(const srv_train_options *options);
attn_model_config srv_train_config(const srv_train_options *options); /* without vocabularies */
attn_training_options srv_train_loop(const srv_train_options *options);

/* "task=copy large=false …": what decides the result, so that a checkpoint can tell whose it is. */
void srv_train_say(const srv_train_options *options, char said[SRV_TRAIN_TEXT]);

typedef struct srv_train_cost {
    size_t bytes; /* at most, on one thread: model, moments, data, passes, files on their way */
} srv_train_cost;

/* Checks that a run can be made of the options, and tells its cost. Errors: ATTN_EVALUE, ATTN_EARG,
 * ATTN_ELIMIT at the option's name; ATTN_ENOMEM. */
attn_status srv_train_check(const srv_train_options *options, srv_train_cost *cost,
                            attn_error *err);

#endif
