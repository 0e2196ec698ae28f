/* Analyses of weights: the route POST /v1/analyses, the analyses of stored runs, and the type
 * srv_analysis, which the field `analysis` of POST /v1/attention and of models also uses. A handler
 * reads the request and sets the whole reply in req->reply. On the HTTP thread it may return
 * SRV_DEFER instead; it is then called again on a request thread. */
#ifndef SRV_ANALYSES_API_H
#define SRV_ANALYSES_API_H

#include "api/common/heatmap_object.h"
#include "api/common/mask_input.h"
#include "request/request.h"
#include "wire/decode.h"

srv_outcome srv_analyses(srv_request *req);      /* POST /v1/analyses */
srv_outcome srv_runs_analyses(srv_request *req); /* GET /v1/runs/{id}/analyses */
srv_outcome srv_runs_heads(srv_request *req);    /* GET /v1/runs/{id}/heads */

/* The schemas of answers. */
extern const srv_field srv_analysis_answers[], srv_analyses_answers[], srv_run_heads_answers[];

/* The fields of the routes' bodies and query strings. */
extern const srv_field srv_analyses_fields[], srv_run_analyses_query[], srv_run_heads_query[];

/* The items of `analysis`, as bits in the order of srv_analysis_items. */
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
    SRV_AN_ALL = 1 << 16, /* the item "all": also sets SRV_AN_EVERY, the bits of all items above */
    SRV_AN_VALUE_NORM = 1 << 17,
    SRV_AN_ROLLOUT = 1 << 18,
    SRV_AN_GRADIENT = 1 << 19,
    SRV_AN_EVERY = SRV_AN_ALL - 1,
};

/* The names of the items, ended by NULL: all names (for POST /v1/analyses), the names for models
 * (all but gradient), and the names for a single site (all but rollout and gradient). */
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
    const attn_attention *run; /* the operation that gives the weights; NULL: none or several */
    const attn_attention_dims *valued; /* dims of `run` if it has values; else NULL */
    const attn_tensor *w_o;            /* output projection of `run`; NULL: none */
    const double *value_norms;         /* attn_value_norms; NULL: not wanted, or no values */
    const srv_warnings *warnings;      /* warnings that are added to the diagnoses */
    const srv_labels *labels;          /* never NULL; its list may be empty */
    attn_measure_options options;
    bool unshared; /* the weights are not shares of 1 (srv_weights_warn): few items are answered */
    attn_measures measures;
    attn_pattern_name *patterns;
    attn_head_distances *pairs; /* [B]: distances between the heads of each batch entry */
    attn_diagnoses diagnoses;
} srv_analysis;

/* Sets *out to the cost of the analysis on `slots` threads, and *text to an upper bound of the
 * answer's text in bytes. false: a problem is set. */
bool srv_analysis_cost(const srv_analysis *an, size_t slots, attn_cost *out, double *text);
/* Computes the results of the analysis. */
attn_status srv_analysis_run(srv_analysis *an, attn_pool *pool, attn_error *err);
/* Writes the members heads, pairs, diagnoses, omitted, legend and caveat into a JSON object that
 * the caller has begun. */
void srv_analysis_members(attn_json_text *j, const srv_analysis *an);
/* Writes the numbers that srv_analysis_members leaves out if as_tensors: num_rows, measures.…,
 * uniform.…, blocks and pairs.…, as tensors [B, H, …], or [layers, B, H, …] with a layer axis. */
void srv_analysis_tensors(attn_json_text *j, const srv_analysis *an);
/* Writes three tensors with the given names: js, cosine and centered cosine of each pair of heads.
 * `all` [B] has these distances for each batch entry. */
void srv_analysis_distances(attn_json_text *j, const srv_analysis *an, const char *const names[3],
                            const attn_head_distances *all);
/* Returns whether the item is requested and has all its inputs. */
bool srv_analysis_has(const srv_analysis *an, unsigned item);
/* Returns whether the answer has the measure. */
bool srv_analysis_shows(const srv_analysis *an, attn_measure m);
/* Returns whether the measure is defined for uniform attention. */
bool srv_analysis_has_uniform(attn_measure m);
/* Prints the analysis as text for a terminal. */
void srv_analysis_text(attn_text *t, const srv_analysis *an);
/* Writes a member that is a number. */
void srv_analysis_number(attn_json_text *j, const char *name, double value);
/* Writes the double at `place` as a value. */
void srv_analysis_put_number(attn_json_text *j, const void *place);
/* The row of a member that is a double in struct T. */
#define SRV_ANALYSIS_NUMBER(name, T, member, text)                                                 \
    SRV_WRITTEN_AT(name, "number?", srv_analysis_put_number, T, member, text, .always = true)
/* The rows of attn_pattern_name in answers. */
extern const srv_field srv_pattern_rows[];
/* Writes the member of a legend that describes a measure. */
void srv_analysis_legend(attn_json_text *j, const attn_measure_info *about);
/* Writes the member "rollout": the formula and the heatmaps. `maps` is NULL if the heatmaps are
 * tensors beside the JSON; in that case writes only the formula. */
void srv_rollout_write(attn_json_text *j, const attn_heatmaps *maps, const srv_heat_input *in,
                       const srv_labels *labels);

/* The layer, batch entry and index of a head, and the rows for these in answers. */
typedef struct srv_head_place {
    int64_t layer; /* negative: there is no layer axis */
    size_t batch, head;
} srv_head_place;
extern const srv_field srv_head_place_rows[];
/* Returns the place of a head; `batch` counts the batch entries of all layers. */
srv_head_place srv_analysis_place(const srv_analysis *an, size_t batch, size_t head);

#endif
