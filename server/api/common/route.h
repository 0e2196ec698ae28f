/* The routes: a table with one row for each method and path. The router, openapi.json and the index
 * page read it. */
#ifndef SRV_ROUTE_H
#define SRV_ROUTE_H

#include "http/router.h"

/* Returns whether openapi.json and the index page list the route. They list neither the files of
 * the web page nor paths with a final slash, such as "/v2/", which is a second spelling of
 * "/v2". */
bool srv_route_is_listed(const srv_route *route);
/* Returns whether the route creates a resource: it is a POST to a collection whose items can be
 * deleted. Such a route answers 201 with Location. */
bool srv_route_creates(const srv_route *route);

/* Returns whether the work of the route continues after its answer. The status of the answer is
 * then 202. */
bool srv_route_goes_on(const srv_route *route);

/* Returns whether the route is a look: a GET that computes an answer from a stored run
 * (stored/stored_api.h). A look may answer with a job. */
bool srv_route_looks(const srv_route *route);
/* Returns whether the route may answer with a job that stores a run (later.h). */
bool srv_route_stores_later(const srv_route *route);

extern const srv_route srv_routes[]; /* ended by a row whose method is NULL */

#endif
