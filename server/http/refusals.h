/* Answers requests that libmicrohttpd 0.9.75 refuses by itself, without calling the service: those
 * with a header or chunk line that is longer than the connection's buffer, with an invalid request
 * line, or with an unknown version of HTTP. libmicrohttpd would answer them with an HTML page, and
 * a long chunk line with status 500.
 *
 * libmicrohttpd passes these pages to its own public function MHD_queue_response. refusals.c
 * defines a function of this name, which the dynamic linker uses instead. It answers with a
 * problem, which is logged and counted. */
#ifndef SRV_REFUSALS_H
#define SRV_REFUSALS_H

#include <microhttpd.h>
#include <stdbool.h>

typedef enum MHD_Result srv_queue_function(struct MHD_Connection *connection, unsigned status,
                                           struct MHD_Response *response);

/* Queues a reply of the service itself. This pointer points to libmicrohttpd's own
 * MHD_queue_response, not to the function that refusals.c defines in its place. */
extern srv_queue_function *srv_queue_response;

/* Finds libmicrohttpd's own MHD_queue_response. Called before each daemon starts. Returns false if
 * it was not found, because libmicrohttpd is linked statically. */
bool srv_refusals_begin(void);

#endif
