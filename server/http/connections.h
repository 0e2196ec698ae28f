/* The connections of a daemon: the number for each address, and the choice of the connection to
 * close when an address has more than connections_per_address, or when all are in use. This is the
 * connection that has been idle longest, between requests or before the first one. All functions
 * run on the HTTP thread. */
#ifndef SRV_CONNECTIONS_H
#define SRV_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_daemon srv_daemon;
typedef struct srv_link srv_link;

typedef struct srv_connections {
    size_t most, most_each; /* limits: in total; for each address */
    size_t open;            /* without connections that are being closed */
    uint32_t *counts;       /* indexed by the number of the address; addresses may share one */
    size_t mask;
    srv_link *first, *last; /* idle connections, longest first */
    int64_t told_ns;        /* time of the last log entry */
} srv_connections;

/* The members of a link. */
typedef struct srv_member {
    srv_link *next, *previous; /* it is in the idle list */
    bool idle, counted, counted_each;
} srv_member;

/* false: out of memory. */
bool srv_connections_open(srv_connections *c, size_t most, size_t most_each);
void srv_connections_close(srv_connections *c);

/* A new connection, which is idle. */
void srv_connections_join(srv_daemon *d, srv_link *link);
void srv_connections_busy(srv_daemon *d, srv_link *link);  /* a request has begun */
void srv_connections_idle(srv_daemon *d, srv_link *link);  /* a request has ended */
void srv_connections_leave(srv_daemon *d, srv_link *link); /* the connection is closed */

#endif
