/* The store of jobs: one list in order of creation, under one lock. The threads that run the jobs
 * are in job_threads.c, and the files of the jobs in jobs_dir.c. */
#include "jobs/jobs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "jobs/job.h"
#include "jobs/train_options.h"
#include "load/admission.h"
#include "request/shared.h"
#include "system/condition.h"

/* --- jobs and the list: the caller has the lock, or no other thread knows the job yet --- */

void srv_job_free(srv_job_entry *e) {
    srv_job_events_free(e);
    attn_arena_free(e->result.arena);
    srv_look_free(e);
    free(e);
}

static srv_job_entry *entry_new(srv_jobs *jobs, const srv_job_body *body) {
    srv_job_entry *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->held = (srv_held){.entry = e, .key = e->id};
    e->jobs = jobs;
    e->body = *body;
    e->facts = srv_job_no_facts();
    e->first_event = e->next_event = 1;
    return e;
}

/* Sets the owner of the job, the name of an API key. NULL makes the job shared. */
static void set_owner(srv_job_entry *e, const char *owner) {
    snprintf(e->owner, sizeof e->owner, "%s", owner ? owner : "");
    e->facts.owner = owner ? e->owner : NULL;
}

void srv_job_list_in(srv_jobs *jobs, srv_job_entry *e) {
    srv_job_entry *later = srv_held_first(&jobs->list);
    while (later && later->facts.created_ms <= e->facts.created_ms)
        later = srv_held_next(&later->held);
    srv_held_list_in(&jobs->list, &e->held, later ? &later->held : NULL);
    jobs->count += !e->look;
}

/* Computes an upper bound, in bytes, of the memory that a job needs. Fails if the body is
 * invalid. */
static attn_status bytes_of(const srv_job_body *body, size_t *bytes, attn_error *err) {
    double values[ATTN_EXPERIMENT_SETTINGS];
    if (body->kind == SRV_JOB_TRAIN)
        return srv_train_check(&body->train, bytes, err);
    const attn_status status = srv_job_values(body, values, err);
    *bytes = status ? 0 : srv_job_experiment_bytes(body, values);
    return status;
}

/* Restores the model or the result of an ended job. Returns 0. If a file of the model or result
 * cannot be read now, returns the errno value of the reason. */
static int restore_made(srv_job_entry *e, const srv_job_facts *facts, const srv_strings *files) {
    int failed = 0;
    if (facts->model)
        failed = srv_job_restore_model(e);
    if (!failed && e->body.kind == SRV_JOB_EXPERIMENT && facts->state == SRV_JOB_DONE)
        failed = srv_job_restore_result(e, &facts->pictures, files);
    srv_job_tell_state(e);
    return failed;
}

/* Sets the job that is being restored. */
static void set_restoring(srv_jobs *jobs, srv_job_entry *e) {
    pthread_mutex_lock(&jobs->lock);
    jobs->restoring = e;
    pthread_mutex_unlock(&jobs->lock);
}

int srv_jobs_restore(srv_jobs *jobs, const char *id, const srv_job_body *body,
                     const srv_job_facts *facts, const srv_strings *files) {
    srv_job_entry *e = entry_new(jobs, body);
    attn_error err = {0};
    int failed = 0;
    if (!e)
        return ENOMEM;
    snprintf(e->id, sizeof e->id, "%s", id);
    e->facts = *facts;
    set_owner(e, facts->owner);
    if (facts->error)
        srv_job_set_error(e, "", facts->error);
    e->facts.model = NULL;
    if (facts->run)
        srv_job_set_run(e, facts->run);
    e->facts.pictures = (srv_strings){0};
    set_restoring(jobs, e);
    if (facts->state > SRV_JOB_RUNNING) {
        failed = restore_made(e, facts, files);
    } else if (bytes_of(body, &e->bytes, &err)) {
        srv_job_set_error(e, err.where, err.text);
        srv_job_set_state(e, SRV_JOB_FAILED);
    } else {
        srv_job_set_state(e, SRV_JOB_QUEUED);
    }
    pthread_mutex_lock(&jobs->lock);
    jobs->restoring = NULL;
    if (!failed)
        srv_job_list_in(jobs, e);
    pthread_cond_broadcast(&jobs->changed);
    pthread_mutex_unlock(&jobs->lock);
    if (failed)
        srv_job_free(e);
    return failed;
}

void srv_job_list_out(srv_jobs *jobs, srv_job_entry *e) {
    srv_held_list_out(&jobs->list, &e->held);
    jobs->count -= !e->look;
}

/* --- opening and closing the store --- */

static int no_resources(void) {
    fprintf(stderr, "attnd: cannot start: not enough memory or threads\n");
    return SRV_EXIT_RESOURCES;
}

int srv_jobs_open(srv_jobs **out, srv_app *app) {
    srv_jobs *jobs = *out = calloc(1, sizeof *jobs);
    if (!jobs)
        return no_resources();
    const size_t workers = (size_t)app->config->workers;
    *jobs = (srv_jobs){.app = app,
                       .config = app->config,
                       .models = app->models,
                       .log = app->log,
                       .dir = -1,
                       .slots = workers > 1 ? workers - 1 : 1};
    pthread_mutex_init(&jobs->lock, NULL);
    if (!srv_condition_init(&jobs->changed))
        return no_resources();
    srv_job_fields_make();
    const int code = *app->config->jobs_dir ? srv_jobs_dir_open(jobs) : 0;
    if (code)
        return code;
    return srv_jobs_start_threads(jobs) ? 0 : no_resources();
}

void srv_jobs_stop(srv_jobs *jobs) {
    if (!jobs)
        return;
    pthread_mutex_lock(&jobs->lock);
    jobs->stopping = true;
    for (srv_job_entry *e = srv_held_first(&jobs->list); e; e = srv_held_next(&e->held)) {
        int go_on = JOB_GO_ON;
        if (atomic_compare_exchange_strong(&e->stop, &go_on, JOB_DRAIN))
            atomic_store(&e->cancel, 1);
        srv_job_wake(e);
    }
    pthread_cond_broadcast(&jobs->changed);
    pthread_mutex_unlock(&jobs->lock);
}

void srv_jobs_free(srv_jobs *jobs) {
    if (!jobs)
        return;
    srv_jobs_stop(jobs);
    for (size_t i = 0; i < jobs->thread_count; i++)
        pthread_join(jobs->threads[i], NULL);
    for (srv_job_entry *e = srv_held_first(&jobs->list), *next; e; e = next) {
        next = srv_held_next(&e->held);
        srv_job_free(e);
    }
    srv_jobs_dir_forget_unread(jobs);
    if (jobs->dir >= 0)
        close(jobs->dir);
    pthread_cond_destroy(&jobs->changed);
    pthread_mutex_destroy(&jobs->lock);
    free(jobs->threads);
    free(jobs);
}

void srv_jobs_tick(srv_jobs *jobs) {
    if (!jobs)
        return;
    const int64_t now = attn_now_ns();
    srv_jobs_dir_tick(jobs, now);
    pthread_mutex_lock(&jobs->lock);
    for (srv_job_entry *e = srv_held_first(&jobs->list); e; e = srv_held_next(&e->held))
        srv_job_beat(e, now);
    srv_looks_tick(jobs, now);
    pthread_mutex_unlock(&jobs->lock);
}

/* --- what requests do with jobs --- */

static bool name_job(srv_job_entry *e) {
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        return false;
    snprintf(e->id, sizeof e->id, "job-%016" PRIx64, bits);
    return true;
}

/* Checks the body and computes the memory of the job. false: a problem is set, because the body is
 * invalid or the job would exceed a limit. */
static bool check_job(srv_request *req, const srv_job_body *body, size_t *bytes) {
    const srv_config *config = req->app->config;
    attn_error err = {0};
    if (!srv_job_fits(req, body))
        return false;
    if (body->kind == SRV_JOB_TRAIN && body->train.loop.steps > (uint64_t)config->jobs_steps)
        return srv_problem_limit(req, SRV_TOO_LARGE, "/num_steps", (double)config->jobs_steps,
                                 "jobs_steps", "a job may take %" PRId64 " steps, found %" PRIu64,
                                 config->jobs_steps, body->train.loop.steps);
    if (body->store && body->train.model.attention == ATTN_MODEL_NONE)
        return srv_problem(req, SRV_VALUE, "/store",
                           "a model without attention has nothing to store");
    if (bytes_of(body, bytes, &err))
        return srv_problem_error(req, &err);
    if (*bytes <= (size_t)config->jobs_bytes)
        return true;
    return srv_problem_limit(req, SRV_TOO_LARGE, NULL, (double)config->jobs_bytes, "jobs_bytes",
                             "the job needs up to %zu bytes; all jobs together may use %" PRId64,
                             *bytes, config->jobs_bytes);
}

/* Writes the job's description to jobs_dir, adds the job to the list and holds it. false: a problem
 * is set. The caller has the lock. */
static bool enlist_job(srv_request *req, srv_jobs *jobs, srv_job_entry *e) {
    const int64_t most = jobs->config->jobs_count;
    if (jobs->count >= (size_t)most)
        return srv_problem_limit(
            req, SRV_TOO_LARGE, NULL, (double)most, "jobs_count",
            "%" PRId64 " jobs are kept, and there is no room for more: delete one", most);
    if (jobs->stopping)
        return srv_problem(req, SRV_DRAINING, NULL, "the server is shutting down");
    const int failed = srv_jobs_dir_save(jobs, e);
    if (failed)
        return srv_problem_file(req, NULL, "the job cannot be written to jobs_dir", failed);
    srv_job_list_in(jobs, e);
    e->held.holds++;
    srv_job_tell_state(e);
    pthread_cond_broadcast(&jobs->changed);
    return true;
}

srv_job_entry *srv_job_new(const srv_request *req, const srv_job_body *body) {
    srv_job_entry *e = entry_new(req->app->jobs, body);
    if (!e || !name_job(e)) {
        free(e);
        return NULL;
    }
    e->facts.created_ms = srv_job_now_ms();
    set_owner(e, body->shared ? NULL : req->owner);
    return e;
}

srv_job_entry *srv_jobs_add(srv_request *req, const srv_job_body *body) {
    srv_jobs *jobs = req->app->jobs;
    size_t bytes;
    if (!check_job(req, body, &bytes))
        return NULL;
    srv_job_entry *e = srv_job_new(req, body);
    if (!e) {
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for the job is left");
        return NULL;
    }
    e->bytes = bytes;
    e->facts.reserved_bytes = (int64_t)bytes;
    if (body->kind == SRV_JOB_TRAIN)
        e->facts.num_steps = (int64_t)body->train.loop.steps;
    pthread_mutex_lock(&jobs->lock);
    const bool ok = enlist_job(req, jobs, e);
    pthread_mutex_unlock(&jobs->lock);
    if (!ok)
        srv_job_free(e);
    return ok ? e : NULL;
}

srv_job_entry *srv_jobs_hold(srv_request *req, const char *id) {
    srv_jobs *jobs = req->app->jobs;
    pthread_mutex_lock(&jobs->lock);
    srv_job_entry *e = srv_held_find(&jobs->list, id);
    if (e && !srv_look_opens(e, req))
        e = NULL;
    if (e) {
        e->held.holds++;
        srv_look_ask(e);
    }
    const int unread = e ? 0 : srv_jobs_dir_unread(jobs, id);
    pthread_mutex_unlock(&jobs->lock);
    if (!e && req->read_token)
        srv_request_refuse_token(req);
    else if (unread)
        srv_problem_file(req, NULL, "the job cannot be read from jobs_dir", unread);
    else if (!e)
        srv_problem(req, SRV_NOT_FOUND, NULL,
                    "there is no job \"%.64s\"; GET /v1/jobs lists those that there are. Jobs are "
                    "in one process: where there are several, another one may have it",
                    id);
    return e;
}

void srv_jobs_release(srv_job_entry *e) {
    if (!e)
        return;
    srv_jobs *jobs = e->jobs;
    pthread_mutex_lock(&jobs->lock);
    const bool last = srv_held_let_go(&e->held);
    pthread_mutex_unlock(&jobs->lock);
    if (last)
        srv_job_free(e);
}

const char *srv_job_id(const srv_job_entry *e) {
    return e->id;
}

void srv_job_cancel(srv_job_entry *e) {
    if (e->facts.state == SRV_JOB_QUEUED) {
        srv_job_settle(e, ATTN_ECANCELED, NULL);
        srv_jobs_dir_save(e->jobs, e);
        return;
    }
    atomic_store(&e->stop, JOB_CANCEL);
    atomic_store(&e->cancel, 1);
}

/* Deletes an ended job and its model, whose id is `model` ("": it has none). Without jobs_dir, the
 * model may have a file in models_dir, and is deleted first. Returns 0 or an errno value. After an
 * error the job is still there. */
static int delete_ended(srv_jobs *jobs, srv_job_entry *e, const char *model) {
    int failed = *model && jobs->dir < 0 ? srv_models_drop(jobs->models, model) : 0;
    pthread_mutex_lock(&jobs->lock);
    if (!failed && e->held.listed && !(failed = srv_jobs_dir_remove(jobs, e)))
        srv_job_list_out(jobs, e);
    pthread_mutex_unlock(&jobs->lock);
    if (!failed && *model && jobs->dir >= 0)
        failed = srv_models_drop(jobs->models, model);
    return failed;
}

static bool has_ended(const srv_job_entry *e) {
    return e->facts.state > SRV_JOB_RUNNING;
}

bool srv_jobs_end(srv_request *req, srv_job_entry *e, bool *ended) {
    if (!srv_request_owns(req, e->facts.owner))
        return false;
    pthread_mutex_lock(&e->jobs->lock);
    if (!has_ended(e))
        srv_job_cancel(e);
    *ended = has_ended(e);
    pthread_mutex_unlock(&e->jobs->lock);
    return true;
}

/* Waits until a cancelled job has ended. If the job is queued again, because memory was short or
 * the service is stopping, cancels it again. false: the request must not wait any longer, and a
 * problem is set. */
static bool wait_for_end(srv_request *req, srv_job_entry *e) {
    attn_status status = ATTN_OK;
    attn_error err = {0};
    pthread_mutex_lock(&e->jobs->lock);
    while (!has_ended(e) && !(status = attn_control_check(&req->control, &err))) {
        srv_jobs_wait_a_little(e->jobs);
        if (e->facts.state == SRV_JOB_QUEUED)
            srv_job_cancel(e);
    }
    pthread_mutex_unlock(&e->jobs->lock);
    return !status || srv_problem_error(req, &err);
}

bool srv_jobs_delete(srv_request *req, srv_job_entry *e) {
    char model[SRV_MODEL_ID + 1];
    bool ended;
    if (!srv_jobs_end(req, e, &ended) || (!ended && !wait_for_end(req, e)))
        return false;
    pthread_mutex_lock(&e->jobs->lock);
    memcpy(model, e->model_id, sizeof model);
    pthread_mutex_unlock(&e->jobs->lock);
    const int failed = delete_ended(e->jobs, e, model);
    return !failed || srv_problem_file(req, NULL, "the job cannot be deleted", failed);
}

/* Takes the model from the job. First writes the job's description without the model, then removes
 * the file of the model. If a full disk prevents the writing, removes the file first and then
 * writes the description. Returns 0 or an errno value. After an error the job still has the
 * model. */
static int take_model(srv_jobs *jobs, srv_job_entry *e) {
    e->facts.model = NULL;
    const int unsaved = srv_jobs_dir_save(jobs, e);
    const bool full = unsaved == ENOSPC || unsaved == EDQUOT;
    const int failed = unsaved && !full ? unsaved : srv_jobs_dir_drop(jobs, e, SRV_JOB_MODEL);
    if (failed)
        e->facts.model = e->model_id;
    else
        e->model_id[0] = 0;
    if (full || (failed && !unsaved))
        srv_jobs_dir_save(jobs, e);
    return failed;
}

int srv_jobs_forget_model(srv_app *app, const char *model) {
    srv_jobs *jobs = app->jobs;
    int failed = 0;
    pthread_mutex_lock(&jobs->lock);
    srv_job_entry *e = srv_held_first(&jobs->list);
    while (e && strcmp(e->model_id, model) != 0)
        e = srv_held_next(&e->held);
    if (!e && jobs->restoring && !strcmp(jobs->restoring->model_id, model))
        e = jobs->restoring;
    if (e)
        failed = take_model(jobs, e);
    pthread_mutex_unlock(&jobs->lock);
    return failed;
}

/* --- descriptions --- */

/* Returns the number of earlier jobs that run or wait. Looks do not wait for other jobs, and other
 * jobs do not wait for looks. Therefore only jobs of the same sort are counted. */
static size_t jobs_ahead(const srv_job_entry *e) {
    size_t count = 0;
    for (const srv_job_entry *o = srv_held_first(&e->jobs->list); o && o != e;
         o = srv_held_next(&o->held))
        count += o->facts.state <= SRV_JOB_RUNNING && !o->look == !e->look;
    return count;
}

static void put_num_ahead(attn_json_text *j, const void *job) {
    const srv_job_entry *e = job;
    if (e->facts.state == SRV_JOB_QUEUED)
        attn_json_size(j, jobs_ahead(e));
}

static void put_result(attn_json_text *j, const void *job) {
    const srv_job_entry *e = job;
    char result[SRV_LOOK_RESULT];
    srv_look_result(e, result);
    if (e->look && e->facts.state == SRV_JOB_DONE)
        attn_json_string(j, result);
}

static void put_request(attn_json_text *j, const void *job) {
    const srv_job_entry *e = job;
    if (e->look)
        srv_look_put_request(j, e);
    else
        srv_job_write_request(j, &e->body);
}

static const srv_field job_rows[] = {
    SRV_ALWAYS("kind", SRV_ENUM, srv_job_entry, body.kind, "What the job does.",
               .choices = srv_job_kinds),
    SRV_ALWAYS("id", SRV_CHARS, srv_job_entry, id, "The id under /v1/jobs."),
    SRV_ALWAYS("", SRV_OBJECT, srv_job_entry, facts, NULL, .fields = srv_job_facts_fields),
    SRV_WRITTEN("num_ahead", "integer+", put_num_ahead,
                "While it is queued: jobs before it that run or wait."),
    SRV_WRITTEN("result", "string", put_result,
                "Of a look that is done, the path of the answer; of a store, that of the run."),
    SRV_WRITTEN("request", "RequestOfJob", put_request, NULL, .always = true),
    {0},
};

const srv_field srv_job_answers[] = {
    SRV_GROUP("Job", job_rows,
              "Members that are not known yet are absent. Times are Unix time in milliseconds. "
              "model: its id under /v1/models. result: of a look that is done, the path of the "
              "answer; of a store that is done, that of the run."),
    SRV_WRITTEN(
        "RequestOfJob", "object", NULL,
        "The fields of POST /v1/jobs, with defaults filled in. Of a look or a store: the path "
        "and the query, and what else the request named."),
    {0},
};

void srv_job_put(attn_json_text *j, srv_job_entry *e) {
    pthread_mutex_lock(&e->jobs->lock);
    srv_answer_object(j, job_rows, e);
    pthread_mutex_unlock(&e->jobs->lock);
}

bool srv_jobs_put_page(attn_json_text *j, const srv_request *req, const char *after, size_t limit,
                       char next[SRV_JOB_ID + 1]) {
    srv_jobs *jobs = req->app->jobs;
    const srv_job_entry *last = NULL;
    bool found = !after;
    *next = 0;
    pthread_mutex_lock(&jobs->lock);
    for (const srv_job_entry *e = srv_held_first(&jobs->list); e; e = srv_held_next(&e->held)) {
        if (!srv_request_sees(req, e->facts.owner))
            continue;
        if (!found) {
            found = strcmp(e->id, after) == 0;
            continue;
        }
        if (!limit) {
            memcpy(next, last->id, sizeof last->id);
            break;
        }
        srv_answer_object(j, job_rows, last = e);
        limit--;
    }
    pthread_mutex_unlock(&jobs->lock);
    return found;
}

void srv_jobs_look(srv_jobs *jobs, srv_jobs_now *out) {
    *out = (srv_jobs_now){0};
    pthread_mutex_lock(&jobs->lock);
    for (const srv_job_entry *e = srv_held_first(&jobs->list); e; e = srv_held_next(&e->held))
        out->states[e->facts.state]++;
    out->reserved = jobs->running_bytes;
    pthread_mutex_unlock(&jobs->lock);
}
