#include "request/stream.h"

#include <string.h>

/* --- streams ---
 *
 * Another thread may call srv_stream_wake after `read` has found no bytes and before the connection
 * is suspended. The member `woken` notes the call, so that it is not lost. */

void srv_stream_init(srv_stream *s, long (*read)(srv_stream *, char *, size_t),
                     void (*close)(srv_stream *)) {
    *s = (srv_stream){.read = read, .close = close};
    pthread_mutex_init(&s->lock, NULL);
}

void srv_stream_start(srv_stream *s, void (*resume)(void *sender), void *sender) {
    pthread_mutex_lock(&s->lock);
    s->resume = resume;
    s->sender = sender;
    pthread_mutex_unlock(&s->lock);
}

void srv_stream_stop(srv_stream *s) {
    s->close(s);
    pthread_mutex_destroy(&s->lock);
}

void srv_stream_wake(srv_stream *s) {
    pthread_mutex_lock(&s->lock);
    s->woken = true;
    if (s->asleep)
        s->resume(s->sender);
    s->asleep = false;
    pthread_mutex_unlock(&s->lock);
}

long srv_stream_read(srv_stream *s, char *to, size_t room, void (*suspend)(void *sender)) {
    pthread_mutex_lock(&s->lock);
    s->woken = false;
    pthread_mutex_unlock(&s->lock);
    const long n = s->read(s, to, room);
    if (n)
        return n;
    pthread_mutex_lock(&s->lock);
    if (!s->woken) {
        s->asleep = true;
        suspend(s->sender);
    }
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* --- events ---
 *
 * The text of the events is a list of pieces under one lock. The handler appends pieces, and the
 * stream removes those that it has sent. Both the handler and the stream use the srv_events.
 * Whichever ends last destroys the lock. */

typedef struct piece {
    struct piece *next;
    const char *data;
    size_t size;
} piece;

struct srv_events {
    srv_stream stream; /* must be first, because a srv_stream * is cast to a srv_events * */
    pthread_mutex_t lock;
    srv_request own;  /* the copy of the request that the handler uses */
    srv_request *req; /* the original request; belongs to server/http once `begun` is set */
    bool begun;       /* the first event was added; only the handler uses this member */
    piece *next;      /* the first piece that is not sent completely */
    piece **end;      /* where to append the next piece */
    size_t sent;      /* bytes of `next` that were sent */
    piece last[5];    /* memory for the last event, so that it can always be added */
    bool ended;       /* the handler has ended */
    bool closed;      /* the stream has ended */
};

/* Sets one of the flags `ended` and `closed`. When both are set, destroys the lock. */
static void set_ended(srv_events *e, bool *side) {
    pthread_mutex_lock(&e->lock);
    *side = true;
    if (e->begun && !e->closed)
        srv_stream_wake(&e->stream);
    const bool last = e->ended && e->closed;
    pthread_mutex_unlock(&e->lock);
    if (last)
        pthread_mutex_destroy(&e->lock);
}

static long read_pieces(srv_stream *stream, char *to, size_t room) {
    srv_events *e = (srv_events *)stream;
    size_t n = 0;
    pthread_mutex_lock(&e->lock);
    while (e->next && n < room) {
        const size_t left = e->next->size - e->sent, some = left < room - n ? left : room - n;
        memcpy(to + n, e->next->data + e->sent, some);
        n += some;
        e->sent += some;
        if (some < left)
            break;
        e->next = e->next->next;
        e->sent = 0;
    }
    if (!e->next)
        e->end = &e->next;
    const bool over = e->ended && !e->next;
    pthread_mutex_unlock(&e->lock);
    return n || !over ? (long)n : -1;
}

/* The `close` of the stream: the client has left or has received everything. Cancels the handler's
 * work if it has not ended. */
static void close_pieces(srv_stream *stream) {
    srv_events *e = (srv_events *)stream;
    atomic_store(&e->req->cancel, 1);
    set_ended(e, &e->closed);
}

/* Copies texts of the request into its arena. Copies only the texts in memory of the connection,
 * which is freed when the client leaves. false: out of memory. */
static bool own_texts(srv_request *req) {
    const char **const texts[] = {&req->method,        &req->path, &req->if_none_match,
                                  &req->last_event_id, &req->host, &req->infer_header};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i] && !(*texts[i] = attn_arena_text(req->arena, *texts[i], strlen(*texts[i]))))
            return false;
    return true;
}

srv_events *srv_events_new(srv_request *req) {
    srv_events *e = attn_arena_zeroed(req->arena, 1, sizeof *e);
    if (e)
        e->own = *req;
    if (!e || !own_texts(&e->own)) {
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for the events is left");
        return NULL;
    }
    pthread_mutex_init(&e->lock, NULL);
    e->req = req;
    e->end = &e->next;
    return e;
}

srv_request *srv_events_request(srv_events *e) {
    return &e->own;
}

/* Makes server/http send the reply with the events as its stream. */
static void begin_reply(srv_events *e) {
    srv_stream_init(&e->stream, read_pieces, close_pieces);
    srv_reply_set(e->req, 200, "text/event-stream", "", 0);
    e->req->reply.stream = &e->stream;
    e->begun = true;
    e->req->go_out(e->req);
}

/* Appends an event to the list, as five pieces in the array `p`. The first event begins the reply.
 */
static void append_event(srv_events *e, piece *p, const char *type, const char *data, size_t size) {
    const char *const before[] = {"event: ", type, "\ndata: "};
    for (int i = 0; i < 3; i++)
        p[i] = (piece){&p[i + 1], before[i], strlen(before[i])};
    p[3] = (piece){&p[4], data, size};
    p[4] = (piece){NULL, "\n", 1};
    pthread_mutex_lock(&e->lock);
    *e->end = p;
    e->end = &p[4].next;
    if (e->begun && !e->closed)
        srv_stream_wake(&e->stream);
    pthread_mutex_unlock(&e->lock);
    if (!e->begun)
        begin_reply(e);
}

bool srv_events_add(srv_events *e, const char *type, const char *data, size_t size) {
    piece *p = attn_arena_zeroed(e->own.arena, 5, sizeof *p);
    if (p)
        append_event(e, p, type, data, size);
    return p != NULL;
}

void srv_events_end(srv_events *e) {
    srv_request *own = &e->own;
    if (!e->begun) {
        e->req->reply = own->reply;
        pthread_mutex_destroy(&e->lock);
        return;
    }
    if (own->reply.status >= 400 && atomic_load(own->control.cancel))
        srv_problem(own, SRV_DRAINING, NULL, "the server is shutting down");
    append_event(e, e->last, own->reply.status < 400 ? "done" : "error", own->reply.body,
                 own->reply.size);
    set_ended(e, &e->ended);
}
