/* Limits the connections of a listening daemon, in total (setting `connections`) and for each
 * client address (setting `connections_per_address`). If there are more, the connection that has
 * been idle longest is closed. A connection is idle between two requests and before the first one.
 * All functions run on the HTTP thread. */
#ifndef SRV_CONNECTIONS_H
#define SRV_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_daemon srv_daemon;
typedef struct srv_link srv_link;

typedef struct srv_connections {
    size_t most;            /* limit in total */
    size_t most_each;       /* limit for each address; 0: no limit */
    size_t open;            /* open connections, without those that are being closed */
    uint32_t *counts;       /* open connections of the addresses with link->client_id & mask == i */
    size_t mask;            /* number of `counts` - 1; the number is a power of two */
    srv_link *first, *last; /* idle connections, the one that has been idle longest first */
    int64_t told_ns;        /* when closed connections were last logged; 0: never */
} srv_connections;

/* The part of a srv_link that belongs to srv_connections. */
typedef struct srv_member {
    srv_link *next, *previous; /* neighbours in the list of idle connections */
    bool idle;                 /* the connection is in that list */
    bool counted;              /* the connection is counted in `open` */
    bool counted_each;         /* the connection is counted in `counts` */
} srv_member;

/* Returns false if memory ran out. */
bool srv_connections_open(srv_connections *c, size_t most, size_t most_each);
void srv_connections_close(srv_connections *c);

/* Adds a new connection, which is idle at first. If there are too many connections, closes an idle
 * one. */
void srv_connections_join(srv_daemon *d, srv_link *link);
/* Called when a request begins on the connection: it is not idle any more. */
void srv_connections_busy(srv_daemon *d, srv_link *link);
/* Called when the request of the connection has ended: it is idle again. */
void srv_connections_idle(srv_daemon *d, srv_link *link);
/* Removes a connection that was closed. */
void srv_connections_leave(srv_daemon *d, srv_link *link);

#endif
