/* Checks the options of a training run, and computes an upper bound of the memory that it needs. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "jobs/jobs.h"

/* Floats for each parameter: value, gradient, moments, best value, and value in the served
 * model. */
#define PARAMETERS     7.0
#define WORD_BYTES     512.0 /* for each word of a vocabulary, in memory and in a file buffer */
#define PAIR_BYTES     160.0 /* for each sentence pair besides its words: offsets, random order */
#define LINK_BYTES     12.0  /* for each target word: at most two alignment links */
#define FIXED_BYTES    (6.0 * (1 << 20)) /* whatever the options are */
#define PASS_MARGIN    1.1   /* factor for the bytes of passes: arenas do not fill their chunks */
#define SYMBOLS        768.0 /* symbols of a vocabulary of sub-words besides the merges */
#define LEARNING_BYTES (32.0 * (1 << 20)) /* for learning sub-words: counts of words and pairs */

#define MOST_BYTES 1e18 /* more than any machine has */

/* --- what the corpora make, measured on up to a million pairs of each --- */

/* Upper bounds of the number of different words on the two sides of a corpus, special tokens
 * included. `few` is for the small lexicon, `large` for --large, and `text` for the task
 * en-fr-text. */
typedef struct side_words {
    double source, target;
} side_words;

static const side_words few = {320, 768}, large = {2048, 4864}, text = {2304, 5888};

/* The task en-fr-text invents names without a meaning. */
#define NAMES      6912.0 /* number of different names */
#define WORD_NAMES 0.008  /* at most so many names for each source word */

/* Returns the mean number of words of a source sentence. */
static double mean_words(const srv_train_options *w) {
    return (double)w->corpus.shortest +
           (double)(w->corpus.longest - w->corpus.shortest) / (1 + w->corpus.skew);
}

static bool translates(const srv_train_options *w) {
    return w->corpus.task == ATTN_EN_FR || w->corpus.task == ATTN_EN_FR_TEXT;
}

/* Returns an upper bound of the number of different names in the training pairs, each of which is
 * chosen from NAMES at random. */
static double most_names(const srv_train_options *w) {
    const double said = WORD_NAMES * ((double)w->num_pairs * mean_words(w) + 5000);
    return w->corpus.task == ATTN_EN_FR_TEXT ? NAMES * (1 - exp(-said / NAMES)) : 0;
}

/* Returns an upper bound of the tokens in the source or target vocabulary. For translation these
 * are the words of the lexicon, for the other tasks the symbols; sub-words are bytes, characters
 * and merges. */
static double most_words(const srv_train_options *w, bool target) {
    const bool classes = w->corpus.task == ATTN_WORD_CLASSES;
    const bool second = target && attn_model_has_encoder(&w->model);
    const side_words *lexicon = w->corpus.task == ATTN_EN_FR_TEXT ? &text
                                : w->corpus.large                 ? &large
                                                                  : &few;
    if (second && classes)
        return ATTN_PARTS + ATTN_SPECIALS;
    if (w->subwords)
        return SYMBOLS + (double)w->subwords;
    if (!classes && !translates(w))
        return (double)w->corpus.symbols + ATTN_SPECIALS;
    return (second ? lexicon->target : lexicon->source) + most_names(w);
}

/* Returns an upper bound of the mean number of tokens of a word in a sentence. With few merges most
 * tokens are single characters. */
static size_t word_tokens(const srv_train_options *w) {
    return !w->subwords ? 1 : w->subwords < 300 ? 8 : 3;
}

/* Returns an upper bound of the words of a target sentence whose source has `words` words. */
static size_t most_target(const srv_train_options *w, size_t words) {
    return translates(w) ? words + words / 2 + 4 : words;
}

/* Returns a lower bound of the words of a translation whose source has `words` words. */
static size_t least_target(size_t words) {
    return words - words / 3;
}

/* Bounds the share of the sentences that have at most some length. If that share is x by the
 * formula of attn_corpus_options.skew, it is at most factor * x + more in a corpus. */
typedef struct corpus_lengths {
    double factor, more;
} corpus_lengths;

/* lengths_of[1] is for en-fr-text, which makes more short sentences than other tasks. */
static const corpus_lengths lengths_of[2] = {{1.3, 0.05}, {2, 0.06}};

/* --- passes --- */

/* The bytes of the largest step of training, of the largest evaluation, and of the largest scoring
 * pass at the end. */
typedef struct largest {
    double step, evaluation, score;
} largest;

/* Returns the bytes of a pass over B pairs of S source and T target tokens, and of their batch. If
 * the numbers of an attention become too large, it is computed again in double, which takes more
 * memory. A training step counts this memory for one attention, because training with such large
 * numbers soon ends; other passes do not count it. */
static double pass_bytes(const attn_model *model, size_t B, size_t S, size_t T,
                         attn_model_pass pass) {
    const attn_model_config *c = attn_model_configuration(model);
    const double n = (double)B, s = (double)S, t = (double)T;
    pass.B = attn_model_has_encoder(c) ? B : 0;
    pass.S = S;
    pass.rows = attn_model_has_decoder(c) ? B : 0;
    pass.T = T;
    pass.beams = 1;
    const attn_model_cost cost = attn_model_pass_cost(model, &pass, 1);
    size_t sites;
    attn_model_sites(model, &sites);
    return cost.bytes + (pass.trains && sites ? cost.fallback_bytes / (double)sites : 0) +
           4 * n * (s + 2 * t + s * t + 2);
}

/* Returns an upper bound of the pairs in a batch whose longest source sentence has `words` words
 * and whose longest pair has `room` tokens on both sides together. `count` is the number of all
 * pairs. A batch has at most as many pairs as fit into batch_tokens, and at most as many as are so
 * short in one of the groups that attn_epoch_new sorts. How many are so short in a group is random:
 * four standard deviations are added to their mean number. */
static size_t most_pairs(const srv_train_options *w, size_t count, size_t words, size_t room) {
    const corpus_lengths *l = &lengths_of[w->corpus.task == ATTN_EN_FR_TEXT];
    const double lengths = (double)(w->corpus.longest - w->corpus.shortest + 1);
    const double share =
        l->factor * pow((double)(words - w->corpus.shortest + 1) / lengths, 1 / w->corpus.skew) +
        l->more;
    const double tokens = (double)w->loop.batch_tokens;
    const double group = fmin((double)count, ATTN_GROUP_BATCHES * (tokens / mean_words(w) + 1));
    const double short_ones = group * fmin(1, share);
    const double most = fmin(floor(tokens / (double)room), short_ones + 4 * sqrt(short_ones) + 4);
    return (size_t)fmin((double)count, fmax(1, most));
}

/* Raises each member of *out to at least the bytes of a pass over the largest batch whose longest
 * sentences have `words` source words, S source tokens and T target tokens. S or T is 0 if the
 * model does not read that side. */
static void raise_to(const srv_train_options *w, const attn_model *model, size_t words, size_t S,
                     size_t T, largest *out) {
    const bool guides = w->loop.guidance > 0 || w->loop.diversity > 0;
    const attn_model_pass train = {.trains = true, .guides = guides},
                          look = {.keeps_weights = true}, search = {.searches = true};
    const size_t room = S + (T ? T : S + 1), B = most_pairs(w, w->num_pairs, words, room),
                 looked = most_pairs(w, w->num_validation_pairs, words, room);
    out->step = fmax(out->step, pass_bytes(model, B, S, T, train));
    out->evaluation = fmax(out->evaluation, pass_bytes(model, looked, S, T, look));
    if (attn_dataset_kind_of(&w->model) != ATTN_DATA_PAIRS)
        out->score = fmax(out->score, pass_bytes(model, SRV_SCORED_AT_A_TIME, S, T, look));
    else
        out->score = fmax(out->score, pass_bytes(model, 1, S, T, look) +
                                          pass_bytes(model, 1, S, 2 * S + 10, search));
}

/* Returns an upper bound of the bytes of all passes, over all lengths that sentences can have:
 * those of a step of training and of an evaluation, which are in memory at the same time, or those
 * of the scoring at the end if they are more. */
static double passes_bytes(const srv_train_options *w, const attn_model *model) {
    const attn_dataset_kind kind = attn_dataset_kind_of(&w->model);
    const size_t tokens = word_tokens(w);
    largest found = {0};
    for (size_t n = w->corpus.shortest; n <= w->corpus.longest; n++) {
        const size_t S = tokens * n, T = tokens * most_target(w, n) + 1;
        if (kind == ATTN_DATA_CLASSES)
            raise_to(w, model, n, S, 0, &found);
        else if (kind == ATTN_DATA_SENTENCES)
            raise_to(w, model, n, 0, S + 1, &found);
        else
            raise_to(w, model, n, S, T, &found);
        if (kind == ATTN_DATA_PAIRS && translates(w))
            raise_to(w, model, n, S, tokens * least_target(n) + 1, &found);
    }
    return PASS_MARGIN * fmax(found.step + found.evaluation, found.score);
}

/* Returns an upper bound, in bytes, of the memory of a training run. `parameters` is the number of
 * the model's parameters, and `tables` the bytes of its other tables. */
static double run_bytes(const srv_train_options *w, const attn_model *model, double parameters,
                        double tables) {
    const double words = mean_words(w), tokens = (double)word_tokens(w);
    const double target = (double)most_target(w, (size_t)words + 1);
    const double pair = 4 * tokens * (words + target) + LINK_BYTES * tokens * tokens * target;
    return PARAMETERS * 4 * parameters + 3 * tables + passes_bytes(w, model) +
           (double)(w->num_pairs + w->num_validation_pairs) * (pair + PAIR_BYTES) +
           (w->subwords ? LEARNING_BYTES : 0) +
           WORD_BYTES * (most_words(w, false) + most_words(w, true)) + FIXED_BYTES;
}

/* --- checks --- */

/* Checks the options of the corpus by making one sentence pair for each of training, validation and
 * held-out data. */
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

/* Computes an upper bound, in bytes, of the memory of a training run with this configuration. */
static attn_status bytes_of(const srv_train_options *w, const attn_model_config *config,
                            size_t *bytes, attn_error *err) {
    size_t all, values;
    attn_model *model;
    ATTN_TRY(attn_model_bytes(config, false, &all, err));
    ATTN_TRY(attn_model_bytes(config, true, &values, err));
    ATTN_TRY(attn_model_declare(config, &model, err));
    values -= all; /* the bytes of the gradients, one float for each parameter */
    const double most = run_bytes(w, model, (double)values / 4, (double)(all - values));
    *bytes = most < MOST_BYTES ? (size_t)most : (size_t)MOST_BYTES;
    attn_model_free(model);
    return ATTN_OK;
}

attn_status srv_train_check(const srv_train_options *w, size_t *bytes, attn_error *err) {
    attn_model_config config = w->model;
    config.source_vocabulary = (size_t)most_words(w, false);
    config.target_vocabulary = (size_t)most_words(w, true);
    if (w->corpus.shortest > w->corpus.longest)
        return attn_fail(err, ATTN_EVALUE, "shortest", "expected at most longest (%d), found %d",
                         (int)w->corpus.longest, (int)w->corpus.shortest);
    if (attn_dataset_kind_of(&config) == ATTN_DATA_CLASSES && translates(w))
        return attn_fail(err, ATTN_EVALUE, "task",
                         "an encoder alone learns one word for each word of its source: expected "
                         "word-classes, copy, reverse or sort");
    ATTN_TRY(bytes_of(w, &config, bytes, err));
    return check_corpus(w, err);
}
