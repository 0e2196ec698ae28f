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

/* Looks up the original MHD_queue_response; is called before the first daemon of libmicrohttpd
 * starts. false: it was not found, because of how the library is linked. */
bool srv_refusals_begin(void);

#endif
