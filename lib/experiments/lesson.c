/* Training in experiments, and evaluation of the trained models. */
#include "experiments/lesson.h"

#include <math.h>
#include <string.h>

#include "base/try.h"

enum {
    EVALUATIONS = 20, /* points of a training curve */
    VALIDATION = 200, /* validation pairs */
};

const attn_setting_rule attn_lesson_rules[] = {
    {"width", ATTN_IS_MULTIPLE, NULL, 4}, {"shortest", ATTN_IS_AT_MOST, "longest", 0}, {0}};

static bool has_symbols(const attn_experiment *about) {
    return attn_experiment_setting(about, "num_symbols") < about->setting_count;
}

size_t attn_lesson_bytes(const attn_experiment *about, const double *values) {
    /* V: bound for the sizes of both vocabularies together, without special tokens */
    const double V =
        has_symbols(about) ? 2 * attn_setting_value(about, values, "num_symbols") : 1200;
    const double pairs = attn_setting_value(about, values, "num_pairs");
    const double longest = attn_setting_value(about, values, "longest");
    const double tokens = attn_setting_value(about, values, "batch_tokens");
    const double width = attn_setting_value(about, values, "width");
    const double parameters = 3 * V * width + 40 * width * width;
    /* The terms of the sum: 5 floats for each parameter (value, gradient, two moments, best value);
     * for each token of a batch the logits with their gradients, and the states of the layers; the
     * attention weights of a batch; the pairs of both datasets; a constant. */
    return (size_t)(20 * parameters + tokens * (8 * V + 400 * width) + tokens * longest * 8 * 8 +
                    (pairs + VALIDATION) * (40 * longest + 256)) +
           ((size_t)96 << 20);
}

/* Fills corpus, vocabularies and datasets of a lesson whose options and tokenizers are set. */
static attn_status fill_lesson(attn_lab *lab, attn_lesson *l) {
    const size_t pairs = attn_lab_size(lab, "num_pairs");
    attn_pair *pair = attn_lab_take(lab, 1, sizeof *pair);
    if (!pair)
        return lab->status;
    ATTN_TRY(attn_corpus_new(&l->options, lab->work, &l->corpus, lab->err));
    ATTN_TRY(attn_corpus_count(l->corpus, pairs, l->made, pair, lab->err));
    for (size_t side = 0; side < 2; side++)
        ATTN_TRY(attn_tokenizer_settle(l->made[side], 1, 0, lab->err));
    ATTN_TRY(attn_dataset_new(l->corpus, ATTN_TRAIN, 0, pairs, ATTN_DATA_PAIRS, l->source,
                              l->target, lab->work, &l->train, lab->err));
    return attn_dataset_new(l->corpus, ATTN_VALIDATION, 0, VALIDATION, ATTN_DATA_PAIRS, l->source,
                            l->target, lab->work, &l->validation, lab->err);
}

/* Makes the corpus of a task, vocabularies and datasets from the settings, in lab->work. Returns
 * false if the lab has failed. The lesson must be closed (close_lesson) in either case. */
static bool open_lesson(attn_lab *lab, attn_task task, attn_lesson *lesson) {
    attn_language languages[2];
    attn_task_languages(task, languages);
    *lesson =
        (attn_lesson){.options = attn_corpus_defaults(),
                      .made = {attn_tokenizer_new(languages[0]), attn_tokenizer_new(languages[1])}};
    lesson->source = lesson->made[0], lesson->target = lesson->made[1];
    lesson->options.task = task;
    lesson->options.shortest = attn_lab_size(lab, "shortest");
    lesson->options.longest = attn_lab_size(lab, "longest");
    if (has_symbols(lab->about))
        lesson->options.symbols = attn_lab_size(lab, "num_symbols");
    if (!lesson->source || !lesson->target)
        attn_lab_no_memory(lab);
    return !lab->status && attn_lab_ok(lab, fill_lesson(lab, lesson));
}

static void close_lesson(attn_lesson *lesson) {
    attn_tokenizer_free(lesson->made[0]);
    attn_tokenizer_free(lesson->made[1]);
}

/* Returns the default configuration of a model with three changes: the width is the setting, the
 * sizes of the vocabularies are those of the lesson, and there is no dropout. */
static attn_model_config make_config(const attn_lab *lab, const attn_lesson *lesson) {
    attn_model_config config = attn_model_defaults();
    config.width = attn_lab_size(lab, "width");
    config.dropout_p = 0;
    config.source_vocabulary = attn_tokenizer_size(lesson->source);
    config.target_vocabulary = attn_tokenizer_size(lesson->target);
    return config;
}

/* ---- training with progress reports ---- */

/* A model, its results, and its training curve: after steps[i] steps, the model predicted right[i]
 * percent of the validation words right. The curve has `count` points and is in lab->arena. */
typedef struct pupil {
    attn_lab *lab;
    attn_model *model;
    attn_result *result;
    double words; /* target words that the model was trained on */
    double *steps, *right;
    size_t count;
} pupil;

static void see_progress(void *ctx, const attn_training_progress *now) {
    pupil *p = ctx;
    p->words = now->words_per_second * now->seconds;
    if (now->evaluated && p->count < EVALUATIONS + 1) {
        p->steps[p->count] = (double)now->step;
        p->right[p->count++] = 100 * now->validation_right;
    }
    /* attn_lab_done is not called, because attn_train itself checks cancellation and deadline. */
    const attn_lab *lab = p->lab;
    if (lab->hooks->progress)
        lab->hooks->progress(
            lab->hooks->ctx,
            lab->from + (lab->to - lab->from) * (double)now->step / (double)now->steps, NULL);
}

static attn_training_options options_of(const attn_lab *lab) {
    attn_training_options o = attn_training_defaults();
    o.steps = attn_lab_size(lab, "num_steps");
    o.rate = attn_lab_number(lab, "rate");
    o.batch_tokens = attn_lab_size(lab, "batch_tokens");
    o.schedule = ATTN_COSINE;
    o.warmup = o.steps / 10 < 100 ? o.steps / 10 : 100;
    o.evaluate_every = (o.steps + EVALUATIONS - 1) / EVALUATIONS;
    o.seed = attn_lab_seed(lab);
    return o;
}

/* Trains a new model. Returns false if the lab has failed. */
static bool train_pupil(attn_lab *lab, const attn_lesson *lesson, pupil *p) {
    const attn_training_options options = options_of(lab);
    const attn_training_hooks hooks = {see_progress, NULL, p};
    attn_training_state state;
    attn_lab_scratch(lab);
    p->steps = attn_lab_keep(lab, EVALUATIONS + 1, sizeof *p->steps);
    p->right = attn_lab_keep(lab, EVALUATIONS + 1, sizeof *p->right);
    if (lab->status ||
        !attn_lab_ok(lab, attn_training_start(p->model, lab->scratch, &state, lab->err)))
        return false;
    const double began = attn_lab_clock(lab);
    if (!attn_lab_ok(lab,
                     attn_train(p->model, &lesson->train, &lesson->validation, &options, &state,
                                &hooks, lab->hooks->pool, lab->hooks->control, lab->err)))
        return false;
    p->result->seconds = attn_lab_clock(lab) - began;
    p->result->speed = p->words / fmax(p->result->seconds, 1e-9);
    p->result->loss = state.best_loss;
    p->result->right = p->right[p->count - 1];
    attn_training_take_best(p->model, &state);
    return true;
}

/* ---- evaluation of trained models ---- */
bool attn_lesson_score(attn_lab *lab, const attn_lesson *lesson, const attn_model *model,
                       size_t shortest, size_t longest, attn_model_scores *out) {
    attn_corpus_options options = lesson->options;
    attn_corpus *corpus = lesson->corpus;
    *out = (attn_model_scores){0};
    attn_lab_scratch(lab);
    if (longest) {
        options.shortest = shortest, options.longest = longest;
        if (lab->status ||
            !attn_lab_ok(lab, attn_corpus_new(&options, lab->scratch, &corpus, lab->err)))
            return false;
    }
    return !lab->status &&
           attn_lab_ok(lab, attn_model_score(model, corpus, ATTN_HELD_OUT, 0,
                                             attn_lab_size(lab, "num_scored_pairs"), lesson->source,
                                             lesson->target, 1, lab->hooks->pool,
                                             lab->hooks->control, out, lab->err));
}

double attn_lesson_alignment(const attn_model_scores *scores) {
    double best = scores->head_count ? attn_alignment_error(&scores->mean) : (double)NAN;
    for (size_t h = 0; h < scores->head_count; h++)
        best = fmin(best, attn_alignment_error(&scores->heads[h]));
    return best;
}

static const char **copy_words(attn_lab *lab, const char *const *words, size_t n, size_t room) {
    const char **copy = attn_lab_keep(lab, room, sizeof *copy);
    for (size_t i = 0; i < n && !lab->status; i++)
        copy[i] = attn_lab_say(lab, "%s", words[i]);
    return copy;
}

/* Sets words [count] to the texts of the tokens. */
static void name_tokens(const attn_tokenizer *t, const int32_t *ids, size_t count,
                        const char **words) {
    for (size_t i = 0; i < count; i++)
        words[i] = attn_tokenizer_token(t, ids[i]);
}

bool attn_lesson_pair(attn_lab *lab, const attn_lesson *lesson, uint64_t index, attn_pair *pair) {
    attn_dataset one;
    if (!attn_lab_ok(lab, attn_corpus_pair(lesson->corpus, ATTN_HELD_OUT, index, pair, lab->err)))
        return false;
    if (attn_tokenizer_kind_of(lesson->source) != ATTN_TOKENS_SUBWORDS)
        return true;
    attn_lab_scratch(lab);
    if (!attn_lab_ok(lab, attn_dataset_new(lesson->corpus, ATTN_HELD_OUT, index, 1, ATTN_DATA_PAIRS,
                                           lesson->source, lesson->target, lab->scratch, &one,
                                           lab->err)))
        return false;
    const size_t S = one.source_at[1], T = one.target_at[1], links = one.link_at[1];
    if (S > ATTN_PAIR_WORDS || T > ATTN_PAIR_WORDS || links > ATTN_PAIR_LINKS)
        return attn_lab_ok(lab, attn_fail(lab->err, ATTN_ELIMIT, "model",
                                          "splits a sentence into more than %d sub-words or "
                                          "%d links",
                                          ATTN_PAIR_WORDS, ATTN_PAIR_LINKS));
    name_tokens(lesson->source, one.source, S, pair->source);
    name_tokens(lesson->target, one.target, T, pair->target);
    memcpy(pair->links, one.links, links * sizeof *one.links);
    pair->source_count = S, pair->target_count = T, pair->link_count = links;
    return true;
}

bool attn_lesson_specimen(attn_lab *lab, const attn_lesson *lesson, size_t words,
                          attn_specimen *out) {
    *out = (attn_specimen){.pair = attn_lab_take(lab, 1, sizeof *out->pair)};
    for (uint64_t i = 0; !lab->status && i < 1000; i++) {
        if (attn_lesson_pair(lab, lesson, i, out->pair) && out->pair->source_count >= words)
            break;
    }
    if (lab->status)
        return false;
    out->S = out->pair->source_count, out->T = out->pair->target_count + 1;
    out->sources = copy_words(lab, out->pair->source, out->S, out->S);
    out->targets = copy_words(lab, out->pair->target, out->T - 1, out->T);
    if (!lab->status)
        out->targets[out->T - 1] = "<eos>";
    return !lab->status;
}

static void ids_of(const attn_tokenizer *v, const char *const *words, size_t n, int32_t *ids) {
    for (size_t i = 0; i < n; i++)
        ids[i] = attn_tokenizer_id(v, words[i], strlen(words[i]));
}

bool attn_lesson_forward(attn_lab *lab, const attn_lesson *lesson, const attn_model *model,
                         const attn_pair *pair, attn_model_outputs *out) {
    int32_t source[ATTN_PAIR_WORDS],
        target[ATTN_PAIR_WORDS + 1] = {attn_model_configuration(model)->begin};
    const int64_t length = (int64_t)pair->source_count;
    const attn_batch batch = {.B = 1,
                              .S = pair->source_count,
                              .T = pair->target_count + 1,
                              .source = source,
                              .source_lengths = &length,
                              .target = target};
    if (lab->status)
        return false;
    ids_of(lesson->source, pair->source, pair->source_count, source);
    ids_of(lesson->target, pair->target, pair->target_count, target + 1);
    return attn_lab_ok(lab, attn_model_forward(model, &batch,
                                               &(attn_forward_options){.keep = ATTN_KEEP_WEIGHTS},
                                               lab->scratch, lab->hooks->pool, lab->hooks->control,
                                               out, lab->err));
}

/* Returns the weights of the last cross-attention for an example, averaged over heads, as [T, S] in
 * lab->scratch. NULL: the model has no cross-attention, or memory ran out, or the lab has
 * failed. */
static const float *mean_cross_weights(attn_lab *lab, const attn_lesson *lesson,
                                       const attn_model *model, const attn_specimen *specimen) {
    const size_t S = specimen->S, T = specimen->T;
    attn_model_outputs out;
    attn_lab_scratch(lab);
    if (!attn_lesson_forward(lab, lesson, model, specimen->pair, &out))
        return NULL;
    const attn_tensor *cross = NULL;
    for (size_t i = 0; i < out.site_count; i++)
        if (out.sites[i].kind == ATTN_SITE_CROSS)
            cross = &out.sites[i].weights;
    float *mean = cross ? attn_arena_zeroed(lab->scratch, T * S, sizeof *mean) : NULL;
    for (size_t h = 0; mean && h < cross->dims[1]; h++)
        for (size_t i = 0; i < T * S; i++)
            mean[i] += ((const float *)cross->data)[h * T * S + i] / (float)cross->dims[1];
    return mean;
}

/* Returns the gold alignment as cells [T, S] in lab->scratch: 1 for a sure link, 0.5 for a possible
 * link, 0 for no link. NULL: the lab has failed. */
static const float *gold_cells(attn_lab *lab, const attn_specimen *specimen) {
    attn_lab_scratch(lab);
    float *cells = attn_arena_zeroed(lab->scratch, specimen->T * specimen->S, sizeof *cells);
    for (size_t i = 0; cells && i < specimen->pair->link_count; i++) {
        const attn_link *link = &specimen->pair->links[i];
        cells[link->target * specimen->S + link->source] = link->sure ? 1 : 0.5F;
    }
    return cells ? cells : attn_lab_no_memory(lab);
}

/* Adds a picture of `panels` heatmaps [T, S]. Their labels are the words of the example. */
static attn_picture *open_heatmaps(attn_lab *lab, const char *name, const char *title,
                                   size_t panels, const attn_specimen *specimen) {
    attn_picture *p = attn_lab_heatmaps(lab, name, title, panels, specimen->T, specimen->S);
    if (!p)
        return NULL;
    p->options.x_label = "source", p->options.y_label = "target";
    attn_lab_labels(lab, p, specimen->targets, specimen->sources);
    return p;
}

/* ---- contests ---- */
static attn_picture *open_example(attn_lab *lab, const attn_contest *c, const attn_lesson *lesson,
                                  attn_specimen *example) {
    const size_t longest = attn_lab_size(lab, "longest");
    if (!attn_lesson_specimen(lab, lesson, longest < c->words ? longest : c->words, example))
        return NULL;
    size_t panels = c->gold;
    for (size_t v = 0; v < c->count; v++)
        panels += c->variants[v].attention != ATTN_MODEL_NONE;
    attn_picture *p = open_heatmaps(lab, "weights", c->looking, panels, example);
    const float *gold = p && c->gold ? gold_cells(lab, example) : NULL;
    if (gold)
        attn_lab_heatmap(lab, p, c->count, "what belongs together", gold, example->S);
    return lab->status ? NULL : p;
}

#define COLUMN(member, ...) {__VA_ARGS__},
#define NAME(member, ...)   #member,
static const attn_column result_columns[] = {ATTN_RESULT_LIST(COLUMN)};
static const char *const result_names[] = {ATTN_RESULT_LIST(NAME)};

/* Returns the index of the member `name` of attn_result. The member must exist. */
static size_t index_of_result(const char *name) {
    size_t i = 0;
    while (strcmp(result_names[i], name))
        i++;
    return i;
}

static attn_table *open_table(attn_lab *lab, const attn_contest *c) {
    attn_column *columns = attn_lab_keep(lab, ATTN_RESULTS_SHOWN, sizeof *columns);
    if (!columns)
        return NULL;
    size_t n = 1;
    columns[0] = (attn_column){"attention", "", -1, false};
    for (; c->shown[n - 1]; n++)
        columns[n] = result_columns[index_of_result(c->shown[n - 1])];
    return attn_lab_table(lab, c->title, columns, n, c->count);
}

static void add_row(attn_table *table, const attn_contest *c, size_t v, const attn_result *result) {
    attn_entry *row = table->entries + table->row_count++ * table->column_count;
    row[0] = (attn_entry){c->variants[v].name, (double)NAN};
    for (size_t i = 0; c->shown[i]; i++)
        row[i + 1].number = ((const double *)result)[index_of_result(c->shown[i])];
}

/* Counts the parameters of a trained variant and scores it. */
static bool find_results(attn_lab *lab, const attn_contest *c, const attn_lesson *lesson, size_t v,
                         attn_model *model, attn_result *out) {
    const attn_parameters *set = attn_model_parameters(model);
    attn_model_scores scores;
    out->parameters = (double)attn_parameters_count(set, "");
    out->cross_parameters = (double)attn_parameters_count(set, "cross_attention");
    if (c->score)
        return c->score(lab, lesson, v, model, out, c->ctx);
    if (!attn_lesson_score(lab, lesson, model, 0, 0, &scores))
        return false;
    out->bleu = attn_bleu_score(&scores.bleu, false);
    out->exact = 100 * (double)scores.bleu.exact / (double)scores.bleu.sentences;
    out->alignment_error = 100 * attn_lesson_alignment(&scores);
    return true;
}

/* The table and the pictures of a contest, and its example. */
typedef struct exhibits {
    attn_table *table;
    attn_picture *curves, *looks;
    attn_specimen example;
} exhibits;

/* Finds the results of a trained variant, and adds its row, its curve and its panel. */
static void exhibit(attn_lab *lab, const attn_contest *c, const attn_lesson *lesson, size_t v,
                    const pupil *p, exhibits *e) {
    const char *name = c->variants[v].name;
    if (!find_results(lab, c, lesson, v, p->model, p->result))
        return;
    add_row(e->table, c, v, p->result);
    if (e->curves)
        attn_lab_curve(lab, e->curves, 0, name, p->steps, p->right, p->count);
    const float *look = e->looks ? mean_cross_weights(lab, lesson, p->model, &e->example) : NULL;
    if (look)
        attn_lab_heatmap(lab, e->looks, v, name, look, e->example.S);
    if (look && c->look)
        c->look(lab, attn_model_configuration(p->model), e->looks, v, &e->example);
}

static void try_variant(attn_lab *lab, const attn_contest *c, const attn_lesson *lesson, size_t v,
                        exhibits *e, attn_result *result) {
    const attn_variant *variant = &c->variants[v];
    const double step = (1 - c->from) / (double)c->count;
    attn_model_config config = make_config(lab, lesson);
    pupil p = {.lab = lab, .result = result};
    config.attention = variant->attention;
    if (variant->heads)
        config.num_heads = variant->heads;
    if (c->configure)
        c->configure(lab, &config);
    attn_lab_part(lab, c->from + step * (double)v, c->from + step * (double)(v + 1), "training: %s",
                  variant->name);
    if (attn_lab_ok(lab, attn_model_new(&config, attn_lab_seed(lab), true, &p.model, lab->err)) &&
        train_pupil(lab, lesson, &p))
        exhibit(lab, c, lesson, v, &p, e);
    attn_model_free(p.model);
}

void attn_lesson_contest(attn_lab *lab, const attn_contest *c, attn_result *results) {
    attn_lesson lesson;
    exhibits e = {.table = open_table(lab, c)};
    attn_lab_part(lab, c->from, c->from, "a corpus of %zu pairs", attn_lab_size(lab, "num_pairs"));
    if (open_lesson(lab, c->task, &lesson)) {
        if (c->learning)
            e.curves =
                attn_lab_curves(lab, "curves", c->learning, "steps", c->right, 1, NULL, c->count);
        if (c->looking)
            e.looks = open_example(lab, c, &lesson, &e.example);
        for (size_t v = 0; v < c->count && !lab->status; v++)
            try_variant(lab, c, &lesson, v, &e, &results[v]);
    }
    close_lesson(&lesson);
}
