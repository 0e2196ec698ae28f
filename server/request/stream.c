#include "request/stream.h"

#include <string.h>

/* --- streams: whoever wakes one between its look for bytes and its falling asleep is remembered in
 * `woken`, so that nothing is missed --- */

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

/* --- events: a list of pieces that the handler adds to and the stream takes from, under one lock.
 * The exchange is held by both sides; whoever lets go last destroys the lock --- */

typedef struct piece {
    struct piece *next;
    const char *data;
    size_t size;
} piece;

struct srv_events {
    srv_stream stream; /* first: the stream is the events */
    pthread_mutex_t lock;
    srv_request own;  /* the request that the handler uses */
    srv_request *req; /* the request itself; belongs to server/http once `begun` */
    bool begun;       /* the first event was added; only the handler uses this */
    piece *next, **end;
    size_t sent;   /* number of bytes of `next` that were sent */
    piece last[5]; /* memory for the last event, which must not fail */
    bool ended, closed;
};

static void let_go(srv_events *e, bool *side) {
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

/* Closes the events because the client has left or has received all of them. The rest of the
 * handler's work is cancelled. */
static void close_pieces(srv_stream *stream) {
    srv_events *e = (srv_events *)stream;
    atomic_store(&e->req->cancel, 1);
    let_go(e, &e->closed);
}

srv_events *srv_events_new(srv_request *req) {
    srv_events *e = attn_arena_zeroed(req->arena, 1, sizeof *e);
    if (!e) {
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for the events is left");
        return NULL;
    }
    pthread_mutex_init(&e->lock, NULL);
    e->req = req;
    e->own = *req;
    e->end = &e->next;
    return e;
}

srv_request *srv_events_request(srv_events *e) {
    return &e->own;
}

static void begin(srv_events *e) {
    srv_stream_init(&e->stream, read_pieces, close_pieces);
    srv_reply_set(e->req, 200, "text/event-stream", "", 0);
    e->req->reply.stream = &e->stream;
    e->begun = true;
    e->req->go_out(e->req);
}

/* Writes an event as five pieces at `p` and appends them to the list. */
static void add(srv_events *e, piece *p, const char *type, const char *data, size_t size) {
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
        begin(e);
}

bool srv_events_add(srv_events *e, const char *type, const char *data, size_t size) {
    piece *p = attn_arena_zeroed(e->own.arena, 5, sizeof *p);
    if (p)
        add(e, p, type, data, size);
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
    add(e, e->last, own->reply.status < 400 ? "done" : "error", own->reply.body, own->reply.size);
    let_go(e, &e->ended);
}
