#include "http/link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "http/exchange.h"

/* Limits the bytes of a reply that the kernel buffers and has not yet sent. Without a limit the
 * kernel buffers megabytes for each client that does not read, and a thousand such clients use up
 * the kernel's memory for sockets. libmicrohttpd also takes buffered bytes for sent ones, which
 * would hide slow clients. */
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
    link->proxied = srv_client_is_proxy(&d->app->config->trusted_proxies, link->client);
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
    srv_connections_join(d, link);
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
    srv_connections_leave(d, link);
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
    if (by) /* unless another thread sets the deadline at this moment */
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

/* Returns how many characters snprintf has written into `room` bytes when it returned n. */
static size_t fitted(int n, size_t room) {
    return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

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
        /* The reply has a few hundred bytes. It is lost if the socket's buffer is full. */
        sendmsg(link->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    shutdown(link->fd, link->plain ? how : SHUT_RDWR);
    return true;
}
