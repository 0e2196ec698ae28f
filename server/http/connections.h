/* Counts the connections of a listening daemon, in total and for each client address. When the
 * total exceeds the setting `connections`, or an address exceeds `connections_per_address`, the
 * connection that has been idle longest is closed. A connection is idle between requests and before
 * the first one. All functions run on the HTTP thread. */
#ifndef SRV_CONNECTIONS_H
#define SRV_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_daemon srv_daemon;
typedef struct srv_link srv_link;

typedef struct srv_connections {
    size_t most, most_each; /* limits, in total and for each address (0: none) */
    size_t open;            /* open connections, without those that are being closed */
    uint32_t *counts;       /* connections by address; counts[link->client_id & mask] */
    size_t mask;
    srv_link *first, *last; /* idle connections, the one that has been idle longest first */
    int64_t told_ns;        /* time of the last log entry about a crowd, or 0 */
} srv_connections;

/* What srv_connections stores in a link. */
typedef struct srv_member {
    srv_link *next, *previous; /* neighbours in the idle list, if `idle` */
    bool idle, counted, counted_each;
} srv_member;

/* Returns false if memory ran out. */
bool srv_connections_open(srv_connections *c, size_t most, size_t most_each);
void srv_connections_close(srv_connections *c);

/* Adds a new connection as an idle one, and closes another one if there are too many. */
void srv_connections_join(srv_daemon *d, srv_link *link);
/* Marks the connection as busy, because a request has begun on it. */
void srv_connections_busy(srv_daemon *d, srv_link *link);
/* Marks the connection as idle, because its request has ended. */
void srv_connections_idle(srv_daemon *d, srv_link *link);
/* Removes a connection that is closed. */
void srv_connections_leave(srv_daemon *d, srv_link *link);

#endif
