/* The state of a POST /v1/attention: the decoded body, the checked inputs made from it, the
 * results, and what the answer needs. */
#ifndef SRV_ATTENTION_CALL_H
#define SRV_ATTENTION_CALL_H

#include "api/analyses_call.h"
#include "api/dry.h"
#include "api/form_input.h"
#include "api/heatmap_object.h"
#include "api/mask_input.h"
#include "api/route_fields.h"
#include "store/runs.h"

/* Items of `return`: the bits ATTN_WANT_* of the library, then two bits of the server. */
enum { SRV_WANT_HEATMAP = 64, SRV_WANT_GRADIENTS = 128, SRV_WANT_LIBRARY = 63 };

typedef struct srv_fill_input {
    uint64_t given;
    double value;
    int mode; /* 0: add, 1: replace */
} srv_fill_input;

typedef struct srv_attention_body {
    uint64_t given;
    attn_tensor query, key, value, past_key, past_value, attn_bias, grad_output;
    srv_mask_input mask;
    srv_fill_input mask_fill;
    bool is_causal, enable_gqa, allow_nonfinite, explain;
    srv_union query_offset, scale;
    double softcap;
    int layout;    /* an attn_layout */
    int precision; /* an attn_precision */
    int64_t num_heads, num_kv_heads;
    srv_labels labels;
    unsigned items;  /* bits of `return` */
    int score_stage; /* an attn_stage */
    int64_t decimals, timeout_ms;
    srv_heat_input heatmap;
    srv_figure_input figure;
    srv_score_input score;
    srv_position_input position;
    srv_projections_input projections;
    attn_tensor sinks;
    double dropout_p;
    int64_t seed, verify;
    bool dry_run, store;
    unsigned analysis; /* bits SRV_AN_* */
} srv_attention_body;

void srv_attention_init(srv_attention_body *body); /* sets the defaults in a zeroed body */

/* A tensor that the answer can hold, described from shapes alone. */
typedef struct srv_result {
    const char *name;
    const attn_tensor *tensor; /* in call->results; has data only after the run */
    unsigned want;             /* the tensor's ATTN_WANT_* bit */
    int rank;
    size_t dims[ATTN_MAX_RANK];
    double values, bytes;
} srv_result;

#define SRV_RESULTS 7

typedef struct srv_gradients {
    attn_gradients inputs;
    attn_projection_gradients projections;
} srv_gradients;

typedef struct srv_attention_call {
    srv_request *req;
    srv_attention_body body;
    attn_inputs in;               /* inputs as sent */
    attn_projections projections; /* num_heads is 0 without projections */
    attn_inputs *shaped;          /* after projections, without data before the run; else &in */
    attn_attention_dims dims;     /* dims of `shaped` */
    size_t parameters;            /* number of elements of all parameters */
    unsigned want;                /* ATTN_WANT_* bits of the tensors in the answer */
    bool heatmap;                 /* true: the answer holds heatmaps */
    bool weights_omitted;         /* true: the default answer leaves out the large weights */
    bool backward;                /* true: the answer holds gradients */
    srv_gradients *gradients;     /* NULL before the computation */
    attn_heatmap_options heat;
    attn_attention *op;
    attn_results results;
    attn_heatmaps maps;
    double kept;   /* share of the cells that are visible, for explain */
    bool analyses; /* true: the answer holds an analysis */
    srv_analysis analysis;
    srv_warnings warnings;
    attn_verification verification;
    const srv_run *run; /* the stored run, held until the answer; or NULL */
    size_t text;        /* upper bound of the answer's bytes */
} srv_attention_call;

/* The cost of a run. Tensors and heatmaps of the answer are counted exactly; the rest is counted as
 * the library reserves it. */
typedef struct srv_attention_bill {
    double cells, operations, placed; /* `placed` weights operations by the time they take */
    size_t result_bytes, work_bytes;
    double text; /* upper bound of the answer's bytes */
} srv_attention_bill;

/* Reads the body into inputs, dims and the wanted results. false: a problem is set. */
bool srv_attention_prepare(srv_attention_call *call);
/* Returns the ATTN_WANT_* bits that the library must compute for the answer and its
 * verification. */
unsigned srv_attention_computes(const srv_attention_call *call);
/* Lists the results that `want` names, in the order of the answer, and returns their number. */
size_t srv_attention_results(const srv_attention_call *call, unsigned want,
                             srv_result rows[SRV_RESULTS]);
/* Counts, from shapes alone, the cost of answering `want` on `slots` threads. false: a problem is
 * set. */
bool srv_attention_count(const srv_attention_call *call, unsigned want, size_t slots,
                         srv_attention_bill *out);
/* Refuses a request beyond the limits of the service. false: a problem that gives the numbers is
 * set. */
bool srv_attention_within(const srv_attention_call *call, const srv_attention_bill *bill);
/* Sets the reply of a dry run, or returns SRV_DEFER. */
srv_outcome srv_attention_dry(srv_attention_call *call);
/* Counts the cost of the gradients. false: *err says why this is impossible. */
bool srv_gradients_cost(const srv_attention_call *call, size_t slots, attn_cost *out,
                        attn_error *err);
/* Returns the bytes of all gradients. */
size_t srv_gradients_bytes(const srv_attention_call *call);
/* Adds the shapes of the gradients to the dry run. false: a problem is set. */
bool srv_gradients_shapes(const srv_attention_call *call, srv_dry *dry);
/* Computes the gradients after a run with projections. `heads` is the output before W_o. */
attn_status srv_gradients_run(srv_attention_call *call, const attn_tensor *heads, attn_error *err);
/* Computes the run together with its gradients; for requests without projections. */
attn_status srv_gradients_with_run(srv_attention_call *call, attn_error *err);
void srv_gradients_write(srv_json *j, const srv_attention_call *call);
void srv_gradients_text(attn_text *t, const srv_attention_call *call);
/* The two functions set the reply from the results, as JSON or as text. */
void srv_attention_json(srv_attention_call *call);
void srv_attention_text(srv_attention_call *call);

#endif
