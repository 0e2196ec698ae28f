/* The operands of a pass (operands.h).
 *
 * - Rows are read in place if their elements and strides allow it.
 * - Keys and values are packed in one of three ways: attn_pack packs all heads at once in pieces of
 *   the pool, attn_pack_head packs one head at a time into the same memory, and attn_window_load
 *   packs single tiles when they are needed.
 * - attn_pack packs keys and values that are not finite or too large as zeros and marks them, so
 *   that masked keys and values never affect the output. */
#include "attention/operands.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/mix_weights.h"
#include "base/try.h"

/* --- rows --- */

bool attn_layout_view(const attn_attention *a, const attn_tensor *t, attn_layout layout,
                      attn_arena *arena, attn_view *view) {
    const int r = t->rank, n = a->dims.batch_rank;
    ptrdiff_t batch[ATTN_MAX_RANK];
    *view = (attn_view){.data = t->data, .dtype = t->dtype, .col = t->strides[r - 1]};
    for (int i = 0; i < n; i++)
        batch[i] = t->dims[i] == 1 ? 0 : t->strides[i];
    switch (layout) {
    case ATTN_BHLE:
        view->row = t->strides[r - 2];
        view->head = r > n + 2 ? t->strides[r - 3] : 0;
        break;
    case ATTN_BLHE:
        view->row = t->strides[r - 3];
        view->head = t->strides[r - 2];
        break;
    case ATTN_BLD:
        view->row = t->strides[r - 2];
        view->head = 0; /* unknown here; the caller knows the width and sets it */
        break;
    }
    view->batch = attn_view_batches(arena, a->dims.batch, n, batch);
    return view->batch != NULL;
}

static bool readable_in_place(const attn_view *v, size_t elem) {
    return v->col == 1 && v->dtype == attn_element_dtype(elem) && v->row >= 0;
}

const void *attn_view_rows(const attn_view *past, size_t past_rows, const attn_view *v, size_t b,
                           size_t h, size_t j0, size_t n, size_t width, size_t elem, void *scratch,
                           size_t *ld) {
    if (j0 >= past_rows && readable_in_place(v, elem)) {
        *ld = (size_t)v->row;
        return attn_view_at(v, b, h, j0 - past_rows, 0);
    }
    if (j0 + n <= past_rows && readable_in_place(past, elem)) {
        *ld = (size_t)past->row;
        return attn_view_at(past, b, h, j0, 0);
    }
    for (size_t k = 0; k < n; k++) {
        const size_t j = j0 + k;
        const attn_view *from = j < past_rows ? past : v;
        attn_elements_widen((char *)scratch + k * width * elem, elem,
                            attn_view_at(from, b, h, j < past_rows ? j : j - past_rows, 0),
                            from->dtype, from->col, width);
    }
    *ld = width;
    return scratch;
}

const void *attn_key_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                          size_t elem, void *scratch, size_t *ld) {
    return attn_view_rows(&a->past_key, a->score_past, &a->score_key, b, hkv, j0, n,
                          a->dims.score_width, elem, scratch, ld);
}

const void *attn_value_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                            size_t elem, void *scratch, size_t *ld) {
    return attn_view_rows(&a->past_value, a->pass_past, &a->pass_value, b, hkv, j0, n,
                          a->dims.value_width, elem, scratch, ld);
}

const void *attn_sent_value_rows(const attn_attention *a, size_t b, size_t head, size_t j0,
                                 size_t n, size_t elem, void *scratch, size_t *ld) {
    return attn_view_rows(&a->past_value, a->dims.past, &a->value, b, head, j0, n, a->dims.Ev, elem,
                          scratch, ld);
}

const void *attn_query_rows(const attn_attention *a, size_t b, size_t h, size_t i0, size_t n,
                            size_t elem, void *scratch, size_t *ld) {
    return attn_view_rows(NULL, 0, &a->score_query, b, h, i0, n, a->dims.score_width, elem, scratch,
                          ld);
}

void attn_element_path(const attn_attention *a, char which, size_t b, size_t h, size_t row,
                       size_t col, char path[96]) {
    const attn_inputs *in = &a->in;
    const bool cached = which != 'q' && row < a->dims.past;
    const char *name = which == 'q'   ? "query"
                       : which == 'k' ? (cached         ? "past_key"
                                         : in->key.rank ? "key"
                                                        : "query")
                                      : (cached           ? "past_value"
                                         : in->value.rank ? "value"
                                         : in->key.rank   ? "key"
                                                          : "query");
    const attn_tensor *t = which == 'q'   ? &in->query
                           : which == 'k' ? (cached ? &in->past_key : &in->key)
                                          : (cached ? &in->past_value : &in->value);
    const attn_layout layout = cached ? ATTN_BHLE : in->layout;
    size_t index[ATTN_MAX_RANK], count = 0, rest = b;
    for (int i = a->dims.batch_rank - 1; i >= 0; i--) {
        bool one = t->rank && t->dims[i] == 1;
        index[i] = one ? 0 : rest % a->dims.batch[i];
        rest /= a->dims.batch[i];
    }
    count = (size_t)a->dims.batch_rank;
    if (which != 'q' && !cached)
        row -= a->dims.past;
    if (layout == ATTN_BHLE && (a->dims.has_heads || in->layout != ATTN_BHLE))
        index[count++] = h;
    if (which != 'q' || !in->one_query)
        index[count++] = row;
    if (layout == ATTN_BLHE)
        index[count++] = h;
    if (col != ATTN_WHOLE_ROW && !in->projected)
        index[count++] = layout == ATTN_BLD ? h * (which == 'v'   ? a->dims.Ev
                                                   : which == 'k' ? a->dims.Ek
                                                                  : a->dims.E) +
                                                  col
                                            : col;
    int used = snprintf(path, 96, "%s", name);
    for (size_t i = 0; i < count && used > 0 && used < 96; i++)
        used += snprintf(path + used, 96 - (size_t)used, "/%zu", index[i]);
}

/* --- packed keys and values --- */

enum { TILES_A_PIECE = 8 }; /* tiles that a piece packs */

typedef struct packer {
    const attn_attention *a;
    const attn_attention_dims *dims;
    const attn_kernels *kernels;
    attn_packed *p;
    void **lanes;  /* [slots of the pool]: scratch [keys, max(score width, value width)] */
    size_t chunks; /* pieces into which the tiles of a head are divided */
} packer;

static attn_packed packed_shape(const attn_attention_dims *d, const attn_kernels *k) {
    return (attn_packed){.kernels = k,
                         .tiles = attn_key_tiles(k, d->S),
                         .key_bytes = attn_key_room(k, d->score_width) * k->elem,
                         .value_bytes = attn_value_room(k, d->value_width) * k->elem};
}

/* Takes memory for `tiles` packed tiles from the area. */
static void place_tiles(attn_area *area, size_t tiles, attn_packed *p) {
    p->keys = attn_area_take(area, tiles, p->key_bytes);
    p->values = attn_area_take(area, tiles, p->value_bytes);
    p->key_magnitude = attn_area_take(area, tiles, sizeof(double));
    p->value_magnitude = attn_area_take(area, tiles, sizeof(double));
}

attn_packed *attn_packed_place(attn_area *area, const attn_attention_dims *d, const attn_kernels *k,
                               size_t heads) {
    attn_packed *at = attn_area_take(area, 1, sizeof *at);
    attn_packed p = packed_shape(d, k);
    size_t tiles = 0;
    if (!attn_size_mul(heads, p.tiles, &tiles))
        area->overflow = true;
    place_tiles(area, tiles, &p);
    p.bad = attn_area_take(area, heads, d->S);
    if (area->base)
        *at = p;
    return at;
}

double attn_most_packed(const attn_kernels *k) {
    return k->pack_query ? ATTN_MOST_SPLIT / 256 : k->elem == sizeof(double) ? DBL_MAX : 0x1p96;
}

/* Copies n rows to scratch [n, width], with zeros for rows that are not finite or too large. Marks
 * these rows in bad[]: with `mark` if they are not finite, with ATTN_TOO_LARGE if they are too
 * large. */
static void zero_bad_rows(const attn_kernels *k, const void *rows, size_t ld, size_t n,
                          size_t width, uint8_t *bad, uint8_t mark, char *scratch) {
    for (size_t j = 0; j < n; j++) {
        const char *row = (const char *)rows + j * ld * k->elem;
        char *to = scratch + j * width * k->elem;
        const double magnitude = k->max_magnitude(row, width);
        if (magnitude <= attn_most_packed(k)) {
            memmove(to, row, width * k->elem);
            continue;
        }
        memset(to, 0, width * k->elem);
        bad[j] |= isfinite(magnitude) ? ATTN_TOO_LARGE : mark;
    }
}

static bool any_marks(const uint8_t *bad, size_t n) {
    for (size_t j = 0; j < n; j++)
        if (bad[j])
            return true;
    return false;
}

/* Packs the keys, or the values, of a tile of head (b, hkv) as tile `at` of p. If `bad` is NULL,
 * they are packed as they are. Else rows that are not finite or too large become zeros and get
 * marks in bad [n]. */
static void pack_side(const attn_attention *a, const attn_packed *p, size_t at, size_t b,
                      size_t hkv, size_t tile, bool keys, uint8_t *bad, void *scratch) {
    const attn_kernels *k = p->kernels;
    const size_t S = a->dims.S, j0 = tile * k->keys, n = S - j0 < k->keys ? S - j0 : k->keys;
    const size_t width = keys ? a->dims.score_width : a->dims.value_width;
    char *to = keys ? p->keys + at * p->key_bytes : p->values + at * p->value_bytes;
    double *magnitude = keys ? &p->key_magnitude[at] : &p->value_magnitude[at];
    size_t ld;
    const void *rows =
        (keys ? attn_key_rows : attn_value_rows)(a, b, hkv, j0, n, k->elem, scratch, &ld);
    *magnitude = (keys ? k->pack_key : k->pack_value)(to, rows, ld, n, width);
    if (!bad || *magnitude <= attn_most_packed(k))
        return;
    zero_bad_rows(k, rows, ld, n, width, bad, keys ? ATTN_BAD_KEY : ATTN_BAD_VALUE, scratch);
    *magnitude = (keys ? k->pack_key : k->pack_value)(to, scratch, width, n, width);
}

static void pack_tile(const packer *pk, size_t set, size_t hkv, size_t tile, void *scratch) {
    const attn_attention *a = pk->a;
    attn_packed *p = pk->p;
    const size_t S = a->dims.S, keys = p->kernels->keys, j0 = tile * keys;
    const size_t n = S - j0 < keys ? S - j0 : keys, at = attn_packed_tile(a, p, set, hkv, tile);
    uint8_t *bad = p->bad + (set * a->dims.Hkv + hkv) * S + j0;
    memset(bad, 0, n);
    pack_side(a, p, at, set, hkv, tile, true, bad, scratch);
    pack_side(a, p, at, set, hkv, tile, false, bad, scratch);
    if (any_marks(bad, n))
        atomic_store(&p->any_bad, 1);
}

static attn_status pack_piece(void *work, size_t index, size_t lane, attn_error *err) {
    const packer *pk = work;
    const size_t chunk = index % pk->chunks, head = index / pk->chunks;
    const size_t end = (chunk + 1) * TILES_A_PIECE;
    (void)err;
    for (size_t t = chunk * TILES_A_PIECE; t < end && t < pk->p->tiles; t++)
        pack_tile(pk, head / pk->a->dims.Hkv, head % pk->a->dims.Hkv, t, pk->lanes[lane]);
    return ATTN_OK;
}

/* Packs a tile of head (b, hkv) as it is, as tile `at` of p. */
static void pack_as_is(const attn_attention *a, const attn_packed *p, size_t at, size_t b,
                       size_t hkv, size_t tile, void *scratch) {
    pack_side(a, p, at, b, hkv, tile, true, NULL, scratch);
    pack_side(a, p, at, b, hkv, tile, false, NULL, scratch);
}

bool attn_pack_head(const attn_attention *a, attn_packed *p, size_t set, size_t hkv,
                    void *scratch) {
    const double most = attn_most_packed(p->kernels);
    for (size_t t = 0; t < p->tiles; t++) {
        pack_as_is(a, p, t, set, hkv, t, scratch);
        if (!(p->key_magnitude[t] <= most && p->value_magnitude[t] <= most))
            return false;
    }
    return true;
}

attn_packed *attn_window_place(attn_area *area, const attn_attention_dims *d, const attn_kernels *k,
                               size_t room, size_t pinned) {
    attn_packed *at = attn_area_take(area, 1, sizeof *at);
    attn_packed p = packed_shape(d, k);
    p.room = room;
    p.pinned = pinned;
    place_tiles(area, room, &p);
    p.held = attn_area_take(area, room, sizeof *p.held);
    if (area->base) {
        memset(p.held, 0, room * sizeof *p.held);
        *at = p;
    }
    return at;
}

size_t attn_window_load(const attn_attention *a, const attn_packed *p, size_t b, size_t hkv,
                        size_t tile, void *scratch) {
    const size_t at = attn_packed_tile(a, p, b, hkv, tile);
    const size_t number = (b * a->dims.Hkv + hkv) * p->tiles + tile + 1;
    if (p->held[at] != number)
        pack_as_is(a, p, at, b, hkv, tile, scratch);
    p->held[at] = number;
    return at;
}

/* --- NaN and infinity --- */

/* Returns the first key before `end` that has one of the marks and that query i of head (b, h)
 * sees, or `end` if there is none. */
static size_t first_seen(const attn_attention *a, const uint8_t *bad, unsigned marks, size_t b,
                         size_t h, size_t i, size_t end) {
    enum { AT_ONCE = 256 };
    static const uint8_t none[AT_ONCE];
    uint8_t keep[AT_ONCE];
    size_t lo = 0, hi = end;
    if (!attn_mask_fills(a->mask))
        attn_mask_interval(a->mask, b, i, &lo, &hi);
    if (hi > end)
        hi = end;
    for (size_t j = lo; j < hi; j += AT_ONCE) {
        const size_t n = hi - j < AT_ONCE ? hi - j : AT_ONCE;
        if (memcmp(bad + j, none, n) == 0)
            continue;
        attn_mask_seen(a->mask, b, h, i, j, n, keep);
        for (size_t k = 0; k < n; k++)
            if ((bad[j + k] & marks) && keep[k])
                return j + k;
    }
    return end;
}

const uint8_t *attn_packed_bad(const attn_attention *a, const attn_packed *p, size_t b,
                               size_t hkv) {
    return p->bad + ((a->dims.sets == 1 ? 0 : b) * a->dims.Hkv + hkv) * a->dims.S;
}

bool attn_sees_bad(const attn_attention *a, const attn_packed *p, size_t b, size_t h, size_t i,
                   unsigned marks) {
    const size_t S = a->dims.S;
    return first_seen(a, attn_packed_bad(a, p, b, attn_kv_head(a, h)), marks, b, h, i, S) < S;
}

/* Returns an error that names the first number of a row that is not finite. The row is number `row`
 * of head (b, h) for attn_element_path, and number `at` of the view. `seen` is the end of the text,
 * such as "in a query that sees a key". If all numbers of the view's row are finite, the error says
 * that the score form's map of the row overflows. */
static attn_status refuse_row(const attn_attention *a, char which, const attn_view *v, size_t b,
                              size_t h, size_t row, size_t at, size_t width, const char *seen,
                              attn_error *err) {
    char path[96];
    for (size_t e = 0; e < width; e++) {
        const double x = attn_number_at(attn_view_at(v, b, h, at, e), v->dtype);
        if (isfinite(x))
            continue;
        attn_element_path(a, which, b, h, row, e, path);
        return attn_fail(err, ATTN_ENONFINITE, path,
                         "%s %s; expected a finite number (or set allow_nonfinite)",
                         isnan(x) ? "NaN" : "infinity", seen);
    }
    attn_element_path(a, which, b, h, row, 0, path);
    return attn_fail(err, ATTN_ENONFINITE, path, "the %s of this %s overflows float32",
                     a->dims.mixed ? "mix of heads" : "score form's map",
                     which == 'q' ? "query" : "key");
}

/* Returns the head to blame for a row that is not finite: `h`, or if heads are mixed the first head
 * whose row `at` of the view has NaN or infinity. */
static size_t bad_head(const attn_attention *a, const attn_view *v, size_t b, size_t h,
                       size_t heads, size_t at) {
    for (size_t head = 0; a->dims.mixed && head < heads; head++)
        for (size_t e = 0; e < a->dims.E; e++)
            if (!isfinite(attn_number_at(attn_view_at(v, b, head, at, e), v->dtype)))
                return head;
    return h;
}

/* Returns the head to blame for a value that is not finite: hkv, or if weights are mixed the first
 * such head among those that the heads of key head hkv use. */
static size_t bad_value_head(const attn_attention *a, const attn_view *v, size_t b, size_t hkv,
                             size_t at) {
    const attn_attention_dims *d = &a->dims;
    for (size_t part = 0; d->factors && part * d->Ev < d->value_width; part++) {
        const size_t head = attn_mix_value_of_part(d, hkv, part);
        for (size_t e = 0; e < d->Ev; e++)
            if (!isfinite(attn_number_at(attn_view_at(v, b, head, at, e), v->dtype)))
                return head;
    }
    return d->factors ? attn_mix_value_of_part(d, hkv, 0) : hkv;
}

static attn_status refuse_key(const attn_attention *a, size_t b, size_t hkv, size_t j, bool key,
                              attn_error *err) {
    const bool cached = j < a->dims.past;
    const attn_view *v =
        key ? (cached ? &a->past_key : &a->key) : (cached ? &a->past_value : &a->value);
    const size_t at = cached ? j : j - a->dims.past;
    const size_t head =
        key ? bad_head(a, v, b, hkv, a->dims.Hkv, at) : bad_value_head(a, v, b, hkv, at);
    return refuse_row(a, key ? 'k' : 'v', v, b, head, j, at, key ? a->dims.Ek : a->dims.Ev,
                      "at a position that a query sees", err);
}

/* If queries see keys or values of a head that are not finite, returns an error that names the
 * first of these. */
static attn_status refuse_bad_head(const attn_attention *a, const uint8_t *bad, size_t b,
                                   size_t hkv, const attn_control *control, attn_error *err) {
    const size_t S = a->dims.S, group = attn_group(&a->dims);
    const size_t heads = attn_mask_same_heads(a->mask) && group ? 1 : group;
    size_t first = S;
    for (size_t h = hkv * group; h < hkv * group + heads; h++)
        for (size_t i = 0; i < a->dims.L; i++) {
            ATTN_TRY(attn_control_check(control, err));
            first = first_seen(a, bad, ATTN_NOT_FINITE, b, h, i, first);
        }
    return first < S ? refuse_key(a, b, hkv, first, bad[first] & ATTN_BAD_KEY, err) : ATTN_OK;
}

static attn_status refuse_bad(const attn_attention *a, const attn_packed *p,
                              const attn_control *control, attn_error *err) {
    for (size_t head = 0; head < a->dims.B * a->dims.Hkv; head++) {
        const size_t b = head / a->dims.Hkv, hkv = head % a->dims.Hkv;
        ATTN_TRY(refuse_bad_head(a, attn_packed_bad(a, p, b, hkv), b, hkv, control, err));
    }
    return ATTN_OK;
}

attn_status attn_refuse_query(const attn_attention *a, size_t b, size_t h, size_t i,
                              attn_error *err) {
    if (a->in.allow_nonfinite || !attn_mask_sees_any(a->mask, b, h, i))
        return ATTN_OK;
    h = bad_head(a, &a->query, b, h, a->dims.Hq, i);
    return refuse_row(a, 'q', &a->query, b, h, i, i, a->dims.E, "in a query that sees a key", err);
}

/* --- packing --- */

static void place_pack_lane(const void *work, attn_area *area, void *to) {
    const packer *pk = work;
    const attn_attention_dims *d = pk->dims;
    const attn_kernels *k = pk->kernels;
    *(void **)to = attn_area_take(
        area, k->keys * k->elem, d->score_width > d->value_width ? d->score_width : d->value_width);
}

static void place_packed(void *work, attn_area *area) {
    packer *pk = work;
    size_t heads = 0;
    if (!attn_size_mul(pk->dims->sets, pk->dims->Hkv, &heads))
        area->overflow = true;
    pk->p = attn_packed_place(area, pk->dims, pk->kernels, heads);
}

static const attn_sweep packing = {sizeof(void *), place_pack_lane, place_packed, pack_piece, NULL};

void attn_pack_count(attn_area *area, const attn_attention_dims *d, const attn_kernels *k,
                     size_t slots) {
    packer pk = {.dims = d, .kernels = k};
    const attn_area counted = attn_sweep_count(&packing, &pk, slots);
    area->overflow |= counted.overflow;
    attn_area_take(area, 1, counted.used);
}

attn_status attn_pack(attn_attention *a, attn_pool *pool, const attn_control *control,
                      attn_arena *arena, attn_packed **out, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    packer pk = {.a = a, .dims = d, .kernels = a->kernels};
    pk.lanes = attn_sweep_open(&packing, &pk, attn_pool_slots(pool), arena);
    ATTN_TAKEN(pk.lanes, "packed keys and values", err);
    pk.chunks = (pk.p->tiles + TILES_A_PIECE - 1) / TILES_A_PIECE;
    ATTN_TRY(attn_sweep_run(&packing, &pk, d->sets * d->Hkv * pk.chunks, 0, pool, control, err));
    if (pk.p->any_bad && !a->in.allow_nonfinite)
        ATTN_TRY(refuse_bad(a, pk.p, control, err));
    *out = pk.p;
    return ATTN_OK;
}
