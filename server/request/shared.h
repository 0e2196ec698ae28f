/* What all requests share: the parts of the running service, which live as long as the process.
 * server/main.c owns the one srv_app and server/app.c makes it; everything in it is safe to use
 * from any thread. */
#ifndef SRV_SHARED_H
#define SRV_SHARED_H

#include <attn/attn.h>

#include "config/config.h"
#include "config/keys.h"
#include "observe/log.h"
#include "observe/metrics.h"
#include "system/host.h"
#include "system/ticker.h"

typedef struct srv_queue srv_queue;   /* load/queue.h */
typedef struct srv_daemon srv_daemon; /* http/daemon.h */
struct srv_tls;                       /* http/tls.h */
struct srv_router;                    /* http/router.h */
struct srv_predictor;                 /* api/dry.h */
struct srv_admission;                 /* load/admission.h */
struct srv_runs;                      /* store/runs.h */
struct srv_models;                    /* store/model_registry.h */
struct srv_jobs;                      /* jobs/jobs.h */

/* Exit codes of attnd, as --help lists them. */
enum {
    SRV_EXIT_OK = 0,
    SRV_EXIT_UNHEALTHY = 1,
    SRV_EXIT_USAGE = 2,
    SRV_EXIT_LISTEN = 3,
    SRV_EXIT_ISA = 4,
    SRV_EXIT_RESOURCES = 5,
    SRV_EXIT_FORCED = 6,
    SRV_EXIT_LIBRARY = 7,
};

/* Files that are read again when they change. */
enum { SRV_APP_KEYS, SRV_APP_CERT, SRV_APP_KEY, SRV_APP_FILES };

/* On the way down, in this order. */
typedef enum srv_draining {
    SRV_SERVING,
    SRV_LEAVING,  /* SIGTERM came: /readyz answers 503, every answer closes its connection */
    SRV_REFUSING, /* drain_delay_ms is over: new requests are refused */
} srv_draining;

/* A constant answer. */
typedef struct srv_text {
    size_t size;
    char data[];
} srv_text;

struct srv_app {
    const srv_config *config; /* resolved: no "automatic" is left */
    attn_pool *pool;          /* `workers` slots */
    struct srv_admission *admission;
    srv_queue *queue; /* requests that wait, and the request threads */
    srv_meters *meters;
    srv_log *log;
    srv_keys *keys;      /* NULL: no keys_file */
    struct srv_tls *tls; /* NULL: plain HTTP */
    struct srv_router *router;
    struct srv_predictor *predictor; /* measures this machine when a dry run asks */
    struct srv_runs *runs;
    struct srv_models *models;
    struct srv_jobs *jobs;
    srv_ticker housekeeping;
    _Atomic(srv_text *) openapi; /* made when somebody asks first */
    srv_daemon *data, *ops;      /* ops: NULL when off */
    uint64_t trace_key[2];       /* random, for the names of traces and spans */
    atomic_uint_fast64_t traces;
    atomic_int draining;                           /* srv_draining */
    _Atomic int64_t certificate_until;             /* seconds since 1970; 0: no TLS */
    const char *problem_names[SRV_METER_PROBLEMS]; /* in the order of srv_code */
    srv_file_state
        seen[SRV_APP_FILES]; /* of keys_file, tls_cert and tls_key, when they were read */
};

#endif
