/* To close an idle connection, this file shuts down its socket; libmicrohttpd then reads the end of
 * the input and closes the socket a little later. From the shutdown on the connection does not
 * count towards the limits, so that each new connection closes at most one other. */
#include "http/connections.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "http/exchange.h"

/* --- counts and idle connections --- */

/* Two addresses may share a counter. To make this rare, there are at least LEAST_COUNTS counters,
 * and COUNTS_EACH for each possible connection. */
enum { LEAST_COUNTS = 1024, COUNTS_EACH = 4 };
#define TELL_NS 60000000000 /* shortest time between two log entries about closed connections */

bool srv_connections_open(srv_connections *c, size_t most, size_t most_each) {
    size_t counts = LEAST_COUNTS;
    while (counts < COUNTS_EACH * most)
        counts *= 2;
    *c = (srv_connections){.most = most,
                           .most_each = most_each,
                           .counts = calloc(counts, sizeof *c->counts),
                           .mask = counts - 1};
    return c->counts;
}

void srv_connections_close(srv_connections *c) {
    free(c->counts);
}

static uint32_t *count_of(srv_connections *c, const srv_link *link) {
    return &c->counts[link->client_id & c->mask];
}

static void append(srv_connections *c, srv_link *link) {
    link->idle_previous = c->last;
    link->idle_next = NULL;
    *(c->last ? &c->last->idle_next : &c->first) = link;
    c->last = link;
    link->idle = true;
}

static void take_out(srv_connections *c, srv_link *link) {
    if (!link->idle)
        return;
    *(link->idle_previous ? &link->idle_previous->idle_next : &c->first) = link->idle_next;
    *(link->idle_next ? &link->idle_next->idle_previous : &c->last) = link->idle_previous;
    link->idle = false;
}

static void uncount(srv_connections *c, srv_link *link) {
    c->open -= link->counted;
    *count_of(c, link) -= link->counted_each;
    link->counted = link->counted_each = false;
}

static void tell(srv_daemon *d, const srv_link *link, bool each) {
    srv_connections *c = &d->connections;
    const int64_t now = attn_now_ns();
    if (c->told_ns && now - c->told_ns < TELL_NS)
        return;
    c->told_ns = now;
    srv_log_event(d->app->log, SRV_LOG_WARN,
                  each ? "%s has more connections than connections_per_address, %zu: those that "
                         "have been idle for longest are closed"
                       : "%s came when all connections were taken, %zu (connections): those that "
                         "have been idle for longest are closed",
                  link->client, each ? c->most_each : c->most);
}

/* Closes the connection that has been idle longest. If `each` is true, only connections from the
 * address of `newcomer` are considered. Returns false if none of them is idle. */
static bool make_room(srv_daemon *d, const srv_link *newcomer, bool each) {
    srv_connections *c = &d->connections;
    srv_link *link = c->first;
    while (link && each && count_of(c, link) != count_of(c, newcomer))
        link = link->idle_next;
    if (!link)
        return false;
    take_out(c, link);
    uncount(c, link);
    shutdown(link->fd, SHUT_RDWR);
    srv_meter_add(d->app->meters, SRV_CLOSED_CROWDED, 1);
    return true;
}

/* Counts a new connection, which is idle at first, and closes another one if there are too many. */
static void join(srv_daemon *d, srv_link *link) {
    srv_connections *c = &d->connections;
    c->open++;
    link->counted = true;
    link->counted_each = c->most_each && link->tcp && !link->proxied;
    *count_of(c, link) += link->counted_each;
    append(c, link);
    if (link->counted_each && *count_of(c, link) > c->most_each) {
        tell(d, link, true);
        make_room(d, link, true);
    } else if (c->open > c->most) {
        tell(d, link, false);
        if (c->first != link)
            make_room(d, link, false);
    }
}

void srv_link_busy(srv_link *link) {
    take_out(&link->daemon->connections, link);
}

void srv_link_idle(srv_link *link) {
    srv_daemon *d = link->daemon;
    if (!link->counted)
        return; /* make_room has shut its socket down */
    append(&d->connections, link);
    if (d->connections.open > d->connections.most)
        make_room(d, link, false);
}

/* --- links --- */

/* Largest number of bytes of a reply that the kernel buffers. Without this limit, the kernel
 * buffers megabytes for each client that does not read, and a thousand such clients use up the
 * kernel's memory for sockets. Also, a slow client would look fast, because libmicrohttpd counts
 * buffered bytes as sent. */
#define UNSENT_MOST (128 * 1024)

enum { HEAD_ROOM = 2048 };

static void bound_unsent(int fd) {
    int most = UNSENT_MOST;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
}

srv_link *srv_link_open(srv_daemon *d, struct MHD_Connection *connection) {
    srv_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    link->fd = info->connect_fd;
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *client = info ? info->client_addr : NULL;
    srv_client_address(client, link->client);
    link->client_id = srv_client_number(link->client);
    const srv_texts *proxies = &d->app->config->trusted_proxies;
    link->proxied = proxies->count && srv_client_is_proxy(proxies, link->client);
    link->tcp = client && (client->sa_family == AF_INET || client->sa_family == AF_INET6);
    if (link->tcp)
        bound_unsent(link->fd);
    link->plain = !MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    link->daemon = d;
    atomic_store(&link->edges, 1);
    atomic_store(&link->stage, SRV_LINK_READING);
    pthread_mutex_lock(&d->lock);
    link->next = d->links;
    if (d->links)
        d->links->previous = link;
    d->links = link;
    pthread_mutex_unlock(&d->lock);
    srv_meter_add(d->app->meters, SRV_CONNECTIONS, 1);
    join(d, link);
    return link;
}

void srv_link_close(srv_link *link) {
    srv_daemon *d = link->daemon;
    pthread_mutex_lock(&d->lock);
    *(link->previous ? &link->previous->next : &d->links) = link->next;
    if (link->next)
        link->next->previous = link->previous;
    if (d->next_look == link)
        d->next_look = link->next;
    pthread_mutex_unlock(&d->lock);
    srv_meter_add(d->app->meters, SRV_CONNECTIONS, -1);
    take_out(&d->connections, link);
    uncount(&d->connections, link);
    free(link);
}

srv_link *srv_link_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

void srv_link_allow(srv_link *link, int64_t by_ns) {
    atomic_store_explicit(&link->deadline_ns, by_ns, memory_order_relaxed);
}

void srv_link_credit(srv_link *link, double bytes, int64_t now_ns) {
    const srv_config *config = link->daemon->app->config;
    int64_t by = atomic_load_explicit(&link->deadline_ns, memory_order_relaxed);
    const int64_t credited = by + (int64_t)(1e9 * bytes / (double)config->min_rate_bytes);
    const int64_t most = now_ns + config->header_timeout_ms * 1000000;
    if (by) /* if another thread changes the deadline at this moment, its value stays */
        atomic_compare_exchange_strong(&link->deadline_ns, &by, credited < most ? credited : most);
}

bool srv_link_is_late(const srv_link *link, int64_t now_ns) {
    const int64_t by = atomic_load_explicit(&link->deadline_ns, memory_order_relaxed);
    return by && now_ns > by;
}

bool srv_link_claim(srv_link *link) {
    int reading = SRV_LINK_READING;
    return atomic_compare_exchange_strong(&link->stage, &reading, SRV_LINK_ANSWERING) ||
           reading == SRV_LINK_ANSWERING;
}

void srv_link_release(srv_link *link) {
    int answering = SRV_LINK_ANSWERING;
    atomic_compare_exchange_strong(&link->stage, &answering, SRV_LINK_READING);
}

bool srv_link_is_cut(const srv_link *link) {
    return atomic_load(&link->stage) == SRV_LINK_CUT;
}

/* Returns the number of characters in a buffer of `room` bytes after snprintf has returned n. */
static size_t fitted(int n, size_t room) {
    return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

/* Writes the status line and the header lines of a reply that is written directly to the socket. */
static size_t write_head(char head[HEAD_ROOM], const char *id, const srv_reply *reply) {
    char date[40] = "";
    const time_t now = time(NULL);
    struct tm parts;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &parts));
    int n = snprintf(head, HEAD_ROOM,
                     "HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\n"
                     "Cache-Control: no-store\r\nContent-Type: %s\r\nContent-Length: %zu\r\n",
                     reply->status, MHD_get_reason_phrase_for((unsigned)reply->status), date,
                     reply->type, reply->size);
    size_t used = fitted(n, HEAD_ROOM);
    for (size_t i = 0; i < reply->header_count; i++)
        used += fitted(snprintf(head + used, HEAD_ROOM - used, "%s: %s\r\n", reply->headers[i].name,
                                reply->headers[i].value),
                       HEAD_ROOM - used);
    if (id)
        used += fitted(snprintf(head + used, HEAD_ROOM - used, "X-Request-Id: %s\r\n", id),
                       HEAD_ROOM - used);
    return used + fitted(snprintf(head + used, HEAD_ROOM - used, "\r\n"), HEAD_ROOM - used);
}

bool srv_link_cut(srv_link *link, const char *id, const srv_reply *reply, int how) {
    int reading = SRV_LINK_READING;
    if (!atomic_compare_exchange_strong(&link->stage, &reading, SRV_LINK_CUT))
        return false;
    if (link->plain) {
        char head[HEAD_ROOM];
        struct iovec parts[2] = {{head, write_head(head, id, reply)},
                                 {(void *)(uintptr_t)reply->body, reply->size}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        /* The reply has a few hundred bytes. If the socket's buffer has no room, the reply is lost,
         * because no thread may wait for the client here. */
        sendmsg(link->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    shutdown(link->fd, link->plain ? how : SHUT_RDWR);
    return true;
}
