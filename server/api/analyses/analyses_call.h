/* The state of a request POST /v1/analyses. */
#ifndef SRV_ANALYSES_CALL_H
#define SRV_ANALYSES_CALL_H

#include "api/analyses/analyses_api.h"
#include "api/common/compute.h"
#include "api/common/heatmap_object.h"
#include "api/common/mask_input.h"
#include "api/common/text_reply.h"
#include "api/stored/stored_api.h"

typedef struct srv_ids_input {
    srv_given_bits given;
    attn_tensor query, key;
} srv_ids_input;

typedef struct srv_class_input {
    srv_given_bits given;
    const char *name;
    srv_ints keys;
} srv_class_input;

typedef struct srv_segments_input {
    srv_given_bits given;
    srv_ints query, key;
} srv_segments_input;

typedef struct srv_analyses_body {
    srv_given_bits given;
    attn_tensor weights, other, grad_output, value;
    const char *run, *other_run; /* ids of stored runs that replace weights */
    srv_run_spot spot;           /* sites of the runs: only site, layer, kind and stack are read */
    srv_mask_input mask;
    bool is_causal;
    srv_union query_offset;
    srv_labels labels;
    srv_ids_input ids;
    srv_objects classes; /* array of srv_class_input */
    srv_segments_input segments;
    unsigned items;
    int64_t radius, top_k;
    srv_heat_input heatmap;
    srv_figure_input figure;
    int64_t decimals, timeout_ms;
    bool dry_run;
} srv_analyses_body;

/* An operand: a tensor of the request, or layers of a stored run. */
typedef struct srv_operand {
    attn_attention_dims dims; /* only B, Hq, L and S are set */
    const attn_mask *mask;    /* NULL: no mask was sent */
    srv_run_view *run;        /* held until the answer; NULL: no run was named */
    attn_run_layers layers;   /* the layers of the run that the request selects */
    bool stacked;             /* false: `layers` are all batch entries of run->site in order */
} srv_operand;

/* The heatmaps that an answer can hold. */
typedef enum srv_view {
    SRV_VIEW_WEIGHTS,
    SRV_VIEW_DIFFERENCE,
    SRV_VIEW_ROLLOUT,
    SRV_VIEW_GRADIENT,
    SRV_VIEWS
} srv_view;

typedef struct srv_analyses_call {
    SRV_CALL;
    srv_analyses_body body;
    size_t entries; /* batch entries of each layer: first.dims.B = layers * entries */
    srv_operand first, second;
    attn_mask_spec spec;
    srv_labels labels; /* from the body or, without labels there, from the run */
    srv_analysis analysis;
    bool compares;     /* there is a second operand */
    bool incomparable; /* weights of an operand are not shares of 1: rows have no distances */
    attn_heatmap_options heat;
    bool views[SRV_VIEWS]; /* the views that the answer holds */
    attn_heatmaps maps[SRV_VIEWS];
    attn_head_distances *between; /* [B], one for each batch entry */
    attn_head_sum *difference;    /* [B, H] sums of the difference over each head */
    attn_head_sum *gradient;      /* [B, H] sums of gradient x attention over each head */
    srv_warnings warnings;
} srv_analyses_call;

/* Holds the run with this id, and makes its selected layers the operand. Does not set the operand's
 * mask. false: a problem is set. */
bool srv_operand_of_run(srv_analyses_call *call, const srv_scope *scope, const char *id,
                        srv_operand *operand);
/* Opens the layers of a run as a source. `lanes` is the number of pool threads that read the source
 * at the same time. */
attn_status srv_operand_run_source(const srv_operand *operand, size_t lanes, attn_arena *arena,
                                   attn_weight_source *out, attn_error *err);
/* Checks that a rollout is possible: there are as many queries as keys, and the first operand has a
 * layer axis and not only batch entries. false: a problem is set. */
bool srv_analyses_may_roll(const srv_analyses_call *call, const srv_scope *scope);
/* If the request names the item and lacks an input that the item needs, returns a description of
 * the input. NULL: the answer has the item, or the request does not name it. */
const char *srv_analysis_omits(const srv_analysis *an, unsigned item);
/* Writes the legend of an analysis (srv_analysis), as a value. */
void srv_analysis_put_legend(attn_json_text *j, const void *analysis);
/* Writes attn_analysis_caveat as a value; `unused` is not read. */
void srv_analysis_put_caveat(attn_json_text *j, const void *unused);
/* The rows of attn_measure_info in answers. */
extern const srv_field srv_legend_rows[];
/* Returns the analysis of all heads of a site. Its member `source` is not set. */
srv_analysis srv_analysis_of_site(srv_request *req, const attn_run_site *site, unsigned items,
                                  const srv_labels *labels);
/* Reads the body of `data`, a srv_analyses_call, into dims, mask, options and cost. false: a
 * problem is set, or the call has to be deferred. */
bool srv_analyses_prepare(void *data);
/* Returns the heatmap options of a view. They differ from those of the request: a rollout has only
 * one head, and cells with positive and negative values are pooled by magnitude. */
attn_heatmap_options srv_analyses_view(const srv_analyses_call *call, srv_view view);
/* Writes the cells of each view as a float32 tensor, and describes them in the member `cells`. */
void srv_analyses_cells(attn_json_text *j, const srv_analyses_call *call);

#endif
