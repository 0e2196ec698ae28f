/* Events of jobs. Each job has a ring with its last EVENTS_KEPT events. A reader is the event
 * stream of one client; it has a position in the ring. A slow reader misses events that were
 * overwritten and never delays the job. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/job.h"
#include "request/shared.h"

typedef struct srv_job_reader {
    srv_stream stream; /* must be the first member, because srv_stream * is cast to reader * */
    struct srv_job_reader *next;
    srv_job_entry *job;
    uint64_t at;     /* number of the next event to send */
    int64_t sent_ns; /* when something was last sent */
    bool beat;       /* send COMMENT if there is no event */
} reader;

enum { TELL_NS = 200000000 }; /* least time between two progress events */

static const char COMMENT[] = ":\n\n"; /* an empty comment of server-sent events */

void srv_job_tell(srv_job_entry *e, const char *type, const char *format, ...) {
    char text[EVENT_TEXT];
    va_list args;
    int n = snprintf(text, sizeof text,
                     "id: %llu\nevent: %s\ndata: ", (unsigned long long)e->next_event, type);
    va_start(args, format);
    const int more = vsnprintf(text + n, sizeof text - (size_t)n - 2, format, args);
    va_end(args);
    n += more > 0 ? more : 0;
    if (n > (int)sizeof text - 3)
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

/* The `read` of the stream: copies as many whole events to `to` as there are and as fit. */
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
    /* Numbers of events begin anew with each process. A client that names a number beyond the last
     * event has followed the job in an earlier process, and gets all events. */
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
