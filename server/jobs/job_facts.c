/* The field tables of jobs (wire/fields.h): one for the body of POST /v1/jobs, and one for the
 * facts in answers and files. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/job.h"

const char *const srv_job_states[] = {"queued", "running", "done", "failed", "cancelled", NULL};
const char *const srv_job_kinds[] = {"train", "experiment", "look", "store", NULL};

/* The kinds that POST /v1/jobs creates. */
static const char *const created_kinds[] = {"train", "experiment", NULL};

/* --- bodies --- */

enum { MOST_EXPERIMENTS = 64 };

srv_field srv_job_fields[SRV_JOB_FIELDS + 1];
static srv_field setting_fields[SRV_JOB_SETTINGS + 1];
static const char *experiments[MOST_EXPERIMENTS + 1];
/* srv_job_fields begins with train_rows rows for training jobs and common_rows rows for all jobs.
 * The rest is for experiments. */
static size_t train_rows, common_rows;

static const srv_field *find_setting(const char *name) {
    const srv_field *f = setting_fields;
    while (f->name && strcmp(f->name, name) != 0)
        f++;
    return f;
}

/* Fills `experiments` and `setting_fields`. Several experiments may have a setting of the same
 * name; it gets one row, without a range, because each experiment checks the ranges of its own
 * settings. */
static void list_settings(void) {
    const attn_experiment *e;
    size_t n = 0;
    for (size_t i = 0; (e = attn_experiment_at(i)) && i < MOST_EXPERIMENTS; i++) {
        experiments[i] = e->name;
        for (size_t k = 0; k < e->setting_count && n < SRV_JOB_SETTINGS; k++) {
            if (find_setting(e->settings[k].name)->name)
                continue;
            setting_fields[n] =
                (srv_field){.name = e->settings[k].name,
                            .kind = SRV_REAL,
                            .offset = offsetof(srv_job_body, settings.values[0]) -
                                      offsetof(srv_job_body, settings) + n * sizeof(double),
                            .doc = e->settings[k].doc};
            n++;
        }
    }
}

static void settings_init(void *settings) {
    double *values = (double *)((uint64_t *)settings + 1);
    for (size_t i = 0; i < SRV_JOB_SETTINGS; i++)
        values[i] = (double)NAN;
}

static srv_field stored_fields[SRV_JOB_FIELDS + SRV_TRAIN_OLD_NAMES + 1];
static srv_field stored_settings[SRV_JOB_SETTINGS + SRV_TRAIN_OLD_NAMES + 1];

/* Copies a table and adds a row for each old name of its fields. Returns its end. */
static srv_field *copy_with_old(const srv_field *from, srv_field *to) {
    for (; from->name; from++) {
        *to++ = *from;
        for (const srv_old_name *old = srv_train_old_names; old->now; old++)
            if (strcmp(from->name, old->now) == 0) {
                *to = *from;
                to++->name = old->before;
            }
    }
    *to = (srv_field){0};
    return to;
}

/* Makes the tables of bodies in jobs_dir. */
static void make_stored(void) {
    copy_with_old(setting_fields, stored_settings);
    copy_with_old(srv_job_fields, stored_fields);
    for (srv_field *f = stored_fields; f->name; f++)
        if (f->fields == setting_fields)
            f->fields = stored_settings;
}

const srv_field *srv_job_stored_fields(void) {
    return stored_fields;
}

static void make_stored_facts(void);

void srv_job_fields_make(void) {
    size_t n = 0;
    memset(setting_fields, 0, sizeof setting_fields);
    list_settings();
    for (; srv_train_fields[n].name; n++)
        srv_job_fields[n] = srv_train_fields[n];
    srv_job_fields[n++] =
        (srv_field){.name = "store",
                    .kind = SRV_BOOL,
                    .offset = offsetof(srv_job_body, store),
                    .doc = "Store a run with all attention sites: a pass of the best model over "
                           "the first sentence pair for validation. run of the job is its id."};
    train_rows = n;
    srv_job_fields[n++] =
        (srv_field){.name = "kind",
                    .kind = SRV_ENUM,
                    .offset = offsetof(srv_job_body, kind),
                    .choices = created_kinds,
                    .doc = "train: train a model with the training fields; experiment: run an "
                           "experiment with experiment, full and settings.",
                    .required = true};
    srv_job_fields[n++] = (srv_field){.name = "shared",
                                      .kind = SRV_BOOL,
                                      .offset = offsetof(srv_job_body, shared),
                                      .doc = "The job and its model belong to everyone: all lists "
                                             "show them, and an admin deletes them."};
    common_rows = n - train_rows;
    srv_job_fields[n++] =
        (srv_field){.name = "experiment",
                    .kind = SRV_ENUM,
                    .offset = offsetof(srv_job_body, experiment),
                    .choices = experiments,
                    .doc = "Name of the experiment; `attnd experiment` lists them."};
    srv_job_fields[n++] =
        (srv_field){.name = "full",
                    .kind = SRV_BOOL,
                    .offset = offsetof(srv_job_body, full),
                    .doc = "Use the settings of the full profile, which takes longer."};
    srv_job_fields[n++] = (srv_field){.name = "settings",
                                      .kind = SRV_OBJECT,
                                      .offset = offsetof(srv_job_body, settings),
                                      .fields = setting_fields,
                                      .init = settings_init,
                                      .doc = "Settings of the experiment."};
    srv_job_fields[n] = (srv_field){0};
    make_stored();
    make_stored_facts();
}

void srv_job_defaults(srv_job_body *body) {
    *body = (srv_job_body){.kind = SRV_JOB_TRAIN, .experiment = -1};
    srv_train_defaults(&body->train);
    settings_init(&body->settings);
}

/* Refuses field i, which belongs to jobs of the other kind. A training field may also be the name
 * of a setting of the experiment. */
static void refuse_field(srv_request *req, const srv_job_body *body, size_t i) {
    const char *name = srv_job_fields[i].name;
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
    const bool trains = body->kind == SRV_JOB_TRAIN;
    for (size_t i = 0; srv_job_fields[i].name; i++) {
        const bool other = trains ? i >= train_rows + common_rows : i < train_rows;
        if (!other || !(body->train.given >> i & 1))
            continue;
        refuse_field(req, body, i);
        return false;
    }
    if (trains || body->experiment >= 0)
        return true;
    srv_problem(req, SRV_VALUE, "/experiment", "expected the name of an experiment, found none");
    return false;
}

static void refuse_setting(const attn_experiment *e, attn_error *err) {
    char known[sizeof err->text / 2] = "";
    for (size_t i = 0, used = 0; i < e->setting_count && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 e->settings[i].name);
    attn_fail(err, ATTN_EVALUE, "", "the experiment %s has no such setting; it has %s", e->name,
              known);
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
        if (at == e->setting_count) {
            refuse_setting(e, err);
            snprintf(err->where, sizeof err->where, "settings/%s", f->name);
            return ATTN_EVALUE;
        }
        values[at] = value;
    }
    const attn_status status = attn_experiment_check(e, values, err);
    if (status) {
        char name[40];
        snprintf(name, sizeof name, "%.39s", err->where);
        snprintf(err->where, sizeof err->where, "settings/%s", name);
    }
    return status;
}

/* --- facts --- */

#define WHOLE(T, member)                                                                           \
    { .name = #member, .kind = SRV_INT, .offset = offsetof(T, member) }
#define REAL(T, member)                                                                            \
    { .name = #member, .kind = SRV_REAL, .offset = offsetof(T, member) }
#define GROUP(member, table)                                                                       \
    {                                                                                              \
        .name = #member, .kind = SRV_OBJECT, .offset = offsetof(srv_job_facts, member),            \
        .fields = table                                                                            \
    }

static const srv_field validation_fields[] = {REAL(srv_job_validation, loss),
                                              REAL(srv_job_validation, right),
                                              REAL(srv_job_validation, head_similarity),
                                              {0}};
static const srv_field best_fields[] = {WHOLE(srv_job_best, step), REAL(srv_job_best, loss), {0}};
static const srv_field error_fields[] = {WHOLE(srv_job_alignment, head),
                                         REAL(srv_job_alignment, best),
                                         REAL(srv_job_alignment, mean),
                                         {0}};
static const srv_field score_fields[] = {WHOLE(srv_job_scores, num_sentences),
                                         REAL(srv_job_scores, bleu),
                                         REAL(srv_job_scores, exact),
                                         {.name = "alignment_error",
                                          .kind = SRV_OBJECT,
                                          .offset = offsetof(srv_job_scores, alignment_error),
                                          .fields = error_fields},
                                         {0}};

const srv_field srv_job_facts_fields[] = {
    {.name = "state",
     .kind = SRV_ENUM,
     .offset = offsetof(srv_job_facts, state),
     .choices = srv_job_states},
    WHOLE(srv_job_facts, created_ms),
    WHOLE(srv_job_facts, started_ms),
    WHOLE(srv_job_facts, ended_ms),
    REAL(srv_job_facts, progress),
    WHOLE(srv_job_facts, step),
    WHOLE(srv_job_facts, num_steps),
    WHOLE(srv_job_facts, epoch),
    REAL(srv_job_facts, loss),
    REAL(srv_job_facts, rate),
    REAL(srv_job_facts, words_per_second),
    WHOLE(srv_job_facts, elapsed_ms),
    WHOLE(srv_job_facts, remaining_ms),
    GROUP(validation, validation_fields),
    GROUP(best, best_fields),
    GROUP(scores, score_fields),
    {.name = "owner", .kind = SRV_STRING, .offset = offsetof(srv_job_facts, owner)},
    {.name = "error", .kind = SRV_STRING, .offset = offsetof(srv_job_facts, error)},
    {.name = "model", .kind = SRV_STRING, .offset = offsetof(srv_job_facts, model)},
    {.name = "run", .kind = SRV_STRING, .offset = offsetof(srv_job_facts, run)},
    {.name = "pictures", .kind = SRV_STRINGS, .offset = offsetof(srv_job_facts, pictures)},
    WHOLE(srv_job_facts, reserved_bytes),
    WHOLE(srv_job_facts, peak_bytes),
    {0},
};

static srv_field stored_facts[sizeof srv_job_facts_fields / sizeof *srv_job_facts_fields +
                              SRV_TRAIN_OLD_NAMES + 2];

static srv_field stored_scores[sizeof score_fields / sizeof *score_fields + SRV_TRAIN_OLD_NAMES];

/* Makes the table of facts in jobs_dir, with the rows of earlier versions. */
static void make_stored_facts(void) {
    srv_field *to = copy_with_old(srv_job_facts_fields, stored_facts);
    *to++ = (srv_field)REAL(srv_job_facts, seconds);
    *to++ = (srv_field)REAL(srv_job_facts, remaining_seconds);
    copy_with_old(score_fields, stored_scores);
    for (srv_field *f = stored_facts; f->name; f++)
        if (f->fields == score_fields)
            f->fields = stored_scores;
}

const srv_field *srv_job_stored_facts(void) {
    return stored_facts;
}

srv_job_facts srv_job_no_facts(void) {
    const double no = (double)NAN;
    return (srv_job_facts){
        .created_ms = -1,
        .started_ms = -1,
        .ended_ms = -1,
        .step = -1,
        .num_steps = -1,
        .epoch = -1,
        .loss = no,
        .rate = no,
        .words_per_second = no,
        .elapsed_ms = -1,
        .remaining_ms = -1,
        .seconds = no,
        .progress = 0,
        .validation = {0, no, no, no},
        .best = {0, -1, no},
        .scores = {0, -1, no, no, {0, -1, no, no}},
        .reserved_bytes = -1,
        .peak_bytes = -1,
    };
}

/* Returns whether the value at `place` is known. An object is known if any of its members is. */
static bool is_known(const srv_field *f, const void *place) {
    bool any = f->kind == SRV_BOOL || f->kind == SRV_ENUM;
    if (f->kind == SRV_INT)
        return *(const int64_t *)place >= 0;
    if (f->kind == SRV_REAL)
        return isfinite(*(const double *)place);
    if (f->kind == SRV_STRING)
        return *(const char *const *)place != NULL;
    if (f->kind == SRV_STRINGS)
        return ((const srv_strings *)place)->count > 0;
    for (const srv_field *in = f->fields; !any && in && in->name; in++)
        any = is_known(in, (const char *)place + in->offset);
    return any;
}

static void put_strings(attn_json_text *j, const srv_strings *list) {
    attn_json_array(j);
    for (size_t i = 0; i < list->count; i++)
        attn_json_string(j, list->values[i]);
    attn_json_array_end(j);
}

static void put_value(attn_json_text *j, const srv_field *f, const void *place) {
    if (f->kind == SRV_BOOL)
        attn_json_bool(j, *(const bool *)place);
    else if (f->kind == SRV_INT)
        attn_json_int(j, *(const int64_t *)place);
    else if (f->kind == SRV_REAL)
        attn_json_real(j, *(const double *)place);
    else if (f->kind == SRV_ENUM)
        attn_json_string(j, f->choices[*(const int *)place]);
    else if (f->kind == SRV_STRING)
        attn_json_string(j, *(const char *const *)place);
    else if (f->kind == SRV_STRINGS)
        put_strings(j, place);
}

/* Writes the member of the struct `base` that the row describes, if its value is known. */
static void put_member(attn_json_text *j, const srv_field *f, const void *base) {
    const void *place = (const char *)base + f->offset;
    if (!is_known(f, place))
        return;
    attn_json_key(j, f->name);
    if (f->kind != SRV_OBJECT) {
        put_value(j, f, place);
        return;
    }
    attn_json_object(j);
    for (const srv_field *in = f->fields; in->name; in++)
        put_member(j, in, place);
    attn_json_object_end(j);
}

void srv_job_write_request(attn_json_text *j, const srv_job_body *body) {
    attn_json_object(j);
    const bool trains = body->kind == SRV_JOB_TRAIN;
    for (size_t i = 0; srv_job_fields[i].name; i++)
        if (trains ? i < train_rows + common_rows : i >= train_rows)
            put_member(j, &srv_job_fields[i], body);
    attn_json_object_end(j);
}

void srv_job_write_facts(attn_json_text *j, const srv_job_facts *facts) {
    for (const srv_field *f = srv_job_facts_fields; f->name; f++)
        put_member(j, f, facts);
}
