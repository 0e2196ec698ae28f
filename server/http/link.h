/* A connection: who is at the other end, who may write to it now, and until when its client has
 * time.
 *
 * libmicrohttpd 0.9.75 gives no way to answer a request that does not arrive, or a body that is
 * refused when part of it is here. Such a link is cut: the reply is written to the socket past the
 * library, and the socket is shut down. A link's stage says who may write: the HTTP thread claims
 * the link before it answers, whoever cuts it sets the stage before that, and the first one wins.
 */
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
    /* For the watcher alone, of a header that has begun to come in: */
    unsigned seen_edges;
    uint64_t seen_bytes;
    int64_t header_since_ns, look_ns;
    /* and for a reply that goes out: */
    unsigned taken_edges;
    uint64_t taken_bytes;
    char client[SRV_CLIENT_TEXT]; /* the other end's address */
    srv_owner client_id;
    srv_member member;
};

/* The link of a new connection, in the daemon's list; NULL: out of memory. On the HTTP thread, as
 * the next two. */
srv_link *srv_link_open(srv_daemon *d, struct MHD_Connection *connection);
void srv_link_close(srv_link *link);
srv_link *srv_link_of(struct MHD_Connection *connection);

/* Set the deadline of the client, by CLOCK_MONOTONIC; 0: none. Any thread. */
void srv_link_allow(srv_link *link, int64_t by_ns);
/* Bytes that the client has sent or taken buy time at the slowest rate that is served, but never
 * more than the grace of header_timeout_ms from now: much at first does not pay for silence later.
 * Without a deadline nothing happens. Any thread. */
void srv_link_credit(srv_link *link, double bytes, int64_t now_ns);
bool srv_link_is_late(const srv_link *link, int64_t now_ns);

/* For the HTTP thread, before it answers: true when nobody has cut the link. */
bool srv_link_claim(srv_link *link);
/* For the HTTP thread, when the reply has gone out: the next request may come. */
void srv_link_release(srv_link *link);
/* Cut the link: send the reply past the library, without a word under TLS, where only the library
 * can write, and shut the socket down, `how` as shutdown() takes it. false: it is cut already, or
 * is being answered. The HTTP thread, or any that holds the daemon's lock. */
bool srv_link_cut(srv_link *link, const char *id, const srv_reply *reply, int how);
bool srv_link_is_cut(const srv_link *link);

#endif
