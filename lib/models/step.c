/* A step of training: forward pass, losses and backward pass. */
#include <math.h>

#include "base/try.h"
#include "models/model_private.h"

/* Computes the gradients of the guidance and diversity losses with respect to the weights of the
 * last cross-attention, and stores them for the backward pass. Padding does not count: in rows of
 * padding the alignment is 0, and the similarity loss reads only the rows[b] rows before padding.
 * Does nothing for a model without cross-attention. */
static attn_status add_weight_losses(model_walk *w, const attn_batch *batch,
                                     const attn_step_options *options, attn_error *err) {
    const model_stack *stack = &w->model->decoder;
    const size_t last = attn_models_last_block(stack, &attn_models_cross);
    if (last == stack->count)
        return ATTN_OK;
    const attn_attend_saved *s = &w->decoder.traces[last].attend;
    const float *weights = s->results.weights.data;
    const size_t B = s->B, H = stack->blocks[last].attend.heads, L = s->L, S = s->S;
    int64_t *rows = attn_arena_zeroed(w->pass.arena, B, sizeof *rows);
    float *dweights = attn_layers_zeroed(&w->pass, B * H * L, S, err);
    ATTN_TAKEN(rows && dweights, "the gradients of the weights", err);
    for (size_t at = 0; at < B * L; at++)
        rows[at / L] += batch->expected[at] != w->model->config.pad;
    if (options->guidance > 0 && batch->alignment)
        attn_alignment_loss(dweights, weights, batch->alignment, B, H, L, S, options->guidance);
    if (options->diversity > 0)
        attn_similarity_loss(dweights, weights, rows, B, H, L, S, options->diversity);
    w->decoder.traces[last].dweights = dweights;
    return ATTN_OK;
}

/* Returns how many ids a model predicts for each sequence. */
static size_t expected_length(const attn_model *m, const attn_batch *batch) {
    return m->head.pooler.out ? 1 : m->decoder.count ? batch->T : batch->S;
}

attn_status attn_model_step(attn_model *model, const attn_batch *batch,
                            const attn_step_options *options, attn_arena *arena, attn_pool *pool,
                            const attn_control *control, attn_cross_entropy_loss *loss,
                            attn_error *err) {
    model_walk w = {.model = model,
                    .pass = {.arena = arena,
                             .pool = pool,
                             .control = control,
                             .training = true,
                             .seed = options->seed}};
    ATTN_TRY(attn_models_check_batch(model, batch, err));
    ATTN_TRY(attn_models_check_target(model, batch->expected, batch->B,
                                      expected_length(model, batch), "expected", err));
    const bool has_weight_losses = options->guidance > 0 || options->diversity > 0;
    ATTN_TRY(attn_models_forward(&w, batch, has_weight_losses, err));
    if (has_weight_losses)
        ATTN_TRY(add_weight_losses(&w, batch, options, err));
    attn_cross_entropy_loss found;
    found.loss = attn_cross_entropy(w.logits, w.logits, batch->expected, w.rows,
                                    model->config.target_vocabulary, model->config.pad,
                                    options->smoothing, &found.rows, &found.right);
    if (!isfinite(found.loss))
        return attn_fail(err, ATTN_ENONFINITE, "loss", "the loss is not finite");
    ATTN_TRY(attn_models_backward(&w, w.logits, err));
    *loss = found;
    return ATTN_OK;
}
