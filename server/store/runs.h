/* The store of runs. A run is an attention computation with its inputs and statistics, kept so that
 * later requests can draw and analyse it. POST /v1/attention with `store` adds runs, and
 * /v1/runs/{id} reads them.
 *
 * The store counts references ("holds"). srv_run_hold adds one and srv_run_release removes it. A
 * run that is deleted, expires or is evicted meanwhile stays valid for its holders, and the last
 * release frees it.
 *
 * Without the setting runs_dir runs live in memory and count in the memory budget. With runs_dir
 * each run is one safetensors file, and all daemons that share the directory map it.
 *
 * An id has 128 random bits. Whoever knows the id may read the run. Only its owner and an admin may
 * delete a run that has an owner. Any thread may call these functions. */
#ifndef SRV_RUNS_H
#define SRV_RUNS_H

#include <attn/attn.h>

#include "request/request.h"

#define SRV_RUN_ID 32 /* length of an id: 32 hexadecimal digits, without a NUL */

typedef struct srv_runs srv_runs;

typedef struct srv_run {
    char id[SRV_RUN_ID + 1];
    const attn_run *run;
    size_t bytes;            /* size of the image and of the arena of `run`, in bytes */
    _Atomic int64_t ends_ns; /* when the run expires (clock of attn_now_ns); a use delays it */
} srv_run;

/* Opens the store. Returns 0. If memory runs out or runs_dir cannot be used, prints one line to
 * standard error and returns an exit code (SRV_EXIT_*). */
int srv_runs_open(srv_runs **out, const srv_config *config);
/* Removes expired runs if the last check is more than 5 s ago. Housekeeping calls this regularly.
 */
void srv_runs_tick(srv_runs *runs);
void srv_runs_free(srv_runs *runs); /* no run may be held; NULL is fine */

/* Copies the image (attn/run.h) into the store as a new run and holds the run. NULL: a problem is
 * set. */
const srv_run *srv_run_store(srv_request *req, const attn_run_image *image);
/* Finds the run with this id and holds it until srv_run_release. NULL: a problem is set: 404 (no
 * such run), 410 (the run was removed), or the file cannot be read. */
const srv_run *srv_run_hold(srv_request *req, const char *id);
/* Checks that the file of the run was intact while it was read. If another program truncates a
 * mapped file, its lost part reads as zeros. Call this after the last read and before the answer is
 * sent. false: a problem is set. `run` NULL: returns true. */
bool srv_run_is_whole(srv_request *req, const srv_run *run);
void srv_run_release(srv_request *req, const srv_run *run); /* NULL is fine */
/* Removes a held run from the store, whoever owns it. Holders can use it until they release it. */
void srv_run_discard(srv_request *req, const srv_run *run);
/* Deletes the run with this id if the request is from its owner or an admin. false: a problem is
 * set. */
bool srv_run_delete(srv_request *req, const char *id);

/* The key of the image's metadata under which the name of the owner's API key stands. A run without
 * this key has no owner. */
#define SRV_RUN_OWNER "owner"

typedef struct srv_runs_state {
    size_t count, bytes;               /* of the runs that exist now */
    uint64_t stored, evicted, expired; /* events since this process started */
} srv_runs_state;
void srv_runs_look(srv_runs *runs, srv_runs_state *out); /* for metrics */

#endif
