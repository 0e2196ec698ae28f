/* Jobs continue after the request that created them was answered. They are of four kinds: training
 * runs, experiments, looks and stores. A look or a store does the work of one long request: a look
 * keeps an answer with a stored run, a store stores a run (job_look.c).
 *
 * The rest of this comment is about training runs and experiments. The store of jobs keeps at most
 * jobs_count of them, ended ones included. At most jobs_running run at a time, on threads of the
 * store; the others wait in order of creation. The memory of a job is reserved before it starts,
 * and all running jobs together may reserve jobs_bytes. Jobs compute at a low priority (jobs_nice)
 * and, if there are at least two workers, leave one processor to requests.
 *
 * Without the setting jobs_dir jobs live in memory. With it each job has files there:
 *
 *   <id>.json                            the request, state and progress of the job, and the
 *                                        checksums of an experiment's result
 *   <id>.checkpoint                      a training job's state; a later process continues from it
 *                                        and gets the same result
 *   <id>.safetensors                     the best model of a training job
 *   <id>.findings, .txt, .<name>.svg     the result of an experiment
 *
 * A request holds a job by a reference: srv_jobs_hold and srv_jobs_add add one, and
 * srv_jobs_release removes it. A deleted job is freed by its last holder. Any thread may call these
 * functions. */
#ifndef SRV_JOBS_H
#define SRV_JOBS_H

#include "experiments/experiments.h"
#include "jobs/train_options.h"
#include "request/request.h"
#include "wire/answer.h"
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

extern const char *const srv_job_states[]; /* names of the states, ended by NULL */

typedef enum srv_job_kind {
    SRV_JOB_TRAIN,
    SRV_JOB_EXPERIMENT,
    SRV_JOB_LOOK,
    SRV_JOB_STORE,
} srv_job_kind;

extern const char *const srv_job_kinds[]; /* names of the kinds, ended by NULL */

enum { SRV_JOB_SETTINGS = 63 }; /* largest number of different settings of experiments */

/* The settings of an experiment. */
typedef struct srv_job_settings {
    srv_given_bits given;
    double values[SRV_JOB_SETTINGS]; /* NaN: not given, so the value of the profile applies */
} srv_job_settings;

/* The decoded body of a request for a job (srv_job_fields). */
typedef struct srv_job_body {
    srv_train_options train; /* must be first, because the decoder sets `given` at its start */
    bool store;              /* a training job stores a run of its best model */
    int kind;                /* a srv_job_kind */
    bool shared;             /* the job and its model have no owner */
    int experiment;          /* index for attn_experiment_at; -1: none was named */
    bool full;               /* use the experiment's longer profile */
    srv_job_settings settings;
} srv_job_body;

/* The field table of bodies, in the order of srv_job_body. The rows before "checkpoint_every"
 * affect the trained model; the rows from there on do not. srv_job_fields_make adds the experiments
 * and their settings to the table. Call it once, before other threads use the table. */
extern const srv_field srv_job_fields[];
void srv_job_fields_make(void);
/* Returns whether requests for a job of this kind may have the field. */
bool srv_job_has_field(srv_job_kind kind, const srv_field *f);
void srv_job_defaults(srv_job_body *body);
/* Checks that the body has only fields of its kind: the body of an experiment no field of training
 * jobs, and the body of a training job no field of experiments. false: a problem is set. */
bool srv_job_fits(srv_request *req, const srv_job_body *body);
/* Computes the values of the experiment's settings. A value of the body replaces that of the
 * profile. ATTN_EVALUE: err->where is "settings/NAME". */
attn_status srv_job_values(const srv_job_body *body, double values[ATTN_EXPERIMENT_SETTINGS],
                           attn_error *err);

/* If the experiment analyses a model, opens the model and sets the members of `hooks` that name it.
 * If `path` is "", it opens the built-in model, else the model in the file `path`. `file` must be
 * zero before the call; the caller closes it even after an error. */
attn_status srv_experiment_model(const attn_experiment *experiment, const char *path,
                                 attn_model_file *file, attn_experiment_hooks *hooks,
                                 attn_error *err);

/* Opens the store, restores the jobs of jobs_dir and starts the job threads. Returns 0. On failure,
 * prints one line to standard error and returns an exit code (SRV_EXIT_*). */
int srv_jobs_open(srv_jobs **out, srv_app *app);
/* Begins the shutdown: makes running jobs write their checkpoints and stop, and ends all event
 * streams. Does not wait for them. NULL is fine. */
void srv_jobs_stop(srv_jobs *jobs);
void srv_jobs_free(srv_jobs *jobs); /* waits for running jobs; no job may be held; NULL is fine */
/* Keeps event streams alive by empty comments. Housekeeping calls this every quarter of a second.
 * NULL is fine. */
void srv_jobs_tick(srv_jobs *jobs);

/* Checks the body, creates a job from it and holds the job. NULL: a problem is set. */
srv_job_entry *srv_jobs_add(srv_request *req, const srv_job_body *body);
/* A request whose work a job is to do. */
typedef struct srv_job_order {
    /* The handler of the request's route. The job calls it with another request, whose member
     * is_job is set. The handler either keeps the answer with the stored run that the request is
     * about, or stores a run and sets its id as the header X-Run-Id. */
    srv_outcome (*run)(srv_request *req);
    const char *query; /* query string of at most SRV_JOB_QUERY bytes; needs no escapes in JSON */
    /* While the job waits or runs, an order of the same owner with an equal key gets the same job.
     * NULL: every order gets a job of its own. */
    const char *key;
    const char *token; /* read token of the run that a look is about; NULL: none */
    double bytes;      /* bytes that the handler will reserve beyond those in req->arena now */
    bool stores;       /* the handler stores a run; the job keeps the body of the request */
} srv_job_order;
enum { SRV_JOB_QUERY = 2048 };
/* Returns the job that does the work of the request, and holds the job. If a job that the owner has
 * ordered with the same key still waits or runs, returns that job, else a new one. NULL: a problem
 * is set. */
srv_job_entry *srv_jobs_order(srv_request *req, const srv_job_order *order);
/* Returns whether a thread holds the store's lock while it writes to jobs_dir. The HTTP thread must
 * not wait for the disk, so requests for jobs then go to a request thread. */
bool srv_jobs_is_writing(srv_jobs *jobs);
/* Finds the job with this id and holds it until srv_jobs_release. The read token of a run gives
 * access to the looks at that run. NULL: a problem is set. */
srv_job_entry *srv_jobs_hold(srv_request *req, const char *id);
void srv_jobs_release(srv_job_entry *job);
const char *srv_job_id(const srv_job_entry *job);

/* Cancels the job if it is queued or running. Sets *ended to whether it has ended; a running job
 * ends soon after the call. false: the job belongs to another owner, and a problem is set. */
bool srv_jobs_end(srv_request *req, srv_job_entry *job, bool *ended);
/* Ends the job, waits until it has ended, and deletes it with its model and files. false: the job
 * belongs to another owner, or cannot be deleted now, and a problem is set. */
bool srv_jobs_delete(srv_request *req, srv_job_entry *job);
/* Called when the model with this id is being deleted. If a job made the model, the job no longer
 * has it, and the model's file in jobs_dir is deleted. Returns 0 or an errno value. After an error
 * the job still has the model. */
int srv_jobs_forget_model(srv_app *app, const char *model);

extern const srv_field srv_job_answers[];       /* schemas of the JSON of jobs */
extern const srv_field srv_job_event_answers[]; /* schemas of the JSON of their events */
/* Writes a job as a JSON object. */
void srv_job_put(attn_json_text *j, srv_job_entry *job);
/* Writes at most `limit` jobs that the request may see, in order of creation, as elements of a JSON
 * array that the caller has begun. Starts after the job with the id `after`, or with the first job
 * if `after` is NULL. `next` becomes the id of the last job that was written if more jobs follow,
 * else "". false: there is no job `after` that the request may see. */
bool srv_jobs_put_page(attn_json_text *j, const srv_request *req, const char *after, size_t limit,
                       char next[SRV_JOB_ID + 1]);
/* Returns a copy of an experiment's findings in the request's arena: as text for terminals if
 * `text` is true, else as JSON. NULL: a problem is set. */
const srv_piece *srv_job_findings(srv_request *req, srv_job_entry *job, bool text);
/* Returns a copy of the SVG of a picture of an experiment in the request's arena. NULL: a problem
 * is set. */
const srv_piece *srv_job_picture(srv_request *req, srv_job_entry *job, const char *name);
/* Opens a stream of the job's events in the request's arena. It begins after the event with the
 * number `after`, or with the oldest kept event if `after` is 0. The stream holds the job until it
 * is closed. NULL: a problem is set. If no problem is set, the job has ended and has no such
 * events. */
srv_stream *srv_job_follow(srv_request *req, srv_job_entry *job, uint64_t after);

/* Returns whether jobs_dir was removed while the store uses it. */
bool srv_jobs_lost(const srv_jobs *jobs);

typedef struct srv_jobs_now {
    size_t states[SRV_JOB_STATES]; /* number of jobs in each state */
    size_t reserved;               /* memory reserved by running jobs, in bytes */
} srv_jobs_now;
void srv_jobs_look(srv_jobs *jobs, srv_jobs_now *out); /* for metrics */

#endif
