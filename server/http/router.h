/* The route table, which has one row for each method and path, and the search for the row of a
 * request. */
#ifndef SRV_ROUTER_H
#define SRV_ROUTER_H

#include "request/request.h"
#include "wire/decode.h"

typedef enum srv_place {
    SRV_HERE,  /* always on the HTTP thread, because the work is cheap */
    SRV_SMALL, /* on the HTTP thread if the body is small, else on a request thread */
    SRV_POOL,  /* always on a request thread */
} srv_place;

/* Who may use a route; checked by auth.c. A row that sets no access is closed to all clients. */
typedef enum srv_access {
    SRV_CLOSED, /* nobody */
    SRV_OPEN,   /* all clients, such as health checks */
    SRV_KEYED,  /* clients with a key of keys_file; without a keys_file all clients */
    SRV_OWNER,  /* as SRV_KEYED, and the handler checks srv_request_owns; without a keys_file as
                   SRV_ADMIN */
    SRV_ADMIN,  /* clients with an admin key; without a keys_file local clients */
} srv_access;

typedef struct srv_route {
    const char *method; /* "GET", "POST", …; a row for GET also answers HEAD */
    const char *path;   /* "/v1/examples/{id}" */
    srv_access access;
    srv_place place;
    srv_outcome (*run)(srv_request *req);
    const srv_field *fields; /* fields of the body (POST) or the query string (GET), or NULL */
    const char *summary;     /* one line for openapi.json */
    unsigned produces;       /* types of the answer, as SRV_ACCEPT_* bits */
    const char *answer;      /* name of the answer's schema in openapi.json */
    bool open_inference;     /* route of the Open Inference Protocol, with 400 instead of 422 */
} srv_route;

typedef struct srv_router {
    const srv_route *routes;
    size_t count;        /* number of rows */
    const char **labels; /* the distinct templates, as labels for metrics and the log */
    size_t label_count;
    size_t *label_of; /* for each row the index of its template in `labels` */
    size_t *shared; /* for each row: how many characters its template shares with the row before */
} srv_router;

/* Prepares the search in `routes`, which end with a row whose method is NULL and must outlive the
 * router. Returns false if memory ran out. */
bool srv_router_init(srv_router *router, const srv_route *routes);
void srv_router_close(srv_router *router);

#define SRV_ALLOW_ROOM 96

typedef struct srv_match {
    const srv_route *route;     /* NULL: no row has this path and method */
    size_t label;               /* index of the path's template; label_count: unknown path */
    char allow[SRV_ALLOW_ROOM]; /* the methods of the path, such as "GET, HEAD, OPTIONS" */
    const char *params[2];
} srv_match;

/* Finds the row for a method and a decoded path. The path's parameters are copied into `text`,
 * which must have room for strlen(path) + 1 bytes. */
void srv_router_find(const srv_router *router, const char *method, const char *path, char *text,
                     srv_match *match);

#endif
