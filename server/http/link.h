/* A connection: its peer, the owner of its output, and the deadline of its client.
 *
 * libmicrohttpd 0.9.75 cannot answer a request that does not arrive completely, or a body that is
 * refused after a part was received. Such a link is cut: the reply is written directly to the
 * socket, and the socket is shut down. The stage of a link decides who may write: the HTTP thread
 * claims the link before it answers, a thread that cuts it sets the stage first, and the first of
 * them wins. */
#ifndef SRV_LINK_H
#define SRV_LINK_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "config/client.h"
#include "config/owner.h"
#include "http/connections.h"
#include "request/request.h"

typedef struct srv_exchange srv_exchange;

enum {
    SRV_LINK_READING,   /* the next bytes are the client's */
    SRV_LINK_ANSWERING, /* the request is here */
    SRV_LINK_CUT,       /* given up, the socket is shut down */
};

struct srv_link {
    srv_daemon *daemon;
    srv_link *next, *previous; /* in the daemon's list, under its lock */
    int fd;
    bool tcp, plain;             /* plain: no TLS */
    bool proxied;                /* the other end is a trusted proxy */
    _Atomic int64_t deadline_ns; /* the watcher closes the socket after this; 0: never */
    atomic_int stage;            /* SRV_LINK_READING, … */
    atomic_uint
        edges; /* counts beginnings and ends of requests, from 1: even while one is under way */
    srv_exchange *suspended; /* under the daemon's lock, as `streaming` */
    srv_exchange *streaming;
    srv_exchange *exchange; /* the request under way, for the HTTP thread */
    /* Used only by the watcher, for an incoming header: */
    unsigned seen_edges;
    uint64_t seen_bytes;
    int64_t header_since_ns, look_ns;
    /* and for an outgoing reply: */
    unsigned taken_edges;
    uint64_t taken_bytes;
    char client[SRV_CLIENT_TEXT]; /* the other end's address */
    srv_owner client_id;
    srv_member member;
};

/* Makes the link of a new connection, in the daemon's list; NULL: out of memory. On the HTTP
 * thread, as the next two. */
srv_link *srv_link_open(srv_daemon *d, struct MHD_Connection *connection);
void srv_link_close(srv_link *link);
srv_link *srv_link_of(struct MHD_Connection *connection);

/* Sets the deadline of the client, by CLOCK_MONOTONIC; 0: none. Any thread. */
void srv_link_allow(srv_link *link, int64_t by_ns);
/* Extends the deadline by the time that the transferred bytes take at the slowest allowed rate, to
 * at most header_timeout_ms from now, so that a fast start does not allow later silence. Without a
 * deadline nothing happens. Any thread. */
void srv_link_credit(srv_link *link, double bytes, int64_t now_ns);
bool srv_link_is_late(const srv_link *link, int64_t now_ns);

/* Claims the link for the HTTP thread before it answers. true: no thread has cut the link. */
bool srv_link_claim(srv_link *link);
/* Releases the link on the HTTP thread after the reply was sent: the next request may arrive. */
void srv_link_release(srv_link *link);
/* Cuts the link: sends the reply directly to the socket (not under TLS, where only the library can
 * write), and shuts the socket down with `how` of shutdown(). false: it is cut already, or is being
 * answered. Called by the HTTP thread, or with the daemon's lock. */
bool srv_link_cut(srv_link *link, const char *id, const srv_reply *reply, int how);
bool srv_link_is_cut(const srv_link *link);

#endif
