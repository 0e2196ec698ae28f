/* Decides whether a request is allowed. The access column of the route table says whether the route
 * needs an API key. A browser may also send requests without its user's knowledge, so the web page
 * that makes a request is judged as well, by headers that a browser sets and a page cannot forge:
 *
 *   Host            Without API keys the host must be a loopback name, an IP address, or listed in
 *                   the setting `hosts`: nobody else can point these at this service (DNS
 *                   rebinding).
 *   Origin          The origin must be the service itself, have a host of the setting `hosts`, or
 *                   be listed in the setting `cors_origins`.
 *   Sec-Fetch-Site  A cross-site request without an Origin must follow a link or load a picture.
 *   Content-Type    A request with an Origin must have a body type for which browsers send a
 *                   preflight.
 *
 * See the Fetch standard, sections 3.2 and 4.8, and "Fetch Metadata Request Headers" (W3C). Clients
 * other than browsers send only Host and Content-Type. */
#ifndef SRV_AUTH_H
#define SRV_AUTH_H

#include "http/exchange.h"

/* Refuses x if its client, or the web page that sent it, has no access. Otherwise stores the API
 * key of the request in x->key. Runs on the HTTP thread after the framing was checked and the route
 * was found, before the body is read. */
void srv_auth(srv_exchange *x);
/* Refuses x if a web page sends a body type without a preflight. Runs after access was granted. */
void srv_auth_body(srv_exchange *x);
/* Releases the API key of x and no longer counts x among the running requests of that key. */
void srv_auth_end(srv_exchange *x);

/* Adds the security headers that every answer has (no sniffing, no frames, no scripts). If the
 * origin is listed in `cors_origins`, also adds the CORS headers of the Fetch standard. Returns
 * false if memory ran out. */
bool srv_auth_headers(srv_exchange *x, struct MHD_Response *response);

#endif
