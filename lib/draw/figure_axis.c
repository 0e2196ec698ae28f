/* Labels of cells: which of them, how they are turned, how much room they take. Names are thinned
 * to every k-th where lines would touch, indices to round numbers. */
#include <math.h>
#include <stdio.h>

#include "draw/figure_parts.h"

#define LONGEST_ROW 150.0 /* px of a label */
#define LONGEST_COL 112.0
#define INDEX_PITCH 28.0 /* of two round indices, where not every cell has its own */
#define LINE_PITCH  13.0 /* least distance of two lines of text */
#define SIDE_GAP    7.0  /* between two labels side by side */
#define TURN_PITCH  18.5 /* columns at least this wide turn their labels by 45 degrees, not 90 */

static attn_status no_memory(attn_error *err) {
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the labels of a figure");
}

/* Labels stand `every` indices apart: each name, or every k-th cell's; round indices 1, 2, 5, 10, …
 * apart, which need not begin a cell when cells are pooled. */
static size_t thin(const attn_axis *axis, double cell, double need, double index_need) {
    static const size_t factors[] = {1, 2, 5};
    const double index = cell / (double)axis->step;
    if (axis->names)
        return axis->step * (size_t)fmax(1, ceil(need / cell - 1e-9));
    if (axis->step == 1 && need <= cell)
        return 1;
    const size_t every = (size_t)fmax(1, ceil(index_need / index - 1e-9));
    for (size_t i = 0, ten = 1;; i++, ten = i % 3 ? ten : ten * 10)
        if (factors[i % 3] * ten >= every)
            return factors[i % 3] * ten;
}

static attn_status make_labels(const attn_axis *axis, size_t every, double longest,
                               attn_arena *arena, attn_axis_plan *out, double *widest,
                               attn_error *err) {
    /* the last cell may be narrower: nothing behind its first index is known to exist */
    const size_t end = axis->cells ? axis->origin + (axis->cells - 1) * axis->step + 1 : 0;
    const size_t first = axis->names ? axis->origin : (axis->origin + every - 1) / every * every;
    const size_t n = first < end ? (end - first - 1) / every + 1 : 0;
    *widest = 0;
    out->count = n;
    out->thinned = every > axis->step || axis->step > 1;
    out->labels = attn_arena_zeroed(arena, n + 1, sizeof *out->labels);
    out->at = attn_arena_zeroed(arena, n + 1, sizeof *out->at);
    if (!out->labels || !out->at)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const size_t at = first + i * every;
        char index[24];
        snprintf(index, sizeof index, "%zu", at);
        bool named = axis->names && at < axis->count;
        out->labels[i] =
            attn_svg_label(arena, named ? axis->names[at] : index, ATTN_TICK_SIZE, longest);
        if (!out->labels[i])
            return no_memory(err);
        out->at[i] = axis->names ? (double)(at - axis->origin) / (double)axis->step + 0.5
                                 : ((double)(at - axis->origin) + 0.5) / (double)axis->step;
        *widest = fmax(*widest, attn_svg_width(out->labels[i], ATTN_TICK_SIZE, false));
    }
    return ATTN_OK;
}

attn_status attn_axis_plan_rows(const attn_axis *axis, double cell, attn_arena *arena,
                                attn_axis_plan *out, attn_error *err) {
    double widest;
    *out = (attn_axis_plan){.turn = 0};
    attn_status status = make_labels(axis, thin(axis, cell, LINE_PITCH, INDEX_PITCH), LONGEST_ROW,
                                     arena, out, &widest, err);
    out->room = widest + SIDE_GAP;
    return status;
}

/* Indices stand upright; their widest is the last one's. */
static double index_width(const attn_axis *axis) {
    char text[24];
    snprintf(text, sizeof text, "%zu",
             axis->origin + (axis->cells ? axis->cells - 1 : 0) * axis->step);
    return attn_svg_width(text, ATTN_TICK_SIZE, false);
}

/* The labels that stand with a turn of `degrees`. */
static attn_status turned(const attn_axis *axis, double cell, int degrees, double widest,
                          attn_arena *arena, attn_axis_plan *out, attn_error *err) {
    const double angle = degrees * (3.14159265358979323846 / 180);
    double need = fmin(widest + SIDE_GAP, degrees ? LINE_PITCH / sin(angle) : INFINITY);
    const size_t every = thin(axis, cell, need, fmax(need, INDEX_PITCH));
    attn_status status = make_labels(axis, every, LONGEST_COL, arena, out, &widest, err);
    out->turn = -degrees;
    out->room = SIDE_GAP + widest * sin(angle) + ATTN_TICK_SIZE * (degrees == 90 ? 0.2 : 1);
    for (size_t i = 0; !status && degrees && i < out->count; i++) {
        double centre = out->at[i] * cell;
        double reach = attn_svg_width(out->labels[i], ATTN_TICK_SIZE, false) * cos(angle);
        out->overhang = fmax(out->overhang, reach + ATTN_TICK_SIZE / 2 * sin(angle) - centre);
    }
    return status;
}

attn_status attn_axis_plan_cols(const attn_axis *axis, double cell, int turn, attn_arena *arena,
                                attn_axis_plan *out, attn_error *err) {
    double widest;
    *out = (attn_axis_plan){.turn = 0};
    if (!axis->names) {
        return turned(axis, cell, turn < 0 ? 0 : turn, index_width(axis), arena, out, err);
    }
    /* Upright needs the width of all, so all are made; there are few when it can succeed. */
    if (turn < 0 && cell < TURN_PITCH)
        return turned(axis, cell, 90, LONGEST_COL, arena, out, err);
    attn_status status = make_labels(axis, axis->step, LONGEST_COL, arena, out, &widest, err);
    if (status)
        return status;
    int fits = widest + SIDE_GAP <= cell ? 0 : 45;
    return turned(axis, cell, turn < 0 ? fits : turn, widest, arena, out, err);
}
