/* The running service: what lives as long as the process and is shared by all requests.
 * server/main.c owns the one srv_app; everything in it is safe to use from any thread. */
#ifndef SRV_APP_H
#define SRV_APP_H

#include <attn/attn.h>

#include "config.h"
#include "log.h"
#include "metrics.h"
#include "queue.h"

typedef struct srv_daemon srv_daemon; /* http/daemon.h */
struct srv_router;                    /* http/router.h */
struct srv_predictor;                 /* api/predict.h */

/* Exit codes of attnd, as --help lists them. */
enum {
    SRV_EXIT_OK = 0,
    SRV_EXIT_UNHEALTHY = 1,
    SRV_EXIT_USAGE = 2,
    SRV_EXIT_LISTEN = 3,
    SRV_EXIT_ISA = 4,
    SRV_EXIT_RESOURCES = 5,
    SRV_EXIT_FORCED = 6,
};

struct srv_app {
    const srv_config *config; /* resolved: no "automatic" is left */
    attn_pool *pool;          /* `workers` slots */
    srv_queue *queue;         /* requests that wait, and the request threads */
    srv_meters *meters;
    srv_log *log;
    struct srv_router *router;
    struct srv_predictor *predictor; /* measures this machine when a dry run asks */
    srv_daemon *data, *ops;          /* ops: NULL when off */
    atomic_int draining; /* SIGTERM came: /readyz answers 503, new requests are refused */
};

/* Bring the service up in `app` (zeroed by the caller): kernels, pool, queue, both daemons. 0, or
 * an exit code with one line on stderr; srv_app_close is right in either case. */
int srv_app_open(struct srv_app *app, const srv_config *config);
/* The one way down: refuse new work, finish what was accepted (at most drain_ms), free everything.
 */
void srv_app_close(struct srv_app *app);

#endif
