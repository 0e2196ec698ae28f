/* Who may ask what: by the access column of the route table and the API keys, and of a browser's
 * requests, of which its user may know nothing, by the page that makes them. Pages are judged by
 * headers that a browser sets and a page cannot forge:
 *
 *   Host            without API keys a name is taken only if nobody else can point it at this
 *                   service (DNS rebinding): loopback, an IP address, or one of the setting `hosts`
 *   Origin          the service's own, one whose host is in `hosts`, or one of `cors_origins`
 *   Sec-Fetch-Site  cross-site requests without an Origin are links and pictures, nothing else
 *   Content-Type    with an Origin a type for which the browser asks first (a preflight)
 *
 * See the Fetch standard, sections 3.2 and 4.8, and "Fetch Metadata Request Headers" (W3C). Other
 * clients send none of them but Host. */
#ifndef SRV_AUTH_H
#define SRV_AUTH_H

#include "http/exchange.h"

/* Refuses x if the web page that sent it, or its client, has no access; otherwise stores the key
 * of the request in x->key. Runs on the HTTP thread after the framing was checked and the route was
 * found, before the body. */
void srv_auth(srv_exchange *x);
/* Checks the media type of the body, after access was granted. */
void srv_auth_body(srv_exchange *x);
/* Ends the exchange: the key has one running request less. */
void srv_auth_end(srv_exchange *x);

/* Adds the security headers of every answer (no sniffing, no frames, no scripts), and the CORS
 * headers of the Fetch standard for an origin of `cors_origins`. false: out of memory. */
bool srv_auth_headers(srv_exchange *x, struct MHD_Response *response);

#endif
