/* The answer to dry_run, on every route that computes: shapes, what a run would take, how long it
 * would last. Nothing has been computed when it is made. */
#ifndef SRV_DRY_H
#define SRV_DRY_H

#include "api/predict.h"
#include "request/request.h"

#define SRV_DRY_SHAPES 40

typedef struct srv_shape {
    const char *name;
    int rank;
    size_t dims[ATTN_MAX_RANK];
} srv_shape;

typedef struct srv_dry {
    srv_shape shapes[SRV_DRY_SHAPES];
    size_t shape_count;
    const char *mask; /* in words, or NULL */
    double cells, operations;
    double result, work;                  /* bytes of what is answered, bytes of scratch */
    double with_weights, without_weights; /* result with and without the weights; 0, 0: none */
    bool fits;                            /* within the limits of this service */
    bool learns;                          /* has parameters */
    size_t parameters;
    double rnn_steps, rnn_operations; /* of a recurrent layer of this width; 0: no counterpart */
    double rnn_products;              /* multiply-adds of the scores, to compare with it */
    srv_load load;                    /* of a run: compute and encode */
} srv_dry;

void srv_dry_shape(srv_dry *dry, const char *name, int rank, const size_t *dims);
/* The reply; SRV_DEFER when this is the HTTP thread, and the machine has to be measured first or
 * the run does not fit the little room that there is here. */
srv_outcome srv_dry_reply(srv_request *req, const srv_dry *dry);

#endif
