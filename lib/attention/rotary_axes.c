/* Axes of rotary positions (rotary.h): checks and reads the axis of each pair, and the positions of
 * queries and keys on each axis. */
#include "attention/rotary.h"

#include <attn/input_rows.h>
#include <math.h>
#include <stdio.h>

#include "base/element.h"
#include "base/try.h"
#include "base/view.h"

#define AXES    "position/axes"
#define PAIRS   AXES "/pairs"
#define QUERIES AXES "/query_positions"
#define KEYS    AXES "/key_positions"

static bool is_integer(const attn_tensor *t) {
    return t->dtype == ATTN_I32 || t->dtype == ATTN_I64;
}

/* Checks positions of `rows` queries or keys on each of the axes. */
static attn_status check_places(const attn_tensor *t, const char *where, const char *what,
                                size_t axes, size_t rows, size_t B, attn_error *err) {
    char have[128];
    const bool list = t->rank == 2 && t->dims[0] == axes && t->dims[1] == rows;
    if (!list && !(t->rank == 3 && t->dims[0] == axes && t->dims[2] == rows &&
                   (t->dims[1] == 1 || t->dims[1] == B)))
        return attn_fail(err, ATTN_ESHAPE, where,
                         "expected positions of the %zu %s on each axis, [%zu, %zu] or [%zu, %zu, "
                         "%zu] with a row for each batch entry; found %s",
                         rows, what, axes, rows, axes, B, rows,
                         attn_found_text(t, have, sizeof have));
    if (t->dtype > ATTN_F64 && !is_integer(t))
        return attn_fail(err, ATTN_EDTYPE, where, "expected numbers, found %s",
                         attn_dtype_name(t->dtype));
    return ATTN_OK;
}

attn_status attn_rotary_axes_check(const attn_rotary_axes *x, size_t L, size_t S, size_t B,
                                   attn_error *err) {
    const size_t axes = x->query_positions.rank ? x->query_positions.dims[0] : 0;
    if (x->pairs.rank != 1 || !is_integer(&x->pairs))
        return attn_fail(err, ATTN_ESHAPE, PAIRS,
                         "expected a list of integers, the axis of each pair");
    if (axes < 1 || axes > ATTN_ROTARY_AXES)
        return attn_fail(err, ATTN_EARG, AXES, "expected 1 to %d axes, found %zu", ATTN_ROTARY_AXES,
                         axes);
    ATTN_TRY(check_places(&x->query_positions, QUERIES, "queries", axes, L, B, err));
    ATTN_TRY(check_places(&x->key_positions, KEYS, "keys", axes, S, B, err));
    if (x->bases.rank && (x->bases.rank != 1 || x->bases.dims[0] != axes))
        return attn_fail(err, ATTN_ESHAPE, AXES "/bases", "expected [%zu], a number for each axis",
                         axes);
    return x->bases.dtype <= ATTN_F64
               ? ATTN_OK
               : attn_fail(err, ATTN_EDTYPE, AXES "/bases", "expected floating-point numbers");
}

size_t attn_rotary_axes_count(const attn_rotary_axes *x) {
    const attn_tensor *parts[] = {&x->pairs, &x->query_positions, &x->key_positions};
    size_t all = 0, n;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!attn_tensor_count(parts[i], &n) || !attn_size_add(all, n, &all))
            return SIZE_MAX;
    return all;
}

/* Returns an error about element i of row r of the positions, whose rows are [axes, batch
 * entries]. */
static attn_status refuse(const attn_tensor *t, const char *where, size_t r, size_t i, double found,
                          attn_error *err) {
    char path[96];
    if (t->rank == 2)
        snprintf(path, sizeof path, "%s/%zu/%zu", where, r, i);
    else
        snprintf(path, sizeof path, "%s/%zu/%zu/%zu", where, r / t->dims[1], r % t->dims[1], i);
    return attn_fail(err, ATTN_EVALUE, path, "a position lies within ±2^40, found %g", found);
}

static attn_status read_places(const attn_tensor *t, const char *where, attn_arena *arena,
                               attn_rotary_places *out, attn_error *err) {
    const size_t rows = t->dims[t->rank - 1], entries = t->rank == 3 ? t->dims[1] : 1;
    const size_t lists = t->dims[0] * entries;
    double *copy = attn_arena_array(arena, lists, rows * sizeof *copy);
    ATTN_TAKEN(copy, "positions", err);
    for (size_t r = 0; r < lists; r++) {
        double *to = copy + r * rows;
        attn_widen_f64(to, attn_dense_row(t, r), t->dtype, t->strides[t->rank - 1], rows);
        for (size_t i = 0; i < rows; i++) {
            if (to[i] == (double)ATTN_NO_POSITION)
                to[i] = -INFINITY;
            if (to[i] != -INFINITY && !(fabs(to[i]) <= ATTN_INPUT_FARTHEST))
                return refuse(t, where, r, i, to[i], err);
        }
    }
    *out = (attn_rotary_places){copy, entries * rows, entries > 1 ? rows : 0};
    return ATTN_OK;
}

attn_status attn_rotary_axes_new(const attn_rotary_axes *x, attn_arena *arena,
                                 attn_rotary_rule *out, attn_error *err) {
    const size_t axes = x->query_positions.dims[0];
    uint8_t *axis = attn_arena_zeroed(arena, out->pairs, sizeof *axis);
    ATTN_TAKEN(axis, "positions", err);
    for (size_t t = 0; t < out->pairs; t++) {
        const double number = attn_tensor_number(&x->pairs, t, 0);
        char path[64];
        snprintf(path, sizeof path, PAIRS "/%zu", t);
        if (number < 0 || number >= (double)axes)
            return attn_fail(err, ATTN_EVALUE, path, "expected axes from 0 to %zu, found %g",
                             axes - 1, number);
        axis[t] = (uint8_t)number;
    }
    out->axis = axis;
    out->axes = axes;
    ATTN_TRY(read_places(&x->query_positions, QUERIES, arena, &out->queries, err));
    return read_places(&x->key_positions, KEYS, arena, &out->keys, err);
}

double attn_rotary_axes_length(const attn_rotary_axes *x, const attn_rotary_rule *rule) {
    size_t count = 0;
    double last = -1;
    attn_tensor_count(&x->key_positions, &count);
    for (size_t i = 0; i < count; i++)
        last = fmax(last, rule->keys.at[i]);
    return last + 1;
}
