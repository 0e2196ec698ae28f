/* Warns about masks that are legal but probably not intended. Every check reads a bounded number of
 * cells, so it may miss something in a large mask.
 *
 * A cell is a pair of a query i and a key j, and a row has the cells of one query. A row is blind
 * if its query sees no key. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "mask/rule.h"
#include "mask/warning_list.h"
#include "number/hash.h"

enum {
    MOST_CELLS = 1 << 24,       /* cells read to find blind rows; most rows need one cell */
    MOST_LAYER_CELLS = 1 << 20, /* cells of one layer that a check reads, in a few milliseconds */
    NAMED = 8,                  /* rows that a warning names */
};

/* In the checks of one layer, a number of at most FILL_FLOOR counts as hiding its key, since it
 * hides the key in practice. */
#define FILL_FLOOR ATTN_FINITE_MIN
/* A finite mask_fill above this may leave noticeable weight on masked keys. With a fill of -50 and
 * scores of a row that differ by at most 20, a masked key gets at most e^-30 = 1e-13 of the weight
 * of a visible key, which is far below the rounding of float32 weights. */
#define FILL_LEAKS (-50.0)

typedef struct linter {
    const attn_mask *m;
    attn_arena *arena;
    attn_warnings found;
    bool failed;
} linter;

static linter begin_lint(const attn_mask *m, attn_arena *arena) {
    const attn_mask_shape *s = &m->shape;
    return (linter){
        .m = m,
        .arena = arena,
        .found = {.B = m->B, .H = s->H, .L = s->L, .S = s->S, .has_heads = s->has_heads}};
}

static void warn(linter *l, attn_warning w) {
    l->failed |= !attn_warnings_add(&l->found, l->arena, &w);
}

/* Returns whether layer i is a part of a rule. */
static bool is_part(const attn_mask *m, size_t i) {
    return m->rules && m->rules[i].layer && m->rules[i].part.layer;
}

/* --- shapes that can be read in two ways --- */

/* Warns about [B, S] that is read as [L, S], and about [B, L, S] that is read as [H, L, S]. */
static void check_rank(linter *l, const attn_mask_layer *layer) {
    const attn_mask_shape *s = &l->m->shape;
    const attn_tensor *v = &layer->values;
    const size_t B = l->m->B;
    bool as_padding = v->rank == 2 && s->batch_rank && B == s->L && v->dims[1] > 1;
    bool as_batches = v->rank == 3 && s->has_heads && B == s->H;
    if (B < 2 || v->dims[0] != B || !(as_padding || as_batches))
        return;
    warn(l,
         (attn_warning){.code = as_padding ? ATTN_WARN_MASK_OR_PADDING : ATTN_WARN_MASK_OR_BATCHES,
                        .layer = layer});
}

/* --- triangles --- */

/* Sets of visible cells (i, j), as bits. */
typedef enum triangle {
    NO_TRIANGLE = 0,
    LOWER = 1,        /* j <= i */
    UPPER = 2,        /* j >= i */
    STRICT_UPPER = 4, /* j > i */
} triangle;

/* Returns the triangles that agree with the visible cells of a layer, as bits. Of a mask with more
 * than MOST_LAYER_CELLS cells, only every n-th row is read. */
static triangle triangle_of(const attn_mask *m, const attn_mask_part *part) {
    unsigned still = LOWER | UPPER | STRICT_UPPER;
    const size_t L = m->shape.L, S = m->shape.S,
                 rows = S < MOST_LAYER_CELLS ? MOST_LAYER_CELLS / S : 1;
    const size_t step = L > rows ? L / rows : 1;
    for (size_t i = 0; still && i < L; i += step)
        for (size_t j = 0; still && j < S; j++) {
            bool visible = !attn_mask_part_hides(part, FILL_FLOOR, 0, 0, i, j);
            still &= ~(visible != (j <= i) ? (unsigned)LOWER : 0u);
            still &= ~(visible != (j >= i) ? (unsigned)UPPER : 0u);
            still &= ~(visible != (j > i) ? (unsigned)STRICT_UPPER : 0u);
        }
    return (triangle)still;
}

static void check_triangle(linter *l, const attn_mask_layer *layer, const attn_mask_part *part) {
    const attn_mask_shape *s = &l->m->shape;
    if (!part->view.row || !part->view.col || s->L < 2 || s->S < 2)
        return;
    triangle shape = triangle_of(l->m, part);
    if (shape == UPPER)
        warn(l, (attn_warning){.code = ATTN_WARN_MASK_TRANSPOSED, .layer = layer});
    else if (shape == STRICT_UPPER)
        warn(l, (attn_warning){.code = ATTN_WARN_MASK_INVERTED, .layer = layer});
    else if (shape == LOWER && s->L != s->S)
        warn(l, (attn_warning){.code = ATTN_WARN_MASK_AT_START, .layer = layer});
}

/* Warns about a causal layer if there are more keys than queries and the position of the queries is
 * not stated. */
static void check_causal(linter *l, const attn_mask_layer *layer) {
    const attn_mask_shape *s = &l->m->shape;
    const bool placed = l->m->queries.given || l->m->keys.given;
    if (l->m->stated_offset == ATTN_OFFSET_DEFAULT && !placed && !s->past && s->S > s->L)
        warn(l, (attn_warning){.code = ATTN_WARN_CAUSAL_AT_START, .layer = layer});
}

/* --- padding in a mask that has a query axis --- */

/* The L rows of one head, counted by the set of keys that they see. */
typedef struct row_census {
    size_t blind;       /* number of blind rows */
    size_t common;      /* number of rows that see the most frequent set of keys */
    size_t example;     /* index of one of these common rows */
    size_t other;       /* number of rows that are neither blind nor common */
    size_t first, last; /* indices of the first and the last of these other rows */
} row_census;

/* Returns a hash of the set of keys that row i sees. */
static uint64_t row_hash(const attn_mask_part *part, size_t b, size_t h, size_t i, size_t S,
                         bool *blind) {
    uint64_t hash = ATTN_HASH_START;
    *blind = true;
    for (size_t j = 0; j < S; j++) {
        const uint8_t hides = attn_mask_part_hides(part, FILL_FLOOR, b, h, i, j);
        *blind &= hides;
        hash = attn_hash(hash, &hides, 1);
    }
    return hash;
}

/* Finds a row with the most frequent set of keys by the majority vote of Boyer and Moore, and then
 * counts the rows. `hashes` is scratch for the hashes of L rows; a blind row gets 0. */
static row_census census_of(const attn_mask_part *part, size_t b, size_t h, size_t L, size_t S,
                            uint64_t *hashes) {
    row_census c = {.first = L};
    size_t votes = 0;
    bool blind;
    for (size_t i = 0; i < L; i++) {
        hashes[i] = row_hash(part, b, h, i, S, &blind);
        if (blind) {
            c.blind++;
            hashes[i] = 0;
        } else if (!votes) {
            c.example = i;
            votes = 1;
        } else if (hashes[i] == hashes[c.example])
            votes++;
        else
            votes--;
    }
    for (size_t i = 0; i < L; i++) {
        if (!hashes[i])
            continue;
        if (hashes[i] == hashes[c.example])
            c.common++;
        else {
            c.first = c.other++ ? c.first : i;
            c.last = i;
        }
    }
    return c;
}

static size_t hidden_in_row(const attn_mask_part *part, size_t b, size_t h, size_t i, size_t S) {
    size_t n = 0;
    for (size_t j = 0; j < S; j++)
        n += attn_mask_part_hides(part, FILL_FLOOR, b, h, i, j);
    return n;
}

/* Returns the number of keys that row i sees and row `model` does not see, and stores the first of
 * these keys in *key. Returns 0 if row i does not see some key that row `model` sees, as in masks
 * of several texts in one sequence. */
static size_t extra_keys(const attn_mask_part *part, size_t b, size_t h, size_t model, size_t i,
                         size_t S, size_t *key) {
    size_t extra = 0;
    for (size_t j = 0; j < S; j++) {
        bool hides = attn_mask_part_hides(part, FILL_FLOOR, b, h, i, j);
        bool model_hides = attn_mask_part_hides(part, FILL_FLOOR, b, h, model, j);
        if (hides && !model_hides)
            return 0;
        if (!hides && model_hides && !extra++)
            *key = j;
    }
    return extra;
}

/* Adds a warning if almost all rows of a head hide the same keys, as padding does, but some rows
 * hide other keys. Real padding is hidden from all rows. Returns whether a warning was added. */
static bool check_census(linter *l, const attn_mask_part *part, size_t b, size_t h,
                         const row_census *c) {
    const size_t L = l->m->shape.L, S = l->m->shape.S;
    size_t key = 0;
    if (c->common < 2)
        return false;
    size_t padding = hidden_in_row(part, b, h, c->example, S);
    if (padding && c->blind && !c->other) {
        warn(l, (attn_warning){.code = ATTN_WARN_PADDING_OF_QUERIES,
                               .layer = part->layer,
                               .batch = b,
                               .keys = padding,
                               .queries = c->blind});
        return true;
    }
    if (L < 4 || !c->other || c->other + c->blind > L / 4)
        return false;
    size_t more = extra_keys(part, b, h, c->example, c->last, S, &key);
    size_t extra = extra_keys(part, b, h, c->example, c->first, S, &key);
    if (!extra || !more || (c->other > 1 && (extra > 1 || more > 1)))
        return false;
    warn(l, (attn_warning){.code = ATTN_WARN_PADDING_SEEN,
                           .layer = part->layer,
                           .batch = b,
                           .key = key,
                           .queries = c->common + c->blind,
                           .query = c->first});
    return true;
}

static void check_padding(linter *l, const attn_mask_layer *layer, const attn_mask_part *part) {
    const attn_mask *m = l->m;
    const attn_mask_shape *s = &m->shape;
    const size_t H = part->view.head ? s->H : 1;
    size_t cells, looked = 0;
    if (!part->view.row || s->L < 2 || s->S < 2)
        return;
    if (layer->values.dims[layer->values.rank - 1] == 1) {
        warn(l, (attn_warning){.code = ATTN_WARN_MASK_OF_QUERIES, .layer = layer});
        return;
    }
    if (!attn_size_mul(s->L, s->S, &cells) || cells > MOST_LAYER_CELLS)
        return;
    uint64_t *hashes = attn_arena_take(l->arena, s->L * sizeof *hashes);
    l->failed |= !hashes;
    for (size_t b = 0; hashes && b < m->B; b++)
        for (size_t h = 0; h < H && looked <= MOST_LAYER_CELLS - cells; h++, looked += cells) {
            row_census c = census_of(part, b, h, s->L, s->S, hashes);
            if (check_census(l, part, b, h, &c))
                return;
        }
}

/* Returns the first padding key that stands between real keys, or S if there is none. */
static size_t gap_of(const attn_mask_part *part, size_t b, size_t S) {
    size_t first = 0, last = S;
    while (first < S && attn_mask_part_hides(part, -INFINITY, b, 0, 0, first))
        first++;
    while (last > first && attn_mask_part_hides(part, -INFINITY, b, 0, 0, last - 1))
        last--;
    for (size_t j = first; j < last; j++)
        if (attn_mask_part_hides(part, -INFINITY, b, 0, 0, j))
            return j;
    return S;
}

/* Warns about padding between real keys. If the layer has tokens, either pad_id is wrong, or the
 * token pad_id also has another meaning. */
static void check_gap(linter *l, const attn_mask_layer *layer, const attn_mask_part *part) {
    const size_t S = l->m->shape.S;
    size_t looked = 0;
    for (size_t b = 0; b < l->m->B && looked < MOST_LAYER_CELLS; b++, looked += S) {
        size_t gap = gap_of(part, b, S);
        if (gap == S)
            continue;
        warn(l,
             (attn_warning){.code = ATTN_WARN_PADDING_GAP, .layer = layer, .batch = b, .key = gap});
        return;
    }
}

/* --- blind rows --- */

/* Returns whether row i is blind, and adds the number of cells that were read to *looked. */
static bool row_is_blind(const attn_mask *m, size_t b, size_t h, size_t i, size_t *looked) {
    uint8_t keep[256];
    size_t lo, hi;
    attn_mask_interval(m, b, i, &lo, &hi);
    ++*looked;
    if (lo >= hi || !attn_mask_hides_cells(m))
        return lo >= hi;
    for (size_t j = lo; j < hi; j += sizeof keep) {
        size_t n = hi - j < sizeof keep ? hi - j : sizeof keep;
        attn_mask_keep(m, b, h, i, j, n, keep);
        *looked += n;
        if (memchr(keep, 1, n))
            return false;
    }
    return true;
}

static void check_rows(linter *l) {
    const attn_mask *m = l->m;
    const size_t B = m->same_batches && m->B ? 1 : m->B, L = m->shape.L;
    const size_t H = m->same_heads && m->shape.H ? 1 : m->shape.H;
    attn_warning w = {
        .code = ATTN_WARN_HIDDEN_ROWS, .all_batches = m->same_batches, .all_heads = m->same_heads};
    attn_warning_row named[NAMED];
    size_t looked = 0;
    if (attn_mask_fills(m) || attn_mask_is_plain(m))
        return;
    for (size_t b = 0; b < B && looked < MOST_CELLS; b++)
        for (size_t h = 0; h < H && looked < MOST_CELLS; h++)
            for (size_t i = 0; i < L && looked < MOST_CELLS; i++, w.rows_read++)
                if (row_is_blind(m, b, h, i, &looked) && w.queries++ < NAMED)
                    named[w.row_count++] = (attn_warning_row){b, h, i};
    if (!w.queries)
        return;
    w.partial = looked >= MOST_CELLS;
    attn_warning_row *rows = attn_arena_small(l->arena, w.row_count * sizeof *rows);
    l->failed |= !rows;
    if (!rows)
        return;
    memcpy(rows, named, w.row_count * sizeof *rows);
    w.rows = rows;
    warn(l, w);
}

/* Warns about a finite fill that leaves weight on hidden keys, or that has no effect because no
 * layer hides a key. */
static void check_fill(linter *l) {
    const attn_mask *m = l->m;
    const bool fills = m->keep_count || m->pattern_count || m->rule_count || !attn_mask_is_open(m);
    if (fills && m->fill_value > FILL_LEAKS)
        warn(l, (attn_warning){.code = ATTN_WARN_FILL_LEAKS, .value = m->fill_value});
    if (!fills)
        for (size_t i = 0; i < m->layer_count; i++)
            if (m->layers[i].kind == ATTN_LAYER_VALUES) {
                warn(l, (attn_warning){.code = ATTN_WARN_FILL_UNUSED, .layer = &m->layers[i]});
                break;
            }
}

/* Warns about finite numbers that are so low that they hide keys in practice. The keys still count
 * as visible. */
static void check_lowest(linter *l, const attn_mask_layer *layer, const attn_mask_part *part) {
    if (part->lowest <= ATTN_FINITE_MIN)
        warn(l,
             (attn_warning){.code = ATTN_WARN_LOW_NUMBERS, .layer = layer, .value = part->lowest});
}

/* Warns about finite numbers of several layers whose sum is below the range of float32. */
static void check_sums(linter *l) {
    double lowest = 0;
    for (size_t p = 0; p < l->m->bias_count; p++)
        lowest += fmin(l->m->bias[p].lowest, 0);
    warn(l, (attn_warning){.code = ATTN_WARN_SUMS_HIDE, .value = lowest});
}

static void check_layer(linter *l, size_t i) {
    const attn_mask_layer *layer = &l->m->layers[i];
    if (layer->kind == ATTN_LAYER_CAUSAL) {
        check_causal(l, layer);
        return;
    }
    const attn_mask_part *part = attn_mask_part_of(l->m, i);
    switch (layer->kind) {
    case ATTN_LAYER_VALUES:
        check_rank(l, layer);
        /* inside any_of and not, a triangle or a blind row has another meaning */
        if (is_part(l->m, i))
            break;
        check_triangle(l, layer, part);
        check_padding(l, layer, part);
        check_lowest(l, layer, part);
        break;
    case ATTN_LAYER_BIAS:
        check_lowest(l, layer, part);
        break;
    case ATTN_LAYER_PADDING:
    case ATTN_LAYER_TOKENS:
        check_gap(l, layer, part);
        break;
    case ATTN_LAYER_CAUSAL:
    case ATTN_LAYER_WINDOW:
    case ATTN_LAYER_LENGTHS:
    case ATTN_LAYER_PATTERN:
    case ATTN_LAYER_BITS:
    case ATTN_LAYER_PREFIX:
    case ATTN_LAYER_DOCUMENTS:
    case ATTN_LAYER_TREE:
    case ATTN_LAYER_TOP_K:
    case ATTN_LAYER_ANY_OF:
    case ATTN_LAYER_ALL_OF:
    case ATTN_LAYER_NOT:
        break;
    }
}

/* --- encodings of positions --- */

/* Warns if queries are encoded from position 0 on because no offset is stated. If there is a causal
 * layer, check_causal has warned already. */
static void check_start(linter *l) {
    const attn_mask_shape *s = &l->m->shape;
    if (l->m->stated_offset != ATTN_OFFSET_DEFAULT || s->past || s->L == s->S)
        return;
    for (size_t i = 0; s->S > s->L && i < l->m->layer_count; i++)
        if (l->m->layers[i].kind == ATTN_LAYER_CAUSAL)
            return;
    warn(l, (attn_warning){.code = ATTN_WARN_POSITION_START});
}

/* Warns about an offset beside a cache that differs from the number of cached keys. The new keys
 * keep the positions behind the cache, so they no longer match the queries. */
static void check_offset(linter *l) {
    const attn_mask_shape *s = &l->m->shape;
    if (l->m->stated_offset != ATTN_OFFSET_GIVEN || !s->past || s->S - s->past != s->L)
        return;
    for (size_t b = 0; b < l->m->B; b++)
        if (l->m->offset[b] != (int64_t)s->past) {
            warn(l, (attn_warning){.code = ATTN_WARN_POSITION_OFFSET,
                                   .batch = b,
                                   .value = (double)l->m->offset[b],
                                   .keys = s->past});
            return;
        }
}

/* Warns about an absolute encoding of keys behind padding. `part` hides the same keys from every
 * query. */
static void check_left(linter *l, const attn_mask_part *part) {
    const size_t S = l->m->shape.S;
    size_t looked = 0;
    for (size_t b = 0; b < l->m->B && looked < MOST_LAYER_CELLS; b++, looked++) {
        size_t first = 0;
        while (first < S && attn_mask_part_hides(part, FILL_FLOOR, b, 0, 0, first))
            first++;
        looked += first;
        if (first == 0 || first == S)
            continue;
        warn(l, (attn_warning){.code = ATTN_WARN_POSITION_PADDING,
                               .layer = part->layer,
                               .batch = b,
                               .key = first});
        return;
    }
}

/* Returns whether new token i sees itself and the whole cache, but not the token before it. Then
 * both tokens are children of the same token of a tree, or of the cache. */
static bool is_sibling(const attn_mask *m, const attn_mask_part *part, size_t i) {
    const size_t past = m->shape.past;
    if (!attn_mask_part_hides(part, FILL_FLOOR, 0, 0, i, past + i - 1) ||
        attn_mask_part_hides(part, FILL_FLOOR, 0, 0, i, past + i))
        return false;
    for (size_t j = 0; j < past; j++)
        if (attn_mask_part_hides(part, FILL_FLOOR, 0, 0, i, j))
            return false;
    return true;
}

static void check_tree(linter *l, const attn_mask_part *part) {
    const attn_mask_shape *s = &l->m->shape;
    if (!s->past || s->S - s->past != s->L || s->S > MOST_LAYER_CELLS)
        return;
    for (size_t i = 1, looked = 0; i < s->L && looked <= MOST_LAYER_CELLS; i++, looked += s->S)
        if (is_sibling(l->m, part, i)) {
            warn(l, (attn_warning){.code = ATTN_WARN_POSITION_TREE,
                                   .layer = part->layer,
                                   .query = i,
                                   .key = s->past + i - 1});
            return;
        }
}

static void check_positions(linter *l, bool absolute) {
    check_start(l);
    check_offset(l);
    for (size_t i = 0; i < l->m->layer_count; i++) {
        const attn_mask_part *part = attn_mask_part_of(l->m, i);
        const attn_layer_kind kind = l->m->layers[i].kind;
        const bool values = kind == ATTN_LAYER_VALUES;
        if (!part || is_part(l->m, i) ||
            !(values || kind == ATTN_LAYER_PADDING || kind == ATTN_LAYER_TOKENS))
            continue;
        if (values && part->view.row && part->view.col)
            check_tree(l, part);
        if (absolute && part->view.col && !part->view.row && !part->view.head)
            check_left(l, part);
    }
}

/* --- the three checks --- */

static bool has_cells(const attn_mask *m) {
    return m->B && m->shape.H && m->shape.L && m->shape.S;
}

static attn_status end_lint(const linter *l, attn_warnings *out, attn_error *err) {
    ATTN_TAKEN(!l->failed, "the warnings about the mask", err);
    *out = l->found;
    return ATTN_OK;
}

attn_status attn_mask_lint(const attn_mask *m, attn_arena *arena, attn_warnings *out,
                           attn_error *err) {
    linter l = begin_lint(m, arena);
    if (!has_cells(m) || !m->layer_count)
        return end_lint(&l, out, err);
    for (size_t i = 0; i < m->layer_count && !l.failed; i++)
        check_layer(&l, i);
    if (!l.failed && m->sums_hide)
        check_sums(&l);
    if (!l.failed && attn_mask_fills(m))
        check_fill(&l);
    if (!l.failed)
        check_rows(&l);
    return end_lint(&l, out, err);
}

attn_status attn_mask_lint_position(const attn_mask *m, bool absolute, attn_arena *arena,
                                    attn_warnings *out, attn_error *err) {
    linter l = begin_lint(m, arena);
    if (has_cells(m))
        check_positions(&l, absolute);
    return end_lint(&l, out, err);
}

attn_status attn_mask_lint_numbers(const attn_mask *m, attn_arena *arena, attn_warnings *out,
                                   attn_error *err) {
    linter l = begin_lint(m, arena);
    for (size_t i = 0; i < m->bias_count; i++) {
        const attn_mask_part *part = &m->bias[i];
        check_lowest(&l, part->layer, part);
        if (part->only_bits && part->layer->kind == ATTN_LAYER_VALUES)
            warn(&l, (attn_warning){.code = ATTN_WARN_ONLY_BITS, .layer = part->layer});
    }
    return end_lint(&l, out, err);
}
