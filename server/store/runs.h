/* The store of runs. POST /v1/attention with `store` adds runs, and /v1/runs/{id} reads them.
 *
 * A request holds a run by id (srv_run_hold … srv_run_release). The run may be deleted, expire or
 * be evicted meanwhile and is freed when the last holder releases it. Without runs_dir runs live in
 * memory and count in the memory budget. With runs_dir each run is one safetensors file, which is
 * written under a temporary name, renamed into place, and mapped by all replicas that share the
 * directory. An id has 128 random bits, and knowing it gives the right to read the run. Only its
 * owner and an admin may delete a run that has an owner. Any thread may call these functions. */
#ifndef SRV_RUNS_H
#define SRV_RUNS_H

#include <attn/attn.h>

#include "request/request.h"

#define SRV_RUN_ID 32 /* hexadecimal digits */

typedef struct srv_runs srv_runs;

typedef struct srv_run {
    char id[SRV_RUN_ID + 1];
    const attn_run *run;
    size_t bytes;            /* bytes of the image and of its bookkeeping */
    _Atomic int64_t ends_ns; /* time of expiry, by attn_now_ns; each use may move it */
} srv_run;

/* Returns 0, or an exit code (app.h) after one line on standard error: out of memory, or an
 * unusable directory. */
int srv_runs_open(srv_runs **out, const srv_config *config);
void srv_runs_tick(srv_runs *runs); /* to be called regularly; removes expired runs */
void srv_runs_free(srv_runs *runs); /* no run may be held; NULL is fine */

/* Stores an image of the request and holds the run. NULL: a problem is set. */
const srv_run *srv_run_store(srv_request *req, const attn_run_image *image);
/* Finds the run with this id and holds it until it is released. NULL: the problem 404 or 410 is
 * set. */
const srv_run *srv_run_hold(srv_request *req, const char *id);
/* Checks that the file of the run was not truncated; data read from a truncated file may be zeros.
 * To be called before an answer is sent. false: a problem is set. NULL is fine. */
bool srv_run_is_whole(srv_request *req, const srv_run *run);
void srv_run_release(srv_request *req, const srv_run *run); /* NULL is fine */
/* Removes the run from the store. Whoever holds it can use it until the release. */
void srv_run_discard(srv_request *req, const srv_run *run);
/* Deletes the run with this id if the request has the right. false: a problem is set. */
bool srv_run_delete(srv_request *req, const char *id);

/* Metadata key of an image: the name of the API key that stored it. Without it the run has no
 * owner. */
#define SRV_RUN_OWNER "owner"

typedef struct srv_runs_state {
    size_t count, bytes;
    uint64_t stored, evicted, expired;
} srv_runs_state;
void srv_runs_look(srv_runs *runs, srv_runs_state *out); /* for metrics */

#endif
