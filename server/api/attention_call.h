/* One POST /v1/attention on its way: decoded body -> checked inputs -> results -> answer. */
#ifndef SRV_ATTENTION_CALL_H
#define SRV_ATTENTION_CALL_H

#include "heat_input.h"
#include "mask_input.h"
#include "plain.h"
#include "route_fields.h"

#define SRV_WEIGHTS_UNASKED 65536 /* largest weights that are answered without being asked for */

/* Items of `return`: the library's ATTN_WANT_* bits, then ours. */
enum { SRV_WANT_HEATMAP = 32, SRV_WANT_LIBRARY = 31 };

typedef struct srv_fill_input {
    uint64_t given;
    double value;
    int mode; /* 0 add, 1 replace */
} srv_fill_input;

typedef struct srv_attention_body {
    uint64_t given;
    attn_tensor query, key, value, past_key, past_value, attn_bias;
    srv_mask_input mask;
    srv_fill_input mask_fill;
    bool is_causal, enable_gqa, allow_nonfinite, explain;
    srv_union query_offset, scale;
    double softcap;
    int layout; /* attn_layout */
    int64_t num_heads, num_kv_heads;
    srv_labels labels;
    unsigned items;  /* of `return` */
    int score_stage; /* attn_stage */
    int64_t decimals, timeout_ms;
    srv_heat_input heatmap;
} srv_attention_body;

void srv_attention_init(srv_attention_body *body); /* defaults */

typedef struct srv_attention_call {
    srv_request *req;
    srv_attention_body body;
    attn_inputs in;
    attn_attention_dims dims;
    unsigned want;        /* ATTN_WANT_* */
    bool heatmap;         /* asked for */
    bool weights_omitted; /* by default, for their size */
    attn_heatmap_options heat;
    attn_cost cost;  /* of the heatmap too */
    attn_cost alone; /* the same on one thread: what explain may say of any service */
    attn_attention *op;
    attn_results results;
    attn_heatmaps maps;
    attn_warnings warnings;
} srv_attention_call;

/* Body -> inputs, dims and what is wanted. false: a problem is set. */
bool srv_attention_prepare(srv_attention_call *call);
/* Results -> reply. */
void srv_attention_json(srv_attention_call *call);
void srv_attention_text(srv_attention_call *call);

#endif
