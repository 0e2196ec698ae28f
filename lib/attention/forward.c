/* The forward pass: its memory, its results, and its tasks, which the pool calls pieces. There are
 * four kinds of tasks (attn_way in plan.h):
 *
 *   long inputs   keys and values of all heads are packed first; a task then computes a few blocks
 *   few keys      if a query sees few keys, a task packs the keys that its blocks see, when they do
 *   small heads   a task packs one key/value head and computes all blocks of its group, so that
 *                 packed keys and values stay in the caches
 *   few rows      a task computes the rows of all heads of a group together, so that each key and
 *                 value is read once, and does not pack them */
#include "attention/forward.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "attention/cells.h"

attn_status attn_forward_check(unsigned want, attn_stage stage, attn_error *err) {
    const unsigned known = ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP |
                           ATTN_WANT_SCORES | ATTN_WANT_PRESENT | ATTN_WANT_WEIGHTS_DROPPED |
                           ATTN_WANT_CELLS;
    if (want & ~known)
        return attn_fail(err, ATTN_EARG, "want", "the bits 0x%x want nothing", want & ~known);
    if (want & ATTN_WANT_SCORES && (unsigned)stage > ATTN_STAGE_PROBS)
        return attn_fail(err, ATTN_EARG, "stage", "there is no stage of the number %d", (int)stage);
    return ATTN_OK;
}

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

void attn_forward_place_results(attn_area *area, const attn_plan *p, attn_results *out) {
    const attn_attention_dims *d = p->dims;
    const size_t rows = d->B * d->Hq * d->L, keys = d->B * d->Hkv * d->S;
    double *stats = attn_area_take(area, rows, 2 * sizeof(double) + 1);
    if (area->base)
        *out = (attn_results){.stats = {stats, stats + rows, (uint8_t *)(stats + 2 * rows)}};
    if (p->want & ATTN_WANT_OUTPUT)
        place_tensor(area, d->result, rows, d->Ev, d->output_rank, d->output, &out->output);
    if (p->want & ATTN_WANT_WEIGHTS)
        place_tensor(area, d->result, rows, d->S, d->weights_rank, d->weights, &out->weights);
    if (p->want & ATTN_WANT_WEIGHTS_DROPPED)
        place_tensor(area, d->result, rows, d->S, d->weights_rank, d->weights,
                     &out->weights_dropped);
    if (p->want & ATTN_WANT_LOGSUMEXP)
        place_tensor(area, d->result, rows, 1, d->rows_rank, d->rows, &out->logsumexp);
    if (p->want & ATTN_WANT_SCORES)
        place_tensor(area, d->result, rows, d->S, d->weights_rank, d->weights, &out->scores);
    if (p->want & ATTN_WANT_PRESENT) { /* attn_present sets their shapes */
        place_tensor(area, d->result, keys, d->Ek, 0, NULL, &out->present_key);
        place_tensor(area, d->result, keys, d->Ev, 0, NULL, &out->present_value);
    }
}

/* --- memory --- */

void attn_forward_place_lane(attn_area *area, const attn_plan *p, attn_forward_lane *l) {
    attn_block_run *runs = attn_area_take(area, p->runs, sizeof *runs);
    *l = (attn_forward_lane){.runs = runs};
    l->streams = attn_area_take(area, p->runs, sizeof *l->streams);
    attn_block_work_place(area, &l->in_double, &attn_kernels_ref, 1, p->dims);
    attn_block_run counted;
    for (size_t n = 0; n < p->runs; n++) {
        attn_block_run *run = area->base ? &runs[n] : &counted;
        *run = (attn_block_run){0};
        attn_block_work_place(area, &run->work, p->kernels, p->rows, p->dims);
        run->maxima = run->work.maxima;
        run->kept = p->kept ? attn_area_take(area, 1, p->kept) : NULL;
        if (area->base &&
            n > 0) { /* the heads of a group share the tile that the first one packs */
            run->work.packed_key = runs->work.packed_key;
            run->work.packed_value = runs->work.packed_value;
        }
    }
    if (p->way == ATTN_WAY_HEADS) {
        l->head = attn_packed_place(area, p->dims, p->kernels, 1);
        if (area->base)
            l->head->one_head = true;
    }
    if (p->way == ATTN_WAY_WINDOWS)
        l->head = attn_window_place(area, p->dims, p->kernels, p->window, p->pinned);
}

/* Returns the bytes of a block's state (attn_partial) over a range of keys. */
static size_t sums_bytes(const attn_attention_dims *d, const attn_kernels *k) {
    const size_t elements = d->L * (1 + k->lanes + attn_acc_room(k, d->Ev));
    return attn_align_up(elements * k->elem) + 2 * ATTN_ALIGN;
}

static size_t maxima_bytes(const attn_attention_dims *d, const attn_kernels *k) {
    return d->L * attn_block_maxima(k, d->S) * k->elem;
}

void attn_forward_place_parts(attn_area *area, const attn_plan *p, attn_forward_parts *parts) {
    const attn_attention_dims *d = p->dims;
    *parts = (attn_forward_parts){0};
    parts->sums = attn_area_take(area, d->B * d->Hq * p->parts, sums_bytes(d, p->kernels));
    parts->magnitudes = attn_area_take(area, d->B * d->Hkv * p->parts, 2 * sizeof(double));
    if (p->keeps)
        parts->maxima = attn_area_take(area, d->B * d->Hq, maxima_bytes(d, p->kernels));
}

char *attn_forward_place_strided(attn_area *area, const attn_plan *p, double **magnitudes) {
    const attn_attention_dims *d = p->dims;
    *magnitudes =
        attn_area_take(area, d->B * d->Hq * p->strided.pieces_a_head, 2 * sizeof **magnitudes);
    return attn_area_take(area, d->B * d->Hq, sums_bytes(d, p->kernels));
}

attn_cells_scratch **attn_forward_place_cells(attn_area *area, const attn_plan *p) {
    attn_cells_scratch **lanes = attn_area_take(area, p->slots, sizeof *lanes);
    for (size_t s = 0; s < p->slots; s++) {
        attn_cells_scratch *scratch = attn_cells_place(area, p->dims, p->kernels);
        if (area->base)
            lanes[s] = scratch;
    }
    return lanes;
}

/* Allocates the lanes, each in one piece of memory, since each large allocation from the system
 * takes time. */
static attn_status take_lanes(attn_forward *f, attn_arena *arena, attn_error *err) {
    attn_forward_lane counted_lane;
    attn_area counted = {0};
    attn_area array = {0};
    attn_area_take(&array, f->plan.slots, sizeof *f->lanes);
    f->lanes = array.overflow ? NULL : attn_arena_take(arena, array.used);
    bool ok = f->lanes != NULL;
    attn_forward_place_lane(&counted, &f->plan, &counted_lane);
    for (size_t s = 0; ok && s < f->plan.slots; s++) {
        attn_area area;
        ok = attn_area_open(&area, &counted, arena);
        if (ok)
            attn_forward_place_lane(&area, &f->plan, &f->lanes[s]);
    }
    return ok ? ATTN_OK : attn_fail(err, ATTN_ENOMEM, "", "no memory left for scratch");
}

attn_status attn_forward_open(attn_forward *f, const attn_attention *a, unsigned want, size_t slots,
                              const attn_control *control, attn_arena *arena, attn_results *out,
                              attn_error *err) {
    attn_area counted = {0}, area;
    *f = (attn_forward){
        .a = a, .control = control, .out = out, .elem = attn_dtype_size(a->dims.result)};
    attn_plan_make(&a->dims, want, slots, &f->plan);
    attn_forward_place_results(&counted, &f->plan, out);
    if (!attn_area_open(&area, &counted, arena))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the results");
    attn_forward_place_results(&area, &f->plan, out);
    memset(out->stats.max, 0, a->dims.B * a->dims.Hq * a->dims.L * (2 * sizeof(double) + 1));
    return take_lanes(f, arena, err);
}

/* --- states of rows --- */

static attn_partial partial_of(const attn_block_work *w) {
    return (attn_partial){.max = w->max, .sum = w->sum, .acc = w->acc};
}

/* Returns the state of the rows from row i on, in the memory `at` of sums_bytes bytes. */
static attn_partial rows_at(const attn_forward *f, char *at, size_t i) {
    const attn_attention_dims *d = &f->a->dims;
    const attn_kernels *k = f->a->kernels;
    const size_t room = attn_acc_room(k, d->Ev) * k->elem, lanes = k->lanes * k->elem;
    char *sum = at + attn_align_up(d->L * room);
    return (attn_partial){
        .acc = at + i * room, .sum = sum + i * lanes, .max = sum + d->L * lanes + i * k->elem};
}

attn_partial attn_forward_strided_rows(const attn_forward *f, size_t b, size_t h, size_t i) {
    const attn_attention_dims *d = &f->a->dims;
    return rows_at(f, f->strided + (b * d->Hq + h) * sums_bytes(d, f->a->kernels), i);
}

/* --- tasks over packed keys ---
 *
 * The keys and values of a long head exceed the second-level cache, so each block would fetch all
 * of them from memory again. Therefore a task takes several blocks together over the keys: the keys
 * are divided into ranges of plan.part_keys keys, and each block visits a range before any block
 * visits the next one. The numbers give the order:
 *
 *              range 0   range 1   range 2
 *   block 0       1         5         9      between two ranges, a block keeps its maxima, sums and
 *   block 1       2         6        10      packed queries in its attn_block_work
 *   block 2       3         7        11
 *   block 3       4         8        12 */

void attn_forward_add_strided(const attn_forward *f, attn_block_run *run) {
    const attn_block *block = &run->stream.block;
    const attn_partial into = partial_of(&run->work),
                       from = attn_forward_strided_rows(f, block->b, block->h, block->i);
    f->a->kernels->merge(&into, &from, block->rows, f->a->dims.Ev);
}

/* Computes `count` blocks of head (b, h) together. The first block begins at row i. */
static attn_status run_abreast(attn_forward *f, size_t b, size_t h, size_t i, size_t count,
                               const attn_packed *packed, attn_forward_lane *l, attn_error *err) {
    const size_t L = f->a->dims.L, S = f->a->dims.S, rows = f->a->kernels->rows;
    attn_status status = ATTN_OK;
    for (size_t n = 0; n < count && status == ATTN_OK; n++, i += rows) {
        attn_block_run *run = &l->runs[n];
        run->stream =
            (attn_stream){.block = {b, h, i, L - i < rows ? L - i : rows}, .w = &run->work};
        status = attn_forward_begin(f, packed, run, err);
    }
    size_t from = 0;
    do {
        for (size_t n = 0; n < count && status == ATTN_OK; n++) {
            attn_stream *s = &l->runs[n].stream;
            s->from = from;
            s->to = from + f->plan.part_keys;
            s->goes_on = from > 0;
            attn_block_stream(f->near ? f->near : f->a, s, 1, packed);
        }
        from += f->plan.part_keys;
        if (from < S)
            attn_pool_yield(f->pool);
    } while (from < S);
    for (size_t n = 0; n < count && status == ATTN_OK; n++) {
        if (f->near)
            attn_forward_add_strided(f, &l->runs[n]);
        status = attn_forward_end(f, &l->runs[n], l, err);
    }
    return status;
}

/* Computes blocks first … last - 1 of head (b, h). */
static attn_status run_blocks(attn_forward *f, size_t b, size_t h, size_t first, size_t last,
                              const attn_packed *packed, attn_forward_lane *l, attn_error *err) {
    attn_status status = ATTN_OK;
    for (size_t n = first; n < last && status == ATTN_OK; n += f->plan.abreast) {
        const size_t left = last - n, count = left < f->plan.abreast ? left : f->plan.abreast;
        status = run_abreast(f, b, h, n * f->a->kernels->rows, count, packed, l, err);
    }
    return status;
}

static attn_status run_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = ctx;
    const size_t head = index / f->plan.pieces_a_head, Hq = f->a->dims.Hq;
    const size_t first = index % f->plan.pieces_a_head * f->plan.blocks_a_piece;
    const size_t left = f->plan.row_blocks - first;
    const size_t count = left < f->plan.blocks_a_piece ? left : f->plan.blocks_a_piece;
    return run_blocks(f, head / Hq, head % Hq, first, first + count, f->packed, &f->lanes[lane],
                      err);
}

/* --- tasks that pack a key/value head --- */

attn_status attn_forward_end_as_is(attn_forward *f, attn_block_run *run, double key, double value,
                                   attn_forward_lane *l, attn_error *err) {
    const double most = attn_most_packed(f->a->kernels);
    if (!(key <= most && value <= most)) {
        atomic_store(&f->not_finite, 1);
        return ATTN_OK;
    }
    run->in_double |= attn_forward_overflowing(f->a, run, key, value);
    return attn_forward_end(f, run, l, err);
}

static attn_status run_head(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = ctx;
    attn_forward_lane *l = &f->lanes[lane];
    const attn_attention_dims *d = &f->a->dims;
    const size_t b = index / d->Hkv, hkv = index % d->Hkv, group = attn_group(d);
    attn_status status = ATTN_OK;
    if (!attn_pack_head(f->a, l->head, b, hkv, l->runs->work.source)) {
        atomic_store(&f->not_finite, 1);
        return ATTN_OK;
    }
    for (size_t h = hkv * group; h < (hkv + 1) * group && status == ATTN_OK; h++)
        status = run_blocks(f, b, h, 0, f->plan.row_blocks, l->head, l, err);
    return status;
}

/* --- tasks of few rows ---
 *
 * Many keys are divided into plan.parts ranges (parts), so that even a single group occupies all
 * threads of the pool:
 *
 *   keys of a group   [ part 0 | part 1 | … ]     a task computes max, sum and acc over one part
 *                         \        |      /
 *                           merged in order       then a task for each group ends its rows
 *
 * A kept numerator is relative to the running maximum after its tile, which is stored with it
 * (maxima). So the weights have the same bits as without the division, and as single cells that are
 * computed later. */

/* Returns the memory for the state of a block over a part. `g` is the number of its head in the
 * group. */
static attn_partial partial_at(const attn_forward *f, size_t group, size_t part, size_t g) {
    const attn_attention_dims *d = &f->a->dims;
    const attn_kernels *k = f->a->kernels;
    const size_t heads = attn_group(d);
    return rows_at(
        f, f->in_parts.sums + ((group * f->plan.parts + part) * heads + g) * sums_bytes(d, k), 0);
}

static void copy_partial(const attn_forward *f, const attn_partial *to, const attn_partial *from) {
    const attn_attention_dims *d = &f->a->dims;
    const attn_kernels *k = f->a->kernels;
    memcpy(to->max, from->max, d->L * k->elem);
    memcpy(to->sum, from->sum, d->L * k->lanes * k->elem);
    memcpy(to->acc, from->acc, d->L * attn_acc_room(k, d->Ev) * k->elem);
}

/* Prepares the blocks of all heads of group `index` for a pass over keys from … to - 1. If the keys
 * are divided into parts, all parts of a head store their maxima in f->in_parts.maxima. */
static attn_status begin_group(const attn_forward *f, size_t index, size_t from, size_t to,
                               attn_forward_lane *l, attn_error *err) {
    const attn_attention_dims *d = &f->a->dims;
    const size_t heads = attn_group(d);
    attn_status status = ATTN_OK;
    for (size_t g = 0; g < heads && status == ATTN_OK; g++) {
        attn_block_run *run = &l->runs[g];
        const size_t b = index / d->Hkv, h = index % d->Hkv * heads + g;
        run->stream = (attn_stream){.block = {b, h, 0, d->L}, .w = &run->work};
        status = attn_forward_begin(f, NULL, run, err);
        run->stream.from = from;
        run->stream.to = to;
        if (f->in_parts.maxima)
            run->work.maxima =
                f->in_parts.maxima + (b * d->Hq + h) * maxima_bytes(d, f->a->kernels);
        l->streams[g] = run->stream;
    }
    return status;
}

/* Ends the blocks of a group after the pass over all keys, whose largest magnitudes are given. */
static attn_status end_group(attn_forward *f, attn_forward_lane *l, double key_magnitude,
                             double value_magnitude, attn_error *err) {
    attn_status status = ATTN_OK;
    for (size_t g = 0; g < attn_group(&f->a->dims) && status == ATTN_OK; g++)
        status = attn_forward_end_as_is(f, &l->runs[g], key_magnitude, value_magnitude, l, err);
    return status;
}

static attn_status run_group(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = ctx;
    attn_forward_lane *l = &f->lanes[lane];
    const attn_block_work *shared = &l->runs->work;
    attn_status status = begin_group(f, index, 0, f->a->dims.S, l, err);
    if (status != ATTN_OK)
        return status;
    attn_block_stream(f->a, l->streams, attn_group(&f->a->dims), NULL);
    return end_group(f, l, shared->key_magnitude, shared->value_magnitude, err);
}

/* Task: computes a group over one part of its keys, and stores the state of its blocks. */
static attn_status run_part(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = ctx;
    attn_forward_lane *l = &f->lanes[lane];
    const attn_attention_dims *d = &f->a->dims;
    const size_t group = index / f->plan.parts, part = index % f->plan.parts, heads = attn_group(d);
    const size_t keys = attn_plan_part(&f->plan), from = part * keys;
    attn_status status = begin_group(f, group, from, from + keys, l, err);
    if (status != ATTN_OK)
        return status;
    attn_block_stream(f->a, l->streams, heads, NULL);
    f->in_parts.magnitudes[2 * index] = l->runs->work.key_magnitude;
    f->in_parts.magnitudes[2 * index + 1] = l->runs->work.value_magnitude;
    for (size_t g = 0; g < heads; g++) {
        const attn_partial from_work = partial_of(&l->runs[g].work),
                           to = partial_at(f, group, part, g);
        copy_partial(f, &to, &from_work);
    }
    return ATTN_OK;
}

/* Task: merges the states of a group over all parts, and ends its blocks. */
static attn_status join_parts(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = ctx;
    attn_forward_lane *l = &f->lanes[lane];
    const attn_attention_dims *d = &f->a->dims;
    double key_magnitude = 0, value_magnitude = 0;
    attn_status status = begin_group(f, index, 0, d->S, l, err);
    for (size_t part = 0; status == ATTN_OK && part < f->plan.parts; part++) {
        const double *most = &f->in_parts.magnitudes[2 * (index * f->plan.parts + part)];
        key_magnitude = fmax(key_magnitude, most[0]);
        value_magnitude = fmax(value_magnitude, most[1]);
        for (size_t g = 0; g < attn_group(d); g++) {
            const attn_partial into = partial_of(&l->runs[g].work),
                               from = partial_at(f, index, part, g);
            if (part)
                f->a->kernels->merge(&into, &from, d->L, d->Ev);
            else
                copy_partial(f, &into, &from);
        }
    }
    return status == ATTN_OK ? end_group(f, l, key_magnitude, value_magnitude, err) : status;
}

/* --- the pass --- */

typedef struct told_task {
    attn_forward *f;
    attn_piece run;
} told_task;

static attn_status run_told(void *ctx, size_t index, size_t lane, attn_error *err) {
    const told_task *task = ctx;
    attn_forward *f = task->f;
    const attn_status status = task->run(f, index, lane, err);
    attn_control_tell(f->control, atomic_fetch_add(&f->done, 1) + 1, f->tasks);
    return status;
}

/* Runs tasks, and tells the progress of the pass if somebody wants it. */
static attn_status run_tasks(attn_forward *f, size_t count, attn_piece run, attn_error *err) {
    told_task task = {f, run};
    if (!f->control || !f->control->progress)
        return attn_pool_run(f->pool, count, run, f, f->control, err);
    return attn_pool_run(f->pool, count, run_told, &task, f->control, err);
}

static size_t count_groups(const attn_forward *f) {
    const attn_attention_dims *d = &f->a->dims;
    return d->L && d->Hq ? d->B * d->Hkv : 0;
}

static size_t count_tasks(const attn_forward *f) {
    const attn_attention_dims *d = &f->a->dims;
    if (f->packed)
        return d->B * d->Hq * f->plan.pieces_a_head;
    if (f->plan.way == ATTN_WAY_WINDOWS)
        return d->B * d->Hkv * f->plan.pieces_a_head;
    return f->plan.way == ATTN_WAY_HEADS ? d->B * d->Hkv : count_groups(f) * f->plan.parts;
}

static attn_status run_groups(attn_forward *f, attn_arena *arena, attn_error *err) {
    if (f->plan.parts == 1)
        return run_tasks(f, count_tasks(f), run_group, err);
    attn_area counted = {0}, area;
    attn_forward_place_parts(&counted, &f->plan, &f->in_parts);
    if (!attn_area_open(&area, &counted, arena))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for sums of parts");
    attn_forward_place_parts(&area, &f->plan, &f->in_parts);
    attn_status status = run_tasks(f, count_tasks(f), run_part, err);
    return status ? status
                  : attn_pool_run(f->pool, count_groups(f), join_parts, f, f->control, err);
}

static attn_status run_pieces(attn_forward *f, attn_arena *arena, attn_error *err) {
    const size_t count = count_tasks(f);
    if (f->packed)
        return run_tasks(f, count, run_piece, err);
    if (f->plan.way == ATTN_WAY_WINDOWS)
        return run_tasks(f, count, attn_forward_window, err);
    if (f->plan.way == ATTN_WAY_HEADS)
        return run_tasks(f, count, run_head, err);
    return run_groups(f, arena, err);
}

/* Runs both halves of a pass under a strided pattern (strided.c). */
static attn_status run_halves(attn_forward *f, attn_pool *pool, attn_arena *arena,
                              attn_error *err) {
    const attn_attention_dims *d = &f->a->dims;
    const size_t strided = d->B * d->Hq * f->plan.strided.pieces_a_head;
    attn_attention near = *f->a;
    attn_mask mask = attn_mask_near(f->a->mask, d->near);
    attn_area counted = {0}, area;
    attn_forward_place_strided(&counted, &f->plan, &f->strided_magnitudes);
    if (!attn_area_open(&area, &counted, arena))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for sums of strided keys");
    f->strided = attn_forward_place_strided(&area, &f->plan, &f->strided_magnitudes);
    near.mask = &mask;
    f->near = &near;
    f->tasks += strided;
    attn_status status = run_tasks(f, strided, attn_forward_strided, err);
    if (status == ATTN_OK)
        status = run_pieces(f, arena, err);
    if (status == ATTN_OK && f->plan.want & ATTN_WANT_WEIGHTS)
        status = attn_pool_run(pool, d->B * d->Hq * f->plan.row_blocks, attn_forward_near_weights,
                               f, f->control, err);
    if (status == ATTN_OK && f->plan.want & ATTN_WANT_WEIGHTS)
        status = attn_pool_run(pool, strided, attn_forward_strided_weights, f, f->control, err);
    f->near = NULL;
    return status;
}

static attn_status run_pass(attn_forward *f, attn_pool *pool, attn_arena *arena, attn_error *err) {
    f->pool = pool;
    f->tasks = count_tasks(f);
    f->done = 0;
    return f->a->dims.stride ? run_halves(f, pool, arena, err) : run_pieces(f, arena, err);
}

/* Packs the keys and values of all heads and runs the pass over them: if the plan says so, or if a
 * pass without packed keys has met NaN, infinity or too large numbers. */
static attn_status run_packed(attn_attention *a, attn_forward *f, attn_pool *pool,
                              attn_arena *arena, attn_error *err) {
    attn_packed *packed;
    attn_status status = attn_pack(a, pool, f->control, arena, &packed, err);
    if (status != ATTN_OK)
        return status;
    a->packed = f->packed = packed;
    f->hidden_rows = 0;
    return run_pass(f, pool, arena, err);
}

/* Applies dropout to weights [B, Hq, L, S]. */
static void drop_weights(const attn_attention *a, attn_tensor *weights) {
    const size_t S = a->dims.S, elem = attn_dtype_size(a->dims.result);
    for (size_t row = 0; row < a->dims.B * a->dims.Hq * a->dims.L; row++)
        attn_drop_row(a, row, 0, S, elem, (char *)weights->data + row * S * elem);
}

static bool any_double(const attn_forward *f) {
    const attn_attention_dims *d = &f->a->dims;
    return memchr(f->out->stats.kind, ATTN_ROW_DOUBLE, d->B * d->Hq * d->L) != NULL;
}

/* Computes, cell by cell, the scores and weights that the blocks have not written. */
static attn_status fill_cells(attn_forward *f, attn_stage stage, attn_pool *pool, attn_arena *arena,
                              attn_error *err) {
    const attn_attention *a = f->a;
    const unsigned want = f->plan.want;
    attn_results *out = f->out;
    attn_area counted = {0}, area;
    attn_status status = ATTN_OK;
    attn_forward_place_cells(&counted, &f->plan);
    if (!attn_area_open(&area, &counted, arena))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for scratch");
    attn_cells_scratch **lanes = attn_forward_place_cells(&area, &f->plan);
    if (want & ATTN_WANT_SCORES)
        status = attn_cells_fill(a, &out->stats, stage, false, lanes, pool, f->control,
                                 &out->scores, err);
    const bool written = f->plan.keeps || f->plan.strided.units;
    if (status == ATTN_OK && (want & ATTN_WANT_WEIGHTS) && (!written || any_double(f)))
        status = attn_cells_fill(a, &out->stats, ATTN_STAGE_PROBS, written, lanes, pool, f->control,
                                 &out->weights, err);
    if (status == ATTN_OK && (want & ATTN_WANT_WEIGHTS_DROPPED)) {
        status = attn_cells_fill(a, &out->stats, ATTN_STAGE_PROBS, false, lanes, pool, f->control,
                                 &out->weights_dropped, err);
        if (status == ATTN_OK)
            drop_weights(a, &out->weights_dropped);
    }
    return status;
}

attn_status attn_forward_finish(attn_forward *f, attn_stage stage, attn_pool *pool,
                                attn_arena *arena, attn_error *err) {
    attn_results *out = f->out;
    attn_status status = ATTN_OK;
    out->hidden_rows = f->hidden_rows;
    if (attn_plan_fills(&f->plan) || ((f->plan.want & ATTN_WANT_WEIGHTS) && any_double(f)))
        status = fill_cells(f, stage, pool, arena, err);
    if (status == ATTN_OK && (f->plan.want & ATTN_WANT_PRESENT))
        attn_present(f->a, out);
    return status;
}

attn_status attn_attention_run(attn_attention *a, unsigned want, attn_stage stage, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_results *out,
                               attn_error *err) {
    attn_results results;
    attn_forward f;
    attn_status status = attn_forward_check(want, stage, err);
    if (status != ATTN_OK)
        return status;
    a->packed = NULL; /* the arena of packed keys of an earlier pass may have been freed */
    status = attn_forward_open(&f, a, want, attn_pool_slots(pool), control, arena, &results, err);
    const bool planned = f.plan.way == ATTN_WAY_PACKED;
    if (status == ATTN_OK && !planned)
        status = run_pass(&f, pool, arena, err);
    if (status == ATTN_OK && (planned || f.not_finite))
        status = run_packed(a, &f, pool, arena, err);
    if (status == ATTN_OK)
        status = attn_forward_finish(&f, stage, pool, arena, err);
    if (status != ATTN_OK || !(want & ATTN_WANT_CELLS))
        a->packed = NULL;
    if (status == ATTN_OK)
        *out = results;
    return status;
}
