/* Repairs for libmicrohttpd 0.9.75 to 0.9.77. The library of Debian 12 is of these versions.
 *
 * These versions end a header line at a bare line feed, hide what follows a NUL, an empty name or
 * the fold of a line, skip spaces, and call a long chunk line an error of the server. Another
 * server may understand such a request differently, so the service must refuse it. But the public
 * interface does not report these bytes. So before_1_0.c uses three properties of these versions
 * that their interface does not promise: texts are passed as pointers into the buffer of received
 * bytes, this buffer may be written to, and the library's own error pages go through its public
 * function MHD_queue_response.
 *
 * From version 1.0 on the library makes these checks itself. before_1_0.c is empty if it is
 * compiled with the headers of such a version, and does nothing if such a version is loaded. */
#ifndef SRV_BEFORE_1_0_H
#define SRV_BEFORE_1_0_H

#include <microhttpd.h>

#include "http/library.h"

#if MHD_VERSION < SRV_LIBRARY_STRICT

/* Prepares the answers to requests that libmicrohttpd refuses by itself: before_1_0.c defines a
 * function MHD_queue_response, which the dynamic linker uses for the calls inside libmicrohttpd. It
 * answers with a problem instead of a page in HTML. Called before each daemon starts. Returns false
 * if the library's own function was not found, because the library is linked statically. */
bool srv_old_begin(void);

/* Returns whether the head has bytes that libmicrohttpd does not report, or a line that ends in
 * something other than CR LF. `version` is the text that libmicrohttpd has passed; x->head has the
 * places of the target. Sets x->head.body_from. */
bool srv_old_hides(srv_exchange *x, const char *version);

/* Hides the header "Expect: 100-continue" of a request without a body from libmicrohttpd. Otherwise
 * libmicrohttpd would send "100 Continue" and would take the next request on the connection for the
 * body of this request. */
void srv_old_hide_expectation(srv_exchange *x);

/* Checks the line with the size of a chunk (RFC 9112, 7.1), which stands directly before the
 * chunk's data at `data` in libmicrohttpd's buffer. Returns false if this line, or the data of the
 * chunk before it, ends in something other than CR LF. `from` is the start of the part of the
 * buffer into which bodies are read; NULL: it is not known. If the line does not lie between `from`
 * and `data`, it cannot be checked, and the function returns true.
 *
 * The check cannot see all lines: a line that arrived without its data is overwritten before the
 * data arrives, and the last line of a body is never visible. Therefore the service also closes the
 * connection after a chunked body. */
bool srv_old_line_is_clean(const char *from, const char *data);

#else

static inline bool srv_old_begin(void) {
    return true;
}

static inline bool srv_old_hides(srv_exchange *x, const char *version) {
    (void)x, (void)version;
    return false;
}

static inline void srv_old_hide_expectation(srv_exchange *x) {
    (void)x;
}

static inline bool srv_old_line_is_clean(const char *from, const char *data) {
    (void)from, (void)data;
    return true;
}

#endif
#endif
