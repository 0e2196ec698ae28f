/* Each listening daemon has one watcher thread. The thread checks all links in rounds: every 50 ms
 * while requests are suspended or bodies wait, else every 250 ms.
 *
 * Everything that the watcher reaches while it has the daemon's lock is valid, because a link is
 * removed from the daemon's list under the lock before its socket is closed, and a suspended
 * exchange is removed from its link under the lock before it is resumed.
 *
 * The HTTP thread needs the same lock for each new connection. Checking a socket takes a
 * microsecond, so the watcher releases the lock after every few sockets. */
#include "http/watch.h"

#include <linux/sockios.h>
#include <linux/tcp.h> /* glibc's tcp_info ends before tcpi_bytes_received */
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include "request/stream.h"

enum {
    BUSY_NS = 50000000,   /* time until the next round if requests are suspended or bodies wait */
    QUIET_NS = 250000000, /* time until the next round otherwise */
    LOOKS_AT_ONCE = 32,   /* sockets that are checked before the lock is released */
    PAUSE_NS = 20000,     /* time without the lock, so that a thread that waits for it gets it */
};

static bool client_left(const srv_link *link, bool half_close_is_gone) {
    struct pollfd fd = {.fd = link->fd, .events = half_close_is_gone ? POLLRDHUP : 0};
    return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Sets the cancel flag of x. If x still waits in the queue, removes x from the queue and adds it to
 * the list `taken`. Returns this list, linked by `next`; the caller must answer the requests in
 * it. */
static srv_task *cancel(srv_exchange *x, srv_task *taken) {
    atomic_store(&x->req.cancel, 1);
    if (!srv_queue_take(x->req.app->queue, &x->task))
        return taken;
    x->task.next = taken;
    return &x->task;
}

static void answer_tasks(srv_task *taken, srv_code code) {
    for (srv_task *next; taken; taken = next) {
        next = taken->next;
        srv_exchange_give_up((srv_exchange *)taken, code);
    }
}

/* Returns the kernel's data about a TCP connection, such as the numbers of bytes received and
 * acknowledged. Returns zeros for other connections, or if the kernel does not answer. */
static struct tcp_info tcp_info_of(const srv_link *link) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (!link->tcp || getsockopt(link->fd, IPPROTO_TCP, TCP_INFO, &info, &size))
        info = (struct tcp_info){0};
    return info;
}

/* Returns whether a header has begun to arrive and is still incomplete after `limit_ns`. There is
 * no exchange yet. So the bytes that the socket has received since the last request show that a
 * header is arriving. */
static bool header_is_slow(srv_link *link, int64_t now, int64_t limit_ns) {
    unsigned edges = atomic_load_explicit(&link->edges, memory_order_relaxed);
    if (!(edges & 1))
        return false;
    uint64_t bytes = tcp_info_of(link).tcpi_bytes_received;
    if (edges != link->seen_edges) {
        link->seen_edges = edges;
        link->seen_bytes = edges == 1 ? 0 : bytes; /* edges is 1 on a new connection */
        link->header_since_ns = 0;
    }
    if (bytes > link->seen_bytes && !link->header_since_ns)
        link->header_since_ns = now;
    return link->header_since_ns && now - link->header_since_ns > limit_ns;
}

/* The reason why a connection waits. */
typedef enum holdup {
    CLIENT, /* the client must send or read the next bytes */
    SERVER, /* the HTTP thread must read or send the next bytes */
    /* The client has closed the connection, so nobody sends or reads. libmicrohttpd 0.9.75 does not
     * notice a close that follows directly after a part of a request: it reads the bytes and waits
     * for another event of epoll, but the close came with the same event. */
    LEFT,
} holdup;

static holdup side_awaited(const srv_link *link) {
    char byte;
    int unsent = 0;
    if (atomic_load(&link->stage) != SRV_LINK_READING)
        return ioctl(link->fd, SIOCOUTQ, &unsent) || unsent ? CLIENT : SERVER;
    ssize_t unread = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return unread > 0 ? SERVER : unread == 0 ? LEFT : CLIENT;
}

/* Extends the client's deadline for the bytes of the reply that it has acknowledged since the last
 * round. */
static void credit_reply(srv_link *link, int64_t now) {
    unsigned edges = atomic_load_explicit(&link->edges, memory_order_relaxed);
    if (!link->tcp || atomic_load(&link->stage) != SRV_LINK_ANSWERING)
        return;
    uint64_t bytes = tcp_info_of(link).tcpi_bytes_acked;
    if (edges == link->taken_edges)
        srv_link_credit(link, (double)(bytes - link->taken_bytes), now);
    link->taken_edges = edges;
    link->taken_bytes = bytes;
}

/* Cuts the link of a request that has not arrived in time, with the status 408. The caller has the
 * lock. */
static void answer_slow(srv_link *link, int64_t now) {
    srv_request req = {.path = ""};
    srv_problem(&req, SRV_TIMEOUT, NULL, "the request did not arrive in time");
    if (srv_link_cut(link, NULL, &req.reply, SHUT_RDWR))
        srv_link_allow(link, now); /* so that the next round shuts the socket down again */
}

/* If the reply is a stream and its client has left, wakes the stream, so that it ends. A stream
 * that waits for bytes does not notice that its client has left. */
static void wake_if_left(const srv_daemon *d, const srv_link *link) {
    srv_exchange *x = link->streaming;
    if (!x || atomic_load(&x->gone) || !client_left(link, d->app->config->half_close_is_gone))
        return;
    atomic_store(&x->gone, 1);
    srv_stream_wake(x->req.reply.stream);
}

/* Checks a connection that is not suspended, and closes it if its client has left or is too slow.
 * While the connection waits for the HTTP thread, it is not closed. */
static void look_at_socket(srv_daemon *d, srv_link *link, int64_t now) {
    int64_t header_ns = d->app->config->header_timeout_ms * 1000000;
    link->look_ns = now + (header_ns < 4000000000 ? header_ns / 4 : 1000000000);
    wake_if_left(d, link);
    if (srv_link_is_cut(link)) {
        /* Shut the socket down in each check, because libmicrohttpd may not notice a shutdown, as
         * it may not notice a close (see LEFT). */
        if (srv_link_is_late(link, now))
            shutdown(link->fd, SHUT_RDWR);
        return;
    }
    credit_reply(link, now);
    holdup who = side_awaited(link);
    if (who == SERVER ||
        (who == CLIENT && !srv_link_is_late(link, now) && !header_is_slow(link, now, header_ns)))
        return;
    srv_link_allow(link, 0);
    link->header_since_ns = 0;
    if (who == CLIENT) {
        srv_meter_add(d->app->meters, SRV_CLOSED_SLOW, 1);
        answer_slow(link, now);
    }
    shutdown(link->fd, SHUT_RDWR); /* the HTTP thread then reads the end and closes the socket */
}

/* Cancels a suspended request if its client has left. If the request still waited in the queue, it
 * is added to the list `gone`. Returns this list. */
static srv_task *look_at_suspended(srv_daemon *d, srv_exchange *x, srv_task *gone) {
    if (atomic_load(&x->gone) || !client_left(x->link, d->app->config->half_close_is_gone))
        return gone;
    atomic_store(&x->gone, 1);
    return cancel(x, gone);
}

/* Checks all links once. Adds cancelled requests to *gone. Returns whether any request is
 * suspended. */
static bool look_at_links(srv_daemon *d, srv_task **gone) {
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    int64_t now = attn_now_ns();
    int asked = 0;
    bool busy = false;
    pthread_mutex_lock(&d->lock);
    d->next_look = d->links;
    while (d->next_look) {
        srv_link *link = d->next_look;
        d->next_look = link->next;
        busy |= link->suspended != NULL;
        if (link->suspended)
            *gone = look_at_suspended(d, link->suspended, *gone);
        else if (now >= link->look_ns)
            look_at_socket(d, link, now);
        else
            continue;
        if (++asked % LOOKS_AT_ONCE == 0) {
            pthread_mutex_unlock(&d->lock);
            nanosleep(&pause, NULL);
            pthread_mutex_lock(&d->lock);
        }
    }
    pthread_mutex_unlock(&d->lock);
    return busy;
}

/* Answers the requests in the queue whose deadline has passed or can no longer be met. */
static void answer_late(srv_daemon *d) {
    int64_t now = attn_now_ns();
    for (srv_task *task = srv_queue_take_late(d->app->queue, now), *next; task; task = next) {
        next = task->next;
        srv_exchange_give_up((srv_exchange *)task,
                             now > task->deadline_ns ? SRV_DEADLINE : SRV_QUEUE_FULL);
    }
}

/* Runs a round of the watcher. Returns the time until the next round. */
static int64_t watch(void *of) {
    srv_daemon *d = of;
    srv_task *gone = NULL;
    bool busy = look_at_links(d, &gone);
    busy |= srv_body_order_next(&d->order, d->app);
    answer_tasks(gone, SRV_TIMEOUT);
    if (!d->is_ops)
        answer_late(d);
    return busy ? BUSY_NS : QUIET_NS;
}

bool srv_watch_start(srv_daemon *d) {
    return srv_ticker_start(&d->watcher, watch, d, QUIET_NS);
}

void srv_watch_stop(srv_daemon *d) {
    srv_ticker_stop(&d->watcher);
}

void srv_watch_cancel_all(srv_daemon *d) {
    srv_task *taken = NULL;
    pthread_mutex_lock(&d->lock);
    for (srv_link *link = d->links; link; link = link->next)
        if (link->suspended)
            taken = cancel(link->suspended, taken);
        else if (link->streaming) /* the handler of the stream may still run */
            atomic_store(&link->streaming->req.cancel, 1);
    pthread_mutex_unlock(&d->lock);
    answer_tasks(taken, SRV_DRAINING);
}
