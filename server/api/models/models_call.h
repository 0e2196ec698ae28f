/* Makes heatmaps of weights, for the routes of attention and generation. */
#ifndef SRV_MODELS_CALL_H
#define SRV_MODELS_CALL_H

#include <stddef.h>

#include "api/common/heatmap_object.h"
#include "api/common/route_fields.h"
#include "api/passes/passes_api.h"
#include "request/stream.h"

#define SRV_MODEL_COMMON_ROWS(T)                                                                   \
    SRV_HEATMAP_ROW(                                                                               \
        T, "Content of the heatmaps, one set for each sequence. The field also requests them."),   \
        SRV_FIGURE_ROW(T, "Title, labels and style of the picture."),                              \
        SRV_DECIMALS_ROW(T, SRV_SHORTEST),                                                         \
        SRV_DRY_RUN_ROW(T, "Compute nothing: return the shapes and the cost of the request."),     \
        SRV_TIMEOUT_ROW(T)

/* If the client asks for a picture, checks that the model has attention and that the request has
 * only one sequence. false: a problem is set. */
bool srv_models_may_draw(const srv_pass *pass, size_t sequences);

/* The weights of one sequence: `heads` matrices [rows, cols]. */
typedef struct srv_model_weights {
    const float *weights;
    size_t heads;
    size_t head_stride; /* floats from a matrix to the next */
    size_t stride;      /* floats from a row to the next */
    size_t rows, cols;
    size_t batch;                        /* index of the sequence in the request */
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
