/* The facts of jobs: their field table, and jobs as JSON. */
#include <math.h>

#include "jobs/job.h"

const char *const srv_job_states[] = {"queued", "running", "done", "failed", "cancelled", NULL};

#define WHOLE(T, member)     SRV_FIELD_ROW(T, member, SRV_INT, NULL)
#define REAL(T, member)      SRV_FIELD_ROW(T, member, SRV_REAL, NULL)
#define GROUP(member, table) SRV_FIELD_ROW(srv_job_facts, member, SRV_OBJECT, NULL, .fields = table)

static const srv_field validation_fields[] = {REAL(srv_job_validation, loss),
                                              REAL(srv_job_validation, right),
                                              REAL(srv_job_validation, head_similarity),
                                              {0}};
static const srv_field best_fields[] = {WHOLE(srv_job_best, step), REAL(srv_job_best, loss), {0}};
static const srv_field error_fields[] = {WHOLE(srv_job_alignment, head),
                                         REAL(srv_job_alignment, best),
                                         REAL(srv_job_alignment, mean),
                                         {0}};
static const srv_field score_fields[] = {
    WHOLE(srv_job_scores, num_sentences),
    REAL(srv_job_scores, bleu),
    REAL(srv_job_scores, exact),
    SRV_FIELD_ROW(srv_job_scores, alignment_error, SRV_OBJECT, NULL, .fields = error_fields),
    WHOLE(srv_job_scores, num_words),
    REAL(srv_job_scores, right),
    REAL(srv_job_scores, loss),
    {0}};

const srv_field srv_job_facts_fields[] = {
    SRV_ENUM_ROW(srv_job_facts, state, srv_job_states, NULL),
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
    SRV_FIELD_ROW(srv_job_facts, owner, SRV_STRING, NULL),
    SRV_FIELD_ROW(srv_job_facts, error, SRV_STRING, NULL),
    SRV_FIELD_ROW(srv_job_facts, model, SRV_STRING, NULL),
    SRV_FIELD_ROW(srv_job_facts, run, SRV_STRING, NULL),
    SRV_FIELD_ROW(srv_job_facts, pictures, SRV_STRINGS, NULL),
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
        .num_steps = -1,
        .epoch = -1,
        .loss = no,
        .rate = no,
        .words_per_second = no,
        .elapsed_ms = -1,
        .remaining_ms = -1,
        .progress = 0,
        .validation = {0, no, no, no},
        .best = {0, -1, no},
        .scores = {0, -1, no, no, {0, -1, no, no}, -1, no, no},
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
    attn_json_strings(j, list->values, list->count);
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
    for (const srv_field *f = srv_job_fields; f->name; f++)
        if (srv_job_has_field((srv_job_kind)body->kind, f) &&
            !srv_train_leaves_out(&body->train, f))
            put_member(j, f, body);
    attn_json_object_end(j);
}

void srv_job_write_facts(attn_json_text *j, const srv_job_facts *facts) {
    for (const srv_field *f = srv_job_facts_fields; f->name; f++)
        put_member(j, f, facts);
}
