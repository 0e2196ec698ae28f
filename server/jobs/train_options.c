/* The options of a training run: their conversion to options of the library, and an
 * upper bound of the memory that a run needs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/jobs.h"

void srv_train_defaults(srv_train_options *w) {
    const attn_corpus_options corpus = attn_corpus_defaults();
    const attn_model_config config = attn_model_defaults();
    const attn_training_options training = attn_training_defaults();
    *w = (srv_train_options){
        .schedule = (int)training.schedule,
        .shortest = (int64_t)corpus.shortest,
        .longest = 20,
        .num_symbols = (int64_t)corpus.symbols,
        .skew = corpus.skew,
        .num_pairs = 20000,
        .num_validation_pairs = 500,
        .num_scored_pairs = 500,
        .minimum = 1,
        .width = (int64_t)config.width,
        .num_heads = (int64_t)config.num_heads,
        .num_layers = (int64_t)config.num_layers,
        .feed_forward = (int64_t)config.feed_forward,
        .radius = (int64_t)config.radius,
        .stride = (int64_t)config.stride,
        .block_size = (int64_t)config.block_size,
        .num_global_keys = (int64_t)config.num_global_keys,
        .dropout_p = config.dropout_p,
        .attention_dropout_p = (double)NAN,
        .num_steps = (int64_t)training.steps,
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

attn_corpus_options srv_train_corpus(const srv_train_options *w) {
    attn_corpus_options o = attn_corpus_defaults();
    o.task = (attn_task)w->task;
    o.large = w->large;
    o.shortest = (size_t)w->shortest;
    o.longest = (size_t)w->longest;
    o.skew = w->skew;
    o.symbols = (size_t)w->num_symbols;
    return o;
}

attn_model_config srv_train_config(const srv_train_options *w) {
    attn_model_config c = attn_model_defaults();
    c.architecture = (attn_model_architecture)w->architecture;
    c.attention = (attn_model_attention)w->attention;
    c.positions = (attn_model_positions)w->positions;
    c.width = (size_t)w->width;
    c.num_heads = (size_t)w->num_heads;
    c.num_layers = (size_t)w->num_layers;
    c.feed_forward = (size_t)w->feed_forward;
    c.radius = (size_t)w->radius;
    c.stride = (size_t)w->stride;
    c.block_size = (size_t)w->block_size;
    c.num_global_keys = (size_t)w->num_global_keys;
    c.norm_after = w->norm == 1;
    c.dropout_p = w->dropout_p;
    c.attention_dropout_p = isnan(w->attention_dropout_p) ? -1 : w->attention_dropout_p;
    return c;
}

attn_training_options srv_train_loop(const srv_train_options *w) {
    attn_training_options o = attn_training_defaults();
    o.schedule = (attn_schedule)w->schedule;
    o.rate = w->rate;
    o.adam.decay = w->decay;
    o.warmup = (uint64_t)w->warmup;
    o.steps = (uint64_t)w->num_steps;
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

void srv_train_say(const srv_train_options *w, char said[SRV_TRAIN_TEXT]) {
    size_t at = 0;
    for (const srv_field *f = srv_job_fields; strcmp(f->name, "checkpoint_every"); f++) {
        char value[40];
        value_text(f, (const char *)w + f->offset, value, sizeof value);
        if (at < SRV_TRAIN_TEXT)
            at += (size_t)snprintf(said + at, SRV_TRAIN_TEXT - at, "%s%s=%s", at ? " " : "",
                                   f->name, value);
    }
}

/* The numbers from which the bound of the memory is computed. A training step, forward and
 * backward, keeps (TOKEN_WIDTHS + layers * layer_widths) * width floats for each token. */
#define TOKEN_WIDTHS   40.0
#define SCORES         4.0   /* floats for each attention score, besides its weight */
#define PASSES         2.0   /* arenas that hold a step: one for training, one for validation */
#define PARAMETERS     10.0  /* floats for each: value, gradient, moments, best, checkpoint */
#define WORD_BYTES     512.0 /* for each word of a vocabulary, in memory and in a file buffer */
#define PAIR_BYTES     160.0 /* for each sentence pair besides its words: offsets, random order */
#define FIXED_BYTES    (6.0 * (1 << 20))
#define SYMBOLS        768.0 /* symbols of a vocabulary of sub-words besides the merges */
#define LEARNING_BYTES (32.0 * (1 << 20)) /* to count words and pairs of symbols */
#define NAMES          8192.0             /* invented names in en-fr-text */
#define TOKENS         3.0                /* sub-words of a word, in the mean of a sentence */

/* Attention operations in a layer, or in the whole model for ATTN_MODEL_SEQ2SEQ. */
static const double attentions_of[ATTN_MODEL_ARCHITECTURES] = {
    [ATTN_MODEL_SEQ2SEQ] = 2, [ATTN_MODEL_TRANSFORMER] = 3};
static const double layer_widths[ATTN_MODEL_ARCHITECTURES] = {
    [ATTN_MODEL_SEQ2SEQ] = 24, [ATTN_MODEL_TRANSFORMER] = 112};

/* Returns an upper bound of the tokens in the source or target vocabulary. For translation these
 * are the words of the lexicon, for the other tasks the symbols; sub-words are bytes, characters
 * and merges. */
static double words(const srv_train_options *w, bool target) {
    const double small = target ? 1024 : 512, large = target ? 5120 : 2560;
    if (w->subwords)
        return SYMBOLS + (double)w->subwords;
    if (w->task == ATTN_EN_FR_TEXT)
        return NAMES + 2 * large;
    return w->task != ATTN_EN_FR ? (double)w->num_symbols + ATTN_SPECIALS
           : w->large            ? large
                                 : small;
}

/* Return upper bounds of the tokens in a source and in a target sentence. */
static double longest_source(const srv_train_options *w) {
    return (w->subwords ? TOKENS : 1) * (double)w->longest;
}

static double longest_target(const srv_train_options *w) {
    const double words = w->task == ATTN_EN_FR || w->task == ATTN_EN_FR_TEXT
                             ? 2 * (double)w->longest + 8
                             : (double)w->longest + 1;
    return w->subwords ? TOKENS * words : words;
}

/* Computes the bytes that attention takes for one head of one sequence of n words: forward and
 * backward in training, and forward in validation, packed operands included. */
static attn_status head_bytes(const srv_train_options *w, double n, double *bytes,
                              attn_error *err) {
    const size_t slots = 1;
    attn_attention_dims dims;
    attn_cost there, back;
    attn_status status = ATTN_OK;
    *bytes = 0;
    /* The cost of a batch of 2 minus that of a batch of 1 is the cost of one sequence, without the
     * memory that all sequences share. */
    for (size_t B = 1; B <= 2 && !status; B++) {
        const size_t shape[] = {B, 1, (size_t)n, (size_t)(w->width / w->num_heads)};
        const attn_tensor rows = attn_tensor_dense(NULL, ATTN_F32, 4, shape);
        const attn_inputs in = {.query = rows, .key = rows, .value = rows};
        if (!(status = attn_attention_shape(&in, &dims, err)) &&
            !(status = attn_attention_cost(&dims, ATTN_WANT_OUTPUT, slots, &there, err)) &&
            !(status = attn_gradients_cost(&dims, ATTN_WANT_OUTPUT, 0, slots, &back, err)))
            *bytes = 2 * (double)(there.result_bytes + there.work_bytes + there.fallback_bytes) +
                     (double)(back.result_bytes + back.work_bytes + back.fallback_bytes) - *bytes;
    }
    return status;
}

/* Computes the bytes of all attention layers for a batch of `tokens` words. Takes the larger of two
 * batches: one of the shortest pairs, which has the most sequences, and one of the longest pairs.
 */
static attn_status blocks_bytes(const srv_train_options *w, double tokens, double *bytes,
                                attn_error *err) {
    const double layers = w->architecture == ATTN_MODEL_TRANSFORMER ? (double)w->num_layers : 1;
    const double attentions =
        w->attention == ATTN_MODEL_NONE ? 0 : attentions_of[w->architecture] * layers;
    const double ends[] = {(double)w->shortest, longest_source(w)};
    *bytes = 0;
    for (int i = 0; i < 2; i++) {
        double head;
        const attn_status status = head_bytes(w, ends[i], &head, err);
        if (status)
            return status;
        *bytes = fmax(*bytes,
                      head * (double)w->num_heads * attentions * (tokens / (2 * ends[i] + 1) + 1));
    }
    return ATTN_OK;
}

/* Computes the bound of the memory. `parameters` is the number of the model's parameters, and
 * `tables` the bytes of its other tables. */
static attn_status bytes_of(const srv_train_options *w, double parameters, double tables,
                            size_t *bytes, attn_error *err) {
    const double D = (double)w->width, longest = longest_target(w);
    const double pair = longest_source(w) + longest;
    const double tokens = (double)w->batch_tokens > pair ? (double)w->batch_tokens : pair;
    const double widths = TOKEN_WIDTHS + layer_widths[w->architecture] * (double)w->num_layers;
    const double pass = tokens * (widths * D + words(w, true) +
                                  SCORES * (double)w->num_heads * longest * (double)w->num_layers);
    const double learning = w->subwords ? LEARNING_BYTES : 0;
    const double data = (double)(w->num_pairs + w->num_validation_pairs) * (4 * pair + PAIR_BYTES);
    double blocks;
    const attn_status status = blocks_bytes(w, tokens, &blocks, err);
    if (!status)
        *bytes =
            (size_t)(PARAMETERS * 4 * parameters + 3 * tables + blocks + PASSES * 4 * pass + data +
                     learning + WORD_BYTES * (words(w, false) + words(w, true)) + FIXED_BYTES);
    return status;
}

/* Checks the options of the corpus by making one sentence pair of each part. */
static attn_status check_corpus(const srv_train_options *w, attn_error *err) {
    const attn_corpus_options options = srv_train_corpus(w);
    attn_arena *arena = attn_arena_new((size_t)1 << 26);
    attn_pair *pair = arena ? attn_arena_zeroed(arena, 1, sizeof *pair) : NULL;
    attn_corpus *corpus;
    attn_status status = pair ? attn_corpus_new(&options, arena, &corpus, err)
                              : attn_fail(err, ATTN_ENOMEM, "", "no memory for a corpus");
    for (attn_split split = ATTN_TRAIN; !status && split <= ATTN_HELD_OUT; split++)
        status = attn_corpus_pair(corpus, split, 0, pair, err);
    attn_arena_free(arena);
    return status;
}

attn_status srv_train_check(const srv_train_options *w, srv_train_cost *cost, attn_error *err) {
    attn_model_config config = srv_train_config(w);
    size_t all = 0, values = 0;
    config.source_vocabulary = (size_t)words(w, false);
    config.target_vocabulary = (size_t)words(w, true);
    if (w->shortest > w->longest)
        return attn_fail(err, ATTN_EVALUE, "shortest", "expected at most longest (%d), found %d",
                         (int)w->longest, (int)w->shortest);
    if (w->architecture > ATTN_MODEL_TRANSFORMER)
        return attn_fail(err, ATTN_EVALUE, "architecture", "expected seq2seq or transformer");
    attn_status status = attn_model_bytes(&config, false, &all, err);
    if (!status)
        status = attn_model_bytes(&config, true, &values, err);
    if (!status)
        status = check_corpus(w, err);
    if (status)
        return status;
    values -= all; /* the bytes of the gradients, one float for each parameter */
    return bytes_of(w, (double)values / 4, (double)(all - values), &cost->bytes, err);
}
