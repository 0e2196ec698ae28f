/* The steps of a strided pattern (dims.stride > 0).
 *
 * With the pattern, the query at position p sees the keys j of its class (p - j is a multiple of
 * the stride) and the keys near it (|p - j| <= local). Every tile of consecutive queries and keys
 * has a visible cell, so two steps compute the two kinds of cells:
 *
 *   STRIDED          computes the queries of one class against the keys of this class, except the
 *                    keys near each query. The keys are gathered into dense tiles. The step stores
 *                    maximum, sum and acc of each row.
 *   the main step    computes blocks of consecutive queries against the keys near them, and then
 *                    merges what STRIDED has stored for these rows.
 *
 * Afterwards two steps compute the weights of both kinds from the statistics of the rows.
 *
 * Row m of a class is query first_row + m * stride, and its key c is key first_key + c * stride. A
 * bundle is several blocks of a class. */
#include <math.h>
#include <string.h>

#include "attention/forward.h"
#include "base/try.h"

/* The queries and the keys of one class of a head. */
typedef struct class {
    size_t b, h, first_row, rows, first_key, keys;
} class;

/* Returns the number of elements first, first + stride, … below `end`. */
static size_t count_steps(size_t first, size_t end, size_t stride) {
    return first < end ? (end - 1 - first) / stride + 1 : 0;
}

static class class_at(const attn_attention *a, size_t head, size_t first_row) {
    const attn_attention_dims *d = &a->dims;
    const size_t b = head / d->Hq, stride = (size_t)d->stride;
    const int64_t position = (int64_t)first_row + attn_mask_offset(a->mask, b);
    const int64_t rest = position % d->stride;
    const size_t first_key = (size_t)(rest < 0 ? rest + d->stride : rest);
    return (class){b,         head % d->Hq,
                   first_row, count_steps(first_row, d->L, stride),
                   first_key, count_steps(first_key, d->S, stride)};
}

/* --- operands --- */

/* Which rows to gather: n rows of `width` elements, from row `first` on with the stride of the
 * pattern. */
typedef struct steps {
    attn_rows_reader read;
    size_t b, h, first, n, width;
    const uint8_t *bad; /* marks of the rows that become zeros; NULL: none */
} steps;

/* Returns the rows of *s, in place or copied to dst [n, width]. *ld is the row stride of the
 * result. */
static const void *gather_rows(const attn_attention *a, const steps *s, const attn_kernels *k,
                               void *dst, size_t *ld) {
    const size_t stride = (size_t)a->dims.stride, bytes = s->width * k->elem;
    char *to = dst;
    const void *from = s->read(a, s->b, s->h, s->first, 1, k->elem, dst, ld);
    /* then all rows are in one tensor and need no copy */
    if (from != dst && !s->bad && !a->dims.past) {
        *ld *= stride;
        return from;
    }
    for (size_t i = 0; i < s->n; i++, to += bytes) {
        const size_t row = s->first + i * stride;
        from = s->bad && s->bad[row] ? NULL : s->read(a, s->b, s->h, row, 1, k->elem, to, ld);
        if (!from)
            memset(to, 0, bytes);
        else if (from != to)
            memcpy(to, from, bytes);
    }
    *ld = s->width;
    return dst;
}

/* Packs keys c … c + n - 1 of a class and their values into w. */
static void load_tile(const attn_forward *f, const class *at, size_t c, size_t n,
                      attn_block_work *w) {
    const attn_attention *a = f->a;
    const attn_kernels *k = w->kernels;
    const size_t E = a->dims.score_width, Ev = a->dims.value_width, hkv = attn_kv_head(a, at->h);
    const size_t first = at->first_key + c * (size_t)a->dims.stride;
    const uint8_t *bad =
        f->packed && f->packed->any_bad ? attn_packed_bad(a, f->packed, at->b, hkv) : NULL;
    const steps keys = {attn_key_rows, at->b, hkv, first, n, E, bad};
    const steps values = {attn_value_rows, at->b, hkv, first, n, Ev, bad};
    size_t ld;
    const void *rows = gather_rows(a, &keys, k, w->source, &ld);
    w->key_magnitude = fmax(w->key_magnitude, k->pack_key(w->packed_key, rows, ld, n, E));
    rows = gather_rows(a, &values, k, w->source, &ld);
    w->value_magnitude = fmax(w->value_magnitude, k->pack_value(w->packed_value, rows, ld, n, Ev));
}

/* Loads rows m … m + rows - 1 of a class as the queries of w. Zeros replace queries that are not
 * finite; forward_rows.c computes their rows in double. */
static void load_queries(const attn_attention *a, const class *at, size_t m, size_t rows,
                         attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const size_t E = a->dims.score_width;
    const attn_block block = {at->b, at->h, 0, rows};
    const steps queries = {
        attn_query_rows, at->b, at->h, at->first_row + m * (size_t)a->dims.stride, rows, E, NULL};
    size_t ld;
    const char *from = gather_rows(a, &queries, k, w->query, &ld);
    if (k->pack_query && isfinite(attn_block_pack_queries(a, &block, from, ld, w)))
        return; /* a strided pattern excludes tables of vectors */
    for (size_t r = 0; r < rows; r++) {
        char *q = (char *)w->query + r * E * k->elem;
        const char *row = from + r * ld * k->elem;
        if (!isfinite(k->max_magnitude(row, E)))
            memset(q, 0, E * k->elem);
        else if (q != row)
            memcpy(q, row, E * k->elem);
    }
    attn_block_begin(a, &block, w->query, E, w);
}

/* --- a tile --- */

/* Returns the number of keys of a class that lie before key `end`. */
static size_t keys_before(const class *at, int64_t end, int64_t stride) {
    const int64_t past = end - (int64_t)at->first_key;
    const size_t n = past <= 0 ? 0 : (size_t)((past - 1) / stride + 1);
    return n < at->keys ? n : at->keys;
}

/* Finds keys of a class: [*lo, *hi) are the keys that row m may see, and [*from, *to) are the keys
 * that are near the row. */
static void find_keys(const attn_attention *a, const class *at, size_t m, size_t *lo, size_t *hi,
                      size_t *from, size_t *to) {
    const attn_attention_dims *d = &a->dims;
    const size_t i = at->first_row + m * (size_t)d->stride;
    const int64_t position = (int64_t)i + attn_mask_offset(a->mask, at->b);
    size_t first, end;
    attn_mask_interval(a->mask, at->b, i, &first, &end);
    *lo = keys_before(at, (int64_t)first, d->stride);
    *hi = keys_before(at, (int64_t)end, d->stride);
    *from = keys_before(at, position - d->near, d->stride);
    *to = keys_before(at, position + d->near + 1, d->stride);
}

/* Applies scale, softcap and mask to row r of the tile, which is row m of the class, and hides the
 * keys near this row. */
static void edit_row(const attn_attention *a, const class *at, size_t r, size_t m, size_t c,
                     size_t n, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    size_t lo, hi, from, to;
    find_keys(a, at, m, &lo, &hi, &from, &to);
    const size_t i = at->first_row + m * (size_t)a->dims.stride;
    attn_edit edit = {.scale = w->scaled ? 1 : attn_row_scale(a, at->b, at->h, i),
                      .softcap = a->in.softcap,
                      .lo = attn_mask_within(lo, c, n),
                      .hi = attn_mask_within(hi, c, n),
                      .wide = a->dims.result == ATTN_F64};
    char *row = (char *)w->tile + r * k->keys * k->elem;
    k->edit(row, n, &edit);
    to = attn_mask_within(to, c, n);
    from = attn_mask_within(from, c, n);
    if (from < to)
        attn_elements_fill(row + from * k->elem, k->elem, -INFINITY, to - from);
}

/* Computes the edited scores of the rows m … m + rows - 1 of a class against the n keys from c on,
 * which are packed in w. */
static void score_tile(const attn_attention *a, const class *at, size_t m, size_t rows, size_t c,
                       size_t n, attn_block_work *w) {
    const attn_block block = {at->b, at->h, 0, rows};
    attn_block_scores(a, &block, NULL, 0, n, w->query, a->dims.score_width, true, w);
    for (size_t r = 0; r < rows; r++)
        edit_row(a, at, r, m + r, c, n, w);
}

/* Adds the keys c … c + n - 1, which are packed in w, to the state of rows m … m + rows - 1 of a
 * class. */
static void visit_tile(const attn_forward *f, const class *at, size_t m, size_t rows, size_t c,
                       size_t n, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    score_tile(f->a, at, m, rows, c, n, w);
    k->softmax(w->tile, rows, n, w->max, w->sum, w->factor);
    k->accumulate(w->acc, w->tile, rows, w->packed_value, 0, n, n, f->a->dims.value_width,
                  w->factor);
}

/* --- pieces --- */

/* Stores the state of the rows m … m + rows - 1 of a class. */
static void store_state(const attn_forward *f, const class *at, size_t m, size_t rows,
                        const attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const size_t room = attn_acc_room(k, f->a->dims.value_width) * k->elem,
                 lanes = k->lanes * k->elem;
    const size_t stride = (size_t)f->a->dims.stride;
    const attn_partial to = attn_forward_strided_rows(f, at->b, at->h, at->first_row + m * stride);
    for (size_t r = 0; r < rows; r++) {
        memcpy((char *)to.max + r * stride * k->elem, (char *)w->max + r * k->elem, k->elem);
        memcpy((char *)to.sum + r * stride * lanes, (char *)w->sum + r * lanes, lanes);
        memcpy((char *)to.acc + r * stride * room, (char *)w->acc + r * room, room);
    }
}

/* Returns `last` such that rows m … m + rows - 1 may see only the keys [0, last) of a class. */
static size_t last_key(const attn_attention *a, const class *at, size_t m, size_t rows) {
    size_t last = 0;
    for (size_t r = m; r < m + rows; r++) {
        size_t lo, hi, from, to;
        find_keys(a, at, r, &lo, &hi, &from, &to);
        last = hi > last ? hi : last;
    }
    return last;
}

/* Returns the number of rows of the block that begins at row r of a bundle. `end` is the first row
 * after the bundle. */
static size_t block_rows(const attn_kernels *k, size_t r, size_t end) {
    return end - r < k->rows ? end - r : k->rows;
}

typedef void (*tile_function)(const attn_forward *f, const class *at, size_t m, size_t rows,
                              size_t c, size_t n, attn_block_work *w);

/* Goes over all tiles of a class with a bundle, the rows m … m + rows - 1 of the class: calls
 * `visit` for each tile and block. */
static void visit_tiles(const attn_forward *f, const class *at, size_t m, size_t rows,
                        tile_function visit, attn_forward_lane *l) {
    const attn_attention *a = f->a;
    const attn_kernels *k = a->kernels;
    const size_t end = m + rows, hi = last_key(a, at, m, rows);
    for (size_t r = m, b = 0; r < end; r += k->rows, b++) {
        const size_t count = block_rows(k, r, end);
        attn_block_clear(a, count, &l->runs[b].work);
        load_queries(a, at, r, count, &l->runs[b].work);
    }
    for (size_t c = 0; c < hi; c += k->keys) {
        const size_t n = hi - c < k->keys ? hi - c : k->keys;
        load_tile(f, at, c, n, &l->runs->work);
        for (size_t r = m, b = 0; r < end; r += k->rows, b++)
            visit(f, at, r, block_rows(k, r, end), c, n, &l->runs[b].work);
    }
}

/* Calls `visit` for the bundles of piece `index`. If `stores`, stores the states of their rows. */
static attn_status visit_bundles(const attn_forward *f, size_t index, tile_function visit,
                                 bool stores, attn_forward_lane *l, attn_error *err) {
    const attn_strided_plan *p = &f->plan.strided;
    const attn_kernels *k = f->a->kernels;
    const size_t first = index % p->pieces_a_head * p->bundles_a_piece;
    const size_t last = first + p->bundles_a_piece, most = f->plan.lane_blocks * k->rows;
    for (size_t u = first; u < last && u < p->bundles; u++) {
        const class at = class_at(f->a, index / p->pieces_a_head, u / p->bundles_a_class);
        const size_t m = u % p->bundles_a_class * most;
        const size_t end = at.rows < m + most ? at.rows : m + most;
        if (m < end)
            visit_tiles(f, &at, m, end - m, visit, l);
        for (size_t r = m, b = 0; stores && r < end; r += k->rows, b++)
            store_state(f, &at, r, block_rows(k, r, end), &l->runs[b].work);
        ATTN_TRY(attn_control_check(f->control, err));
    }
    return ATTN_OK;
}

/* Computes a piece of ATTN_STEP_STRIDED. Also stores the largest magnitudes of the keys and values
 * that the piece has packed. */
attn_status attn_forward_strided(void *work, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = work;
    attn_forward_lane *l = &f->lanes[lane];
    attn_block_work *w = &l->runs->work;
    w->key_magnitude = w->value_magnitude = 0;
    ATTN_TRY(visit_bundles(f, index, visit_tile, true, l, err));
    f->strided_magnitudes[2 * index] = w->key_magnitude;
    f->strided_magnitudes[2 * index + 1] = w->value_magnitude;
    return ATTN_OK;
}

/* --- weights --- */

/* Returns the weights [S] of row i of head (b, h). */
static char *weights_of(const attn_forward *f, size_t b, size_t h, size_t i) {
    return (char *)f->out->weights.data + attn_row_index(f->a, b, h, i) * f->a->dims.S * f->elem;
}

/* Turns n edited scores of the tile's row r, which is row i of head (b, h), into weights in
 * w->line. Returns false if the row sees no key, or is computed in double. */
static bool weigh_row(const attn_forward *f, size_t b, size_t h, size_t i, size_t r, size_t n,
                      attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const attn_stats *stats = &f->out->stats;
    const size_t row = attn_row_index(f->a, b, h, i);
    if (stats->sum[row] == 0 || stats->kind[row] == ATTN_ROW_DOUBLE)
        return false;
    k->weights(w->line, (char *)w->tile + r * k->keys * k->elem, n, stats->max[row],
               stats->sum[row]);
    return true;
}

/* Computes the weights of a block on the keys near its queries, with zeros elsewhere. */
attn_status attn_forward_near_weights(void *work, size_t index, size_t lane, attn_error *err) {
    const attn_forward *f = work;
    const attn_attention *a = f->visible;
    const attn_attention_dims *d = &a->dims;
    const attn_kernels *k = a->kernels;
    attn_block_work *w = &f->lanes[lane].runs->work;
    const attn_block block = attn_block_at(d, k, index);
    const size_t i = block.i;
    size_t ld, lo, hi;
    const void *q = attn_query_rows(a, block.b, block.h, i, block.rows, k->elem, w->query, &ld);
    (void)err;
    memset(weights_of(f, block.b, block.h, i), 0, block.rows * d->S * f->elem);
    attn_block_begin(a, &block, q, ld, w);
    attn_block_interval(a, &block, &lo, &hi);
    for (size_t tile = lo / k->keys * k->keys; tile < hi; tile += k->keys) {
        size_t from = lo > tile ? lo : tile, to = hi - tile < k->keys ? hi : tile + k->keys;
        attn_block_narrow(a, &block, k, &from, &to);
        attn_block_scores(a, &block, f->packed, from, to - from, q, ld, true, w);
        for (size_t r = 0; r < block.rows; r++) {
            char *dst = weights_of(f, block.b, block.h, i + r);
            attn_block_edit(a, &block, r, from, to - from, ATTN_STAGE_BIASED, w);
            if (weigh_row(f, block.b, block.h, i + r, r, to - from, w))
                for (size_t j = from; j < to; j++)
                    attn_element_set(dst, f->elem, j, attn_element(w->line, k->elem, j - from));
        }
    }
    return ATTN_OK;
}

/* Writes the weights of row m of the class on keys c … c + n - 1, except the keys near the row. The
 * edited scores of row m are row r of the tile. */
static void scatter_weights(const attn_forward *f, const class *at, size_t r, size_t m, size_t c,
                            size_t n, attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const size_t stride = (size_t)f->a->dims.stride, i = at->first_row + m * stride;
    size_t lo, hi, from, to;
    find_keys(f->a, at, m, &lo, &hi, &from, &to);
    char *dst = weights_of(f, at->b, at->h, i) + at->first_key * f->elem;
    if (!weigh_row(f, at->b, at->h, i, r, n, w))
        return;
    for (size_t j = c > lo ? c : lo; j < c + n && j < hi; j++)
        if (j < from || j >= to)
            attn_element_set(dst, f->elem, j * stride, attn_element(w->line, k->elem, j - c));
}

/* Writes the weights of the rows m … m + rows - 1 of a class on the keys c … c + n - 1. */
static void weigh_tile(const attn_forward *f, const class *at, size_t m, size_t rows, size_t c,
                       size_t n, attn_block_work *w) {
    score_tile(f->a, at, m, rows, c, n, w);
    for (size_t r = 0; r < rows; r++)
        scatter_weights(f, at, r, m + r, c, n, w);
}

attn_status attn_forward_strided_weights(void *work, size_t index, size_t lane, attn_error *err) {
    const attn_forward *f = work;
    return visit_bundles(f, index, weigh_tile, false, &f->lanes[lane], err);
}

/* --- cost --- */

double attn_forward_strided_cells(const attn_attention *a, const attn_plan *plan, size_t b) {
    const attn_strided_plan *p = &plan->strided;
    const size_t most = plan->lane_blocks * plan->kernels->rows;
    double cells = 0;
    for (size_t u = 0; u < p->bundles; u++) {
        const class at = class_at(a, b * a->dims.Hq, u / p->bundles_a_class);
        const size_t m = u % p->bundles_a_class * most;
        const size_t rows = m < at.rows ? at.rows - m < most ? at.rows - m : most : 0;
        cells += (double)rows * (double)last_key(a, &at, m, rows);
    }
    return (double)a->dims.Hq * cells;
}
