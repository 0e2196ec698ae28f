/* Routes, one row for each method and path, and the search for the row of a request. */
#ifndef SRV_ROUTER_H
#define SRV_ROUTER_H

#include "request/request.h"
#include "wire/decode.h"

typedef enum srv_place {
    SRV_HERE,  /* always on the HTTP thread: constant, cheap */
    SRV_SMALL, /* in place when the body is small, else on a worker */
    SRV_POOL,  /* on a worker */
} srv_place;

/* The access rights, which auth.c checks. A row without any is closed to all clients. */
typedef enum srv_access {
    SRV_CLOSED, /* nobody */
    SRV_OPEN,   /* all clients: health and readiness */
    SRV_KEYED,  /* any key of keys_file; all clients when there is no such file */
    SRV_OWNER,  /* any key, of which the handler asks srv_request_owns; without a file as SRV_ADMIN
                 */
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
    bool open_inference;     /* of the Open Inference Protocol: 422 becomes 400 */
} srv_route;

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
