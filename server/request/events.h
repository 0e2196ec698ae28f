/* The events of one request: its handler says them on a request thread, while server/http sends
 * what was said. Their text stays in the request's arena until the end, as an answer's does, so
 * that nobody waits for a slow reader; the handler bounds it before it begins. */
#ifndef SRV_EVENTS_H
#define SRV_EVENTS_H

#include "request/request.h"

typedef struct srv_events srv_events;

/* On a request thread. NULL: a problem is set. */
srv_events *srv_events_new(srv_request *req);
/* What the handler goes on with instead of the request, which is server/http's from the first event
 * on: the same arena, deadline and cancel flag, but a reply of its own. */
srv_request *srv_events_request(srv_events *events);
/* One more event, of `size` bytes in the arena that end in the only line end; the first sends the
 * head of the reply. false: there is no memory. */
bool srv_events_say(srv_events *events, const char *type, const char *data, size_t size);
/* The last event: `done` with the reply of srv_events_request, or `error` with its problem; when
 * there was none before, the problem becomes the reply of the request itself. `events` may be gone
 * afterwards. */
void srv_events_end(srv_events *events);

#endif
