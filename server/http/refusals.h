/* Answers requests that libmicrohttpd 0.9.75 refuses by itself, without calling the service: a
 * header or chunk line that is longer than the connection's buffer, an invalid request line, or an
 * unknown version of HTTP. libmicrohttpd would answer with an HTML page, and with 500 for a long
 * chunk line. It queues these pages by its public function MHD_queue_response. refusals.c replaces
 * this function and answers with a problem instead, which is logged and counted. */
#ifndef SRV_REFUSALS_H
#define SRV_REFUSALS_H

#include <microhttpd.h>
#include <stdbool.h>

typedef enum MHD_Result srv_queue_function(struct MHD_Connection *connection, unsigned status,
                                           struct MHD_Response *response);

/* Queues a reply of the service itself. It points to libmicrohttpd's own MHD_queue_response, not to
 * the function that refusals.c defines in its place. */
extern srv_queue_function *srv_queue_response;

/* Looks up libmicrohttpd's MHD_queue_response. Called before each daemon starts. Returns false if it
 * was not found, because libmicrohttpd is linked statically. */
bool srv_refusals_begin(void);

#endif
