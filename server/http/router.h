/* The route table, with one row for each method and path, and the search for the row of a request.
 */
#ifndef SRV_ROUTER_H
#define SRV_ROUTER_H

#include "request/request.h"
#include "wire/decode.h"

/* The thread on which the handler of a route runs. */
typedef enum srv_place {
    SRV_HERE,  /* the HTTP thread, because the work is always short */
    SRV_SMALL, /* the HTTP thread if body and work are small, else a request thread */
    SRV_POOL,  /* a request thread */
} srv_place;

/* Who may use a route (auth.c):
 *
 *               with a keys_file                            without a keys_file
 *   SRV_CLOSED  nobody                                      nobody
 *   SRV_OPEN    everybody                                   everybody
 *   SRV_KEYED   clients with a key                          everybody
 *   SRV_OWNER   clients with a key that owns the object,    everybody, if the service listens on a
 *               and admins (srv_request_owns)               local address and no trusted proxy
 *                                                           names a client that is not local
 *   SRV_ADMIN   clients with an admin key                   as SRV_OWNER
 *
 * SRV_CLOSED is 0, so a row that sets no access is closed. */
typedef enum srv_access { SRV_CLOSED, SRV_OPEN, SRV_KEYED, SRV_OWNER, SRV_ADMIN } srv_access;

typedef struct srv_route {
    const char *method; /* "GET", "POST", …; a row for GET also answers HEAD */
    const char *path;   /* "/v1/examples/{id}" */
    srv_access access;
    srv_place place;
    srv_outcome (*run)(srv_request *req);
    const srv_field *fields; /* fields of the body (POST) or query string (GET); NULL: none */
    const char *summary;     /* one line for openapi.json */
    unsigned produces;       /* media types of the answer, as SRV_ACCEPT_* bits; 0: a file */
    const char *answer;      /* name of the answer's schema in openapi.json */
    bool open_inference;     /* a route of the Open Inference Protocol: 400 instead of 422 */
    /* Makes the intake of a body of `length` bytes (0: unknown), or leaves req->intake NULL if the
     * body goes into memory. Runs on the HTTP thread and must not wait. false: a problem is set.
     * NULL: all bodies of the route go into memory. */
    bool (*intake)(srv_request *req, uint64_t length);
    bool takes_token;        /* a read token of the run may replace the API key */
    bool shrinks;            /* binary answers are worth compressing, as text is */
    const char *description; /* further sentences for openapi.json */
} srv_route;

typedef struct srv_router {
    const srv_route *routes;
    size_t count;        /* number of rows */
    const char **labels; /* all path templates, each once: labels for metrics and the log */
    size_t label_count;
    size_t *label_of; /* for each row: the index of its path template in `labels` */
    size_t *shared;   /* for each row: the length of its common beginning with the row before */
} srv_router;

/* Prepares the search in `routes`. A row whose method is NULL ends them, and they must outlive the
 * router. Returns false if memory ran out. */
bool srv_router_init(srv_router *router, const srv_route *routes);
void srv_router_close(srv_router *router);

#define SRV_ALLOW_ROOM 96

/* The result of a search. */
typedef struct srv_match {
    const srv_route *route;     /* NULL: no row has this path and method */
    size_t label;               /* index of the path template in `labels`; label_count: no match */
    char allow[SRV_ALLOW_ROOM]; /* the methods of the path, such as "GET, HEAD, OPTIONS" */
    const char *params[2];      /* the values of {…} in the path; NULL: none */
} srv_match;

/* Finds the row for a method and a percent-decoded path. The texts of match->params are copied into
 * `text`, which must have room for strlen(path) + 1 bytes. */
void srv_router_find(const srv_router *router, const char *method, const char *path, char *text,
                     srv_match *match);

/* Writes the path that a client probably meant by the unknown `path` into buf, with the client's
 * parameters in place of {…}: "/v1/runs/abc/top-k" for "/v1/run/abc/topk". Returns false if no path
 * of the table is near. */
bool srv_router_nearest(const srv_router *router, const char *path, char *buf, size_t size);

#endif
