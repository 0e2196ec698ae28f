/* Heatmap data -> panels: cells in the direction they are drawn in, what is hidden, the range, the
 * scale of colours and the format of values. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw/figure_parts.h"

#define EQUAL 5e-7 /* of the largest value: float32 that was written with few digits */

static attn_status no_memory(attn_error *err) {
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the cells of a figure");
}

/* ATTN_CELL_* of each cell of the map as it is. */
static void mark(const attn_heatmap *map, const float *cells, uint8_t *state) {
    const size_t C = map->shape[1], n = map->shape[0] * C;
    for (size_t i = 0; i < n; i++)
        state[i] = isnan(cells[i]) ? ATTN_CELL_NAN : ATTN_CELL_SEEN;
    for (size_t i = 0; i < map->hidden_count; i++) {
        const attn_hidden_run *run = &map->hidden[i];
        memset(state + run->row * C + run->from, ATTN_CELL_HIDDEN, run->to - run->from);
    }
}

static attn_status turn_over(attn_heat_plan *plan, const attn_heatmap *map, attn_panel *panel,
                             attn_error *err) {
    const size_t R = map->shape[0], C = map->shape[1];
    float *values = attn_arena_zeroed(plan->arena, R * C, sizeof *values);
    uint8_t *state = attn_arena_zeroed(plan->arena, R * C, 1);
    if (!values || !state)
        return no_memory(err);
    for (size_t r = 0; r < R; r++)
        for (size_t c = 0; c < C; c++) {
            values[c * R + r] = panel->values[r * C + c];
            state[c * R + r] = panel->state[r * C + c];
        }
    *panel = (attn_panel){values, state, panel->title};
    return ATTN_OK;
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
    uint8_t *state = attn_arena_zeroed(plan->arena, map->shape[0] * map->shape[1] + 1, 1);
    if (!state)
        return no_memory(err);
    mark(map, cells, state);
    const char *title = data->titles ? data->titles[i] : NULL;
    *panel = (attn_panel){cells, state, title && *title ? title : NULL};
    return plan->options->transpose ? turn_over(plan, map, panel, err) : ATTN_OK;
}

static void read_range(attn_heat_plan *plan) {
    plan->low = INFINITY;
    plan->high = -INFINITY;
    for (size_t p = 0; p < plan->count; p++)
        for (size_t i = 0; i < plan->R * plan->C; i++) {
            const attn_panel *panel = &plan->panels[p];
            plan->hidden = plan->hidden || panel->state[i] == ATTN_CELL_HIDDEN;
            plan->nan = plan->nan || panel->state[i] == ATTN_CELL_NAN;
            if (panel->state[i] == ATTN_CELL_SEEN && isfinite(panel->values[i])) {
                plan->low = fmin(plan->low, (double)panel->values[i]);
                plan->high = fmax(plan->high, (double)panel->values[i]);
            }
        }
    if (plan->low > plan->high)
        plan->low = plan->high = 0;
}

static attn_status make_scale(attn_heat_plan *plan, attn_error *err) {
    const attn_figure_options *o = plan->options;
    attn_draw_scale *s = &plan->scale;
    s->map = o->colormap;
    if (s->map == ATTN_COLORMAP_AUTO)
        s->map = plan->low < 0 ? ATTN_COLORMAP_RDBU : ATTN_COLORMAP_BLUES;
    s->transform = o->transform;
    s->theme = o->theme;
    const bool diverging = s->map == ATTN_COLORMAP_RDBU;
    const double most = fmax(fabs(plan->low), fabs(plan->high));
    s->low = diverging ? -most : fmin(plan->low, 0);
    s->high = diverging ? most : plan->high;
    if (!isnan(o->vmin))
        s->low = o->vmin;
    if (!isnan(o->vmax))
        s->high = o->vmax;
    if (!isnan(o->vmin) && !isnan(o->vmax) && o->vmin >= o->vmax)
        return attn_fail(err, ATTN_EARG, "vmin", "expected vmin below vmax, found %g and %g",
                         o->vmin, o->vmax);
    if (s->high <= s->low) { /* one value, or a bound beyond all of them */
        if (isnan(o->vmax))
            s->high = s->low + 1;
        else
            s->low = s->high - 1;
    }
    plan->below = plan->low < s->low;
    plan->above = plan->high > s->high;
    return ATTN_OK;
}

/* --- values as text --- */

static double rounded(double v, int digits) {
    const double unit = pow(10, digits);
    return nearbyint(v * unit) / unit;
}

/* Decimals that show all values as they are, at most 2; or what keeps three digits. */
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
                   fabs(v - rounded(v, digits)) > EQUAL * most)
                digits++;
        }
    snprintf(plan->format, sizeof plan->format, ".%df", most >= 100 ? 0 : digits);
}

void attn_heat_value_text(const attn_heat_plan *plan, double value, char text[32]) {
    const int digits = (plan->format[1] - '0') & 7; /* 0 … 6 */
    const char kind = plan->format[2];
    if (value == 0 && !plan->options->annotate)
        snprintf(text, 32, "0"); /* exactly: less ink than 0.00 */
    else if (kind == '%')
        snprintf(text, 32, "%.*f%%", digits, 100 * value);
    else if (kind == 'f')
        snprintf(text, 32, "%.*f", digits, value);
    else if (kind == 'e')
        snprintf(text, 32, "%.*e", digits, value);
    else
        snprintf(text, 32, "%.*g", digits, value);
    /* what rounds to zero has no sign */
    if (text[0] == '-' && !strpbrk(text, "123456789"))
        memmove(text, text + 1, strlen(text));
}

bool attn_figure_format_ok(const char *f) {
    return f[0] == '.' && f[1] >= '0' && f[1] <= '6' && f[2] && strchr("feg%", f[2]) && !f[3];
}

static attn_status choose_values(attn_heat_plan *plan, attn_error *err) {
    const char *annotate = plan->options->annotate;
    if (annotate && *annotate && !attn_figure_format_ok(annotate))
        return attn_fail(err, ATTN_EARG, "annotate",
                         "expected a format such as .2f, .1%% or .3g, found %.20s", annotate);
    if (plan->options->marks || (annotate && !*annotate))
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
    const bool over = plan->options->transpose;
    attn_axis rows = {data->row_labels, data->row_count, first->shape[0], first->origin[0],
                      first->step[0]};
    attn_axis cols = {data->col_labels, data->col_count, first->shape[1], first->origin[1],
                      first->step[1]};
    plan->count = data->count;
    plan->R = first->shape[over];
    plan->C = first->shape[!over];
    plan->rows = over ? cols : rows;
    plan->cols = over ? rows : cols;
    plan->largest = first->max != NULL;
    plan->step[0] = plan->rows.step;
    plan->step[1] = plan->cols.step;
    plan->pooled = plan->step[0] > 1 || plan->step[1] > 1;
    plan->panels = attn_arena_zeroed(plan->arena, data->count, sizeof *plan->panels);
    if (!plan->panels)
        return no_memory(err);
    for (size_t i = 0; i < data->count; i++) {
        attn_status status = read_panel(plan, data, i, err);
        if (status)
            return status;
    }
    read_range(plan);
    attn_status status = make_scale(plan, err);
    return status ? status : choose_values(plan, err);
}
