/* The job threads. Each chooses the next queued job, runs it, and sets its final state. Turns
 * (job.h) decide which of the threads may compute. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs/job.h"
#include "request/shared.h"
#include "system/clock.h"
#include "system/condition.h"
#include "system/host.h"

enum {
    LOOK_AGAIN_NS = 200000000, /* time between two checks whether memory for the job is free */
    STACK_BYTES = 4 << 20,
};

/* --- states --- */

int64_t srv_job_now_ms(void) {
    return srv_clock_ns(CLOCK_REALTIME) / 1000000;
}

void srv_job_set_progress(srv_job_entry *e, double done) {
    srv_job_facts *f = &e->facts;
    f->progress = done;
    f->elapsed_ms = srv_job_now_ms() - f->started_ms;
    f->remaining_ms = done > 0 ? (int64_t)((double)f->elapsed_ms * (1 - done) / done) : -1;
}

void srv_job_set_state(srv_job_entry *e, srv_job_state state) {
    e->facts.state = (int)state;
    if (state == SRV_JOB_RUNNING)
        e->facts.started_ms = srv_job_now_ms();
    if (state > SRV_JOB_RUNNING) {
        e->facts.ended_ms = srv_job_now_ms();
        srv_look_drop_body(e);
        e->facts.remaining_ms = -1;
        e->facts.progress = state == SRV_JOB_DONE ? 1 : e->facts.progress;
    }
    srv_job_tell_state(e);
}

void srv_job_set_run(srv_job_entry *e, const char *id) {
    snprintf(e->run_id, sizeof e->run_id, "%s", id);
    e->facts.run = e->run_id;
}

void srv_job_set_error(srv_job_entry *e, const char *where, const char *text) {
    snprintf(e->error_text, sizeof e->error_text, "%s%s%s", where, *where ? ": " : "", text);
    e->facts.error = e->error_text;
}

/* --- turns (job.h) --- */

/* Waits for the next turn of the calling thread. */
static void take_turn(srv_jobs *jobs) {
    pthread_mutex_lock(&jobs->lock);
    const uint64_t mine = jobs->turns_asked++;
    while (mine >= jobs->turns_ended + jobs->slots)
        pthread_cond_wait(&jobs->changed, &jobs->lock);
    pthread_mutex_unlock(&jobs->lock);
}

static void end_turn(srv_jobs *jobs) {
    pthread_mutex_lock(&jobs->lock);
    jobs->turns_ended++;
    pthread_cond_broadcast(&jobs->changed);
    pthread_mutex_unlock(&jobs->lock);
}

void srv_jobs_offer_turn(srv_jobs *jobs) {
    pthread_mutex_lock(&jobs->lock);
    const bool wanted = jobs->turns_asked > jobs->turns_ended + jobs->slots;
    pthread_mutex_unlock(&jobs->lock);
    if (!wanted)
        return;
    end_turn(jobs);
    take_turn(jobs);
}

/* --- running jobs --- */

/* Returns the oldest queued job, after reserving its memory in `reserve`. Skips a job whose
 * checkpoint could not be read until the time again_ns. NULL: there is no such job, or its memory
 * is not free now. In the second case later jobs must wait, too. Sets *waits to whether any job is
 * queued. The caller has the lock. */
static srv_job_entry *next_job(srv_jobs *jobs, srv_reserve *reserve, bool *waits) {
    const int64_t now = attn_now_ns();
    srv_job_entry *e = srv_held_first(&jobs->list);
    *waits = false;
    for (; e; e = srv_held_next(&e->held)) {
        const bool queued = !e->look && e->facts.state == SRV_JOB_QUEUED;
        *waits |= queued;
        if (queued && e->again_ns <= now)
            break;
    }
    const size_t most = (size_t)jobs->config->jobs_bytes;
    if (!e || e->bytes > most - jobs->running_bytes || !srv_budget_reserve(reserve, e->bytes))
        return NULL;
    jobs->running_bytes += e->bytes;
    return e;
}

void srv_job_settle(srv_job_entry *e, attn_status status, const attn_error *err) {
    if (status == ATTN_ECANCELED) {
        srv_job_set_state(e, SRV_JOB_CANCELLED);
    } else if (status == ATTN_EDEADLINE) {
        srv_job_set_error(e, "jobs_time_ms", "the time for a job was over");
        srv_job_set_state(e, SRV_JOB_CANCELLED);
    } else if (status) {
        srv_job_set_error(e, srv_jobs_dir_place(e->jobs, err->where), err->text);
        srv_job_set_state(e, SRV_JOB_FAILED);
    } else {
        srv_job_set_state(e, SRV_JOB_DONE);
    }
}

/* Queues a job again, because its checkpoint cannot be read now. */
static void wait_for_checkpoint(srv_job_entry *e, const attn_error *err) {
    if (!e->again_ns)
        srv_log_event(e->jobs->log, SRV_LOG_WARN, "%s waits: its checkpoint %.250s", e->id,
                      err->text);
    srv_job_set_error(e, "its checkpoint", err->text);
    srv_job_set_state(e, SRV_JOB_QUEUED);
    e->again_ns = attn_now_ns() + JOB_RETRY_NS;
}

static void run_job(srv_jobs *jobs, srv_job_entry *e, srv_reserve *reserve) {
    attn_error err = {0};
    take_turn(jobs);
    const attn_status status = e->body.kind == SRV_JOB_TRAIN ? srv_job_train(e, reserve, &err)
                                                             : srv_job_experiment(e, reserve, &err);
    end_turn(jobs);
    const size_t peak = reserve->peak;
    srv_budget_release(reserve);
    pthread_mutex_lock(&jobs->lock);
    jobs->running_bytes -= e->bytes;
    e->facts.peak_bytes = (int64_t)peak;
    if (atomic_load(&e->stop) == JOB_DRAIN && status == ATTN_ECANCELED) {
        e->facts.state = SRV_JOB_QUEUED; /* the next start of the service resumes it */
    } else if (status && e->failed && atomic_load(&e->stop) != JOB_CANCEL) {
        wait_for_checkpoint(e, &err);
    } else {
        srv_job_settle(e, status, &err);
        srv_jobs_dir_save(jobs, e);
    }
    srv_job_wake(e);
    if (srv_held_let_go(&e->held))
        srv_job_free(e);
    pthread_cond_broadcast(&jobs->changed);
    pthread_mutex_unlock(&jobs->lock);
}

void srv_jobs_wait_a_little(srv_jobs *jobs) {
    srv_condition_wait(&jobs->changed, &jobs->lock, attn_now_ns() + LOOK_AGAIN_NS);
}

static void *job_thread(void *argument) {
    srv_jobs *jobs = argument;
    srv_reserve reserve;
    bool waits;
    srv_host_be_nice((int)jobs->config->jobs_nice);
    pthread_mutex_lock(&jobs->lock);
    while (!jobs->stopping) {
        srv_job_entry *e = next_job(jobs, &reserve, &waits);
        if (!e) {
            if (waits) /* requests free memory without a signal to this thread */
                srv_jobs_wait_a_little(jobs);
            else
                pthread_cond_wait(&jobs->changed, &jobs->lock);
            continue;
        }
        e->held.holds++;
        e->facts.error = NULL;
        srv_job_set_state(e, SRV_JOB_RUNNING);
        pthread_mutex_unlock(&jobs->lock);
        run_job(jobs, e, &reserve);
        pthread_mutex_lock(&jobs->lock);
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

bool srv_jobs_start_threads(srv_jobs *jobs) {
    const size_t most = (size_t)jobs->config->jobs_running + 1; /* the first thread is for looks */
    pthread_attr_t attributes;
    jobs->threads = calloc(most + 1, sizeof *jobs->threads);
    if (!jobs->threads || pthread_attr_init(&attributes))
        return false;
    bool ok = !pthread_attr_setstacksize(&attributes, STACK_BYTES);
    while (ok && jobs->thread_count < most) {
        ok = !pthread_create(&jobs->threads[jobs->thread_count], &attributes,
                             jobs->thread_count ? job_thread : srv_look_thread, jobs);
        jobs->thread_count += ok;
    }
    pthread_attr_destroy(&attributes);
    return ok;
}
