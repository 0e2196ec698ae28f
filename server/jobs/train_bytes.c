/* Checks the options of a training run, and computes an upper bound of the memory that it needs. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "jobs/jobs.h"

#define PARAMETERS 6.0   /* floats per parameter: value, gradient, moments, best and served value */
#define ROUNDING   1.125 /* large blocks are at most an eighth larger than their contents */
/* Factor for the passes of scores, whose arena does not fill the blocks that it allocates. */
#define SCORE_MARGIN 1.35
#define WORD_BYTES   192.0 /* for each token of a vocabulary, in memory and in the text of a file */
#define LEARN_BYTES  480.0 /* in addition, for each word from which sub-words are learnt */
#define MERGE_BYTES  28.0  /* for each requested merge, learnt or not: item and hash slots */
#define PAIR_BYTES   88.0  /* for each sentence pair: offsets, and the order of an epoch */
#define FIXED_BYTES  (1.25 * (1 << 20)) /* bytes that do not depend on the options */

#define MOST_BYTES 1e18 /* more than any machine has */

/* --- what the corpora make: words measured on up to a million pairs, sub-words on 20,000 --- */

/* The words of a corpus. On average, a source word has `characters` tokens without merges and
 * `first` tokens after 20 merges. Each doubling of the number of merges reduces this by `fewer`
 * tokens. */
typedef struct word_kind {
    double source, target; /* upper bounds of the number of different words on the two sides */
    double merges;         /* upper bound of the number of merges that can be learnt per word */
    double characters, first, fewer;
    double rare; /* least spread (spread_of), because merges of rare names are not learnt */
} word_kind;

/* `few` is for the small lexicon, `large` for --large, and `text` for the task en-fr-text. */
static const word_kind few = {320, 768, 1.9, 3.95, 3.3, 0.48, 0},
                       large = {2048, 4864, 1.9, 4.3, 3.55, 0.36, 0},
                       text = {2304, 5888, 1.9, 4.35, 3.65, 0.36, 4.5};

/* The task en-fr-text invents names without a meaning. */
#define NAMES      6912.0 /* number of different names */
#define WORD_NAMES 0.008  /* upper bound of the number of names per source word */

#define SYMBOLS      480.0 /* tokens of a vocabulary of sub-words in addition to those of merges */
#define SEEN         19.0  /* n words of a corpus include at most SEEN * sqrt(n) different ones */
#define LEARNT       13.0  /* n words give at least LEARNT * sqrt(n) merges, if that many exist */
#define TARGET_WORDS 1.15  /* largest number of sub-words of a target per sub-word of its source */

enum {
    MEASURED = 500, /* largest number of training pairs that are measured, in a few milliseconds */
    LONGEST = 60,   /* largest number of words of a source sentence */
};

/* The options of a job, and measurements of its first `count` training pairs. */
typedef struct corpus_facts {
    const srv_train_options *w;
    size_t count;                /* number of measured pairs: all training pairs, or MEASURED */
    double words;                /* mean number of words of a source sentence */
    double shorter[LONGEST + 1]; /* [n]: pairs whose source has at most n words */
} corpus_facts;

static bool translates(const corpus_facts *m) {
    return m->w->corpus.task == ATTN_EN_FR || m->w->corpus.task == ATTN_EN_FR_TEXT;
}

static bool has_symbols(const corpus_facts *m) {
    return !translates(m) && m->w->corpus.task != ATTN_WORD_CLASSES;
}

static const word_kind *kind_of(const corpus_facts *m) {
    return m->w->corpus.task == ATTN_EN_FR_TEXT ? &text : m->w->corpus.large ? &large : &few;
}

/* Returns the approximate number of words in all source sentences of the training pairs. */
static double said_words(const corpus_facts *m) {
    return (double)m->w->num_pairs * m->words;
}

/* Returns an upper bound of the number of different names in the training pairs, each of which is
 * chosen from NAMES at random. */
static double most_names(const corpus_facts *m) {
    const double said = WORD_NAMES * (said_words(m) + 5000);
    return m->w->corpus.task == ATTN_EN_FR_TEXT ? NAMES * (1 - exp(-said / NAMES)) : 0;
}

/* Returns an upper bound of the different words of the sources or targets of all training pairs. */
static double most_words(const corpus_facts *m, bool target) {
    const double said = (target ? TARGET_WORDS : 1) * said_words(m);
    const double known = has_symbols(m) ? (double)m->w->corpus.symbols
                         : target       ? kind_of(m)->target
                                        : kind_of(m)->source;
    return fmin(known + most_names(m), fmin(said, SEEN * sqrt(said)));
}

/* Returns an upper bound of the tokens in the source or target vocabulary: classes, words that
 * occur often enough, or bytes, characters and merges. A decoder alone has the words of the
 * sources. */
static double most_tokens(const corpus_facts *m, bool target) {
    const bool second = target && attn_model_has_encoder(&m->w->model);
    const bool classes = second && attn_dataset_kind_of(&m->w->model) == ATTN_DATA_CLASSES;
    const double words = most_words(m, second);
    if (classes && m->w->corpus.task == ATTN_WORD_CLASSES)
        return ATTN_PARTS + ATTN_SPECIALS;
    if (m->w->subwords && !classes)
        return SYMBOLS + fmin((double)m->w->subwords,
                              ceil(words * (has_symbols(m) ? 1.1 : kind_of(m)->merges)));
    return ATTN_SPECIALS + fmin(words, TARGET_WORDS * said_words(m) / (double)m->w->minimum);
}

/* Returns the largest number of digits of a symbol. */
static double digits_of(const corpus_facts *m) {
    return 1 + (m->w->corpus.symbols > 10) + (m->w->corpus.symbols > 100);
}

/* Returns an upper bound of the mean number of tokens of a source word. */
static double word_tokens(const corpus_facts *m) {
    const double merges = fmin((double)m->w->subwords, LEARNT * sqrt(said_words(m))),
                 symbols = (double)m->w->corpus.symbols;
    const word_kind *k = kind_of(m);
    if (!m->w->subwords)
        return 1;
    if (!has_symbols(m))
        return fmin(k->characters, fmax(1.05, k->first - k->fewer * log2(merges / 20)));
    return merges < symbols / 10 ? digits_of(m)
                                 : fmin(digits_of(m), 1 + fmax(0, 1.1 - merges / symbols));
}

/* Returns the factor of sqrt(words) by which the tokens of a sentence can exceed their mean. */
static double spread_of(const corpus_facts *m) {
    const double spread = 5 * sqrt(fmin(1, word_tokens(m) - 1));
    return !m->w->subwords ? 0 : has_symbols(m) ? spread : fmax(spread, kind_of(m)->rare);
}

/* Returns an upper bound of the tokens of a source sentence of `words` words. */
static size_t most_source(const corpus_facts *m, size_t words) {
    const double n = (double)words, most = word_tokens(m) * n + spread_of(m) * sqrt(n);
    return (size_t)ceil(m->w->subwords && has_symbols(m) ? fmin(most, digits_of(m) * n) : most);
}

/* Returns an upper bound of the tokens of a target sentence whose source has `words` words. */
static size_t most_target(const corpus_facts *m, size_t words) {
    const double n = (double)words, mean = word_tokens(m) * (m->w->subwords ? TARGET_WORDS : 1);
    return translates(m) ? (size_t)ceil(mean * n + (2.25 + spread_of(m)) * sqrt(n) + 1)
                         : most_source(m, words);
}

/* Returns a lower bound of the tokens of most source sentences with `words` words. */
static size_t least_source(const corpus_facts *m, size_t words) {
    return (size_t)fmax((double)words, 0.7 * word_tokens(m) * (double)words);
}

/* Returns a lower bound of the tokens of a target sentence whose source has `words` words. */
static size_t least_target(const corpus_facts *m, size_t words) {
    const double n = (double)words;
    return translates(m) ? least_source(m, (size_t)fmax(1, n - 1.5 * sqrt(n)))
                         : least_source(m, words);
}

/* Returns an upper bound of the mean number of target tokens. For a decoder alone, these are the
 * tokens of the source. */
static double mean_target(const corpus_facts *m) {
    return m->words * word_tokens(m) * (translates(m) ? TARGET_WORDS : 1);
}

/* Returns an upper bound of the number of sentences with at most `words` words in a group of
 * `group` pairs for training or, if `validates`, for validation. The bound allows three standard
 * deviations for chance: not all pairs were measured, and groups differ. */
static double most_short(const corpus_facts *m, bool validates, double group, size_t words) {
    const double all = (double)m->count, share = m->shorter[words] / all;
    const double spread = group * group * share * (1 - share) / all,
                 own = group * share * (1 - share);
    const bool known = !validates && all >= (double)m->w->num_pairs;
    const double variance = !known ? spread + own : own * (1 - group / all);
    return group * share + 3 * sqrt(variance) + (known ? 0 : 2);
}

/* --- passes --- */

/* The bytes of the largest step of training, of the largest evaluation, and of the largest scoring
 * pass at the end. */
typedef struct largest {
    double step, evaluation, score;
} largest;

/* Returns the bytes of a pass over B pairs of S source and T target tokens, and of the batch. An
 * attention whose numbers become too large is computed again in double, which takes more memory. A
 * training step counts this extra memory for one attention only, because training with such large
 * numbers soon ends. Other passes do not count it. */
static double pass_bytes(const attn_model *model, size_t B, size_t S, size_t T,
                         attn_model_pass pass) {
    const attn_model_cost cost = attn_batch_cost(model, B, S, T, pass, 1);
    size_t sites;
    attn_model_sites(model, &sites);
    return cost.bytes + (pass.trains && sites ? cost.fallback_bytes / (double)sites : 0);
}

/* Returns an upper bound of the number of pairs in a batch for training or for validation. The
 * longest source sentence of the batch has `words` words, and its longest pair has `room` tokens on
 * both sides together. The pairs must fit into batch_tokens. A group that attn_epoch_new sorts must
 * have this many pairs that are so short. */
static size_t most_pairs(const corpus_facts *m, bool validates, size_t words, size_t room) {
    const double count = (double)(validates ? m->w->num_validation_pairs : m->w->num_pairs);
    const double tokens = (double)m->w->loop.batch_tokens;
    const bool both = attn_dataset_kind_of(&m->w->model) != ATTN_DATA_SENTENCES;
    const double pair = m->words * (both ? 2 : 1); /* at least this many tokens in a pair */
    const double group = fmin(count, ATTN_GROUP_BATCHES * (tokens / pair + 1));
    const double most = fmin(floor(tokens / (double)room), most_short(m, validates, group, words));
    return (size_t)fmin(count, fmax(1, most));
}

/* Raises each member of *out to at least the bytes of a pass over the largest batch whose longest
 * sentences have `words` source words, S source tokens and T target tokens. S or T is 0 if the
 * model does not read that side. */
static void raise_to(const corpus_facts *m, const attn_model *model, size_t words, size_t S,
                     size_t T, largest *out) {
    const bool guides = m->w->loop.guidance > 0 || m->w->loop.diversity > 0;
    const attn_model_pass train = {.trains = true, .guides = guides},
                          look = {.keeps_weights = true}, search = {.searches = true};
    const size_t room = S + (T ? T : S + 1), B = most_pairs(m, false, words, room),
                 looked = most_pairs(m, true, words, room),
                 fit = room < ATTN_SCORE_TOKENS ? ATTN_SCORE_TOKENS / room : 1,
                 scored = fit < SRV_SCORED_AT_A_TIME ? fit : SRV_SCORED_AT_A_TIME;
    out->step = fmax(out->step, pass_bytes(model, B, S, T, train));
    out->evaluation = fmax(out->evaluation, pass_bytes(model, looked, S, T, look));
    if (attn_dataset_kind_of(&m->w->model) != ATTN_DATA_PAIRS)
        out->score = fmax(out->score, pass_bytes(model, scored, S, T, look));
    else
        out->score = fmax(out->score, pass_bytes(model, 1, S, T, look) +
                                          pass_bytes(model, 1, S, 2 * S + 10, search));
}

/* Returns an upper bound of the bytes of all passes, over all possible lengths of sentences. A
 * training step and an evaluation are in memory at the same time, so their bytes are added. The
 * bound is this sum or the bytes of the scoring at the end, whichever is more. */
static double passes_bytes(const corpus_facts *m, const attn_model *model) {
    const attn_dataset_kind kind = attn_dataset_kind_of(&m->w->model);
    largest found = {0};
    for (size_t n = m->w->corpus.shortest; n <= m->w->corpus.longest; n++) {
        const size_t S[2] = {most_source(m, n), least_source(m, n)},
                     T[2] = {most_target(m, n) + 1, least_target(m, n) + 1};
        for (int i = 0; i < 2; i++)
            raise_to(m, model, n, kind == ATTN_DATA_SENTENCES ? 0 : S[i],
                     kind == ATTN_DATA_CLASSES     ? 0
                     : kind == ATTN_DATA_SENTENCES ? S[i] + 1
                                                   : T[i],
                     &found);
    }
    return fmax(ROUNDING * (found.step + found.evaluation), SCORE_MARGIN * found.score);
}

/* Returns an upper bound, in bytes, of the memory of a training run. `parameters` is the number of
 * the model's parameters, and `tables` the bytes of its other tables. */
static double run_bytes(const corpus_facts *m, const attn_model *model, double parameters,
                        double tables) {
    const bool links = attn_dataset_kind_of(&m->w->model) == ATTN_DATA_PAIRS;
    const double target = mean_target(m),
                 pairs = (double)(m->w->num_pairs + m->w->num_validation_pairs);
    /* A target word has at most two links. Each token of it is linked to each token of a source
     * word. */
    const double pair = PAIR_BYTES + sizeof(int32_t) * 2 * target +
                        (links ? 2 * sizeof(attn_link) * word_tokens(m) * target : 0);
    const double words = most_words(m, false) + most_words(m, true);
    return ROUNDING * (PARAMETERS * 4 * parameters + 3 * tables + pairs * pair) +
           passes_bytes(m, model) + (m->w->subwords ? (WORD_BYTES + LEARN_BYTES) * words : 0) +
           MERGE_BYTES * (double)m->w->subwords * (links ? 2 : 1) +
           WORD_BYTES * (most_tokens(m, false) + most_tokens(m, true)) + FIXED_BYTES;
}

/* --- checks --- */

/* Makes sentence pairs for validation and held-out data, to check the options of the corpus. Also
 * makes some pairs for training, and measures them. */
static attn_status measure_pairs(const attn_corpus *corpus, attn_pair *pair, corpus_facts *m,
                                 attn_error *err) {
    for (attn_split split = ATTN_TRAIN; split <= ATTN_HELD_OUT; split++)
        ATTN_TRY(attn_corpus_pair(corpus, split, 0, pair, err));
    for (size_t i = 0; i < m->count; i++) {
        ATTN_TRY(attn_corpus_pair(corpus, ATTN_TRAIN, i, pair, err));
        m->words += (double)pair->source_count / (double)m->count;
        for (size_t n = pair->source_count; n <= LONGEST; n++)
            m->shorter[n]++;
    }
    return ATTN_OK;
}

static attn_status measure_corpus(const srv_train_options *w, corpus_facts *out, attn_error *err) {
    attn_arena *arena = attn_arena_new((size_t)1 << 26);
    attn_pair *pair = arena ? attn_arena_zeroed(arena, 1, sizeof *pair) : NULL;
    attn_corpus *corpus;
    attn_status status = pair ? attn_corpus_new(&w->corpus, arena, &corpus, err)
                              : attn_fail(err, ATTN_ENOMEM, "", "no memory for a corpus");
    *out = (corpus_facts){.w = w, .count = w->num_pairs < MEASURED ? w->num_pairs : MEASURED};
    if (!status)
        status = measure_pairs(corpus, pair, out, err);
    attn_arena_free(arena);
    return status;
}

/* Computes an upper bound, in bytes, of the memory of a training run with this configuration. */
static attn_status bytes_of(const corpus_facts *m, const attn_model_config *config, size_t *bytes,
                            attn_error *err) {
    size_t all, values;
    attn_model *model;
    ATTN_TRY(attn_model_bytes(config, false, &all, err));
    ATTN_TRY(attn_model_bytes(config, true, &values, err));
    ATTN_TRY(attn_model_declare(config, &model, err));
    values -= all; /* the bytes of the gradients, one float for each parameter */
    const double most = run_bytes(m, model, (double)values / 4, (double)(all - values));
    *bytes = most < MOST_BYTES ? (size_t)most : (size_t)MOST_BYTES;
    attn_model_free(model);
    return ATTN_OK;
}

attn_status srv_train_check(const srv_train_options *w, size_t *bytes, attn_error *err) {
    attn_model_config config = w->model;
    corpus_facts facts;
    if (w->corpus.shortest > w->corpus.longest)
        return attn_fail(err, ATTN_EVALUE, "shortest", "expected at most longest (%d), found %d",
                         (int)w->corpus.longest, (int)w->corpus.shortest);
    if (attn_dataset_kind_of(&config) == ATTN_DATA_CLASSES &&
        (w->corpus.task == ATTN_EN_FR || w->corpus.task == ATTN_EN_FR_TEXT))
        return attn_fail(err, ATTN_EVALUE, "task",
                         "an encoder alone learns one word for each word of its source: expected "
                         "word-classes, copy, reverse or sort");
    ATTN_TRY(measure_corpus(w, &facts, err));
    config.source_vocabulary = (size_t)most_tokens(&facts, false);
    config.target_vocabulary = (size_t)most_tokens(&facts, true);
    return bytes_of(&facts, &config, bytes, err);
}
