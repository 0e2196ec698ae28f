/* Sleeping and waking: whoever wakes a stream between its look for bytes and its falling asleep is
 * remembered in `woken`, so that nothing is missed. */
#include "request/stream.h"

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
