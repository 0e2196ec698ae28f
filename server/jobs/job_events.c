/* Events of jobs. Each job has a ring with its last EVENTS_KEPT events. A reader is the event
 * stream of one client; it has a position in the ring. A slow reader misses events that were
 * overwritten and never delays the job. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/job.h"
#include "number/print_small.h"
#include "request/shared.h"

typedef struct srv_job_reader {
    srv_stream stream; /* must be the first member, because a srv_stream * is cast to a reader * */
    struct srv_job_reader *next;
    srv_job_entry *job;
    uint64_t at;     /* number of the next event to send */
    int64_t sent_ns; /* when something was last sent */
    bool beat;       /* send COMMENT if there is no event, to keep the connection alive */
} reader;

enum { TELL_NS = 200000000 }; /* shortest time between two progress events */

static const char COMMENT[] = ":\n\n"; /* an empty comment of server-sent events */

/* --- events as JSON --- */

static void put_number(attn_json_text *j, const char *format, double x) {
    char text[40];
    if (isfinite(x))
        attn_json_raw(j, text, (size_t)snprintf(text, sizeof text, format, x));
    else
        attn_json_null(j);
}

static void put_nine_digits(attn_json_text *j, const void *number) {
    put_number(j, "%.9g", *(const double *)number);
}

static void put_six_digits(attn_json_text *j, const void *number) {
    put_number(j, "%.6g", *(const double *)number);
}

static void put_share(attn_json_text *j, const void *progress) {
    const srv_job_progress *now = progress;
    if (!now->trains)
        put_number(j, "%.4f", now->progress);
}

static void put_whole(attn_json_text *j, const void *number) {
    put_number(j, "%.0f", floor(*(const double *)number));
}

/* The members of a state event. */
typedef struct state_event {
    int state;
    bool looks;  /* the job is a look or a store, so its events have `result` */
    bool trains; /* the job is of another kind, so its events have best_loss and model */
    double best_loss;
    const char *model, *result, *run; /* NULL: none */
} state_event;

#define OF_TRAINING(T) .when = offsetof(T, trains)

static const srv_field state_rows[] = {
    SRV_ALWAYS("state", SRV_ENUM, state_event, state, "The new state of the job.",
               .choices = srv_job_states),
    SRV_WRITTEN_AT("best_loss", "number?", put_nine_digits, state_event, best_loss,
                   "The smallest loss of validation.", OF_TRAINING(state_event)),
    SRV_IF_KNOWN("model", SRV_STRING, state_event, model, "The id of its model.", .type = "string?",
                 OF_TRAINING(state_event)),
    SRV_IF_KNOWN("result", SRV_STRING, state_event, result, "The path of the answer or the run.",
                 .type = "string?", .when = offsetof(state_event, looks)),
    SRV_IF_KNOWN("run", SRV_STRING, state_event, run, "The id of the run that it has stored."),
    {0},
};

#define SIX_DIGITS(name, member, text)                                                             \
    SRV_WRITTEN_AT(name, "number?", put_six_digits, srv_job_progress, member, text,                \
                   OF_TRAINING(srv_job_progress))

static const srv_field validation_rows[] = {
    SIX_DIGITS("loss", validation.loss, "Mean loss of a word of the validation set."),
    SIX_DIGITS("right", validation.right, "Share of the words that are predicted correctly."),
    SIX_DIGITS("head_similarity", validation.head_similarity,
               "Mean cosine of the weights of two heads of the last cross attention."),
    {0},
};

static const srv_field progress_rows[] = {
    SRV_WRITTEN("progress", "number+", put_share, "The share of the work that is done.", .max = 1),
    SRV_IF_KNOWN("step", SRV_INT, srv_job_progress, step, "The step of training.",
                 OF_TRAINING(srv_job_progress)),
    SRV_IF_KNOWN("num_steps", SRV_INT, srv_job_progress, num_steps, "Steps of the whole training.",
                 OF_TRAINING(srv_job_progress)),
    SIX_DIGITS("loss", loss, "The loss of the step."),
    SRV_IF_KNOWN("evaluated", SRV_BOOL, srv_job_progress, evaluated,
                 "Whether the model was evaluated after the step.", OF_TRAINING(srv_job_progress)),
    SRV_GROUP("validation", validation_rows, "The last evaluation.", OF_TRAINING(srv_job_progress)),
    SRV_WRITTEN_AT("remaining_ms", "integer?", put_whole, srv_job_progress, remaining_ms,
                   "How long the job will still run, in milliseconds."),
    {0},
};

static const srv_field checkpoint_rows[] = {
    SRV_ALWAYS("step", SRV_INT, srv_job_progress, step, "The step of the checkpoint."),
    {0},
};

typedef struct line_event {
    const char *line;
} line_event;

static const srv_field log_rows[] = {
    SRV_ALWAYS("line", SRV_STRING, line_event, line, "A line of the log."),
    {0},
};

const srv_field srv_job_event_answers[] = {
    SRV_GROUP("JobStateEvent", state_rows,
              "The job has got another state, or a better model. Looks and stores have result, "
              "other jobs best_loss and model; run is that of a store."),
    SRV_GROUP("JobProgressEvent", progress_rows,
              "Of training: the step, and the validation if the step was evaluated. Of other jobs: "
              "the share that is done."),
    SRV_GROUP("JobCheckpointEvent", checkpoint_rows,
              "The job would continue from this step after a restart."),
    SRV_GROUP("JobLogEvent", log_rows, NULL),
    {0},
};

/* Adds an event of this type, whose data is `object` as JSON with the members `rows`. Leaves out an
 * event of more than EVENT_TEXT bytes. */
static void tell(srv_job_entry *e, const char *type, const srv_field *rows, const void *object) {
    char text[ATTN_ESCAPE_MOST * EVENT_TEXT];
    int n = snprintf(text, sizeof text,
                     "id: %llu\nevent: %s\ndata: ", (unsigned long long)e->next_event, type);
    attn_json_text j = {.data = text + n, .room = sizeof text - (size_t)n - 3, .decimals = -1};
    srv_answer_object(&j, rows, object);
    n += (int)j.size;
    if (j.failed || n > EVENT_TEXT - 3)
        return;
    memcpy(text + n, "\n\n", 3);
    srv_job_event *place = &e->events[e->next_event % EVENTS_KEPT];
    char *kept = strdup(text);
    if (!kept)
        return;
    free(place->text);
    *place = (srv_job_event){kept, (size_t)n + 2};
    e->next_event++;
    if (e->next_event - e->first_event > EVENTS_KEPT)
        e->first_event = e->next_event - EVENTS_KEPT;
    srv_job_wake(e);
}

static const char *text_or_null(const char *text) {
    return *text ? text : NULL;
}

void srv_job_tell_state(srv_job_entry *e) {
    char result[SRV_LOOK_RESULT];
    srv_look_result(e, result);
    tell(e, e->facts.state > SRV_JOB_RUNNING ? "done" : "state", state_rows,
         &(state_event){.state = e->facts.state,
                        .trains = !e->look,
                        .looks = e->look != NULL,
                        .best_loss = e->facts.best.loss,
                        .model = text_or_null(e->model_id),
                        .result = text_or_null(result),
                        .run = text_or_null(e->run_id)});
}

void srv_job_tell_progress(srv_job_entry *e, const srv_job_progress *now) {
    tell(e, "progress", progress_rows, now);
}

void srv_job_tell_share(srv_job_entry *e) {
    const srv_job_facts *f = &e->facts;
    const srv_job_progress now = {.progress = f->progress,
                                  .remaining_ms =
                                      f->remaining_ms < 0 ? (double)NAN : (double)f->remaining_ms};
    if (srv_job_is_tell_due(e, false))
        srv_job_tell_progress(e, &now);
}

void srv_job_tell_checkpoint(srv_job_entry *e, uint64_t step) {
    tell(e, "checkpoint", checkpoint_rows, &(srv_job_progress){.step = (int64_t)step});
}

void srv_job_tell_line(srv_job_entry *e, const char *line) {
    tell(e, "log", log_rows, &(line_event){line});
}

bool srv_job_is_tell_due(srv_job_entry *e, bool must) {
    const int64_t now = attn_now_ns();
    const bool due = must || now - e->told_ns >= TELL_NS;
    e->told_ns = due ? now : e->told_ns;
    return due;
}

void srv_job_wake(srv_job_entry *e) {
    for (reader *r = e->readers; r; r = r->next)
        srv_stream_wake(&r->stream);
}

void srv_job_beat(srv_job_entry *e, int64_t now_ns) {
    const int64_t every = e->jobs->config->heartbeat_ms * 1000000;
    for (reader *r = e->readers; r; r = r->next)
        if (now_ns - r->sent_ns >= every) {
            r->beat = true;
            srv_stream_wake(&r->stream);
        }
}

void srv_job_events_free(srv_job_entry *e) {
    for (size_t i = 0; i < EVENTS_KEPT; i++)
        free(e->events[i].text);
}

static long put_event(reader *r, char *to, size_t room, const char *text, size_t size) {
    if (size > room)
        return 0;
    memcpy(to, text, size);
    r->sent_ns = attn_now_ns();
    r->beat = false;
    return (long)size;
}

/* Implements the `read` of the stream: copies as many whole events to `to` as there are and as fit.
 * Returns the number of bytes copied. 0: there is no event now; -1: the stream ends. */
static long read_events(srv_stream *s, char *to, size_t room) {
    reader *r = (reader *)s;
    srv_job_entry *e = r->job;
    long n = 0, more = 1;
    pthread_mutex_lock(&e->jobs->lock);
    r->at = r->at < e->first_event ? e->first_event : r->at;
    for (; more > 0 && r->at<e->next_event; r->at += more> 0, n += more) {
        const srv_job_event *event = &e->events[r->at % EVENTS_KEPT];
        more = put_event(r, to + n, room - (size_t)n, event->text, event->size);
    }
    const bool over = e->facts.state > SRV_JOB_RUNNING || e->jobs->stopping;
    if (n == 0 && (over || more == 0))
        n = -1;
    else if (n == 0 && r->beat)
        n = put_event(r, to, room, COMMENT, sizeof COMMENT - 1);
    pthread_mutex_unlock(&e->jobs->lock);
    return n;
}

static void close_reader(srv_stream *s) {
    reader *r = (reader *)s;
    srv_job_entry *e = r->job;
    pthread_mutex_lock(&e->jobs->lock);
    reader **at = &e->readers;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    pthread_mutex_unlock(&e->jobs->lock);
    srv_jobs_release(e);
}

srv_stream *srv_job_follow(srv_request *req, srv_job_entry *e, uint64_t after) {
    reader *r = attn_arena_zeroed(req->arena, 1, sizeof *r);
    if (!r) {
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory to follow the job is left");
        return NULL;
    }
    srv_stream_init(&r->stream, read_events, close_reader);
    pthread_mutex_lock(&e->jobs->lock);
    /* The numbers of events start again in each process. A client that names a number beyond the
     * last event has followed the job in an earlier process. It gets all events. */
    r->at = after < e->next_event ? after + 1 : e->first_event;
    r->sent_ns = attn_now_ns();
    r->job = e;
    const bool over = e->facts.state > SRV_JOB_RUNNING && r->at >= e->next_event;
    if (!over) {
        e->held.holds++;
        r->next = e->readers;
        e->readers = r;
    }
    pthread_mutex_unlock(&e->jobs->lock);
    if (!over)
        return &r->stream;
    pthread_mutex_destroy(&r->stream.lock);
    return NULL;
}
