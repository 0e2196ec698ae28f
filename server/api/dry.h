/* The answer to dry_run on every route that computes: shapes, cost and predicted time. Nothing is
 * computed for it. The time follows from two rates of this machine, operations a second and bytes
 * of text a second, which the first prediction measures. */
#ifndef SRV_DRY_H
#define SRV_DRY_H

#include <attn/attn.h>

#include "request/request.h"

#define SRV_DRY_SHAPES 40

/* Costs in floating-point operations of a matrix product: of the exponential and the mask of a
 * score cell; of a tanh; of an operation in double where the kernel tables have none; of an
 * operation of an analysis, often a logarithm; of a number that is computed alone, such as a sine
 * or a random number. */
#define SRV_CELL_OPERATIONS     10.0
#define SRV_TANH_OPERATIONS     10.0
#define SRV_DOUBLE_OPERATIONS   16.0
#define SRV_ANALYSIS_OPERATIONS 64.0
#define SRV_NUMBER_OPERATIONS   500.0

/* The work of a run. */
typedef struct srv_load {
    double operations; /* over the pool */
    double alone;      /* operations on one thread */
    double text;       /* bytes of the answer */
    double memory;     /* bytes of results and scratch */
    double pieces;     /* that the pool can run at the same time */
} srv_load;

typedef struct srv_shape {
    const char *name;
    int rank;
    size_t dims[ATTN_MAX_RANK];
} srv_shape;

typedef struct srv_dry {
    srv_shape shapes[SRV_DRY_SHAPES];
    size_t shape_count;
    const char *mask; /* the mask in words, or NULL */
    double cells, operations;
    double result, work;                  /* bytes of the answer's tensors, bytes of scratch */
    double with_weights, without_weights; /* bytes of the answer; both 0: it has no weights */
    bool fits;                            /* is it within the limits of this service? */
    bool learns;                          /* the route has parameters */
    size_t parameters;
    double rnn_steps, rnn_operations; /* of a recurrent layer of this width; 0: no comparison */
    double rnn_products;              /* multiply-adds of the scores, to compare with it */
    srv_load load;                    /* of a run: compute and encode */
} srv_dry;

void srv_dry_shape(srv_dry *dry, const char *name, int rank, const size_t *dims);
/* Sets the reply. SRV_DEFER: this is the HTTP thread, and the machine has to be measured first, or
 * the run does not fit the little memory that requests have on this thread. */
srv_outcome srv_dry_reply(srv_request *req, const srv_dry *dry);

typedef struct srv_predictor srv_predictor;

srv_predictor *srv_predictor_new(void);    /* NULL: out of memory */
void srv_predictor_free(srv_predictor *p); /* NULL is fine */
/* Have the rates been measured? The first prediction measures them, for some milliseconds. */
bool srv_predictor_ready(srv_predictor *p);

#endif
