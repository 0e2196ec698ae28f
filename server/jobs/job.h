/* Inside the store of jobs: a job, and what its files share. Everything of a job but `body`, `id`
 * and `stop` is touched under the store's lock, or by the thread that runs it. */
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
    char *text; /* as it goes out */
    size_t size;
} srv_job_event;

/* Why a running job has to stop. */
enum { JOB_GO_ON, JOB_CANCEL, JOB_DRAIN };

/* What is known of a job; NaN, -1 and NULL: not yet. One table writes it to answers and files and
 * reads it back (job_facts.c). */
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
    double progress;                          /* share that is done */
    int64_t step, steps, epoch;
    double loss, rate, words_per_second, seconds, remaining_seconds;
    srv_job_validation validation;
    srv_job_best best;
    srv_job_scores scores;
    const char *owner, *error, *model; /* texts of the job's own */
    srv_strings pictures;              /* of an experiment, in its result */
    int64_t reserved_bytes, peak_bytes;
} srv_job_facts;

/* What an experiment leaves: texts in an arena of its own. */
typedef struct srv_job_result {
    attn_arena *arena; /* NULL: nothing */
    srv_piece json, text;
    srv_piece *svgs; /* one a picture */
} srv_job_result;

struct srv_job_entry {
    srv_job_entry *next; /* in order of coming */
    srv_jobs *jobs;
    char id[SRV_JOB_ID + 1];
    srv_job_body body;
    srv_job_facts facts;
    char error_text[ERROR_TEXT];
    char model_id[SRV_MODEL_ID + 1]; /* "": none yet */
    char owner[SRV_OWNER_NAME + 1];  /* "": shared by all */
    size_t bytes;                    /* that it may take */
    size_t holds;                    /* requests and streams that look at it */
    bool listed;
    atomic_int stop, cancel; /* JOB_GO_ON, …; cancel: the flag that the library looks at */
    srv_job_event events[EVENTS_KEPT]; /* a ring: event i is at i % EVENTS_KEPT */
    uint64_t first_event, next_event;
    int64_t told_ns; /* when progress was told last */
    struct srv_job_reader *readers;
    srv_job_result result;
};

struct srv_jobs {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something to run, to stop, or a turn to take */
    const srv_config *config;
    srv_models *models;
    srv_log *log;
    srv_job_entry *first;
    size_t count;
    size_t running_bytes; /* reserved by those that run */
    bool stopping;
    int dir;            /* descriptor of jobs_dir, locked; -1: none */
    atomic_int writing; /* descriptions, under the lock */
    /* Turns at computing: at most `slots` threads at a time, in order of asking. */
    uint64_t turns_asked, turns_ended;
    size_t slots;
    pthread_t *threads;
    size_t thread_count;
};

/* job_facts.c */
extern const srv_field srv_job_facts_fields[];
srv_job_facts srv_job_no_facts(void);
/* A value; members of an object that the caller opened. */
void srv_job_write_request(srv_json *j, const srv_job_body *body);
void srv_job_write_facts(srv_json *j, const srv_job_facts *facts);

/* jobs_dir.c: files of a job: description, checkpoint, model, result. */
bool srv_jobs_dir_path(const srv_jobs *jobs, const char *id, const char *suffix,
                       char path[JOB_PATH]);
/* Write the description; 0 or an errno value, which the log tells. */
int srv_jobs_dir_save(srv_jobs *jobs, const srv_job_entry *e);
/* A file <id><suffix> of the job: written aside, or read into the arena; false: it was not. */
bool srv_jobs_dir_put(srv_jobs *jobs, const srv_job_entry *e, const char *suffix,
                      const srv_piece *data);
bool srv_jobs_dir_get(const srv_jobs *jobs, const srv_job_entry *e, const char *suffix,
                      attn_arena *arena, srv_piece *data);
void srv_jobs_dir_remove(srv_jobs *jobs, const srv_job_entry *e);
/* 0 or an exit code, said on standard error: lock the directory and list what is in it. */
int srv_jobs_dir_open(srv_jobs *jobs);

/* jobs.c: a job that a file describes: it waits again, or has ended. NULL: out of memory. */
srv_job_entry *srv_jobs_restore(srv_jobs *jobs, const char *id, const srv_job_body *body,
                                const srv_job_facts *facts);
void srv_job_free(srv_job_entry *e);

/* job_threads.c; states and errors under the lock */
int64_t srv_job_now_ms(void); /* Unix time */
void srv_job_set_state(srv_job_entry *e, srv_job_state state);
void srv_job_tell_state(srv_job_entry *e);
void srv_job_set_error(srv_job_entry *e, const char *where, const char *text);
/* To those that wait for a turn at computing, if there are any. */
void srv_jobs_offer_turn(srv_jobs *jobs);
bool srv_jobs_start_threads(srv_jobs *jobs); /* false: no memory or threads */

/* job_events.c; all under the lock. An event with "data: " and JSON of at most EVENT_TEXT. */
void srv_job_tell(srv_job_entry *e, const char *type, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void srv_job_wake(srv_job_entry *e); /* its readers: it has ended, or the service stops */
void srv_job_events_free(srv_job_entry *e);
/* Comments to readers that have heard nothing for long. */
void srv_job_beat(srv_job_entry *e, int64_t now_ns);

/* job_train.c: run to the end, on a thread of the store, within `reserve`. ATTN_ECANCELED: it was
 * stopped. The model that it leaves is in the registry then. */
attn_status srv_job_train(srv_job_entry *e, srv_reserve *reserve, attn_error *err);
/* job_experiment.c: the same of an experiment, whose result is with the job then. */
attn_status srv_job_experiment(srv_job_entry *e, srv_reserve *reserve, attn_error *err);
size_t srv_job_experiment_bytes(const srv_job_body *body, const double *values);
void srv_job_restore_result(srv_job_entry *e, const srv_strings *pictures);
/* The model of a job that has ended, from its file into the registry; the log says why not. */
void srv_job_restore_model(srv_job_entry *e);

#endif
