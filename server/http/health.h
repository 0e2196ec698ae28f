/* The client of attnd --healthcheck. */
#ifndef SRV_HEALTH_H
#define SRV_HEALTH_H

#include "http/address.h"

/* Requests GET /healthz, over TLS if `tls` is set. Returns whether the answer was 200. Each step of
 * the exchange may take `timeout_ms`. */
bool srv_health_ask(const srv_address *a, bool tls, int timeout_ms);

#endif
