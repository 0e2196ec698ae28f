/* Heatmaps of the weights that a model has computed. */
#include "api/models/models_call.h"

#include <string.h>

#include "request/shared.h"

bool srv_models_may_draw(const srv_pass *pass, size_t sequences) {
    if (!srv_draws(pass->req))
        return true;
    if (!srv_models_attends(pass->model))
        srv_problem(pass->req, SRV_VALUE, NULL,
                    "the model \"%s\" has no attention that could be drawn", pass->model->id);
    else if (sequences > 1)
        srv_problem(pass->req, SRV_VALUE, NULL, "pictures and CSV show one sequence, found %zu",
                    sequences);
    else
        return true;
    return false;
}

/* --- heatmaps --- */

/* Copies a range of the weights of one sequence. This is attn_weight_source.fetch. */
static attn_status fetch(void *ctx, size_t lane, const attn_range *range, float *weights,
                         float *logits, attn_error *err) {
    const srv_model_weights *all = ctx;
    (void)lane, (void)logits, (void)err;
    for (size_t r = 0; r < range->rows; r++)
        memcpy(weights + r * range->cols,
               all->weights + range->head * all->head_stride + (range->row + r) * all->stride +
                   range->col,
               range->cols * sizeof *weights);
    return ATTN_OK;
}

bool srv_models_heatmaps(srv_request *req, const srv_model_weights *weights,
                         const srv_heat_input *in, srv_model_heatmaps *out) {
    const attn_attention_dims dims = {
        .B = 1, .Hq = weights->heads, .L = weights->rows, .S = weights->cols};
    srv_model_weights own = *weights;
    const attn_weight_source source = {.batches = 1,
                                       .heads = weights->heads,
                                       .rows = weights->rows,
                                       .cols = weights->cols,
                                       .fetch = fetch,
                                       .ctx = &own};
    attn_heatmap_options options;
    attn_error err = {0};
    if (!srv_heat_options(req, in, &dims, &options))
        return false;
    if (attn_heatmap_build(&source, &options, srv_request_pool(req), &req->control, req->arena,
                           &out->maps, &err))
        return srv_heat_problem(req, &err);
    for (size_t i = 0; i < out->maps.count; i++)
        out->maps.items[i].batch = weights->batch;
    srv_names *names = attn_arena_small(req->arena, sizeof *names);
    if (!names)
        return srv_problem_memory(req, NULL, "no memory is left for the labels of heatmaps");
    *names = (srv_names){.given = {{3}},
                         .query = {weights->row_names, weights->rows},
                         .key = {weights->col_names, weights->cols}};
    out->labels = (srv_labels){names, 1, true};
    return true;
}

void srv_models_draw(srv_request *req, const srv_model_heatmaps *maps, const srv_heat_input *in,
                     const srv_figure_input *figure, int64_t decimals) {
    const srv_heat_answer all = {.maps = &maps->maps,
                                 .in = in,
                                 .labels = &maps->labels,
                                 .figure = figure,
                                 .decimals = (int)decimals};
    srv_heat_draw(req, &all);
}
