/* The table of a training run's wishes. */
#include "jobs/train_wishes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/model_keys.h"

#define MOST_SEED 9007199254740991.0

static const char *const tasks[] = {"en-fr", "copy", "reverse", "sort", NULL};
static const char *const schedules[] = {"constant", "inverse-root", "cosine", NULL};

#define ROW(member, what, least, most, text)                                                       \
    {                                                                                              \
        .name = #member, .kind = what, .offset = offsetof(srv_train_wishes, member), .min = least, \
        .max = most, .doc = text                                                                   \
    }
#define CHOICE(member, list, text)                                                                 \
    {                                                                                              \
        .name = #member, .kind = SRV_ENUM, .offset = offsetof(srv_train_wishes, member),           \
        .choices = list, .doc = text                                                               \
    }

const srv_field srv_train_fields[] = {
    CHOICE(task, tasks, "What to learn: en-fr (default), copy, reverse or sort."),
    ROW(large, SRV_BOOL, 0, 0, "en-fr: all words of the lexicon."),
    ROW(shortest, SRV_INT, 1, 60, "Source words at least."),
    ROW(longest, SRV_INT, 1, 60, "Source words at most."),
    ROW(skew, SRV_REAL, 0.01, 100, "Above 1: more short sentences."),
    ROW(symbols, SRV_INT, 2, 1000, "Numbers of copy, reverse and sort."),
    ROW(pairs, SRV_INT, 1, 10e6, "Sentence pairs to train on."),
    ROW(validation, SRV_INT, 1, 1e6, "Sentence pairs of validation."),
    ROW(minimum, SRV_INT, 1, 1e6, "Words that are rarer in training are unknown."),
    CHOICE(architecture, srv_model_architectures, "How the model is built."),
    CHOICE(attention, srv_model_attentions, "How the decoder looks at the source."),
    CHOICE(positions, srv_model_positions, "How the model knows where a word stands."),
    ROW(width, SRV_INT, 2, 4096, "Width of the model, even."),
    ROW(heads, SRV_INT, 1, 4096, "Heads of attention, which divide the width."),
    ROW(layers, SRV_INT, 1, ATTN_MODEL_LAYERS, "Layers of encoder and decoder."),
    ROW(feed_forward, SRV_INT, 0, 16384,
        "Of a transformer: width inside of feed-forward; 0: 4 x width."),
    CHOICE(norm, srv_model_norms,
           "Of a transformer: layer norms before (default) or after attention and feed-forward."),
    ROW(dropout, SRV_REAL, 0, 0.99, "Share that is dropped in training."),
    ROW(seed, SRV_INT, 0, MOST_SEED, "Of initial values, batches and dropout."),
    ROW(steps, SRV_INT, 1, 1e9, "Batches to train on."),
    ROW(batch_tokens, SRV_INT, 1, 1e6, "Words of a batch, padding among them."),
    ROW(rate, SRV_REAL, 0, 100, "Learning rate."),
    CHOICE(schedule, schedules, "How the rate goes: constant, inverse-root (default) or cosine."),
    ROW(warmup, SRV_INT, 0, 1e9, "Steps in which the rate rises."),
    ROW(decay, SRV_REAL, 0, 100, "Decay of the weights (AdamW)."),
    ROW(clip, SRV_REAL, 0, 1e9, "Norm of the gradients at most; 0: any."),
    ROW(smoothing, SRV_REAL, 0, 0.99, "Smoothing of labels."),
    ROW(guidance, SRV_REAL, 0, 100,
        "Weight of a loss that holds a head of the attention across against gold alignments."),
    ROW(diversity, SRV_REAL, 0, 100,
        "Weight of a loss that keeps the heads of the attention across from looking alike."),
    ROW(evaluate_every, SRV_INT, 0, 1e9, "Steps between evaluations; 0: only at the end."),
    ROW(patience, SRV_INT, 0, 1e9,
        "Stop after so many evaluations without a better loss; 0: never."),
    ROW(checkpoint_every, SRV_INT, 0, 1e9, "Steps between checkpoints; 0: with each evaluation."),
    ROW(scored, SRV_INT, 0, 1e6, "Held-out pairs to score at the end."),
    {0},
};

void srv_train_defaults(srv_train_wishes *w) {
    const attn_corpus_options corpus = attn_corpus_defaults();
    const attn_model_config config = attn_model_defaults();
    const attn_training_options training = attn_training_defaults();
    *w = (srv_train_wishes){
        .schedule = (int)training.schedule,
        .shortest = (int64_t)corpus.shortest,
        .longest = 20,
        .symbols = (int64_t)corpus.symbols,
        .skew = corpus.skew,
        .pairs = 20000,
        .validation = 500,
        .scored = 500,
        .minimum = 1,
        .width = (int64_t)config.width,
        .heads = (int64_t)config.heads,
        .layers = (int64_t)config.layers,
        .feed_forward = (int64_t)config.feed_forward,
        .dropout = config.dropout,
        .steps = (int64_t)training.steps,
        .batch_tokens = (int64_t)training.batch_tokens,
        .rate = training.rate,
        .warmup = (int64_t)training.warmup,
        .decay = training.adam.decay,
        .clip = training.clip,
        .smoothing = training.smoothing,
        .guidance = training.guidance,
        .diversity = training.diversity,
        .evaluate_every = (int64_t)training.evaluate_every,
        .checkpoint_every = (int64_t)training.checkpoint_every,
        .patience = (int64_t)training.patience,
    };
}

attn_corpus_options srv_train_corpus(const srv_train_wishes *w) {
    attn_corpus_options o = attn_corpus_defaults();
    o.task = (attn_task)w->task;
    o.large = w->large;
    o.shortest = (size_t)w->shortest;
    o.longest = (size_t)w->longest;
    o.skew = w->skew;
    o.symbols = (size_t)w->symbols;
    return o;
}

attn_model_config srv_train_config(const srv_train_wishes *w) {
    attn_model_config c = attn_model_defaults();
    c.architecture = (attn_model_architecture)w->architecture;
    c.attention = (attn_model_attention)w->attention;
    c.positions = (attn_model_positions)w->positions;
    c.width = (size_t)w->width;
    c.heads = (size_t)w->heads;
    c.layers = (size_t)w->layers;
    c.feed_forward = (size_t)w->feed_forward;
    c.norm_after = w->norm == 1;
    c.dropout = w->dropout;
    return c;
}

attn_training_options srv_train_options(const srv_train_wishes *w) {
    attn_training_options o = attn_training_defaults();
    o.schedule = (attn_schedule)w->schedule;
    o.rate = w->rate;
    o.adam.decay = w->decay;
    o.warmup = (uint64_t)w->warmup;
    o.steps = (uint64_t)w->steps;
    o.clip = w->clip;
    o.smoothing = w->smoothing;
    o.guidance = w->guidance;
    o.diversity = w->diversity;
    o.batch_tokens = (size_t)w->batch_tokens;
    o.evaluate_every = (uint64_t)w->evaluate_every;
    o.checkpoint_every = (uint64_t)w->checkpoint_every;
    o.patience = (size_t)w->patience;
    o.seed = (uint64_t)w->seed;
    return o;
}

static void value_text(const srv_field *f, const void *place, char *text, size_t room) {
    if (f->kind == SRV_BOOL)
        snprintf(text, room, "%s", *(const bool *)place ? "true" : "false");
    else if (f->kind == SRV_INT)
        snprintf(text, room, "%" PRId64, *(const int64_t *)place);
    else if (f->kind == SRV_REAL)
        snprintf(text, room, "%.17g", *(const double *)place);
    else
        snprintf(text, room, "%s", f->choices[*(const int *)place]);
}

void srv_train_say(const srv_train_wishes *w, char said[SRV_TRAIN_TEXT]) {
    size_t at = 0;
    for (const srv_field *f = srv_train_fields; strcmp(f->name, "checkpoint_every"); f++) {
        char value[40];
        value_text(f, (const char *)w + f->offset, value, sizeof value);
        if (at < SRV_TRAIN_TEXT)
            at += (size_t)snprintf(said + at, SRV_TRAIN_TEXT - at, "%s%s=%s", at ? " " : "",
                                   f->name, value);
    }
}
