/* The forward pass: runs the steps of its plan, one after the other. A plan whose pieces pack keys
 * themselves, or read them unpacked, supposes that all numbers are finite and not too large. If a
 * number is not, all keys and values are packed and marked (operands.c), and the steps are run
 * again. */
#include "attention/forward.h"

#include <stdatomic.h>
#include <string.h>

#include "base/try.h"

/* The function that computes a piece of each step. ATTN_STEP_PACK has none, since attn_pack runs
 * its pieces. */
static const attn_piece step_pieces[] = {
    [ATTN_STEP_STRIDED] = attn_forward_strided,
    [ATTN_STEP_BLOCKS] = attn_forward_blocks,
    [ATTN_STEP_HEADS] = attn_forward_head,
    [ATTN_STEP_WINDOWS] = attn_forward_window,
    [ATTN_STEP_GROUPS] = attn_forward_group,
    [ATTN_STEP_RANGES] = attn_forward_range,
    [ATTN_STEP_JOIN] = attn_forward_join,
    [ATTN_STEP_NORMALIZED] = attn_forward_normalized,
    [ATTN_STEP_NEAR_WEIGHTS] = attn_forward_near_weights,
    [ATTN_STEP_STRIDED_WEIGHTS] = attn_forward_strided_weights,
    [ATTN_STEP_SCORES] = attn_forward_cells,
    [ATTN_STEP_WEIGHTS] = attn_forward_cells,
    [ATTN_STEP_DROPPED] = attn_forward_cells,
    [ATTN_STEP_OUTPUTS] = attn_forward_outputs,
};

static attn_status run_piece_of_step(void *work, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = work;
    ATTN_TRY(step_pieces[f->step](f, index, lane, err));
    attn_control_tell(f->control, atomic_fetch_add(&f->done, 1) + 1, f->pieces);
    return ATTN_OK;
}

/* Runs steps until one fails, or until a piece sets f->not_finite. */
static attn_status run_steps(attn_forward *f, const attn_step *steps, size_t count,
                             attn_error *err) {
    for (size_t i = 0; i < count && !f->not_finite; i++) {
        f->step = steps[i].kind;
        if (step_pieces[f->step])
            ATTN_TRY(
                attn_pool_run(f->pool, steps[i].pieces, run_piece_of_step, f, f->control, err));
    }
    return ATTN_OK;
}

/* Computes all rows. If `packed`, all keys are packed and marked first, whatever the plan says. */
static attn_status run_rows(attn_attention *a, attn_forward *f, bool packed, attn_arena *arena,
                            attn_error *err) {
    attn_step steps[ATTN_STEPS];
    attn_packed *operands = NULL;
    const size_t count = attn_plan_steps(&f->plan, packed, steps);
    if (steps[0].kind == ATTN_STEP_PACK)
        ATTN_TRY(attn_pack(a, f->pool, f->control, arena, &operands, err));
    a->packed = f->packed = operands;
    f->not_finite = 0;
    f->pieces = 0;
    f->done = 0;
    f->hidden_rows = 0;
    for (size_t i = 0; i < count; i++)
        f->pieces += steps[i].pieces;
    return run_steps(f, steps, count, err);
}

static bool any_double(const attn_forward *f) {
    const attn_attention_dims *d = &f->a->dims;
    return memchr(f->out->stats.kind, ATTN_ROW_DOUBLE, d->B * d->Hq * d->L) != NULL;
}

attn_status attn_forward_finish(attn_forward *f, attn_stage stage, attn_pool *pool,
                                attn_arena *arena, attn_error *err) {
    attn_step steps[ATTN_STEPS];
    const bool in_double = f->plan.want & ATTN_WANT_WEIGHTS && any_double(f);
    const size_t count = attn_plan_cell_steps(&f->plan, in_double, steps);
    f->out->hidden_rows = f->hidden_rows;
    f->stage = stage;
    f->pool = pool;
    f->pieces = 0;
    if (count)
        ATTN_TRY(attn_forward_open_cells(f, arena, err));
    ATTN_TRY(run_steps(f, steps, count, err));
    if (f->plan.want & ATTN_WANT_PRESENT)
        attn_present(f->a, f->out);
    return ATTN_OK;
}

/* Runs a pass. Afterwards a->packed are the keys and values that the pass has packed for all heads,
 * or NULL if it has not packed them. */
static attn_status run_pass(attn_attention *a, unsigned want, attn_stage stage, attn_pool *pool,
                            const attn_control *control, attn_arena *arena, attn_results *out,
                            attn_error *err) {
    attn_forward f;
    attn_attention near;
    attn_mask near_mask;
    ATTN_TRY(attn_plan_check(want, stage, err));
    ATTN_TRY(attn_forward_open(&f, a, want, attn_pool_slots(pool), control, arena, out, err));
    f.pool = pool;
    if (f.strided) {
        near = *a;
        near_mask = attn_mask_near(a->mask, a->dims.near);
        near.mask = &near_mask;
        f.visible = &near;
    }
    ATTN_TRY(run_rows(a, &f, false, arena, err));
    if (f.not_finite)
        ATTN_TRY(run_rows(a, &f, true, arena, err));
    return attn_forward_finish(&f, stage, pool, arena, err);
}

attn_status attn_attention_run(attn_attention *a, unsigned want, attn_stage stage, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_results *out,
                               attn_error *err) {
    attn_results results;
    a->packed = NULL; /* the arena of packed keys of an earlier pass may have been freed */
    const attn_status status = run_pass(a, want, stage, pool, control, arena, &results, err);
    if (status || !(want & ATTN_WANT_CELLS))
        a->packed = NULL;
    if (!status)
        *out = results;
    return status;
}
