/* The routes: one table with a row for each method and path, which the router, openapi.json and
 * the index read. */
#ifndef SRV_ROUTE_H
#define SRV_ROUTE_H

#include "request/request.h"
#include "wire/fields.h"

typedef enum srv_place {
    SRV_HERE,  /* always on the HTTP thread: constant, cheap */
    SRV_SMALL, /* in place when the body is small, else on a worker */
    SRV_POOL,  /* on a worker */
} srv_place;

/* Who may use a route; server/http/auth.c decides by it. A row without it is closed to everybody.
 */
typedef enum srv_access {
    SRV_CLOSED, /* nobody */
    SRV_OPEN,   /* everybody: health and readiness */
    SRV_KEYED,  /* any key of keys_file; everybody when there is no such file */
    SRV_OWNER,  /* any key; the handler asks srv_request_owns; without a file as SRV_ADMIN */
    SRV_ADMIN,  /* a key with the right "admin"; without a file only loopback and unix sockets */
} srv_access;

typedef struct srv_route {
    const char *method; /* "GET", "POST"; HEAD follows GET */
    const char *path;   /* "/v1/examples/{id}" */
    srv_access access;
    srv_place place;
    srv_outcome (*run)(srv_request *req);
    const srv_field *fields; /* of the body (POST) or the query string (GET), or NULL */
    const char *summary;     /* one line */
    unsigned produces;       /* SRV_ACCEPT_* bits */
    const char *answer;      /* name of the answer's schema in openapi.json */
} srv_route;

/* Is the route shown in lists? A path with a slash at its end ("/v2/") is a second spelling. */
bool srv_route_is_listed(const srv_route *route);
/* Does the route create something? A POST to a collection whose items can be deleted does, and
 * answers 201 with Location. */
bool srv_route_creates(const srv_route *route);

/* Does the work go on after the answer, which is then 202? */
bool srv_route_goes_on(const srv_route *route);

extern const srv_route srv_routes[]; /* ended by a row with method NULL */

#endif
