/* The question of attnd --healthcheck. */
#ifndef SRV_HEALTH_H
#define SRV_HEALTH_H

#include "http/address.h"

/* Ask GET /healthz, over TLS when the service there speaks it: true when it is answered with 200
 * and nothing takes longer than the time. */
bool srv_health_ask(const srv_address *a, bool tls, int timeout_ms);

#endif
