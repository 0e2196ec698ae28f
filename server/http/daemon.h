/* A listening HTTP daemon: libmicrohttpd with one polling thread, and a watcher beside it. */
#ifndef SRV_DAEMON_H
#define SRV_DAEMON_H

#include "http/address.h"
#include "http/router.h"
#include "request/shared.h"

/* NULL when the loaded libmicrohttpd is the version whose buffers this room looks into, else the
 * version that was loaded. */
const char *srv_daemon_unknown_version(void);
#define SRV_DAEMON_VERSION "0.9.75"

/* Serves `router` on `address`, which becomes the bound one. Returns 0, an errno value of the
 * listening socket, or ENOMEM when threads or memory are missing. */
int srv_daemon_open(srv_daemon **out, srv_app *app, const srv_router *router, srv_address *address,
                    bool is_ops);
const char *srv_daemon_url(const srv_daemon *daemon);

/* Shutdown, in this order. */
void srv_daemon_quiesce(srv_daemon *daemon); /* no new connections */
/* Wait until no request was under way for quiet_ms, at most limit_ms. */
void srv_daemon_settle(srv_daemon *daemon, int64_t quiet_ms, int64_t limit_ms);
void srv_daemon_cancel(srv_daemon *daemon); /* cancel running requests */
void srv_daemon_close(srv_daemon *daemon);  /* no request may be suspended; NULL is fine */

#endif
