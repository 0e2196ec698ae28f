/* Makes the plans of the forward and the backward pass.
 *
 * A plan depends only on the shapes and on the wanted results, so that the bytes of the results do
 * not depend on the size of the pool. There are three exceptions: `bundle`, `lane_homes` and the
 * size of pieces with windows depend on the number of slots, too. They change no result. */
#include "attention/plan.h"

#include "attention/normalizer.h"
#include "attention/operands.h"

enum {
    BUNDLE = 4,     /* largest number of blocks in a bundle over packed keys */
    NEAR = 5 << 18, /* bytes of packed keys and values, 1.25 MiB, that stay in a second-level cache
                     * beside other data */
    CACHE = 1 << 20 /* bytes of other data that stay in a cache */
};

/* With few queries, the keys of a group are divided into ranges of about RANGE_KEYS keys: 2 MiB of
 * keys and values of width 64, which take 0.1 ms or more to read. With ENOUGH_PIECES groups or more
 * this division gains nothing, since each group is a piece. */
enum { RANGE_KEYS = 4096, ENOUGH_PIECES = 64 };

/* Largest number of floating-point operations of a piece with several blocks: about 1 ms with a
 * fast kernel table. A piece that is one bundle may have BUNDLE_OPERATIONS, 20 to 60 ms. */
#define PIECE_OPERATIONS  1e8
#define BUNDLE_OPERATIONS (50 * PIECE_OPERATIONS)

attn_status attn_plan_check(unsigned want, attn_stage stage, attn_error *err) {
    const unsigned known = ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP |
                           ATTN_WANT_SCORES | ATTN_WANT_PRESENT | ATTN_WANT_WEIGHTS_DROPPED |
                           ATTN_WANT_CELLS;
    if (want & ~known)
        return attn_fail(err, ATTN_EARG, "want", "the bits 0x%x want nothing", want & ~known);
    if (want & ATTN_WANT_SCORES && (unsigned)stage > ATTN_STAGE_PROBS)
        return attn_fail(err, ATTN_EARG, "stage", "there is no stage of the number %d", (int)stage);
    return ATTN_OK;
}

/* Returns the number of floating-point operations of `rows` rows against `keys` keys. The
 * exponential and the edits of a cell count as CELL_OPERATIONS multiply-adds. */
static double operations_on(const attn_attention_dims *d, double rows, double keys) {
    enum { CELL_OPERATIONS = 16 };
    return 2 * rows * keys * (double)(d->score_width + d->value_width + CELL_OPERATIONS);
}
static double operations(const attn_attention_dims *d, double rows) {
    return operations_on(d, rows, (double)d->S);
}

/* Returns the size in bytes of a tile of packed keys and values. */
static size_t tile_bytes(const attn_attention_dims *d, const attn_kernels *k) {
    return (attn_key_room(k, d->score_width) + attn_value_room(k, d->value_width)) * k->elem;
}

/* Returns how many blocks a bundle may have. The blocks of a bundle share the keys that are in the
 * cache. The number is 1
 * - for `ref` and for scores with tanh, whose time is arithmetic and not memory access;
 * - if a head has only one block;
 * - if weights are wanted, since writing them displaces more from the cache than is gained;
 * - if all keys and values of a head fit into the cache. */
static size_t most_in_bundle(const attn_plan *p) {
    const attn_attention_dims *d = p->dims;
    const attn_kernels *k = p->kernels;
    size_t bytes;
    if (k->isa == ATTN_ISA_REF || d->tanh_score || d->L <= k->rows || p->want & ATTN_WANT_WEIGHTS ||
        (attn_size_mul(d->S, tile_bytes(d, k), &bytes) && bytes <= NEAR * k->keys))
        return 1;
    return p->row_blocks < BUNDLE ? p->row_blocks : BUNDLE;
}

/* Divides all keys into `ranges` ranges of whole tiles, and returns the number of keys in a
 * range. */
static size_t keys_of_range(const attn_plan *p, size_t ranges) {
    const size_t tiles = attn_key_tiles(p->kernels, p->dims->S);
    return (tiles + ranges - 1) / ranges * p->kernels->keys;
}

/* Plans ATTN_STEP_BLOCKS: bundle, bundle_keys, blocks_a_piece and pieces_a_head. */
static void plan_blocks(attn_plan *p) {
    const attn_attention_dims *d = p->dims;
    const attn_kernels *k = p->kernels;
    const double block = operations(d, (double)k->rows) + 1;
    p->bundle = most_in_bundle(p);
    while (p->bundle > 1 && ((double)p->bundle * block > BUNDLE_OPERATIONS ||
                             d->B * d->Hq * p->row_blocks < 2 * p->bundle * p->slots))
        p->bundle /= 2; /* makes pieces short and gives every slot at least two of them */
    p->bundle_keys = d->S;
    /* With relative values each call of attn_block_stream must see all keys, since each call ends
     * by adding the sums by distance to the output. */
    if (p->bundle > 1 && !d->relative_values) {
        const size_t tiles = attn_key_tiles(k, d->S), bytes = tile_bytes(d, k);
        const size_t most = bytes < NEAR ? NEAR / bytes : 1;
        p->bundle_keys = keys_of_range(p, (tiles + most - 1) / most);
    }
    p->blocks_a_piece = block < PIECE_OPERATIONS ? (size_t)(PIECE_OPERATIONS / block) : 1;
    if (p->blocks_a_piece < p->bundle)
        p->blocks_a_piece = p->bundle;
    if (p->blocks_a_piece > p->row_blocks)
        p->blocks_a_piece = p->row_blocks ? p->row_blocks : 1;
    p->pieces_a_head = (p->row_blocks + p->blocks_a_piece - 1) / p->blocks_a_piece;
}

/* Plans the strided steps. */
static void plan_strided(attn_plan *p) {
    const attn_attention_dims *d = p->dims;
    const size_t stride = (size_t)d->stride, rows = (d->L + stride - 1) / stride;
    const size_t blocks = (rows + p->kernels->rows - 1) / p->kernels->rows;
    const size_t most = blocks < BUNDLE ? blocks : BUNDLE;
    p->lane_blocks = p->lane_blocks < most ? most : p->lane_blocks;
    const size_t bundle = p->lane_blocks * p->kernels->rows, all = rows < bundle ? rows : bundle;
    const double work = operations(d, (double)all) / (double)stride + 1;
    attn_strided_plan *s = &p->strided;
    s->bundles_a_class = (rows + bundle - 1) / bundle;
    s->bundles = stride * s->bundles_a_class;
    s->bundles_a_piece = work < PIECE_OPERATIONS ? (size_t)(PIECE_OPERATIONS / work) : 1;
    if (s->bundles_a_piece > s->bundles)
        s->bundles_a_piece = s->bundles;
    s->pieces_a_head = (s->bundles + s->bundles_a_piece - 1) / s->bundles_a_piece;
}

/* Returns whether something that is computed after the pass needs packed keys: cells, scores,
 * dropped weights, or weights of a pass that keeps no numerators. */
static bool needs_packed(const attn_plan *p) {
    const unsigned later = ATTN_WANT_CELLS | ATTN_WANT_SCORES | ATTN_WANT_WEIGHTS_DROPPED;
    return (p->want & later) || ((p->want & ATTN_WANT_WEIGHTS) && !p->keeps);
}

/* Plans ATTN_STEP_WINDOWS if the queries see few keys (dims.reach), a window fits into the cache,
 * and nothing needs all packed keys. If few blocks see a key, packing it anew for each piece takes
 * less time than writing all packed keys to memory and reading them again.
 *
 * A piece begins with an empty window. A piece has so many blocks that filling the window takes
 * little of its time, unless there would then be too few pieces. */
static void plan_windows(attn_plan *p) {
    enum { FILLS = 4 }; /* a piece has as many queries as FILLS windows have keys, or more */
    const attn_attention_dims *d = p->dims;
    const attn_kernels *k = p->kernels;
    const size_t tiles = attn_key_tiles(k, d->S), groups = d->B * d->Hkv;
    if (!d->reach || d->sets != d->B || needs_packed(p))
        return;
    const size_t pinned = attn_key_tiles(k, d->first_keys);
    const size_t band = attn_key_tiles(k, d->reach + k->rows) + 1;
    size_t bytes;
    if (2 * (pinned + band) > tiles || !attn_size_mul(pinned + band, tile_bytes(d, k), &bytes) ||
        bytes > NEAR)
        return;
    const double keys = (double)(d->first_keys + d->reach + k->rows);
    const double block = operations_on(d, (double)(k->rows * attn_group(d)), keys) + 1;
    const size_t least = FILLS * band * k->keys / k->rows;
    size_t blocks = block < PIECE_OPERATIONS ? (size_t)(PIECE_OPERATIONS / block) : 1;
    blocks = blocks < least ? least : blocks;
    while (blocks > 1 && groups * ((p->row_blocks - 1) / blocks + 1) < 2 * p->slots)
        blocks = (blocks + 1) / 2;
    p->main = ATTN_STEP_WINDOWS;
    p->window = pinned + band;
    p->pinned = pinned;
    p->bundle = p->lane_blocks = 1;
    p->bundle_keys = d->S;
    p->blocks_a_piece = blocks;
    p->pieces_a_head = (p->row_blocks - 1) / blocks + 1;
}

/* Returns whether a piece computes a whole group and packs its keys and values itself
 * (ATTN_STEP_HEADS):
 * - batch entries do not share keys and values (shared ones would be packed several times);
 * - nothing that is computed after the pass needs packed keys;
 * - the piece takes about 1 ms at most;
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

/* Returns the number of ranges into which a pass with few queries divides the keys of a group. */
static size_t group_ranges(const attn_attention_dims *d) {
    const size_t groups = d->B * d->Hkv;
    if (!groups || d->S <= RANGE_KEYS)
        return 1;
    const size_t long_enough = (d->S - 1) / RANGE_KEYS + 1;
    const size_t useful = (ENOUGH_PIECES - 1) / groups + 1;
    return long_enough < useful ? long_enough : useful;
}

/* Returns the size in bytes of the separate memory in which a block keeps the numbers that become
 * its weights. Returns 0 if nothing is kept (plan.keeps), if this memory would not fit into a
 * cache, or if the weights of all blocks together fit into a cache. In the last two cases a block
 * keeps the numbers in the memory of its weights. */
static size_t kept_bytes(const attn_plan *p) {
    const attn_attention_dims *d = p->dims;
    size_t n, all;
    if (!p->keeps || !attn_size_mul(p->rows * p->kernels->elem, d->S, &n) || n > CACHE)
        return 0;
    const bool fits =
        attn_size_mul(d->B * d->Hq * d->L * p->kernels->elem, d->S, &all) && all <= CACHE;
    return fits ? 0 : n;
}

size_t attn_plan_range(const attn_plan *p) {
    return keys_of_range(p, p->ranges);
}

size_t attn_plan_block(const attn_plan *p, const attn_mask *mask, size_t b, size_t i) {
    const size_t L = p->dims->L, rows = p->kernels->rows;
    const size_t end = L - i < rows - i % rows ? L : i + rows - i % rows;
    const int64_t global = (int64_t)p->dims->first_keys - attn_mask_offset(mask, b);
    if (p->main == ATTN_STEP_WINDOWS && p->dims->first_keys && global > (int64_t)i &&
        global < (int64_t)end)
        return (size_t)global - i;
    return end - i;
}

static size_t add_step(attn_step *steps, size_t n, attn_step_kind kind, size_t pieces) {
    steps[n] = (attn_step){kind, pieces};
    return n + 1;
}

/* Returns the number of pieces of a step that computes blocks. */
static size_t main_pieces(const attn_plan *p, attn_step_kind kind) {
    const attn_attention_dims *d = p->dims;
    const size_t groups = d->L && d->Hq ? d->B * d->Hkv : 0;
    switch (kind) {
    case ATTN_STEP_BLOCKS:
        return d->B * d->Hq * p->pieces_a_head;
    case ATTN_STEP_NORMALIZED:
        return d->B * d->Hq * p->row_blocks;
    case ATTN_STEP_WINDOWS:
        return d->B * d->Hkv * p->pieces_a_head;
    default:
        return groups * p->ranges;
    }
}

size_t attn_plan_steps(const attn_plan *p, bool packed, attn_step steps[ATTN_STEPS]) {
    const attn_attention_dims *d = p->dims;
    const size_t heads = d->B * d->Hq, strided = heads * p->strided.pieces_a_head;
    const attn_step_kind main = packed && !d->normalizer ? ATTN_STEP_BLOCKS : p->main;
    size_t n = 0;
    if (main == ATTN_STEP_BLOCKS || main == ATTN_STEP_NORMALIZED)
        n = add_step(steps, n, ATTN_STEP_PACK, 0);
    if (p->strided.bundles)
        n = add_step(steps, n, ATTN_STEP_STRIDED, strided);
    n = add_step(steps, n, main, main_pieces(p, main));
    if (main == ATTN_STEP_RANGES)
        n = add_step(steps, n, ATTN_STEP_JOIN, main_pieces(p, main) / p->ranges);
    if (p->strided.bundles && p->want & ATTN_WANT_WEIGHTS && !d->factors) {
        n = add_step(steps, n, ATTN_STEP_NEAR_WEIGHTS, heads * p->row_blocks);
        n = add_step(steps, n, ATTN_STEP_STRIDED_WEIGHTS, strided);
    }
    return n;
}

size_t attn_plan_cell_steps(const attn_plan *p, bool in_double, attn_step steps[ATTN_STEPS]) {
    const size_t pieces = p->dims->B * p->dims->Hq * p->row_blocks;
    const size_t outputs = p->dims->B * p->dims->Ho * p->row_blocks;
    const bool written = !p->dims->factors && (p->keeps || p->strided.bundles);
    size_t n = 0;
    if (p->want & ATTN_WANT_SCORES)
        n = add_step(steps, n, ATTN_STEP_SCORES, pieces);
    if (p->want & ATTN_WANT_WEIGHTS && (!written || in_double))
        n = add_step(steps, n, ATTN_STEP_WEIGHTS, outputs);
    if (p->want & ATTN_WANT_WEIGHTS_DROPPED)
        n = add_step(steps, n, ATTN_STEP_DROPPED, outputs);
    if (p->want & ATTN_WANT_OUTPUT && p->dims->factors)
        n = add_step(steps, n, ATTN_STEP_OUTPUTS, outputs);
    return n;
}

void attn_plan_make(const attn_attention_dims *d, unsigned want, size_t slots, attn_plan *p) {
    const attn_kernels *k = attn_kernels_with(d->isa, d->precision, d->tanh_score);
    *p = (attn_plan){.dims = d,
                     .kernels = k,
                     .want = want,
                     .slots = slots,
                     .main = ATTN_STEP_BLOCKS,
                     .ranges = 1};
    p->keeps = (want & ATTN_WANT_WEIGHTS) && !d->factors && k->elem == attn_dtype_size(d->result);
    p->rows = d->L < k->rows ? d->L : k->rows;
    p->row_blocks = (d->L + k->rows - 1) / k->rows;
    plan_blocks(p);
    p->lane_blocks = p->bundle;
    if (d->normalizer) {
        p->main = ATTN_STEP_NORMALIZED;
        p->keeps = false;
        p->lane_blocks = 1;
    } else if (d->stride) {
        p->keeps = false;
        plan_windows(p);
        plan_strided(p);
    } else if (d->L <= ATTN_FEW_QUERIES) {
        p->lane_blocks = attn_group(d);
        p->ranges = group_ranges(d);
        p->main = p->ranges > 1 ? ATTN_STEP_RANGES : ATTN_STEP_GROUPS;
    } else if (packs_heads(p)) {
        p->main = ATTN_STEP_HEADS;
    } else {
        plan_windows(p);
    }
    p->kept = p->ranges == 1 ? kept_bytes(p) : 0;
}

/* --- the backward pass --- */

void attn_backward_plan_make(const attn_attention_dims *d, const attn_kernels *kernels,
                             unsigned want, bool biases, size_t slots, attn_backward_plan *p) {
    /* With fewer groups than PIECES, the tiles of each group are divided into chunks. */
    enum { PIECES = 8 };
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
    /* Packed rows are in the memory of a lane only if one piece computes all of a group, if there
     * are fewer lanes than groups, and if the gradients of bias tensors do not need the rows of all
     * groups afterwards. */
    p->begins_apart = p->chunks > 1 || attn_normalizer_sums_to_1(d->normalizer);
    p->lane_homes = !p->begins_apart && d->S > 0 && slots < all && !biases;
    /* A piece computes both passes of a group, with the numerators of the forward pass, if
     * - the kernel table can turn numerators into weights, in fp32;
     * - the backward pass does not need the scores themselves, as tanh, tables of vectors, a
     *   softcap, scales by row, biases by distance and gradients of bias tensors do;
     * - there is no strided pattern, and the normaliser is softmax;
     * - the group is not divided, has more than ATTN_FEW_QUERIES queries, and has a bit for each of
     *   its tiles;
     * - the output is computed (dO . O needs it), and nothing after the passes needs packed
     *   keys. */
    p->by_heads = kernels->finish_weights && !d->normalizer &&
                  d->precision == ATTN_PRECISION_FP32 && !d->tanh_score && !d->relative &&
                  !d->softcap && !d->scales && !d->entries && !biases && !d->stride &&
                  p->chunks == 1 && d->L > ATTN_FEW_QUERIES && tiles > 0 &&
                  tiles <= ATTN_BACKWARD_MOST_TILES && (want & ATTN_WANT_OUTPUT) && !(want & later);
}
