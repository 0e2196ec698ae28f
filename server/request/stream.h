/* Replies whose body is produced while it is being sent, such as server-sent events.
 *
 * A stream (srv_stream) is the body of such a reply. A handler makes it in the request's arena by
 * srv_stream_init and puts it into req->reply.stream. server/http calls the stream's `read` for the
 * next bytes until `read` reports the end. When the reply is complete or the client has left,
 * server/http calls the stream's `close` once.
 *
 * Events (srv_events) are a stream of server-sent events that one handler produces. The handler
 * adds events on its request thread, while the HTTP thread sends the events that were added. The
 * text of all events stays in the request's arena until the end, so the handler never waits for a
 * slow client. The handler must know an upper bound of the size of this text before it begins. */
#ifndef SRV_STREAM_H
#define SRV_STREAM_H

#include <pthread.h>

#include "request/request.h"

struct srv_stream {
    /* Writes at most `room` bytes to `to` and returns their number. 0: there are no bytes now, and
     * the owner of the stream will call srv_stream_wake when there are. -1: the end. Runs on the
     * HTTP thread and must not wait. */
    long (*read)(srv_stream *stream, char *to, size_t room);
    /* Called after the last `read`. srv_stream_wake must not be called afterwards. Runs on the HTTP
     * thread. */
    void (*close)(srv_stream *stream);

    /* Only stream.c uses the following members. */
    pthread_mutex_t lock;
    bool asleep;                  /* the connection is suspended until the next srv_stream_wake */
    bool woken;                   /* srv_stream_wake was called since the last `read` began */
    void (*resume)(void *sender); /* resumes the connection */
    void *sender;                 /* the connection, for server/http */
};

/* Prepares a stream. Call it before any thread can wake the stream. */
void srv_stream_init(srv_stream *stream, long (*read)(srv_stream *, char *, size_t),
                     void (*close)(srv_stream *));
/* Makes server/http call `read` again, because there are new bytes or the end is reached. Any
 * thread may call this between srv_stream_init and the return of `close`. */
void srv_stream_wake(srv_stream *stream);

/* The following three functions are for server/http. It calls srv_stream_start before the first
 * byte, srv_stream_read for each block of bytes, and srv_stream_stop after the last byte. `resume`
 * and `suspend` are called with the argument `sender`. */
void srv_stream_start(srv_stream *stream, void (*resume)(void *sender), void *sender);
void srv_stream_stop(srv_stream *stream);
/* Returns the result of the stream's `read`. If this is 0, calls `suspend`. But if srv_stream_wake
 * was called since `read` began, does not call it, and server/http must read again. */
long srv_stream_read(srv_stream *stream, char *to, size_t room, void (*suspend)(void *sender));

typedef struct srv_events srv_events;

/* Makes the events of a request. Called on a request thread. NULL: a problem is set. */
srv_events *srv_events_new(srv_request *req);
/* Returns a copy of the request, which the handler must use from now on, because the original
 * belongs to server/http after the first event. The copy has the same arena, deadline and cancel
 * flag, but a reply of its own. */
srv_request *srv_events_request(srv_events *events);
/* Adds an event. `data` are `size` bytes in the request's arena: one line with its line end. The
 * first event also makes server/http send the head of the reply. false: memory ran out. */
bool srv_events_add(srv_events *events, const char *type, const char *data, size_t size);
/* Ends the events with the reply that the handler has set in the request of srv_events_request. The
 * last event is "done" with the body of this reply, or "error" if the reply is a problem. If no
 * event was added before, the reply becomes the reply of the original request, without events. The
 * caller must not use `events` afterwards. */
void srv_events_end(srv_events *events);

#endif
