/* Jobs that run an experiment of the library. The result is the findings as JSON and as text for
 * terminals, and an SVG for each picture. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "jobs/job.h"
#include "store/model_disk.h"
#include "system/embedded.h"
#include "system/files.h"

enum {
    RESULT_BYTES = 8 << 20,   /* arena limit of a result: all texts and pictures together */
    DRAWING_BYTES = 16 << 20, /* arena limit of one text or picture while it is written */
    MODEL_TIMES = 4,          /* a model takes at most this many times the bytes of its file */
};

static const char MODEL[] = "models/en-fr.safetensors"; /* the built-in model for experiments */

typedef struct work {
    srv_job_entry *job;
    srv_jobs *jobs;
    const attn_experiment *experiment;
    attn_model_file model;
    attn_control control;
} work;

static const srv_file *model_file(void) {
    const srv_file *f = srv_embedded;
    while (f->name && strcmp(f->name, MODEL) != 0)
        f++;
    return f->name ? f : NULL;
}

size_t srv_job_experiment_bytes(const srv_job_body *body, const double *values) {
    const attn_experiment *e = attn_experiment_at((size_t)body->experiment);
    const srv_file *model = e->wants_model ? model_file() : NULL;
    return attn_experiment_bytes(e, values) + RESULT_BYTES + DRAWING_BYTES +
           (model ? MODEL_TIMES * model->size : 0);
}

static void on_progress(void *ctx, double done, const char *line) {
    work *w = ctx;
    pthread_mutex_lock(&w->jobs->lock);
    srv_job_set_progress(w->job, done);
    if (line)
        srv_job_tell_line(w->job, line);
    srv_job_tell_share(w->job);
    pthread_mutex_unlock(&w->jobs->lock);
    srv_jobs_offer_turn(w->jobs);
}

/* --- the result --- */

static attn_status no_memory(attn_error *err) {
    return attn_fail(err, ATTN_ENOMEM, "result", "no memory for texts and pictures");
}

/* Copies the text into the arena of the result, because the arena of the text will be reused. */
static attn_status keep_text(bool failed, const char *text, size_t size, srv_piece *out,
                             attn_arena *arena, attn_error *err) {
    char *kept = failed ? NULL : attn_arena_text(arena, text, size);
    *out = (srv_piece){kept, size};
    return kept ? ATTN_OK : no_memory(err);
}

static attn_status draw_pictures(const attn_findings *found, srv_job_result *r, attn_arena *scratch,
                                 const char **names, attn_error *err) {
    for (size_t i = 0; i < found->picture_count; i++) {
        const char *name = found->pictures[i].name;
        attn_arena_reset(scratch);
        attn_text svg = {.arena = scratch};
        ATTN_TRY(attn_picture_draw(&found->pictures[i], &svg, err));
        ATTN_TRY(keep_text(svg.failed, svg.data, svg.size, &r->svgs[i], r->arena, err));
        if (!(names[i] = attn_arena_text(r->arena, name, strlen(name))))
            return no_memory(err);
    }
    return ATTN_OK;
}

static attn_status write_result(const attn_findings *found, srv_job_result *r,
                                srv_strings *pictures, attn_arena *scratch, attn_error *err) {
    attn_json_text json = {.arena = scratch, .decimals = -1};
    attn_text text = {.arena = scratch};
    const size_t n = found->picture_count;
    attn_findings_json(found, &json);
    ATTN_TRY(keep_text(json.failed, json.data, json.size, &r->json, r->arena, err));
    attn_findings_print(found, &text);
    ATTN_TRY(keep_text(text.failed, text.data, text.size, &r->text, r->arena, err));
    const char **names = attn_arena_zeroed(r->arena, n + 1, sizeof *names);
    r->svgs = attn_arena_zeroed(r->arena, n + 1, sizeof *r->svgs);
    if (!names || !r->svgs)
        return no_memory(err);
    *pictures = (srv_strings){names, n};
    return draw_pictures(found, r, scratch, names, err);
}

srv_piece *srv_job_part(srv_job_result *result, const srv_strings *pictures, size_t i,
                        char suffix[SRV_JOB_SUFFIX]) {
    if (i < 2) {
        snprintf(suffix, SRV_JOB_SUFFIX, "%s", i ? SRV_JOB_TEXT : SRV_JOB_FINDINGS);
        return i ? &result->text : &result->json;
    }
    if (!result->svgs || i - 2 >= pictures->count)
        return NULL;
    snprintf(suffix, SRV_JOB_SUFFIX, ".%.50s" SRV_JOB_PICTURE, pictures->values[i - 2]);
    return &result->svgs[i - 2];
}

static void save_result(work *w, srv_job_result *r, const srv_strings *pictures) {
    char suffix[SRV_JOB_SUFFIX];
    const srv_piece *piece;
    for (size_t i = 0; (piece = srv_job_part(r, pictures, i, suffix)); i++)
        srv_jobs_dir_put(w->jobs, w->job, suffix, piece);
}

static void take_result(work *w, const srv_job_result *r, const srv_strings *pictures) {
    pthread_mutex_lock(&w->jobs->lock);
    w->job->result = *r;
    w->job->facts.pictures = *pictures;
    pthread_mutex_unlock(&w->jobs->lock);
}

static attn_status report_findings(work *w, const attn_findings *found, attn_error *err) {
    srv_job_result r = {.arena = attn_arena_new(RESULT_BYTES)};
    attn_arena *scratch = attn_arena_new(DRAWING_BYTES);
    srv_strings pictures = {0};
    attn_status status =
        r.arena && scratch ? write_result(found, &r, &pictures, scratch, err) : no_memory(err);
    attn_arena_free(scratch);
    if (status) {
        attn_arena_free(r.arena);
        return status;
    }
    save_result(w, &r, &pictures);
    take_result(w, &r, &pictures);
    return ATTN_OK;
}

/* Reads the file <id><suffix> of the result. If its contents are wrong, leaves *data empty and
 * appends a sentence about the file to the error of the job. Returns 0. If the file cannot be read
 * now, returns the errno value of the reason. */
static int restore_file(srv_job_entry *e, const char *suffix, const srv_strings *files,
                        attn_arena *arena, srv_piece *data) {
    char said[ERROR_TEXT], text[ERROR_TEXT];
    const int failed = srv_jobs_dir_get(e->jobs, e, suffix, files, arena, data);
    if (!failed || srv_file_judge(failed) == SRV_FILE_TROUBLE)
        return failed;
    const char *why = failed == EBADMSG ? "it is not as it was written" : strerror(failed);
    srv_log_event(e->jobs->log, SRV_LOG_ERROR, "jobs_dir: %s%s cannot be used: %.200s", e->id,
                  suffix, why);
    snprintf(text, sizeof text, "%s%s cannot be used: %.200s", e->id, suffix, why);
    snprintf(said, sizeof said, "%s%s", e->facts.error ? e->facts.error : "jobs_dir",
             e->facts.error ? "; " : ": ");
    snprintf(e->error_text, sizeof e->error_text, "%.300s%.330s", said, text);
    e->facts.error = e->error_text;
    return 0;
}

int srv_job_restore_result(srv_job_entry *e, const srv_strings *pictures,
                           const srv_strings *files) {
    srv_job_result r = {.arena = attn_arena_new(2 * RESULT_BYTES)};
    work w = {.job = e, .jobs = e->jobs};
    const size_t n = pictures->count;
    const char **names = r.arena ? attn_arena_zeroed(r.arena, n + 1, sizeof *names) : NULL;
    r.svgs = names ? attn_arena_zeroed(r.arena, n + 1, sizeof *r.svgs) : NULL;
    bool ok = r.svgs != NULL;
    for (size_t i = 0; i < n && ok; i++)
        ok = (names[i] = attn_arena_text(r.arena, pictures->values[i],
                                         strlen(pictures->values[i]))) != NULL;
    const srv_strings made = {names, n};
    char suffix[SRV_JOB_SUFFIX];
    srv_piece *piece;
    int failed = ok ? 0 : ENOMEM;
    for (size_t i = 0; !failed && (piece = srv_job_part(&r, &made, i, suffix)); i++)
        failed = restore_file(e, suffix, files, r.arena, piece);
    if (failed)
        attn_arena_free(r.arena);
    else
        take_result(&w, &r, &made);
    return failed;
}

/* --- running the experiment --- */

attn_status srv_experiment_model(const attn_experiment *experiment, const char *path,
                                 attn_model_file *file, attn_experiment_hooks *hooks,
                                 attn_error *err) {
    const srv_file *f = model_file();
    if (!experiment->wants_model)
        return ATTN_OK;
    ATTN_TRY(*path ? srv_model_open(path, false, file, NULL, err)
             : f   ? attn_model_read(f->data, f->size, false, file, err)
                   : attn_fail(err, ATTN_EARG, "model", "none is built in"));
    hooks->model = file->model, hooks->source = file->source, hooks->target = file->target;
    return srv_model_corpus(file, &hooks->corpus) &&
                   (hooks->corpus.task == ATTN_EN_FR || hooks->corpus.task == ATTN_EN_FR_TEXT)
               ? ATTN_OK
               : attn_fail(err, ATTN_EARG, "model",
                           "must be trained on the task en-fr or en-fr-text");
}

static attn_status run_experiment(work *w, attn_arena *arena, const double *values,
                                  attn_error *err) {
    attn_experiment_hooks hooks = {.progress = on_progress, .ctx = w, .control = &w->control};
    attn_findings found;
    ATTN_TRY(srv_experiment_model(w->experiment, "", &w->model, &hooks, err));
    ATTN_TRY(attn_experiment_run(w->experiment, values, &hooks, arena, &found, err));
    return report_findings(w, &found, err);
}

attn_status srv_job_experiment(srv_job_entry *e, srv_reserve *reserve, attn_error *err) {
    double values[ATTN_EXPERIMENT_SETTINGS];
    work w = {.job = e,
              .jobs = e->jobs,
              .experiment = attn_experiment_at((size_t)e->body.experiment),
              .control = {.cancel = &e->cancel}};
    w.control.deadline_ns = attn_now_ns() + e->jobs->config->jobs_time_ms * 1000000;
    ATTN_TRY(srv_job_values(&e->body, values, err));
    srv_budget_enter(reserve);
    attn_arena *arena = attn_arena_new(attn_experiment_bytes(w.experiment, values));
    attn_status status = arena ? run_experiment(&w, arena, values, err)
                               : attn_fail(err, ATTN_ENOMEM, "experiment", "no memory");
    attn_arena_free(arena);
    attn_model_file_close(&w.model);
    srv_budget_enter(NULL);
    return status;
}

/* --- for requests --- */

/* Sets the problem that a job in this state has no result, or no picture with this name. `lost`:
 * the job had it, but the file is damaged. */
static void say_none(srv_request *req, const srv_job_entry *e, int state, bool lost) {
    if (lost)
        srv_problem(req, SRV_DAMAGED, NULL,
                    "the file of this part of the job \"%s\" is not as the job wrote it: %s", e->id,
                    e->facts.error);
    else if (e->look)
        srv_problem(req, SRV_NOT_FOUND, NULL,
                    "the job \"%s\" has no result of its own: the member `result` of GET "
                    "/v1/jobs/%s is the path of what it was for, when it is done",
                    e->id, e->id);
    else if (e->body.kind == SRV_JOB_EXPERIMENT && state <= SRV_JOB_RUNNING)
        srv_problem(
            req, SRV_NOT_FOUND, NULL,
            "not yet: the job \"%s\" is %s, and has its result and pictures when it is done", e->id,
            srv_job_states[state]);
    else
        srv_problem(
            req, SRV_NOT_FOUND, NULL,
            "the job \"%s\" is %s and has no such thing: only experiments that are done have "
            "a result and pictures, which `pictures` names",
            e->id, srv_job_states[state]);
}

/* Copies a part of the result into the request's arena, because the job may be deleted while the
 * answer is sent. NULL: a problem is set, because memory ran out or the part is empty. For an empty
 * part, the problem depends on the `state` of the job and on `lost` (the file of the part is
 * damaged). */
static const srv_piece *copy_piece(srv_request *req, srv_job_entry *e, int state,
                                   const srv_piece *of, bool lost) {
    srv_piece *out = attn_arena_zeroed(req->arena, 1, sizeof *out);
    if (out && of->data)
        *out = (srv_piece){attn_arena_text(req->arena, of->data, of->size), of->size};
    if (out && out->data)
        return out;
    if (of->data)
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for the answer is left");
    else
        say_none(req, e, state, lost);
    return NULL;
}

const srv_piece *srv_job_findings(srv_request *req, srv_job_entry *e, bool text) {
    pthread_mutex_lock(&e->jobs->lock);
    const srv_piece piece = text ? e->result.text : e->result.json;
    const int state = e->facts.state;
    const bool lost = e->result.arena && !piece.data && e->facts.error;
    pthread_mutex_unlock(&e->jobs->lock);
    return copy_piece(req, e, state, &piece, lost);
}

const srv_piece *srv_job_picture(srv_request *req, srv_job_entry *e, const char *name) {
    srv_piece piece = {0};
    bool lost = false;
    pthread_mutex_lock(&e->jobs->lock);
    for (size_t i = 0; i < e->facts.pictures.count; i++)
        if (strcmp(e->facts.pictures.values[i], name) == 0) {
            piece = e->result.svgs[i];
            lost = !piece.data && e->facts.error;
        }
    const int state = e->facts.state;
    pthread_mutex_unlock(&e->jobs->lock);
    return copy_piece(req, e, state, &piece, lost);
}
