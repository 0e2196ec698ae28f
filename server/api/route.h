/* The routes: one table with a row for each method and path, which the router, openapi.json and the
 * index read. */
#ifndef SRV_ROUTE_H
#define SRV_ROUTE_H

#include "http/router.h"

/* Tells whether lists show the route. A path with a slash at its end ("/v2/") is a second spelling.
 */
bool srv_route_is_listed(const srv_route *route);
/* Tells whether the route creates a resource: a POST to a collection whose items can be deleted,
 * which answers 201 with Location. */
bool srv_route_creates(const srv_route *route);

/* Tells whether the work continues in the background; the answer is then 202. */
bool srv_route_goes_on(const srv_route *route);

extern const srv_route srv_routes[]; /* ended by a row with method NULL */

#endif
