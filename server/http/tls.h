/* Loads the certificate of the service for TLS and contains the TLS client of the health check.
 * libmicrohttpd runs the TLS sessions of the server. */
#ifndef SRV_TLS_H
#define SRV_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

struct MHD_OptionItem; /* microhttpd.h */

typedef struct srv_tls srv_tls;

srv_tls *srv_tls_new(void);      /* makes one without a certificate; NULL: out of memory */
void srv_tls_free(srv_tls *tls); /* call it after srv_daemon_close; NULL is fine */

/* Loads the certificate and the key of these files for all new handshakes; handshakes in progress
 * keep their certificate. Returns false with *err set if a file is unusable: nothing has changed
 * then. Main thread only. */
bool srv_tls_load(srv_tls *tls, const char *cert_file, const char *key_file, srv_config_error *err);
/* Returns the end of the certificate's validity in seconds since 1970. */
int64_t srv_tls_until(const srv_tls *tls);

/* Returns the options for MHD_OPTION_ARRAY that make a daemon use the loaded certificate, only TLS
 * 1.2 and 1.3, only key exchange with forward secrecy, and no SHA-1. They are in static memory. */
const struct MHD_OptionItem *srv_tls_options(void);

/* Performs a handshake as a client on a connected socket with timeouts, sends `ask` and receives up
 * to `room` bytes. Returns the number of received bytes, 0 on any failure. The certificate is not
 * checked, because the server is this service. */
size_t srv_tls_ask(int fd, const char *ask, size_t size, char *answer, size_t room);

#endif
