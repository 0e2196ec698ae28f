/* Evaluates a model: the loss on a dataset, and translations and alignments on a corpus. */
#include <math.h>
#include <string.h>

#include "attn/rng.h"
#include "base/try.h"
#include "layers/layers.h"
#include "tokens/words.h"
#include "train/training.h"

/* Limit of an arena in bytes. It is never reached: the size of a batch bounds the memory. */
static const size_t PASS_BYTES = SIZE_MAX >> 1;

/* Sums over all batches. The loss and the similarity of a batch are weighted by the number of its
 * expected words, without padding. `rows` is the sum of these numbers. `right` counts the words
 * that were predicted right. */
typedef struct sums {
    double loss, right, similarity, rows;
    bool has_heads; /* whether the last cross-attention has at least two heads */
} sums;

/* If the last site is a cross-attention with at least two heads, adds the similarity of its heads,
 * times `rows`. */
static attn_status add_similarity(const attn_batch *batch, int32_t pad,
                                  const attn_model_outputs *out, double rows, attn_arena *arena,
                                  sums *into, attn_error *err) {
    const attn_site *last = out->site_count ? &out->sites[out->site_count - 1] : NULL;
    if (!last || last->kind != ATTN_SITE_CROSS || last->heads < 2)
        return ATTN_OK;
    int64_t *counts = attn_arena_zeroed(arena, batch->B, sizeof *counts);
    ATTN_TAKEN(counts, "the counts of tokens", err);
    for (size_t i = 0; i < batch->B * batch->T; i++)
        counts[i / batch->T] += batch->expected[i] != pad;
    const attn_tensor *w = &last->weights;
    into->has_heads = true;
    into->similarity += rows * attn_similarity_loss(NULL, w->data, counts, w->dims[0], w->dims[1],
                                                    w->dims[2], w->dims[3], 0);
    return ATTN_OK;
}

static attn_status add_loss(const attn_model *model, const attn_batch *batch, attn_arena *arena,
                            attn_pool *pool, const attn_control *control, sums *into,
                            attn_error *err) {
    attn_model_outputs out;
    ATTN_TRY(attn_model_forward(model, batch, &(attn_forward_options){.keep = ATTN_KEEP_WEIGHTS},
                                arena, pool, control, &out, err));
    const attn_model_config *config = attn_model_configuration(model);
    attn_cross_entropy_loss loss;
    loss.loss = attn_cross_entropy(
        out.logits.data, out.logits.data, batch->expected, out.logits.dims[0] * out.logits.dims[1],
        config->target_vocabulary, config->pad, 0, &loss.rows, &loss.right);
    into->loss += loss.loss * (double)loss.rows;
    into->right += (double)loss.right;
    into->rows += (double)loss.rows;
    return add_similarity(batch, config->pad, &out, (double)loss.rows, arena, into, err);
}

attn_status attn_training_evaluate(const attn_model *model, const attn_dataset *data,
                                   size_t batch_tokens, attn_pool *pool,
                                   const attn_control *control, attn_evaluation *out,
                                   attn_error *err) {
    const attn_model_pass pass = {.keeps_weights = true};
    sums s = {0};
    attn_arena *plan = attn_arena_new(PASS_BYTES), *arena = attn_arena_new(PASS_BYTES);
    attn_epoch epoch;
    attn_status status = plan && arena ? attn_epoch_new(data, batch_tokens, 0, 0, plan, &epoch, err)
                                       : attn_fail(err, ATTN_ENOMEM, "evaluation", "no memory");
    for (size_t b = 0; !status && b < epoch.batches; b++) {
        const size_t *pairs = epoch.order + epoch.starts[b];
        attn_batch batch;
        status = attn_batch_begin(model, pass, attn_pool_slots(pool), data, pairs,
                                  epoch.starts[b + 1] - epoch.starts[b], arena, &batch, err);
        if (!status)
            status = add_loss(model, &batch, arena, pool, control, &s, err);
    }
    attn_arena_free(arena);
    attn_arena_free(plan);
    const double rows = s.rows > 0 ? s.rows : 1;
    if (!status)
        *out = (attn_evaluation){s.loss / rows, s.right / rows,
                                 s.has_heads ? s.similarity / rows : (double)NAN, s.rows};
    return status;
}

/* ---- scores on a corpus, one pair at a time ---- */
typedef struct scorer {
    const attn_model *model;
    const attn_tokenizer *source, *target;
    size_t beams;
    attn_pool *pool;
    const attn_control *control;
    attn_arena *arena; /* reset before each pair */
} scorer;

/* A text as ids for BLEU. */
typedef struct scored_text {
    const int32_t *ids;
    size_t count;
} scored_text;

/* Replaces the ids of a text by a copy in which the ids of unknown words are -1, which match no
 * word. */
static attn_status strike_unknown(const scorer *w, scored_text *text, attn_error *err) {
    int32_t *ids = attn_arena_zeroed(w->arena, text->count + 1, sizeof *ids);
    const int32_t unknown = attn_tokenizer_special(w->target, ATTN_SPECIAL_UNKNOWN);
    ATTN_TAKEN(ids, "the words of a text", err);
    for (size_t i = 0; i < text->count; i++)
        ids[i] = text->ids[i] == unknown ? -1 : text->ids[i];
    text->ids = ids;
    return ATTN_OK;
}

/* Replaces the ids of sub-words by ids of whole words, because BLEU counts words. The id of a word
 * is a hash of 31 bits. */
static attn_status whole_words(const scorer *w, scored_text *text, attn_error *err) {
    const char *joined = attn_tokenizer_decode(w->target, text->ids, text->count, false, w->arena);
    attn_token *tokens;
    ATTN_TAKEN(joined, "a text", err);
    ATTN_TRY(attn_words_split(joined, strlen(joined), attn_tokenizer_language(w->target), w->arena,
                              &tokens, &text->count, err));
    int32_t *ids = attn_arena_zeroed(w->arena, text->count + 1, sizeof *ids);
    ATTN_TAKEN(ids, "the words of a text", err);
    for (size_t i = 0; i < text->count; i++) {
        uint64_t hash = 0;
        for (size_t k = tokens[i].begin; k < tokens[i].end; k++)
            hash = attn_rng_bits(hash, (unsigned char)joined[k]);
        ids[i] = (int32_t)(hash >> 33);
    }
    text->ids = ids;
    return ATTN_OK;
}

/* Translates the source and adds the translation to the BLEU counts. */
static attn_status add_bleu(const scorer *w, const attn_pair_tokens sides[2],
                            attn_model_scores *scores, attn_error *err) {
    attn_generate_options options = attn_generate_defaults();
    attn_generated out;
    const int64_t length = (int64_t)sides[0].count;
    scored_text made, expected = {sides[1].ids, sides[1].count};
    options.beams = w->beams;
    ATTN_TRY(attn_model_generate(w->model, sides[0].ids, &length, 1, sides[0].count, &options,
                                 w->arena, w->pool, w->control, &out, err));
    made = (scored_text){out.ids, out.length};
    if (attn_tokenizer_kind_of(w->target) == ATTN_TOKENS_SUBWORDS) {
        ATTN_TRY(whole_words(w, &made, err));
        ATTN_TRY(whole_words(w, &expected, err));
    } else {
        ATTN_TRY(strike_unknown(w, &expected, err));
    }
    attn_bleu_add(&scores->bleu, made.ids, made.count, expected.ids, expected.count);
    return ATTN_OK;
}

/* Aligns each target word with a source word: chosen[target word] = source word. In the row of the
 * target word's first token, the largest weight is that of a token of the source word. `weights`
 * are [T, S]. */
static void choose(const float *weights, const attn_pair_tokens sides[2], size_t S,
                   size_t *chosen) {
    for (size_t t = sides[1].count; t-- > 0;) {
        size_t best = 0;
        for (size_t s = 1; s < S; s++)
            if (weights[t * S + s] > weights[t * S + best])
                best = s;
        chosen[sides[1].words[t]] = sides[0].words[best];
    }
}

/* Adds the alignment by each head and by the mean of all heads. Row t of weights [1, heads, T, S]
 * belongs to target token t, which the model predicts there. */
static attn_status add_heads(const scorer *w, const attn_tensor *weights, const attn_pair *pair,
                             const attn_pair_tokens sides[2], attn_model_scores *scores,
                             attn_error *err) {
    size_t heads = weights->dims[1], T = weights->dims[2], S = weights->dims[3];
    const float *data = weights->data;
    size_t chosen[ATTN_PAIR_WORDS];
    float *mean = attn_arena_zeroed(w->arena, T * S, sizeof *mean);
    ATTN_TAKEN(mean, "the mean of heads", err);
    scores->head_count = heads < ATTN_MEASURE_HEADS ? heads : ATTN_MEASURE_HEADS;
    for (size_t h = 0; h < heads; h++) {
        for (size_t i = 0; i < T * S; i++)
            mean[i] += data[h * T * S + i];
        if (h >= ATTN_MEASURE_HEADS)
            continue;
        choose(data + h * T * S, sides, S, chosen);
        attn_alignment_add(&scores->heads[h], pair, chosen);
    }
    choose(mean, sides, S, chosen);
    attn_alignment_add(&scores->mean, pair, chosen);
    return ATTN_OK;
}

static attn_status add_alignment(const scorer *w, const attn_pair *pair,
                                 const attn_pair_tokens sides[2], attn_model_scores *scores,
                                 attn_error *err) {
    const size_t T = sides[1].count + 1;
    const int64_t length = (int64_t)sides[0].count;
    int32_t *target = attn_arena_zeroed(w->arena, T, sizeof *target);
    ATTN_TAKEN(target, "the tokens of a pair", err);
    target[0] = attn_model_configuration(w->model)->begin;
    memcpy(target + 1, sides[1].ids, sides[1].count * sizeof *target);
    attn_batch batch = {.B = 1,
                        .S = sides[0].count,
                        .T = T,
                        .source = sides[0].ids,
                        .source_lengths = &length,
                        .target = target};
    attn_model_outputs out;
    ATTN_TRY(attn_model_forward(w->model, &batch,
                                &(attn_forward_options){.keep = ATTN_KEEP_WEIGHTS}, w->arena,
                                w->pool, w->control, &out, err));
    const attn_site *cross = NULL;
    for (size_t i = 0; i < out.site_count; i++)
        if (out.sites[i].kind == ATTN_SITE_CROSS)
            cross = &out.sites[i];
    return cross ? add_heads(w, &cross->weights, pair, sides, scores, err) : ATTN_OK;
}

static attn_status add_pair(const scorer *w, const attn_pair *pair, attn_model_scores *scores,
                            attn_error *err) {
    attn_pair_tokens sides[2];
    ATTN_TRY(attn_pair_read(pair, false, w->source, w->arena, &sides[0], err));
    ATTN_TRY(attn_pair_read(pair, true, w->target, w->arena, &sides[1], err));
    ATTN_TRY(add_bleu(w, sides, scores, err));
    return add_alignment(w, pair, sides, scores, err);
}

/* Predicts the words of the pairs with a model of one stack. Adds to the scores the number of
 * words, the sum of their losses, and the number of words that are predicted right. */
static attn_status add_predictions(const scorer *w, const attn_corpus *corpus, attn_split split,
                                   uint64_t first, size_t count, attn_model_scores *scores,
                                   attn_error *err) {
    attn_arena *arena = attn_arena_new(PASS_BYTES);
    attn_dataset data;
    attn_evaluation found;
    attn_status status =
        arena ? attn_dataset_new(corpus, split, first, count,
                                 attn_dataset_kind_of(attn_model_configuration(w->model)),
                                 w->source, w->target, arena, &data, err)
              : attn_fail(err, ATTN_ENOMEM, "scores", "no memory for a pass");
    if (!status)
        status = attn_training_evaluate(w->model, &data, ATTN_SCORE_TOKENS, w->pool, w->control,
                                        &found, err);
    attn_arena_free(arena);
    if (status)
        return status;
    scores->words += found.rows;
    scores->loss += found.rows * found.loss;
    scores->right += found.rows * found.right;
    return ATTN_OK;
}

attn_status attn_model_score(const attn_model *model, const attn_corpus *corpus, attn_split split,
                             uint64_t first, size_t count, const attn_tokenizer *source,
                             const attn_tokenizer *target, size_t beams, attn_pool *pool,
                             const attn_control *control, attn_model_scores *scores,
                             attn_error *err) {
    scorer w = {model, source, target, beams, pool, control, NULL};
    if (attn_dataset_kind_of(attn_model_configuration(model)) != ATTN_DATA_PAIRS)
        return add_predictions(&w, corpus, split, first, count, scores, err);
    attn_arena *outer = attn_arena_new(PASS_BYTES);
    attn_pair *pair = outer ? attn_arena_zeroed(outer, 1, sizeof *pair) : NULL;
    w.arena = attn_arena_new(PASS_BYTES);
    attn_status status =
        pair && w.arena ? ATTN_OK : attn_fail(err, ATTN_ENOMEM, "scores", "no memory for a pass");
    for (size_t i = 0; !status && i < count; i++) {
        attn_arena_reset(w.arena);
        status = attn_corpus_pair(corpus, split, first + i, pair, err);
        if (!status)
            status = add_pair(&w, pair, scores, err);
    }
    attn_arena_free(w.arena);
    attn_arena_free(outer);
    return status;
}
