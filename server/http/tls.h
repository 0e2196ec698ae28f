/* TLS: the certificate of the service, and the client side for its health check. This is the only
 * wrapper of GnuTLS sessions; libmicrohttpd uses GnuTLS for the rest. */
#ifndef SRV_TLS_H
#define SRV_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

struct MHD_OptionItem; /* microhttpd.h */

typedef struct srv_tls srv_tls;

srv_tls *srv_tls_new(void);      /* has no certificate yet; NULL: no memory */
void srv_tls_free(srv_tls *tls); /* after the daemon; NULL is fine */

/* Uses the certificate of these files from now on; handshakes in progress keep their certificate.
 * false: *err states what was found where, and nothing has changed. Main thread only. */
bool srv_tls_load(srv_tls *tls, const char *cert_file, const char *key_file, srv_config_error *err);
/* The end of the certificate's validity, seconds since 1970. */
int64_t srv_tls_until(const srv_tls *tls);

/* The options for MHD_OPTION_ARRAY of a daemon whose app has a srv_tls with a certificate: only TLS
 * 1.2 and 1.3, key exchange with forward secrecy, no SHA-1. Static memory. */
const struct MHD_OptionItem *srv_tls_options(void);

/* Performs a handshake as a client on a connected socket with timeouts, without checking the
 * certificate (the server is this service), sends `ask` and receives up to `room` bytes. Returns
 * the number of received bytes, 0 on any failure. */
size_t srv_tls_ask(int fd, const char *ask, size_t size, char *answer, size_t room);

#endif
