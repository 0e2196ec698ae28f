/* Training: Adam, clipping of gradients, learning-rate schedules and the training loop. The order
 * of batches and dropout draw from separate random streams of the seed. */
#include <math.h>
#include <string.h>

#include "attn/rng.h"
#include "base/try.h"
#include "kernels/pointwise.h"
#include "layers/layers.h"
#include "train/training.h"

void attn_adam_step(float *values, const float *gradients, float *first, float *second, size_t n,
                    uint64_t t, double rate, const attn_adam *options) {
    const attn_adam_row step = {
        .keep = (float)(1 - options->beta1),
        .fade = (float)options->beta2,
        .fresh = (float)(1 - options->beta2),
        .epsilon = (float)options->epsilon,
        .root = (float)sqrt(1 - pow(options->beta2, (double)t)),
        .step = (float)(rate / (1 - pow(options->beta1, (double)t))),
        .shrink = options->decoupled ? (float)(1 - rate * options->decay) : 1,
        .decay = options->decoupled ? 0 : (float)options->decay,
    };
    attn_pointwise_current()->adam(values, gradients, first, second, n, &step);
}

double attn_clip_gradients(float *gradients, size_t n, double most) {
    const double norm = sqrt(attn_pointwise_current()->dot(gradients, gradients, n));
    const double scale = most / (norm + 1e-6);
    if (most > 0 && scale < 1)
        attn_pointwise_current()->scale(gradients, (float)scale, n);
    return norm;
}

double attn_schedule_rate(attn_schedule s, double rate, uint64_t t, uint64_t warmup,
                          uint64_t steps) {
    const double pi = 3.14159265358979323846;
    if (t < warmup)
        return rate * (double)t / (double)warmup;
    if (s == ATTN_INVERSE_ROOT)
        return rate * sqrt((double)(warmup ? warmup : 1) / (double)t);
    if (s == ATTN_COSINE && steps > warmup) {
        double way = (double)(t < steps ? t - warmup : steps - warmup) / (double)(steps - warmup);
        return rate * 0.5 * (1 + cos(pi * way));
    }
    return rate;
}

typedef struct loop {
    attn_model *model;
    attn_parameters *set;
    const attn_dataset *train, *validation;
    const attn_training_options *options;
    attn_training_state *state;
    const attn_training_hooks *hooks;
    attn_pool *pool;
    const attn_control *control;
    attn_arena *arena; /* reset before each step */
    attn_training_progress now;
    int64_t began;  /* time of the start in ns (attn_now_ns) */
    uint64_t first; /* number of steps that were complete when attn_train was called */
    double words;   /* number of target words of the steps since attn_train was called */
} loop;

/* Streams of the seed: one for the order of batches, one for dropout. */
enum { ORDER, DROPOUT };

/* Limit of an arena in bytes. It is never reached: batch_tokens bounds the memory of a batch. */
static const size_t PASS_BYTES = SIZE_MAX >> 1;

attn_training_options attn_training_defaults(void) {
    return (attn_training_options){.adam = {0.9, 0.999, 1e-8, 0, true},
                                   .schedule = ATTN_INVERSE_ROOT,
                                   .rate = 0.001,
                                   .warmup = 200,
                                   .steps = 3000,
                                   .clip = 1,
                                   .batch_tokens = 2048,
                                   .evaluate_every = 250};
}

attn_status attn_training_start(attn_model *model, attn_arena *arena, attn_training_state *out,
                                attn_error *err) {
    size_t n = attn_parameters_size(attn_model_parameters(model));
    attn_training_state s = {.best_loss = INFINITY, .size = n};
    s.first = attn_arena_zeroed(arena, n, sizeof *s.first);
    s.second = attn_arena_zeroed(arena, n, sizeof *s.second);
    s.best = attn_arena_zeroed(arena, n, sizeof *s.best);
    ATTN_TAKEN(s.first && s.second && s.best, "the moments of the parameters", err);
    *out = s;
    return ATTN_OK;
}

void attn_training_take_best(attn_model *model, const attn_training_state *state) {
    if (isfinite(state->best_loss))
        memcpy(attn_parameters_values(attn_model_parameters(model)), state->best,
               state->size * sizeof *state->best);
}

static double seconds_since(int64_t then) {
    return (double)(attn_now_ns() - then) * 1e-9;
}

/* Computes the gradients of one batch and makes one step of the optimiser. */
static attn_status step(loop *l, const size_t *pairs, size_t count, attn_arena *arena,
                        attn_error *err) {
    const attn_training_options *o = l->options;
    attn_training_state *s = l->state;
    uint64_t t = s->step + 1;
    attn_batch batch;
    attn_cross_entropy_loss loss;
    const attn_model_pass pass = {.trains = true, .guides = o->guidance > 0 || o->diversity > 0};
    ATTN_TRY(attn_batch_begin(l->model, pass, attn_pool_slots(l->pool), l->train, pairs, count,
                              arena, &batch, err));
    const attn_step_options options = {.seed = attn_rng_bits(attn_rng_bits(o->seed, DROPOUT), t),
                                       .smoothing = o->smoothing,
                                       .guidance = o->guidance,
                                       .diversity = o->diversity};
    attn_parameters_zero_gradients(l->set);
    ATTN_TRY(attn_model_step(l->model, &batch, &options, arena, l->pool, l->control, &loss, err));
    float *gradients = attn_parameters_gradients(l->set);
    l->now.norm = attn_clip_gradients(gradients, s->size, o->clip);
    if (!isfinite(l->now.norm) || !isfinite(loss.loss))
        return attn_fail(
            err, ATTN_ENONFINITE, "loss",
            "step %llu: the loss or its gradients are not finite; a smaller rate helps",
            (unsigned long long)t);
    l->now.rate = attn_schedule_rate(o->schedule, o->rate, t, o->warmup, o->steps);
    attn_adam_step(attn_parameters_values(l->set), gradients, s->first, s->second, s->size, t,
                   l->now.rate, &o->adam);
    s->step = t;
    s->batch++;
    l->words += (double)loss.rows;
    l->now.loss = t == l->first + 1 ? loss.loss : l->now.loss + 0.05 * (loss.loss - l->now.loss);
    return ATTN_OK;
}

static attn_status evaluate(loop *l, attn_error *err) {
    attn_training_state *s = l->state;
    attn_evaluation found;
    ATTN_TRY(attn_training_evaluate(l->model, l->validation, l->options->batch_tokens, l->pool,
                                    l->control, &found, err));
    l->now.validation_loss = found.loss;
    l->now.validation_right = found.right;
    l->now.similarity = found.similarity;
    if (found.loss < s->best_loss) {
        s->best_loss = found.loss;
        s->best_step = s->step;
        s->waited = 0;
        memcpy(s->best, attn_parameters_values(l->set), s->size * sizeof *s->best);
    } else {
        s->waited++;
    }
    return ATTN_OK;
}

static attn_status checkpoint(const loop *l, attn_error *err) {
    if (!l->hooks || !l->hooks->checkpoint)
        return ATTN_OK;
    return l->hooks->checkpoint(l->hooks->ctx, l->state, err);
}

static void report(loop *l, bool evaluated) {
    attn_training_progress *now = &l->now;
    uint64_t done = l->state->step - l->first;
    now->step = l->state->step, now->steps = l->options->steps, now->epoch = l->state->epoch;
    now->seconds = seconds_since(l->began);
    now->words_per_second = now->seconds > 0 ? l->words / now->seconds : 0;
    now->seconds_left =
        done ? now->seconds / (double)done * (double)(l->options->steps - l->state->step) : 0;
    now->evaluated = evaluated;
    if (l->hooks && l->hooks->progress)
        l->hooks->progress(l->hooks->ctx, now);
}

static bool is_due(uint64_t every, uint64_t step) {
    return every && step % every == 0;
}

static bool is_over(const loop *l) {
    const attn_training_options *o = l->options;
    return l->state->step >= o->steps || (o->patience && l->state->waited >= o->patience);
}

/* Makes the evaluation, the checkpoint and the report that are due after a step. Training may stop
 * between a step and its evaluation, so state->settled records the last step whose evaluation is
 * complete. */
static attn_status finish_step(loop *l, attn_error *err) {
    const attn_training_options *o = l->options;
    attn_training_state *s = l->state;
    bool due = is_due(o->evaluate_every, s->step) || s->step == o->steps;
    if (s->step == s->settled)
        return ATTN_OK;
    if (due)
        ATTN_TRY(evaluate(l, err));
    s->settled = s->step;
    if (o->checkpoint_every ? is_due(o->checkpoint_every, s->step) : due)
        ATTN_TRY(checkpoint(l, err));
    report(l, due);
    return ATTN_OK;
}

static attn_status advance(loop *l, const attn_epoch *epoch, attn_error *err) {
    size_t from = epoch->starts[l->state->batch], to = epoch->starts[l->state->batch + 1];
    ATTN_TRY(step(l, epoch->order + from, to - from, l->arena, err));
    return finish_step(l, err);
}

static attn_status run_epoch(loop *l, attn_error *err) {
    attn_arena *arena = attn_arena_new(PASS_BYTES);
    attn_epoch epoch;
    attn_status status = arena ? attn_epoch_new(l->train, l->options->batch_tokens,
                                                attn_rng_bits(l->options->seed, ORDER),
                                                l->state->epoch, arena, &epoch, err)
                               : attn_fail(err, ATTN_ENOMEM, "training", "no memory for an epoch");
    while (!status && l->state->batch < epoch.batches && !is_over(l))
        status = advance(l, &epoch, err);
    if (!status && l->state->batch >= epoch.batches) {
        l->state->epoch++;
        l->state->batch = 0;
    }
    attn_arena_free(arena);
    return status;
}

attn_status attn_train(attn_model *model, const attn_dataset *train, const attn_dataset *validation,
                       const attn_training_options *options, attn_training_state *state,
                       const attn_training_hooks *hooks, attn_pool *pool,
                       const attn_control *control, attn_error *err) {
    loop l = {.model = model,
              .set = attn_model_parameters(model),
              .train = train,
              .validation = validation,
              .options = options,
              .state = state,
              .hooks = hooks,
              .pool = pool,
              .control = control,
              .began = attn_now_ns(),
              .first = state->step};
    l.now.validation_loss = l.now.validation_right = l.now.similarity = NAN;
    if (!train->count || !validation->count)
        return attn_fail(err, ATTN_EARG, "training", "needs pairs for training and validation");
    if (!(options->rate >= 0 && isfinite(options->rate)))
        return attn_fail(err, ATTN_EARG, "rate", "expected a rate of 0 or more, found %g",
                         options->rate);
    if ((unsigned)options->schedule > ATTN_COSINE)
        return attn_fail(err, ATTN_EARG, "schedule", "there is no schedule of the number %d",
                         (int)options->schedule);
    l.arena = attn_arena_new(PASS_BYTES);
    ATTN_TAKEN(l.arena, "a batch", err);
    attn_status status = finish_step(&l, err);
    while (!status && !is_over(&l))
        status = run_epoch(&l, err);
    attn_arena_free(l.arena);
    attn_status kept = checkpoint(&l, status ? NULL : err);
    return status ? status : kept;
}
