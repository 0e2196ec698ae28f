/* The watcher is a thread that finds what libmicrohttpd does not report: suspended requests whose
 * client has left, queued requests whose deadline has passed, and connections on which a header,
 * body or reply is transferred too slowly. */
#ifndef SRV_WATCH_H
#define SRV_WATCH_H

#include "http/exchange.h"

bool srv_watch_start(srv_daemon *daemon);
void srv_watch_stop(srv_daemon *daemon);

/* Cancels every request that is suspended or whose reply is a stream, when drain_ms is over. Any
 * thread may call this. */
void srv_watch_cancel_all(srv_daemon *daemon);

#endif
