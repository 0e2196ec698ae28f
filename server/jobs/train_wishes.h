/* What a training run can be asked for: one table for the command line (--batch-tokens) and for
 * bodies of POST /v1/jobs ("batch_tokens"). */
#ifndef SRV_TRAIN_WISHES_H
#define SRV_TRAIN_WISHES_H

#include <attn/attn.h>

#include "wire/decode.h"

enum { SRV_TRAIN_TEXT = 1536 };

typedef struct srv_train_wishes {
    uint64_t given;
    int task, architecture, attention, positions, norm, schedule; /* the library's enumerations */
    bool large;
    int64_t shortest, longest, symbols, pairs, validation, minimum; /* the corpus */
    int64_t width, heads, layers, feed_forward;                     /* the model */
    int64_t seed, steps, batch_tokens, warmup, evaluate_every, patience, checkpoint_every, scored;
    double skew, dropout, rate, decay, clip, smoothing, guidance, diversity;
} srv_train_wishes;

/* What decides the result comes first, what does not from the row "checkpoint_every" on. */
extern const srv_field srv_train_fields[];

void srv_train_defaults(srv_train_wishes *wishes);

/* The library's options of it. */
attn_corpus_options srv_train_corpus(const srv_train_wishes *wishes);
attn_model_config srv_train_config(const srv_train_wishes *wishes); /* without vocabularies */
attn_training_options srv_train_options(const srv_train_wishes *wishes);

/* "task=copy large=false …": what decides the result, so that a checkpoint can tell whose it is. */
void srv_train_say(const srv_train_wishes *wishes, char said[SRV_TRAIN_TEXT]);

#endif
