/* A mask as a picture: its cells go through the heatmap, so that large ones are pooled, batch
 * entries and heads that are equal are drawn once, and hidden cells are those of any heatmap. */
#include <math.h>

#include "api/heatmap_object.h"
#include "api/masks_call.h"
#include "load/admission.h"
#include "request/shared.h"

/* The compiled mask as a source of weights: 1 visible, 0 hidden. */
typedef struct mask_source {
    const attn_mask *mask;
    uint8_t *keep; /* [lanes, S] */
    size_t S;
} mask_source;

static attn_status fetch(void *ctx, size_t lane, const attn_range *rows, float *weights,
                         float *logits, attn_error *err) {
    const mask_source *source = ctx;
    uint8_t *keep = source->keep + lane * source->S;
    (void)err;
    for (size_t r = 0; r < rows->rows; r++) {
        attn_mask_keep(source->mask, rows->batch, rows->head, rows->row + r, rows->col, rows->cols,
                       keep);
        for (size_t c = 0; c < rows->cols; c++) {
            weights[r * rows->cols + c] = keep[c];
            logits[r * rows->cols + c] = keep[c] ? 0 : -INFINITY;
        }
    }
    return ATTN_OK;
}

/* false: a problem is set. */
static bool pool(srv_masks_call *call, attn_heatmaps *maps) {
    static const int64_t first[] = {0};
    srv_request *req = call->req;
    attn_pool *workers = srv_request_pool(req);
    mask_source m = {.mask = call->mask, .S = call->shape.S};
    const attn_weight_source source = {.batches = call->B,
                                       .heads = call->shape.H,
                                       .rows = call->shape.L,
                                       .cols = call->shape.S,
                                       .has_logits = true,
                                       .fetch = fetch,
                                       .ctx = &m};
    attn_heatmap_options options = attn_heatmap_defaults();
    const size_t slots = attn_pool_slots(workers);
    attn_cost cost;
    attn_error err = {0};
    if (attn_mask_same_batches(call->mask)) {
        options.batch_list = first;
        options.batch_count = 1;
    }
    if (attn_mask_same_heads(call->mask)) {
        options.heads = ATTN_HEADS_LIST;
        options.head_list = first;
        options.head_count = 1;
    }
    attn_status status = attn_heatmap_cost(&options, call->B, call->shape.H, call->shape.L,
                                           call->shape.S, slots, &cost, &err);
    if (!status && !srv_admission_work(req, 0,
                                       (double)cost.work_bytes + (double)cost.result_bytes +
                                           (double)slots * (double)m.S))
        return false;
    if (!status && !(m.keep = attn_arena_zeroed(req->arena, slots, m.S ? m.S : 1)))
        status = attn_fail(&err, ATTN_ENOMEM, "", "no memory left to draw the mask");
    if (!status)
        status =
            attn_heatmap_build(&source, &options, workers, &req->control, req->arena, maps, &err);
    if (status)
        srv_problem_error(req, &err);
    return !status;
}

void srv_masks_picture(srv_masks_call *call) {
    srv_heat_input heat;
    attn_heatmaps maps;
    srv_heat_init(&heat);
    const srv_heat_answer all = {.maps = &maps,
                                 .in = &heat,
                                 .labels = &call->body.labels,
                                 .figure = &call->body.figure,
                                 .decimals = -1,
                                 .marks = true};
    if (call->cells == 0)
        srv_problem(call->req, SRV_SHAPE, "/shape", "a mask without cells cannot be drawn");
    else if (pool(call, &maps))
        srv_heat_draw(call->req, &all);
}
