/* The connections of a listening daemon. A link (srv_link) is a client's connection: its socket,
 * peer address, deadline and stage.
 *
 * The stage decides who may write to the socket. Normally that is libmicrohttpd. But libmicrohttpd
 * cannot answer a request that does not arrive completely, or whose body is refused after a part of
 * it has arrived. Such a link is cut: this service writes the reply directly to the socket and
 * shuts the socket down. Two threads may want to write at the same time. The HTTP thread sets the
 * stage to ANSWERING before it answers (it "claims" the link). A thread that cuts the link sets the
 * stage to CUT. The thread that sets the stage first may write.
 *
 * The number of connections is limited, in total (setting `connections`) and for each client
 * address (setting `connections_per_address`). If there are more, the connection that has been idle
 * longest is closed. A connection is idle between two requests and before the first one. */
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
    size_t most;            /* limit in total */
    size_t most_each;       /* limit for each address; 0: no limit */
    size_t open;            /* open connections, without those that are being closed */
    uint32_t *counts;       /* counts[i]: open connections of clients whose client_id & mask is i */
    size_t mask;            /* number of `counts` - 1; the number is a power of two */
    srv_link *first, *last; /* idle connections, the one that has been idle longest first */
    int64_t told_ns;        /* when closed connections were last logged; 0: never */
} srv_connections;

enum {
    SRV_LINK_READING,   /* no request, or one that is still arriving */
    SRV_LINK_ANSWERING, /* the request is complete or refused; libmicrohttpd sends the reply */
    SRV_LINK_CUT,       /* the reply was written directly, and the socket was shut down */
};

struct srv_link {
    srv_daemon *daemon;
    srv_link *next, *previous;   /* neighbours in srv_daemon.links, under the daemon's lock */
    int fd;                      /* the socket */
    bool tcp;                    /* false: a unix socket */
    bool plain;                  /* false: TLS */
    bool proxied;                /* the other end is a trusted proxy */
    _Atomic int64_t deadline_ns; /* the watcher closes the socket after this time; 0: never */
    atomic_int stage;            /* SRV_LINK_READING, … */
    /* 1, plus the number of requests that have begun, plus the number of requests that have ended.
     * So the number is even while a request is under way. */
    atomic_uint edges;
    /* The daemon's lock protects these two members: */
    srv_exchange *suspended; /* the request whose connection is suspended; NULL: none */
    srv_exchange *streaming; /* the request whose reply is a stream; NULL: none */
    /* Only the HTTP thread uses this member: */
    srv_exchange *exchange; /* the present request; NULL: none */
    /* Only the watcher uses these members, to detect headers that arrive too slowly: */
    unsigned seen_edges;     /* `edges` when the watcher last noticed a change */
    uint64_t seen_bytes;     /* bytes that the socket had received at that time */
    int64_t header_since_ns; /* when the watcher noticed an arriving header; 0: none arrives */
    int64_t look_ns;         /* when the watcher checks the socket next */
    /* Only the watcher uses these members, to measure how fast the client reads a reply: */
    unsigned taken_edges; /* `edges` in the last round */
    uint64_t taken_bytes; /* bytes that the client had acknowledged in the last round */
    /* Set when the link is opened: */
    char client[SRV_CLIENT_TEXT]; /* address of the peer, which may be a proxy */
    srv_owner client_id;          /* srv_client_number of this address */
    /* Only the HTTP thread uses these members, for srv_connections: */
    srv_link *idle_next, *idle_previous; /* neighbours in the list of idle connections */
    bool idle;                           /* the connection is in that list */
    bool counted;                        /* the connection is counted in `open` */
    bool counted_each;                   /* the connection is counted in `counts` */
};

/* Prepares the counts. Returns false if memory ran out. */
bool srv_connections_open(srv_connections *c, size_t most, size_t most_each);
void srv_connections_close(srv_connections *c);

/* Makes the link of a new connection and adds it to the daemon's list. The connection is idle at
 * first. If there are too many connections, closes an idle one. NULL: out of memory. Runs on the
 * HTTP thread. */
srv_link *srv_link_open(srv_daemon *d, struct MHD_Connection *connection);
/* Removes and frees the link of a closed connection. Runs on the HTTP thread. */
void srv_link_close(srv_link *link);
/* Returns the link of a connection; NULL: srv_link_open had no memory. Runs on the HTTP thread. */
srv_link *srv_link_of(struct MHD_Connection *connection);

/* Called when a request begins on the connection: the connection is no longer idle. Runs on the
 * HTTP thread. */
void srv_link_busy(srv_link *link);
/* Called when the request of the connection has ended: the connection is idle again. Runs on the
 * HTTP thread. */
void srv_link_idle(srv_link *link);

/* Sets the deadline of the client, on the clock of attn_now_ns; 0: no deadline. Any thread may call
 * this. */
void srv_link_allow(srv_link *link, int64_t by_ns);
/* Extends the deadline because `bytes` bytes were transferred. It moves by the time that these
 * bytes take at the slowest allowed rate (min_rate_bytes), but to at most header_timeout_ms from
 * now, so that a fast start does not allow a long silence later. Does nothing if there is no
 * deadline. Any thread may call this. */
void srv_link_credit(srv_link *link, double bytes, int64_t now_ns);
bool srv_link_is_late(const srv_link *link, int64_t now_ns);

/* Sets the stage to ANSWERING, on the HTTP thread before it answers. Afterwards the link cannot be
 * cut. Returns false if a thread has cut the link. */
bool srv_link_claim(srv_link *link);
/* Sets the stage back to READING, on the HTTP thread after the reply was sent. */
void srv_link_release(srv_link *link);
/* Cuts the link: writes the reply directly to the socket, with the request id `id` (NULL: none),
 * and calls shutdown() with `how`. With TLS only libmicrohttpd can write, so no reply is written
 * and both directions are shut down. Returns false if the stage was not READING. The caller is the
 * HTTP thread, or has the daemon's lock. */
bool srv_link_cut(srv_link *link, const char *id, const srv_reply *reply, int how);
bool srv_link_is_cut(const srv_link *link);

#endif
