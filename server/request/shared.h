/* The parts of the running service that all requests share. There is one srv_app: server/main.c
 * owns it, and server/app.c fills it in before the first request. Any thread may use its
 * members. */
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
struct srv_predictor;                 /* api/common/dry.h */
struct srv_admission;                 /* load/admission.h */
struct srv_runs;                      /* store/runs.h */
struct srv_maps;                      /* store/run_maps.h */
struct srv_models;                    /* store/model_registry.h */
struct srv_jobs;                      /* jobs/jobs.h */
struct srv_repeats;                   /* http/repeats.h */

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

/* The files of the settings keys_file, tls_cert and tls_key. The service reads them again when they
 * change. */
enum { SRV_APP_KEYS, SRV_APP_CERT, SRV_APP_KEY, SRV_APP_FILES };

/* The parts of the service that can be read again while it runs. */
typedef enum srv_app_part { SRV_PART_KEYS, SRV_PART_TLS, SRV_PART_MODELS } srv_app_part;

/* The steps of a shutdown, in this order. */
typedef enum srv_draining {
    SRV_SERVING,
    SRV_LEAVING,  /* after SIGTERM: /readyz answers 503, every answer closes its connection */
    SRV_REFUSING, /* after drain_delay_ms: new requests are refused */
} srv_draining;

struct srv_app {
    const srv_config *config; /* settings after srv_config_resolve: no automatic values are left */
    attn_pool *pool;          /* the workers, threads of the library that compute */
    struct srv_admission *admission;
    srv_queue *queue; /* waiting requests and the request threads */
    srv_meters *meters;
    srv_log *log;
    srv_keys *keys;      /* NULL: the setting keys_file is empty */
    struct srv_tls *tls; /* NULL: plain HTTP */
    struct srv_router *router;
    struct srv_predictor *predictor; /* measures the speed of this machine for dry runs */
    struct srv_runs *runs;
    struct srv_maps *maps; /* maps of stored runs, kept for the next tiles */
    struct srv_models *models;
    struct srv_jobs *jobs;
    struct srv_repeats *repeats; /* requests with an Idempotency-Key */
    srv_ticker housekeeping;
    atomic_bool fonts_missed;    /* the log already says that pictures have no letters */
    bool started;                /* the start has been logged, so that the end is logged too */
    srv_daemon *data;            /* the port of the service */
    srv_daemon *ops;             /* the operations port; NULL: there is none */
    uint64_t trace_key[2];       /* random numbers from which ids of traces and spans are made */
    atomic_uint_fast64_t traces; /* number of ids that were made so far */
    atomic_int draining;         /* a srv_draining */
    _Atomic int64_t certificate_until; /* end of validity, s since 1970; 0: no TLS */
    atomic_uint stale;        /* bit 1 << srv_app_part: this part could not be read again */
    _Atomic int64_t reloaded; /* when all parts were last read without failure, s since 1970 */
    const char *problem_names[SRV_METER_PROBLEMS]; /* in the order of srv_code, then NULL */
    srv_file_state seen[SRV_APP_FILES];            /* state of each file when it was last read */
};

#endif
