/* The activations of a pass at some places, which lens.c and contributions.c read. */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "models/model_private.h"

static attn_status check_places(const attn_model *m, const attn_batch *batch,
                                const attn_forward_options *o, attn_error *err) {
    const size_t T = m->decoder.count ? batch->T : batch->S;
    char where[64];
    if (m->config.architecture == ATTN_MODEL_SEQ2SEQ)
        return attn_fail(err, ATTN_EARG, "places", "a seq2seq model has no residual stream");
    if (m->head.pooler.out)
        return attn_fail(err, ATTN_EARG, "places",
                         "a model with a pooled head has no logits of "
                         "tokens");
    if (o->dropout_p > 0)
        return attn_fail(err, ATTN_EARG, "dropout_p", "activations are those without dropout");
    for (size_t i = 0; i < o->place_count; i++) {
        const attn_place *p = &o->places[i];
        const bool sequence = p->sequence >= batch->B;
        snprintf(where, sizeof where, "places/%zu/%s", i, sequence ? "sequence" : "position");
        if (sequence || p->position >= T)
            return attn_fail(err, ATTN_EVALUE, where, "expected 0 to %zu, found %zu",
                             (sequence ? batch->B : T) - 1, sequence ? p->sequence : p->position);
    }
    return ATTN_OK;
}

/* Takes the memory for the vectors of a block that are kept; `block` is NULL for the input of the
 * first block. */
static attn_status take_block(model_walk *w, const model_block *block, size_t n, model_kept *kept,
                              attn_error *err) {
    const size_t D = w->model->config.width;
    const bool attends = block && block->operation->has_site;
    kept->out = attn_layers_take(&w->pass, n, D, err);
    kept->stats = attn_layers_take(&w->pass, n, 2, err);
    kept->patched = attn_arena_zeroed(w->pass.arena, n, sizeof *kept->patched);
    if (block && block->wrap != WRAP_NONE)
        kept->made = attn_layers_take(&w->pass, n, D, err);
    if (attends)
        kept->heads = attn_layers_take(&w->pass, n, attn_attend_query_width(&block->attend), err);
    ATTN_TAKEN(kept->out && kept->stats && kept->patched &&
                   (!block || block->wrap == WRAP_NONE || kept->made) && (!attends || kept->heads),
               "the activations of a pass", err);
    return ATTN_OK;
}

attn_status attn_models_take_activations(model_walk *w, const attn_batch *batch,
                                         const attn_forward_options *o, attn_error *err) {
    const attn_model *m = w->model;
    const model_stack *stack = attn_models_last(m);
    const size_t T = m->decoder.count ? batch->T : batch->S;
    if (!o->place_count)
        return ATTN_OK;
    ATTN_TRY(check_places(m, batch, o, err));
    attn_activations *a = attn_arena_zeroed(w->pass.arena, 1, sizeof *a);
    ATTN_TAKEN(a, "the activations of a pass", err);
    *a = (attn_activations){.model = m, .stack = stack, .count = o->place_count};
    a->rows = attn_arena_zeroed(w->pass.arena, a->count, sizeof *a->rows);
    a->blocks = attn_arena_zeroed(w->pass.arena, stack->count + 1, sizeof *a->blocks);
    ATTN_TAKEN(a->rows && a->blocks, "the activations of a pass", err);
    for (size_t i = 0; i < a->count; i++)
        a->rows[i] = o->places[i].sequence * T + o->places[i].position;
    for (size_t i = 0; i <= stack->count; i++)
        ATTN_TRY(take_block(w, i ? &stack->blocks[i - 1] : NULL, a->count, &a->blocks[i], err));
    w->activations = a;
    return ATTN_OK;
}

/* Returns the memory for the vectors after the first `after` blocks of a stack; NULL: no vectors of
 * this stack are kept. */
static model_kept *kept_of(const model_walk *w, const model_half *half, size_t after) {
    const attn_activations *a = w->activations;
    return a && a->stack == half->stack ? &a->blocks[after] : NULL;
}

/* Copies the rows of the places from `from` [B * T, width]. */
static void copy_rows(const attn_activations *a, float *to, const float *from, size_t width) {
    for (size_t i = 0; i < a->count; i++)
        memcpy(to + i * width, from + a->rows[i] * width, width * sizeof *to);
}

void attn_models_keep_heads(const model_walk *w, const model_half *half, size_t index,
                            const float *outputs) {
    model_kept *kept = kept_of(w, half, index + 1);
    if (kept)
        copy_rows(w->activations, kept->heads, outputs,
                  attn_attend_query_width(&half->stack->blocks[index].attend));
}

void attn_models_keep_made(const model_walk *w, const model_half *half, const model_block *block,
                           const float *made) {
    model_kept *kept = kept_of(w, half, 1 + (size_t)(block - half->stack->blocks));
    if (kept)
        copy_rows(w->activations, kept->made, made, w->model->config.width);
}

void attn_models_keep_stream(const model_walk *w, const model_half *half, size_t after,
                             const float *out, const float *stats) {
    model_kept *kept = kept_of(w, half, after);
    if (!kept)
        return;
    copy_rows(w->activations, kept->out, out, w->model->config.width);
    if (stats)
        copy_rows(w->activations, kept->stats, stats, 2);
}

void attn_models_keep_patch(const model_walk *w, const model_half *half, size_t after,
                            const attn_intervention *patch) {
    const model_kept *kept = kept_of(w, half, after);
    for (size_t i = 0; kept && i < w->activations->count; i++) {
        const size_t b = w->activations->rows[i] / half->T, t = w->activations->rows[i] % half->T;
        if ((patch->sequence == ATTN_EVERY || patch->sequence == b) &&
            (patch->position == ATTN_EVERY || patch->position == t))
            kept->patched[i] = true;
    }
}

void attn_models_activations_cost(const attn_model *m, size_t places, attn_layer_cost *cost) {
    const model_stack *stack = attn_models_last(m);
    const double n = (double)places, D = (double)m->config.width;
    if (!places)
        return;
    attn_cost_bytes(cost, sizeof(attn_activations));
    attn_cost_bytes(cost, n * sizeof(size_t));
    attn_cost_bytes(cost, (double)(stack->count + 1) * sizeof(model_kept));
    for (size_t i = 0; i <= stack->count; i++) {
        const model_block *block = i ? &stack->blocks[i - 1] : NULL;
        attn_cost_floats(cost, n * D);
        attn_cost_floats(cost, 2 * n);
        attn_cost_bytes(cost, n);
        attn_cost_floats(cost, block && block->wrap != WRAP_NONE ? n * D : 0);
        if (block && block->operation->has_site)
            attn_cost_floats(cost, n * (double)attn_attend_query_width(&block->attend));
    }
}
