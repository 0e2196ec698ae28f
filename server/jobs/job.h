/* Internal header of the store of jobs. The store's lock protects all members of a job except
 * `body`, `id` and `stop`; the thread that runs the job may also use them. */
#ifndef SRV_JOB_H
#define SRV_JOB_H

#include <pthread.h>
#include <stdatomic.h>

#include "config/config.h"
#include "jobs/jobs.h"
#include "load/budget.h"
#include "observe/log.h"
#include "request/stream.h"
#include "store/model_registry.h"

enum { EVENTS_KEPT = 256, EVENT_TEXT = 1024, ERROR_TEXT = 640, JOB_PATH = 4096 };

typedef struct srv_job_event {
    char *text; /* the event in its wire format */
    size_t size;
} srv_job_event;

/* The reason why a running job must stop. */
enum { JOB_GO_ON, JOB_CANCEL, JOB_DRAIN };

/* The facts of a job; NaN, -1 and NULL mean "not known yet". One table writes them to answers and
 * files and reads them back (job_facts.c). */
typedef struct srv_job_validation {
    uint64_t given;
    double loss, right;
} srv_job_validation;
typedef struct srv_job_best {
    uint64_t given;
    int64_t step;
    double loss;
} srv_job_best;
typedef struct srv_job_alignment {
    uint64_t given;
    int64_t head;
    double best, mean;
} srv_job_alignment;
typedef struct srv_job_scores {
    uint64_t given;
    int64_t sentences;
    double bleu, exact;
    srv_job_alignment alignment_error;
} srv_job_scores;
typedef struct srv_job_facts {
    uint64_t given;
    int state;                                /* srv_job_state */
    int64_t created_ms, started_ms, ended_ms; /* Unix time */
    double progress;                          /* completed share, 0 to 1 */
    int64_t step, steps, epoch;
    double loss, rate, words_per_second, seconds, remaining_seconds;
    srv_job_validation validation;
    srv_job_best best;
    srv_job_scores scores;
    const char *owner, *error, *model; /* texts that the job owns */
    srv_strings pictures;              /* names of an experiment's pictures, owned by its result */
    int64_t reserved_bytes, peak_bytes;
} srv_job_facts;

/* The result of an experiment: texts in an arena of its own. */
typedef struct srv_job_result {
    attn_arena *arena; /* NULL: no result */
    srv_piece json, text;
    srv_piece *svgs; /* one for each picture */
} srv_job_result;

struct srv_job_entry {
    srv_job_entry *next; /* in order of creation */
    srv_jobs *jobs;
    char id[SRV_JOB_ID + 1];
    srv_job_body body;
    srv_job_facts facts;
    char error_text[ERROR_TEXT];
    char model_id[SRV_MODEL_ID + 1]; /* "": none yet */
    char owner[SRV_OWNER_NAME + 1];  /* "": shared by all */
    size_t bytes;                    /* memory limit of the job */
    size_t holds;                    /* number of requests and streams that hold the job */
    bool listed;
    atomic_int stop, cancel;           /* JOB_GO_ON, …; cancel: the flag for the library */
    srv_job_event events[EVENTS_KEPT]; /* a ring: event i is at i % EVENTS_KEPT */
    uint64_t first_event, next_event;
    int64_t told_ns; /* time of the last progress event */
    struct srv_job_reader *readers;
    srv_job_result result;
};

struct srv_jobs {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when a job may run, must stop, or may take its turn */
    const srv_config *config;
    srv_models *models;
    srv_log *log;
    srv_job_entry *first;
    size_t count;
    size_t running_bytes; /* memory reserved by running jobs */
    bool stopping;
    int dir;            /* descriptor of jobs_dir, locked; -1: none */
    atomic_int writing; /* number of descriptions that are being written, under the lock */
    /* Permissions to compute, called turns: at most `slots` threads have one at a time, and they
     * get it in the order in which they asked. */
    uint64_t turns_asked, turns_ended;
    size_t slots;
    pthread_t *threads;
    size_t thread_count;
};

/* job_facts.c */
extern const srv_field srv_job_facts_fields[];
srv_job_facts srv_job_no_facts(void);
/* The first function writes a whole value, the second writes members into an object that the caller
 * has opened. */
void srv_job_write_request(srv_json *j, const srv_job_body *body);
void srv_job_write_facts(srv_json *j, const srv_job_facts *facts);

/* jobs_dir.c: the files of a job, which are its description, checkpoint, model and result. */
bool srv_jobs_dir_path(const srv_jobs *jobs, const char *id, const char *suffix,
                       char path[JOB_PATH]);
/* Writes the description. Returns 0, or an errno value, which is also logged. */
int srv_jobs_dir_save(srv_jobs *jobs, const srv_job_entry *e);
/* Write the file <id><suffix> of the job atomically, and read it into the arena. false: the file
 * could not be written or read. */
bool srv_jobs_dir_put(srv_jobs *jobs, const srv_job_entry *e, const char *suffix,
                      const srv_piece *data);
bool srv_jobs_dir_get(const srv_jobs *jobs, const srv_job_entry *e, const char *suffix,
                      attn_arena *arena, srv_piece *data);
void srv_jobs_dir_remove(srv_jobs *jobs, const srv_job_entry *e);
/* Locks the directory and reads the jobs in it. Returns 0, or an exit code after a message on
 * standard error. */
int srv_jobs_dir_open(srv_jobs *jobs);

/* jobs.c: restores a job from its file. The job is queued again or has ended. NULL: out of memory.
 */
srv_job_entry *srv_jobs_restore(srv_jobs *jobs, const char *id, const srv_job_body *body,
                                const srv_job_facts *facts);
void srv_job_free(srv_job_entry *e);

/* job_threads.c. Callers that set a state or an error must hold the lock. */
int64_t srv_job_now_ms(void); /* Unix time */
void srv_job_set_state(srv_job_entry *e, srv_job_state state);
void srv_job_tell_state(srv_job_entry *e);
void srv_job_set_error(srv_job_entry *e, const char *where, const char *text);
/* Wakes the threads that wait for a turn. */
void srv_jobs_offer_turn(srv_jobs *jobs);
bool srv_jobs_start_threads(srv_jobs *jobs); /* false: no memory or threads */

/* job_events.c; all functions need the lock. The text of an event, "data: " and JSON, has at most
 * EVENT_TEXT bytes. */
void srv_job_tell(srv_job_entry *e, const char *type, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void srv_job_wake(srv_job_entry *e); /* wakes the readers at the end of job or service */
void srv_job_events_free(srv_job_entry *e);
/* Sends comments to readers that have received nothing for long. */
void srv_job_beat(srv_job_entry *e, int64_t now_ns);

/* job_train.c: runs the job to its end on a thread of the store, within the memory of `reserve`.
 * Its model is then in the registry. ATTN_ECANCELED: the job was stopped. */
attn_status srv_job_train(srv_job_entry *e, srv_reserve *reserve, attn_error *err);
/* job_experiment.c: runs an experiment in the same way. Its result is then stored in the job. */
attn_status srv_job_experiment(srv_job_entry *e, srv_reserve *reserve, attn_error *err);
size_t srv_job_experiment_bytes(const srv_job_body *body, const double *values);
void srv_job_restore_result(srv_job_entry *e, const srv_strings *pictures);
/* Loads the model of an ended job from its file into the registry. A failure is logged. */
void srv_job_restore_model(srv_job_entry *e);

#endif
