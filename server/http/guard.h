/* The guards: what is decided from the header alone, before a byte of the body is read. */
#ifndef SRV_GUARD_H
#define SRV_GUARD_H

#include "http/exchange.h"

/* Read the header into x->facts and x->req, find the route, refuse what can be refused: x->refused
 * and, where the framing cannot be trusted or the body is long, x->close. */
void srv_guard(srv_exchange *x, const char *url, const char *method, const char *version);

/* The same for a request whose header cannot be read: x gets what every reply needs, an arena, an
 * id and a trace. */
void srv_guard_unread(srv_exchange *x);

#endif
