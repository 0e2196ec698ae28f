/* Training: optimiser, learning-rate schedules, shuffled batches, and the training loop. The loop
 * writes no files. Hooks of the caller store checkpoints. */
#ifndef ATTN_TRAINING_H
#define ATTN_TRAINING_H

#include "bleu.h"
#include "corpus.h"
#include "models.h"
#include "vocabulary.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- optimiser: Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019) ----
 *   m += (1 - beta1) (g - m),   v = beta2 v + (1 - beta2) g^2
 *   p -= rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
 * in float32, as torch.optim computes them. The decay comes first: g += decay p for Adam, and
 * p *= 1 - rate decay for AdamW. */
typedef struct attn_adam {
    double beta1, beta2, epsilon, decay; /* 0.9, 0.999, 1e-8, 0 */
    bool decoupled;                      /* AdamW; default true */
} attn_adam;

/* Makes step t = 1, 2, … on n values with their gradients, first and second moments. The caller
 * sets the moments to 0 before step 1. */
void attn_adam_step(float *values, const float *gradients, float *first, float *second, size_t n,
                    uint64_t t, double rate, const attn_adam *options);

/* Scales the gradients by most / (norm + 1e-6) if their norm exceeds `most`, as
 * torch.nn.utils.clip_grad_norm_ does. If most is 0 it does not change them. Returns the norm
 * before scaling. */
double attn_clip_gradients(float *gradients, size_t n, double most);

/* ---- schedules of the learning rate, at step t = 1, 2, … of `steps` ---- */
typedef enum attn_schedule {
    ATTN_CONSTANT = 0,
    ATTN_INVERSE_ROOT, /* warmed up, then falling as 1 / sqrt(t) (Vaswani et al. 2017) */
    ATTN_COSINE,       /* warmed up, then half a cosine down to 0 (Loshchilov and Hutter 2017) */
} attn_schedule;

/* Returns the learning rate of step t. All schedules rise linearly during the first `warmup` steps:
 * rate t / warmup. */
double attn_schedule_rate(attn_schedule s, double rate, uint64_t t, uint64_t warmup,
                          uint64_t steps);

/* ---- data: sentence pairs as word ids, concatenated ---- */
typedef struct attn_dataset {
    size_t count;
    size_t *source_at, *target_at; /* [count + 1]: pair i is source[source_at[i] …] */
    int32_t *source, *target;      /* without begin and end */
    size_t *link_at;               /* [count + 1] */
    attn_link *links;              /* gold alignments; pair i begins at links[link_at[i]] */
} attn_dataset;

/* Makes a dataset of pairs first … first + count - 1 of a split, in the arena. Errors are those of
 * attn_corpus_pair. */
attn_status attn_dataset_new(const attn_corpus *corpus, attn_split split, uint64_t first,
                             size_t count, const attn_vocabulary *source,
                             const attn_vocabulary *target, attn_arena *arena, attn_dataset *out,
                             attn_error *err);
/* Makes one padded batch of the pairs `indices` [n], in the arena. Its alignment gives each target
 * word equal shares of its sure links, or of its possible links if it has no sure one. The end
 * token has no alignment. */
attn_status attn_dataset_batch(const attn_dataset *data, const size_t *indices, size_t n,
                               attn_arena *arena, attn_batch *out, attn_error *err);

/* One epoch in batches of similar lengths. Pairs are shuffled, sorted by length within runs of 64
 * batches, and cut so that pairs x (longest source + longest target) <= `tokens`, but a batch has
 * at least one pair. Then the batches are shuffled. The result depends only on lengths, tokens,
 * seed and epoch. */
typedef struct attn_epoch {
    size_t *order;  /* pairs */
    size_t *starts; /* [batches + 1]: batch b is order[starts[b]] … */
    size_t batches;
} attn_epoch;
attn_status attn_epoch_new(const attn_dataset *data, size_t tokens, uint64_t seed, uint64_t epoch,
                           attn_arena *arena, attn_epoch *out, attn_error *err);

/* ---- the loop ---- */
typedef struct attn_training_options {
    attn_adam adam;
    attn_schedule schedule;
    double rate;                /* 0.001 */
    uint64_t warmup, steps;     /* 200, 3000 */
    double clip;                /* 1: largest norm of all gradients; 0: no clipping */
    double smoothing;           /* 0: of labels */
    double guidance, diversity; /* 0: of attn_step_options */
    size_t batch_tokens;        /* 2048: source and target words of a batch, padding included */
    uint64_t evaluate_every;    /* 250 steps; 0: only at the end */
    uint64_t checkpoint_every;  /* 0: with every evaluation */
    size_t patience;            /* evaluations without a better loss before it stops; 0: never */
    uint64_t seed;              /* of batches and dropout */
} attn_training_options;
attn_training_options attn_training_defaults(void);

/* The state of training. With the model's values, the data and the options it determines all
 * further steps. */
typedef struct attn_training_state {
    uint64_t step;         /* steps done */
    uint64_t settled;      /* last step whose evaluation, if due, is done */
    uint64_t epoch, batch; /* position of the next batch */
    uint64_t best_step;
    double best_loss;             /* of validation; infinite before the first evaluation */
    size_t waited;                /* evaluations since best_step */
    float *first, *second, *best; /* [attn_parameters_size]: moments; values at best_step */
    size_t size;
} attn_training_state;

/* Makes an initial state in the arena. Errors: ATTN_ENOMEM. */
attn_status attn_training_start(attn_model *model, attn_arena *arena, attn_training_state *out,
                                attn_error *err);

typedef struct attn_training_progress {
    uint64_t step, steps, epoch;
    double loss;             /* mean of the last steps, nats a target word */
    double validation_loss;  /* of the last evaluation; NaN before it */
    double validation_right; /* share of words predicted right, at that evaluation */
    double similarity;       /* attn_similarity_loss, at that evaluation; NaN if none */
    double rate, norm;       /* learning rate; norm of the gradients before clipping */
    double words_per_second, seconds, seconds_left;
    bool evaluated; /* this step ended with an evaluation */
} attn_training_progress;

typedef struct attn_training_hooks {
    void (*progress)(void *ctx, const attn_training_progress *now); /* each step; or NULL */
    /* Stores model and state, from which training can resume with the same results; or NULL. */
    attn_status (*checkpoint)(void *ctx, const attn_training_state *state, attn_error *err);
    void *ctx;
} attn_training_hooks;

/* Trains from `state` until options->steps or until patience ends. If `control` stops it, the
 * status is ATTN_ECANCELED or ATTN_EDEADLINE, and model and state are those of the last complete
 * step. It makes a checkpoint at each evaluation and whenever the loop ends. Afterwards the best
 * values are in state->best (attn_training_take_best). The same model, data, options and state give
 * the same bytes, with or without interruption. Only one thread at a time may train a model. */
attn_status attn_train(attn_model *model, const attn_dataset *train, const attn_dataset *validation,
                       const attn_training_options *options, attn_training_state *state,
                       const attn_training_hooks *hooks, attn_pool *pool,
                       const attn_control *control, attn_error *err);
/* Copies the best values into the model. Without an evaluation the model does not change. */
void attn_training_take_best(attn_model *model, const attn_training_state *state);

/* Evaluation of a model on a dataset: mean loss, share of words predicted right, and similarity of
 * the heads of the cross-attention (attn_similarity_loss; NaN with fewer than two heads). */
typedef struct attn_evaluation {
    double loss, right, similarity;
} attn_evaluation;
attn_status attn_training_evaluate(const attn_model *model, const attn_dataset *data,
                                   size_t batch_tokens, attn_pool *pool,
                                   const attn_control *control, attn_evaluation *out,
                                   attn_error *err);

/* ---- scores of a model on sentence pairs ---- */
enum { ATTN_MEASURE_HEADS = 32 };
typedef struct attn_model_scores {
    attn_bleu bleu;                           /* translations by greedy or beam search */
    attn_alignment heads[ATTN_MEASURE_HEADS]; /* each head of the last cross-attention layer */
    attn_alignment mean;                      /* mean weights of these heads */
    size_t head_count;                        /* 0: the model has no attention */
} attn_model_scores;

/* Translates pairs first … first + count - 1 of a split and adds to the scores, which the caller
 * sets to zeros. For alignments the decoder reads the reference, and each target word is aligned
 * with the source word of its largest weight. */
attn_status attn_model_score(const attn_model *model, const attn_corpus *corpus, attn_split split,
                             uint64_t first, size_t count, const attn_vocabulary *source,
                             const attn_vocabulary *target, size_t beams, attn_pool *pool,
                             const attn_control *control, attn_model_scores *scores,
                             attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
