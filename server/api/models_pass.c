/* What a pass through a model costs, before it; where it looked, as heatmaps, after it. */
#include <math.h>

#include "admission.h"
#include "app.h"
#include "models_call.h"

/* Floats that a token holds in each half of a model, in widths and layers: inputs, gates and states
 * of the LSTMs, projections, sums; and scores beside the weights. Measured, with room to spare. */
#define TOKEN_WIDTHS   24.0
#define LAYER_WIDTHS   16.0
#define SCORES         3.0
#define STEP_BYTES     65536.0 /* arenas, and blocks that are rounded up */
#define STEP_ROW_BYTES 192.0   /* what a row took, at a step: three blocks at most */
/* Scratch of the attention operation: a head of a sequence; a slot of the pool, and more of it for
 * each number of a query. */
#define HEAD_BYTES  32768.0
#define SLOT_BYTES  98304.0
#define QUERY_BYTES 5120.0

static double parameters(const srv_model *model, const char *part) {
    return (double)attn_parameters_count(attn_model_parameters(model->model), part);
}

bool srv_models_attends(const srv_model *model) {
    return attn_model_configuration(model->model)->attention != ATTN_MODEL_NONE;
}

size_t srv_models_cross_heads(const srv_model *model) {
    const attn_model_config *c = attn_model_configuration(model->model);
    switch (c->attention) {
    case ATTN_MODEL_MULTIHEAD:
    case ATTN_MODEL_LOCAL:
    case ATTN_MODEL_STRIDED:
        return c->heads;
    case ATTN_MODEL_NONE:
        return 0;
    default:
        return 1;
    }
}

/* Bytes of the attention operation for B sources, and for `rows` targets. */
static double scratch_bytes(const srv_request *req, const srv_model *model, double B, double rows) {
    const attn_model_config *c = attn_model_configuration(model->model);
    const double across = (double)srv_models_cross_heads(model);
    if (!srv_models_attends(model))
        return 0;
    return HEAD_BYTES * (B * (double)c->heads + rows * across) +
           (double)attn_pool_slots(req->app->pool) *
               (SLOT_BYTES + QUERY_BYTES * (double)c->width / across);
}

/* Bytes of a pass in which `tokens` are held at a time and `logits` rows of logits. */
static double pass_bytes(const srv_model *model, double tokens, double logits, double cells) {
    const attn_model_config *c = attn_model_configuration(model->model);
    const double widths = (TOKEN_WIDTHS + LAYER_WIDTHS * (double)c->layers) * (double)c->width;
    return sizeof(float) *
               (widths * tokens + (double)c->target_vocabulary * logits + SCORES * cells) +
           STEP_BYTES;
}

srv_pass_cost srv_models_cost(const srv_request *req, const srv_model *model, double B, double S,
                              double rows, double T) {
    const attn_model_config *c = attn_model_configuration(model->model);
    const double D = (double)c->width;
    const bool tanh = c->attention == ATTN_MODEL_ADDITIVE || c->attention == ATTN_MODEL_CONCAT;
    const double once = parameters(model, "encoder_lstm") + parameters(model, "encoder_attention"),
                 step = parameters(model, "decoder_lstm") + parameters(model, "cross_attention") +
                        parameters(model, "output_projection");
    const double inside = srv_models_attends(model) ? B * S * S : 0;
    const double across = srv_models_attends(model) ? rows * T * S : 0;
    srv_pass_cost cost = {
        .cells = (double)c->heads * inside + (double)srv_models_cross_heads(model) * across,
        .operations =
            2 * (B * S * once + rows * T * step) + 4 * D * inside + (tanh ? 16 : 4) * D * across};
    cost.bytes = pass_bytes(model, B * S + rows * T, rows * T, cost.cells) +
                 scratch_bytes(req, model, B, rows);
    return cost;
}

srv_pass_cost srv_models_search_cost(const srv_request *req, const srv_model *model, double B,
                                     double S, double rows, double T) {
    const double D = (double)attn_model_configuration(model->model)->width;
    srv_pass_cost cost = srv_models_cost(req, model, B, S, rows, T);
    /* A step's scratch goes with the step; keys and values a row, taken tokens and weights stay. */
    cost.bytes = pass_bytes(model, B * S + rows, rows, cost.cells) +
                 3 * sizeof(float) * D * rows * S + STEP_ROW_BYTES * rows * T +
                 scratch_bytes(req, model, B, rows);
    return cost;
}

bool srv_models_fits(srv_request *req, const srv_pass_cost *cost, double result, bool quiet) {
    const srv_config *config = req->app->config;
    const double need = (double)attn_arena_used(req->arena) + cost->bytes + result;
    const double limit = (double)attn_arena_limit(req->arena);
    const bool fits = cost->cells <= config->max_cells &&
                      cost->operations <= config->max_operations && need <= limit;
    if (fits || quiet)
        return fits;
    if (cost->cells > config->max_cells)
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, config->max_cells, "max_cells",
                          "%.4g attention cells; at most %.4g are allowed", cost->cells,
                          config->max_cells);
    else if (cost->operations > config->max_operations)
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, config->max_operations, "max_operations",
                          "%.4g operations; at most %.4g are allowed", cost->operations,
                          config->max_operations);
    else
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, limit, "max_request_bytes",
                          "the pass and its answer need up to %.0f bytes; a request may use %.0f",
                          need, limit);
    return false;
}

srv_outcome srv_models_dry(srv_request *req, srv_dry *dry, const srv_pass_cost *cost,
                           double result) {
    double *u = dry->load.units;
    dry->cells = cost->cells;
    dry->operations = cost->operations;
    dry->work = cost->bytes;
    dry->result = result;
    dry->fits = srv_models_fits(req, cost, result, true);
    u[SRV_UNIT_REQUEST] = 1;
    u[SRV_UNIT_CELL] = cost->cells;
    u[SRV_UNIT_GEMM] = cost->operations / 2;
    u[SRV_UNIT_BYTE] = cost->bytes + result;
    dry->load.pieces = 1;
    return srv_dry_reply(req, dry);
}

/* --- heatmaps --- */

/* Rows of the weights that are looked at. */
static attn_status fetch(void *ctx, size_t lane, const attn_range *range, float *weights,
                         float *logits, attn_error *err) {
    const srv_look *look = ctx;
    (void)lane, (void)logits, (void)err;
    for (size_t r = 0; r < range->rows; r++)
        for (size_t c = 0; c < range->cols; c++)
            weights[r * range->cols + c] =
                look->weights[range->head * look->head_stride + (range->row + r) * look->stride +
                              range->col + c];
    return ATTN_OK;
}

bool srv_models_look(srv_request *req, const srv_look *look, const srv_heat_input *in,
                     srv_looked *out) {
    const attn_attention_dims dims = {.B = 1, .Hq = look->heads, .L = look->rows, .S = look->cols};
    srv_look own = *look;
    const attn_weight_source source = {.batches = 1,
                                       .heads = look->heads,
                                       .rows = look->rows,
                                       .cols = look->cols,
                                       .fetch = fetch,
                                       .ctx = &own};
    attn_heatmap_options options;
    attn_error err = {0};
    if (!srv_heat_options(req, in, &dims, &options))
        return false;
    if (attn_heatmap_build(&source, &options, srv_request_pool(req), &req->control, req->arena,
                           &out->maps, &err)) {
        srv_heat_problem(req, &err);
        return false;
    }
    for (size_t i = 0; i < out->maps.count; i++)
        out->maps.items[i].batch = look->batch;
    out->labels = (srv_labels){
        .given = 3, .query = {look->row_names, look->rows}, .key = {look->col_names, look->cols}};
    return true;
}
