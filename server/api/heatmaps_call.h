/* One POST /v1/heatmaps on its way: the caller's weights -> heatmaps and warnings -> answer. */
#ifndef SRV_HEATMAPS_CALL_H
#define SRV_HEATMAPS_CALL_H

#include "api/heatmap_object.h"
#include "api/route_fields.h"

typedef struct srv_heatmaps_body {
    uint64_t given;
    attn_tensor weights;
    srv_labels labels;
    srv_strings titles;
    srv_heat_input heatmap;
    srv_figure_input figure;
    int64_t decimals, timeout_ms;
    bool dry_run;
} srv_heatmaps_body;

typedef struct srv_heatmaps_call {
    srv_request *req;
    srv_heatmaps_body body;
    attn_attention_dims dims; /* B, Hq, L and S */
    attn_heatmap_options options;
    attn_cost cost;
    attn_heatmaps maps;
    attn_warnings warnings;
} srv_heatmaps_call;

/* Body -> dims, options and cost (heatmaps_input.c). false: a problem is set. */
bool srv_heatmaps_prepare(srv_heatmaps_call *call);

#endif
