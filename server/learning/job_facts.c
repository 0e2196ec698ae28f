/* What is asked of jobs and known of them, as tables: of bodies, answers and files. */
#include <math.h>
#include <string.h>

#include "learning/job.h"

const char *const srv_job_states[] = {"queued", "running", "done", "failed", "cancelled", NULL};
const char *const srv_job_kinds[] = {"train", NULL};

/* --- bodies --- */

srv_field srv_job_fields[SRV_JOB_FIELDS + 1];

void srv_job_fields_make(void) {
    size_t n = 0;
    for (; srv_train_fields[n].name; n++)
        srv_job_fields[n] = srv_train_fields[n];
    srv_job_fields[n++] = (srv_field){.name = "kind",
                                      .kind = SRV_ENUM,
                                      .offset = offsetof(srv_job_body, kind),
                                      .choices = srv_job_kinds,
                                      .doc = "What to do: train a model.",
                                      .required = true};
    srv_job_fields[n] = (srv_field){0};
}

void srv_job_defaults(srv_job_body *body) {
    *body = (srv_job_body){.kind = SRV_JOB_TRAIN};
    srv_train_defaults(&body->train);
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

static const srv_field validation_fields[] = {
    REAL(srv_job_validation, loss), REAL(srv_job_validation, right), {0}};
static const srv_field best_fields[] = {WHOLE(srv_job_best, step), REAL(srv_job_best, loss), {0}};
static const srv_field error_fields[] = {WHOLE(srv_job_alignment, head),
                                         REAL(srv_job_alignment, best),
                                         REAL(srv_job_alignment, mean),
                                         {0}};
static const srv_field score_fields[] = {WHOLE(srv_job_scores, sentences),
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
    WHOLE(srv_job_facts, steps),
    WHOLE(srv_job_facts, epoch),
    REAL(srv_job_facts, loss),
    REAL(srv_job_facts, rate),
    REAL(srv_job_facts, words_per_second),
    REAL(srv_job_facts, seconds),
    REAL(srv_job_facts, remaining_seconds),
    GROUP(validation, validation_fields),
    GROUP(best, best_fields),
    GROUP(scores, score_fields),
    {.name = "error", .kind = SRV_STRING, .offset = offsetof(srv_job_facts, error)},
    {.name = "model", .kind = SRV_STRING, .offset = offsetof(srv_job_facts, model)},
    WHOLE(srv_job_facts, reserved_bytes),
    WHOLE(srv_job_facts, peak_bytes),
    {0},
};

srv_job_facts srv_job_no_facts(void) {
    const double no = (double)NAN;
    return (srv_job_facts){
        .created_ms = -1,
        .started_ms = -1,
        .ended_ms = -1,
        .step = -1,
        .steps = -1,
        .epoch = -1,
        .loss = no,
        .rate = no,
        .words_per_second = no,
        .seconds = no,
        .remaining_seconds = no,
        .progress = 0,
        .validation = {0, no, no},
        .best = {0, -1, no},
        .scores = {0, -1, no, no, {0, -1, no, no}},
        .reserved_bytes = -1,
        .peak_bytes = -1,
    };
}

/* Is the value known? */
static bool is_known(const srv_field *f, const void *place) {
    bool any = f->kind == SRV_BOOL || f->kind == SRV_ENUM;
    if (f->kind == SRV_INT)
        return *(const int64_t *)place >= 0;
    if (f->kind == SRV_REAL)
        return isfinite(*(const double *)place);
    if (f->kind == SRV_STRING)
        return *(const char *const *)place != NULL;
    for (const srv_field *in = f->fields; !any && in && in->name; in++)
        any = is_known(in, (const char *)place + in->offset);
    return any;
}

static void put_value(srv_json *j, const srv_field *f, const void *place) {
    if (f->kind == SRV_BOOL)
        srv_json_bool(j, *(const bool *)place);
    else if (f->kind == SRV_INT)
        srv_json_int(j, *(const int64_t *)place);
    else if (f->kind == SRV_REAL)
        srv_json_real(j, *(const double *)place);
    else if (f->kind == SRV_ENUM)
        srv_json_string(j, f->choices[*(const int *)place]);
    else if (f->kind == SRV_STRING)
        srv_json_string(j, *(const char *const *)place);
}

/* Members of what is known. */
static void put_members(srv_json *j, const srv_field *fields, const void *base) {
    for (const srv_field *f = fields; f->name; f++) {
        const void *place = (const char *)base + f->offset;
        if (!is_known(f, place))
            continue;
        srv_json_key(j, f->name);
        if (f->kind != SRV_OBJECT) {
            put_value(j, f, place);
            continue;
        }
        srv_json_object(j);
        put_members(j, f->fields, place);
        srv_json_object_end(j);
    }
}

void srv_job_write_request(srv_json *j, const srv_job_body *body) {
    srv_json_object(j);
    put_members(j, srv_job_fields, body);
    srv_json_object_end(j);
}

void srv_job_write_facts(srv_json *j, const srv_job_facts *facts) {
    put_members(j, srv_job_facts_fields, facts);
}
