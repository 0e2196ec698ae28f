/* Decides whether a request is allowed.
 *
 * The access column of the route table (router.h) says whether a route needs an API key.
 *
 * A web page can make a browser send requests without its user's knowledge. Therefore the page is
 * checked too, by headers that the browser sets and the page cannot forge:
 *
 *   Host            Without API keys the host must be a loopback name, an IP address, or listed in
 *                   the setting `hosts`. An attacker could make any other name resolve to the
 *                   address of this service (DNS rebinding).
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

/* Checks that the client, and the web page that sent the request, have access. Holds the API key of
 * the request in x->key. Runs on the HTTP thread before the body is read; the framing was checked
 * and the route was found. false: a problem is set. */
bool srv_auth(srv_exchange *x);
/* Checks that browsers send a preflight for the type of the body, if the request comes from a web
 * page. Runs after srv_auth has granted access. false: a problem is set. */
bool srv_auth_body(srv_exchange *x);
/* Releases the API key of the request and no longer counts the request among the running ones of
 * this key. */
void srv_auth_end(srv_exchange *x);

/* Adds the security headers that every answer has: browsers must not guess its type, show it in a
 * frame or run scripts in it. If the request's origin is listed in `cors_origins`, also adds the
 * CORS headers of the Fetch standard. Returns false if memory ran out. */
bool srv_auth_headers(srv_exchange *x, struct MHD_Response *response);

#endif
