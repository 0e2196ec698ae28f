/* The client of attnd --healthcheck. */
#ifndef SRV_HEALTH_H
#define SRV_HEALTH_H

#include "http/address.h"

/* Sends GET /healthz to the address, over TLS if `tls` is set. Returns whether the answer has
 * status 200. Connecting, sending and each read may take `timeout_ms`. */
bool srv_health_ask(const srv_address *a, bool tls, int timeout_ms);

#endif
