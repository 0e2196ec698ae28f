/* The options of a training run: their text, and an upper bound of the memory that a
 * run needs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "jobs/jobs.h"

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

bool srv_train_leaves_out(const srv_train_options *w, const srv_field *f) {
    const size_t first = offsetof(srv_job_body, train.model);
    for (const attn_model_setting *s = attn_model_settings; s->name; s++)
        if (s->of == ATTN_OF_CHANGED && f->offset == first + s->offset)
            return !attn_model_has_setting(&w->model, s);
    return false;
}

void srv_train_say(const srv_train_options *w, char said[SRV_TRAIN_TEXT]) {
    size_t at = 0;
    for (const srv_field *f = srv_job_fields; strcmp(f->name, "checkpoint_every"); f++) {
        char value[40];
        if (srv_train_leaves_out(w, f))
            continue;
        value_text(f, (const char *)w + f->offset, value, sizeof value);
        if (at < SRV_TRAIN_TEXT)
            at += (size_t)snprintf(said + at, SRV_TRAIN_TEXT - at, "%s%s=%s", at ? " " : "",
                                   f->name, value);
    }
}

/* The numbers from which the bound of the memory is computed. A training step of two stacks,
 * forward and backward, keeps (TOKEN_WIDTHS + layers * layer_widths) * width floats for each
 * token. */
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
static const double attentions_of[] = {[ATTN_MODEL_SEQ2SEQ] = 2, [ATTN_MODEL_TRANSFORMER] = 3};
static const double layer_widths[] = {[ATTN_MODEL_SEQ2SEQ] = 24, [ATTN_MODEL_TRANSFORMER] = 112};

/* Floats that a pass through one stack keeps for each token besides its attention: as multiples of
 * the width, for each layer of the width and of the width inside feed-forward, the last once and
 * for each of its parts (activation, gate), and for each logit. Measured at 56 sizes: 3.7, 10.8,
 * 3.3 with one part, 1.23 in a step of training, and 3.4, 6.4, 0.74, 0.96 in an evaluation. */
typedef struct pass_floats {
    double token, layer, inside, part, logit;
    bool training;
} pass_floats;

static const pass_floats step_floats = {5, 13, 2, 2, 1.6, true};
static const pass_floats evaluation_floats = {4, 7.5, 0, 1, 1.1, false};
#define ATTENTION_MARGIN 1.15 /* of its cost: rounding of blocks, tables of positions */

/* Returns an upper bound of the tokens in the source or target vocabulary. For translation these
 * are the words of the lexicon, for the other tasks the symbols; sub-words are bytes, characters
 * and merges. */
static double most_words(const srv_train_options *w, bool target) {
    const bool classes = w->corpus.task == ATTN_WORD_CLASSES;
    const bool french = target && attn_model_has_encoder(&w->model);
    const double small = french ? 1024 : 512, large = french ? 5120 : 2560;
    if (french && classes)
        return ATTN_PARTS + ATTN_SPECIALS;
    if (w->subwords)
        return SYMBOLS + (double)w->subwords;
    if (w->corpus.task == ATTN_EN_FR_TEXT)
        return NAMES + 2 * large;
    return !classes && w->corpus.task != ATTN_EN_FR ? (double)w->corpus.symbols + ATTN_SPECIALS
           : w->corpus.large                        ? large
                                                    : small;
}

/* Return upper bounds of the tokens in a source and in a target sentence. */
static double longest_source(const srv_train_options *w) {
    return (w->subwords ? TOKENS : 1) * (double)w->corpus.longest;
}

static double longest_target(const srv_train_options *w) {
    const double words = w->corpus.task == ATTN_EN_FR || w->corpus.task == ATTN_EN_FR_TEXT
                             ? 2 * (double)w->corpus.longest + 8
                             : (double)w->corpus.longest + 1;
    return w->subwords ? TOKENS * words : words;
}

/* Computes the bytes that attention takes in a layer of one stack for B sequences of n tokens. For
 * training they include those of a run that falls back to double: steps over padded batches or
 * narrow heads were measured to take up to as many. */
static attn_status layer_bytes(const attn_model_config *c, size_t B, size_t n, bool training,
                               double *bytes, attn_error *err) {
    const size_t E = c->width / c->num_heads, K = c->num_kv_heads ? c->num_kv_heads : c->num_heads;
    const size_t queries[] = {B, c->num_heads, n, E}, keys[] = {B, K, n, E}, slots = 1;
    attn_inputs in = attn_attention_defaults();
    attn_attention_dims dims;
    attn_cost there, back;
    in.query = attn_tensor_dense(NULL, ATTN_F32, 4, queries);
    in.key = in.value = attn_tensor_dense(NULL, ATTN_F32, 4, keys);
    const unsigned want =
        ATTN_WANT_OUTPUT | (unsigned)(training ? ATTN_WANT_CELLS : ATTN_WANT_WEIGHTS);
    ATTN_TRY(attn_attention_shape(&in, &dims, err));
    ATTN_TRY(attn_attention_cost(&dims, want, slots, &there, err));
    *bytes = (double)there.result_bytes + (double)there.work_bytes;
    if (!training)
        return ATTN_OK;
    ATTN_TRY(attn_gradients_cost(&dims, ATTN_WANT_OUTPUT, 0, slots, &back, err));
    *bytes += (double)there.fallback_bytes + (double)back.result_bytes + (double)back.work_bytes +
              (double)back.fallback_bytes;
    return ATTN_OK;
}

/* Raises *bytes to those of a pass through one stack with B sequences of n tokens. */
static attn_status raise_to_pass(const srv_train_options *w, size_t B, size_t n,
                                 const pass_floats *f, double *bytes, attn_error *err) {
    const attn_model_config *c = &w->model;
    const double D = (double)c->width, layers = (double)c->num_layers;
    const double inside = c->feed_forward ? (double)c->feed_forward : 4 * D;
    const double parts = 1 + (c->activation != ATTN_MODEL_RELU || c->gated) + c->gated;
    const double layer = f->layer * D + (f->inside + f->part * parts) * inside;
    const double floats = f->token * D + layers * layer + f->logit * most_words(w, true);
    double attention;
    ATTN_TRY(layer_bytes(c, B, n, f->training, &attention, err));
    *bytes = fmax(*bytes, ATTENTION_MARGIN * layers * attention + 4 * (double)(B * n) * floats);
    return ATTN_OK;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Computes the bytes of a step of training and of an evaluation, which are in memory at the same
 * time, or of the scores at the end if they are more. Each takes the largest of the batches whose
 * sentences have equal lengths, from the shortest to the longest. A batch is as attn_epoch_new
 * makes it, but never has more sentences than there are. */
static attn_status stack_bytes(const srv_train_options *w, double *bytes, attn_error *err) {
    const bool encodes = attn_model_has_encoder(&w->model);
    const size_t longest = (size_t)longest_source(w);
    double step = 0, evaluation = 0, scores = 0;
    for (size_t words = w->corpus.shortest; words <= longest; words++) {
        const size_t room = encodes ? 2 * words + 1 : words + 1, n = encodes ? words : words + 1;
        const size_t fitting = w->loop.batch_tokens / room, most = fitting ? fitting : 1;
        ATTN_TRY(raise_to_pass(w, least(most, w->num_pairs), n, &step_floats, &step, err));
        ATTN_TRY(raise_to_pass(w, least(most, w->num_validation_pairs), n, &evaluation_floats,
                               &evaluation, err));
        ATTN_TRY(raise_to_pass(w, SRV_SCORED_AT_A_TIME, n, &evaluation_floats, &scores, err));
    }
    *bytes = fmax(step + evaluation, scores);
    return ATTN_OK;
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
        const size_t shape[] = {B, 1, (size_t)n, (size_t)(w->model.width / w->model.num_heads)};
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
    const double layers =
        w->model.architecture != ATTN_MODEL_SEQ2SEQ ? (double)w->model.num_layers : 1;
    const double attentions =
        w->model.attention == ATTN_MODEL_NONE ? 0 : attentions_of[w->model.architecture] * layers;
    const double ends[] = {(double)w->corpus.shortest, longest_source(w)};
    *bytes = 0;
    for (int i = 0; i < 2; i++) {
        double head;
        ATTN_TRY(head_bytes(w, ends[i], &head, err));
        *bytes = fmax(*bytes, head * (double)w->model.num_heads * attentions *
                                  (tokens / (2 * ends[i] + 1) + 1));
    }
    return ATTN_OK;
}

/* Computes the bytes of the passes of a model of two stacks. */
static attn_status pair_bytes(const srv_train_options *w, double *bytes, attn_error *err) {
    const double D = (double)w->model.width, longest = longest_target(w);
    const double pair = longest_source(w) + longest;
    const double tokens = (double)w->loop.batch_tokens > pair ? (double)w->loop.batch_tokens : pair;
    const double widths =
        TOKEN_WIDTHS + layer_widths[w->model.architecture] * (double)w->model.num_layers;
    const double pass =
        tokens * (widths * D + most_words(w, true) +
                  SCORES * (double)w->model.num_heads * longest * (double)w->model.num_layers);
    ATTN_TRY(blocks_bytes(w, tokens, bytes, err));
    *bytes += PASSES * 4 * pass;
    return ATTN_OK;
}

/* Computes the bound of the memory. `parameters` is the number of the model's parameters, and
 * `tables` the bytes of its other tables. */
static attn_status bytes_of(const srv_train_options *w, double parameters, double tables,
                            size_t *bytes, attn_error *err) {
    const double learning = w->subwords ? LEARNING_BYTES : 0;
    const double pair = longest_source(w) + longest_target(w);
    const double data = (double)(w->num_pairs + w->num_validation_pairs) * (4 * pair + PAIR_BYTES);
    double passes;
    ATTN_TRY(attn_dataset_kind_of(&w->model) == ATTN_DATA_PAIRS ? pair_bytes(w, &passes, err)
                                                                : stack_bytes(w, &passes, err));
    *bytes = (size_t)(PARAMETERS * 4 * parameters + 3 * tables + passes + data + learning +
                      WORD_BYTES * (most_words(w, false) + most_words(w, true)) + FIXED_BYTES);
    return ATTN_OK;
}

/* Checks the options of the corpus by making one sentence pair of each part. */
static attn_status check_corpus(const srv_train_options *w, attn_error *err) {
    attn_arena *arena = attn_arena_new((size_t)1 << 26);
    attn_pair *pair = arena ? attn_arena_zeroed(arena, 1, sizeof *pair) : NULL;
    attn_corpus *corpus;
    attn_status status = pair ? attn_corpus_new(&w->corpus, arena, &corpus, err)
                              : attn_fail(err, ATTN_ENOMEM, "", "no memory for a corpus");
    for (attn_split split = ATTN_TRAIN; !status && split <= ATTN_HELD_OUT; split++)
        status = attn_corpus_pair(corpus, split, 0, pair, err);
    attn_arena_free(arena);
    return status;
}

attn_status srv_train_check(const srv_train_options *w, srv_train_cost *cost, attn_error *err) {
    attn_model_config config = w->model;
    size_t all = 0, values = 0;
    config.source_vocabulary = (size_t)most_words(w, false);
    config.target_vocabulary = (size_t)most_words(w, true);
    if (w->corpus.shortest > w->corpus.longest)
        return attn_fail(err, ATTN_EVALUE, "shortest", "expected at most longest (%d), found %d",
                         (int)w->corpus.longest, (int)w->corpus.shortest);
    if (attn_dataset_kind_of(&config) == ATTN_DATA_CLASSES &&
        (w->corpus.task == ATTN_EN_FR || w->corpus.task == ATTN_EN_FR_TEXT))
        return attn_fail(err, ATTN_EVALUE, "task",
                         "an encoder alone learns one word for each word of its source: expected "
                         "word-classes, copy, reverse or sort");
    ATTN_TRY(attn_model_bytes(&config, false, &all, err));
    ATTN_TRY(attn_model_bytes(&config, true, &values, err));
    ATTN_TRY(check_corpus(w, err));
    values -= all; /* the bytes of the gradients, one float for each parameter */
    return bytes_of(w, (double)values / 4, (double)(all - values), &cost->bytes, err);
}
