/* The watcher is a thread that detects events that libmicrohttpd does not report: the client of a
 * suspended request has left, the deadline of a queued request has passed, or a header, body or
 * reply is transferred too slowly. */
#ifndef SRV_WATCH_H
#define SRV_WATCH_H

#include "http/exchange.h"

bool srv_watch_start(srv_daemon *daemon);
void srv_watch_stop(srv_daemon *daemon);

/* Cancels every request that is suspended or whose reply is a stream. Called when drain_ms is over.
 * Any thread may call this. */
void srv_watch_cancel_all(srv_daemon *daemon);

#endif
