/* Loads the certificate of the service, which libmicrohttpd uses for its TLS sessions. Also has the
 * TLS client of the health check. */
#ifndef SRV_TLS_H
#define SRV_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

struct MHD_OptionItem; /* microhttpd.h */

typedef struct srv_tls srv_tls;

srv_tls *srv_tls_new(void);      /* makes one without a certificate; NULL: out of memory */
void srv_tls_free(srv_tls *tls); /* call it after srv_daemon_close; NULL is fine */

/* Loads certificate and key from these files and uses them for all new handshakes. false: a file
 * cannot be used, *err has the reason, and the old certificate stays. Only the main thread calls
 * this. */
bool srv_tls_load(srv_tls *tls, const char *cert_file, const char *key_file, srv_config_error *err);
/* Returns the end of the certificate's validity in seconds since 1970. */
int64_t srv_tls_until(const srv_tls *tls);

/* Returns options for MHD_OPTION_ARRAY, in static memory. They make a daemon use the loaded
 * certificate and allow only TLS 1.2 and 1.3, only key exchange with forward secrecy, and no SHA-1.
 */
const struct MHD_OptionItem *srv_tls_options(void);

/* Performs a TLS handshake as a client on a connected socket, sends `ask` and receives up to `room`
 * bytes, until the time `by_ns`. The caller has set timeouts on the socket, which bound each step.
 * Returns the number of received bytes; 0: a failure. The certificate is not checked, because the
 * health check connects to its own machine. */
size_t srv_tls_ask(int fd, const char *ask, size_t size, char *answer, size_t room, int64_t by_ns);

#endif
