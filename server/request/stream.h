/* A reply that is made while it goes out, as events of a job are. Its maker fills the upper half
 * (in the request's arena) and puts it into req->reply.stream; server/http sends what `read` gives
 * until it says that this was all, and calls `close` once when the reply is over, however it ended:
 * the client may have left. */
#ifndef SRV_STREAM_H
#define SRV_STREAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct srv_stream srv_stream;

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

#endif
