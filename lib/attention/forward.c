/* The forward pass: runs the steps of its plan, one after the other. A plan whose pieces pack keys
 * themselves, or read them unpacked, supposes that all numbers are finite and not too large. If a
 * number is not, all keys and values are packed and marked (operands.c), and the steps are run
 * again. */
#include "attention/forward.h"

#include <stdatomic.h>
#include <stdio.h>
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

/* --- the steps of several passes together --- */

/* The steps of one pass. */
typedef struct pass_steps {
    attn_forward *f;
    attn_step steps[ATTN_STEPS];
    size_t count;
    size_t first; /* index of the first piece of the present step, counted over all passes */
    size_t name;  /* index of the operation, which errors name; SIZE_MAX: it is the only one */
} pass_steps;

/* Step number n of all passes is one task of the pool, whose pieces are those of the first pass,
 * then those of the second one, and so on. So a long pass among short ones occupies all threads. */
typedef struct together {
    pass_steps *passes;
    size_t count;
    const attn_control *control;
    size_t pieces;       /* pieces of all steps, the total for progress reports; 0: no reports */
    _Atomic size_t done; /* pieces that have ended */
} together;

/* Returns the pass that has this piece of the present step. */
static pass_steps *pass_of_piece(const together *t, size_t index) {
    size_t from = 0, to = t->count; /* the pass is one of from … to - 1 */
    while (to - from > 1) {
        const size_t middle = from + (to - from) / 2;
        if (t->passes[middle].first <= index)
            from = middle;
        else
            to = middle;
    }
    return &t->passes[from];
}

/* Puts the index of the operation in front of err->where. */
static attn_status name_pass(const pass_steps *pass, attn_status status, attn_error *err) {
    char index[24];
    if (pass->name == SIZE_MAX)
        return status;
    snprintf(index, sizeof index, "%zu", pass->name);
    return attn_error_within(status, index, err);
}

static attn_status run_piece(void *work, size_t index, size_t lane, attn_error *err) {
    together *t = work;
    const pass_steps *pass = pass_of_piece(t, index);
    attn_forward *f = pass->f;
    const attn_status status = step_pieces[f->step](f, index - pass->first, lane, err);
    if (status)
        return name_pass(pass, status, err);
    attn_control_tell(t->control, atomic_fetch_add(&t->done, 1) + 1, t->pieces);
    return ATTN_OK;
}

/* Prepares step number n of all passes, and returns the number of its pieces. A pass without
 * further steps, or with not_finite set by a piece, adds no pieces. */
static size_t open_step(together *t, size_t n) {
    size_t pieces = 0;
    for (size_t i = 0; i < t->count; i++) {
        pass_steps *pass = &t->passes[i];
        pass->first = pieces;
        if (n >= pass->count || pass->f->not_finite)
            continue;
        pass->f->step = pass->steps[n].kind;
        pieces += pass->steps[n].pieces;
    }
    return pieces;
}

/* Runs the steps of all passes. */
static attn_status run_steps(together *t, attn_pool *pool, attn_error *err) {
    for (size_t n = 0; n < ATTN_STEPS; n++) {
        const size_t pieces = open_step(t, n);
        if (pieces)
            ATTN_TRY(attn_pool_run(pool, pieces, run_piece, t, t->control, err));
    }
    return ATTN_OK;
}

/* --- the parts of a pass --- */

/* An operation and its pass. */
typedef struct member {
    attn_attention *a;
    attn_forward f;
    attn_attention near; /* with a strided pattern: f.visible, and its mask */
    attn_mask near_mask;
    size_t name; /* pass_steps.name */
} member;

static attn_status open_member(member *m, unsigned want, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_results *out,
                               attn_error *err) {
    ATTN_TRY(attn_forward_open(&m->f, m->a, want, attn_pool_slots(pool), control, arena, out, err));
    m->f.pool = pool;
    if (!m->f.strided)
        return ATTN_OK;
    m->near = *m->a;
    m->near_mask = attn_mask_near(m->a->mask, m->a->dims.near);
    m->near.mask = &m->near_mask;
    m->f.visible = &m->near;
    return ATTN_OK;
}

/* Lists the steps that compute the rows. If `packed`, all keys are packed and marked first,
 * whatever the plan says. ATTN_STEP_PACK runs here, since it divides its work itself. */
static attn_status open_rows(member *m, bool packed, attn_arena *arena, pass_steps *pass,
                             attn_error *err) {
    attn_forward *f = &m->f;
    attn_packed *operands = NULL;
    pass->f = f;
    pass->name = m->name;
    pass->count = attn_plan_steps(&f->plan, packed, pass->steps);
    if (pass->steps[0].kind == ATTN_STEP_PACK) {
        const attn_status status = attn_pack(m->a, f->pool, f->control, arena, &operands, err);
        if (status)
            return name_pass(pass, status, err);
        memmove(pass->steps, pass->steps + 1, --pass->count * sizeof *pass->steps);
    }
    m->a->packed = f->packed = operands;
    f->not_finite = 0;
    f->hidden_rows = 0;
    return ATTN_OK;
}

/* Computes all rows of the passes. With `again`, computes only the passes that have met NaN,
 * infinity or too large numbers, with all keys packed and marked. */
static attn_status run_rows(member *members, size_t count, bool again, together *t,
                            attn_arena *arena, attn_error *err) {
    attn_pool *pool = members->f.pool;
    *t = (together){.passes = t->passes, .control = members->f.control};
    for (size_t i = 0; i < count; i++) {
        pass_steps *pass = &t->passes[t->count];
        if (again && !members[i].f.not_finite)
            continue;
        ATTN_TRY(open_rows(&members[i], again, arena, pass, err));
        for (size_t n = 0; n < pass->count; n++)
            t->pieces += pass->steps[n].pieces;
        t->count++;
    }
    return run_steps(t, pool, err);
}

static bool any_double(const attn_forward *f) {
    const attn_attention_dims *d = &f->a->dims;
    return memchr(f->out->stats.kind, ATTN_ROW_DOUBLE, d->B * d->Hq * d->L) != NULL;
}

/* Lists the steps that compute scores and weights cell by cell. The caller has set pass->name. */
static attn_status open_cells(attn_forward *f, attn_stage stage, attn_arena *arena,
                              pass_steps *pass, attn_error *err) {
    const bool in_double = f->plan.want & ATTN_WANT_WEIGHTS && any_double(f);
    pass->f = f;
    pass->count = attn_plan_cell_steps(&f->plan, in_double, pass->steps);
    f->out->hidden_rows = f->hidden_rows;
    f->stage = stage;
    return pass->count ? attn_forward_open_cells(f, arena, err) : ATTN_OK;
}

static void close_member(attn_forward *f) {
    if (f->plan.want & ATTN_WANT_PRESENT)
        attn_present(f->a, f->out);
}

attn_status attn_forward_finish(attn_forward *f, attn_stage stage, attn_pool *pool,
                                attn_arena *arena, attn_error *err) {
    pass_steps pass = {.name = SIZE_MAX};
    together t = {.passes = &pass, .count = 1, .control = f->control};
    f->pool = pool;
    ATTN_TRY(open_cells(f, stage, arena, &pass, err));
    ATTN_TRY(run_steps(&t, pool, err));
    close_member(f);
    return ATTN_OK;
}

/* Runs the passes of all members. Afterwards a->packed points to the keys and values that the pass
 * has packed for all heads, or is NULL if the pass has not packed them. */
static attn_status run_members(member *members, pass_steps *passes, size_t count, unsigned want,
                               attn_stage stage, attn_pool *pool, const attn_control *control,
                               attn_arena *arena, attn_results *out, attn_error *err) {
    together t = {.passes = passes};
    ATTN_TRY(attn_plan_check(want, stage, err));
    for (size_t i = 0; i < count; i++)
        ATTN_TRY(open_member(&members[i], want, pool, control, arena, &out[i], err));
    ATTN_TRY(run_rows(members, count, false, &t, arena, err));
    ATTN_TRY(run_rows(members, count, true, &t, arena, err));
    t = (together){.passes = passes, .count = count, .control = control};
    for (size_t i = 0; i < count; i++) {
        passes[i].name = members[i].name;
        ATTN_TRY(open_cells(&members[i].f, stage, arena, &passes[i], err));
    }
    ATTN_TRY(run_steps(&t, pool, err));
    for (size_t i = 0; i < count; i++)
        close_member(&members[i].f);
    return ATTN_OK;
}

attn_status attn_attention_run(attn_attention *a, unsigned want, attn_stage stage, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_results *out,
                               attn_error *err) {
    member one; /* not zeroed, since `near` is large and most operations do not need it */
    pass_steps pass;
    attn_results results;
    one.a = a;
    one.name = SIZE_MAX;
    a->packed = NULL; /* the arena of packed keys of an earlier pass may have been freed */
    const attn_status status =
        run_members(&one, &pass, 1, want, stage, pool, control, arena, &results, err);
    if (status || !(want & ATTN_WANT_CELLS))
        a->packed = NULL;
    if (!status)
        *out = results;
    return status;
}

attn_status attn_attention_run_each(attn_attention *const *ops, size_t count, unsigned want,
                                    attn_stage stage, attn_pool *pool, const attn_control *control,
                                    attn_arena *arena, attn_results *out, attn_error *err) {
    member *members = attn_arena_array(arena, count + 1, sizeof *members);
    pass_steps *passes = attn_arena_array(arena, count + 1, sizeof *passes);
    attn_results *results = attn_arena_array(arena, count + 1, sizeof *results);
    ATTN_TAKEN(members && passes && results, "the operations", err);
    for (size_t i = 0; i < count; i++) {
        members[i].a = ops[i];
        members[i].name = i;
        ops[i]->packed = NULL;
    }
    const attn_status status =
        count ? run_members(members, passes, count, want, stage, pool, control, arena, results, err)
              : ATTN_OK;
    for (size_t i = 0; i < count; i++)
        if (status || !(want & ATTN_WANT_CELLS))
            ops[i]->packed = NULL;
    if (!status)
        memcpy(out, results, count * sizeof *out);
    return status;
}

size_t attn_attention_each_bytes(size_t count) {
    return (count + 1) * (sizeof(member) + sizeof(pass_steps) + sizeof(attn_results));
}
