/* Tables of positions for callers (attn/positions.h). */
#include <attn/positions.h>

#include <attn/rng.h>
#include <math.h>

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

attn_status attn_sinusoidal(double *table, size_t length, size_t width, attn_encoding_layout layout,
                            const attn_control *control, attn_error *err) {
    if ((unsigned)layout > ATTN_ENCODING_HALVES)
        return attn_fail(err, ATTN_EARG, "layout", "there is no layout of the number %d",
                         (int)layout);
    if (width % 2)
        return attn_fail(err, ATTN_EARG, "width",
                         "sinusoidal positions need an even width (pairs of sine and cosine), "
                         "found %zu",
                         width);
    for (size_t p = 0; p < length; p++) {
        ATTN_TRY(check_control(p, width, control, err));
        attn_sinusoidal_row(table + p * width, (double)p, width, layout);
    }
    return ATTN_OK;
}

attn_status attn_learned(double *table, size_t length, size_t width, double std, uint64_t seed,
                         const attn_control *control, attn_error *err) {
    for (size_t p = 0; p < length; p++) {
        ATTN_TRY(check_control(p, width, control, err));
        for (size_t n = p * width; n < (p + 1) * width; n++)
            table[n] = std * attn_rng_normal(seed, n);
    }
    return ATTN_OK;
}

attn_status attn_position_table(const attn_position *position, size_t H, size_t queries,
                                size_t keys, int64_t offset, const attn_control *control,
                                attn_arena *arena, double *table, attn_error *err) {
    if (position->kind != ATTN_POSITION_ALIBI && position->kind != ATTN_POSITION_T5 &&
        position->kind != ATTN_POSITION_RELATIVE)
        return attn_fail(err, ATTN_EARG, "kind", "alibi, t5 and relative positions are biases");
    attn_attention a = {.in = {.position = *position}, .dims = {.Hq = H}};
    ATTN_TRY(attn_position_new(&a, arena, err));
    for (size_t r = 0; r < H * queries; r++) {
        ATTN_TRY(check_control(r, keys, control, err));
        attn_position_biases(&a.rule, r / queries, -(int64_t)(r % queries) - offset, keys,
                             table + r * keys);
    }
    return ATTN_OK;
}

attn_status attn_rotary_table(const attn_position *position, size_t length, double *cosines,
                              double *sines, const attn_control *control, attn_arena *arena,
                              attn_error *err) {
    attn_rotary_rule rule;
    if (position->dims < 1 || position->dims % 2)
        return attn_fail(err, ATTN_EARG, "dims",
                         "rotary positions turn pairs of coordinates: expected an even number "
                         "above 0, found %lld",
                         (long long)position->dims);
    attn_position p = *position;
    p.rotary = ATTN_ROTARY_HALVES; /* tables have no coordinates */
    p.start = 0;
    ATTN_TRY(attn_rotary_new(&p, (size_t)p.dims, (double)length, arena, &rule, err));
    for (size_t row = 0; row < length; row++) {
        ATTN_TRY(check_control(row, 2 * rule.pairs, control, err));
        attn_rotary_angles(&rule, &(double){(double)row}, cosines + row * rule.pairs,
                           sines + row * rule.pairs);
    }
    return ATTN_OK;
}
