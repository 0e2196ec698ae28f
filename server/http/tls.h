/* TLS: the certificate that the service shows, and the client side for its own health check. The
 * one wrapper of GnuTLS sessions; libmicrohttpd does the rest. */
#ifndef SRV_TLS_H
#define SRV_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

struct MHD_OptionItem; /* microhttpd.h */

typedef struct srv_tls srv_tls;

srv_tls *srv_tls_new(void);      /* shows nothing yet; NULL: no memory */
void srv_tls_free(srv_tls *tls); /* after the daemon; NULL is fine */

/* Show the certificate of these files from now on; handshakes under way end with the one they began
 * with. false: *err says what was found where, nothing has changed. Main thread only. */
bool srv_tls_load(srv_tls *tls, const char *cert_file, const char *key_file, srv_config_error *err);
/* When the certificate ends, seconds since 1970. */
int64_t srv_tls_until(const srv_tls *tls);

/* What MHD_OPTION_ARRAY needs for a daemon whose app has a srv_tls that shows something: TLS 1.2
 * and 1.3 only, keys agreed on with forward secrecy, no SHA-1. Static memory. */
const struct MHD_OptionItem *srv_tls_options(void);

/* Over a connected socket with timeouts: handshake as a client, without looking at the certificate
 * (it is our own daemon that is asked), send `ask` and receive up to `room` bytes. Returns how many
 * came, 0 on any failure. */
size_t srv_tls_ask(int fd, const char *ask, size_t size, char *answer, size_t room);

#endif
