/* Analyses of weights. srv_analysis and its functions are shared by POST /v1/analyses, by
 * `analysis` of POST /v1/attention and by GET /v1/runs/{id}/analyses and …/heads. The types and functions under
 * the heading "POST /v1/analyses" belong to that route alone. */
#ifndef SRV_ANALYSES_CALL_H
#define SRV_ANALYSES_CALL_H

#include "api/common/compute.h"
#include "api/common/mask_input.h"
#include "api/common/route_fields.h"
#include "api/common/text_reply.h"
#include "api/figures/heatmap_object.h"
#include "api/runs/runs_call.h"

/* The items of `analysis` are bits in the order of srv_analysis_items. */
enum {
    SRV_AN_ENTROPY = 1 << 0,
    SRV_AN_CONFIDENCE = 1 << 1,
    SRV_AN_DISTANCE = 1 << 2,
    SRV_AN_POSITIONAL = 1 << 3,
    SRV_AN_LOCAL = 1 << 4,
    SRV_AN_SINK = 1 << 5,
    SRV_AN_RECEIVED = 1 << 6,
    SRV_AN_DUPLICATE = 1 << 7,
    SRV_AN_INDUCTION = 1 << 8,
    SRV_AN_STRUCTURE = 1 << 9,
    SRV_AN_BLOCKS = 1 << 10,
    SRV_AN_SCORES = 1 << 11,
    SRV_AN_CLASSES = 1 << 12,
    SRV_AN_PATTERNS = 1 << 13,
    SRV_AN_PAIRS = 1 << 14,
    SRV_AN_DIAGNOSES = 1 << 15,
    SRV_AN_ALL = 1 << 16, /* the item "all"; the bits SRV_AN_EVERY of the items above are set too */
    SRV_AN_VALUE_NORM = 1 << 17,
    SRV_AN_ROLLOUT = 1 << 18,
    SRV_AN_GRADIENT = 1 << 19,
    SRV_AN_EVERY = SRV_AN_ALL - 1,
};

/* The names of the items, ended by NULL: all; those of a model, without gradient; those of one
 * layer, without rollout and gradient. */
extern const char *const srv_analysis_items[], *const srv_analysis_items_model[],
                                                   *const srv_analysis_items_run[];

/* One analysis: the weights, the requested items, and the results. */
typedef struct srv_analysis {
    srv_request *req;
    unsigned items;
    size_t B, H, L, S;         /* shape of the weights; B is layers times batch entries */
    size_t layers;             /* number of layers; 1 if the weights have no layer axis */
    bool layered;              /* the weights have a layer axis */
    bool as_tensors;           /* the numbers of heads and pairs are tensors beside the JSON */
    attn_weight_source source; /* set before srv_analysis_run */
    const attn_mask *mask;     /* NULL: no mask */
    const attn_attention *run; /* NULL: the weights do not come from a run */
    const attn_attention_dims *valued; /* dims of the run if it has values; NULL: it has none */
    const attn_tensor *w_o;            /* projection of the run's heads; NULL: none */
    const double *value_norms;         /* attn_value_norms; NULL: not wanted, or no values */
    const srv_warnings *warnings;      /* they are added to the diagnoses */
    const srv_labels *labels;          /* no items: no labels; not NULL */
    attn_measure_options options;
    bool unshared; /* the caller's weights are no shares (srv_weights_warn): nothing is measured */
    attn_measures measures;
    attn_pattern_name *patterns;
    attn_head_distances *pairs; /* [B]: distances between the heads of each batch entry */
    attn_diagnoses diagnoses;
} srv_analysis;

/* Computes the cost of the analysis on `slots` threads, and an upper bound of the bytes of the
 * answer's text. false: a problem is set. */
bool srv_analysis_cost(const srv_analysis *an, size_t slots, attn_cost *out, double *text);
attn_status srv_analysis_run(srv_analysis *an, attn_pool *pool, attn_error *err);
/* Writes the members heads, pairs, diagnoses, omitted, legend and caveat into a JSON object that
 * the caller has begun. */
void srv_analysis_members(attn_json_text *j, const srv_analysis *an);
/* Writes the numbers that as_tensors takes out of those members: rows, measures.…, uniform.…,
 * blocks and pairs.… as tensors [B, H, …], or [layers, B, H, …] with a layer axis. */
void srv_analysis_tensors(attn_json_text *j, const srv_analysis *an);
/* Writes three tensors with a distance of each pair of heads, js, cosine and centered cosine. `all`
 * are those of each batch entry. */
void srv_analysis_distances(attn_json_text *j, const srv_analysis *an, const char *const names[3],
                            const attn_head_distances *all);
/* Returns whether the item is requested and has all its inputs. */
bool srv_analysis_has(const srv_analysis *an, unsigned item);
/* Returns whether the answer has the measure. */
bool srv_analysis_shows(const srv_analysis *an, attn_measure m);
/* Returns whether the measure is defined for uniform attention. */
bool srv_analysis_has_uniform(attn_measure m);
void srv_analysis_text(attn_text *t, const srv_analysis *an);
/* Writes a member that is a number. */
void srv_analysis_number(attn_json_text *j, const char *name, double value);
/* Writes the member "pattern". */
void srv_analysis_pattern(attn_json_text *j, const attn_pattern_name *p);
/* Writes the member of a legend that describes a measure. */
void srv_analysis_legend(attn_json_text *j, const attn_measure_info *about);
/* Writes the member "rollout": heatmaps (NULL: they are tensors beside the JSON) and formula. */
void srv_rollout_write(attn_json_text *j, const attn_heatmaps *maps, const srv_heat_input *in,
                       const srv_labels *labels);
/* Writes the members layer (if there is a layer axis), batch and head. */
void srv_analysis_place(attn_json_text *j, const srv_analysis *an, size_t batch, size_t head);

/* --- POST /v1/analyses --- */

typedef struct srv_ids_input {
    uint64_t given;
    attn_tensor query, key;
} srv_ids_input;

typedef struct srv_class_input {
    uint64_t given;
    const char *name;
    srv_ints keys;
} srv_class_input;

typedef struct srv_segments_input {
    uint64_t given;
    srv_ints query, key;
} srv_segments_input;

typedef struct srv_analyses_body {
    uint64_t given;
    attn_tensor weights, other, grad_output, value;
    const char *run, *other_run; /* ids of stored runs that replace weights */
    srv_run_spot spot;           /* the sites of the runs; only site, layer, kind and stack */
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
    size_t entries; /* batch entries of each layer: dims.B = layers * entries */
    attn_attention_dims dims, other_dims; /* of both operands; only B, Hq, L and S are set */
    attn_mask_spec spec;
    const attn_mask *mask, *other_mask; /* NULL: no mask was sent */
    srv_run_view *run, *other_run;      /* held until the answer; NULL: no run was named */
    /* The layers of the runs that the request selects. `stacked`: they are not all batch entries of
     * run->site in their order. */
    attn_run_layers layers, other_layers;
    bool stacked, other_stacked;
    srv_labels labels; /* from the body, or else from the run */
    srv_analysis analysis;
    attn_weight_source second; /* source of the second operand */
    bool compares;
    bool incomparable; /* an operand is unshared, so that rows have no distance in nats */
    attn_heatmap_options heat;
    bool views[SRV_VIEWS];
    attn_heatmaps maps[SRV_VIEWS];
    attn_head_distances *between; /* [B], one for each batch entry */
    attn_head_sum *difference, *gradient;
    srv_warnings warnings;
} srv_analyses_call;

/* Holds the run of the field `name` ("run" or "other_run") and selects its layers. `view` and
 * `layers` are the members of the call for it. false: a problem is set. */
bool srv_analyses_run(srv_analyses_call *call, const srv_scope *scope, const char *name,
                      const char *id);
/* Opens the weights of the first or the second run as a source. */
attn_status srv_analyses_run_source(const srv_analyses_call *call, bool second, size_t lanes,
                                    attn_weight_source *out, attn_error *err);
/* Refuses a rollout of batch entries, which are not layers. false: a problem is set. */
bool srv_analyses_may_roll(const srv_analyses_call *call, const srv_scope *scope);
/* Reads the body of a srv_analyses_call into dims, mask, options and cost. false: a problem is set. */
bool srv_analyses_prepare(void *data);
/* Returns the heatmap options of a view. They differ from those of the request: a rollout has only
 * one head, and cells with positive and negative values are pooled by magnitude. */
attn_heatmap_options srv_analyses_view(const srv_analyses_call *call, srv_view view);
/* Writes the cells of each view as a float32 tensor, and in the member `cells` what they are. */
void srv_analyses_cells(attn_json_text *j, const srv_analyses_call *call);

#endif
