/* The work area of a block: one piece of memory for queries, a tile of scores, sums, maxima. */
#include "attention/block.h"

/* No machine holds rows of such widths; below, nothing here overflows. */
#define WIDEST ((size_t)1 << 40)

/* The next part, of so many bytes. */
static void *part(char *area, size_t *used, size_t bytes) {
    void *at = (void *)((uintptr_t)area + *used);
    *used += attn_align_up(bytes);
    return at;
}

size_t attn_block_work_place(attn_block_work *w, const attn_kernels *k, size_t rows,
                             const attn_attention_dims *d, char *area) {
    const size_t E = d->score_width, Ev = d->Ev, elem = k->elem, keys = k->keys * elem;
    size_t used = 0;
    *w = (attn_block_work){.kernels = k, .most_rows = rows};
    w->query = part(area, &used, rows * E * elem);
    w->tile = part(area, &used, rows * keys);
    w->acc = part(area, &used, rows * k->acc_room(Ev) * elem);
    w->max = part(area, &used, rows * elem);
    w->sum = part(area, &used, rows * k->lanes * elem);
    w->factor = part(area, &used, rows * elem);
    w->source = part(area, &used, (E > Ev ? E : Ev) * keys);
    w->packed_key = part(area, &used, k->key_room(E) * elem);
    w->packed_value = part(area, &used, k->value_room(Ev) * elem);
    w->bias = part(area, &used, keys);
    w->line = part(area, &used, keys);
    w->terms = part(area, &used, rows * d->relative * elem);
    w->term_sums = part(area, &used, rows * d->relative * elem);
    w->packed_query = part(area, &used, (k->pack_query ? k->query_room(rows, E) : 0) * elem);
    w->maxima = part(area, &used, rows * attn_block_maxima(k, d->S) * elem);
    w->keep = part(area, &used, k->keys);
    return used;
}

bool attn_block_work_bytes(const attn_kernels *k, size_t rows, const attn_attention_dims *d,
                           size_t *bytes) {
    attn_block_work w;
    if (d->score_width >= WIDEST || d->Ev >= WIDEST || d->S >= WIDEST || d->relative >= WIDEST)
        return false;
    *bytes = attn_block_work_place(&w, k, rows, d, NULL);
    return true;
}

size_t attn_block_kept_bytes(const attn_kernels *k, size_t rows, const attn_attention_dims *d) {
    enum { CACHE = 1 << 20 };
    size_t n, all;
    if (!attn_size_mul(rows * k->elem, d->S, &n) || n > CACHE)
        return 0;
    const bool fits = attn_size_mul(d->B * d->Hq * d->L * k->elem, d->S, &all) && all <= CACHE;
    return fits ? 0 : attn_align_up(n);
}

bool attn_block_work_init(attn_block_work *w, const attn_kernels *k, size_t rows,
                          const attn_attention_dims *d, attn_arena *arena) {
    size_t bytes;
    char *area = attn_block_work_bytes(k, rows, d, &bytes) ? attn_arena_take(arena, bytes) : NULL;
    if (area)
        attn_block_work_place(w, k, rows, d, area);
    return area != NULL;
}
