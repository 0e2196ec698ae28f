/* The watcher finds conditions that libmicrohttpd does not report: suspended requests whose client
 * has left, queued requests whose time is over, and connections on which header, body or reply move
 * too slowly. */
#ifndef SRV_WATCH_H
#define SRV_WATCH_H

#include "http/exchange.h"

bool srv_watch_start(srv_daemon *daemon);
void srv_watch_stop(srv_daemon *daemon);

/* Cancels every suspended request (the drain time is over). Any thread. */
void srv_watch_cancel_all(srv_daemon *daemon);

#endif
