/* The work area of a block: one piece of memory for queries, a tile of scores, sums, maxima. */
#include "attention/block.h"

/* Sizes of the work area's parts, in the order of attn_block_work; the last holds `keep`. */
enum { PARTS = 16 };

/* No machine holds rows of such widths; below, nothing here overflows. */
#define WIDEST ((size_t)1 << 40)

/* bytes[p], rounded up to ATTN_ALIGN, and their sum. */
static bool part_bytes(const attn_kernels *k, size_t rows, const attn_attention_dims *d,
                       size_t bytes[PARTS], size_t *total) {
    const size_t E = d->score_width, Ev = d->Ev, widest = E > Ev ? E : Ev;
    if (widest >= WIDEST || d->S >= WIDEST || d->relative >= WIDEST)
        return false;
    const size_t elem = k->elem;
    const size_t sizes[PARTS] = {
        rows * E * elem,
        rows * k->keys * elem,
        rows * k->acc_room(Ev) * elem,
        rows * elem,
        rows * k->lanes * elem,
        rows * elem,
        widest * k->keys * elem,
        k->key_room(E) * elem,
        k->value_room(Ev) * elem,
        k->keys * elem,
        k->keys * elem,
        rows * d->relative * elem,
        rows * d->relative * elem,
        (k->pack_query ? k->query_room(rows, E) : 0) * elem,
        rows * attn_block_maxima(k, d->S) * elem,
        k->keys,
    };
    *total = 0;
    for (int p = 0; p < PARTS; p++) {
        bytes[p] = (sizes[p] + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
        *total += bytes[p];
    }
    return true;
}

bool attn_block_work_bytes(const attn_kernels *k, size_t rows, const attn_attention_dims *d,
                           size_t *bytes) {
    size_t part[PARTS];
    return part_bytes(k, rows, d, part, bytes);
}

size_t attn_block_kept_bytes(const attn_kernels *k, size_t rows, const attn_attention_dims *d) {
    enum { CACHE = 1 << 20 };
    size_t n, all;
    if (!attn_size_mul(rows * k->elem, d->S, &n) || n > CACHE)
        return 0;
    const bool fits = attn_size_mul(d->B * d->Hq * d->L * k->elem, d->S, &all) && all <= CACHE;
    return fits ? 0 : n;
}

bool attn_block_work_init(attn_block_work *w, const attn_kernels *k, size_t rows,
                          const attn_attention_dims *d, attn_arena *arena) {
    size_t part[PARTS], total;
    if (!part_bytes(k, rows, d, part, &total))
        return false;
    char *at = attn_arena_take(arena, total);
    if (!at)
        return false;
    *w = (attn_block_work){.kernels = k, .most_rows = rows};
    void **const places[] = {&w->query,  &w->tile,   &w->acc,        &w->max,          &w->sum,
                             &w->factor, &w->source, &w->packed_key, &w->packed_value, &w->bias,
                             &w->line,   &w->terms,  &w->term_sums,  &w->packed_query, &w->maxima};
    for (int p = 0; p < PARTS - 1; p++) {
        *places[p] = at;
        at += part[p];
    }
    w->keep = (uint8_t *)at;
    return true;
}
