/* Memory of the backward pass: how an operation is split, how many bytes that takes, and taking
 * them. */
#include "attention/backward.h"

#include "attention/forward.h"

enum { PIECES = 8 }; /* wanted where heads alone are fewer */

static attn_backward_rows rows_bytes(const attn_kernels *k, const attn_kernels *scores,
                                     size_t width) {
    return (attn_backward_rows){
        .value_bytes = k->rows * k->acc_room(width) * k->elem,
        .query_bytes = scores->query_room ? scores->query_room(k->rows, width) * k->elem : 0,
    };
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

/* A piece that is alone with its queries may pack them where its lane did before, unless biases are
 * looked at once more. */
static bool lane_homes(const attn_attention_dims *d, size_t chunks, size_t slots, bool biases) {
    return chunks == 1 && d->S > 0 && slots < d->B * d->Hkv && !biases;
}

bool attn_backward_has_biases(const attn_mask *m) {
    for (size_t p = 0; p < m->bias_count; p++)
        if (m->bias[p].layer->kind == ATTN_LAYER_BIAS)
            return true;
    return false;
}

enum { LANE_KEY_VALUES = 3, LANE_VALUE_KEYS = 4, LANE_PARTS = 7 };

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Bytes of a lane's own areas; false on overflow. */
static bool lane_parts(const attn_attention_dims *d, const attn_kernels *k,
                       const attn_kernels *scores, size_t bytes[LANE_PARTS]) {
    const size_t E = d->score_width, Ev = d->Ev, widest = E > Ev ? E : Ev;
    const size_t key_room = larger(k->value_room(E), scores->value_room(E));
    const size_t factors[LANE_PARTS][2] = {
        {k->rows, Ev},          {4 * k->rows, k->keys},    {k->keys, widest},
        {1, key_room},          {1, scores->key_room(Ev)}, {E, k->keys},
        {1, k->rows + k->keys},
    };
    for (int p = 0; p < LANE_PARTS; p++) {
        if (!attn_size_mul(factors[p][0], factors[p][1], &bytes[p]) ||
            !attn_size_mul(bytes[p], k->elem, &bytes[p]) || bytes[p] > SIZE_MAX - ATTN_ALIGN)
            return false;
        bytes[p] = attn_align_up(bytes[p]);
    }
    return true;
}

static bool lane_init(const attn_backward *g, attn_backward_lane *l, attn_arena *arena) {
    const attn_kernels *k = g->k;
    const attn_attention_dims *d = &g->a->dims;
    const size_t tile = k->rows * k->keys * k->elem;
    size_t bytes[LANE_PARTS];
    char *part[LANE_PARTS];
    if (!lane_parts(d, k, g->scores, bytes) ||
        !attn_block_work_init(&l->work, g->scores, k->rows, d, arena))
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
    l->key_values = part[LANE_KEY_VALUES];
    l->value_keys = part[LANE_VALUE_KEYS];
    l->dkey_tanh = part[5];
    l->ones = part[6];
    l->keep = (uint8_t *)(part[6] + k->rows * k->elem);
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

/* Bytes of the passes with table k, as attn_backward_allocate and those who follow take them. */
static bool pass_bytes(const attn_attention_dims *d, const attn_kernels *k,
                       const attn_kernels *scores, size_t bias_elements, size_t slots,
                       size_t *bytes) {
    const size_t E = d->score_width, Ev = d->Ev, heads = d->B * d->Hq;
    const size_t rows = heads * d->L, keys = d->B * d->Hkv * d->S;
    size_t blocks, tiles, chunks, each, part[LANE_PARTS], lane;
    split(d, k, &blocks, &tiles, &chunks, &each);
    const attn_backward_rows query = rows_bytes(k, scores, E), out = rows_bytes(k, scores, Ev);
    const size_t pieces = d->B * d->Hkv * chunks;
    const size_t tables = d->relative ? pieces : d->B * chunks;
    const bool in_lanes = lane_homes(d, chunks, slots, bias_elements > 0);
    const size_t places = (in_lanes ? slots * attn_group(d) : heads) * blocks;
    *bytes = 0;
    bool ok = lane_parts(d, k, scores, part) && attn_block_work_bytes(scores, k->rows, d, &lane);
    for (int p = 0; ok && p < LANE_PARTS; p++)
        ok = attn_size_add(lane, part[p], &lane);
    return ok &&
           attn_size_add(lane, sizeof(attn_backward_lane) + (d->relative + 1) * sizeof(double),
                         &lane) &&
           add(bytes, slots, lane, 1) &&
           add(bytes, places, query.value_bytes + query.query_bytes, 1) &&
           add(bytes, places, out.value_bytes + out.query_bytes + sizeof(double), 1) &&
           add(bytes, rows, 3, sizeof(double)) &&
           add(bytes, chunks * rows, k->acc_room(E), k->elem) &&
           add(bytes, keys, k->acc_room(E) + k->acc_room(Ev), k->elem) &&
           add(bytes, pieces, sizeof(attn_backward_sums), 1) &&
           add(bytes, tables, d->positions, sizeof(double)) &&
           (!d->tanh_score || add(bytes, pieces, E, sizeof(double))) &&
           (!d->transforms || add(bytes, 2 * E + 1, 2, sizeof(double))) &&
           (!d->maps ||
            (add(bytes, rows, d->E, 2 * k->elem) && add(bytes, keys, d->Ek, 2 * k->elem) &&
             add(bytes, d->maps, 2, k->elem))) &&
           add(bytes, bias_elements, sizeof(double), 1) &&
           add(bytes, d->B, ATTN_MASK_LAYERS + 8, sizeof(ptrdiff_t));
}

/* Of a lane where a piece is a head: its tiles and the numerators of a block of rows. */
static bool head_parts(const attn_attention_dims *d, const attn_kernels *k, size_t *tiles,
                       size_t *kept) {
    size_t part[LANE_PARTS], count = d->S / k->keys + 1;
    return lane_parts(d, attn_kernels_plain(k), k, part) &&
           attn_size_mul(count, part[LANE_KEY_VALUES] + part[LANE_VALUE_KEYS], tiles) &&
           attn_size_mul(k->rows * k->elem, d->S, kept);
}

bool attn_backward_by_heads(const attn_attention_dims *d, const attn_kernels *k) {
    size_t blocks, tiles, chunks, each;
    split(d, attn_kernels_plain(k), &blocks, &tiles, &chunks, &each);
    return k->finish_weights && d->precision == ATTN_PRECISION_FP32 && !d->tanh_score &&
           !d->relative && chunks == 1 && d->L > ATTN_FEW_QUERIES && tiles > 0 &&
           tiles <= ATTN_BACKWARD_MOST_TILES;
}

bool attn_backward_allocate_heads(attn_backward *g, size_t slots, attn_arena *arena) {
    const attn_attention_dims *d = &g->a->dims;
    size_t part[LANE_PARTS], tiles, kept;
    if (!lane_parts(d, g->k, g->scores, part) || !head_parts(d, g->scores, &tiles, &kept))
        return false;
    for (size_t s = 0; s < slots; s++) {
        attn_backward_lane *l = &g->lanes[s];
        l->head = attn_pack_head_new(g->a, arena);
        l->tiles = attn_arena_take(arena, tiles);
        l->kept = attn_arena_take(arena, kept);
        l->key_bytes = part[LANE_KEY_VALUES];
        l->tile_bytes = l->key_bytes + part[LANE_VALUE_KEYS];
        if (!l->head || !l->tiles || !l->kept)
            return false;
    }
    return true;
}

/* What that takes. */
static bool head_bytes(const attn_attention_dims *d, const attn_kernels *k, size_t slots,
                       size_t *bytes) {
    size_t tiles, kept, packed;
    if (!attn_backward_by_heads(d, k))
        return true;
    return head_parts(d, k, &tiles, &kept) && attn_pack_head_bytes(d, k, &packed) &&
           add(bytes, slots, packed, 1) && add(bytes, slots, tiles, 1) &&
           add(bytes, slots, kept, 1);
}

/* Packed operands, where the run kept none. */
static bool pack_bytes(const attn_attention_dims *d, const attn_kernels *k, size_t slots,
                       size_t *bytes) {
    const size_t E = d->score_width, widest = E > d->Ev ? E : d->Ev;
    return attn_pack_bytes(d, k, d->B, bytes) && add(bytes, slots, k->keys * widest, k->elem) &&
           add(bytes, slots, sizeof(void *), 1) && add(bytes, 1, sizeof(attn_packed), 1);
}

attn_status attn_gradients_cost(const attn_attention_dims *d, size_t bias_elements, size_t slots,
                                attn_cost *out, attn_error *err) {
    const attn_kernels *ref = attn_kernels_of(ATTN_ISA_REF);
    const attn_kernels *k = attn_kernels_with(d->isa, d->precision, d->tanh_score);
    const size_t elem = attn_dtype_size(d->result);
    const size_t rows = d->B * d->Hq * d->L, keys = d->B * d->Hkv * d->S;
    attn_cost c = {.cells = (double)rows * (double)d->S};
    c.operations = c.cells * 2 * (3 * (double)d->score_width + 2 * (double)d->Ev);
    size_t fast, reference;
    bool ok =
        pass_bytes(d, attn_kernels_plain(k), k, bias_elements, slots, &fast) &&
        pass_bytes(d, ref, ref, bias_elements, slots, &reference) &&
        pack_bytes(d, k, slots, &c.work_bytes) && head_bytes(d, k, slots, &c.work_bytes) &&
        attn_size_add(c.work_bytes, fast > reference ? fast : reference, &c.work_bytes) &&
        add(&c.result_bytes, rows, d->E, elem) && add(&c.result_bytes, keys, d->Ek + d->Ev, elem) &&
        add(&c.result_bytes, bias_elements, elem, 1) &&
        add(&c.result_bytes, d->positions, elem, 1) && add(&c.result_bytes, d->maps, elem, 1) &&
        add(&c.result_bytes, 2 * d->score_width + d->Hq, elem, 1);
    if (!ok)
        return attn_fail(err, ATTN_ELIMIT, "grad_output", "more bytes than can be counted");
    *out = c;
    return ATTN_OK;
}

static void *take(attn_arena *arena, size_t count, size_t size) {
    size_t bytes;
    return attn_size_mul(count, size, &bytes) ? attn_arena_take(arena, bytes) : NULL;
}

static bool take_rows(const attn_backward *g, size_t width, size_t blocks, attn_arena *arena,
                      attn_backward_rows *rows) {
    *rows = rows_bytes(g->k, g->scores, width);
    rows->values = take(arena, blocks, rows->value_bytes);
    rows->queries = take(arena, blocks, rows->query_bytes);
    return rows->values && rows->queries;
}

/* How many entries a head's gradients have: 1 slope, T5's buckets, the relative table's width. */
static size_t entries_of(const attn_attention *a) {
    const attn_position *p = &a->in.position;
    switch (p->kind) {
    case ATTN_POSITION_ALIBI:
        return p->slopes.rank ? 1 : 0;
    case ATTN_POSITION_T5:
        return p->table.dims[0];
    case ATTN_POSITION_RELATIVE:
        return p->table.dims[1];
    default:
        return 0;
    }
}

static bool sums_init(const attn_backward *g, attn_backward_sums *s, attn_arena *arena) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t relative = g->a->rule.relative;
    size_t count;
    if (!attn_size_mul(attn_group(d), g->entries, &count))
        return false;
    s->entries = count ? attn_arena_zeroed(arena, count, sizeof(double)) : NULL;
    s->v = g->a->score_v ? attn_arena_zeroed(arena, d->score_width, sizeof(double)) : NULL;
    if (relative && attn_size_mul(relative, d->score_width, &count))
        s->keys = attn_arena_zeroed(arena, count, sizeof(double));
    if (g->a->rule.values && attn_size_mul(relative, d->Ev, &count))
        s->values = attn_arena_zeroed(arena, count, sizeof(double));
    return (s->entries || !g->entries) && (s->v || !g->a->score_v) && (s->keys || !relative) &&
           (s->values || !g->a->rule.values);
}

static bool tables_new(attn_backward *g, size_t pieces, attn_arena *arena) {
    g->entries = entries_of(g->a);
    g->sums = attn_arena_zeroed(arena, pieces, sizeof *g->sums);
    for (size_t p = 0; g->sums && p < pieces; p++)
        if (!sums_init(g, &g->sums[p], arena))
            return false;
    return g->sums != NULL;
}

bool attn_backward_allocate(attn_backward *g, size_t slots, attn_arena *arena) {
    const attn_attention_dims *d = &g->a->dims;
    const attn_kernels *k = g->k;
    const size_t heads = d->B * d->Hq, rows = heads * d->L, elem = k->elem;
    size_t blocks, keys;
    split(d, k, &g->blocks, &g->tiles, &g->chunks, &g->tiles_a_chunk);
    g->lane_homes = lane_homes(d, g->chunks, slots, attn_backward_has_biases(g->a->mask));
    if (!attn_size_mul(g->lane_homes ? slots * attn_group(d) : heads, g->blocks, &blocks) ||
        !attn_size_mul(d->B * d->Hkv, d->S, &keys))
        return false;
    g->dot = attn_arena_zeroed(arena, rows, sizeof(double));
    g->out_magnitude = take(arena, blocks, sizeof *g->out_magnitude);
    g->dquery = take(arena, g->chunks * rows * elem, k->acc_room(d->score_width));
    g->dkey = take(arena, keys * elem, k->acc_room(d->score_width));
    g->dvalue = take(arena, keys * elem, k->acc_room(d->Ev));
    g->lanes = attn_arena_zeroed(arena, slots, sizeof *g->lanes);
    if (!g->dot || !g->out_magnitude || !g->dquery || !g->dkey || !g->dvalue || !g->lanes ||
        !take_rows(g, d->score_width, blocks, arena, &g->queries) ||
        !take_rows(g, d->Ev, blocks, arena, &g->outs))
        return false;
    for (size_t s = 0; s < slots; s++)
        if (!lane_init(g, &g->lanes[s], arena))
            return false;
    return tables_new(g, d->B * d->Hkv * g->chunks, arena);
}
