/* The field table of the bodies of POST /v1/jobs. The rows of training are also the options of
 * `attnd train`. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "jobs/job.h"
#include "store/model_fields.h"
#include "wire/decode_value.h"

#define MOST_SEED 9007199254740991.0

const char *const srv_job_kinds[] = {"train", "experiment", "look", "store", NULL};

/* The kinds that POST /v1/jobs creates. */
static const char *const created_kinds[] = {"train", "experiment", NULL};
static const char *const schedules[] = {"constant", "inverse-root", "cosine", NULL};

/* --- experiments and their settings, which the library lists --- */

enum { MOST_EXPERIMENTS = 64 };

static srv_field setting_fields[SRV_JOB_SETTINGS + 1];
static const char *experiments[MOST_EXPERIMENTS + 1];

static const srv_field *find_setting(const char *name) {
    const srv_field *f = setting_fields;
    while (f->name && strcmp(f->name, name) != 0)
        f++;
    return f;
}

/* Settings of several experiments with the same name share one row. The rows have no range, because
 * each experiment checks the ranges of its own settings. */
void srv_job_fields_make(void) {
    const attn_experiment *e;
    size_t n = 0;
    memset(setting_fields, 0, sizeof setting_fields);
    for (size_t i = 0; (e = attn_experiment_at(i)) && i < MOST_EXPERIMENTS; i++) {
        experiments[i] = e->name;
        for (size_t k = 0; k < e->setting_count && n < SRV_JOB_SETTINGS; k++) {
            if (find_setting(e->settings[k].name)->name)
                continue;
            setting_fields[n] =
                (srv_field){.name = e->settings[k].name,
                            .kind = SRV_REAL,
                            .offset = offsetof(srv_job_settings, values) + n * sizeof(double),
                            .doc = e->settings[k].doc};
            n++;
        }
    }
}

static void settings_init(void *settings) {
    for (size_t i = 0; i < SRV_JOB_SETTINGS; i++)
        ((srv_job_settings *)settings)->values[i] = (double)NAN;
}

/* --- the table --- */

#define ROW(field, member, what, least, most, text)                                                \
    SRV_NAMED_ROW(srv_job_body, field, train.member, what, text, .min = least, .max = most)
#define CHOICE(field, member, list, text)                                                          \
    SRV_NAMED_ROW(srv_job_body, field, train.member, SRV_ENUM, text, .choices = list)

#define SETTING_TRAIN(...) SRV_MODEL_ROW(srv_job_body, train.model, __VA_ARGS__)
#define SETTING_BOTH(...)  SRV_MODEL_ROW(srv_job_body, train.model, __VA_ARGS__)
#define SETTING_NEW(...)
#define SETTING_NONE(...)
#define SETTING(member, kind, words, least, most, use, of, sentence)                               \
    SETTING_##use(member, kind, words, least, most, sentence)

const srv_field srv_job_fields[] = {
    CHOICE("task", corpus.task, attn_task_names,
           "The task to learn: en-fr (default), copy, reverse, sort, en-fr-text or word-classes."),
    ROW("large", corpus.large, SRV_BOOL, 0, 0,
        "For en-fr and word-classes: use all words of the lexicon."),
    ROW("shortest", corpus.shortest, SRV_INT, 1, 60, "Fewest source words."),
    ROW("longest", corpus.longest, SRV_INT, 1, 60, "Most source words."),
    ROW("skew", corpus.skew, SRV_REAL, 0.01, 100,
        "A value above 1 makes short sentences more frequent."),
    ROW("num_symbols", corpus.symbols, SRV_INT, 2, 1000,
        "For copy, reverse and sort: number of distinct symbols."),
    ROW("num_pairs", num_pairs, SRV_INT, 1, 10e6, "Number of sentence pairs for training."),
    ROW("num_validation_pairs", num_validation_pairs, SRV_INT, 1, 1e6,
        "Number of sentence pairs for validation."),
    ROW("minimum", minimum, SRV_INT, 1, 1e6,
        "Words with fewer occurrences in the training data become <unk>."),
    ROW("subwords", subwords, SRV_INT, 0, 100e3,
        "Merges of the byte-pair encoding of source and target; 0 (default): whole words. A model "
        "of sub-words knows every text."),
    ATTN_MODEL_SETTING_LIST(SETTING) ROW("seed", loop.seed, SRV_INT, 0, MOST_SEED,
                                         "Seed of initial values, batches and dropout."),
    ROW("num_steps", loop.steps, SRV_INT, 1, 1e9, "Number of batches to train on."),
    ROW("batch_tokens", loop.batch_tokens, SRV_INT, 1, 1e6, "Words in a batch, padding included."),
    ROW("rate", loop.rate, SRV_REAL, 0, 100, "Learning rate."),
    CHOICE("schedule", loop.schedule, schedules,
           "Schedule of the learning rate: constant, inverse-root (default) or cosine."),
    ROW("warmup", loop.warmup, SRV_INT, 0, 1e9, "Warmup steps, in which the learning rate rises."),
    ROW("decay", loop.adam.decay, SRV_REAL, 0, 100, "Weight decay (AdamW)."),
    ROW("clip", loop.clip, SRV_REAL, 0, 1e9, "Largest norm of the gradients; 0: no limit."),
    ROW("smoothing", loop.smoothing, SRV_REAL, 0, 0.99, "Label smoothing."),
    ROW("guidance", loop.guidance, SRV_REAL, 0, 100,
        "Weight of a loss that compares one head of the cross attention with gold alignments."),
    ROW("diversity", loop.diversity, SRV_REAL, 0, 100,
        "Weight of a loss that penalizes similar heads of the cross attention."),
    ROW("evaluate_every", loop.evaluate_every, SRV_INT, 0, 1e9,
        "Steps between evaluations; 0: evaluate only at the end."),
    ROW("patience", loop.patience, SRV_INT, 0, 1e9,
        "Training stops after this many evaluations without a better loss; 0: never."),
    ROW("checkpoint_every", loop.checkpoint_every, SRV_INT, 0, 1e9,
        "Steps between checkpoints; 0: save one at each evaluation."),
    ROW("num_scored_pairs", num_scored_pairs, SRV_INT, 0, 1e6,
        "Number of held-out pairs to score at the end."),
    SRV_BOOL_ROW(srv_job_body, store,
                 "Store a run with all attention sites: a pass of the best model over the first "
                 "sentence pair for validation. run of the job is its id."),
    SRV_ENUM_ROW(srv_job_body, kind, created_kinds,
                 "train: train a model with the training fields; experiment: run an experiment "
                 "with experiment, full and settings.",
                 .required = true),
    SRV_BOOL_ROW(srv_job_body, shared,
                 "The job and its model belong to everyone: all lists show them, and an admin "
                 "deletes them."),
    SRV_ENUM_ROW(srv_job_body, experiment, experiments,
                 "Name of the experiment; `attnd experiment` lists them."),
    SRV_BOOL_ROW(srv_job_body, full, "Use the settings of the full profile, which takes longer."),
    SRV_FIELD_ROW(srv_job_body, settings, SRV_OBJECT, "Settings of the experiment.",
                  .fields = setting_fields, .init = settings_init),
    {0},
};

bool srv_job_has_field(srv_job_kind kind, const srv_field *f) {
    return kind == SRV_JOB_TRAIN ? f->offset < offsetof(srv_job_body, experiment)
                                 : f->offset >= offsetof(srv_job_body, kind);
}

void srv_train_defaults(srv_train_options *w) {
    *w = (srv_train_options){
        .corpus = attn_corpus_defaults(),
        .num_pairs = 20000,
        .num_validation_pairs = 500,
        .num_scored_pairs = 500,
        .minimum = 1,
        .model = attn_model_defaults(),
        .loop = attn_training_defaults(),
    };
    w->corpus.longest = 20;
}

void srv_job_defaults(srv_job_body *body) {
    *body = (srv_job_body){.kind = SRV_JOB_TRAIN, .experiment = -1};
    srv_train_defaults(&body->train);
    settings_init(&body->settings);
}

/* Refuses a field that belongs to jobs of the other kind. A setting of the experiment may have the
 * same name as a training field. In that case the problem says where to send it. */
static void refuse_field(srv_request *req, const srv_job_body *body, const char *name) {
    const attn_experiment *e =
        body->experiment < 0 ? NULL : attn_experiment_at((size_t)body->experiment);
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/%s", name);
    if (body->kind == SRV_JOB_TRAIN || !e)
        srv_problem(req, SRV_UNKNOWN_FIELD, pointer, "\"%s\" is no field of the kind \"%s\"", name,
                    srv_job_kinds[body->kind]);
    else if (attn_experiment_setting(e, name) < e->setting_count)
        srv_problem(req, SRV_UNKNOWN_FIELD, pointer,
                    "\"%s\" is a setting of the experiment \"%s\": send it in \"settings\"", name,
                    e->name);
    else
        srv_problem(req, SRV_UNKNOWN_FIELD, pointer,
                    "\"%s\" is no field of the kind \"experiment\", and the experiment \"%s\" has "
                    "no such setting, which would be sent in \"settings\"",
                    name, e->name);
}

bool srv_job_fits(srv_request *req, const srv_job_body *body) {
    for (size_t i = 0; srv_job_fields[i].name; i++)
        if (srv_given_has(&body->train.given, i) &&
            !srv_job_has_field((srv_job_kind)body->kind, &srv_job_fields[i])) {
            refuse_field(req, body, srv_job_fields[i].name);
            return false;
        }
    if (body->kind == SRV_JOB_TRAIN || body->experiment >= 0)
        return true;
    char expected[400];
    srv_choices_text(experiments, expected, sizeof expected);
    return srv_problem(req, SRV_VALUE, "/experiment", "expected %s, found none", expected);
}

static attn_status refuse_setting(const attn_experiment *e, const char *name, attn_error *err) {
    char known[sizeof err->text / 2] = "";
    for (size_t i = 0, used = 0; i < e->setting_count && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 e->settings[i].name);
    return attn_fail(err, ATTN_EVALUE, name, "the experiment %s has no such setting; it has %s",
                     e->name, known);
}

attn_status srv_job_values(const srv_job_body *body, double values[ATTN_EXPERIMENT_SETTINGS],
                           attn_error *err) {
    const attn_experiment *e = attn_experiment_at((size_t)body->experiment);
    attn_experiment_values(e, body->full, values);
    for (const srv_field *f = setting_fields; f->name; f++) {
        const double value = body->settings.values[f - setting_fields];
        const size_t at = attn_experiment_setting(e, f->name);
        if (!isfinite(value))
            continue;
        if (at == e->setting_count)
            return attn_error_within(refuse_setting(e, f->name, err), "settings", err);
        values[at] = value;
    }
    return attn_error_within(attn_experiment_check(e, values, err), "settings", err);
}
