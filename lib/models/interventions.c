/* Interventions in a pass (attn/interventions.h). The walk calls these functions with the outputs
 * of heads and with the residual stream. */
#include <string.h>

#include "models/model_private.h"

/* For each part of a layer, the step whose state is the residual stream after this part.
 * ATTN_STREAM_INPUT is in no layer and has no step. */
static const attn_state_step part_steps[] = {
    [ATTN_STREAM_SELF_ATTENTION] = ATTN_STATE_SELF_ATTENTION_SUM,
    [ATTN_STREAM_CROSS_ATTENTION] = ATTN_STATE_CROSS_ATTENTION_SUM,
    [ATTN_STREAM_FEED_FORWARD] = ATTN_STATE_FEED_FORWARD_SUM};

/* Rows [B * T] of numbers that an intervention changes. A row has `stride` numbers, and the `n`
 * numbers from `at` on change. */
typedef struct rows {
    float *data;
    size_t B, T, stride, at, n;
    const int64_t *lengths; /* [B] tokens before padding; NULL: all T */
} rows;

static float *row_at(const rows *r, size_t b, size_t t) {
    return r->data + (b * r->T + t) * r->stride + r->at;
}

/* Returns the mean of number i over the tokens of the references. */
static float mean_of(const rows *r, const attn_intervention *v, size_t i) {
    const size_t first = v->from_count ? v->from : 0;
    const size_t end = v->from_count ? v->from + v->from_count : r->B;
    double sum = 0, count = 0;
    for (size_t b = first; b < end; b++) {
        const size_t length = r->lengths ? (size_t)r->lengths[b] : r->T;
        for (size_t t = 0; t < length; t++)
            sum += (double)row_at(r, b, t)[i];
        count += (double)length;
    }
    return (float)(sum / count);
}

/* Changes the n numbers at `to`. `means` [n] are the means over the references. */
static void change(float *to, const rows *r, const attn_intervention *v, size_t t,
                   const float *means) {
    const size_t from = v->from_position == ATTN_EVERY ? t : v->from_position;
    switch (v->kind) {
    case ATTN_ABLATE_ZERO:
        memset(to, 0, r->n * sizeof *to);
        break;
    case ATTN_ABLATE_MEAN:
        memcpy(to, means, r->n * sizeof *to);
        break;
    case ATTN_SCALE_HEAD:
        for (size_t i = 0; i < r->n; i++)
            to[i] *= (float)v->factor;
        break;
    case ATTN_PATCH_HEAD:
    case ATTN_PATCH_STREAM:
        memmove(to, row_at(r, v->from, from), r->n * sizeof *to);
        break;
    }
}

static bool concerns(size_t wanted, size_t found) {
    return wanted == ATTN_EVERY || wanted == found;
}

static void make(const rows *r, const attn_intervention *v) {
    float means[MODEL_WIDTH_MOST];
    for (size_t i = 0; v->kind == ATTN_ABLATE_MEAN && i < r->n; i++)
        means[i] = mean_of(r, v, i);
    for (size_t b = 0; b < r->B; b++)
        for (size_t t = 0; concerns(v->sequence, b) && t < r->T; t++)
            if (concerns(v->position, t))
                change(row_at(r, b, t), r, v, t, means);
}

static rows rows_of(const model_walk *w, const model_half *half, float *data, size_t stride) {
    const bool encodes = half->stack == &w->model->encoder;
    return (rows){.data = data,
                  .B = half->B,
                  .T = half->T,
                  .stride = stride,
                  .n = stride,
                  .lengths = encodes ? half->lengths : w->target_lengths};
}

void attn_models_see_heads(void *ctx, float *outputs) {
    const model_heads *h = ctx;
    const model_walk *w = h->walk;
    const model_block *block = h->block;
    const size_t index = (size_t)(block - h->half->stack->blocks), heads = block->attend.heads;
    const size_t layer = attn_models_layer_of(h->half->stack, index);
    rows r = rows_of(w, h->half, outputs, attn_attend_query_width(&block->attend));
    r.n = r.stride / heads;
    for (size_t i = 0; i < w->intervention_count; i++) {
        const attn_intervention *v = &w->interventions[i];
        if (v->kind == ATTN_PATCH_STREAM || v->site != block->operation->site || v->layer != layer)
            continue;
        for (size_t head = 0; head < heads; head++)
            if (concerns(v->head, head)) {
                r.at = head * r.n;
                make(&r, v);
            }
    }
    attn_models_keep_heads(w, h->half, index, outputs);
}

/* Returns whether an intervention patches the stream after the first `after` blocks of a stack. */
static bool patches(const attn_intervention *v, const attn_model *m, const model_stack *stack,
                    size_t after) {
    const bool decodes = stack == &m->decoder;
    if (v->kind != ATTN_PATCH_STREAM || (v->site == ATTN_SITE_DECODER) != decodes)
        return false;
    if (!after || v->part == ATTN_STREAM_INPUT)
        return !after && v->part == ATTN_STREAM_INPUT;
    return stack->blocks[after - 1].wrap != WRAP_NONE &&
           stack->blocks[after - 1].operation->step == part_steps[v->part] &&
           attn_models_layer_of(stack, after - 1) == v->layer;
}

void attn_models_see_stream(const model_walk *w, const model_half *half, size_t after, float *out,
                            const float *stats) {
    const rows r = rows_of(w, half, out, w->model->config.width);
    for (size_t i = 0; i < w->intervention_count; i++)
        if (patches(&w->interventions[i], w->model, half->stack, after)) {
            make(&r, &w->interventions[i]);
            attn_models_keep_patch(w, half, after, &w->interventions[i]);
        }
    attn_models_keep_stream(w, half, after, out, stats);
}
