/*   first piece -> [ waits … ] -> holder -> complete
 *                       ^            |
 *                       +------------+   no bytes now, and others have
 *
 * The turn is held only while bytes of its holder lie in the kernel: a client that pauses loses it,
 * so that nobody waits for a client. It is for plain bodies of a known length, of which every byte
 * that the HTTP library reads comes to srv_turn_taken. The library is called without the lock. */
#include "http/turns.h"

#include <sys/ioctl.h>

/* Longer ones do not stay in the caches; they are read side by side. */
enum { BODY_MOST = 1 << 20 };

/* A queue that does not move must not keep bodies out for long: their requests are to be refused,
 * or answered, by its rules. */
#define WAIT_MOST_NS 50000000

static bool takes_turns(const srv_exchange *x) {
    const srv_head *h = &x->head;
    return !h->chunked && x->link->plain &&
           h->length > (uint64_t)x->req.app->config->in_place_bytes && h->length <= BODY_MOST;
}

static size_t bytes_of(const srv_exchange *x) {
    int bytes = 0;
    return !ioctl(x->link->fd, FIONREAD, &bytes) && bytes > 0 ? (size_t)bytes : 0;
}

/* As many requests wait as the workers will run next. */
static bool is_backed_up(const srv_daemon *d) {
    return srv_queue_waiting(d->app->queue) >= (size_t)d->app->config->workers;
}

/* Under the lock. */
static void hold(srv_turns *t, srv_exchange *x) {
    t->holder = x;
    t->left = 0;
}

/* Does the holder still read? The kernel is asked once for all that lies there. Under the lock. */
static bool is_held(srv_turns *t) {
    if (t->holder && !t->left)
        t->left = bytes_of(t->holder);
    return t->left > 0;
}

/* Those who may go on, by `after`, out of the list: up to the first that has bytes, which is the
 * holder now. Under the lock. */
static srv_exchange *admit(srv_daemon *d) {
    srv_turns *t = &d->turns;
    srv_exchange *out = NULL, **end = &out;
    while (t->first && !is_held(t)) {
        srv_exchange *x = t->first;
        if (is_backed_up(d) && attn_now_ns() - x->waits_ns < WAIT_MOST_NS)
            break;
        t->first = x->after;
        x->after = NULL;
        *end = x;
        end = &x->after;
        hold(t, x);
    }
    return out;
}

/* Under the lock. */
static srv_exchange *admit_all(srv_turns *t) {
    srv_exchange *all = t->first;
    t->first = NULL;
    hold(t, NULL);
    return all;
}

/* Without the lock. Who is resumed may be gone the moment after. */
static void resume(srv_exchange *list) {
    while (list) {
        srv_exchange *next = list->after;
        MHD_resume_connection(list->connection);
        list = next;
    }
}

/* At the end of the list; then again whoever may go on, for that may just have changed. */
static void wait_turn(srv_daemon *d, srv_exchange *x) {
    srv_turns *t = &d->turns;
    MHD_suspend_connection(x->connection);
    pthread_mutex_lock(&t->lock);
    x->after = NULL;
    x->waits_ns = attn_now_ns();
    *(t->first ? &t->last->after : &t->first) = x;
    t->last = x;
    srv_exchange *next = t->ended ? admit_all(t) : admit(d);
    pthread_mutex_unlock(&t->lock);
    resume(next);
}

void srv_turn_taken(srv_exchange *x, size_t size) {
    srv_daemon *d = x->daemon;
    srv_turns *t = &d->turns;
    srv_exchange *next = NULL;
    if (!takes_turns(x) || x->bytes_in >= x->head.length)
        return; /* complete: srv_turn_over follows once the request is in the queue */
    pthread_mutex_lock(&t->lock);
    if (t->holder == x)
        t->left -= size < t->left ? size : t->left;
    else if (!t->first && !is_held(t) && !is_backed_up(d))
        hold(t, x);
    const bool waits = t->holder != x && !t->ended;
    if (!waits)
        next = admit(d);
    pthread_mutex_unlock(&t->lock);
    if (waits)
        wait_turn(d, x);
    resume(next);
}

void srv_turn_over(srv_exchange *x) {
    srv_turns *t = &x->daemon->turns;
    srv_exchange *next = NULL;
    if (!takes_turns(x))
        return;
    pthread_mutex_lock(&t->lock);
    if (t->holder == x) {
        hold(t, NULL);
        next = admit(x->daemon);
    }
    pthread_mutex_unlock(&t->lock);
    resume(next);
}

bool srv_turn_next(srv_daemon *d) {
    pthread_mutex_lock(&d->turns.lock);
    srv_exchange *next = admit(d);
    bool waiting = d->turns.first != NULL;
    pthread_mutex_unlock(&d->turns.lock);
    resume(next);
    return waiting;
}

void srv_turns_end(srv_daemon *d) {
    pthread_mutex_lock(&d->turns.lock);
    srv_exchange *all = admit_all(&d->turns);
    d->turns.ended = true;
    pthread_mutex_unlock(&d->turns.lock);
    resume(all);
}
