/* How long a request would take: what it does in units of work, times what a unit costs on this
 * machine, which is measured once, when the first prediction is asked for. */
#ifndef SRV_PREDICT_H
#define SRV_PREDICT_H

#include <attn/attn.h>

/* Units of work. Up to SRV_UNIT_HEATMAP they go over the pool; the others run on one thread. */
typedef enum srv_unit {
    SRV_UNIT_CELL,    /* a score cell: softmax */
    SRV_UNIT_PRODUCT, /* a multiply-add of scores or values */
    SRV_UNIT_EDIT,    /* a cell that a bias or a mask of values changes */
    SRV_UNIT_WEIGHT,  /* a cell of answered weights */
    SRV_UNIT_TANH,    /* one tanh of a learned score */
    SRV_UNIT_PACK,    /* an element of key or value */
    SRV_UNIT_CELL64,  /* the same in double */
    SRV_UNIT_PRODUCT64,
    SRV_UNIT_GEMM,     /* a multiply-add of a projection */
    SRV_UNIT_HEATMAP,  /* a weight of a heatmap */
    SRV_UNIT_REQUEST,  /* what every request takes */
    SRV_UNIT_BYTE,     /* of fresh memory */
    SRV_UNIT_NUMBER,   /* of the answer, float32 */
    SRV_UNIT_SHARE,    /* the same, as small as weights are */
    SRV_UNIT_CHECK,    /* an element that verification reads again */
    SRV_UNIT_NUMBER64, /* and float64 */
    SRV_UNIT_FLAG,     /* and boolean */
    SRV_UNIT_KEEP,     /* a cell of a mask that is resolved */
    SRV_UNIT_SINE,     /* a sine or cosine */
    SRV_UNIT_NORMAL,   /* a random number */
    SRV_UNITS
} srv_unit;

typedef struct srv_load {
    double units[SRV_UNITS];
    double pieces; /* that the pool can run at the same time */
} srv_load;

typedef struct srv_predictor srv_predictor;

srv_predictor *srv_predictor_new(void);    /* NULL: out of memory */
void srv_predictor_free(srv_predictor *p); /* NULL is fine */
/* Have the units been measured? Before, srv_predict takes some milliseconds. */
bool srv_predictor_ready(srv_predictor *p);
/* Seconds. Any thread; measures first when needed. Negative: no memory to measure with. */
double srv_predict(srv_predictor *p, attn_pool *pool, const srv_load *load);

#endif
