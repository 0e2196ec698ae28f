/* The memory of a forward pass (base/sweep.h): its results, its lanes, and the states of rows that
 * one step stores and a later step merges. */
#include "attention/forward.h"

#include <string.h>

#include "base/try.h"

/* --- results --- */

/* Takes memory for a result of `rows` rows of `width` elements. If the area has a base, *out
 * becomes the dense tensor with these dims. */
static void place_tensor(attn_area *area, attn_dtype dtype, size_t rows, size_t width, int rank,
                         const size_t *dims, attn_tensor *out) {
    const size_t elem = attn_dtype_size(dtype);
    size_t row = 0;
    if (!attn_size_mul(width, elem, &row))
        area->overflow = true;
    void *data = attn_area_take(area, rows, row);
    if (area->base)
        *out = attn_tensor_dense(data, dtype, rank, dims);
}

static void place_results(attn_area *area, const attn_plan *p, attn_results *out) {
    const attn_attention_dims *d = p->dims;
    const size_t rows = d->B * d->Hq * d->L, outputs = d->B * d->Ho * d->L, keys = d->B * d->S;
    double *stats = attn_area_take(area, rows, 2 * sizeof(double) + 1);
    if (area->base)
        *out = (attn_results){.stats = {stats, stats + rows, (uint8_t *)(stats + 2 * rows)}};
    if (p->want & ATTN_WANT_OUTPUT)
        place_tensor(area, d->result, outputs, d->Ev, d->output_rank, d->output, &out->output);
    if (p->want & ATTN_WANT_OUTPUT && d->factors)
        place_tensor(area, d->result, rows, d->value_width, 4,
                     (size_t[]){d->B, d->Hq, d->L, d->value_width}, &out->head_outputs);
    if (p->want & ATTN_WANT_WEIGHTS)
        place_tensor(area, d->result, outputs, d->S, d->weights_rank, d->weights, &out->weights);
    if (p->want & ATTN_WANT_WEIGHTS_DROPPED)
        place_tensor(area, d->result, outputs, d->S, d->weights_rank, d->weights,
                     &out->weights_dropped);
    if (p->want & ATTN_WANT_LOGSUMEXP)
        place_tensor(area, d->result, rows, 1, d->rows_rank, d->rows, &out->logsumexp);
    if (p->want & ATTN_WANT_SCORES)
        place_tensor(area, d->result, rows, d->S, d->weights_rank, d->scores, &out->scores);
    if (p->want & ATTN_WANT_PRESENT) { /* attn_present sets the shapes of these results */
        place_tensor(area, d->result, keys * d->Hkv, d->Ek, 0, NULL, &out->present_key);
        place_tensor(area, d->result, keys * d->Hv, d->Ev, 0, NULL, &out->present_value);
    }
}

/* --- lanes --- */

static void place_forward_lane(const void *work, attn_area *area, void *to) {
    const attn_plan *p = &((const attn_forward *)work)->plan;
    attn_forward_lane *l = to;
    attn_block_run *runs = attn_area_take(area, p->lane_blocks, sizeof *runs), counted;
    *l = (attn_forward_lane){.runs = runs};
    l->streams = attn_area_take(area, p->lane_blocks, sizeof *l->streams);
    attn_block_work_place(area, &l->in_double, &attn_kernels_ref, 1, p->dims);
    for (size_t n = 0; n < p->lane_blocks; n++) {
        attn_block_run *run = area->base ? &runs[n] : &counted;
        *run = (attn_block_run){0};
        attn_block_work_place(area, &run->work, p->kernels, p->rows, p->dims);
        run->maxima = run->work.maxima;
        run->kept = p->kept ? attn_area_take(area, 1, p->kept) : NULL;
        if (area->base &&
            n > 0) { /* the first head of a group packs a tile, and the other heads share it */
            run->work.packed_key = runs->work.packed_key;
            run->work.packed_value = runs->work.packed_value;
        }
    }
    if (p->main == ATTN_STEP_NORMALIZED) {
        const size_t row = p->rows * p->kernels->elem; /* or memory for one row in double */
        l->scores = attn_area_take(area, row > sizeof(double) ? row : sizeof(double), p->dims->S);
    }
    if (p->main == ATTN_STEP_HEADS) {
        l->head = attn_packed_place(area, p->dims, p->kernels, 1);
        if (area->base)
            l->head->one_head = true;
    }
    if (p->main == ATTN_STEP_WINDOWS)
        l->head = attn_window_place(area, p->dims, p->kernels, p->window, p->pinned);
}

static void place_cells_lane(const void *work, attn_area *area, void *to) {
    const attn_plan *p = &((const attn_forward *)work)->plan;
    *(attn_cells_scratch **)to = attn_cells_place(area, p->dims, p->kernels);
}

/* --- states of rows --- */

/* Returns the size in bytes of the state (attn_partial) of all rows of a head. */
static size_t state_bytes(const attn_attention_dims *d, const attn_kernels *k) {
    const size_t elements = d->L * (1 + k->lanes + attn_acc_room(k, d->value_width));
    return attn_align_up(elements * k->elem) + 2 * ATTN_ALIGN;
}

static size_t maxima_bytes(const attn_attention_dims *d, const attn_kernels *k) {
    return d->L * attn_block_maxima(k, d->S) * k->elem;
}

attn_partial attn_forward_state(const attn_block_work *w) {
    return (attn_partial){.max = w->max, .sum = w->sum, .acc = w->acc};
}

/* Returns the state of the rows from row i on. `at` is the memory for the state of a head. */
static attn_partial rows_at(const attn_forward *f, char *at, size_t i) {
    const attn_attention_dims *d = &f->a->dims;
    const attn_kernels *k = f->a->kernels;
    const size_t room = attn_acc_room(k, d->value_width) * k->elem, lanes = k->lanes * k->elem;
    char *sum = at + attn_align_up(d->L * room);
    return (attn_partial){
        .acc = at + i * room, .sum = sum + i * lanes, .max = sum + d->L * lanes + i * k->elem};
}

attn_partial attn_forward_strided_rows(const attn_forward *f, size_t b, size_t h, size_t i) {
    const attn_attention_dims *d = &f->a->dims;
    return rows_at(f, f->strided + (b * d->Hq + h) * state_bytes(d, f->a->kernels), i);
}

attn_partial attn_forward_range_rows(const attn_forward *f, size_t group, size_t range, size_t g) {
    const attn_attention_dims *d = &f->a->dims;
    const size_t block = (group * f->plan.ranges + range) * attn_group(d) + g;
    return rows_at(f, f->ranges.states + block * state_bytes(d, f->a->kernels), 0);
}

char *attn_forward_range_maxima(const attn_forward *f, size_t b, size_t h) {
    const attn_attention_dims *d = &f->a->dims;
    return f->ranges.maxima + (b * d->Hq + h) * maxima_bytes(d, f->a->kernels);
}

static void place_states(void *work, attn_area *area) {
    attn_forward *f = work;
    const attn_plan *p = &f->plan;
    const attn_attention_dims *d = p->dims;
    const size_t heads = d->B * d->Hq, state = state_bytes(d, p->kernels);
    if (p->ranges > 1) {
        f->ranges.states = attn_area_take(area, heads * p->ranges, state);
        f->ranges.magnitudes = attn_area_take(area, d->B * d->Hkv * p->ranges, 2 * sizeof(double));
        if (p->keeps)
            f->ranges.maxima = attn_area_take(area, heads, maxima_bytes(d, p->kernels));
    }
    if (p->strided.bundles) {
        f->strided_magnitudes =
            attn_area_take(area, heads * p->strided.pieces_a_head, 2 * sizeof(double));
        f->strided = attn_area_take(area, heads, state);
    }
}

/* --- the list of memory --- */

static const attn_sweep rows_memory = {.lane_size = sizeof(attn_forward_lane),
                                       .place_lane = place_forward_lane,
                                       .place = place_states};
static const attn_sweep cells_memory = {.lane_size = sizeof(attn_cells_scratch *),
                                        .place_lane = place_cells_lane};

bool attn_forward_count(const attn_plan *p, attn_forward_bytes *bytes) {
    attn_forward f = {.plan = *p};
    attn_results placed;
    attn_step steps[ATTN_STEPS];
    attn_area results = {0}, fallback = {0}, work = attn_sweep_count(&rows_memory, &f, p->slots);
    const bool packs = p->main == ATTN_STEP_BLOCKS || p->main == ATTN_STEP_NORMALIZED;
    const bool fills = attn_plan_cell_steps(p, false, steps);
    place_results(&results, p, &placed);
    if (fills || p->want & ATTN_WANT_WEIGHTS) {
        const attn_area cells = attn_sweep_count(&cells_memory, &f, p->slots);
        fallback.overflow = cells.overflow;
        attn_area_take(fills ? &work : &fallback, 1, cells.used);
    }
    attn_pack_count(packs ? &work : &fallback, p->dims, p->kernels, p->slots);
    *bytes = (attn_forward_bytes){work.used, results.used, fallback.used};
    return !(work.overflow || results.overflow || fallback.overflow);
}

attn_status attn_forward_open(attn_forward *f, const attn_attention *a, unsigned want, size_t slots,
                              const attn_control *control, attn_arena *arena, attn_results *out,
                              attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    attn_area counted = {0}, area;
    *f = (attn_forward){
        .a = a, .visible = a, .control = control, .out = out, .elem = attn_dtype_size(d->result)};
    attn_plan_make(d, want, slots, &f->plan);
    place_results(&counted, &f->plan, out);
    ATTN_TAKEN(attn_area_open(&area, &counted, arena), "the results", err);
    place_results(&area, &f->plan, out);
    memset(out->stats.max, 0, d->B * d->Hq * d->L * (2 * sizeof(double) + 1));
    f->lanes = attn_sweep_open(&rows_memory, f, slots, arena);
    return f->lanes ? ATTN_OK : attn_no_memory(err, "scratch");
}

attn_status attn_forward_open_cells(attn_forward *f, attn_arena *arena, attn_error *err) {
    f->cells = attn_sweep_open(&cells_memory, f, f->plan.slots, arena);
    return f->cells ? ATTN_OK : attn_no_memory(err, "scratch");
}
