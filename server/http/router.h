/* From method and path to a row of the route table. */
#ifndef SRV_ROUTER_H
#define SRV_ROUTER_H

#include "api/route.h"

typedef struct srv_router {
    const srv_route *routes;
    size_t count;        /* rows */
    const char **labels; /* the distinct templates: labels of metrics and log lines */
    size_t label_count;
    size_t *label_of; /* row -> index into labels */
    size_t *shared; /* row -> characters, NUL included, that begin its template as the one before */
} srv_router;

/* `routes` ends with a row whose method is NULL and must outlive the router. false: out of memory.
 */
bool srv_router_init(srv_router *router, const srv_route *routes);
void srv_router_close(srv_router *router);

#define SRV_ALLOW_ROOM 96

typedef struct srv_match {
    const srv_route *route;     /* NULL: no row has this method */
    size_t label;               /* label_count: no row has this path */
    char allow[SRV_ALLOW_ROOM]; /* when route is NULL or the method is OPTIONS: "GET, HEAD, OPTIONS"
                                 */
    const char *params[2];
} srv_match;

/* Find the row for `path` (decoded); parameters are copied into `text`, which has room for
 * strlen(path) + 1 bytes. */
void srv_router_find(const srv_router *router, const char *method, const char *path, char *text,
                     srv_match *match);

#endif
