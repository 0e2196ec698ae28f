/* The watcher finds what libmicrohttpd does not report: suspended requests whose client has left,
 * queued requests whose deadline has passed, and connections whose header, body or reply is
 * transferred too slowly. */
#ifndef SRV_WATCH_H
#define SRV_WATCH_H

#include "http/exchange.h"

bool srv_watch_start(srv_daemon *daemon);
void srv_watch_stop(srv_daemon *daemon);

/* Cancels every suspended or streaming request, when the time for the shutdown is over. Any
 * thread. */
void srv_watch_cancel_all(srv_daemon *daemon);

#endif
