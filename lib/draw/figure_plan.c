/* The first step of the plan of a heatmap figure: transposes the cells if options->transpose, marks
 * hidden and NaN cells, and chooses the colour scale and the format of the values written into
 * cells. The functions for ticks and axis labels come first in this file. figure_layout.c uses
 * those for labels, and figure_lines.c those for ticks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "draw/figure_parts.h"
#include "tokens/token_names.h"

/* --- numbers along an axis --- */

static double round_step(double rough) {
    double ten = pow(10, floor(log10(rough))), part = rough / ten;
    return ten * (part <= 1.0001 ? 1 : part <= 2.0001 ? 2 : part <= 5.0001 ? 5 : 10);
}

size_t attn_figure_ticks(double low, double high, size_t most, double ticks[ATTN_TICKS]) {
    most = most < 2 ? 2 : most > ATTN_TICKS ? ATTN_TICKS : most;
    double span = high - low;
    if (!(span > 0) || !isfinite(span)) {
        ticks[0] = isfinite(low) ? low : 0;
        return 1;
    }
    double step = round_step(span / (double)(most - 1)), slack = step * 1e-6;
    double first = ceil((low - slack) / step);
    size_t n = 0;
    for (; n < most && (first + (double)n) * step <= high + slack; n++)
        ticks[n] = (first + (double)n) * step + 0.0;
    if (n == 0)
        ticks[n++] = low;
    return n;
}

void attn_figure_tick_text(double value, double step, char text[32]) {
    double size = fmax(fabs(value), fabs(step));
    if (fabs(value) < fabs(step) * 1e-9)
        value = 0;
    if (size > 0 && (size < 1e-4 || size >= 1e6)) {
        snprintf(text, 32, "%.3g", value);
        return;
    }
    int digits = step > 0 ? (int)-floor(log10(fabs(step) * 1.0001)) : 2;
    snprintf(text, 32, "%.*f", digits < 0 ? 0 : digits, value + 0.0);
}

/* --- labels of cells along one side. Labels must not touch. If the labels of all cells would
 * touch, only every n-th name is shown, or only indices that are multiples of 1, 2 or 5 times a
 * power of ten. --- */

#define LONGEST_ROW 150.0 /* longest row label, pixels; a longer one is cut */
#define LONGEST_COL 112.0 /* longest column label, pixels; a longer one is cut */
/* least pixels between two labels that are indices, if some cells have no label */
#define INDEX_PITCH 28.0
#define LINE_PITCH  13.0 /* least pixels between the base lines of two labels */
/* least pixels between two labels in a line, and between a label and its axis */
#define SIDE_GAP 7.0
/* columns of at least this many pixels turn long labels by 45 degrees, narrower ones by 90 */
#define TURN_PITCH 18.5

/* Returns the distance between two labelled rows or columns of the matrix. `cell` is the size of a
 * cell along the axis in pixels. `need` and `index_need` are the least distances in pixels between
 * two labels that are names or indices. Names label every cell or every n-th cell. Indices are 1,
 * 2, 5, 10, … apart, so in pooled heatmaps a labelled index need not be the first of its cell. */
static size_t label_distance(const attn_axis *axis, double cell, double need, double index_need) {
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
    /* If pooled, the last cell may cover fewer rows than the others, so only its first row is sure
     * to exist. */
    const size_t end = axis->cells ? axis->origin + (axis->cells - 1) * axis->step + 1 : 0;
    const size_t first = axis->names ? axis->origin : (axis->origin + every - 1) / every * every;
    const size_t n = first < end ? (end - first - 1) / every + 1 : 0;
    const attn_token_marks marks =
        axis->names ? attn_token_marks_of(axis->names, axis->count) : ATTN_NO_MARKS;
    *widest = 0;
    out->count = n;
    out->thinned = every > axis->step || axis->step > 1;
    out->labels = attn_arena_zeroed(arena, n + 1, sizeof *out->labels);
    out->at = attn_arena_zeroed(arena, n + 1, sizeof *out->at);
    ATTN_TAKEN(out->labels && out->at, "the labels of a figure", err);
    for (size_t i = 0; i < n; i++) {
        const size_t at = first + i * every;
        char index[24];
        snprintf(index, sizeof index, "%zu", at);
        const char *name = axis->names && at < axis->count
                               ? attn_token_name(marks, axis->names, axis->count, at, arena)
                               : index;
        out->labels[i] = attn_svg_label(arena, name, ATTN_TICK_SIZE, longest);
        ATTN_TAKEN(out->labels[i], "the labels of a figure", err);
        out->at[i] = axis->names ? (double)(at - axis->origin) / (double)axis->step + 0.5
                                 : ((double)(at - axis->origin) + 0.5) / (double)axis->step;
        *widest = fmax(*widest, attn_svg_width(out->labels[i], ATTN_TICK_SIZE, false));
    }
    return ATTN_OK;
}

attn_status attn_axis_rows(const attn_axis *axis, double cell, attn_arena *arena,
                           attn_axis_plan *out, attn_error *err) {
    double widest;
    *out = (attn_axis_plan){.turn = 0};
    attn_status status = make_labels(axis, label_distance(axis, cell, LINE_PITCH, INDEX_PITCH),
                                     LONGEST_ROW, arena, out, &widest, err);
    out->room = widest + SIDE_GAP;
    return status;
}

/* Returns the width in pixels of the last index, which has the most digits. */
static double index_width(const attn_axis *axis) {
    char text[24];
    snprintf(text, sizeof text, "%zu",
             axis->origin + (axis->cells ? axis->cells - 1 : 0) * axis->step);
    return attn_svg_width(text, ATTN_TICK_SIZE, false);
}

/* Makes the column labels, turned by `degrees` (0 … 90). `widest` is the width of the widest label
 * in pixels. */
static attn_status make_turned_labels(const attn_axis *axis, double cell, int degrees,
                                      double widest, attn_arena *arena, attn_axis_plan *out,
                                      attn_error *err) {
    const double angle = degrees * (3.14159265358979323846 / 180);
    double need = fmin(widest + SIDE_GAP, degrees ? LINE_PITCH / sin(angle) : INFINITY);
    const size_t every = label_distance(axis, cell, need, fmax(need, INDEX_PITCH));
    attn_status status = make_labels(axis, every, LONGEST_COL, arena, out, &widest, err);
    out->turn = -degrees;
    out->room = SIDE_GAP + widest * sin(angle) + ATTN_TICK_SIZE * (degrees == 90 ? 0.2 : 1);
    for (size_t i = 0; !status && degrees && i < out->count; i++) {
        double centre = out->at[i] * cell;
        double extent = attn_svg_width(out->labels[i], ATTN_TICK_SIZE, false) * cos(angle);
        out->overhang = fmax(out->overhang, extent + ATTN_TICK_SIZE / 2 * sin(angle) - centre);
    }
    return status;
}

attn_status attn_axis_cols(const attn_axis *axis, double cell, int turn, attn_arena *arena,
                           attn_axis_plan *out, attn_error *err) {
    double widest;
    *out = (attn_axis_plan){.turn = 0};
    if (!axis->names)
        return make_turned_labels(axis, cell, turn < 0 ? 0 : turn, index_width(axis), arena, out,
                                  err);
    if (turn < 0 && cell < TURN_PITCH)
        return make_turned_labels(axis, cell, 90, LONGEST_COL, arena, out, err);
    /* Makes all labels once, to measure the widest. Columns that are this wide are few. */
    ATTN_TRY(make_labels(axis, axis->step, LONGEST_COL, arena, out, &widest, err));
    int fits = widest + SIDE_GAP <= cell ? 0 : 45;
    return make_turned_labels(axis, cell, turn < 0 ? fits : turn, widest, arena, out, err);
}

/* --- data --- */

/* Values count as equal if they differ by at most this share of the largest magnitude. So the
 * float32 nearest to 0.1 counts as 0.1. */
#define EQUAL 5e-7

/* Sets state[i] to ATTN_CELL_HIDDEN, ATTN_CELL_NAN or ATTN_CELL_SEEN for each cell of the heatmap,
 * in the heatmap's own order (before transposing). */
static void mark_cells(const attn_heatmap *map, const float *cells, uint8_t *state) {
    const size_t C = map->shape[1], n = map->shape[0] * C;
    for (size_t i = 0; i < n; i++)
        state[i] = isnan(cells[i]) ? ATTN_CELL_NAN : ATTN_CELL_SEEN;
    for (size_t i = 0; i < map->hidden_count; i++) {
        const attn_hidden_run *run = &map->hidden[i];
        memset(state + run->row * C + run->from, ATTN_CELL_HIDDEN, run->to - run->from);
    }
}

static attn_status transpose_panel(attn_heat_plan *plan, const attn_heatmap *map, attn_panel *panel,
                                   attn_error *err) {
    const size_t R = map->shape[0], C = map->shape[1];
    float *values = attn_arena_zeroed(plan->page.arena, R * C, sizeof *values);
    uint8_t *state = attn_arena_zeroed(plan->page.arena, R * C, 1);
    ATTN_TAKEN(values && state, "the cells of a figure", err);
    for (size_t r = 0; r < R; r++)
        for (size_t c = 0; c < C; c++) {
            values[c * R + r] = panel->values[r * C + c];
            state[c * R + r] = panel->state[r * C + c];
        }
    panel->values = values;
    panel->state = state;
    return ATTN_OK;
}

/* Sets the labels of panel i. If all panels share the labels of the figure, only panel 0 gets
 * them. */
static void name_axes(const attn_heat_plan *plan, const attn_figure_heat *data, size_t i,
                      attn_panel *panel) {
    const bool over = plan->page.options->transpose;
    const attn_heatmap *map = &data->maps[i];
    const attn_figure_names all = {data->row_labels, data->col_labels, data->row_count,
                                   data->col_count};
    const attn_figure_names *names = data->own ? &data->own[i] : &all;
    attn_axis rows = {names->rows, names->row_count, map->shape[0], map->origin[0], map->step[0]};
    attn_axis cols = {names->cols, names->col_count, map->shape[1], map->origin[1], map->step[1]};
    if (i > 0 && !data->own)
        return;
    panel->rows = over ? cols : rows;
    panel->cols = over ? rows : cols;
}

static attn_status read_panel(attn_heat_plan *plan, const attn_figure_heat *data, size_t i,
                              attn_error *err) {
    const attn_heatmap *map = &data->maps[i], *first = &data->maps[0];
    attn_panel *panel = &plan->panels[i];
    if (memcmp(map->shape, first->shape, sizeof map->shape) != 0)
        return attn_fail(err, ATTN_ESHAPE, "",
                         "all panels of a figure have one grid: expected %zu x %zu, found %zu x "
                         "%zu at panel %zu",
                         first->shape[0], first->shape[1], map->shape[0], map->shape[1], i);
    const float *cells = map->max ? map->max : map->mean;
    uint8_t *state = attn_arena_zeroed(plan->page.arena, map->shape[0] * map->shape[1] + 1, 1);
    ATTN_TAKEN(state, "the cells of a figure", err);
    mark_cells(map, cells, state);
    const char *title = data->titles ? data->titles[i] : NULL;
    *panel = (attn_panel){.values = cells, .state = state, .title = title && *title ? title : NULL};
    name_axes(plan, data, i, panel);
    return plan->page.options->transpose ? transpose_panel(plan, map, panel, err) : ATTN_OK;
}

static void read_panel_range(attn_heat_plan *plan, attn_panel *panel) {
    panel->low = INFINITY;
    panel->high = -INFINITY;
    for (size_t i = 0; i < plan->R * plan->C; i++) {
        plan->hidden = plan->hidden || panel->state[i] == ATTN_CELL_HIDDEN;
        plan->nan = plan->nan || panel->state[i] == ATTN_CELL_NAN;
        if (panel->state[i] == ATTN_CELL_SEEN && isfinite(panel->values[i])) {
            panel->low = fmin(panel->low, (double)panel->values[i]);
            panel->high = fmax(panel->high, (double)panel->values[i]);
        }
    }
}

static void read_range(attn_heat_plan *plan) {
    plan->low = INFINITY;
    plan->high = -INFINITY;
    for (size_t p = 0; p < plan->count; p++) {
        attn_panel *panel = &plan->panels[p];
        read_panel_range(plan, panel);
        plan->low = fmin(plan->low, panel->low);
        plan->high = fmax(plan->high, panel->high);
        if (panel->low > panel->high)
            panel->low = panel->high = 0;
    }
    if (plan->low > plan->high)
        plan->low = plan->high = 0;
}

/* Makes the colour scale of values from `low` to `high`. */
static attn_status make_scale(const attn_figure_options *o, double low, double high,
                              attn_draw_scale *s, attn_error *err) {
    s->map = o->colormap;
    if (s->map == ATTN_COLORMAP_AUTO)
        s->map = low < 0 ? ATTN_COLORMAP_RDBU : ATTN_COLORMAP_BLUES;
    s->transform = o->transform;
    s->theme = o->theme;
    const bool diverging = s->map == ATTN_COLORMAP_RDBU;
    const double most = fmax(fabs(low), fabs(high));
    s->low = diverging ? -most : fmin(low, 0);
    s->high = diverging ? most : high;
    if (!isnan(o->vmin))
        s->low = o->vmin;
    if (!isnan(o->vmax))
        s->high = o->vmax;
    if (!isnan(o->vmin) && !isnan(o->vmax) && o->vmin >= o->vmax)
        return attn_fail(err, ATTN_EARG, "vmin", "expected vmin below vmax, found %g and %g",
                         o->vmin, o->vmax);
    if (s->high <= s->low) { /* all values are equal, or a given bound excludes all of them */
        if (isnan(o->vmax))
            s->high = s->low + 1;
        else
            s->low = s->high - 1;
    }
    return ATTN_OK;
}

/* Makes the colour scales of the figure and of its panels. */
static attn_status make_scales(attn_heat_plan *plan, attn_error *err) {
    const attn_figure_options *o = plan->page.options;
    attn_status status = make_scale(o, plan->low, plan->high, &plan->scale, err);
    /* Compared as float32, because weights are: a weight of 0.1 does not lie above a bound of 0.1,
     * although the float32 nearest to 0.1 is larger than 0.1. */
    plan->below = (float)plan->low < (float)plan->scale.low;
    plan->above = (float)plan->high > (float)plan->scale.high;
    for (size_t p = 0; p < plan->count && status == ATTN_OK; p++) {
        attn_panel *panel = &plan->panels[p];
        panel->scale = plan->scale;
        if (o->own_scales)
            status = make_scale(o, panel->low, panel->high, &panel->scale, err);
    }
    return status;
}

/* Panels with fewer columns than this have no room for the range in their title. Their cells are
 * large enough to show values instead. */
enum { RANGED_COLUMNS = 12 };

/* Appends the range of each panel's values to its title. */
static attn_status name_ranges(attn_heat_plan *plan, attn_error *err) {
    const bool ranged = plan->page.options->own_scales && plan->C >= RANGED_COLUMNS;
    for (size_t p = 0; p < plan->count && ranged; p++) {
        attn_panel *panel = &plan->panels[p];
        attn_text t = {.arena = plan->page.arena};
        attn_text_add(&t, "%s%s%.3g to %.3g", panel->title ? panel->title : "",
                      panel->title ? ": " : "", panel->low + 0.0, panel->high + 0.0);
        ATTN_TAKEN(!t.failed, "the titles of a figure", err);
        panel->title = t.data;
    }
    return ATTN_OK;
}

/* --- values as text --- */

static double round_to_digits(double v, int digits) {
    const double unit = pow(10, digits);
    return nearbyint(v * unit) / unit;
}

/* Chooses the format of the values in cells by the largest magnitude. From 1000 on and below 0.01:
 * two significant digits (".2g"). From 100 on: no decimals. Otherwise: the smallest number of
 * decimals that shows all values exactly, but at most 2. */
static void choose_format(attn_heat_plan *plan) {
    const double most = fmax(fabs(plan->low), fabs(plan->high));
    int digits = 0;
    if (most >= 1000 || (most > 0 && most < 0.01)) {
        snprintf(plan->format, sizeof plan->format, ".2g");
        return;
    }
    for (size_t p = 0; p < plan->count; p++)
        for (size_t i = 0; i < plan->R * plan->C && digits < 2; i++) {
            const attn_panel *panel = &plan->panels[p];
            const double v = panel->values[i];
            while (panel->state[i] == ATTN_CELL_SEEN && isfinite(v) && digits < 2 &&
                   fabs(v - round_to_digits(v, digits)) > EQUAL * most)
                digits++;
        }
    snprintf(plan->format, sizeof plan->format, ".%df", most >= 100 ? 0 : digits);
}

void attn_heat_value_text(const attn_heat_plan *plan, double value, char text[32]) {
    const int digits = (plan->format[1] - '0') & 7; /* 0 … 6 */
    const char kind = plan->format[2];
    if (value == 0 && !plan->page.options->annotate)
        snprintf(text, 32, "0"); /* an exact 0 is written "0" instead of "0.00" */
    else if (kind == '%')
        snprintf(text, 32, "%.*f%%", digits, 100 * value);
    else if (kind == 'f')
        snprintf(text, 32, "%.*f", digits, value);
    else if (kind == 'e')
        snprintf(text, 32, "%.*e", digits, value);
    else
        snprintf(text, 32, "%.*g", digits, value);
    /* a number that rounds to zero loses its minus sign */
    if (text[0] == '-' && !strpbrk(text, "123456789"))
        memmove(text, text + 1, strlen(text));
}

bool attn_figure_format_ok(const char *f) {
    return f[0] == '.' && f[1] >= '0' && f[1] <= '6' && f[2] && strchr("feg%", f[2]) && !f[3];
}

static attn_status choose_values(attn_heat_plan *plan, attn_error *err) {
    const char *annotate = plan->page.options->annotate;
    if (annotate && *annotate && !attn_figure_format_ok(annotate))
        return attn_fail(err, ATTN_EARG, "annotate",
                         "expected a format such as .2f, .1%% or .3g, found %.20s", annotate);
    if (plan->page.options->marks || (annotate && !*annotate))
        return ATTN_OK;
    if (annotate)
        snprintf(plan->format, sizeof plan->format, "%.7s", annotate);
    else
        choose_format(plan);
    return ATTN_OK;
}

attn_status attn_heat_plan_data(attn_heat_plan *plan, const attn_figure_heat *data,
                                attn_error *err) {
    const attn_heatmap *first = &data->maps[0];
    const bool over = plan->page.options->transpose;
    plan->own = data->own != NULL;
    plan->count = data->count;
    plan->R = first->shape[over];
    plan->C = first->shape[!over];
    plan->largest = first->max != NULL;
    plan->step[0] = first->step[over];
    plan->step[1] = first->step[!over];
    plan->pooled = plan->step[0] > 1 || plan->step[1] > 1;
    plan->panels = attn_arena_zeroed(plan->page.arena, data->count, sizeof *plan->panels);
    ATTN_TAKEN(plan->panels, "the cells of a figure", err);
    for (size_t i = 0; i < data->count; i++)
        ATTN_TRY(read_panel(plan, data, i, err));
    read_range(plan);
    ATTN_TRY(make_scales(plan, err));
    ATTN_TRY(name_ranges(plan, err));
    return choose_values(plan, err);
}
