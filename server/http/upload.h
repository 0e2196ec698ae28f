/* Bodies on their way in. */
#ifndef SRV_UPLOAD_H
#define SRV_UPLOAD_H

#include "http/exchange.h"

/* What a refused request may still send before its connection is closed rather than kept. */
#define SRV_SWALLOW_BYTES (256 * 1024)

/* Before the body: take memory for it. May refuse. */
void srv_upload_begin(srv_exchange *x);
/* A piece of the body. false: close the connection. */
bool srv_upload_take(srv_exchange *x, const char *data, size_t size);

#endif
