/* A listening HTTP daemon: a daemon of libmicrohttpd with one polling thread (the HTTP thread), and
 * a watcher thread (watch.h). */
#ifndef SRV_DAEMON_H
#define SRV_DAEMON_H

#include "http/address.h"
#include "http/router.h"
#include "request/shared.h"

/* Returns NULL if the loaded libmicrohttpd has the version SRV_DAEMON_VERSION, on whose buffer
 * layout server/http relies. Otherwise returns the loaded version. */
const char *srv_daemon_unknown_version(void);
#define SRV_DAEMON_VERSION "0.9.75"

/* Serves the routes of `router` on `address`, and sets `address` to the bound address. Returns 0,
 * an errno value of the listening socket, or ENOMEM if threads or memory are missing. */
int srv_daemon_open(srv_daemon **out, srv_app *app, const srv_router *router, srv_address *address,
                    bool is_ops);
const char *srv_daemon_url(const srv_daemon *daemon);

/* A shutdown calls the following four functions in this order. */

/* Stops accepting connections. */
void srv_daemon_quiesce(srv_daemon *daemon);
/* Waits until no request was under way for quiet_ms, but at most limit_ms. */
void srv_daemon_settle(srv_daemon *daemon, int64_t quiet_ms, int64_t limit_ms);
/* Cancels the requests that wait or run. */
void srv_daemon_cancel(srv_daemon *daemon);
/* Frees the daemon. No request may be suspended; NULL is fine. */
void srv_daemon_close(srv_daemon *daemon);

#endif
