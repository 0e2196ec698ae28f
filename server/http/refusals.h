/* What libmicrohttpd 0.9.75 refuses by itself, before or between our callbacks: a header or a line
 * before a chunk that is longer than the connection's buffer, a request line that is none, another
 * version of HTTP. It would answer with HTML pages, and for the long chunk line with 500. The
 * library queues its pages by its own public function, which refusals.c defines in its place, so
 * that they become problems with an id, a line in the log and a count in the metrics. */
#ifndef SRV_REFUSALS_H
#define SRV_REFUSALS_H

#include <microhttpd.h>
#include <stdbool.h>

/* The library's own function, which sends what the service answers. */
enum MHD_Result srv_queue_response(struct MHD_Connection *connection, unsigned status,
                                   struct MHD_Response *response);

/* Find it, before the first daemon starts. false: the library is linked in a way that hides it. */
bool srv_refusals_begin(void);

#endif
