/* A forward pass: pieces of work for the pool, and their results.
 *
 * There are three kinds of pieces. Long inputs: keys and values of all heads are packed once, and a
 * piece is a few blocks of rows. Small heads: a piece packs one key/value head and computes all of
 * its rows, so that its operands stay in the caches. Few rows: a piece computes all heads of a
 * group, which share every key and value where it lies. */
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

static bool allocate_tensor(attn_arena *arena, attn_dtype dtype, int rank, const size_t *dims,
                            attn_tensor *out) {
    size_t count;
    attn_tensor t = attn_tensor_dense(NULL, dtype, rank, dims);
    if (!attn_tensor_count(&t, &count) || !attn_size_mul(count, attn_dtype_size(dtype), &count))
        return false;
    t.data = attn_arena_take(arena, count);
    *out = t;
    return t.data != NULL;
}

static attn_status allocate_results(const attn_attention *a, unsigned want, attn_arena *arena,
                                    attn_results *out, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    const size_t rows = d->B * d->Hq * d->L;
    *out = (attn_results){.hidden_rows = 0};
    double *stats = attn_arena_zeroed(arena, rows, 2 * sizeof(double) + 1);
    bool ok = stats != NULL;
    if (ok)
        out->stats = (attn_stats){stats, stats + rows, (uint8_t *)(stats + 2 * rows)};
    if (want & ATTN_WANT_OUTPUT)
        ok = ok && allocate_tensor(arena, d->result, d->output_rank, d->output, &out->output);
    if (want & ATTN_WANT_WEIGHTS)
        ok = ok && allocate_tensor(arena, d->result, d->weights_rank, d->weights, &out->weights);
    if (want & ATTN_WANT_WEIGHTS_DROPPED)
        ok = ok &&
             allocate_tensor(arena, d->result, d->weights_rank, d->weights, &out->weights_dropped);
    if (want & ATTN_WANT_LOGSUMEXP)
        ok = ok && allocate_tensor(arena, d->result, d->rows_rank, d->rows, &out->logsumexp);
    if (want & ATTN_WANT_SCORES)
        ok = ok && allocate_tensor(arena, d->result, d->weights_rank, d->weights, &out->scores);
    return ok ? ATTN_OK : attn_fail(err, ATTN_ENOMEM, "", "no memory left for the results");
}

/* --- the split --- */

/* PART: bytes of packed keys and values that stay in the second cache beside all else. */
enum { ABREAST = 4, PART = 5 << 18 };

/* Of a packed tile of keys and values. */
static size_t tile_bytes(const attn_attention_dims *d, const attn_kernels *k) {
    return (k->key_room(d->score_width) + k->value_room(d->Ev)) * k->elem;
}

/* With weights: one after the other, as those of the blocks would take more of the cache than is
 * gained. `ref` and scores with a tanh wait for their arithmetic, not for the cache. */
size_t attn_forward_abreast(const attn_attention_dims *d, const attn_kernels *k, unsigned want) {
    size_t bytes;
    if (k->isa == ATTN_ISA_REF || d->tanh_score || d->L <= k->rows || want & ATTN_WANT_WEIGHTS ||
        (attn_size_mul(d->S, tile_bytes(d, k), &bytes) && bytes <= PART * k->keys))
        return 1;
    const size_t blocks = (d->L + k->rows - 1) / k->rows;
    return blocks < ABREAST ? blocks : ABREAST;
}

static size_t keys_at_a_time(const attn_attention *a) {
    const attn_attention_dims *d = &a->dims;
    const attn_kernels *k = a->kernels;
    if (a->rule.values) /* whose sums over positions end with the pass */
        return d->S;
    const size_t tiles = (d->S + k->keys - 1) / k->keys, bytes = tile_bytes(d, k);
    const size_t most = bytes < PART ? PART / bytes : 1, parts = (tiles + most - 1) / most;
    return (tiles + parts - 1) / parts * k->keys;
}

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

size_t attn_forward_head_bytes(const attn_attention_dims *d, const attn_kernels *k, unsigned want) {
    enum { CACHE = 1 << 20 };
    const unsigned later = ATTN_WANT_CELLS | ATTN_WANT_SCORES | ATTN_WANT_WEIGHTS_DROPPED;
    const bool weights_later = (want & ATTN_WANT_WEIGHTS) && k->elem != attn_dtype_size(d->result);
    size_t bytes;
    if (d->L <= ATTN_FEW_QUERIES || (want & later) || weights_later)
        return 0;
    const double rows = (double)attn_group(d) * (double)d->L;
    return attn_forward_operations(d, rows) <= ATTN_PIECE_OPERATIONS &&
                   attn_pack_head_bytes(d, k, &bytes) && bytes <= CACHE
               ? bytes
               : 0;
}

/* Of a piece whose blocks go abreast, at most: 20 to 60 ms of float arithmetic. */
#define ABREAST_OPERATIONS (50 * ATTN_PIECE_OPERATIONS)

/* Which blocks of rows are one piece's work, and how many of them go abreast. */
static void plan_pieces(attn_forward *f, size_t slots) {
    const attn_attention_dims *d = &f->a->dims;
    const size_t rows = f->a->kernels->rows;
    const double block = attn_forward_operations(d, (double)rows) + 1;
    f->row_blocks = (d->L + rows - 1) / rows;
    f->abreast = attn_forward_abreast(d, f->a->kernels, f->want);
    while (f->abreast > 1 && ((double)f->abreast * block > ABREAST_OPERATIONS ||
                              d->B * d->Hq * f->row_blocks < 2 * f->abreast * slots))
        f->abreast /= 2; /* pieces stay short, and every slot has work */
    f->part = f->abreast > 1 ? keys_at_a_time(f->a) : d->S;
    f->blocks_a_piece = block < ATTN_PIECE_OPERATIONS ? (size_t)(ATTN_PIECE_OPERATIONS / block) : 1;
    if (f->blocks_a_piece < f->abreast)
        f->blocks_a_piece = f->abreast;
    if (f->blocks_a_piece > f->row_blocks)
        f->blocks_a_piece = f->row_blocks ? f->row_blocks : 1;
    f->pieces_a_head = (f->row_blocks + f->blocks_a_piece - 1) / f->blocks_a_piece;
}

/* --- lanes --- */

/* Without packed keys the group's heads share the first one's packed tile. */
static void place_runs(const attn_attention *a, size_t rows, size_t kept, char *area,
                       attn_block_run *runs, size_t count) {
    for (size_t g = 0; g < count; g++) {
        attn_block_work *w = &runs[g].work;
        area += attn_block_work_place(w, a->kernels, rows, &a->dims, area);
        w->packed_key = runs->work.packed_key;
        w->packed_value = runs->work.packed_value;
        runs[g].maxima = w->maxima;
        runs[g].kept = kept ? area : NULL;
        area += kept;
    }
}

/* What is large is taken from the system in one piece, as each has its cost. */
static bool lane_init(const attn_forward *f, attn_forward_lane *l, size_t runs, attn_arena *arena) {
    const attn_attention *a = f->a;
    const attn_attention_dims *d = &a->dims;
    const attn_kernels *k = a->kernels, *ref = attn_kernels_of(ATTN_ISA_REF);
    const size_t rows = d->L < k->rows ? d->L : k->rows;
    const size_t kept =
        attn_forward_keeps(f) && f->parts == 1 ? attn_block_kept_bytes(k, rows, d) : 0;
    size_t table, reference, bytes;
    l->runs = attn_arena_zeroed(arena, runs, sizeof *l->runs + sizeof *l->streams);
    if (!l->runs || !attn_block_work_bytes(k, rows, d, &table) ||
        !attn_block_work_bytes(ref, 1, d, &reference) ||
        !attn_size_mul(runs, table + kept, &bytes) || !attn_size_add(bytes, reference, &bytes) ||
        !attn_arena_reserve(arena, bytes + f->head_bytes))
        return false;
    char *area = attn_arena_take(arena, bytes);
    if (!area || (f->head_bytes && !(l->head = attn_pack_head_new(a, arena))))
        return false;
    l->streams = (attn_stream *)(l->runs + runs);
    l->double_area = area;
    place_runs(a, rows, kept, area + reference, l->runs, runs);
    return true;
}

static attn_status allocate_lanes(attn_forward *f, size_t slots, attn_arena *arena,
                                  attn_error *err) {
    const attn_attention_dims *d = &f->a->dims;
    const size_t runs = d->L <= ATTN_FEW_QUERIES ? attn_group(d) : f->abreast;
    f->lanes = attn_arena_zeroed(arena, slots, sizeof *f->lanes);
    for (size_t s = 0; s < slots; s++)
        if (!f->lanes || !lane_init(f, &f->lanes[s], runs, arena))
            return attn_fail(err, ATTN_ENOMEM, "", "no memory left for scratch");
    return ATTN_OK;
}

attn_status attn_forward_open(attn_forward *f, const attn_attention *a, unsigned want, size_t slots,
                              const attn_control *control, attn_arena *arena, attn_results *out,
                              attn_error *err) {
    *f = (attn_forward){.a = a,
                        .want = want,
                        .control = control,
                        .out = out,
                        .elem = attn_dtype_size(a->dims.result),
                        .head_bytes = a->sets == a->dims.B
                                          ? attn_forward_head_bytes(&a->dims, a->kernels, want)
                                          : 0,
                        .parts = attn_forward_parts(&a->dims)};
    attn_status status = allocate_results(a, want, arena, out, err);
    if (status != ATTN_OK)
        return status;
    plan_pieces(f, slots);
    return allocate_lanes(f, slots, arena, err);
}

/* --- pieces over packed keys ---
 *
 * The keys and values of a long head are more than the second-level cache holds, and each block of
 * rows would fetch all of them again. So a few blocks go abreast, part of the keys by part:
 *
 *              part 0   part 1   part 2
 *   block 0       1        5        9        in this order; between its parts a block's maxima,
 *   block 1       2        6       10        sums and packed queries wait in its work area
 *   block 2       3        7       11
 *   block 3       4        8       12 */

/* `count` blocks from the one at row i on. */
static attn_status run_abreast(attn_forward *f, size_t b, size_t h, size_t i, size_t count,
                               const attn_packed *packed, attn_forward_lane *l, attn_error *err) {
    const size_t L = f->a->dims.L, S = f->a->dims.S, rows = f->a->kernels->rows;
    attn_status status = ATTN_OK;
    for (size_t n = 0; n < count && status == ATTN_OK; n++, i += rows) {
        const attn_block block = {b, h, i, L - i < rows ? L - i : rows};
        status = attn_forward_begin(f, &block, packed, &l->runs[n], err);
    }
    size_t from = 0;
    do {
        for (size_t n = 0; n < count && status == ATTN_OK; n++) {
            attn_stream *s = &l->runs[n].stream;
            s->from = from;
            s->to = from + f->part;
            s->goes_on = from > 0;
            attn_block_stream(f->a, s, 1, packed);
        }
        from += f->part;
        if (from < S)
            attn_pool_yield(f->pool);
    } while (from < S);
    for (size_t n = 0; n < count && status == ATTN_OK; n++)
        status = attn_forward_end(f, &l->runs[n], l, err);
    return status;
}

static attn_status run_blocks(attn_forward *f, size_t b, size_t h, size_t first, size_t last,
                              const attn_packed *packed, attn_forward_lane *l, attn_error *err) {
    attn_status status = ATTN_OK;
    for (size_t n = first; n < last && status == ATTN_OK; n += f->abreast) {
        const size_t left = last - n, count = left < f->abreast ? left : f->abreast;
        status = run_abreast(f, b, h, n * f->a->kernels->rows, count, packed, l, err);
    }
    return status;
}

static attn_status run_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = ctx;
    const size_t head = index / f->pieces_a_head, Hq = f->a->dims.Hq;
    const size_t first = index % f->pieces_a_head * f->blocks_a_piece;
    const size_t left = f->row_blocks - first;
    const size_t count = left < f->blocks_a_piece ? left : f->blocks_a_piece;
    return run_blocks(f, head / Hq, head % Hq, first, first + count, f->packed, &f->lanes[lane],
                      err);
}

/* --- pieces that pack a head --- */

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
        status = run_blocks(f, b, h, 0, f->row_blocks, l->head, l, err);
    return status;
}

static attn_status run_heads(attn_forward *f, attn_pool *pool, attn_error *err) {
    return attn_pool_run(pool, f->a->dims.B * f->a->dims.Hkv, run_head, f, f->control, err);
}

/* --- pieces of few rows ---
 *
 * A long cache is taken in parts, so that one group keeps a pool busy:
 *
 *   keys of a group   [ part 0 | part 1 | … ]     pieces of the pool: max, sum, acc of each
 *                         \        |      /
 *                           merged in order       a piece a group: the end of its rows
 *
 * A numerator belongs to the running maximum of its tile, which is kept whatever its part, so
 * weights and single cells are the same bits. */

static bool take_sums(attn_forward *f, attn_arena *arena) {
    const attn_attention_dims *d = &f->a->dims;
    const attn_kernels *k = f->a->kernels;
    size_t bytes;
    if (!attn_size_mul(d->B * d->Hq * f->parts, sums_bytes(d, k), &bytes))
        return false;
    f->sums = attn_arena_take(arena, bytes);
    f->magnitudes = attn_arena_take(arena, d->B * d->Hkv * f->parts * 2 * sizeof *f->magnitudes);
    if (!f->sums || !f->magnitudes || !attn_forward_keeps(f))
        return f->sums && f->magnitudes;
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
static attn_status end_group(attn_forward *f, attn_forward_lane *l, double key_magnitude,
                             double value_magnitude, attn_error *err) {
    const attn_attention *a = f->a;
    attn_status status = ATTN_OK;
    const double most = attn_most_packed(a->kernels);
    if (!(key_magnitude <= most && value_magnitude <= most)) {
        atomic_store(&f->not_finite, 1);
        return ATTN_OK;
    }
    for (size_t g = 0; g < attn_group(&a->dims) && status == ATTN_OK; g++) {
        l->runs[g].in_double |=
            attn_forward_overflowing(a, &l->runs[g], key_magnitude, value_magnitude);
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
    return end_group(f, l, shared->key_magnitude, shared->value_magnitude, err);
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
    f->magnitudes[2 * index] = l->runs->work.key_magnitude;
    f->magnitudes[2 * index + 1] = l->runs->work.value_magnitude;
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
    double key_magnitude = 0, value_magnitude = 0;
    attn_status status = begin_group(f, index, 0, d->S, l, err);
    for (size_t part = 0; status == ATTN_OK && part < f->parts; part++) {
        const double *most = &f->magnitudes[2 * (index * f->parts + part)];
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

static attn_status run_groups(attn_forward *f, attn_pool *pool, attn_arena *arena,
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

/* --- the pass --- */

static attn_status run_rows(attn_forward *f, attn_pool *pool, attn_arena *arena, attn_error *err) {
    const attn_attention_dims *d = &f->a->dims;
    f->pool = pool;
    if (f->packed)
        return attn_pool_run(pool, d->B * d->Hq * f->pieces_a_head, run_piece, f, f->control, err);
    if (f->head_bytes)
        return run_heads(f, pool, err);
    return run_groups(f, pool, arena, err);
}

/* The run over packed keys and values. */
static attn_status run_packed(attn_attention *a, attn_forward *f, attn_pool *pool,
                              attn_arena *arena, attn_error *err) {
    attn_packed *packed;
    attn_status status = attn_pack(a, pool, f->control, arena, &packed, err);
    if (status != ATTN_OK)
        return status;
    a->packed = f->packed = packed;
    f->hidden_rows = 0;
    return run_rows(f, pool, arena, err);
}

/* Weights [B, Hq, L, S] become those after dropout. */
static void drop_weights(const attn_attention *a, attn_tensor *weights) {
    const size_t S = a->dims.S, elem = attn_dtype_size(a->dims.result);
    for (size_t row = 0; row < a->dims.B * a->dims.Hq * a->dims.L; row++)
        attn_drop_row(a, row, 0, S, elem, (char *)weights->data + row * S * elem);
}

attn_status attn_forward_finish(attn_forward *f, attn_stage stage, attn_pool *pool,
                                attn_arena *arena, attn_error *err) {
    const attn_attention *a = f->a;
    const attn_control *control = f->control;
    attn_results *out = f->out;
    attn_status status = ATTN_OK;
    out->hidden_rows = f->hidden_rows;
    if (f->want & ATTN_WANT_SCORES)
        status =
            attn_cells_fill(a, &out->stats, stage, false, pool, control, arena, &out->scores, err);
    if (status == ATTN_OK && (f->want & ATTN_WANT_WEIGHTS))
        status = attn_cells_fill(a, &out->stats, ATTN_STAGE_PROBS, attn_forward_keeps(f), pool,
                                 control, arena, &out->weights, err);
    if (status == ATTN_OK && (f->want & ATTN_WANT_WEIGHTS_DROPPED)) {
        status = attn_cells_fill(a, &out->stats, ATTN_STAGE_PROBS, false, pool, control, arena,
                                 &out->weights_dropped, err);
        if (status == ATTN_OK)
            drop_weights(a, &out->weights_dropped);
    }
    if (status == ATTN_OK && (f->want & ATTN_WANT_PRESENT))
        status = attn_present(a, arena, out, err);
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
    a->packed = NULL; /* its arena may be gone */
    status = attn_forward_open(&f, a, want, attn_pool_slots(pool), control, arena, &results, err);
    const bool pieces_pack = f.head_bytes || a->dims.L <= ATTN_FEW_QUERIES;
    if (status == ATTN_OK && pieces_pack)
        status = run_rows(&f, pool, arena, err);
    if (status == ATTN_OK && (!pieces_pack || f.not_finite))
        status = run_packed(a, &f, pool, arena, err);
    if (status == ATTN_OK)
        status = attn_forward_finish(&f, stage, pool, arena, err);
    if (status != ATTN_OK || !(want & ATTN_WANT_CELLS))
        a->packed = NULL;
    if (status == ATTN_OK)
        *out = results;
    return status;
}
