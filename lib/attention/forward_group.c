/* Few rows of all heads of a group, which share every key and value where it lies. A long cache is
 * taken in parts, so that one group keeps a pool busy:
 *
 *   keys of a group   [ part 0 | part 1 | … ]     pieces of the pool: max, sum, acc of each
 *                         \        |      /
 *                           merged in order       a piece a group: the rows' end
 *
 * A numerator belongs to the running maximum of its tile, which is kept whatever its part, so
 * weights and single cells are the same bits. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "attention/forward.h"

/* A part is some 2 MiB of keys and values of width 64, a tenth of a millisecond or more; where
 * heads make this many pieces, nothing is gained. */
enum { PART_KEYS = 4096, ENOUGH_PIECES = 64 };

size_t attn_forward_parts(const attn_attention_dims *d) {
    const size_t groups = d->B * d->Hkv;
    if (d->L > ATTN_FEW_QUERIES || !groups || d->S <= PART_KEYS)
        return 1;
    const size_t long_enough = (d->S - 1) / PART_KEYS + 1;
    const size_t useful = (ENOUGH_PIECES - 1) / groups + 1;
    return long_enough < useful ? long_enough : useful;
}

/* Keys of a part: whole tiles. */
static size_t part_keys(const attn_attention_dims *d, const attn_kernels *k, size_t parts) {
    const size_t tiles = (d->S + k->keys - 1) / k->keys;
    return (tiles + parts - 1) / parts * k->keys;
}

/* Bytes of one block's sums. */
static size_t sums_bytes(const attn_attention_dims *d, const attn_kernels *k) {
    const size_t elements = d->L * (1 + k->lanes + k->acc_room(d->Ev));
    return attn_align_up(elements * k->elem) + 2 * ATTN_ALIGN;
}

static size_t maxima_bytes(const attn_attention_dims *d, const attn_kernels *k) {
    return d->L * attn_block_maxima(k, d->S) * k->elem;
}

bool attn_forward_parts_bytes(const attn_attention_dims *d, const attn_kernels *k, size_t *bytes) {
    const size_t parts = attn_forward_parts(d);
    size_t sums, maxima;
    *bytes = 0;
    if (parts == 1)
        return true;
    return attn_size_mul(d->B * d->Hq * parts, sums_bytes(d, k), &sums) &&
           attn_size_mul(d->B * d->Hq, maxima_bytes(d, k), &maxima) &&
           attn_size_add(sums, maxima, bytes) &&
           attn_size_add(*bytes, d->B * d->Hkv * parts * 2 * sizeof(double) + 3 * ATTN_ALIGN,
                         bytes);
}

static bool take_sums(attn_forward *f, attn_arena *arena) {
    const attn_attention_dims *d = &f->a->dims;
    const attn_kernels *k = f->a->kernels;
    size_t bytes;
    if (!attn_size_mul(d->B * d->Hq * f->parts, sums_bytes(d, k), &bytes))
        return false;
    f->sums = attn_arena_take(arena, bytes);
    f->reach = attn_arena_take(arena, d->B * d->Hkv * f->parts * 2 * sizeof *f->reach);
    if (!f->sums || !f->reach || !attn_forward_keeps(f))
        return f->sums && f->reach;
    f->maxima = attn_size_mul(d->B * d->Hq, maxima_bytes(d, k), &bytes)
                    ? attn_arena_take(arena, bytes)
                    : NULL;
    return f->maxima != NULL;
}

/* Where the sums of a block over a part are kept. */
static attn_partial partial_at(const attn_forward *f, size_t group, size_t part, size_t g) {
    const attn_attention_dims *d = &f->a->dims;
    const attn_kernels *k = f->a->kernels;
    const size_t heads = attn_group(d);
    char *at = f->sums + ((group * f->parts + part) * heads + g) * sums_bytes(d, k);
    char *sum = at + attn_align_up(d->L * k->acc_room(d->Ev) * k->elem);
    return (attn_partial){.acc = at, .sum = sum, .max = sum + d->L * k->lanes * k->elem};
}

static void copy_partial(const attn_forward *f, const attn_partial *to, const attn_partial *from) {
    const attn_attention_dims *d = &f->a->dims;
    const attn_kernels *k = f->a->kernels;
    memcpy(to->max, from->max, d->L * k->elem);
    memcpy(to->sum, from->sum, d->L * k->lanes * k->elem);
    memcpy(to->acc, from->acc, d->L * k->acc_room(d->Ev) * k->elem);
}

static attn_partial partial_of(const attn_block_work *w) {
    return (attn_partial){.max = w->max, .sum = w->sum, .acc = w->acc};
}

/* All heads of a group, about to pass over keys from … to - 1. */
static attn_status begin_group(const attn_forward *f, size_t index, size_t from, size_t to,
                               attn_forward_lane *l, attn_error *err) {
    const attn_attention_dims *d = &f->a->dims;
    const size_t heads = attn_group(d);
    attn_status status = ATTN_OK;
    for (size_t g = 0; g < heads && status == ATTN_OK; g++) {
        attn_block_run *run = &l->runs[g];
        const attn_block block = {index / d->Hkv, index % d->Hkv * heads + g, 0, d->L};
        status = attn_forward_begin(f, &block, NULL, run, err);
        run->stream.from = from;
        run->stream.to = to;
        if (f->maxima)
            run->work.maxima =
                f->maxima + (block.b * d->Hq + block.h) * maxima_bytes(d, f->a->kernels);
        l->streams[g] = run->stream;
    }
    return status;
}

/* Its rows, after the pass over all keys. */
static attn_status end_group(attn_forward *f, attn_forward_lane *l, double key_reach,
                             double value_reach, attn_error *err) {
    const attn_attention *a = f->a;
    attn_status status = ATTN_OK;
    const double most = attn_packed_most(a->kernels);
    if (!(key_reach <= most && value_reach <= most)) {
        atomic_store(&f->not_finite, 1);
        return ATTN_OK;
    }
    for (size_t g = 0; g < attn_group(&a->dims) && status == ATTN_OK; g++) {
        l->runs[g].careful |= attn_forward_overflowing(a, &l->runs[g], key_reach, value_reach);
        status = attn_forward_end(f, &l->runs[g], l, err);
    }
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
    return end_group(f, l, shared->key_reach, shared->value_reach, err);
}

static attn_status run_part(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = ctx;
    attn_forward_lane *l = &f->lanes[lane];
    const attn_attention_dims *d = &f->a->dims;
    const size_t group = index / f->parts, part = index % f->parts, heads = attn_group(d);
    const size_t keys = part_keys(d, f->a->kernels, f->parts), from = part * keys;
    attn_status status = begin_group(f, group, from, from + keys, l, err);
    if (status != ATTN_OK)
        return status;
    attn_block_stream(f->a, l->streams, heads, NULL);
    f->reach[2 * index] = l->runs->work.key_reach;
    f->reach[2 * index + 1] = l->runs->work.value_reach;
    for (size_t g = 0; g < heads; g++) {
        const attn_partial from_work = partial_of(&l->runs[g].work),
                           to = partial_at(f, group, part, g);
        copy_partial(f, &to, &from_work);
    }
    return ATTN_OK;
}

static attn_status join_parts(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = ctx;
    attn_forward_lane *l = &f->lanes[lane];
    const attn_attention_dims *d = &f->a->dims;
    double key_reach = 0, value_reach = 0;
    attn_status status = begin_group(f, index, 0, d->S, l, err);
    for (size_t part = 0; status == ATTN_OK && part < f->parts; part++) {
        const double *reach = &f->reach[2 * (index * f->parts + part)];
        key_reach = fmax(key_reach, reach[0]);
        value_reach = fmax(value_reach, reach[1]);
        for (size_t g = 0; g < attn_group(d); g++) {
            const attn_partial into = partial_of(&l->runs[g].work),
                               from = partial_at(f, index, part, g);
            if (part)
                f->a->kernels->merge(&into, &from, d->L, d->Ev);
            else
                copy_partial(f, &into, &from);
        }
    }
    return status == ATTN_OK ? end_group(f, l, key_reach, value_reach, err) : status;
}

attn_status attn_forward_groups(attn_forward *f, attn_pool *pool, attn_arena *arena,
                                attn_error *err) {
    const attn_attention_dims *d = &f->a->dims;
    const size_t groups = d->L && d->Hq ? d->B * d->Hkv : 0;
    if (f->parts == 1)
        return attn_pool_run(pool, groups, run_group, f, f->control, err);
    if (!take_sums(f, arena))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for sums of parts");
    attn_status status = attn_pool_run(pool, groups * f->parts, run_part, f, f->control, err);
    return status == ATTN_OK ? attn_pool_run(pool, groups, join_parts, f, f->control, err) : status;
}
