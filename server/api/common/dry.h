/* Dry runs: every route that computes has the field dry_run. With it the answer has the shapes of
 * the results, the cost and a predicted time, and the results are not computed. The time is the sum
 * over the kinds of work in srv_load, each multiplied by a rate of this machine (seconds for a unit
 * of work). The first prediction measures the rates; those of weighted operations are learnt from
 * requests (load/admission.h). */
#ifndef SRV_DRY_H
#define SRV_DRY_H

#include <attn/attn.h>

#include "wire/answer.h"

#define SRV_DRY_SHAPES 40

/* How many float32 operations of the kernels take the time of a cell, which has an exponential and a
 * mask, and of an element of a query, key or value that is packed or written. */
#define SRV_CELL_OPERATIONS 10.0
#define SRV_ROW_OPERATIONS  90.0

/* The work of a run, from which its time is predicted. */
typedef struct srv_load {
    double weighted;   /* weighted operations (srv_cost), computed by the whole pool */
    double operations; /* operations of float32 kernels, computed by the whole pool */
    double tanh;       /* number of tanh in scores, computed by the whole pool */
    double plain;      /* operations in double without a vector kernel, by the whole pool */
    double alone;      /* operations in double without a vector kernel, by one thread */
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
    const char *mask; /* the mask in words; NULL: the answer does not describe it */
    double cells, operations;
    bool has_computed; /* the mask has a pattern; then `computed` of the cells are computed */
    double computed;
    double result, work;                  /* bytes of the answer's tensors; bytes of scratch */
    double with_weights, without_weights; /* bytes of the answer; both 0: no weights */
    /* The run is within the limits of this service. If not, the reply is the problem that says so. */
    bool fits;
    bool learns; /* the answer states the number of parameters */
    size_t parameters;
    double rnn_steps, rnn_operations; /* of a recurrent layer of the same width; 0: no comparison */
    double rnn_products;              /* multiply-adds of all scores, to compare with it */
    srv_load load;                    /* work to compute and encode */
    /* What srv_dry_reply sets: */
    bool has_weights, has_rnn; /* with_weights and rnn_steps are not 0 */
    bool exceeds;              /* not `fits` */
    double limit;              /* the exceeded limit and its setting, of the problem */
    const char *setting;
    double predicted_ms;
} srv_dry;

void srv_dry_shape(srv_dry *dry, const char *name, int rank, const size_t *dims);
/* Sets the reply and returns SRV_DONE. On the HTTP thread it returns SRV_DEFER instead if dry->fits
 * is false, which may be due to the small arenas on this thread. The rates must have been measured
 * there. */
srv_outcome srv_dry_reply(srv_request *req, srv_dry *dry);
extern const srv_field srv_dry_answers[]; /* the schema DryRun */
/* The row of an answer that is the reply of a dry run instead. */
#define SRV_DRY_RUN_MEMBER                                                                         \
    SRV_WRITTEN("dry_run", "DryRun", NULL, "With dry_run, and then alone: shapes and cost.")

typedef struct srv_predictor srv_predictor;

srv_predictor *srv_predictor_new(void);    /* NULL: out of memory */
void srv_predictor_free(srv_predictor *p); /* NULL is allowed */
/* Returns whether the rates have been measured, so that a prediction takes no time. */
bool srv_predictor_ready(srv_predictor *p);

#endif
