/* Jobs that train a model. The training calls hooks of this file, which update the facts of the
 * job, add events and write checkpoints. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/try.h"
#include "jobs/job.h"
#include "jobs/train_run.h"

typedef struct work {
    srv_job_entry *job;
    srv_jobs *jobs;
    srv_train_run run;
    srv_reserve *reserve;
    char name[SRV_MODEL_ID + 1]; /* id of the model in the registry */
    attn_control control;
    attn_model *made;  /* the model for the registry: a copy of the best one, without gradients */
    size_t made_bytes; /* memory of `made` */
    bool has_file;     /* the model has a file in jobs_dir */
    bool sealed;       /* that file has checksums */
    bool counted;      /* srv_models_count has reserved room for made_bytes */
} work;

/* --- hooks of the training --- */

static void take_facts(srv_job_facts *f, const attn_training_progress *now,
                       const attn_training_state *state) {
    f->step = (int64_t)now->step;
    f->num_steps = (int64_t)now->steps;
    f->epoch = (int64_t)now->epoch;
    f->progress = now->steps ? (double)now->step / (double)now->steps : 1;
    f->loss = now->loss;
    f->rate = now->rate;
    f->words_per_second = now->words_per_second;
    f->elapsed_ms = (int64_t)(1e3 * now->seconds);
    f->remaining_ms = isfinite(now->seconds_left) ? (int64_t)(1e3 * now->seconds_left) : -1;
    f->validation =
        (srv_job_validation){{{0}}, now->validation_loss, now->validation_right, now->similarity};
    f->best = (srv_job_best){{{0}}, (int64_t)state->best_step, state->best_loss};
}

static void tell_progress(work *w, const attn_training_progress *now) {
    if (!srv_job_is_tell_due(w->job, now->evaluated))
        return;
    srv_job_tell_progress(w->job, &(srv_job_progress){.trains = true,
                                                      .step = (int64_t)now->step,
                                                      .num_steps = (int64_t)now->steps,
                                                      .loss = now->loss,
                                                      .evaluated = now->evaluated,
                                                      .validation = w->job->facts.validation,
                                                      .remaining_ms = 1e3 * now->seconds_left});
}

static void on_progress(void *ctx, const attn_training_progress *now) {
    work *w = ctx;
    pthread_mutex_lock(&w->jobs->lock);
    take_facts(&w->job->facts, now, &w->run.state);
    tell_progress(w, now);
    pthread_mutex_unlock(&w->jobs->lock);
    srv_jobs_offer_turn(w->jobs);
}

static attn_status on_checkpoint(void *ctx, const attn_training_state *state, attn_error *err) {
    work *w = ctx;
    const attn_status status = srv_train_write_checkpoint(&w->run, state, err);
    if (status || !*w->run.checkpoint)
        return status;
    pthread_mutex_lock(&w->jobs->lock);
    srv_job_tell_checkpoint(w->job, state->step);
    pthread_mutex_unlock(&w->jobs->lock);
    return ATTN_OK;
}

/* --- scores --- */

static void keep_scores(work *w, const attn_model_scores *s) {
    srv_job_scores *to = &w->job->facts.scores;
    pthread_mutex_lock(&w->jobs->lock);
    if (s->words > 0) {
        to->num_words = (int64_t)s->words;
        to->right = s->right / s->words;
        to->loss = s->loss / s->words;
        pthread_mutex_unlock(&w->jobs->lock);
        return;
    }
    to->num_sentences = (int64_t)s->bleu.sentences;
    to->bleu = attn_bleu_score(&s->bleu, false);
    to->exact = s->bleu.sentences ? (double)s->bleu.exact / (double)s->bleu.sentences : 0;
    for (size_t h = 0; h < s->head_count; h++) {
        const double error = attn_alignment_error(&s->heads[h]);
        if (h == 0 || error < to->alignment_error.best)
            to->alignment_error.best = error, to->alignment_error.head = (int64_t)h;
    }
    if (s->head_count)
        to->alignment_error.mean = attn_alignment_error(&s->mean);
    pthread_mutex_unlock(&w->jobs->lock);
}

static void log_line(work *w, const char *line) {
    pthread_mutex_lock(&w->jobs->lock);
    srv_job_tell_line(w->job, line);
    pthread_mutex_unlock(&w->jobs->lock);
}

/* Scores the model on held-out sentence pairs. Between small batches it offers its turn to other
 * jobs. */
static attn_status score_model(work *w, attn_error *err) {
    const srv_train_run *run = &w->run;
    const uint64_t all = (uint64_t)run->options.num_scored_pairs;
    attn_model_scores scores = {0};
    attn_status status = ATTN_OK;
    if (all)
        log_line(w, "scoring on held-out pairs");
    for (uint64_t i = 0; i < all && !status; i += SRV_SCORED_AT_A_TIME) {
        const uint64_t n = all - i < SRV_SCORED_AT_A_TIME ? all - i : SRV_SCORED_AT_A_TIME;
        status = attn_model_score(w->made, run->corpus, ATTN_HELD_OUT, i, n, run->file.source,
                                  run->file.target, 1, NULL, &w->control, &scores, err);
        srv_jobs_offer_turn(w->jobs);
    }
    if (all && !status)
        keep_scores(w, &scores);
    return status;
}

/* --- the final model --- */

/* Reserves room for the model in the registry and allocates it before the training. Otherwise a job
 * could train for hours and then find no room for its model. */
static attn_status make_room(work *w, attn_error *err) {
    const attn_model_config *config = attn_model_configuration(w->run.file.model);
    ATTN_TRY(attn_model_bytes(config, false, &w->made_bytes, err));
    ATTN_TRY(srv_models_count(w->jobs->models, w->made_bytes, err));
    w->counted = true;
    return attn_model_new(config, 0, false, &w->made, err);
}

/* Copies the best parameters into w->made. */
static void take_best(work *w) {
    attn_model *from = w->run.file.model;
    const size_t n = attn_parameters_size(attn_model_parameters(from));
    attn_training_take_best(from, &w->run.state);
    memcpy(attn_parameters_values(attn_model_parameters(w->made)),
           attn_parameters_values(attn_model_parameters(from)), n * sizeof(float));
}

static void name_model(char name[SRV_MODEL_ID + 1], const char *id) {
    snprintf(name, SRV_MODEL_ID + 1, "trained-%s", id + 4); /* without "job-" */
}

/* Sets the id of the job's model. "": the job has no model. */
static void set_model(srv_job_entry *e, const char *id) {
    pthread_mutex_lock(&e->jobs->lock);
    snprintf(e->model_id, sizeof e->model_id, "%s", id);
    e->facts.model = *id ? e->model_id : NULL;
    pthread_mutex_unlock(&e->jobs->lock);
}

/* Adds w->made and the tokenizers to the registry, which then owns them. Before that, sets the id
 * of the model in the job, so that a deletion of the model finds the job. false: out of memory, and
 * the model is not served. */
static bool publish_model(work *w) {
    srv_job_entry *e = w->job;
    srv_model model = {.origin = SRV_MODEL_MADE,
                       .model = w->made,
                       .source = w->run.file.source,
                       .target = w->run.file.target,
                       .bytes = w->made_bytes,
                       .has_file = w->has_file,
                       .sealed = w->sealed};
    memcpy(model.id, w->name, sizeof model.id);
    memcpy(model.owner, e->owner, sizeof model.owner);
    const bool keep = w->jobs->dir < 0; /* else the model has a file in jobs_dir */
    set_model(e, w->name);
    if (!srv_models_adopt(w->jobs->models, &model, keep)) {
        set_model(e, "");
        return false;
    }
    w->made = NULL;
    w->run.file.source = w->run.file.target = NULL;
    w->counted = false;
    return true;
}

/* --- the run --- */

static attn_status run_training(work *w, attn_error *err) {
    const attn_training_hooks hooks = {on_progress, on_checkpoint, w};
    srv_train_run *r = &w->run;
    bool resumed;
    ATTN_TRY(srv_train_prepare(r, true, &w->control, &resumed, err));
    ATTN_TRY(make_room(w, err));
    log_line(w, resumed ? "going on from the checkpoint" : "training begins");
    attn_status status = attn_train(r->file.model, &r->train, &r->validation, &r->options.loop,
                                    &r->state, &hooks, NULL, &w->control, err);
    const bool draining = atomic_load(&w->job->stop) == JOB_DRAIN;
    if (draining && status == ATTN_ECANCELED)
        return status;
    const bool stopped = status == ATTN_ECANCELED || status == ATTN_EDEADLINE;
    if (status && !stopped && !isfinite(r->state.best_loss))
        return status;
    attn_error late;
    attn_status kept = srv_train_write_best(r, &late);
    take_best(w);
    if (!status && !kept)
        status = score_model(w, err);
    if (atomic_load(&w->job->stop) == JOB_DRAIN && status == ATTN_ECANCELED)
        return status;
    if (kept && !status) {
        *err = late;
        status = kept;
    }
    if (*r->checkpoint && !kept)
        unlink(r->checkpoint);
    if (w->job->body.store)
        srv_job_store(w->job, w->made, r, w->name, w->reserve);
    publish_model(w);
    return status;
}

attn_status srv_job_train(srv_job_entry *e, srv_reserve *reserve, attn_error *err) {
    char out[JOB_PATH], checkpoint[JOB_PATH];
    work w = {.job = e,
              .jobs = e->jobs,
              .reserve = reserve,
              .has_file = e->jobs->dir >= 0,
              .sealed = e->jobs->dir >= 0,
              .run = {.options = e->body.train, .init = "", .out = out, .checkpoint = checkpoint},
              .control = {.cancel = &e->cancel}};
    w.control.deadline_ns = attn_now_ns() + e->jobs->config->jobs_time_ms * 1000000;
    srv_jobs_dir_path(e->jobs, e->id, SRV_JOB_MODEL, out);
    srv_jobs_dir_path(e->jobs, e->id, SRV_JOB_CHECKPOINT, checkpoint);
    name_model(w.name, e->id);
    srv_budget_enter(reserve);
    const attn_status status = run_training(&w, err);
    e->failed = w.run.failed;
    if (w.counted)
        srv_models_uncount(e->jobs->models, w.made_bytes);
    attn_model_free(w.made);
    srv_train_close(&w.run);
    srv_budget_enter(NULL);
    return status;
}

int srv_job_restore_model(srv_job_entry *e) {
    char path[JOB_PATH];
    attn_error err = {0};
    work w = {.job = e, .jobs = e->jobs};
    int failed = 0;
    attn_status status = srv_jobs_dir_path(e->jobs, e->id, SRV_JOB_MODEL, path)
                             ? srv_model_open(path, false, &w.run.file, &failed, &err)
                             : attn_fail(&err, ATTN_EARG, "jobs_dir", "its name is too long");
    if (!status)
        status = attn_model_bytes(attn_model_configuration(w.run.file.model), false, &w.made_bytes,
                                  &err);
    if (!status)
        status = srv_models_count(e->jobs->models, w.made_bytes, &err);
    if (!status) {
        name_model(w.name, e->id);
        w.counted = true;
        w.has_file = true;
        w.sealed = w.run.file.sealed;
        w.made = w.run.file.model;
        w.run.file.model = NULL;
        failed = publish_model(&w) ? 0 : ENOMEM;
    } else if (!failed) {
        srv_log_event(e->jobs->log, SRV_LOG_WARN, "the model of %s is not served: %.120s: %.250s",
                      e->id, err.where, err.text);
        if (!e->facts.error)
            srv_job_set_error(e, "its model is not served", err.text);
    }
    if (w.counted)
        srv_models_uncount(e->jobs->models, w.made_bytes);
    attn_model_free(w.made);
    attn_model_file_close(&w.run.file);
    return failed;
}

void srv_job_await_model(srv_jobs *jobs, const char *id, int failed) {
    char name[SRV_MODEL_ID + 1];
    name_model(name, id);
    srv_models_await(jobs->models, name, failed);
}
