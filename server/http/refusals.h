/* Requests that libmicrohttpd 0.9.75 refuses by itself, before or between the callbacks: a header
 * or chunk line that is longer than the connection's buffer, an invalid request line, or another
 * version of HTTP. It would answer with HTML pages, and the long chunk line with 500. The library
 * queues these pages by its own public function, which refusals.c replaces, so that they become
 * problems with an id, a line in the log and a count in the metrics. */
#ifndef SRV_REFUSALS_H
#define SRV_REFUSALS_H

#include <microhttpd.h>
#include <stdbool.h>

/* The original function of the library, which sends the answers of the service. */
enum MHD_Result srv_queue_response(struct MHD_Connection *connection, unsigned status,
                                   struct MHD_Response *response);

/* Finds this function, before the first daemon starts. false: the library is linked in a way that
 * hides it. */
bool srv_refusals_begin(void);

#endif
