/* Replies past libmicrohttpd (cut.h): a few hundred bytes, whose loss on a socket that is full does
 * no harm. */
#include "http/cut.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { HEAD_ROOM = 2048 };
/* How long a client that was refused in its body may be silent, and how long it may go on sending,
 * before the connection is reset. */
#define SILENT_NS 3000000000
#define LINGER_NS 30000000000

bool srv_link_claim(srv_link *link) {
    int reading = SRV_READING;
    return atomic_compare_exchange_strong(&link->stage, &reading, SRV_ANSWERING) ||
           reading == SRV_ANSWERING;
}

void srv_link_read(srv_link *link) {
    int answering = SRV_ANSWERING;
    atomic_compare_exchange_strong(&link->stage, &answering, SRV_READING);
}

bool srv_link_is_cut(const srv_link *link) {
    return atomic_load(&link->stage) == SRV_CUT;
}

static bool cut(srv_link *link) {
    int reading = SRV_READING;
    return atomic_compare_exchange_strong(&link->stage, &reading, SRV_CUT);
}

/* Bytes that text of `room` bytes has after snprintf returned n. */
static size_t fitted(int n, size_t room) {
    return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static size_t write_head(char head[HEAD_ROOM], const char *id, const srv_reply *reply) {
    int n = snprintf(head, HEAD_ROOM,
                     "HTTP/1.1 %d %s\r\nConnection: close\r\nCache-Control: no-store\r\n"
                     "Content-Type: %s\r\nContent-Length: %zu\r\n",
                     reply->status, MHD_get_reason_phrase_for((unsigned)reply->status), reply->type,
                     reply->size);
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

/* Under TLS only the library could write, so the connection is closed without a word. */
static void send_past(const srv_link *link, const char *id, const srv_reply *reply) {
    char head[HEAD_ROOM];
    if (link->plain) {
        struct iovec parts[2] = {{head, write_head(head, id, reply)},
                                 {(void *)(uintptr_t)reply->body, reply->size}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        sendmsg(link->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

void srv_cut_slow(srv_link *link) {
    srv_request req = {.path = ""};
    if (!cut(link))
        return;
    srv_problem(&req, SRV_TIMEOUT, NULL, "the request did not arrive in time");
    send_past(link, NULL, &req.reply);
    shutdown(link->fd, SHUT_RDWR); /* the HTTP thread sees it and closes */
}

void srv_cut_body(srv_exchange *x) {
    if (!cut(x->link))
        return;
    send_past(x->link, x->req.id, &x->req.reply);
    shutdown(x->link->fd, x->link->plain ? SHUT_WR : SHUT_RDWR);
    x->link->cut_ns = attn_now_ns();
    srv_cut_linger(x);
}

void srv_cut_linger(srv_exchange *x) {
    int64_t silent = attn_now_ns() + SILENT_NS, last = x->link->cut_ns + LINGER_NS;
    atomic_store_explicit(&x->link->deadline_ns, silent < last ? silent : last,
                          memory_order_relaxed);
}
