/* The store of runs: POST /v1/attention with store puts them in, /v1/runs/{id} looks at them.
 *
 * A run is held by id while a request looks at it (srv_run_hold … srv_run_release): it may be
 * deleted, expire or be evicted meanwhile and is freed when the last holder lets go. Without
 * runs_dir runs live in memory and are counted in the memory budget; with it each is one
 * safetensors file, written aside, renamed into place and mapped by all replicas that share the
 * directory. Ids are 128 random bits: to know one is the right to look. To delete a run that has an
 * owner is the owner's right and an admin's. Any thread. */
#ifndef SRV_RUNS_H
#define SRV_RUNS_H

#include <attn/attn.h>

#include "request/request.h"

#define SRV_RUN_ID 32 /* hexadecimal digits */

typedef struct srv_runs srv_runs;

typedef struct srv_run {
    char id[SRV_RUN_ID + 1];
    const attn_run *run;
    size_t bytes;            /* image and what lives beside it */
    _Atomic int64_t ends_ns; /* it expires then, by attn_now_ns; each use may move it */
} srv_run;

/* 0, or an exit code (app.h) and one line on standard error: out of memory, or a directory that
 * cannot be used. */
int srv_runs_open(srv_runs **out, const srv_config *config);
void srv_runs_tick(srv_runs *runs); /* now and then: what has expired goes */
void srv_runs_free(srv_runs *runs); /* no run may be held; NULL is fine */

/* Store an image of the request; the run is held. NULL: a problem is set. */
const srv_run *srv_run_store(srv_request *req, const attn_run_image *image);
/* The run of this id, held until released. NULL: the problem 404 or 410 is set. */
const srv_run *srv_run_hold(srv_request *req, const char *id);
/* false: what was read of it since may be zeros, as its file was cut short; a problem is set. To be
 * asked before an answer goes out. NULL is fine. */
bool srv_run_is_whole(srv_request *req, const srv_run *run);
void srv_run_release(srv_request *req, const srv_run *run); /* NULL is fine */
/* Delete; holders keep what they have. */
void srv_run_discard(srv_request *req, const srv_run *run);
/* The same by id, for who may; false: a problem is set. */
bool srv_run_delete(srv_request *req, const char *id);

/* Metadata of an image: the name of the API key that stored it. Without it nobody owns the run. */
#define SRV_RUN_OWNER "owner"

typedef struct srv_runs_state {
    size_t count, bytes;
    uint64_t stored, evicted, expired;
} srv_runs_state;
void srv_runs_look(srv_runs *runs, srv_runs_state *out); /* for metrics */

#endif
