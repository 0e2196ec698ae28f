/* A bound of a training run's memory. Measured, with room to spare; what exceeds it fails, and
 * nobody else suffers. */
#include "jobs/train_cost.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Floats that a token holds in a step, forward and back, in widths (more of them for each layer);
 * and of scores beside the weights of a head. */
#define TOKEN_WIDTHS 40.0
#define SCORES       4.0
#define PASSES       2.0   /* the arena of training stays while validation has another */
#define PARAMETERS   10.0  /* floats for each: value, gradient, moments, best; a checkpoint read */
#define WORD_BYTES   512.0 /* of a word in a vocabulary, as it grows and in a file */
#define PAIR_BYTES   160.0 /* of a pair beside its words: where it begins, orders of epochs */
#define FIXED_BYTES  (6.0 * (1 << 20))

static const double attentions_of[ATTN_MODEL_ARCHITECTURES] = {
    [ATTN_SEQ2SEQ] = 2, [ATTN_TRANSFORMER] = 3};
static const double layer_widths[ATTN_MODEL_ARCHITECTURES] = {
    [ATTN_SEQ2SEQ] = 24, [ATTN_TRANSFORMER] = 112};

/* The words of a side at most, and a target's at most: those of the lexicon, or the symbols. */
static double words(const srv_train_wishes *w, bool target) {
    const double small = target ? 1024 : 512, large = target ? 5120 : 2560;
    return w->task != ATTN_EN_FR ? (double)w->symbols + ATTN_SPECIALS : w->large ? large : small;
}

static double longest_target(const srv_train_wishes *w) {
    return w->task == ATTN_EN_FR ? 2 * (double)w->longest + 8 : (double)w->longest + 1;
}

/* Bytes of attention's own, forward, back and forward again in validation, for each head of each
 * sequence of n words: what the kernel table packs. */
static attn_status head_bytes(const srv_train_wishes *w, double n, double *bytes, attn_error *err) {
    const size_t slots = 1;
    attn_attention_dims dims;
    attn_cost there, back;
    attn_status status = ATTN_OK;
    *bytes = 0;
    for (size_t B = 1; B <= 2 && !status; B++) { /* the second's: what all share is no matter */
        const size_t shape[] = {B, 1, (size_t)n, (size_t)(w->width / w->heads)};
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

/* Of all attentions, for batches of the shortest pairs (most heads) and of the longest. */
static attn_status blocks_bytes(const srv_train_wishes *w, double tokens, double *bytes,
                                attn_error *err) {
    const double layers = w->architecture == ATTN_TRANSFORMER ? (double)w->layers : 1;
    const double attentions =
        w->attention == ATTN_MODEL_NONE ? 0 : attentions_of[w->architecture] * layers;
    const double ends[] = {(double)w->shortest, (double)w->longest};
    *bytes = 0;
    for (int i = 0; i < 2; i++) {
        double head;
        const attn_status status = head_bytes(w, ends[i], &head, err);
        if (status)
            return status;
        *bytes =
            fmax(*bytes, head * (double)w->heads * attentions * (tokens / (2 * ends[i] + 1) + 1));
    }
    return ATTN_OK;
}

static attn_status bytes_of(const srv_train_wishes *w, double parameters, double tables,
                            size_t *bytes, attn_error *err) {
    const double D = (double)w->width, longest = longest_target(w);
    const double pair = (double)w->longest + longest;
    const double tokens = (double)w->batch_tokens > pair ? (double)w->batch_tokens : pair;
    const double widths = TOKEN_WIDTHS + layer_widths[w->architecture] * (double)w->layers;
    const double pass = tokens * (widths * D + words(w, true) +
                                  SCORES * (double)w->heads * longest * (double)w->layers);
    const double data = (double)(w->pairs + w->validation) * (4 * pair + PAIR_BYTES);
    double blocks;
    const attn_status status = blocks_bytes(w, tokens, &blocks, err);
    if (!status)
        *bytes = (size_t)(PARAMETERS * 4 * parameters + 3 * tables + blocks + PASSES * 4 * pass +
                          data + WORD_BYTES * (words(w, false) + words(w, true)) + FIXED_BYTES);
    return status;
}

static attn_status check_corpus(const srv_train_wishes *w, attn_error *err) {
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

attn_status srv_train_check(const srv_train_wishes *w, srv_train_cost *cost, attn_error *err) {
    attn_model_config config = srv_train_config(w);
    size_t all = 0, values = 0;
    config.source_vocabulary = (size_t)words(w, false);
    config.target_vocabulary = (size_t)words(w, true);
    if (w->shortest > w->longest)
        return attn_fail(err, ATTN_EVALUE, "shortest", "expected at most longest (%d), found %d",
                         (int)w->longest, (int)w->shortest);
    attn_status status = attn_model_bytes(&config, false, &all, err);
    if (!status)
        status = attn_model_bytes(&config, true, &values, err);
    if (!status)
        status = check_corpus(w, err);
    if (status)
        return status;
    values -= all; /* what the gradients add: a float a parameter */
    return bytes_of(w, (double)values / 4, (double)(all - values), &cost->bytes, err);
}
