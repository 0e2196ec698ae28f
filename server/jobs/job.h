/* Internal header of the store of jobs (jobs.h). The store's lock protects all members of a job,
 * with these exceptions: `id` and `body` never change, and `stop` and `cancel` are atomic. A
 * running job is run by one job thread (job_threads.c). */
#ifndef SRV_JOB_H
#define SRV_JOB_H

#include <pthread.h>
#include <stdatomic.h>

#include "config/config.h"
#include "jobs/jobs.h"
#include "load/budget.h"
#include "observe/log.h"
#include "request/shared.h"
#include "request/stream.h"
#include "store/held.h"
#include "store/model_registry.h"
#include "store/runs.h"

enum {
    EVENTS_KEPT = 256,         /* events of a job that are kept for new readers */
    EVENT_TEXT = 2560,         /* buffer size of an event's text, in bytes */
    ERROR_TEXT = 640,          /* buffer size of an error text, in bytes */
    JOB_PATH = 4096,           /* buffer size of a path, in bytes */
    JOB_RETRY_NS = 1000000000, /* pause before a file that could not be read is read again */
};

/* Suffixes of the files of a job: the checkpoint and the model of a training, then the parts of the
 * result of an experiment. srv_job_part makes the suffixes of pictures. */
#define SRV_JOB_CHECKPOINT ".checkpoint"
#define SRV_JOB_MODEL      ".safetensors"
#define SRV_JOB_FINDINGS   ".findings"
#define SRV_JOB_TEXT       ".txt"
#define SRV_JOB_PICTURE    ".svg"

typedef struct srv_job_event {
    char *text; /* the server-sent event as it is sent, from malloc */
    size_t size;
} srv_job_event;

/* Whether a running job must stop, and why. */
enum {
    JOB_GO_ON,
    JOB_CANCEL, /* a client cancels the job */
    JOB_DRAIN,  /* the service ends; the job continues after a restart */
};

/* The facts of a job: all data about the job that changes while it waits, runs and ends. NaN, -1
 * and NULL mean "not known yet". The table srv_job_facts_fields is used to write facts to answers
 * and files, and to read them from files. The decoder sets `given`. */
typedef struct srv_job_validation {
    srv_given_bits given;
    double loss;  /* mean loss per word, in nats */
    double right; /* share of words that are predicted correctly, 0 … 1 */
    /* attn_similarity_loss of the cross attention; NaN also if it has fewer than two heads */
    double head_similarity;
} srv_job_validation;
typedef struct srv_job_best {
    srv_given_bits given;
    int64_t step; /* the training step with the smallest validation loss */
    double loss;  /* the validation loss at this step */
} srv_job_best;
typedef struct srv_job_alignment {
    srv_given_bits given;
    int64_t head; /* the attention head with the smallest alignment error */
    double best;  /* alignment error of this head, 0 … 1 */
    double mean;  /* alignment error of the mean of all heads, 0 … 1 */
} srv_job_alignment;
typedef struct srv_job_scores {
    srv_given_bits given;
    int64_t num_sentences; /* number of held-out sentences that were scored */
    double bleu;           /* 0 … 100 */
    double exact;          /* share of sentences that were translated exactly, 0 … 1 */
    srv_job_alignment alignment_error;
    /* A model with only an encoder or only a decoder has the following members instead of those
     * above. */
    int64_t num_words; /* number of words that were predicted */
    double right;      /* share of words that were predicted correctly, 0 … 1 */
    double loss;       /* mean loss per word, in nats */
} srv_job_scores;
typedef struct srv_job_facts {
    srv_given_bits given;
    int state;                                /* a srv_job_state */
    int64_t created_ms, started_ms, ended_ms; /* Unix time */
    double progress;                          /* completed share, 0 … 1 */
    int64_t step, num_steps, epoch;           /* num_steps: steps of the whole training */
    double loss, rate, words_per_second;      /* rate: the learning rate */
    int64_t elapsed_ms, remaining_ms;         /* time since the start; estimated time to the end */
    srv_job_validation validation;
    srv_job_best best;
    srv_job_scores scores;
    const char *owner, *error, *model, *run; /* point to the texts of srv_job_entry */
    srv_strings pictures;   /* names of an experiment's pictures, in result.arena */
    int64_t reserved_bytes; /* memory limit of the job */
    int64_t peak_bytes;     /* largest memory use of the job; known when it has ended */
} srv_job_facts;

/* The result of an experiment, in the form in which clients get it. */
typedef struct srv_job_result {
    attn_arena *arena;    /* holds everything below; NULL: there is no result */
    srv_piece json, text; /* the findings as JSON and as text for terminals */
    srv_piece *svgs;      /* one for each name in facts.pictures */
} srv_job_result;

struct srv_job_look; /* job_look.c */

struct srv_job_entry {
    srv_held held;  /* place in the list of jobs; requests, streams and the job's thread hold it */
    srv_jobs *jobs; /* the store */
    char id[SRV_JOB_ID + 1];
    srv_job_body body; /* the request that created the job */
    srv_job_facts facts;
    char error_text[ERROR_TEXT];
    char model_id[SRV_MODEL_ID + 1];   /* the model that the job has made; "": none yet */
    char run_id[SRV_RUN_ID + 1];       /* the run that the job has stored; "": none yet */
    char owner[SRV_OWNER_NAME + 1];    /* name of the owner's API key; "": shared by all */
    size_t bytes;                      /* memory limit of the job */
    atomic_int stop;                   /* JOB_GO_ON, JOB_CANCEL or JOB_DRAIN */
    atomic_int cancel;                 /* flag for attn_control: 1 if `stop` is not JOB_GO_ON */
    srv_job_event events[EVENTS_KEPT]; /* a ring: event number i is at i % EVENTS_KEPT */
    uint64_t first_event;              /* number of the oldest kept event */
    uint64_t next_event;               /* number that the next event will get */
    int64_t told_ns;                   /* when the last progress event was added */
    int failed;       /* errno value why the job's checkpoint could not be read; else 0 */
    int64_t again_ns; /* after such a failure: when the job may run again (attn_now_ns) */
    struct srv_job_reader *readers; /* the streams that follow the job (job_events.c) */
    srv_job_result result;
    struct srv_job_look *look; /* only looks and stores have this member; NULL: another kind */
};

/* A job of jobs_dir with a file that cannot be read now, although its contents may be right, for
 * example because memory ran out. The job is not in the list of jobs. */
typedef struct srv_job_unread {
    struct srv_job_unread *next;
    char id[SRV_JOB_ID + 1];
    int failed; /* errno value */
} srv_job_unread;

/* The store of jobs. The lock protects everything below it. */
struct srv_jobs {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when a job may run or must stop, and when a turn ends */
    srv_app *app;
    const srv_config *config;
    srv_models *models;
    srv_log *log;
    srv_held_list list; /* the jobs, in order of creation */
    size_t count;       /* number of jobs with unread ones, without looks and stores */
    srv_job_unread *unread;
    int64_t tried_ns;         /* when the store last tried to read the unread jobs */
    srv_job_entry *restoring; /* the job that is being restored, before it is in the list */
    size_t running_bytes;     /* memory reserved by running jobs */
    bool stopping;            /* the service ends */
    int dir;            /* descriptor of jobs_dir, which is locked by flock; -1: no jobs_dir */
    atomic_int writing; /* not 0: a thread that has the lock is writing a description to disk */
    /* A running job must leave processors to others, so it may only compute while its thread has a
     * "turn". At most `slots` threads have a turn at a time; the others wait in the order in which
     * they asked. Turns are numbered: turn number i may begin when i < turns_ended + slots. */
    uint64_t turns_asked, turns_ended;
    size_t slots;
    pthread_t *threads; /* the job threads */
    size_t thread_count;
};

/* job_facts.c */
extern const srv_field srv_job_facts_fields[];
srv_job_facts srv_job_no_facts(void); /* facts that are all unknown */
/* Writes the body, with defaults filled in, as a JSON object. */
void srv_job_write_request(attn_json_text *j, const srv_job_body *body);

/* jobs_dir.c: the files of a job, called <id><suffix>. Without jobs_dir these functions write, read
 * and remove nothing. */

/* Writes the path of a file of the job. false: it does not fit into `path`, or there is no
 * jobs_dir. In that case `path` is "" or incomplete. */
bool srv_jobs_dir_path(const srv_jobs *jobs, const char *id, const char *suffix,
                       char path[JOB_PATH]);
/* Returns `where`, the place of an error, without the path of jobs_dir at its beginning. Clients
 * must not see this path. */
const char *srv_jobs_dir_place(const srv_jobs *jobs, const char *where);
/* Writes the job's description, body and facts, to <id>.json. The caller has the lock. Returns 0,
 * or an errno value, which is also logged. */
int srv_jobs_dir_save(srv_jobs *jobs, const srv_job_entry *e);
/* Writes the file <id><suffix> atomically. false: it could not be written, which is logged. */
bool srv_jobs_dir_put(srv_jobs *jobs, const srv_job_entry *e, const char *suffix,
                      const srv_piece *data);
/* Reads a file of an experiment's result into the arena. `files` are the checksums in the job's
 * description, which must include the checksum of the file. Returns 0 or an errno value. After an
 * error *data is unchanged. EBADMSG: the contents of the file have changed. */
int srv_jobs_dir_get(const srv_jobs *jobs, const srv_job_entry *e, const char *suffix,
                     const srv_strings *files, attn_arena *arena, srv_piece *data);
/* Removes all files of the job, its description first, because the service restores jobs from their
 * descriptions when it starts. Returns 0, or the errno value of the first file that could not be
 * removed, which is also logged. The caller has the lock. */
int srv_jobs_dir_remove(srv_jobs *jobs, const srv_job_entry *e);
/* Removes the file <id><suffix> durably, if there is one. Returns 0 or an errno value. */
int srv_jobs_dir_drop(srv_jobs *jobs, const srv_job_entry *e, const char *suffix);
/* Opens and locks the directory, restores the jobs in it, and removes files that were left of
 * deleted jobs. Returns 0. If the directory cannot be used, prints one line to standard error and
 * returns an exit code (SRV_EXIT_*). */
int srv_jobs_dir_open(srv_jobs *jobs);
/* If the files of the job with this id cannot be read now, returns the errno value of the reason,
 * else 0. The caller has the lock. */
int srv_jobs_dir_unread(const srv_jobs *jobs, const char *id);
/* Tries from time to time to restore the jobs that could not be read. Only one thread calls this,
 * without the lock. */
void srv_jobs_dir_tick(srv_jobs *jobs, int64_t now_ns);
void srv_jobs_dir_forget_unread(srv_jobs *jobs); /* frees the list of these jobs */

/* --- jobs.c --- */

/* Adds a job with a body and facts that were read from its description. `files` has the meaning as
 * in srv_jobs_dir_get. A job that had not ended is queued again. Returns 0. If a file of the job
 * cannot be read now, adds no job and returns the errno value of the reason. The caller does not
 * have the lock. */
int srv_jobs_restore(srv_jobs *jobs, const char *id, const srv_job_body *body,
                     const srv_job_facts *facts, const srv_strings *files);
/* Makes a job with a new id that belongs to the owner of the request, or to everyone if
 * body->shared is set. NULL: out of memory, or the system has no random numbers. */
srv_job_entry *srv_job_new(const srv_request *req, const srv_job_body *body);
void srv_job_free(srv_job_entry *e);
/* Insert a job into the list, which is ordered by the time of creation, and remove it from there.
 * The caller has the lock. */
void srv_job_list_in(srv_jobs *jobs, srv_job_entry *e);
void srv_job_list_out(srv_jobs *jobs, srv_job_entry *e);
/* Cancels a job that waits or runs. The caller has the lock. */
void srv_job_cancel(srv_job_entry *e);

/* --- job_threads.c; the caller of a function that changes a job has the lock --- */

int64_t srv_job_now_ms(void); /* the present Unix time */
/* Sets the completed share of a running job and the times that follow from it. */
void srv_job_set_progress(srv_job_entry *e, double done);
/* Sets the state and the facts that follow from it, and adds the event for the readers. */
void srv_job_set_state(srv_job_entry *e, srv_job_state state);
/* Sets the id of the run that the job has stored. */
void srv_job_set_run(srv_job_entry *e, const char *id);
/* Sets the error text "where: text". */
void srv_job_set_error(srv_job_entry *e, const char *where, const char *text);
/* Sets the final state and, if there is one, the error. `status` and `err` are the result of the
 * job's work. */
void srv_job_settle(srv_job_entry *e, attn_status status, const attn_error *err);
/* Waits until `changed` is signalled, but for at most 0.2 s, because requests free memory without a
 * signal. */
void srv_jobs_wait_a_little(srv_jobs *jobs);
/* If another thread waits for a turn, ends the turn of the calling job thread and waits until this
 * thread gets its next turn. Called between steps of the work, without the lock. */
void srv_jobs_offer_turn(srv_jobs *jobs);
bool srv_jobs_start_threads(srv_jobs *jobs); /* false: out of memory or threads */

/* --- job_events.c; the caller has the lock --- */

/* The members of a progress event. Events of a training have all but `progress`; events of other
 * jobs have only `progress` and `remaining_ms`. */
typedef struct srv_job_progress {
    double progress; /* 0 … 1 */
    bool trains;
    int64_t step, num_steps;
    double loss;
    bool evaluated; /* the model was evaluated after this step */
    srv_job_validation validation;
    double remaining_ms; /* NaN: unknown */
} srv_job_progress;

/* The following functions add an event. They leave out an event of more than EVENT_TEXT bytes. */

/* Adds a "state" event, or a "done" event if the job has ended. */
void srv_job_tell_state(srv_job_entry *e);
/* Adds a "progress" event. */
void srv_job_tell_progress(srv_job_entry *e, const srv_job_progress *now);
/* Adds a "progress" event of a job that does not train, if one is due. */
void srv_job_tell_share(srv_job_entry *e);
/* Adds a "checkpoint" event. */
void srv_job_tell_checkpoint(srv_job_entry *e, uint64_t step);
/* Adds a "log" event. */
void srv_job_tell_line(srv_job_entry *e, const char *line);

/* Returns whether a progress event is due: 0.2 s after the last one, or in any case if `must` is
 * true. */
bool srv_job_is_tell_due(srv_job_entry *e, bool must);
void srv_job_wake(srv_job_entry *e); /* makes the readers check for new events or the end */
void srv_job_events_free(srv_job_entry *e);
/* Sends an empty comment to each reader that was sent nothing for heartbeat_ms, to keep its
 * connection alive. */
void srv_job_beat(srv_job_entry *e, int64_t now_ns);

/* --- job_train.c and job_run.c --- */

/* Runs a training job to its end on a job thread, within the memory of `reserve`. Adds the trained
 * model to the registry. ATTN_ECANCELED: the job was stopped (`stop` says why). */
attn_status srv_job_train(srv_job_entry *e, srv_reserve *reserve, attn_error *err);
/* Stores a run: a pass of `model`, which is called `name`, over the first pair of the validation
 * set. A failure does not end the job. It is logged, sent to the readers, and becomes the error of
 * the job. */
struct srv_train_run;
void srv_job_store(srv_job_entry *e, const attn_model *model, const struct srv_train_run *run,
                   const char *name, srv_reserve *reserve);
/* Loads the model of an ended job from its file into the registry. If the file is not a model, or
 * there is no room for it, logs this and makes it the error of the job if the job has none. Returns
 * 0. If the file cannot be read now, returns the errno value of the reason. */
int srv_job_restore_model(srv_job_entry *e);
/* Tells the registry whether the model of the job with this id can be read. `failed` is 0 if it can
 * be read or the job has no model, else the errno value of the reason. */
void srv_job_await_model(srv_jobs *jobs, const char *id, int failed);

/* --- job_experiment.c --- */

/* Runs an experiment to its end on a job thread, within the memory of `reserve`. Stores the result
 * in the job. ATTN_ECANCELED: the job was stopped. */
attn_status srv_job_experiment(srv_job_entry *e, srv_reserve *reserve, attn_error *err);
/* Returns an upper bound of the memory of an experiment with these settings, in bytes. */
size_t srv_job_experiment_bytes(const srv_job_body *body, const double *values);
enum { SRV_JOB_SUFFIX = 64 }; /* buffer size of the suffix of a file */
/* Returns part i of a result, and sets `suffix` to the suffix of the file of this part. The parts
 * are the findings, the text, and then one for each of `pictures`. NULL: there is no part i. */
srv_piece *srv_job_part(srv_job_result *result, const srv_strings *pictures, size_t i,
                        char suffix[SRV_JOB_SUFFIX]);
/* Reads the result of an ended experiment from its files. `pictures` names its pictures; `files`
 * has the meaning as in srv_jobs_dir_get. A file with wrong contents is named in the error of the
 * job, and its part of the result is empty; the other parts are served. Returns 0. If a file cannot
 * be read now, returns the errno value of the reason. */
int srv_job_restore_result(srv_job_entry *e, const srv_strings *pictures, const srv_strings *files);

/* --- job_look.c: looks and stores (jobs.h); the caller has the lock --- */

enum { SRV_LOOK_RESULT = 2304 }; /* buffer size of the path of a result */
/* Runs looks and stores. This is the function of a thread. Called without the lock. */
void *srv_look_thread(void *jobs);
void srv_look_free(srv_job_entry *e);
void srv_look_drop_body(srv_job_entry *e); /* frees the body that a job of the kind store keeps */
void srv_look_ask(srv_job_entry *e);       /* notes that a client has asked for the job now */
/* Returns whether the request may read the job: with an API key, or with the read token of the run
 * that a look is about. */
bool srv_look_opens(const srv_job_entry *e, const srv_request *req);
/* Cancels looks and stores for which no client has asked for async_idle_ms. Removes ended ones
 * after 600 s, or earlier if more than 64 ended ones are kept. */
void srv_looks_tick(srv_jobs *jobs, int64_t now_ns);
/* Writes the request whose work a look or a store does, as a JSON object. */
void srv_look_put_request(attn_json_text *j, const srv_job_entry *e);
/* Writes the path of the result: for a look the path of the answer, for a store the path of the run
 * that it has stored. "": the job is of another kind, or not done. */
void srv_look_result(const srv_job_entry *e, char text[SRV_LOOK_RESULT]);

#endif
