/* Dry runs: a POST that computes its answer from its body has the field dry_run. If it is true, the
 * results are not computed, and the answer has their shapes, the cost and a predicted time. The
 * time is the sum over the kinds of work in srv_load, each multiplied by a rate of this machine
 * (seconds for a unit of work). The first prediction measures the rates; those of weighted
 * operations are learnt from requests (load/admission.h). */
#ifndef SRV_DRY_H
#define SRV_DRY_H

#include <attn/attn.h>

#include "wire/answer.h"

#define SRV_DRY_SHAPES 40

/* Costs besides products, each as the number of float32 operations that take the same time. */
#define SRV_CELL_OPERATIONS 10.0 /* exponential and mask of a cell */
#define SRV_ROW_OPERATIONS  90.0 /* packing or writing an element of query, key, value or output */

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
    srv_shape few[SRV_DRY_SHAPES];
    srv_shape *shapes; /* a list with room for more; NULL: `few` */
    size_t shape_count;
    const char *mask; /* the mask in words; NULL: the answer does not describe it */
    double cells, operations;
    bool has_computed; /* the mask has a pattern: `computed` of the cells are computed */
    double computed;
    double result, work;                  /* bytes of the answer's tensors, and of scratch memory */
    double with_weights, without_weights; /* bytes of the whole answer; both 0: it has no weights */
    bool fits;   /* the run is within the limits; if false, the problem of a limit is set */
    bool learns; /* the answer has num_parameters */
    size_t parameters;
    double rnn_steps, rnn_operations; /* cost of a recurrent layer of this width, or 0 */
    double rnn_products; /* multiply-adds of all scores, to compare with rnn_operations */
    srv_load load;       /* the work to compute and to encode */
    /* srv_dry_reply sets the following members. */
    bool has_weights, has_rnn; /* has_weights: with_weights is not 0; has_rnn: rnn_steps is not 0 */
    bool exceeds;              /* the opposite of `fits` */
    double limit;              /* the exceeded limit */
    const char *setting;       /* name of the setting with this limit; NULL: no setting has it */
    double predicted_ms;
} srv_dry;

/* Adds the shape of a result to the answer. `name` must outlive the answer. */
void srv_dry_shape(srv_dry *dry, const char *name, int rank, const size_t *dims);
/* Sets the reply and returns SRV_DONE. On the HTTP thread the rates must have been measured before
 * (srv_predictor_ready). On the HTTP thread it returns SRV_DEFER if dry->fits is false, because the
 * arenas of this thread are small and the run may fit on a request thread. */
srv_outcome srv_dry_reply(srv_request *req, srv_dry *dry);
extern const srv_field srv_dry_answers[]; /* the schema DryRun */
/* The row `dry_run` of a route's answer. With dry_run this member is the whole answer. */
#define SRV_DRY_RUN_MEMBER                                                                         \
    SRV_WRITTEN("dry_run", "DryRun", NULL, "With dry_run, and then alone: shapes and cost.")

typedef struct srv_predictor srv_predictor;

srv_predictor *srv_predictor_new(void);    /* NULL: out of memory */
void srv_predictor_free(srv_predictor *p); /* NULL is allowed */
/* Returns whether the rates have been measured, so that a prediction takes no time. */
bool srv_predictor_ready(srv_predictor *p);

#endif
