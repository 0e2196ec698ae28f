/* Requests that a web page makes, of which the user of the browser may know nothing. Which pages
 * may ask is judged by headers that a browser sets and a page cannot forge:
 *
 *   Host            without API keys a name is taken only if nobody else can point it at this
 *                   service (DNS rebinding): loopback, an IP address, or one of the setting `hosts`
 *   Origin          the service's own, one whose host is in `hosts`, or one of `cors_origins`
 *   Sec-Fetch-Site  cross-site requests without an Origin are links and pictures, nothing else
 *   Content-Type    with an Origin a type for which the browser asks first (a preflight)
 *
 * See the Fetch standard, sections 3.2 and 4.8, and "Fetch Metadata Request Headers" (W3C). What
 * is not a browser sends none of them but Host. */
#ifndef SRV_BROWSER_H
#define SRV_BROWSER_H

#include "http/exchange.h"

/* May this request be answered, as far as browsers go? Otherwise the problem is set and
 * x->refused. On the HTTP thread, once the framing is sound and the route is found. */
void srv_browser_judge(srv_exchange *x);
/* The same of the body's type, once it is known that the client may ask. */
void srv_browser_judge_body(srv_exchange *x);

/* Add what every answer tells a browser (no sniffing, no frames, no scripts), and to an origin of
 * `cors_origins` what the Fetch standard asks for (CORS). false: out of memory. */
bool srv_browser_headers(srv_exchange *x, struct MHD_Response *response);

#endif
