#include "mask/formula.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"

enum { RUN = 32 }; /* number of keys of an attn_key_run */

/* --- positions of the caller --- */

size_t attn_mask_position_numbers(const attn_mask_spec *spec, size_t B, size_t S) {
    const size_t entries = spec->key_positions.rank == 2 ? B : 1;
    size_t queries, keys, runs;
    if (!attn_mask_spec_placed(spec))
        return 0;
    if (!attn_tensor_count(&spec->query_positions, &queries) ||
        !attn_tensor_count(&spec->key_positions, &keys) ||
        !attn_size_mul(entries, (S / RUN + 1) * (sizeof(attn_key_run) / sizeof(int64_t)), &runs) ||
        !attn_size_add(queries, keys, &queries) || !attn_size_add(queries, runs, &runs))
        return SIZE_MAX;
    return runs;
}

/* Finds the smallest and the largest position of each run of keys. With them a whole run is skipped
 * if no row can see its keys. */
static attn_status find_runs(attn_mask *m, attn_arena *arena, attn_error *err) {
    const size_t entries = m->keys.entry ? m->B : 1, S = m->shape.S;
    m->runs = S / RUN + 1;
    attn_key_run *runs = attn_arena_array(arena, entries * m->runs, sizeof *runs);
    ATTN_TAKEN(runs, "the mask", err);
    for (size_t n = 0; n < entries * m->runs; n++)
        runs[n] = (attn_key_run){INT64_MAX, INT64_MIN, false};
    for (size_t n = 0; n < entries * S; n++) {
        attn_key_run *run = &runs[n / S * m->runs + n % S / RUN];
        const int64_t at = attn_position_at(&m->keys, n / S, n % S);
        if (at == ATTN_NO_POSITION) {
            run->free = true;
            continue;
        }
        run->least = attn_key_smaller(run->least, at);
        run->most = attn_key_larger(run->most, at);
    }
    m->key_runs = runs;
    return ATTN_OK;
}

attn_status attn_formula_positions(attn_mask *m, const attn_mask_spec *spec, attn_arena *arena,
                                   attn_error *err) {
    const attn_tensor *q = &spec->query_positions, *k = &spec->key_positions;
    if (q->rank)
        ATTN_TRY(attn_row_positions_check(q, "query_positions", "queries", m->shape.L, m->B, err));
    if (k->rank)
        ATTN_TRY(attn_row_positions_check(k, "key_positions", "keys", m->shape.S, m->B, err));
    ATTN_TRY(
        attn_sequence_positions_read(q, "query_positions", m->offset, arena, &m->queries, err));
    ATTN_TRY(attn_sequence_positions_read(k, "key_positions", NULL, arena, &m->keys, err));
    m->same_batches &= !m->queries.entry && !m->keys.entry;
    return find_runs(m, arena, err);
}

attn_rule_block attn_rule_block_at(const attn_mask *m, size_t b, size_t h, size_t i, size_t rows) {
    const int64_t first = (int64_t)i + m->offset[b];
    attn_rule_block at = {
        m, b, h, i, rows, first, first + (int64_t)rows - 1, .least = INT64_MAX, .most = INT64_MIN};
    for (size_t r = i; m->placed && r < i + rows; r++) {
        const int64_t place = attn_position_at(&m->queries, b, r);
        at.free |= place == ATTN_NO_POSITION;
        if (place == ATTN_NO_POSITION)
            continue;
        at.some = true;
        at.least = attn_key_smaller(at.least, place);
        at.most = attn_key_larger(at.most, place);
    }
    return at;
}

/* --- windows and patterns --- */

static attn_status check_window(const int64_t window[2], const char *where, attn_error *err) {
    for (int side = 0; side < 2; side++)
        if (window[side] < -1 || window[side] > ATTN_MASK_FARTHEST)
            return attn_fail(err, ATTN_EARG, where,
                             "a window counts other keys to the left and right: 0 to %" PRId64
                             ", or -1 for open; found [%" PRId64 ", %" PRId64 "]",
                             ATTN_MASK_FARTHEST, window[0], window[1]);
    return ATTN_OK;
}

attn_status attn_formula_check(attn_mask *m, const attn_mask_layer *layer, attn_error *err) {
    const bool window = layer->kind == ATTN_LAYER_WINDOW;
    char where[96];
    if (!layer->by_head)
        return window ? check_window(layer->window, layer->where, err)
                      : attn_pattern_check(&layer->pattern, layer->where, err);
    if (layer->head_count != 1 && layer->head_count != m->shape.H)
        return attn_fail(err, ATTN_ESHAPE, layer->where,
                         "expected one %s or one for each of the %zu heads, found %zu",
                         window ? "window" : "pattern", m->shape.H, layer->head_count);
    for (size_t h = 0; h < layer->head_count; h++) {
        snprintf(where, sizeof where, "%.70s/%zu", layer->where, h);
        ATTN_TRY(window ? check_window(layer->by_head[h].window, where, err)
                        : attn_pattern_check(&layer->by_head[h].pattern, where, err));
    }
    m->same_heads &= layer->head_count == 1;
    return ATTN_OK;
}

/* --- formulas of positions --- */

bool attn_is_formula(attn_layer_kind kind) {
    return kind == ATTN_LAYER_CAUSAL || kind == ATTN_LAYER_WINDOW || kind == ATTN_LAYER_PATTERN ||
           kind == ATTN_LAYER_PREFIX || kind == ATTN_LAYER_LENGTHS;
}

/* Returns whether the formula compares positions of the caller. LENGTHS never does: it counts
 * keys. */
static bool is_placed(const attn_rule *r, const attn_mask *m) {
    return m->placed && r->layer->kind != ATTN_LAYER_LENGTHS;
}

static const attn_pattern *pattern_of(const attn_rule *r, size_t h) {
    return r->layer->by_head ? &attn_keys_of_head(r->layer, h)->pattern : &r->layer->pattern;
}

/* Returns, for any formula but a pattern, the positions of keys from the first that a query at
 * position `left` sees to the last that a query at position `right` sees. If left <= right, these
 * are all keys that queries between the two positions see. If left >= right, all queries between
 * them see these keys. */
static attn_interval keys_between(const attn_rule *r, const attn_rule_block *at, int64_t left,
                                  int64_t right) {
    const attn_mask_layer *layer = r->layer;
    const int64_t *window =
        layer->by_head ? attn_keys_of_head(layer, at->h)->window : layer->window;
    switch (layer->kind) {
    case ATTN_LAYER_CAUSAL:
        return (attn_interval){INT64_MIN, right + 1};
    case ATTN_LAYER_WINDOW:
        return (attn_interval){window[0] < 0 ? INT64_MIN : left - window[0],
                               window[1] < 0 ? INT64_MAX : right + window[1] + 1};
    default:
        return (attn_interval){INT64_MIN, r->lengths[at->b]};
    }
}

/* Returns the part of `keys` from the first to the last key that a query at a position first … last
 * sees. `keys` is not empty. */
static attn_interval seen_by_any(const attn_rule *r, const attn_rule_block *at, int64_t first,
                                 int64_t last, attn_interval keys) {
    if (r->layer->kind != ATTN_LAYER_PATTERN)
        return attn_intersection(keys, keys_between(r, at, first, last));
    attn_pattern_narrow(pattern_of(r, at->h), first, last, &keys.from, &keys.to);
    return keys;
}

/* Returns keys of `keys` that the queries at all positions first … last see. */
static attn_interval seen_by_all(const attn_rule *r, const attn_rule_block *at, int64_t first,
                                 int64_t last, attn_interval keys) {
    if (r->layer->kind != ATTN_LAYER_PATTERN)
        return attn_intersection(keys, keys_between(r, at, last, first));
    attn_pattern_common(pattern_of(r, at->h), first, last, &keys.from, &keys.to);
    return keys;
}

/* --- keys by index --- */

/* Writes 1 for the keys [from, to), else 0. */
static void write_run(attn_interval seen, size_t j0, size_t n, uint8_t *keep) {
    const attn_interval all = {(int64_t)j0, (int64_t)(j0 + n)};
    seen = attn_intersection(seen, all);
    memset(keep, 0, n);
    if (seen.from < seen.to)
        memset(keep + (seen.from - all.from), 1, (size_t)(seen.to - seen.from));
}

static void keep_placed(const attn_rule *r, const attn_rule_block *row, size_t j0, size_t n,
                        uint8_t *keep) {
    const bool pattern = r->layer->kind == ATTN_LAYER_PATTERN;
    attn_interval seen = {INT64_MIN, INT64_MAX};
    if (row->some && !pattern)
        seen = keys_between(r, row, row->least, row->least);
    for (size_t k = 0; k < n; k++) {
        const int64_t at = attn_position_at(&row->m->keys, row->b, j0 + k);
        keep[k] = !row->some || at == ATTN_NO_POSITION ||
                  (pattern ? attn_pattern_sees(pattern_of(r, row->h), row->least, at)
                           : at >= seen.from && at < seen.to);
    }
}

void attn_formula_keep(const attn_rule *r, const attn_rule_block *row, size_t j0, size_t n,
                       uint8_t *keep) {
    const int64_t p = row->first;
    if (is_placed(r, row->m)) {
        keep_placed(r, row, j0, n, keep);
    } else if (r->layer->kind == ATTN_LAYER_PATTERN) {
        memset(keep, 1, n);
        attn_pattern_hide(pattern_of(r, row->h), p, (int64_t)j0, (int64_t)n, keep);
    } else {
        write_run(keys_between(r, row, p, p), j0, n, keep);
    }
}

/* --- bounds of keys at positions of the caller --- */

/* Which of some keys the rows of a block see. */
typedef enum sight { NONE, SOME, ALL } sight;

/* Returns which keys at the positions least … most the rows see. At least one row has a position.
 * NONE and ALL are exact; with SOME, the rows may also see none or all of them. */
static sight sight_of(const attn_rule *r, const attn_rule_block *at, attn_key_run keys) {
    const attn_interval places = {keys.least, keys.most + 1};
    if (keys.least > keys.most)
        return keys.free ? ALL : NONE;
    const attn_interval all = seen_by_all(r, at, at->least, at->most, places);
    if (all.from <= places.from && all.to >= places.to)
        return ALL;
    const attn_interval any = at->free ? places : seen_by_any(r, at, at->least, at->most, places);
    return keys.free || any.from < any.to ? SOME : NONE;
}

static sight sight_of_key(const attn_rule *r, const attn_rule_block *at, int64_t j) {
    const int64_t p = attn_position_at(&at->m->keys, at->b, (size_t)j);
    return p == ATTN_NO_POSITION ? ALL : sight_of(r, at, (attn_key_run){p, p, false});
}

/* Returns whether key j begins a run that ends at or before `end`. */
static bool begins_run(int64_t j, int64_t end) {
    return j % RUN == 0 && end - j >= RUN;
}

static sight sight_of_run(const attn_rule *r, const attn_rule_block *at, int64_t j) {
    const attn_mask *m = at->m;
    return sight_of(r, at, m->key_runs[(m->keys.entry ? at->b * m->runs : 0) + (size_t)j / RUN]);
}

static attn_interval placed_hull(const attn_rule *r, const attn_rule_block *at,
                                 attn_interval keys) {
    if (at->free)
        return keys;
    while (keys.from < keys.to)
        if (begins_run(keys.from, keys.to) && sight_of_run(r, at, keys.from) == NONE)
            keys.from += RUN;
        else if (sight_of_key(r, at, keys.from) == NONE)
            keys.from++;
        else
            break;
    while (keys.from < keys.to)
        if (keys.to % RUN == 0 && keys.to - keys.from >= RUN &&
            sight_of_run(r, at, keys.to - RUN) == NONE)
            keys.to -= RUN;
        else if (sight_of_key(r, at, keys.to - 1) == NONE)
            keys.to--;
        else
            break;
    return keys;
}

/* Returns the longest part of `keys` that all rows see. */
static attn_interval placed_common(const attn_rule *r, const attn_rule_block *at,
                                   attn_interval keys) {
    attn_interval now = {keys.from, keys.from}, most = now;
    if (!at->some)
        return keys;
    while (now.to < keys.to) {
        const sight run = begins_run(now.to, keys.to) ? sight_of_run(r, at, now.to) : SOME;
        const int64_t next = now.to + (run == SOME ? 1 : RUN);
        if (run == ALL || (run == SOME && sight_of_key(r, at, now.to) == ALL))
            now.to = next;
        else
            now.from = now.to = next;
        if (attn_interval_length(most) < attn_interval_length(now))
            most = now;
    }
    return most;
}

attn_interval attn_formula_hull(const attn_rule *r, const attn_rule_block *at, attn_interval keys) {
    return is_placed(r, at->m) ? placed_hull(r, at, keys)
                               : seen_by_any(r, at, at->first, at->last, keys);
}

attn_interval attn_formula_common(const attn_rule *r, const attn_rule_block *at,
                                  attn_interval keys) {
    return is_placed(r, at->m) ? placed_common(r, at, keys)
                               : seen_by_all(r, at, at->first, at->last, keys);
}
