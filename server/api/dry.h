/* The answer to dry_run on every route that computes: shapes, cost and predicted time. The results
 * are not computed. The time is predicted from rates of this machine, the seconds for each kind of
 * work in srv_load, which the first prediction measures. */
#ifndef SRV_DRY_H
#define SRV_DRY_H

#include <attn/attn.h>

#include "request/request.h"

#define SRV_DRY_SHAPES 40

/* Weights of work, in operations of the kernels, by which a request is run at once or queued: the
 * exponential and the mask of a score cell, a tanh, and an operation in double. */
#define SRV_CELL_OPERATIONS   10.0
#define SRV_TANH_OPERATIONS   10.0
#define SRV_DOUBLE_OPERATIONS 16.0

/* Weights of work in srv_load, in operations in double: an operation of a heatmap, of an analysis
 * (often a logarithm), and of a row that is verified (its keys and values are packed anew); a cell
 * of a mask; a number that is computed by itself, such as a sine or a random number; and a double
 * that is written as text. */
#define SRV_HEAT_WEIGHT     2.0
#define SRV_ANALYSIS_WEIGHT 1.0
#define SRV_VERIFY_WEIGHT   3.5
#define SRV_MASK_WEIGHT     0.5
#define SRV_NUMBER_WEIGHT   28.0
#define SRV_WRITTEN_WEIGHT  60.0

/* The work of a run, from which its time is predicted. */
typedef struct srv_load {
    double operations; /* operations of float32 kernels, shared by the pool */
    double tanh;       /* tanh in scores, shared by the pool */
    double plain;      /* operations in double without a vector kernel, shared by the pool */
    double alone;      /* the same, computed by one thread */
    double text;       /* bytes of the answer's text */
    double memory;     /* bytes of results and of scratch */
    double pieces;     /* number of tasks that the pool can run at the same time */
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
    double result, work;                  /* bytes of the answer's tensors; bytes of scratch */
    double with_weights, without_weights; /* bytes of the answer; both 0: it never has weights */
    bool fits;                            /* true: the run is within the limits of this service */
    bool learns;                          /* true: the route has parameters */
    size_t parameters;
    double rnn_steps, rnn_operations; /* a recurrent layer of the same width; 0: no comparison */
    double rnn_products;              /* multiply-adds of the scores, for comparison */
    srv_load load;                    /* work to compute and encode */
} srv_dry;

void srv_dry_shape(srv_dry *dry, const char *name, int rank, const size_t *dims);
/* Sets the reply. SRV_DEFER: the caller is the HTTP thread, and either the rates must be measured
 * first or the run does not fit the little memory of a request on this thread. */
srv_outcome srv_dry_reply(srv_request *req, const srv_dry *dry);

typedef struct srv_predictor srv_predictor;

srv_predictor *srv_predictor_new(void);    /* NULL: out of memory */
void srv_predictor_free(srv_predictor *p); /* NULL is allowed */
/* Returns whether the rates are measured. The first prediction measures them, which takes some
 * milliseconds. */
bool srv_predictor_ready(srv_predictor *p);

#endif
