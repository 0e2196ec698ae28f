/* Memory of the pass back: how an operation is split, what that takes, and taking it. */
#include "attention/backward.h"

enum { PIECES = 8 }; /* wanted where heads alone are fewer */

size_t attn_back_query_room(const attn_backward *g) {
    return g->k->rows * g->k->acc_room(g->a->dims.score_width);
}

size_t attn_back_out_room(const attn_backward *g) {
    return g->k->rows * g->k->acc_room(g->a->dims.Ev);
}

/* Splits of an operation, from shapes alone. */
static void split(const attn_attention_dims *d, const attn_kernels *k, size_t *blocks,
                  size_t *tiles, size_t *chunks, size_t *tiles_a_chunk) {
    const size_t all = d->B * d->Hkv, heads = all > 0 ? all : 1;
    size_t wanted = (PIECES + heads - 1) / heads;
    *blocks = (d->L + k->rows - 1) / k->rows;
    *tiles = (d->S + k->keys - 1) / k->keys;
    if (wanted > *tiles)
        wanted = *tiles ? *tiles : 1;
    *tiles_a_chunk = *tiles ? (*tiles + wanted - 1) / wanted : 1;
    *chunks = *tiles ? (*tiles + *tiles_a_chunk - 1) / *tiles_a_chunk : 1;
}

enum { LANE_PARTS = 9 };

/* Bytes of a lane's own areas; false on overflow. */
static bool lane_parts(const attn_attention_dims *d, const attn_kernels *k,
                       size_t bytes[LANE_PARTS]) {
    const size_t E = d->score_width, Ev = d->Ev, widest = E > Ev ? E : Ev;
    const size_t factors[LANE_PARTS][2] = {
        {k->rows, Ev},
        {4 * k->rows, k->keys},
        {k->keys, widest},
        {1, k->value_room(E)},
        {1, k->key_room(Ev)},
        {k->keys, k->acc_room(E)},
        {k->keys, k->acc_room(Ev)},
        {E, k->keys},
        {1, k->rows + k->keys},
    };
    for (int p = 0; p < LANE_PARTS; p++) {
        if (!attn_size_mul(factors[p][0], factors[p][1], &bytes[p]) ||
            !attn_size_mul(bytes[p], k->elem, &bytes[p]) ||
            !attn_size_add(bytes[p], ATTN_ALIGN, &bytes[p]))
            return false;
        bytes[p] = bytes[p] / ATTN_ALIGN * ATTN_ALIGN;
    }
    return true;
}

static bool lane_init(const attn_backward *g, attn_back_lane *l, attn_arena *arena) {
    const attn_kernels *k = g->k;
    const attn_attention_dims *d = &g->a->dims;
    const size_t tile = k->rows * k->keys * k->elem;
    size_t bytes[LANE_PARTS];
    char *part[LANE_PARTS];
    if (!lane_parts(d, k, bytes) || !attn_block_work_init(&l->work, g->scores, k->rows, d, arena))
        return false;
    for (int p = 0; p < LANE_PARTS; p++)
        if (!(part[p] = attn_arena_take(arena, bytes[p])))
            return false;
    l->out = part[0];
    l->weights = part[1];
    l->grad = part[1] + tile;
    l->capped = part[1] + 2 * tile;
    l->dropped = g->a->in.dropout_p > 0 ? part[1] + 3 * tile : l->weights;
    l->source = part[2];
    l->key_values = part[3];
    l->value_keys = part[4];
    l->dkey = part[5];
    l->dvalue = part[6];
    l->dkey_tanh = part[7];
    l->ones = part[8];
    l->keep = (uint8_t *)(part[8] + k->rows * k->elem);
    l->terms = attn_arena_zeroed(arena, d->relative + 1, sizeof(double));
    for (size_t r = 0; r < k->rows; r++)
        if (k->elem == sizeof(float))
            ((float *)l->ones)[r] = 1;
        else
            ((double *)l->ones)[r] = 1;
    return l->terms != NULL;
}

static bool add(size_t *total, size_t a, size_t b, size_t c) {
    size_t n;
    return attn_size_mul(a, b, &n) && attn_size_mul(n, c, &n) && attn_size_add(*total, n, total) &&
           attn_size_add(*total, ATTN_ALIGN, total);
}

attn_status attn_gradients_cost(const attn_attention_dims *d, size_t bias_elements, size_t slots,
                                attn_cost *out, attn_error *err) {
    const attn_kernels *k = attn_kernels_of(ATTN_ISA_REF); /* its elements are the widest */
    const attn_kernels *fast = attn_kernels_of(d->isa);
    const attn_kernels *scores = attn_kernels_with(d->isa, d->precision, d->tanh_score);
    const size_t E = d->score_width, rows = d->B * d->Hq * d->L, keys = d->B * d->Hkv * d->S;
    size_t blocks, tiles, chunks, each, part[LANE_PARTS], lane = 0, work, work_bytes = 0, pack = 0;
    split(d, fast, &blocks, &tiles, &chunks, &each);
    bool ok = lane_parts(d, fast, part) && attn_block_work_bytes(scores, fast->rows, d, &work) &&
              attn_pack_bytes(d, scores, d->B, &pack) && attn_size_add(pack, work, &work_bytes);
    for (int p = 0; ok && p < LANE_PARTS; p++)
        ok = attn_size_add(lane, part[p], &lane);
    const size_t room = d->B * d->Hq * blocks * fast->rows * fast->elem;
    ok = ok && attn_size_add(lane, work, &lane) && add(&work_bytes, slots, lane, 1) &&
         add(&work_bytes, chunks + 1, room, fast->acc_room(E)) &&
         add(&work_bytes, 1, room, fast->acc_room(d->Ev)) && add(&work_bytes, rows, 24, 1) &&
         add(&work_bytes, rows, E, 2 * k->elem) && add(&work_bytes, keys, E + d->Ev, 2 * k->elem) &&
         add(&work_bytes, bias_elements, sizeof(double), 1);
    attn_cost c = {.cells = (double)rows * (double)d->S};
    c.operations = c.cells * 2 * (3 * (double)E + 2 * (double)d->Ev);
    c.result_bytes = 0;
    ok = ok && add(&c.result_bytes, rows, d->E, attn_dtype_size(d->result)) &&
         add(&c.result_bytes, keys, d->Ek + d->Ev, attn_dtype_size(d->result)) &&
         add(&c.result_bytes, bias_elements, attn_dtype_size(d->result), 1);
    if (!ok)
        return attn_fail(err, ATTN_ELIMIT, "grad_output", "more bytes than can be counted");
    c.work_bytes = work_bytes;
    *out = c;
    return ATTN_OK;
}

static void *take(attn_arena *arena, size_t count, size_t size) {
    size_t bytes;
    return attn_size_mul(count, size, &bytes) ? attn_arena_take(arena, bytes) : NULL;
}

bool attn_back_allocate(attn_backward *g, size_t slots, attn_arena *arena) {
    const attn_attention_dims *d = &g->a->dims;
    const attn_kernels *k = g->k;
    const size_t heads = d->B * d->Hq, rows = heads * d->L, elem = k->elem;
    size_t blocks, room, keys;
    split(d, k, &g->blocks, &g->tiles, &g->chunks, &g->tiles_a_chunk);
    if (!attn_size_mul(heads, g->blocks, &blocks) || !attn_size_mul(blocks, elem, &room) ||
        !attn_size_mul(d->B * d->Hkv, d->S, &keys))
        return false;
    g->dot = attn_arena_zeroed(arena, rows, sizeof(double));
    g->queries = take(arena, room, attn_back_query_room(g));
    g->outs = take(arena, room, attn_back_out_room(g));
    g->dquery = attn_arena_zeroed(arena, g->chunks * room, attn_back_query_room(g));
    g->dkey = take(arena, keys * elem, d->score_width);
    g->dvalue = take(arena, keys * elem, d->Ev);
    g->lanes = attn_arena_zeroed(arena, slots, sizeof *g->lanes);
    if (!g->dot || !g->queries || !g->outs || !g->dquery || !g->dkey || !g->dvalue || !g->lanes)
        return false;
    for (size_t s = 0; s < slots; s++)
        if (!lane_init(g, &g->lanes[s], arena))
            return false;
    return attn_back_tables_new(g, d->B * d->Hkv * g->chunks, arena);
}
