/* A listening HTTP daemon: one port of the service. It consists of a daemon of libmicrohttpd with
 * one polling thread (the HTTP thread), and of a watcher thread (watch.h). */
#ifndef SRV_DAEMON_H
#define SRV_DAEMON_H

#include "http/address.h"
#include "http/router.h"
#include "request/shared.h"

/* Starts serving the routes of `router` on `address`, and sets *address to the address that the
 * kernel has bound. `is_ops` says whether this is the operations port. Returns 0, an errno value of
 * the listening socket, or ENOMEM if memory or a thread cannot be had. */
int srv_daemon_open(srv_daemon **out, srv_app *app, const srv_router *router, srv_address *address,
                    bool is_ops);
const char *srv_daemon_url(const srv_daemon *daemon);

/* A shutdown calls the following four functions in this order. */

/* Stops accepting connections. */
void srv_daemon_quiesce(srv_daemon *daemon);
/* Waits until there has been no unfinished request for quiet_ms milliseconds, but not longer than
 * limit_ms milliseconds. */
void srv_daemon_settle(srv_daemon *daemon, int64_t quiet_ms, int64_t limit_ms);
/* Cancels the requests that wait or run. */
void srv_daemon_cancel(srv_daemon *daemon);
/* Frees the daemon. No request may be suspended; NULL is fine. */
void srv_daemon_close(srv_daemon *daemon);

#endif
