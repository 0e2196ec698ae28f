/* Looks at a stored run that may take long: GET …/analyses, …/heatmaps, …/atlas, …/heads, …/rollout
 * and …/flow. Their answers are kept with the run (store/runs.h), and with the header "Prefer:
 * respond-async" (RFC 7240) a long one is computed by a job, which runs the same handler again, with
 * a request of its own. */
#ifndef SRV_RUNS_LOOK_H
#define SRV_RUNS_LOOK_H

#include "api/common/compute.h"
#include "api/runs/runs_call.h"

/* A request that looks at a run. A look's own struct begins with it. */
typedef struct srv_look {
    SRV_CALL;
    srv_run_view *run; /* held until the look ends; its site is not yet selected */
} srv_look;

/* First member of a look's own struct: a srv_look, whose members are members of that struct too. */
#define SRV_LOOK                                                                                   \
    union {                                                                                        \
        srv_look look;                                                                             \
        struct {                                                                                   \
            SRV_CALL;                                                                              \
            srv_run_view *run;                                                                     \
        };                                                                                         \
    }

/* Offset of the decoded query string in a look's own struct, and the limit of most looks. */
#define SRV_QUERY_OF(T) .body = offsetof(T, q)
#define SRV_LOOK_LIMITS .limits = {.cells = {.what = "score cells have to be computed"}}

/* Answers a look (a srv_look) at the run that the path names: with the kept answer, with a job that
 * calls `handler`, or by the steps. Keeps the answer. */
srv_outcome srv_look_run(void *data, const srv_steps *steps, srv_outcome (*handler)(srv_request *));
/* Sets the cost of the look, of which `bytes` are reserved. */
void srv_look_needs(srv_look *look, double cells, double operations, double bytes);

#endif
