/* Jobs: training and experiments that outlive their request. The store keeps at most jobs_count of
 * them, of which jobs_running run at a time, the others waiting in order of coming; each has its
 * memory reserved before it starts, jobs_bytes in all. They compute at the lowest priority, on all
 * but one of the workers' processors at most.
 *
 * With jobs_dir each job has files there: <id>.json, what it is and how far; <id>.checkpoint, from
 * which another start of the service goes on to the same bytes; <id>.safetensors, its best model.
 * Without it jobs live in memory. Any thread. */
#ifndef SRV_JOBS_H
#define SRV_JOBS_H

#include "jobs/train_options.h"
#include "request/request.h"
#include "wire/json_out.h"

enum { SRV_JOB_ID = 20 }; /* "job-" and 16 hexadecimal digits */

typedef struct srv_jobs srv_jobs;
typedef struct srv_job_entry srv_job_entry;

typedef enum srv_job_state {
    SRV_JOB_QUEUED,
    SRV_JOB_RUNNING,
    SRV_JOB_DONE,
    SRV_JOB_FAILED,
    SRV_JOB_CANCELLED,
    SRV_JOB_STATES
} srv_job_state;

extern const char *const srv_job_states[]; /* their names, NULL-terminated */

typedef enum srv_job_kind { SRV_JOB_TRAIN, SRV_JOB_EXPERIMENT } srv_job_kind;

extern const char *const srv_job_kinds[]; /* likewise */

enum { SRV_JOB_SETTINGS = 63 }; /* of all experiments, by name */

/* What a job is asked for: decoded by srv_job_fields. */
typedef struct srv_job_body {
    srv_train_options train; /* first: its rows are the table's first, and `given` is here */
    int kind;
    int experiment; /* attn_experiment_at; -1: none was named */
    bool full, shared;
    struct {
        uint64_t given;
        double values[SRV_JOB_SETTINGS]; /* NaN: as the profile has it */
    } settings;
} srv_job_body;

/* The table of bodies: fields of training, then `kind` and `shared`, then those of experiments.
 * Ready after srv_job_fields_make, which is to be called once before any thread looks. */
enum { SRV_JOB_FIELDS = 63 };
extern srv_field srv_job_fields[SRV_JOB_FIELDS + 1];
void srv_job_fields_make(void);
void srv_job_defaults(srv_job_body *body);
/* Do the fields belong to the kind? false: a problem is set. */
bool srv_job_fits(srv_request *req, const srv_job_body *body);
/* What an experiment is told; ATTN_EVALUE, err->where "settings/…". */
attn_status srv_job_values(const srv_job_body *body, double values[ATTN_EXPERIMENT_SETTINGS],
                           attn_error *err);

/* 0, or an exit code (app.h) and one line on standard error. */
int srv_jobs_open(srv_jobs **out, srv_app *app);
/* Stop what runs, which writes its checkpoint first, and end the streams: the service is going
 * down. */
void srv_jobs_stop(srv_jobs *jobs);
void srv_jobs_free(srv_jobs *jobs); /* waits for what runs; none may be held; NULL is fine */
void srv_jobs_tick(srv_jobs *jobs); /* now and then; NULL is fine */

/* A new job, held; NULL: a problem is set. The body has been decoded and is checked here. */
srv_job_entry *srv_jobs_add(srv_request *req, const srv_job_body *body);
/* Does somebody write to jobs_dir, which looks at jobs have to wait for? Then they are not made in
 * place. */
bool srv_jobs_is_writing(srv_jobs *jobs);
/* The job of this id, held until released. NULL: a problem is set. */
srv_job_entry *srv_jobs_hold(srv_request *req, const char *id);
void srv_jobs_release(srv_job_entry *job);
const char *srv_job_id(const srv_job_entry *job);

/* Stop a job that waits or runs: *ended false; or remove one that has ended, with its model and its
 * files. false: it is not the request's own, a problem is set. */
bool srv_jobs_delete(srv_request *req, srv_job_entry *job, bool *ended);
/* A model was deleted: if it is a job's, its file goes too. */
void srv_jobs_forget_model(srv_jobs *jobs, const char *model);

/* Write the description, and a list of those that the request sees. */
void srv_job_put(srv_json *j, srv_job_entry *job);
void srv_jobs_put_all(srv_json *j, const srv_request *req);
/* What an experiment found, as JSON or as text, and the SVG of a picture, copied into the request's
 * arena; NULL: a problem is set. */
const srv_piece *srv_job_findings(srv_request *req, srv_job_entry *job, bool text);
const srv_piece *srv_job_picture(srv_request *req, srv_job_entry *job, const char *name);
/* A stream of its events behind number `after` (0: all that are kept), in the request's arena; NULL
 * and no problem: it has ended and there are none. It holds the job by itself. */
srv_stream *srv_job_follow(srv_request *req, srv_job_entry *job, uint64_t after);

typedef struct srv_jobs_now {
    size_t states[SRV_JOB_STATES];
    size_t reserved; /* bytes */
} srv_jobs_now;
void srv_jobs_look(srv_jobs *jobs, srv_jobs_now *out); /* for metrics */

#endif
