/* Training: optimiser, learning-rate schedules, shuffled batches and the training loop. The loop
 * writes no files; a hook of the caller stores checkpoints. */
#ifndef ATTN_TRAINING_H
#define ATTN_TRAINING_H

#include "attn/models.h"
#include "attn/tokens.h"
#include "corpus/bleu.h"
#include "corpus/corpus.h"

/* ---- optimiser: Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019) ----
 *
 * For a value p with gradient g, first moment m and second moment v, step t computes
 *
 *   m += (1 - beta1) (g - m),   v = beta2 v + (1 - beta2) g^2
 *   p -= rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
 *
 * in float32, as torch.optim does. Weight decay is applied before: g += decay p for Adam, p *= 1 -
 * rate decay for AdamW. */
typedef struct attn_adam {
    double beta1, beta2, epsilon, decay; /* defaults 0.9, 0.999, 1e-8, 0 */
    bool decoupled;                      /* true: AdamW (default); false: Adam */
} attn_adam;

/* Makes step t = 1, 2, … of the optimiser on n values. `first` and `second` [n] are the first and
 * second moments, which must be 0 before step 1. */
void attn_adam_step(float *values, const float *gradients, float *first, float *second, size_t n,
                    uint64_t t, double rate, const attn_adam *options);

/* Scales n gradients by most / (norm + 1e-6) if this factor is below 1, as
 * torch.nn.utils.clip_grad_norm_ does. `norm` is their Euclidean norm. If `most` is 0, never
 * scales. Returns the norm before scaling. */
double attn_clip_gradients(float *gradients, size_t n, double most);

/* ---- schedules of the learning rate, at step t = 1, 2, … of `steps` ---- */
typedef enum attn_schedule {
    ATTN_CONSTANT = 0,
    ATTN_INVERSE_ROOT, /* rises during warmup, then falls as 1 / sqrt(t) (Vaswani et al. 2017) */
    /* rises during warmup, then falls to 0 as half a cosine (Loshchilov and Hutter 2017) */
    ATTN_COSINE,
} attn_schedule;

/* Returns the learning rate of step t, at most `rate`. During the first `warmup` steps all
 * schedules rise linearly: rate t / warmup. */
double attn_schedule_rate(attn_schedule s, double rate, uint64_t t, uint64_t warmup,
                          uint64_t steps);

/* ---- data ---- */
/* Which sides of a sentence pair a model reads and predicts. */
typedef enum attn_dataset_kind {
    ATTN_DATA_PAIRS, /* the model reads the source and predicts the target word by word */
    /* An encoder alone reads the source and predicts a class for each word. The class of source
     * word i is target word i. */
    ATTN_DATA_CLASSES,
    ATTN_DATA_SENTENCES /* a decoder alone predicts the source word by word */
} attn_dataset_kind;
/* Returns the kind of data that a model learns from. */
attn_dataset_kind attn_dataset_kind_of(const attn_model_config *config);

/* Sentence pairs as word ids, one pair after the other. */
typedef struct attn_dataset {
    attn_dataset_kind kind;
    size_t count;
    /* [count + 1] each. Pair i has the source tokens source[source_at[i]] …
     * source[source_at[i + 1] - 1]. Its target tokens are found likewise. */
    size_t *source_at, *target_at;
    int32_t *source, *target; /* token ids, without begin and end */
    int32_t pad, begin, end;  /* ids of special tokens that attn_dataset_batch adds */
    /* [count + 1] Pair i has the links links[link_at[i]] … links[link_at[i + 1] - 1]. */
    size_t *link_at;
    attn_link *links; /* gold alignments (corpus.h) between tokens */
} attn_dataset;

/* Makes a dataset of the pairs first … first + count - 1 of a split, in the arena. For
 * ATTN_DATA_SENTENCES the tokenizer `target` reads the sources, and `source` is not used. Errors:
 * ATTN_ENOMEM; those of attn_corpus_pair; ATTN_EARG at "task" if, for ATTN_DATA_CLASSES, the source
 * and the target of a pair differ in their number of words. */
attn_status attn_dataset_new(const attn_corpus *corpus, attn_split split, uint64_t first,
                             size_t count, attn_dataset_kind kind, const attn_tokenizer *source,
                             const attn_tokenizer *target, attn_arena *arena, attn_dataset *out,
                             attn_error *err);
/* Makes a padded batch of the pairs `indices` [n], in the arena. In the batch's alignment, the sure
 * links of a target token have equal weights with the sum 1. If a target token has possible links
 * only, these have equal weights with the sum 1. The row of the end token is 0. Errors: ATTN_EARG
 * (an index is out of range), ATTN_ENOMEM. */
attn_status attn_dataset_batch(const attn_dataset *data, const size_t *indices, size_t n,
                               attn_arena *arena, attn_batch *out, attn_error *err);
/* Returns the cost of a pass over a batch of B pairs of S source and T target tokens. Its bytes
 * include those of the batch. `pass` describes the pass; its sizes are not read. S or T is 0 if the
 * model does not read that side. */
attn_model_cost attn_batch_cost(const attn_model *model, size_t B, size_t S, size_t T,
                                attn_model_pass pass, size_t slots);
/* Empties the arena, allocates the memory of the pass in one piece, so that batches which differ in
 * size waste none, and makes the batch. Errors: as attn_dataset_batch. */
attn_status attn_batch_begin(const attn_model *model, attn_model_pass pass, size_t slots,
                             const attn_dataset *data, const size_t *indices, size_t n,
                             attn_arena *arena, attn_batch *out, attn_error *err);

/* attn_epoch_new sorts pairs by length within groups. A group makes about this many batches. */
enum { ATTN_GROUP_BATCHES = 64 };

/* One epoch: all pairs of a dataset, each once, in batches of similar lengths. */
typedef struct attn_epoch {
    size_t *order;  /* [count] pairs in the order of training */
    size_t *starts; /* [batches + 1] Batch b is order[starts[b]] … order[starts[b + 1] - 1]. */
    size_t batches;
} attn_epoch;
/* Makes an epoch in the arena. The pairs are shuffled, then sorted by length within groups, and
 * then divided into batches. In a batch, the number of pairs times (longest source + longest target
 * with its end token) is at most `tokens`; a pair that alone exceeds `tokens` is a batch of its
 * own. Then the batches are shuffled. The result depends only on the lengths of the pairs, tokens,
 * seed and epoch. Error: ATTN_ENOMEM. */
attn_status attn_epoch_new(const attn_dataset *data, size_t tokens, uint64_t seed, uint64_t epoch,
                           attn_arena *arena, attn_epoch *out, attn_error *err);

/* ---- the loop ---- */
/* Options of training. Numbers at the beginning of a comment are defaults. */
typedef struct attn_training_options {
    attn_adam adam;
    attn_schedule schedule;
    double rate;                /* 0.001: largest learning rate */
    uint64_t warmup;            /* 200: optimiser steps during which the rate rises */
    uint64_t steps;             /* 3000: optimiser steps altogether */
    double clip;                /* 1: limit for the norm of all gradients together; 0: no limit */
    double smoothing;           /* 0: label smoothing */
    double guidance, diversity; /* 0 each: weights of the losses of attn_step_options */
    size_t batch_tokens;        /* 2048: `tokens` of attn_epoch_new */
    uint64_t evaluate_every;    /* 250: steps between evaluations; 0: only one at the end */
    uint64_t checkpoint_every; /* 0: steps between checkpoints; 0 means one after each evaluation */
    /* 0: training stops after this number of evaluations in a row without a lower loss; 0 means
     * that training does not stop for this reason */
    size_t patience;
    uint64_t seed; /* 0: seed of the order of batches and of dropout */
} attn_training_options;
/* Returns the options with their default values. */
attn_training_options attn_training_defaults(void);

/* The state of training. Together with the model's values, the data and the options it determines
 * all further steps. */
typedef struct attn_training_state {
    uint64_t step;         /* number of complete steps */
    uint64_t settled;      /* last step whose evaluation, if one is due, is complete */
    uint64_t epoch, batch; /* epoch, and batch within it, of the next step */
    uint64_t best_step;    /* step of the evaluation with the lowest loss */
    double best_loss;      /* validation loss at best_step; infinite before the first evaluation */
    size_t waited;         /* evaluations since the one at best_step */
    /* [size] each: Adam's first and second moments, and the model's values at best_step */
    float *first, *second, *best;
    size_t size; /* number of parameter values (attn_parameters_size) */
} attn_training_state;

/* Makes the state before step 1, in the arena. Error: ATTN_ENOMEM. */
attn_status attn_training_start(attn_model *model, attn_arena *arena, attn_training_state *out,
                                attn_error *err);

/* A report after each step. */
typedef struct attn_training_progress {
    uint64_t step, steps, epoch;
    double loss;             /* running mean over about 20 steps, in nats for each target word */
    double validation_loss;  /* validation loss at the last evaluation; NaN before the first */
    double validation_right; /* share of target words predicted right, at the last evaluation */
    /* `similarity` of the last attn_evaluation; NaN before the first */
    double similarity;
    double rate;             /* learning rate of the step */
    double norm;             /* norm of all gradients together, before clipping */
    double words_per_second; /* speed of training in target words */
    double seconds;          /* time since attn_train was called */
    double seconds_left;     /* estimated time to the last step */
    bool evaluated;          /* the model was evaluated after this step */
} attn_training_progress;

typedef struct attn_training_hooks {
    /* called after each step; or NULL */
    void (*progress)(void *ctx, const attn_training_progress *now);
    /* Stores model and state, so that training can resume with the same results. An error ends
     * training. NULL: there are no checkpoints. */
    attn_status (*checkpoint)(void *ctx, const attn_training_state *state, attn_error *err);
    void *ctx;
} attn_training_hooks;

/* Trains from `state` until options->steps are done or options->patience is used up. Checkpoints
 * are made as the options say, and one when training ends, even by an error. Afterwards state->best
 * has the best values (attn_training_take_best). The same model, data, options and state give the
 * same bytes, with or without interruption. Only one thread at a time may train a model. Errors,
 * beside those of the checkpoint hook:
 *
 *   ATTN_ECANCELED, ATTN_EDEADLINE  `control` stopped training; model and state are those of the
 *                                   last complete step
 *   ATTN_EARG                       an option is out of range, or a dataset is empty
 *   ATTN_ENONFINITE                 the loss or a gradient became infinite or NaN
 *   ATTN_ENOMEM                     no memory for a batch */
attn_status attn_train(attn_model *model, const attn_dataset *train, const attn_dataset *validation,
                       const attn_training_options *options, attn_training_state *state,
                       const attn_training_hooks *hooks, attn_pool *pool,
                       const attn_control *control, attn_error *err);
/* Copies state->best into the model, unless there was no evaluation yet. */
void attn_training_take_best(attn_model *model, const attn_training_state *state);

/* Evaluation of a model on a dataset. */
typedef struct attn_evaluation {
    double loss;  /* mean loss in nats for each target word */
    double right; /* share of the target words that were predicted right */
    /* attn_similarity_loss of the last cross-attention; NaN if it has one head or does not exist */
    double similarity;
    double rows; /* number of words that were predicted */
} attn_evaluation;
attn_status attn_training_evaluate(const attn_model *model, const attn_dataset *data,
                                   size_t batch_tokens, attn_pool *pool,
                                   const attn_control *control, attn_evaluation *out,
                                   attn_error *err);

/* ---- scores of a model on sentence pairs ---- */
/* Largest number of heads whose alignments are scored. */
enum { ATTN_MEASURE_HEADS = 32 };
/* `batch_tokens` of attn_training_evaluate when a model of one stack predicts words. */
enum { ATTN_SCORE_TOKENS = 2048 };
typedef struct attn_model_scores {
    /* words, loss and right are set for a model of one stack, and all other members for other
     * models. The rest are 0. */
    double words;   /* number of predicted words */
    double loss;    /* sum of the losses of these words, in nats */
    double right;   /* number of these words that are predicted right */
    attn_bleu bleu; /* BLEU of translations by beam search; one beam is greedy search */
    /* alignment by each head of the last cross-attention layer */
    attn_alignment heads[ATTN_MEASURE_HEADS];
    attn_alignment mean; /* alignment by the mean of all heads of that layer */
    size_t head_count;   /* number of heads with scores; 0: the model has no cross-attention */
} attn_model_scores;

/* Translates the pairs first … first + count - 1 of a split; a model of one stack predicts their
 * words instead. Adds the results to *scores, which the caller sets to zeros before the first call.
 * For alignments the decoder reads the reference translation, and each target word is aligned with
 * the source word of its largest weight. Errors: ATTN_ENOMEM; those of attn_model_generate,
 * attn_model_forward, attn_dataset_new and attn_corpus_pair. */
attn_status attn_model_score(const attn_model *model, const attn_corpus *corpus, attn_split split,
                             uint64_t first, size_t count, const attn_tokenizer *source,
                             const attn_tokenizer *target, size_t beams, attn_pool *pool,
                             const attn_control *control, attn_model_scores *scores,
                             attn_error *err);

#endif
