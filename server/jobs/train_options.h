/* The options of a training run. One table, srv_job_fields, describes them both for the command
 * line of `attnd train` (--batch-tokens) and for bodies of POST /v1/jobs ("batch_tokens"). */
#ifndef SRV_TRAIN_OPTIONS_H
#define SRV_TRAIN_OPTIONS_H

#include <attn/model_config.h>

#include "corpus/corpus.h"
#include "train/training.h"
#include "wire/decode.h"

enum {
    SRV_TRAIN_TEXT = 1536,     /* buffer size of srv_train_say */
    SRV_SCORED_AT_A_TIME = 20, /* sentence pairs that a job scores between two offers of its turn */
};

typedef struct srv_train_options {
    srv_given_bits given; /* bit i: row i of srv_job_fields was given; set by the decoder */
    attn_corpus_options corpus;
    size_t num_pairs, num_validation_pairs, num_scored_pairs;
    size_t minimum;          /* number of occurrences from which a word is known */
    size_t subwords;         /* number of merges of sub-words; 0: whole words */
    attn_model_config model; /* all settings except the sizes of the vocabularies */
    attn_training_options loop;
} srv_train_options;

void srv_train_defaults(srv_train_options *options);

/* Returns whether descriptions leave out a field of srv_job_fields. They leave out a setting of the
 * model that has its default value and that is written only if it was changed (ATTN_OF_CHANGED). */
bool srv_train_leaves_out(const srv_train_options *options, const srv_field *field);
/* Writes the options that affect the trained model as "task=copy large=false …". A checkpoint
 * stores this text, so that training cannot be continued with other options. */
void srv_train_say(const srv_train_options *options, char said[SRV_TRAIN_TEXT]);

/* Checks the options, and sets *bytes to an upper bound of the memory of a training run on one
 * thread: model, optimizer moments, data set, forward and backward passes, file buffers. Errors:
 * ATTN_EVALUE, ATTN_EARG and ATTN_ELIMIT (err->where names the option), and ATTN_ENOMEM. */
attn_status srv_train_check(const srv_train_options *options, size_t *bytes, attn_error *err);

#endif
