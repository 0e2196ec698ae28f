/* The routes: one row a method and path, in one table that the router, openapi.json and the index
 * page read. */
#ifndef SRV_ROUTE_H
#define SRV_ROUTE_H

#include "http/router.h"

/* A path with a slash at its end is a second spelling ("/v2/"), which no list needs to show. */
bool srv_route_is_listed(const srv_route *route);
/* POST to a collection whose items can be deleted makes one: 201 and Location instead of 200. */
bool srv_route_creates(const srv_route *route);

/* It is answered before it is done: 202. */
bool srv_route_goes_on(const srv_route *route);

extern const srv_route srv_routes[]; /* ended by a row with method NULL */

#endif
