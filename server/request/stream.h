/* Replies that are made while they go out, as server-sent events are.
 *
 * A stream is any such reply. Its maker fills the upper half (in the request's arena) and puts it
 * into req->reply.stream; server/http sends what `read` gives until that says that it was all, and
 * calls `close` once when the reply is over, however it ended: the client may have left.
 *
 * The events of one request are a stream with a list of pieces: its handler adds events on a
 * request thread, while server/http sends what was added. Their text stays in the request's arena
 * until the end, as an answer's does, so that nobody waits for a slow reader; the handler bounds it
 * before it begins. */
#ifndef SRV_STREAM_H
#define SRV_STREAM_H

#include <pthread.h>

#include "request/request.h"

struct srv_stream {
    /* Bytes that were put into `to`; 0: none yet, srv_stream_wake when there are; -1: the end. On
     * the HTTP thread: it must not wait. */
    long (*read)(srv_stream *stream, char *to, size_t room);
    /* Nobody may wake it from the return of this on. On the HTTP thread. */
    void (*close)(srv_stream *stream);

    /* The rest is not the maker's: */
    pthread_mutex_t lock;
    bool asleep, woken;
    void (*resume)(void *sender);
    void *sender;
};

/* Before anybody can wake it. */
void srv_stream_init(srv_stream *stream, long (*read)(srv_stream *, char *, size_t),
                     void (*close)(srv_stream *));
/* There is something to read, or to end. Any thread, from srv_stream_init to `close`. */
void srv_stream_wake(srv_stream *stream);

/* For server/http. */
void srv_stream_start(srv_stream *stream, void (*resume)(void *sender), void *sender);
void srv_stream_stop(srv_stream *stream);
/* Read; when there is nothing, `suspend` is called unless somebody woke it meanwhile. */
long srv_stream_read(srv_stream *stream, char *to, size_t room, void (*suspend)(void *sender));

typedef struct srv_events srv_events;

/* On a request thread. NULL: a problem is set. */
srv_events *srv_events_new(srv_request *req);
/* What the handler goes on with instead of the request, which is server/http's from the first event
 * on: the same arena, deadline and cancel flag, but a reply of its own. */
srv_request *srv_events_request(srv_events *events);
/* Add an event, of `size` bytes in the arena that end in the only line end; the first one sends the
 * head of the reply. false: there is no memory. */
bool srv_events_add(srv_events *events, const char *type, const char *data, size_t size);
/* The last event: `done` with the reply of srv_events_request, or `error` with its problem; when
 * there was none before, the problem becomes the reply of the request itself. `events` may be gone
 * afterwards. */
void srv_events_end(srv_events *events);

#endif
