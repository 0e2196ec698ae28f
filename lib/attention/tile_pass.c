/* The pass of one block of queries over the keys:
 *
 *        keys ->  tile 0   tile 1   …        each tile: scores, edits, online softmax,
 *   rows          [      ] [      ]          then acc = acc * factor + weights * values
 *
 * Only one tile of scores exists at a time. After a tile, a row keeps only its maximum, its sum and
 * its row of acc. */
#include "attention/tile_pass.h"

#include <attn/rng.h>
#include <math.h>
#include <string.h>

#include "kernels/pointwise.h"

/* --- the work area --- */

/* No machine has memory for rows of this width. Below it, the products of sizes in
 * attn_block_work_place cannot overflow. */
#define WIDEST ((size_t)1 << 5 * sizeof(size_t))

void attn_block_work_place(attn_area *area, attn_block_work *w, const attn_kernels *k, size_t rows,
                           const attn_attention_dims *d) {
    const size_t E = d->score_width, Ev = d->value_width, elem = k->elem, keys = k->keys * elem;
    *w = (attn_block_work){.kernels = k, .most_rows = rows};
    if (E >= WIDEST || Ev >= WIDEST || d->S >= WIDEST || d->relative >= WIDEST) {
        area->overflow = true;
        return;
    }
    attn_area taken = *area; /* a local copy, which the compiler keeps in registers */
    w->query = attn_area_take(&taken, rows * E, elem);
    w->tile = attn_area_take(&taken, rows, keys);
    w->acc = attn_area_take(&taken, rows * attn_acc_room(k, Ev), elem);
    w->max = attn_area_take(&taken, rows, elem);
    w->sum = attn_area_take(&taken, rows * k->lanes, elem);
    w->factor = attn_area_take(&taken, rows, elem);
    w->source = attn_area_take(&taken, E > Ev ? E : Ev, keys);
    w->packed_key = attn_area_take(&taken, attn_key_room(k, E), elem);
    w->packed_value = attn_area_take(&taken, attn_value_room(k, Ev), elem);
    w->bias = attn_area_take(&taken, 1, keys);
    w->line = attn_area_take(&taken, 1, keys);
    w->terms = attn_area_take(&taken, rows * d->relative, elem);
    w->term_sums = attn_area_take(&taken, rows * d->relative, elem);
    w->key_rows = attn_area_take(&taken, d->relative_queries ? k->keys * E : 0, sizeof(double));
    w->packed_query = attn_area_take(&taken, k->pack_query ? attn_query_room(k, rows, E) : 0, elem);
    w->maxima = attn_area_take(&taken, rows * attn_block_maxima(k, d->S), elem);
    w->keep = attn_area_take(&taken, 1, k->keys);
    *area = taken;
}

/* --- scores of a tile --- */

void attn_block_interval(const attn_attention *a, const attn_block *block, size_t *lo, size_t *hi) {
    *lo = a->dims.S, *hi = 0;
    if (attn_mask_fills(a->mask) || (block->rows && attn_mask_is_open(a->mask))) {
        *lo = 0, *hi = a->dims.S;
        return;
    }
    /* Neither end of the interval moves back from one row to the next. */
    size_t first = 0, last = block->rows, from = 0, to = 0;
    for (*lo = *hi = 0; first < last && *lo == *hi; first++)
        attn_mask_interval(a->mask, block->b, block->i + first, lo, hi);
    while (last > first && from == to)
        attn_mask_interval(a->mask, block->b, block->i + --last, &from, &to);
    if (from < to)
        *hi = to;
    if (*lo == *hi)
        *lo = *hi = 0;
}

void attn_block_narrow(const attn_attention *a, const attn_block *block, const attn_kernels *k,
                       size_t *from, size_t *to) {
    attn_mask_narrow(a->mask, block->b, block->h, block->i, block->rows, from, to);
    if (*from < *to) /* a packed tile can be entered only at a multiple of k->panel keys */
        *from -= *from % k->keys % k->panel;
}

size_t attn_block_keys(const attn_attention *a, const attn_block *block, const attn_kernels *k,
                       size_t *edited) {
    size_t lo, hi, plain_from, plain_to, keys = 0;
    attn_block_interval(a, block, &lo, &hi);
    attn_mask_common(a->mask, block->b, block->h, block->i, block->rows, &plain_from, &plain_to);
    *edited = 0;
    if (!attn_mask_narrows(a->mask)) { /* the interval alone determines both numbers */
        lo -= lo % k->keys % k->panel;
        plain_from = plain_from > lo ? attn_key_tiles(k, plain_from) * k->keys : lo;
        plain_to = plain_to < hi ? plain_to - plain_to % k->keys : hi;
        *edited = hi - lo - (plain_from < plain_to ? plain_to - plain_from : 0);
        return hi - lo;
    }
    for (size_t tile = lo / k->keys * k->keys; tile < hi; tile += k->keys) {
        size_t from = lo > tile ? lo : tile, to = hi - tile < k->keys ? hi : tile + k->keys;
        attn_block_narrow(a, block, k, &from, &to);
        keys += to - from;
        if (from < plain_from || to > plain_to)
            *edited += to - from;
    }
    return keys;
}

double attn_block_pack_queries(const attn_attention *a, const attn_block *block, const void *q,
                               size_t ldq, attn_block_work *w) {
    return w->kernels->pack_query(w->packed_query, q, ldq, block->rows, a->dims.score_width);
}

void attn_block_begin(const attn_attention *a, const attn_block *block, const void *q, size_t ldq,
                      attn_block_work *w) {
    if (w->kernels->pack_query)
        attn_block_pack_queries(a, block, q, ldq, w);
    if (a->rule.relative)
        attn_block_terms(a, block, q, ldq, w);
}

void attn_block_load_keys(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                          attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const size_t E = a->dims.score_width;
    size_t ld;
    const void *rows = attn_key_rows(a, b, hkv, j0, n, k->elem, w->source, &ld);
    w->key_magnitude = fmax(w->key_magnitude, k->pack_key(w->packed_key, rows, ld, n, E));
}

void attn_block_load_values(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                            attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const size_t Ev = a->dims.value_width;
    size_t ld;
    const void *rows = attn_value_rows(a, b, hkv, j0, n, k->elem, w->source, &ld);
    w->value_magnitude = fmax(w->value_magnitude, k->pack_value(w->packed_value, rows, ld, n, Ev));
}

/* Returns whether the first operation on a product of query and key is one scale for all rows. */
static bool scales_at_once(const attn_attention *a) {
    return !a->score_v && !a->rule.relative && !a->scales.values;
}

/* Returns whether the scale is the only operation on scores, apart from the mask. */
static bool only_scales(const attn_attention *a) {
    return scales_at_once(a) && a->in.softcap == 0 && !a->rule.biases;
}

void attn_block_scores(const attn_attention *a, const attn_block *block, const attn_packed *packed,
                       size_t j0, size_t n, const void *q, size_t ldq, bool scaled,
                       attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const size_t hkv = attn_kv_head(a, block->h), E = a->dims.score_width;
    const void *keys = w->packed_key;
    if (packed) {
        keys = packed->keys +
               packed->key_bytes * attn_packed_tile(a, packed, block->b, hkv, j0 / k->keys) +
               j0 % k->keys * (attn_key_room(k, E) / k->keys) * k->elem;
    }
    if (k->pack_query) {
        q = w->packed_query;
        ldq = E;
    }
    w->scaled = scaled && scales_at_once(a);
    if (a->score_v)
        k->score_tanh(w->tile, q, ldq, block->rows, keys, n, E,
                      k == a->kernels ? a->score_v : a->score_v_wide);
    else
        k->score(w->tile, q, ldq, block->rows, keys, n, E, w->scaled ? a->scale : 1);
    if (a->rule.relative)
        attn_block_add_vectors(a, block, j0, n, packed != NULL, w);
}

void attn_block_edit(const attn_attention *a, const attn_block *block, size_t row, size_t j0,
                     size_t n, attn_stage stage, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    attn_edit edit = {.scale = 1, .lo = 0, .hi = n, .wide = a->dims.result == ATTN_F64};
    if (stage >= ATTN_STAGE_BIASED)
        attn_mask_edit(a->mask, block->b, block->h, block->i + row, j0, n, k->elem, w->bias,
                       w->keep, &edit);
    if (stage >= ATTN_STAGE_BIASED && a->rule.biases) {
        attn_position_bias(a, block->b, block->h, block->i + row, j0, n, k->elem, edit.bias,
                           w->bias);
        edit.bias = w->bias;
    }
    if (stage >= ATTN_STAGE_SCALED && !w->scaled)
        edit.scale = attn_row_scale(a, block->b, block->h, block->i + row);
    if (stage >= ATTN_STAGE_SOFTCAPPED)
        edit.softcap = a->in.softcap;
    k->edit((char *)w->tile + row * k->keys * k->elem, n, &edit);
}

/* --- softmax and values --- */

void attn_block_accumulate(const attn_attention *a, const attn_block *block,
                           const attn_packed *packed, size_t j0, size_t n, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const size_t hkv = attn_kv_head(a, block->h), tile = j0 - j0 % k->keys;
    const void *values = w->packed_value;
    size_t first = 0, all = n;
    if (packed) {
        first = j0 - tile;
        all = a->dims.S - tile < k->keys ? a->dims.S - tile : k->keys;
        values = packed->values +
                 packed->value_bytes * attn_packed_tile(a, packed, block->b, hkv, j0 / k->keys);
    }
    k->accumulate(w->acc, w->tile, block->rows, values, first, n, all, a->dims.value_width,
                  w->factor);
}

/* Starts the softmax of the rows with their sinks. A sink is a logit of a key that every
 * row sees and whose value is 0. The sink is processed as a tile of one cell. */
static void start_sinks(const attn_attention *a, const attn_block *block, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const attn_edit as_it_is = {.scale = 1, .lo = 0, .hi = 1};
    for (size_t r = 0; r < block->rows; r++) {
        void *row = attn_row_of(w->tile, r, k->keys, k);
        attn_element_set(row, k->elem, 0, attn_row_sink(a, block->b, block->h, block->i + r));
        k->edit(row, 1, &as_it_is);
    }
    k->softmax(w->tile, block->rows, 1, w->max, w->sum, w->factor);
}

void attn_block_clear(const attn_attention *a, size_t rows, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    /* Without sinks the factor of the first tile is 0, and acc is overwritten. */
    if (k->plain || a->sinks.values)
        memset(w->acc, 0, rows * attn_acc_room(k, a->dims.value_width) * k->elem);
    memset(w->sum, 0, rows * k->lanes * k->elem);
    memset(w->term_sums, 0, rows * a->rule.relative * k->elem);
    attn_elements_fill(w->max, k->elem, -INFINITY, rows);
}

void attn_block_start(const attn_attention *a, const attn_stream *s) {
    const attn_block *block = &s->block;
    attn_block_work *w = s->w;
    attn_block_clear(a, block->rows, w);
    if (!s->query_packed)
        attn_block_begin(a, block, s->q, s->ldq, w);
    else if (a->rule.relative)
        attn_block_terms(a, block, s->q, s->ldq, w);
    if (a->sinks.values && !s->from)
        start_sinks(a, block, w);
}

/* Inverted dropout (Srivastava et al., "Dropout", 2014): weights that are not dropped are divided
 * by 1 - p. Whether a weight is dropped depends only on the seed and on its row and column, so
 * tiles, threads and kernel tables agree. */
void attn_drop_row(const attn_attention *a, size_t row, size_t j0, size_t n, size_t elem,
                   void *weights) {
    const double p = a->in.dropout_p, gain = 1 / (1 - p);
    const uint64_t first = (uint64_t)row * a->dims.S + j0;
    if (elem == sizeof(float)) { /* a uniform number is below p if its 53 bits are < ceil(p 2^53) */
        attn_pointwise_current()->dropout(weights, n, (uint64_t)ceil(ldexp(p, 53)), (float)gain,
                                          a->in.dropout_seed, first);
        return;
    }
    double *cells = weights;
    for (size_t j = 0; j < n; j++)
        cells[j] = attn_rng_uniform(a->in.dropout_seed, first + j) >= p ? cells[j] * gain : 0;
}

/* Applies dropout to the numerators of a tile, after softmax has added them to the sums of the
 * rows. So a sum includes the dropped weights. */
static void drop_tile(const attn_attention *a, const attn_block *block, size_t j0, size_t n,
                      attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    for (size_t r = 0; r < block->rows; r++)
        attn_drop_row(a, attn_row_index(a, block->b, block->h, block->i + r), j0, n, k->elem,
                      attn_row_of(w->tile, r, k->keys, k));
}

void attn_block_drop(const attn_attention *a, const attn_block *block, size_t j0, size_t n,
                     attn_block_work *w) {
    if (a->in.dropout_p > 0)
        drop_tile(a, block, j0, n, w);
    if (a->rule.values.rows)
        attn_block_collect_vectors(a, block, j0, n, w);
}

/* Copies cells [j0, j0 + n) of the tile's rows to s->kept. */
static void keep_cells(const attn_attention *a, const attn_stream *s, size_t j0, size_t n) {
    const attn_kernels *k = s->w->kernels;
    for (size_t r = 0; r < s->block.rows; r++)
        memcpy((char *)s->kept + (r * a->dims.S + j0) * k->elem,
               attn_row_of(s->w->tile, r, k->keys, k), n * k->elem);
}

/* Stores the running maxima of the rows in w->maxima. The numerators of tile `tile` are relative to
 * these maxima. */
static void keep_maxima(const attn_attention *a, const attn_stream *s, size_t tile) {
    const attn_kernels *k = s->w->kernels;
    for (size_t r = 0; r < s->block.rows; r++)
        memcpy(attn_row_of(s->w->maxima, r * attn_block_maxima(k, a->dims.S) + tile, 1, k),
               attn_row_of(s->w->max, r, 1, k), k->elem);
}

/* Fills cells [from, to) of s->kept, which no row of the block sees. If s->kept has numerators, the
 * cells become 0, else the score -infinity. */
static void hide_cells(const attn_attention *a, const attn_stream *s, size_t from, size_t to) {
    const attn_kernels *k = s->w->kernels;
    for (size_t r = 0; r < s->block.rows; r++)
        if (from < to)
            attn_elements_fill((char *)s->kept + (r * a->dims.S + from) * k->elem, k->elem,
                               k->finish_weights ? 0 : -INFINITY, to - from);
}

bool attn_block_is_edited(const attn_attention *a, size_t n, const attn_block_work *w) {
    return w->scaled && n % w->kernels->lanes == 0 && only_scales(a) && attn_mask_is_plain(a->mask);
}

/* Edits the scores of a tile, turns them into numerators, and stores the numbers that the stream
 * keeps. */
static void weigh_tile(const attn_attention *a, const attn_stream *s, size_t j0, size_t n) {
    attn_block_work *w = s->w;
    const attn_block *block = &s->block;
    const attn_kernels *k = w->kernels;
    const bool plain =
        j0 >= w->plain_from && j0 + n <= w->plain_to && w->scaled && n % k->lanes == 0;
    for (size_t r = 0; r < block->rows && !plain; r++)
        attn_block_edit(a, block, r, j0, n, ATTN_STAGE_BIASED, w);
    if (s->kept && !k->finish_weights)
        keep_cells(a, s, j0, n);
    k->softmax(w->tile, block->rows, n, w->max, w->sum, w->factor);
    if (s->kept && k->finish_weights) {
        keep_cells(a, s, j0, n);
        keep_maxima(a, s, j0 / k->keys);
    }
    attn_block_drop(a, block, j0, n, w);
}

/* Packs tile `tile` into a window for a stream, unless the window holds it. */
static void load_into_window(const attn_attention *a, const attn_stream *s,
                             const attn_packed *window, size_t tile) {
    attn_block_work *w = s->w;
    const size_t hkv = attn_kv_head(a, s->block.h);
    const size_t at = attn_window_load(a, window, s->block.b, hkv, tile, w->source);
    w->key_magnitude = fmax(w->key_magnitude, window->key_magnitude[at]);
    w->value_magnitude = fmax(w->value_magnitude, window->value_magnitude[at]);
}

static void visit_tile(const attn_attention *a, const attn_stream *s, const attn_packed *packed,
                       size_t j0, size_t n) {
    if (packed && packed->room)
        load_into_window(a, s, packed, j0 / s->w->kernels->keys);
    attn_block_scores(a, &s->block, packed, j0, n, s->q, s->ldq, true, s->w);
    weigh_tile(a, s, j0, n);
    attn_block_accumulate(a, &s->block, packed, j0, n, s->w);
}

void attn_block_plain(const attn_attention *a, const attn_block *block, size_t *from, size_t *to) {
    *from = *to = 0;
    if (only_scales(a))
        attn_mask_common(a->mask, block->b, block->h, block->i, block->rows, from, to);
}

/* Sets w->plain_from and w->plain_to of each stream. */
static void find_plain_keys(const attn_attention *a, const attn_stream *streams, size_t count) {
    size_t lo, hi;
    for (size_t s = 0; s < count; s++) {
        if (!s || !attn_mask_same_heads(a->mask))
            attn_block_plain(a, &streams[s].block, &lo, &hi);
        streams[s].w->plain_from = lo;
        streams[s].w->plain_to = hi;
    }
}

/* Returns whether the kernel `pass` may process whole tiles of plain keys. */
static bool may_pass(const attn_attention *a, const attn_stream *s, const attn_packed *packed) {
    return packed && s->w->kernels->pass && a->scale > 0 && !a->rule.values.rows &&
           a->in.dropout_p == 0;
}

/* Returns an upper bound of the magnitudes of the scores of a block against packed tiles tile …
 * tile + count - 1. The factor 2 covers rounding errors. */
static double score_bound(const attn_attention *a, const attn_stream *s, const attn_packed *packed,
                          size_t tile, size_t count) {
    double key = 0;
    for (size_t t = tile; t < tile + count; t++)
        key = fmax(key, packed->key_magnitude[t]);
    return s->query_packed ? 2 * s->query_magnitude * key * (double)a->dims.score_width * a->scale
                           : INFINITY;
}

/* Loads tiles tile, tile + 1, … below `end` into a window, as long as their places are side by
 * side. Returns the number of these tiles. */
static size_t load_tiles(const attn_attention *a, const attn_stream *s, const attn_packed *window,
                         size_t tile, size_t end) {
    const size_t b = s->block.b, hkv = attn_kv_head(a, s->block.h);
    const size_t first = attn_packed_tile(a, window, b, hkv, tile);
    size_t n = 0;
    while (tile + n < end && attn_packed_tile(a, window, b, hkv, tile + n) == first + n)
        load_into_window(a, s, window, tile + n++);
    return n;
}

/* Processes the whole tiles in keys [j, hi), as far as they are packed side by side, in one call of
 * the kernel `pass`. j begins a tile. Returns the number of these tiles. */
static size_t pass_tiles(const attn_attention *a, const attn_stream *s, const attn_packed *packed,
                         size_t j, size_t hi) {
    attn_block_work *w = s->w;
    const attn_kernels *k = w->kernels;
    const size_t first = j / k->keys, end = hi / k->keys;
    const size_t tiles = packed->room ? load_tiles(a, s, packed, first, end) : end - first;
    const size_t tile = attn_packed_tile(a, packed, s->block.b, attn_kv_head(a, s->block.h), first);
    const attn_tile_pass pass = {
        .rows = s->block.rows,
        .E = a->dims.score_width,
        .Ev = a->dims.value_width,
        .tiles = tiles,
        .scale = a->scale,
        .max_score = score_bound(a, s, packed, tile, tiles),
        .query = w->packed_query,
        .keys = packed->keys + packed->key_bytes * tile,
        .values = packed->values + packed->value_bytes * tile,
        .key_bytes = packed->key_bytes,
        .value_bytes = packed->value_bytes,
        .max = w->max,
        .sum = w->sum,
        .acc = w->acc,
        .kept = s->kept ? (char *)s->kept + j * k->elem : NULL,
        .maxima = s->kept ? attn_row_of(w->maxima, first, 1, k) : NULL,
        .ld_kept = a->dims.S,
        .ld_maxima = attn_block_maxima(k, a->dims.S),
    };
    k->pass(&pass);
    return pass.tiles;
}

/* A batch of at most UNPACKED_ROWS rows, for the kernels score_unpacked and accumulate_unpacked,
 * which take a pointer for each row. next_rows goes through the rows of all streams, one stream
 * after another, and lists the next batch. */
enum { UNPACKED_ROWS = 8 };

typedef struct unpacked_rows {
    size_t stream, row; /* row `row` of stream `stream` is the first row not yet listed */
    size_t count;       /* number of rows in the list */
    const void *q[UNPACKED_ROWS], *weights[UNPACKED_ROWS], *factor[UNPACKED_ROWS];
    void *tile[UNPACKED_ROWS], *acc[UNPACKED_ROWS];
} unpacked_rows;

/* Lists the next rows. Returns false if all rows were listed. */
static bool next_rows(const attn_attention *a, const attn_stream *streams, size_t count,
                      unpacked_rows *f) {
    const attn_kernels *k = streams[0].w->kernels;
    for (f->count = 0; f->count < UNPACKED_ROWS && f->stream < count; f->count++) {
        const attn_stream *s = &streams[f->stream];
        f->q[f->count] = (const char *)s->q + f->row * s->ldq * k->elem;
        f->tile[f->count] = attn_row_of(s->w->tile, f->row, k->keys, k);
        f->weights[f->count] = f->tile[f->count];
        f->acc[f->count] = attn_row_of(s->w->acc, f->row, attn_acc_room(k, a->dims.value_width), k);
        f->factor[f->count] = attn_row_of(s->w->factor, f->row, 1, k);
        if (++f->row == s->block.rows) {
            f->row = 0;
            f->stream++;
        }
    }
    return f->count > 0;
}

/* Processes keys j0 … j0 + n - 1 and their values, unpacked, for all streams. */
static void visit_unpacked(const attn_attention *a, const attn_stream *streams, size_t count,
                           size_t j0, size_t n) {
    attn_block_work *first = streams[0].w;
    const attn_kernels *k = first->kernels;
    const size_t b = streams[0].block.b, hkv = attn_kv_head(a, streams[0].block.h);
    const double scale = scales_at_once(a) ? a->scale : 1;
    size_t ld;
    const void *rows = attn_key_rows(a, b, hkv, j0, n, k->elem, first->source, &ld);
    for (unpacked_rows f = {.count = 0}; next_rows(a, streams, count, &f);)
        first->key_magnitude =
            fmax(first->key_magnitude,
                 k->score_unpacked(f.tile, f.q, f.count, rows, ld, n, a->dims.score_width, scale));
    for (size_t s = 0; s < count; s++) {
        streams[s].w->scaled = scales_at_once(a);
        if (a->rule.relative)
            attn_block_add_vectors(a, &streams[s].block, j0, n, false, streams[s].w);
        weigh_tile(a, &streams[s], j0, n);
    }
    rows = attn_value_rows(a, b, hkv, j0, n, k->elem, first->source, &ld);
    for (unpacked_rows f = {.count = 0}; next_rows(a, streams, count, &f);)
        first->value_magnitude =
            fmax(first->value_magnitude, k->accumulate_unpacked(f.acc, f.weights, f.count, rows, ld,
                                                                n, a->dims.value_width, f.factor));
}

/* Processes keys j0 … j0 + n - 1 and their values for all streams. */
static void visit_tiles(const attn_attention *a, const attn_stream *streams, size_t count,
                        const attn_packed *packed, size_t j0, size_t n) {
    const attn_block *first = &streams[0].block;
    const attn_kernels *k = streams[0].w->kernels;
    const size_t hkv = attn_kv_head(a, first->h);
    if (!packed && k->score_unpacked && !a->score_v) {
        visit_unpacked(a, streams, count, j0, n);
        return;
    }
    if (!packed) {
        attn_block_load_keys(a, first->b, hkv, j0, n, streams[0].w);
        attn_block_load_values(a, first->b, hkv, j0, n, streams[0].w);
    }
    for (size_t s = 0; s < count; s++)
        visit_tile(a, &streams[s], packed, j0, n);
}

/* Processes the keys [lo, hi) among the keys [from, to) of one tile. The cells of the other keys
 * become hidden. */
static void visit_part(const attn_attention *a, const attn_stream *streams, size_t count,
                       const attn_packed *packed, size_t from, size_t to, const size_t part[2]) {
    for (size_t s = 0; s < count; s++) {
        if (!streams[s].kept)
            continue;
        hide_cells(a, &streams[s], from, part[0]);
        hide_cells(a, &streams[s], part[1], to);
        if (part[0] == part[1])
            keep_maxima(a, &streams[s], from / streams[0].w->kernels->keys);
    }
    if (part[0] < part[1])
        visit_tiles(a, streams, count, packed, part[0], part[1] - part[0]);
}

/* Processes the keys [from, to) of one tile, narrowed by attn_block_narrow. If the heads of the
 * streams see different keys of the tile, each stream visits its own part. */
static void visit_keys(const attn_attention *a, const attn_stream *streams, size_t count,
                       const attn_packed *packed, size_t from, size_t to) {
    attn_block_work *w = streams[0].w;
    const size_t differ = attn_mask_same_heads(a->mask) ? 1 : count;
    size_t part[2] = {from, to}, same = 1;
    attn_block_narrow(a, &streams[0].block, w->kernels, &part[0], &part[1]);
    for (size_t own[2] = {from, to}; same && same < differ; own[0] = from, own[1] = to) {
        attn_block_narrow(a, &streams[same].block, w->kernels, &own[0], &own[1]);
        same = own[0] == part[0] && own[1] == part[1] ? same + 1 : 0;
    }
    if (same) {
        visit_part(a, streams, count, packed, from, to, part);
        return;
    }
    for (size_t s = 0; s < count; s++) {
        part[0] = from, part[1] = to;
        attn_block_narrow(a, &streams[s].block, w->kernels, &part[0], &part[1]);
        visit_part(a, &streams[s], 1, packed, from, to, part);
        w->key_magnitude = fmax(w->key_magnitude, streams[s].w->key_magnitude);
        w->value_magnitude = fmax(w->value_magnitude, streams[s].w->value_magnitude);
    }
}

void attn_block_stream(const attn_attention *a, const attn_stream *streams, size_t count,
                       const attn_packed *packed) {
    const attn_block *first = &streams[0].block;
    const attn_kernels *k = streams[0].w->kernels;
    size_t lo, hi;
    for (size_t s = 0; s < count; s++)
        if (!streams[s].goes_on)
            attn_block_start(a, &streams[s]);
    find_plain_keys(a, streams, count);
    attn_block_interval(a, first, &lo, &hi);
    if (lo < streams[0].from)
        lo = streams[0].from;
    if (streams[0].to && streams[0].to < hi)
        hi = streams[0].to;
    const bool passes = may_pass(a, streams, packed);
    const size_t pass_lo = streams[0].w->plain_from;
    const size_t pass_hi = streams[0].w->plain_to < hi ? streams[0].w->plain_to : hi;
    for (size_t tile = lo / k->keys * k->keys; tile < hi; tile += k->keys) {
        if (streams[0].control && attn_control_check(streams[0].control, NULL) != ATTN_OK)
            return;
        if (passes && tile >= pass_lo && tile + k->keys <= pass_hi) {
            tile += (pass_tiles(a, streams, packed, tile, pass_hi) - 1) * k->keys;
            continue;
        }
        const size_t from = lo > tile ? lo : tile, to = hi - tile < k->keys ? hi : tile + k->keys;
        visit_keys(a, streams, count, packed, from, to);
    }
    for (size_t s = 0; s < count; s++)
        attn_block_add_terms(a, &streams[s].block, streams[s].w);
}
