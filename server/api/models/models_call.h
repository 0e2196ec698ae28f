/* What the routes of /v1/models/{id} share: the steps of a request, and heatmaps of weights. */
#ifndef SRV_MODELS_CALL_H
#define SRV_MODELS_CALL_H

#include <stddef.h>

#include "api/common/compute.h"
#include "api/common/heatmap_object.h"
#include "api/common/route_fields.h"
#include "api/common/scope.h"
#include "api/sequences/sequences_api.h"
#include "request/stream.h"
#include "store/model_registry.h"

#define SRV_MODEL_COMMON_ROWS(T)                                                                   \
    SRV_HEATMAP_ROW(                                                                               \
        T, "Content of the heatmaps, one set for each sequence. The field also requests them."),   \
        SRV_FIGURE_ROW(T, "Title, labels and style of the picture."),                              \
        SRV_DECIMALS_ROW(T, SRV_SHORTEST),                                                         \
        SRV_DRY_RUN_ROW(T, "Compute nothing: return the shapes and the cost of the request."),     \
        SRV_TIMEOUT_ROW(T)

/* A request to a model. The first member of a route's own struct is a srv_pass. */
typedef struct srv_pass {
    SRV_CALL;
    const srv_model *model; /* held until the request ends */
} srv_pass;

/* Members that the srv_steps (compute.h) of all these routes have. */
#define SRV_MODEL_STEPS                                                                            \
    .unit_ns = 0.5, .limits = {.cells = {.what = "attention cells"},                               \
                               .operations = {.what = "operations"},                               \
                               .bytes = {.what = "the pass and its answer need up to"}}

/* Returns the cost of a pass or search of this extent on the worker pool. The bytes of the cost
 * include those for computing attention again in double. */
attn_model_cost srv_models_cost(const srv_pass *pass, const attn_model_pass *extent);
/* Sets the cost of the request: that of a pass, and that of an answer of `result` bytes. */
void srv_models_bill(srv_pass *pass, const attn_model_cost *cost, double result);
/* Adds to a dry run what all these routes answer, such as the number of the model's parameters. */
void srv_models_dry(const srv_pass *pass, srv_dry *dry);

/* Handles a request: holds the model that the path names, and calls the steps. On the HTTP thread
 * it returns SRV_DEFER if the model is not in memory yet. */
srv_outcome srv_models_run(srv_pass *pass, const srv_steps *steps);
/* Upper bound, in bytes, of the memory of a float of an answer: the number and its JSON. */
#define SRV_MODEL_TEXT 20.0

/* If the client asks for a picture, checks that the model has attention and that the request has
 * only one sequence. false: a problem is set. */
bool srv_models_may_draw(const srv_pass *pass, size_t sequences);
/* "encoder", "decoder", "cross"; indexed by attn_site_kind, ended by NULL. */
extern const char *const srv_model_site_kinds[];

/* The weights of one sequence: `heads` matrices [rows, cols]. */
typedef struct srv_model_weights {
    const float *weights;
    size_t heads;
    size_t head_stride; /* floats from a matrix to the next */
    size_t stride;      /* floats from a row to the next */
    size_t rows, cols;
    size_t batch;                        /* number of the sequence in the request */
    const char **row_names, **col_names; /* the tokens: [rows] and [cols] */
} srv_model_weights;

typedef struct srv_model_heatmaps {
    attn_heatmaps maps;
    srv_labels labels;
} srv_model_heatmaps;

/* Builds heatmaps of the weights. false: a problem is set. */
bool srv_models_heatmaps(srv_request *req, const srv_model_weights *weights,
                         const srv_heat_input *in, srv_model_heatmaps *out);
/* Replies with heatmaps as a picture. */
void srv_models_draw(srv_request *req, const srv_model_heatmaps *maps, const srv_heat_input *in,
                     const srv_figure_input *figure, int64_t decimals);

#endif
