/* Looks at a stored run that may take long: GET …/analyses, …/heatmaps, …/atlas, …/heads, …/rollout
 * and …/flow. Their answers are kept with the run (store/runs.h), and with the header "Prefer:
 * respond-async" (RFC 7240) a long one is computed by a job. The handler of such a route asks in
 * this order:
 *
 *   srv_look_answered   the answer is kept: it is the reply
 *   srv_look_later      the work is long and the client does not wait: the reply is a job
 *   srv_look_admit      memory is reserved, and the handler computes
 *   srv_look_end        the answer is kept
 *
 * The job runs the same handler again, with a request of its own. */
#ifndef SRV_RUNS_LOOK_H
#define SRV_RUNS_LOOK_H

#include "api/runs/runs_call.h"

typedef struct srv_look {
    srv_request *req;
    const char
        *query;      /* the query string, in which only characters of RFC 3986 stand as they are */
    const char *key; /* of the answer; NULL: it cannot be kept */
    const char *token; /* read token of the run; NULL: none */
    double operations, bytes;
    double cells;
} srv_look;

/* Begins a look. Returns true if the reply is set: the kept answer, or a problem. */
bool srv_look_answered(srv_look *look, srv_request *req);
/* Sets what the work needs: score cells, operations (they predict the time), and bytes. */
void srv_look_needs(srv_look *look, double cells, double operations, double bytes);
/* Replies with a job that runs the handler again, if the client prefers that and the work is
 * predicted to take longer than it waits. Returns true if the reply is set. */
bool srv_look_later(const srv_look *look, srv_outcome (*handler)(srv_request *));
/* Checks the number of cells against max_cells and reserves the memory. false: a problem is set, or
 * the request goes back into the queue. */
bool srv_look_admit(const srv_look *look);
/* Ends the look as srv_run_end does. If the reply is an answer, keeps it; a problem because the
 * deadline has passed says how to ask. */
srv_outcome srv_look_end(const srv_look *look, const srv_run_view *run, bool answered);

#endif
