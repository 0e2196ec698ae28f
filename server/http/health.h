/* The client of attnd --healthcheck. */
#ifndef SRV_HEALTH_H
#define SRV_HEALTH_H

#include "http/address.h"

/* Requests GET /healthz, with TLS if the service uses it. true: the answer was 200 within the time
 * limit. */
bool srv_health_ask(const srv_address *a, bool tls, int timeout_ms);

#endif
