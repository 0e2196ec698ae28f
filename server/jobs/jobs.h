/* Jobs are training runs and experiments that outlive their request. The store keeps at most
 * jobs_count jobs. At most jobs_running of them run at a time, and the others wait in order of
 * creation. The memory of a job is reserved before it starts; all running jobs share jobs_bytes.
 * Jobs compute at the lowest priority and leave at least one of the workers' processors free.
 *
 * With jobs_dir each job has files there: <id>.json holds its description and progress,
 * <id>.checkpoint lets a later process resume it with identical results, and <id>.safetensors holds
 * its best model. Without jobs_dir jobs live in memory. Any thread may call these functions. */
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

/* The decoded body of a request for a job (srv_job_fields). */
typedef struct srv_job_body {
    srv_train_options train; /* comes first: it begins with `given`, which the decoder sets */
    int kind;
    int experiment; /* attn_experiment_at; -1: none was named */
    bool full, shared;
    struct {
        uint64_t given;
        double values[SRV_JOB_SETTINGS]; /* NaN: the value of the profile */
    } settings;
} srv_job_body;

/* The field table of bodies: fields of training, then `kind` and `shared`, then fields of
 * experiments. srv_job_fields_make fills it and must be called once before other threads use it. */
enum { SRV_JOB_FIELDS = 63 };
extern srv_field srv_job_fields[SRV_JOB_FIELDS + 1];
void srv_job_fields_make(void);
void srv_job_defaults(srv_job_body *body);
/* Checks that the fields belong to the kind. false: a problem is set. */
bool srv_job_fits(srv_request *req, const srv_job_body *body);
/* Reads the settings of the experiment. ATTN_EVALUE: err->where is "settings/…". */
attn_status srv_job_values(const srv_job_body *body, double values[ATTN_EXPERIMENT_SETTINGS],
                           attn_error *err);

/* Returns 0, or an exit code (app.h) after one line on standard error. */
int srv_jobs_open(srv_jobs **out, srv_app *app);
/* Stops running jobs, which first write their checkpoints, and ends the event streams, before the
 * service ends. */
void srv_jobs_stop(srv_jobs *jobs);
void srv_jobs_free(srv_jobs *jobs); /* waits for running jobs; no job may be held; NULL is fine */
void srv_jobs_tick(srv_jobs *jobs); /* to be called regularly; NULL is fine */

/* Creates a job from a decoded body, which it checks, and holds it. NULL: a problem is set. */
srv_job_entry *srv_jobs_add(srv_request *req, const srv_job_body *body);
/* Tells whether a thread is writing to jobs_dir. Requests for jobs must then wait for it, so they
 * do not run on the HTTP thread. */
bool srv_jobs_is_writing(srv_jobs *jobs);
/* Finds the job with this id and holds it until it is released. NULL: a problem is set. */
srv_job_entry *srv_jobs_hold(srv_request *req, const char *id);
void srv_jobs_release(srv_job_entry *job);
const char *srv_job_id(const srv_job_entry *job);

/* Stops a queued or running job (*ended is false), or deletes an ended job with its model and its
 * files. false: the job belongs to another owner, and a problem is set. */
bool srv_jobs_delete(srv_request *req, srv_job_entry *job, bool *ended);
/* To be called after a model was deleted: if a job made it, its file is deleted too. */
void srv_jobs_forget_model(srv_jobs *jobs, const char *model);

/* Write the description of a job, and the list of jobs that the request may see. */
void srv_job_put(srv_json *j, srv_job_entry *job);
void srv_jobs_put_all(srv_json *j, const srv_request *req);
/* Return the result of an experiment as JSON or text, and the SVG of a picture, copied into the
 * request's arena. NULL: a problem is set. */
const srv_piece *srv_job_findings(srv_request *req, srv_job_entry *job, bool text);
const srv_piece *srv_job_picture(srv_request *req, srv_job_entry *job, const char *name);
/* Opens a stream of the events after number `after` (0: all that are kept), in the request's arena.
 * The stream holds the job. NULL without a problem: the job has ended and no such events exist. */
srv_stream *srv_job_follow(srv_request *req, srv_job_entry *job, uint64_t after);

typedef struct srv_jobs_now {
    size_t states[SRV_JOB_STATES];
    size_t reserved; /* bytes */
} srv_jobs_now;
void srv_jobs_look(srv_jobs *jobs, srv_jobs_now *out); /* for metrics */

#endif
