/* Code that depends on the version of libmicrohttpd, except for the repairs in before_1_0.h.
 *
 * From version 1.0 on, libmicrohttpd checks the framing of requests itself, at a level of
 * strictness that the service chooses (CLIENT_LEVEL in daemon.c). head.c checks the rest with the
 * information that the public interface of the library gives. Earlier versions accept bare line
 * feeds, NULs and folded lines, and do not report them; before_1_0.c finds these. */
#ifndef SRV_LIBRARY_H
#define SRV_LIBRARY_H

#include <stdbool.h>

typedef struct srv_exchange srv_exchange;

/* The value of MHD_VERSION from which on libmicrohttpd checks the framing itself. */
#define SRV_LIBRARY_STRICT 0x01000000

/* Sets *version to the version of the libmicrohttpd that is loaded. Returns the reason why the
 * service cannot run with this version. NULL: it can. */
const char *srv_library_unfit(const char **version);
/* Returns whether the libmicrohttpd that is loaded checks the framing itself. The headers with
 * which the service was built may be those of another version. */
bool srv_library_is_strict(void);

/* Sets the problem for the status with which libmicrohttpd has refused the request by itself,
 * without calling the service. It refuses a header or chunk line that is longer than the
 * connection's buffer, an invalid request line, and an unknown version of HTTP. */
void srv_library_explain(srv_exchange *x, unsigned status);
/* If libmicrohttpd has answered the request with a page of its own, gives x the problem for the
 * status of that page, so that the refusal is logged and counted. Called at the end of a request to
 * which the service has sent no reply. */
void srv_library_note_refusal(srv_exchange *x);

#endif
