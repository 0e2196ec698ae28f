/* The connections of a listening daemon.
 *
 * A link is a connection with its peer address, the deadline of its client, and a stage.
 * libmicrohttpd 0.9.75 cannot answer a request that does not arrive completely, or whose body is
 * refused after a part of it was received. Such a link is cut: the reply is written directly to the
 * socket, and the socket is shut down. The stage decides who may write to the socket. The HTTP
 * thread sets it to ANSWERING before it answers, a thread that cuts the link sets it to CUT, and
 * whichever thread sets it first may write.
 *
 * Connections are counted in total and for each client address. When the total exceeds the setting
 * `connections`, or an address exceeds `connections_per_address`, the connection that has been idle
 * longest is closed. A connection is idle between requests and before the first one. */
#ifndef SRV_CONNECTIONS_H
#define SRV_CONNECTIONS_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "config/client.h"
#include "config/owner.h"
#include "request/request.h"

typedef struct srv_daemon srv_daemon;
typedef struct srv_exchange srv_exchange;
typedef struct srv_link srv_link;

/* The counts, and the list of idle connections. Only the HTTP thread uses them. */
typedef struct srv_connections {
    size_t most, most_each; /* limits, in total and for each address (0: none) */
    size_t open;            /* open connections, without those that are being closed */
    uint32_t *counts;       /* connections by address; counts[link->client_id & mask] */
    size_t mask;
    srv_link *first, *last; /* idle connections, the one that has been idle longest first */
    int64_t told_ns;        /* time of the last log entry about a crowd, or 0 */
} srv_connections;

enum {
    SRV_LINK_READING,   /* a request is awaited or arriving */
    SRV_LINK_ANSWERING, /* the request is complete or refused, its reply follows */
    SRV_LINK_CUT,       /* the reply was written directly and the socket shut down */
};

struct srv_link {
    srv_daemon *daemon;
    srv_link *next, *previous; /* in the list of srv_daemon, under its lock */
    int fd;
    bool tcp, plain;             /* tcp: no unix socket; plain: no TLS */
    bool proxied;                /* the other end is a trusted proxy */
    _Atomic int64_t deadline_ns; /* the watcher closes the socket after this; 0: never */
    atomic_int stage;            /* SRV_LINK_READING, … */
    atomic_uint
        edges; /* 1 plus the beginnings and ends of requests: even while a request is under way */
    srv_exchange *suspended; /* its connection is suspended, or NULL; under the daemon's lock */
    srv_exchange *streaming; /* its reply is a stream, or NULL; under the daemon's lock */
    srv_exchange *exchange;  /* the request under way, or NULL; for the HTTP thread */
    /* Only the watcher uses these members, to find slow headers: */
    unsigned seen_edges;
    uint64_t seen_bytes;
    int64_t header_since_ns, look_ns;
    /* Only the watcher uses these members, to follow the progress of a reply: */
    unsigned taken_edges;
    uint64_t taken_bytes;
    char client[SRV_CLIENT_TEXT]; /* address of the peer, which may be a proxy */
    srv_owner client_id;
    /* Only the HTTP thread uses these members, for srv_connections: */
    srv_link *idle_next, *idle_previous; /* neighbours in the list of idle connections, if `idle` */
    bool idle, counted, counted_each;
};

/* Prepares the counts. Returns false if memory ran out. */
bool srv_connections_open(srv_connections *c, size_t most, size_t most_each);
void srv_connections_close(srv_connections *c);

/* Makes the link of a new connection and adds it to the daemon's list as an idle one. Closes another
 * connection if there are too many. NULL: out of memory. Runs on the HTTP thread. */
srv_link *srv_link_open(srv_daemon *d, struct MHD_Connection *connection);
/* Removes and frees the link of a closed connection. Runs on the HTTP thread. */
void srv_link_close(srv_link *link);
/* Returns the link of a connection, or NULL. Runs on the HTTP thread. */
srv_link *srv_link_of(struct MHD_Connection *connection);

/* Marks the connection as busy, because a request has begun on it. Runs on the HTTP thread. */
void srv_link_busy(srv_link *link);
/* Marks the connection as idle, because its request has ended. Runs on the HTTP thread. */
void srv_link_idle(srv_link *link);

/* Sets the time (CLOCK_MONOTONIC) at which the client's deadline passes; 0: no deadline. Any
 * thread. */
void srv_link_allow(srv_link *link, int64_t by_ns);
/* Extends the deadline by the time that `bytes` transferred bytes take at the slowest allowed rate.
 * The deadline is at most header_timeout_ms from now, so that a fast start does not allow later
 * silence. Does nothing if there is no deadline. Any thread. */
void srv_link_credit(srv_link *link, double bytes, int64_t now_ns);
bool srv_link_is_late(const srv_link *link, int64_t now_ns);

/* Claims the link for the HTTP thread before it answers. Returns false if a thread has cut the
 * link. */
bool srv_link_claim(srv_link *link);
/* Releases the claim on the HTTP thread after the reply was sent, for the next request. */
void srv_link_release(srv_link *link);
/* Cuts the link: sends the reply directly to the socket and calls shutdown() with `how`. With TLS
 * only libmicrohttpd can write, so the reply is left out and both directions are shut down. Returns
 * false if the link was already cut or claimed. Called by the HTTP thread, or with the daemon's
 * lock. */
bool srv_link_cut(srv_link *link, const char *id, const srv_reply *reply, int how);
bool srv_link_is_cut(const srv_link *link);

#endif
