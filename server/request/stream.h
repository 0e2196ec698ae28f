/* Replies that are made while they are being sent, such as server-sent events.
 *
 * A stream is such a reply. A handler makes it in the request's arena by srv_stream_init and puts
 * it into req->reply.stream. server/http sends the bytes that `read` returns until `read` reports
 * the end. When the reply has ended, completely or because the client left, it calls `close` once.
 *
 * The events of a request are a stream with a list of pieces: the handler adds events on a request
 * thread, while server/http sends the events that were added. The text of all events stays in the
 * request's arena until the end, so that the handler never waits for a slow client. The handler
 * bounds the size of the text before it begins. */
#ifndef SRV_STREAM_H
#define SRV_STREAM_H

#include <pthread.h>

#include "request/request.h"

struct srv_stream {
    /* Writes bytes to `to` and returns their number. 0: there are none yet, and srv_stream_wake
     * will be called when there are. -1: the end. Runs on the HTTP thread and must not wait. */
    long (*read)(srv_stream *stream, char *to, size_t room);
    /* Ends the stream, which must not be woken afterwards. Runs on the HTTP thread. */
    void (*close)(srv_stream *stream);

    /* Only stream.c uses the following members. */
    pthread_mutex_t lock;
    bool asleep, woken;
    void (*resume)(void *sender);
    void *sender;
};

/* Prepares a stream. Call it before any thread can wake the stream. */
void srv_stream_init(srv_stream *stream, long (*read)(srv_stream *, char *, size_t),
                     void (*close)(srv_stream *));
/* Makes server/http call `read` again, because there are bytes or the end is reached. Any thread,
 * from srv_stream_init until `close` returns. */
void srv_stream_wake(srv_stream *stream);

/* server/http starts and stops the sending by these functions. */
void srv_stream_start(srv_stream *stream, void (*resume)(void *sender), void *sender);
void srv_stream_stop(srv_stream *stream);
/* Calls the `read` of the stream. If there are no bytes, calls `suspend`, unless the stream was
 * woken since. */
long srv_stream_read(srv_stream *stream, char *to, size_t room, void (*suspend)(void *sender));

typedef struct srv_events srv_events;

/* Makes the events of a request, on a request thread. NULL: a problem is set. */
srv_events *srv_events_new(srv_request *req);
/* Returns the request that the handler must use from now on. It has the same arena, deadline and
 * cancel flag, but another reply; the original request belongs to server/http after the first
 * event. */
srv_request *srv_events_request(srv_events *events);
/* Adds an event. Its data are `size` bytes in the arena with one line end, the last byte. The first
 * event also sends the head of the reply. Returns false if memory ran out. */
bool srv_events_add(srv_events *events, const char *type, const char *data, size_t size);
/* Adds the last event: `done` with the reply of srv_events_request, or `error` with its problem. A
 * problem before the first event becomes the reply of the original request instead. `events` may be
 * freed when this returns. */
void srv_events_end(srv_events *events);

#endif
