/* The options of a training run. One table, srv_job_fields, describes them both for the command line
 * of `attnd train` (--batch-tokens) and for bodies of POST /v1/jobs ("batch_tokens"). */
#ifndef SRV_TRAIN_OPTIONS_H
#define SRV_TRAIN_OPTIONS_H

#include "corpus/corpus.h"
#include "train/training.h"
#include "wire/decode.h"

enum { SRV_TRAIN_TEXT = 1536 }; /* buffer size of srv_train_say */

typedef struct srv_train_options {
    uint64_t given; /* bit i: row i of srv_job_fields was given; set by the decoder */
    /* Values of the library's enumerations; norm: an index into srv_model_norms. */
    int task, architecture, attention, positions, norm, schedule;
    bool large;
    int64_t shortest, longest, num_symbols, num_pairs, num_validation_pairs, minimum,
        subwords;                                        /* of the corpus */
    int64_t width, num_heads, num_layers, feed_forward;  /* of the model */
    int64_t radius, stride, block_size, num_global_keys; /* of its attention's pattern */
    int64_t seed, num_steps, batch_tokens, warmup, evaluate_every, patience, checkpoint_every,
        num_scored_pairs;
    double attention_dropout_p; /* NaN: as dropout_p */
    double skew, dropout_p, rate, decay, clip, smoothing, guidance, diversity;
} srv_train_options;

void srv_train_defaults(srv_train_options *options);

/* Convert the options to those of the library. */
attn_corpus_options srv_train_corpus(const srv_train_options *options);
attn_model_config srv_train_config(const srv_train_options *options); /* no vocabulary sizes */
attn_training_options srv_train_loop(const srv_train_options *options);

/* Writes the options that affect the trained model as "task=copy large=false …". A checkpoint
 * stores this text, so that training cannot be continued with other options. */
void srv_train_say(const srv_train_options *options, char said[SRV_TRAIN_TEXT]);

typedef struct srv_train_cost {
    /* Upper bound of the memory on one thread: model, optimizer moments, data set, forward and
     * backward passes, file buffers. */
    size_t bytes;
} srv_train_cost;

/* Checks the options and computes the cost of a run. Errors: ATTN_EVALUE, ATTN_EARG and ATTN_ELIMIT
 * (err->where names the option), and ATTN_ENOMEM. */
attn_status srv_train_check(const srv_train_options *options, srv_train_cost *cost,
                            attn_error *err);

#endif
