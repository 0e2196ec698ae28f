/* Tables of positions for callers (attn/positions.h). */
#include <attn/positions.h>

#include <attn/rng.h>
#include <math.h>
#include <string.h>

#include "attention/resolved.h"
#include "base/try.h"

void attn_sinusoidal_row(double *row, double position, size_t width, attn_encoding_layout layout) {
    for (size_t i = 0; i < width / 2; i++) {
        const double angle = position * pow(10000, -2.0 * (double)i / (double)width);
        row[layout == ATTN_ENCODING_HALVES ? i : 2 * i] = sin(angle);
        row[layout == ATTN_ENCODING_HALVES ? width / 2 + i : 2 * i + 1] = cos(angle);
    }
}

/* Checks the control about once in a thousand numbers. Must be called before row `row` of a table
 * is computed. */
static attn_status check_control(size_t row, size_t width, const attn_control *control,
                                 attn_error *err) {
    const size_t rows = width < 1024 ? 1024 / (width + 1) + 1 : 1;
    return row % rows ? ATTN_OK : attn_control_check(control, err);
}

static int64_t position_of(const int64_t *positions, size_t row) {
    return positions ? positions[row] : (int64_t)row;
}

attn_status attn_sinusoidal(double *table, const int64_t *positions, size_t length, size_t width,
                            attn_encoding_layout layout, const attn_control *control,
                            attn_error *err) {
    if ((unsigned)layout > ATTN_ENCODING_HALVES)
        return attn_fail(err, ATTN_EARG, "layout", "there is no layout of the number %d",
                         (int)layout);
    if (width % 2)
        return attn_fail(err, ATTN_EARG, "width",
                         "sinusoidal positions need an even width (pairs of sine and cosine), "
                         "found %zu",
                         width);
    for (size_t r = 0; r < length; r++) {
        const int64_t p = position_of(positions, r);
        ATTN_TRY(check_control(r, width, control, err));
        if (p == ATTN_NO_POSITION)
            memset(table + r * width, 0, width * sizeof *table);
        else
            attn_sinusoidal_row(table + r * width, (double)p, width, layout);
    }
    return ATTN_OK;
}

attn_status attn_learned(double *table, const int64_t *positions, size_t length, size_t width,
                         double std, uint64_t seed, const attn_control *control, attn_error *err) {
    for (size_t r = 0; r < length; r++) {
        const int64_t p = position_of(positions, r);
        double *row = table + r * width;
        ATTN_TRY(check_control(r, width, control, err));
        for (size_t i = 0; i < width; i++)
            row[i] =
                p == ATTN_NO_POSITION ? 0 : std * attn_rng_normal(seed, (uint64_t)p * width + i);
    }
    return ATTN_OK;
}

/* Computes the biases of query i for all keys. */
static void fill_biases(const attn_position_rule *rule, size_t h, const int64_t *query_positions,
                        const int64_t *key_positions, size_t i, size_t keys, int64_t offset,
                        double *to) {
    const int64_t p = query_positions ? query_positions[i] : (int64_t)i + offset;
    if (!query_positions && !key_positions) {
        attn_position_biases(rule, h, -p, keys, to);
        return;
    }
    for (size_t j = 0; j < keys; j++) {
        const int64_t distance = attn_distance(p, position_of(key_positions, j));
        to[j] = distance == ATTN_NO_POSITION ? 0 : attn_position_bias_at(rule, h, distance);
    }
}

attn_status attn_position_table(const attn_position *position, size_t H,
                                const int64_t *query_positions, const int64_t *key_positions,
                                size_t queries, size_t keys, int64_t offset,
                                const attn_control *control, attn_arena *arena, double *table,
                                attn_error *err) {
    if (position->kind != ATTN_POSITION_ALIBI && position->kind != ATTN_POSITION_T5 &&
        position->kind != ATTN_POSITION_RELATIVE)
        return attn_fail(err, ATTN_EARG, "kind", "alibi, t5 and relative positions are biases");
    attn_attention a = {.in = {.position = *position}, .dims = {.Hq = H}};
    ATTN_TRY(attn_position_new(&a, arena, err));
    for (size_t r = 0; r < H * queries; r++) {
        ATTN_TRY(check_control(r, keys, control, err));
        fill_biases(&a.rule, r / queries, query_positions, key_positions, r % queries, keys, offset,
                    table + r * keys);
    }
    return ATTN_OK;
}

/* Compiles the tables of vectors of a position for one head. */
static attn_status new_vectors(const attn_position *position, size_t head, attn_arena *arena,
                               attn_attention *a, attn_error *err) {
    const attn_tensor *t = position->key_table.rank ? &position->key_table : &position->query_table;
    if (position->kind != ATTN_POSITION_SHAW && position->kind != ATTN_POSITION_DISENTANGLED)
        return attn_fail(err, ATTN_EARG, "kind",
                         "shaw and disentangled positions have vectors by distance");
    *a = (attn_attention){.in = {.position = *position}, .dims = {.Hq = 1}};
    a->in.position.value_table = (attn_tensor){0};
    if (t->rank == 3)
        a->dims.Hq = t->dims[0];
    if (head >= a->dims.Hq)
        return attn_fail(err, ATTN_EARG, "head",
                         "expected one of the %zu heads of the table, found %zu", a->dims.Hq, head);
    a->dims.score_width = t->rank ? t->dims[t->rank - 1] : 0;
    attn_vectors_resolve(&a->in.position, &a->dims);
    return attn_position_new(a, arena, err);
}

attn_status attn_position_vectors(const attn_position *position, size_t head,
                                  const int64_t *query_positions, const int64_t *key_positions,
                                  size_t queries, size_t keys, int64_t offset,
                                  const attn_control *control, attn_arena *arena, double *table,
                                  attn_error *err) {
    attn_attention a;
    ATTN_TRY(new_vectors(position, head, arena, &a, err));
    const attn_vector_table *from = a.rule.keys.rows ? &a.rule.keys : &a.rule.queries;
    const size_t E = from->width;
    for (size_t i = 0; i < queries; i++) {
        const int64_t p = query_positions ? query_positions[i] : (int64_t)i + offset;
        for (size_t j = 0; j < keys; j++, table += E) {
            const int64_t distance = attn_distance(p, position_of(key_positions, j));
            const size_t row = attn_position_row(&a.rule, distance);
            ATTN_TRY(check_control(j, E, control, err));
            if (row == SIZE_MAX)
                memset(table, 0, E * sizeof *table);
            else
                memcpy(table, attn_vector_at(from, head, row), E * sizeof *table);
        }
    }
    return ATTN_OK;
}

/* Returns the largest position + 1, or 0 if there is none. */
static double length_of(const int64_t *positions, size_t length) {
    int64_t last = -1;
    for (size_t r = 0; positions && r < length; r++)
        last = positions[r] > last ? positions[r] : last;
    return positions ? (double)last + 1 : (double)length;
}

/* Sets at[x] to the position of row r on axis x, or, without axes, at[0] to the position of the
 * row. -infinity: it has none. */
static void row_of(const attn_rotary_rule *rule, const int64_t *positions, size_t r, double *at) {
    const int64_t p = position_of(positions, r);
    at[0] = p == ATTN_NO_POSITION ? -INFINITY : (double)p;
    for (size_t x = 0; x < rule->axes; x++)
        at[x] = rule->queries.at[x * rule->queries.axis + r];
}

attn_status attn_rotary_table(const attn_position *position, const int64_t *positions,
                              size_t length, double *cosines, double *sines,
                              const attn_control *control, attn_arena *arena, attn_error *err) {
    attn_rotary_rule rule;
    if (position->dims < 1 || position->dims % 2)
        return attn_fail(err, ATTN_EARG, "dims",
                         "rotary positions turn pairs of coordinates: expected an even number "
                         "above 0, found %lld",
                         (long long)position->dims);
    attn_position p = *position;
    p.rotary = ATTN_ROTARY_HALVES; /* a table has no coordinates, so any pairing will do */
    p.start = 0;
    if (p.axes.pairs.rank)
        ATTN_TRY(attn_rotary_axes_check(&p.axes, length, length, 1, err));
    ATTN_TRY(attn_rotary_new(&p, (size_t)p.dims, length_of(positions, length), arena, &rule, err));
    for (size_t row = 0; row < length; row++) {
        double at[ATTN_ROTARY_AXES], *c = cosines + row * rule.pairs, *s = sines + row * rule.pairs;
        ATTN_TRY(check_control(row, 2 * rule.pairs, control, err));
        row_of(&rule, positions, row, at);
        attn_rotary_angles(&rule, at, c, s);
        for (size_t t = 0; t < rule.pairs; t++)
            if (isinf(c[t]))
                c[t] = 1, s[t] = 0; /* this pair does not turn */
    }
    return ATTN_OK;
}
