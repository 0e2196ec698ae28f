/* Makes the plans of the forward and the backward pass, and counts the cost of the forward pass.
 *
 * A plan depends only on the shapes and on what was asked for, so that the bytes of the results do
 * not depend on the size of the pool. There are three exceptions, which change no result:
 * `abreast`, `lane_homes` and the size of tasks with windows depend on the number of slots, too. */
#include "attention/plan.h"

#include "attention/backward.h"
#include "attention/forward.h"

enum {
    ABREAST = 4,    /* most blocks that a task takes together over the keys */
    PART = 5 << 18, /* bytes of packed keys and values, 1.25 MiB, that stay in a second-level cache
                     * beside other data */
    CACHE = 1 << 20 /* bytes of other data that stay in a cache */
};

/* With few queries, the keys of a group are divided into ranges of about PART_KEYS keys: 2 MiB of
 * keys and values of width 64, which take 0.1 ms or more to read. If there are ENOUGH_PIECES
 * groups, each of which is a task, this division gains nothing. */
enum { PART_KEYS = 4096, ENOUGH_PIECES = 64 };

/* Time of a sine or a cosine in floating-point operations. */
#define ENCODING_OPERATIONS 32.0

/* Most floating-point operations of a task with several blocks: about 1 ms with a fast kernel
 * table. If the blocks go over the keys together, it may have ABREAST_OPERATIONS, 20 to 60 ms. */
#define PIECE_OPERATIONS   1e8
#define ABREAST_OPERATIONS (50 * PIECE_OPERATIONS)

/* Returns the floating-point operations of `rows` rows against `keys` keys. The exponential and the
 * edits of a cell count as CELL_OPERATIONS multiply-adds. */
static double operations_on(const attn_attention_dims *d, double rows, double keys) {
    enum { CELL_OPERATIONS = 16 };
    return 2 * rows * keys * (double)(d->score_width + d->Ev + CELL_OPERATIONS);
}
static double operations(const attn_attention_dims *d, double rows) {
    return operations_on(d, rows, (double)d->S);
}

/* Returns the bytes of a tile of packed keys and values. */
static size_t tile_bytes(const attn_attention_dims *d, const attn_kernels *k) {
    return (attn_key_room(k, d->score_width) + attn_value_room(k, d->Ev)) * k->elem;
}

/* Returns how many blocks a task may take together over the keys. Blocks are taken together so that
 * they share the keys that are in the cache. The number is 1
 * - for `ref` and for scores with tanh, whose time is arithmetic and not memory access;
 * - if a head has only one block;
 * - if weights are wanted, since writing them displaces more from the cache than is gained;
 * - if all keys and values of a head fit into the cache. */
static size_t most_abreast(const attn_plan *p) {
    const attn_attention_dims *d = p->dims;
    const attn_kernels *k = p->kernels;
    size_t bytes;
    if (k->isa == ATTN_ISA_REF || d->tanh_score || d->L <= k->rows || p->want & ATTN_WANT_WEIGHTS ||
        (attn_size_mul(d->S, tile_bytes(d, k), &bytes) && bytes <= PART * k->keys))
        return 1;
    return p->row_blocks < ABREAST ? p->row_blocks : ABREAST;
}

/* Returns the number of keys in each of `parts` ranges of keys, which are whole tiles. */
static size_t keys_of_part(const attn_plan *p, size_t parts) {
    const size_t tiles = attn_key_tiles(p->kernels, p->dims->S);
    return (tiles + parts - 1) / parts * p->kernels->keys;
}

/* Plans the tasks of ATTN_WAY_PACKED: abreast, part_keys, blocks_a_piece and pieces_a_head. */
static void plan_pieces(attn_plan *p) {
    const attn_attention_dims *d = p->dims;
    const attn_kernels *k = p->kernels;
    const double block = operations(d, (double)k->rows) + 1;
    p->abreast = most_abreast(p);
    while (p->abreast > 1 && ((double)p->abreast * block > ABREAST_OPERATIONS ||
                              d->B * d->Hq * p->row_blocks < 2 * p->abreast * p->slots))
        p->abreast /= 2; /* so that tasks are short and every slot has at least two of them */
    p->part_keys = d->S;
    /* With relative values each call of attn_block_stream must see all keys, since at its end it
     * adds the sums by distance to the output. */
    if (p->abreast > 1 && !d->relative_values) {
        const size_t tiles = attn_key_tiles(k, d->S), bytes = tile_bytes(d, k);
        const size_t most = bytes < PART ? PART / bytes : 1;
        p->part_keys = keys_of_part(p, (tiles + most - 1) / most);
    }
    p->blocks_a_piece = block < PIECE_OPERATIONS ? (size_t)(PIECE_OPERATIONS / block) : 1;
    if (p->blocks_a_piece < p->abreast)
        p->blocks_a_piece = p->abreast;
    if (p->blocks_a_piece > p->row_blocks)
        p->blocks_a_piece = p->row_blocks ? p->row_blocks : 1;
    p->pieces_a_head = (p->row_blocks + p->blocks_a_piece - 1) / p->blocks_a_piece;
}

/* Plans the first half of a pass under a strided pattern. */
static void plan_strided(attn_plan *p) {
    enum { RUNS = 4 }; /* blocks of a class that share a tile of keys */
    const attn_attention_dims *d = p->dims;
    const size_t stride = (size_t)d->stride, rows = (d->L + stride - 1) / stride;
    const size_t blocks = (rows + p->kernels->rows - 1) / p->kernels->rows;
    p->runs = p->runs < blocks ? blocks < RUNS ? blocks : RUNS : p->runs;
    const size_t unit = p->runs * p->kernels->rows, in_unit = rows < unit ? rows : unit;
    const double work = operations(d, (double)in_unit) / (double)stride + 1;
    attn_strided_plan *s = &p->strided;
    s->units_a_class = (rows + unit - 1) / unit;
    s->units = stride * s->units_a_class;
    s->units_a_piece = work < PIECE_OPERATIONS ? (size_t)(PIECE_OPERATIONS / work) : 1;
    if (s->units_a_piece > s->units)
        s->units_a_piece = s->units;
    s->pieces_a_head = (s->units + s->units_a_piece - 1) / s->units_a_piece;
}

/* Returns whether something that is computed after the pass needs packed keys: cells, scores,
 * dropped weights, and weights unless the pass keeps what becomes weights. */
static bool needs_packed(const attn_plan *p) {
    const unsigned later = ATTN_WANT_CELLS | ATTN_WANT_SCORES | ATTN_WANT_WEIGHTS_DROPPED;
    return (p->want & later) || ((p->want & ATTN_WANT_WEIGHTS) && !p->keeps);
}

/* Plans tasks with windows if the queries see few keys (dims.reach), a window fits into the cache,
 * and nothing needs all packed keys. A key that few blocks see takes more time to be written to
 * memory and read again than to be packed.
 *
 * A task begins with an empty window. It has so many blocks that filling the window takes little of
 * its time, unless there would be too few tasks. */
static void plan_windows(attn_plan *p) {
    enum { FILLS = 4 }; /* the keys of a task, in windows */
    const attn_attention_dims *d = p->dims;
    const attn_kernels *k = p->kernels;
    const size_t tiles = attn_key_tiles(k, d->S), groups = d->B * d->Hkv;
    if (!d->reach || d->sets != d->B || needs_packed(p))
        return;
    const size_t pinned = attn_key_tiles(k, d->first_keys);
    const size_t band = attn_key_tiles(k, d->reach + k->rows) + 1;
    size_t bytes;
    if (2 * (pinned + band) > tiles || !attn_size_mul(pinned + band, tile_bytes(d, k), &bytes) ||
        bytes > PART)
        return;
    const double keys = (double)(d->first_keys + d->reach + k->rows);
    const double block = operations_on(d, (double)(k->rows * attn_group(d)), keys) + 1;
    const size_t least = FILLS * band * k->keys / k->rows;
    size_t blocks = block < PIECE_OPERATIONS ? (size_t)(PIECE_OPERATIONS / block) : 1;
    blocks = blocks < least ? least : blocks;
    while (blocks > 1 && groups * ((p->row_blocks - 1) / blocks + 1) < 2 * p->slots)
        blocks = (blocks + 1) / 2;
    p->way = ATTN_WAY_WINDOWS;
    p->window = pinned + band;
    p->pinned = pinned;
    p->abreast = p->runs = 1;
    p->part_keys = d->S;
    p->blocks_a_piece = blocks;
    p->pieces_a_head = (p->row_blocks - 1) / blocks + 1;
}

/* Returns whether a task computes a whole group and packs its keys and values itself
 * (ATTN_WAY_HEADS):
 * - batch entries do not share keys and values, which would then be packed several times;
 * - nothing that is computed after the pass needs packed keys;
 * - the task takes about 1 ms at most;
 * - the packed keys and values of a head fit into a cache. */
static bool packs_heads(const attn_plan *p) {
    const attn_attention_dims *d = p->dims;
    attn_area head = {0};
    if (d->sets != d->B || needs_packed(p) ||
        operations(d, (double)attn_group(d) * (double)d->L) > PIECE_OPERATIONS)
        return false;
    attn_packed_place(&head, d, p->kernels, 1);
    return !head.overflow && head.used <= CACHE;
}

/* Returns the number of ranges into which the keys of a group are divided, with few queries. */
static size_t group_parts(const attn_attention_dims *d) {
    const size_t groups = d->B * d->Hkv;
    if (!groups || d->S <= PART_KEYS)
        return 1;
    const size_t long_enough = (d->S - 1) / PART_KEYS + 1;
    const size_t useful = (ENOUGH_PIECES - 1) / groups + 1;
    return long_enough < useful ? long_enough : useful;
}

/* Returns the size of the memory in which a block keeps what becomes its weights. It is 0, and the
 * block keeps it where the weights will be, if it does not fit into a cache, or if the weights of
 * all blocks together fit into one. */
static size_t kept_bytes(const attn_plan *p) {
    const attn_attention_dims *d = p->dims;
    size_t n, all;
    if (!p->keeps || !attn_size_mul(p->rows * p->kernels->elem, d->S, &n) || n > CACHE)
        return 0;
    const bool fits =
        attn_size_mul(d->B * d->Hq * d->L * p->kernels->elem, d->S, &all) && all <= CACHE;
    return fits ? 0 : n;
}

size_t attn_plan_part(const attn_plan *p) {
    return keys_of_part(p, p->parts);
}

size_t attn_plan_block(const attn_plan *p, const attn_mask *mask, size_t b, size_t i) {
    const size_t L = p->dims->L, rows = p->kernels->rows;
    const size_t end = L - i < rows - i % rows ? L : i + rows - i % rows;
    const int64_t global = (int64_t)p->dims->first_keys - attn_mask_offset(mask, b);
    if (p->way == ATTN_WAY_WINDOWS && p->dims->first_keys && global > (int64_t)i &&
        global < (int64_t)end)
        return (size_t)global - i;
    return end - i;
}

bool attn_plan_fills(const attn_plan *p) {
    return p->want & (ATTN_WANT_SCORES | ATTN_WANT_WEIGHTS_DROPPED) ||
           ((p->want & ATTN_WANT_WEIGHTS) && !p->keeps && !p->strided.units);
}

void attn_plan_make(const attn_attention_dims *d, unsigned want, size_t slots, attn_plan *p) {
    const attn_kernels *k = attn_kernels_with(d->isa, d->precision, d->tanh_score);
    *p = (attn_plan){.dims = d, .kernels = k, .want = want, .slots = slots, .parts = 1};
    p->keeps = (want & ATTN_WANT_WEIGHTS) && k->elem == attn_dtype_size(d->result);
    p->rows = d->L < k->rows ? d->L : k->rows;
    p->row_blocks = (d->L + k->rows - 1) / k->rows;
    plan_pieces(p);
    p->runs = p->abreast;
    if (d->stride) {
        p->keeps = false;
        plan_windows(p);
        plan_strided(p);
    } else if (d->L <= ATTN_FEW_QUERIES) {
        p->way = ATTN_WAY_GROUPS;
        p->runs = attn_group(d);
        p->parts = group_parts(d);
    } else if (packs_heads(p)) {
        p->way = ATTN_WAY_HEADS;
    } else {
        plan_windows(p);
    }
    p->kept = p->parts == 1 ? kept_bytes(p) : 0;
}

/* --- the backward pass --- */

void attn_backward_plan_make(const attn_attention_dims *d, const attn_kernels *kernels,
                             unsigned want, bool biases, size_t slots, attn_backward_plan *p) {
    enum { PIECES = 8 }; /* with fewer groups than this, their tiles are divided into chunks */
    const unsigned later = ATTN_WANT_CELLS | ATTN_WANT_SCORES | ATTN_WANT_WEIGHTS_DROPPED;
    const size_t all = d->B * d->Hkv, heads = all > 0 ? all : 1;
    if (!kernels)
        kernels = attn_kernels_with(d->isa, d->precision, d->tanh_score);
    const attn_kernels *k = attn_kernels_plain(kernels);
    const size_t tiles = attn_key_tiles(k, d->S), wanted = (PIECES + heads - 1) / heads;
    const size_t pieces = wanted < tiles ? wanted : tiles ? tiles : 1;
    *p = (attn_backward_plan){.dims = d, .kernels = k, .scores = kernels, .slots = slots};
    p->blocks = (d->L + k->rows - 1) / k->rows;
    p->tiles = tiles;
    p->tiles_a_chunk = tiles ? (tiles + pieces - 1) / pieces : 1;
    p->chunks = tiles ? (tiles + p->tiles_a_chunk - 1) / p->tiles_a_chunk : 1;
    /* Packed rows are in the memory of a lane only if one task computes all of a group, and if the
     * gradients of bias tensors do not need the rows of all groups afterwards. */
    p->lane_homes = p->chunks == 1 && d->S > 0 && slots < all && !biases;
    /* A task computes both passes of a group, with the numerators of the forward pass, if
     * - the kernel table can turn numerators into weights, in fp32;
     * - the backward pass does not need the scores themselves, as tanh, Shaw's positions, a
     *   softcap, biases by distance and gradients of bias tensors do;
     * - the pass has one half (no strided pattern);
     * - the group is not divided, has more than few queries, and has a bit for each of its tiles;
     * - the output is computed (dO . O needs it), and nothing after the passes needs packed
     * keys. */
    p->by_heads = kernels->finish_weights && d->precision == ATTN_PRECISION_FP32 &&
                  !d->tanh_score && !d->relative && !d->softcap && !d->entries && !biases &&
                  !d->stride && p->chunks == 1 && d->L > ATTN_FEW_QUERIES && tiles > 0 &&
                  tiles <= ATTN_BACKWARD_MOST_TILES && (want & ATTN_WANT_OUTPUT) && !(want & later);
}

/* --- cost --- */

/* Most arrays that attn_attention_new takes from the arena, each aligned to ATTN_ALIGN. */
enum { OPERATION_PIECES = 16 };

/* Counts an upper bound of the memory that attn_attention_new takes, except for the tensors of
 * masks: the operation and its mask, OFFSETS arrays with an element for each batch entry, sinks,
 * tables of positions, and transformed queries and keys. */
static bool count_operation(const attn_attention_dims *d, const attn_kernels *k, attn_area *area) {
    enum { OFFSETS = 16 };
    size_t transformed;
    attn_area_take(area, 1, sizeof(attn_attention) + ATTN_MASK_BYTES);
    attn_area_take(area, d->B, OFFSETS * sizeof(ptrdiff_t));
    attn_area_take(area, d->Hq, sizeof(double));
    attn_area_take(area, d->positions, sizeof(double));
    if (d->encoded) {
        attn_area_take(area, d->encoded, attn_dtype_size(d->result));
        attn_area_take(area, 9 * sizeof(double), d->Hq * (d->E + d->Ek + d->Ev)); /* lines */
    }
    attn_area_take(area, 1, OPERATION_PIECES * ATTN_ALIGN);
    if (!d->transforms)
        return true;
    if (!attn_score_rows_bytes(d, k, &transformed))
        return false;
    attn_area_take(area, 1, transformed);
    return true;
}

bool attn_plan_count(const attn_plan *p, attn_plan_bytes *bytes) {
    attn_area work = {0}, results = {0}, fallback = {0}, lane = {0};
    attn_area *cells = attn_plan_fills(p) ? &work : &fallback;
    attn_area *packing = p->way == ATTN_WAY_PACKED ? &work : &fallback;
    attn_results placed;
    attn_forward_lane placed_lane;
    attn_forward_parts parts;
    double *magnitudes;
    attn_forward_place_results(&results, p, &placed);
    attn_forward_place_lane(&lane, p, &placed_lane);
    attn_area_take(&work, p->slots, sizeof placed_lane);
    attn_area_take(&work, p->slots, lane.used);
    if (p->parts > 1)
        attn_forward_place_parts(&work, p, &parts);
    if (p->strided.units)
        attn_forward_place_strided(&work, p, &magnitudes);
    if (attn_plan_fills(p) || p->want & ATTN_WANT_WEIGHTS)
        attn_forward_place_cells(cells, p);
    attn_pack_count(packing, p->dims, p->kernels, p->slots);
    *bytes = (attn_plan_bytes){work.used, results.used, fallback.used};
    return !(lane.overflow || work.overflow || results.overflow || fallback.overflow);
}

double attn_attention_cell_operations(const attn_attention_dims *d) {
    /* a tanh score has a sum and a tanh in addition for each element of the product */
    const double score = (d->tanh_score ? 4 : 2) * (double)d->score_width + d->softcap;
    return score + 2 * (double)d->Ev;
}

attn_status attn_attention_cost(const attn_attention_dims *d, unsigned want, size_t slots,
                                attn_cost *out, attn_error *err) {
    attn_plan plan;
    attn_plan_bytes bytes;
    attn_area operation = {0};
    attn_cost c = {.cells = (double)d->B * (double)d->Hq * (double)d->L * (double)d->S};
    attn_status status = attn_forward_check(want, ATTN_STAGE_RAW, err);
    if (status != ATTN_OK)
        return status;
    attn_plan_make(d, want, slots, &plan);
    if (!attn_plan_count(&plan, &bytes) || !count_operation(d, plan.kernels, &operation) ||
        operation.overflow || !attn_size_add(bytes.work, operation.used, &c.work_bytes))
        return attn_fail(err, ATTN_ELIMIT, "query", "more bytes than can be counted");
    const double queries = (double)d->B * (double)d->Hq * (double)d->L;
    const double keys = (double)d->B * (double)d->Hkv * (double)d->S;
    c.operations = c.cells * attn_attention_cell_operations(d) +
                   2 * (queries * (double)d->query_map + keys * (double)d->key_map) +
                   ENCODING_OPERATIONS * (double)d->encoded;
    c.result_bytes = bytes.results;
    c.fallback_bytes = bytes.fallback;
    *out = c;
    return ATTN_OK;
}

/* Counts the cells that the streams over all blocks of batch entry b visit. */
static attn_visits stream_visits(const attn_attention *a, const attn_plan *p, size_t b) {
    const attn_attention_dims *d = &a->dims;
    attn_visits visits = {0, 0};
    for (size_t i = 0, rows; i < d->L; i += rows) {
        rows = attn_plan_block(p, a->mask, b, i);
        const attn_block block = {b, 0, i, rows};
        size_t edited;
        const size_t keys = attn_block_keys(a, &block, p->kernels, &edited);
        visits.cells += (double)d->Hq * (double)rows * (double)keys;
        visits.edited += (double)d->Hq * (double)rows * (double)edited;
    }
    return visits;
}

attn_visits attn_attention_visited(const attn_attention_dims *dims, const attn_mask *mask) {
    attn_mask read = dims->stride ? attn_mask_near(mask, dims->near) : *mask;
    attn_attention a = {.dims = *dims, .mask = &read};
    attn_plan plan;
    attn_visits all = {0, 0};
    attn_plan_make(dims, ATTN_WANT_OUTPUT, 1, &plan);
    const size_t entries = attn_mask_same_batches(mask) && dims->B > 1 ? 1 : dims->B;
    const double times = entries ? (double)dims->B / (double)entries : 0;
    for (size_t b = 0; b < entries; b++) {
        const attn_visits near = stream_visits(&a, &plan, b);
        const double strided = dims->stride ? attn_forward_strided_cells(&a, &plan, b) : 0;
        all.cells += times * (near.cells + strided);
        all.edited += times * (near.edited + strided);
    }
    return all;
}
