/* One block of query rows against all keys.
 *
 *        keys ->  tile 0   tile 1   …        for each tile: scores, edits, softmax so far,
 *   rows          [      ] [      ]          then acc = acc * factor + weights * values
 *
 * Only two tiles' worth of scores exist at a time; row maximum and sum are what remains. */
#include <math.h>
#include <string.h>

#include "attention/block.h"

/* Sizes of the work area's parts, in the order of attn_block_work. */
enum { PARTS = 11 };

static bool part_bytes(const attn_kernels *k, size_t rows, size_t E, size_t Ev,
                       size_t bytes[PARTS]) {
    const size_t widest = E > Ev ? E : Ev, room = k->acc_room(Ev);
    const size_t factors[PARTS][2] = {
        {rows, E},           {rows, k->keys},     {rows, room},  {rows, 1},
        {rows, k->lanes},    {rows, 1},           {k->keys, widest}, {k->key_room(E), 1},
        {k->value_room(Ev), 1}, {k->keys, 1},     {k->keys, 1},
    };
    for (int p = 0; p < PARTS; p++) {
        size_t n;
        if (!attn_size_mul(factors[p][0], factors[p][1], &n) || !attn_size_mul(n, k->elem, &n) ||
            n > SIZE_MAX - ATTN_ALIGN)
            return false;
        bytes[p] = (n + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
    }
    return true;
}

static size_t keep_bytes(const attn_kernels *k) {
    return (k->keys + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
}

bool attn_block_work_bytes(const attn_kernels *k, size_t rows, size_t E, size_t Ev,
                           size_t *bytes) {
    size_t part[PARTS], total = keep_bytes(k);
    if (!part_bytes(k, rows, E, Ev, part))
        return false;
    for (int p = 0; p < PARTS; p++)
        if (!attn_size_add(total, part[p], &total))
            return false;
    *bytes = total;
    return true;
}

bool attn_block_work_init(attn_block_work *w, const attn_kernels *k, size_t rows, size_t E,
                          size_t Ev, attn_arena *arena) {
    size_t part[PARTS], total;
    if (!part_bytes(k, rows, E, Ev, part) || !attn_block_work_bytes(k, rows, E, Ev, &total))
        return false;
    char *at = attn_arena_take(arena, total);
    if (!at)
        return false;
    *w = (attn_block_work){.kernels = k, .most_rows = rows};
    void **const places[PARTS] = {&w->query,  &w->tile,       &w->acc,          &w->max,
                                  &w->sum,    &w->factor,     &w->source,       &w->packed_key,
                                  &w->packed_value, &w->bias, &w->line};
    for (int p = 0; p < PARTS; p++) {
        *places[p] = at;
        at += part[p];
    }
    w->keep = (uint8_t *)at;
    return true;
}

void attn_block_interval(const attn_attention *a, const attn_block *block, size_t *lo,
                         size_t *hi) {
    *lo = a->dims.S, *hi = 0;
    if (attn_mask_fills(a->mask)) {
        *lo = 0, *hi = a->dims.S;
        return;
    }
    for (size_t r = 0; r < block->rows; r++) {
        size_t from, to;
        attn_mask_interval(a->mask, block->b, block->i + r, &from, &to);
        if (from == to)
            continue;
        if (from < *lo)
            *lo = from;
        if (to > *hi)
            *hi = to;
    }
    if (*lo > *hi)
        *lo = *hi = 0;
}

void attn_block_scores(const attn_attention *a, const attn_block *block, const attn_packed *packed,
                       size_t j0, size_t n, const void *q, size_t ldq, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const size_t hkv = attn_kv_head(a, block->h);
    const void *keys = w->packed_key;
    if (packed) {
        keys = packed->keys + packed->key_bytes * attn_packed_tile(a, packed, block->b, hkv,
                                                                   j0 / k->keys);
    } else {
        size_t ld;
        const void *rows = attn_key_rows(a, block->b, hkv, j0, n, k->elem, w->source, &ld);
        k->pack_key(w->packed_key, rows, ld, n, a->dims.E);
    }
    k->score(w->tile, q, ldq, block->rows, keys, n, a->dims.E);
}

void attn_block_edit(const attn_attention *a, const attn_block *block, size_t row, size_t j0,
                     size_t n, attn_stage stage, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    attn_edit edit = {.scale = 1, .lo = 0, .hi = n};
    if (stage >= ATTN_STAGE_BIASED)
        attn_mask_edit(a->mask, block->b, block->h, block->i + row, j0, n, k->elem, w->bias, w->keep,
                       &edit);
    if (stage >= ATTN_STAGE_SCALED)
        edit.scale = a->scale;
    if (stage >= ATTN_STAGE_SOFTCAPPED)
        edit.softcap = a->in.softcap;
    k->edit((char *)w->tile + row * k->keys * k->elem, n, &edit);
}

static void accumulate(const attn_attention *a, const attn_block *block, const attn_packed *packed,
                       size_t j0, size_t n, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const size_t hkv = attn_kv_head(a, block->h);
    const void *values = w->packed_value;
    if (packed) {
        values = packed->values + packed->value_bytes * attn_packed_tile(a, packed, block->b, hkv,
                                                                         j0 / k->keys);
    } else {
        size_t ld;
        const void *rows = attn_value_rows(a, block->b, hkv, j0, n, k->elem, w->source, &ld);
        k->pack_value(w->packed_value, rows, ld, n, a->dims.Ev);
    }
    k->accumulate(w->acc, w->tile, block->rows, values, n, a->dims.Ev, w->factor);
}

static void start(const attn_kernels *k, size_t rows, size_t Ev, attn_block_work *w) {
    memset(w->acc, 0, rows * k->acc_room(Ev) * k->elem);
    memset(w->sum, 0, rows * k->lanes * k->elem);
    for (size_t r = 0; r < rows; r++)
        if (k->elem == sizeof(float))
            ((float *)w->max)[r] = -INFINITY;
        else
            ((double *)w->max)[r] = -INFINITY;
}

void attn_block_stream(const attn_attention *a, const attn_block *block, const attn_packed *packed,
                       const void *q, size_t ldq, void *scores, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const size_t S = a->dims.S;
    size_t lo, hi;
    start(k, block->rows, a->dims.Ev, w);
    attn_block_interval(a, block, &lo, &hi);
    for (size_t j = lo / k->keys * k->keys; j < hi; j += k->keys) {
        const size_t n = S - j < k->keys ? S - j : k->keys;
        attn_block_scores(a, block, packed, j, n, q, ldq, w);
        for (size_t r = 0; r < block->rows; r++) {
            attn_block_edit(a, block, r, j, n, ATTN_STAGE_BIASED, w);
            if (scores)
                memcpy((char *)scores + (r * S + j) * k->elem,
                       (char *)w->tile + r * k->keys * k->elem, n * k->elem);
        }
        k->softmax(w->tile, block->rows, n, w->max, w->sum, w->factor);
        accumulate(a, block, packed, j, n, w);
    }
}
