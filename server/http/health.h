/* Sends requests to a service on this machine, for attnd --healthcheck and to find out whether
 * another attnd uses a port. */
#ifndef SRV_HEALTH_H
#define SRV_HEALTH_H

#include "http/address.h"

/* Sends GET /healthz to the address, over TLS if `tls` is set. Returns whether the answer has
 * status 200. Connecting, sending and receiving may take `timeout_ms` each. */
bool srv_health_ask(const srv_address *a, bool tls, int timeout_ms);

/* Sends GET /version to the address. If an attnd answers, writes "attnd VERSION" to `who`, or
 * "attnd" if it wants an API key; otherwise "". */
void srv_health_who(const srv_address *a, bool tls, int timeout_ms, char *who, size_t size);

#endif
