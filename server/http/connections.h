/* The connections of a daemon: how many each address has open, and which connection gives way where
 * an address has more than connections_per_address, or where all are taken: the one that has been
 * idle for longest, between requests or before the first one. All on the HTTP thread. */
#ifndef SRV_CONNECTIONS_H
#define SRV_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_daemon srv_daemon;
typedef struct srv_link srv_link;

typedef struct srv_connections {
    size_t most, most_each; /* in all; of an address */
    size_t open;            /* those that give way are not counted any more */
    uint32_t *counts;       /* by the address's number; several addresses may share one */
    size_t mask;
    srv_link *first, *last; /* idle ones, the longest first */
    int64_t told_ns;        /* when the log was told last */
} srv_connections;

/* A link's part. */
typedef struct srv_member {
    srv_link *next, *previous; /* among the idle ones */
    bool idle, counted, counted_each;
} srv_member;

/* false: out of memory. */
bool srv_connections_open(srv_connections *c, size_t most, size_t most_each);
void srv_connections_close(srv_connections *c);

/* A connection has come, and is idle. */
void srv_connections_join(srv_daemon *d, srv_link *link);
void srv_connections_busy(srv_daemon *d, srv_link *link);  /* a request has begun */
void srv_connections_idle(srv_daemon *d, srv_link *link);  /* and is over */
void srv_connections_leave(srv_daemon *d, srv_link *link); /* the connection is closed */

#endif
