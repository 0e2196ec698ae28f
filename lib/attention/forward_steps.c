/* The pieces of the steps that compute blocks, and of those that compute cells:
 *
 *   BLOCKS    long inputs: keys and values of all heads are packed first; a piece then computes a
 *             few blocks
 *   WINDOWS   queries that see few keys: a piece packs a tile of keys when one of its blocks sees
 *             it
 *   HEADS     small heads: a piece packs one key/value head and computes all blocks of its group,
 *             so that packed keys and values stay in the caches
 *   GROUPS    few rows: a piece computes the rows of all heads of a group together, so that it
 *             reads each key and value once. It does not pack them. RANGES and JOIN divide this
 *             work.
 *   SCORES, WEIGHTS, DROPPED   a piece computes a block of rows of a matrix
 *   OUTPUTS   a piece mixes a block of rows of the outputs of all heads */
#include "attention/forward.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "attention/mix_weights.h"
#include "base/try.h"

/* --- bundles over packed keys ---
 *
 * The keys and values of a long head exceed the second-level cache, so each block would fetch all
 * of them from memory again. Therefore a bundle of blocks goes over the keys together: the keys are
 * divided into ranges of plan.bundle_keys keys, and each block visits a range before any block
 * visits the next one. The numbers give the order:
 *
 *              range 0   range 1   range 2
 *   block 0       1         5         9      between two ranges, a block keeps its maxima, sums and
 *   block 1       2         6        10      packed queries in its attn_block_work
 *   block 2       3         7        11
 *   block 3       4         8        12 */

/* If the plan has ATTN_STEP_STRIDED, merges the state that this step has stored for the rows of a
 * block into the state of the block. */
static void add_strided(const attn_forward *f, attn_block_run *run) {
    const attn_block *block = &run->stream.block;
    if (!f->strided)
        return;
    const attn_partial into = attn_forward_state(&run->work),
                       from = attn_forward_strided_rows(f, block->b, block->h, block->i);
    f->a->kernels->merge(&into, &from, block->rows, f->a->dims.value_width);
}

/* Computes a bundle of `count` blocks of head (b, h). The first block begins at row i. */
static attn_status compute_bundle(attn_forward *f, size_t b, size_t h, size_t i, size_t count,
                                  const attn_packed *packed, attn_forward_lane *l,
                                  attn_error *err) {
    const size_t L = f->a->dims.L, S = f->a->dims.S, rows = f->a->kernels->rows;
    for (size_t n = 0; n < count; n++, i += rows) {
        attn_block_run *run = &l->runs[n];
        run->stream =
            (attn_stream){.block = {b, h, i, L - i < rows ? L - i : rows}, .w = &run->work};
        ATTN_TRY(attn_forward_begin(f, packed, run, err));
    }
    size_t from = 0;
    do {
        for (size_t n = 0; n < count; n++) {
            attn_stream *s = &l->runs[n].stream;
            s->from = from;
            s->to = from + f->plan.bundle_keys;
            s->goes_on = from > 0;
            attn_block_stream(f->visible, s, 1, packed);
        }
        from += f->plan.bundle_keys;
        if (from < S)
            attn_pool_yield(f->pool);
    } while (from < S);
    for (size_t n = 0; n < count; n++) {
        add_strided(f, &l->runs[n]);
        ATTN_TRY(attn_forward_end(f, &l->runs[n], l, err));
    }
    return ATTN_OK;
}

/* Computes blocks first … last - 1 of head (b, h). */
static attn_status compute_blocks(attn_forward *f, size_t b, size_t h, size_t first, size_t last,
                                  const attn_packed *packed, attn_forward_lane *l,
                                  attn_error *err) {
    for (size_t n = first; n < last; n += f->plan.bundle) {
        const size_t left = last - n, count = left < f->plan.bundle ? left : f->plan.bundle;
        ATTN_TRY(compute_bundle(f, b, h, n * f->a->kernels->rows, count, packed, l, err));
    }
    return ATTN_OK;
}

attn_status attn_forward_blocks(void *work, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = work;
    const size_t head = index / f->plan.pieces_a_head, Hq = f->a->dims.Hq;
    const size_t first = index % f->plan.pieces_a_head * f->plan.blocks_a_piece;
    const size_t left = f->plan.row_blocks - first;
    const size_t count = left < f->plan.blocks_a_piece ? left : f->plan.blocks_a_piece;
    return compute_blocks(f, head / Hq, head % Hq, first, first + count, f->packed, &f->lanes[lane],
                          err);
}

attn_status attn_forward_head(void *work, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = work;
    attn_forward_lane *l = &f->lanes[lane];
    const attn_attention_dims *d = &f->a->dims;
    const size_t b = index / d->Hkv, hkv = index % d->Hkv, group = attn_group(d);
    if (!attn_pack_head(f->a, l->head, b, hkv, l->runs->work.source)) {
        atomic_store(&f->not_finite, 1);
        return ATTN_OK;
    }
    for (size_t h = hkv * group; h < (hkv + 1) * group; h++)
        ATTN_TRY(compute_blocks(f, b, h, 0, f->plan.row_blocks, l->head, l, err));
    return ATTN_OK;
}

/* --- windows ---
 *
 * If each query sees few keys, most blocks see only a few tiles of keys, and neighbouring blocks
 * see mostly the same ones:
 *
 *             tile 0  1  2  3  4  5        A window holds the tiles of one block and a
 *   block 0        x  x                    few more. A piece packs a tile when a block sees it,
 *   block 1        x  x  x                 into the place of a tile that only earlier blocks
 *   block 2           x  x  x              saw. So packed keys and values stay in the cache.
 *   block 3              x  x  x
 *
 * Tiles are packed as they are. If a piece meets NaN, infinity or too large numbers, the pass is
 * repeated with all keys packed and marked (forward.c). */

/* Raises *key and *value to the largest magnitudes that ATTN_STEP_STRIDED has met in a head. */
static void raise_to_strided(const attn_forward *f, size_t head, double *key, double *value) {
    const size_t pieces = f->plan.strided.pieces_a_head;
    const double *most = f->strided_magnitudes + 2 * pieces * head;
    for (size_t n = 0; n < pieces; n++, most += 2) {
        *key = fmax(*key, most[0]);
        *value = fmax(*value, most[1]);
    }
}

/* Computes a block with the window of its lane. */
static attn_status compute_in_window(attn_forward *f, const attn_block *block, attn_forward_lane *l,
                                     attn_error *err) {
    attn_block_run *run = l->runs;
    run->stream = (attn_stream){.block = *block, .w = &run->work};
    ATTN_TRY(attn_forward_begin(f, NULL, run, err));
    attn_block_stream(f->visible, &run->stream, 1, l->head);
    double key = run->work.key_magnitude, value = run->work.value_magnitude;
    if (f->strided)
        raise_to_strided(f, block->b * f->a->dims.Hq + block->h, &key, &value);
    add_strided(f, run);
    return attn_forward_end_as_is(f, run, key, value, l, err);
}

/* Computes some blocks of all heads of a group. The same rows of all heads are computed one after
 * the other, so that the heads share the tiles in the window. */
attn_status attn_forward_window(void *work, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = work;
    const attn_attention_dims *d = &f->a->dims;
    const size_t of_group = index / f->plan.pieces_a_head, group = attn_group(d);
    const size_t b = of_group / d->Hkv, hkv = of_group % d->Hkv;
    const size_t most = f->plan.blocks_a_piece * f->a->kernels->rows;
    const size_t first = index % f->plan.pieces_a_head * most;
    const size_t last = d->L - first < most ? d->L : first + most;
    for (size_t i = first, rows; i < last; i += rows) {
        rows = attn_plan_block(&f->plan, f->a->mask, b, i);
        for (size_t g = 0; g < group; g++) {
            const attn_block block = {b, hkv * group + g, i, rows};
            ATTN_TRY(compute_in_window(f, &block, &f->lanes[lane], err));
        }
        attn_pool_yield(f->pool);
    }
    return ATTN_OK;
}

/* --- few rows ---
 *
 * Many keys are divided into plan.ranges ranges, so that even a single group occupies all threads
 * of the pool:
 *
 *   keys of a group   [ range 0 | range 1 | … ]     RANGES: max, sum and acc over one range
 *                          \        |      /
 *                           merged in order         JOIN: a piece for each group ends its rows
 *
 * The kept numerators of a tile are relative to the row's running maximum after this tile, and this
 * maximum is stored too (maxima). So the weights have the same bits as without ranges, and the same
 * bits as single cells that are computed later. */

static void copy_state(const attn_forward *f, const attn_partial *to, const attn_partial *from) {
    const attn_attention_dims *d = &f->a->dims;
    const attn_kernels *k = f->a->kernels;
    memcpy(to->max, from->max, d->L * k->elem);
    memcpy(to->sum, from->sum, d->L * k->lanes * k->elem);
    memcpy(to->acc, from->acc, d->L * attn_acc_room(k, d->value_width) * k->elem);
}

/* Prepares the blocks of all heads of group `index` for a pass over keys from … to - 1. If the keys
 * are divided into ranges, all ranges of a head store their maxima in f->ranges.maxima. */
static attn_status begin_group(const attn_forward *f, size_t index, size_t from, size_t to,
                               attn_forward_lane *l, attn_error *err) {
    const attn_attention_dims *d = &f->a->dims;
    const size_t heads = attn_group(d);
    for (size_t g = 0; g < heads; g++) {
        attn_block_run *run = &l->runs[g];
        const size_t b = index / d->Hkv, h = index % d->Hkv * heads + g;
        run->stream = (attn_stream){.block = {b, h, 0, d->L}, .w = &run->work};
        ATTN_TRY(attn_forward_begin(f, NULL, run, err));
        run->stream.from = from;
        run->stream.to = to;
        if (f->ranges.maxima)
            run->work.maxima = attn_forward_range_maxima(f, b, h);
        l->streams[g] = run->stream;
    }
    return ATTN_OK;
}

/* Ends the blocks of a group after the pass over all keys. The magnitudes are the largest ones of
 * the group's keys and values. */
static attn_status end_group(attn_forward *f, attn_forward_lane *l, double key_magnitude,
                             double value_magnitude, attn_error *err) {
    for (size_t g = 0; g < attn_group(&f->a->dims); g++)
        ATTN_TRY(attn_forward_end_as_is(f, &l->runs[g], key_magnitude, value_magnitude, l, err));
    return ATTN_OK;
}

attn_status attn_forward_group(void *work, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = work;
    attn_forward_lane *l = &f->lanes[lane];
    const attn_block_work *shared = &l->runs->work;
    ATTN_TRY(begin_group(f, index, 0, f->a->dims.S, l, err));
    attn_block_stream(f->a, l->streams, attn_group(&f->a->dims), NULL);
    return end_group(f, l, shared->key_magnitude, shared->value_magnitude, err);
}

attn_status attn_forward_range(void *work, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = work;
    attn_forward_lane *l = &f->lanes[lane];
    const attn_attention_dims *d = &f->a->dims;
    const size_t group = index / f->plan.ranges, range = index % f->plan.ranges,
                 heads = attn_group(d);
    const size_t keys = attn_plan_range(&f->plan), from = range * keys;
    ATTN_TRY(begin_group(f, group, from, from + keys, l, err));
    attn_block_stream(f->a, l->streams, heads, NULL);
    f->ranges.magnitudes[2 * index] = l->runs->work.key_magnitude;
    f->ranges.magnitudes[2 * index + 1] = l->runs->work.value_magnitude;
    for (size_t g = 0; g < heads; g++) {
        const attn_partial from_work = attn_forward_state(&l->runs[g].work),
                           to = attn_forward_range_rows(f, group, range, g);
        copy_state(f, &to, &from_work);
    }
    return ATTN_OK;
}

attn_status attn_forward_join(void *work, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = work;
    attn_forward_lane *l = &f->lanes[lane];
    const attn_attention_dims *d = &f->a->dims;
    double key_magnitude = 0, value_magnitude = 0;
    ATTN_TRY(begin_group(f, index, 0, d->S, l, err));
    for (size_t range = 0; range < f->plan.ranges; range++) {
        const double *most = &f->ranges.magnitudes[2 * (index * f->plan.ranges + range)];
        key_magnitude = fmax(key_magnitude, most[0]);
        value_magnitude = fmax(value_magnitude, most[1]);
        for (size_t g = 0; g < attn_group(d); g++) {
            const attn_partial into = attn_forward_state(&l->runs[g].work),
                               from = attn_forward_range_rows(f, index, range, g);
            if (range)
                f->a->kernels->merge(&into, &from, d->L, d->value_width);
            else
                copy_state(f, &into, &from);
        }
    }
    return end_group(f, l, key_magnitude, value_magnitude, err);
}

/* --- cells --- */

/* Returns block `index` of the blocks of all `heads` heads. */
static attn_block block_of(const attn_forward *f, size_t heads, size_t index) {
    const size_t rows = f->a->kernels->rows, L = f->a->dims.L;
    const size_t head = index / f->plan.row_blocks, i = index % f->plan.row_blocks * rows;
    return (attn_block){head / heads, head % heads, i, L - i < rows ? L - i : rows};
}

attn_status attn_forward_cells(void *work, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = work;
    const attn_attention *a = f->a;
    const attn_attention_dims *d = &a->dims;
    const bool scores = f->step == ATTN_STEP_SCORES, dropped = f->step == ATTN_STEP_DROPPED;
    const size_t heads = scores ? d->Hq : d->Ho;
    const attn_block block = block_of(f, heads, index);
    const attn_range range = {
        .batch = block.b, .head = block.h, .row = block.i, .rows = block.rows, .cols = d->S};
    const attn_tensor *out = scores    ? &f->out->scores
                             : dropped ? &f->out->weights_dropped
                                       : &f->out->weights;
    const attn_cells how = {
        .stage = scores ? f->stage : ATTN_STAGE_PROBS,
        /* With plan.keeps or a strided pattern, earlier steps have written the weights, except
         * those of rows that are computed in double. */
        .double_only = f->step == ATTN_STEP_WEIGHTS && !d->factors && (f->plan.keeps || f->strided),
        .dropped = dropped,
        .of_head = scores};
    const size_t first = (block.b * heads + block.h) * d->L + block.i;
    return attn_cells_rows(a, &f->out->stats, &range, &how, f->control,
                           (char *)out->data + first * d->S * f->elem, f->cells[lane], err);
}

attn_status attn_forward_outputs(void *work, size_t index, size_t lane, attn_error *err) {
    const attn_forward *f = work;
    const attn_block block = block_of(f, f->a->dims.Ho, index);
    (void)lane;
    return attn_mix_outputs(f->a, f->out, block.b, block.h, block.i, block.rows, err);
}
