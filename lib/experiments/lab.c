/* The lab: settings, progress, memory and findings of a running experiment. */
#include "experiments/lab.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "attn/rng.h"

/* Largest numbers of tables and pictures of an experiment. */
enum { TABLES = 8, PICTURES = 40 };

size_t attn_experiment_setting(const attn_experiment *experiment, const char *name) {
    size_t i = 0;
    while (i < experiment->setting_count && strcmp(experiment->settings[i].name, name))
        i++;
    return i;
}

double attn_setting_value(const attn_experiment *about, const double *values, const char *name) {
    return values[attn_experiment_setting(about, name)];
}

double attn_lab_number(const attn_lab *lab, const char *name) {
    return attn_setting_value(lab->about, lab->values, name);
}

size_t attn_lab_size(const attn_lab *lab, const char *name) {
    return (size_t)attn_lab_number(lab, name);
}

uint64_t attn_lab_seed(const attn_lab *lab) {
    return (uint64_t)attn_lab_number(lab, "seed");
}

double attn_lab_clock(const attn_lab *lab) {
    struct timespec now;
    clock_gettime(attn_pool_slots(lab->hooks->pool) > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID,
                  &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void report_progress(const attn_lab *lab, double done, const char *line) {
    if (lab->hooks->progress)
        lab->hooks->progress(lab->hooks->ctx, done, line);
}

void attn_lab_part(attn_lab *lab, double from, double to, const char *format, ...) {
    char line[256];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    lab->from = from, lab->to = to;
    if (!lab->status)
        report_progress(lab, from, line);
}

bool attn_lab_done(attn_lab *lab, double share) {
    if (!lab->status) {
        report_progress(lab, lab->from + (lab->to - lab->from) * share, NULL);
        lab->status = attn_control_check(lab->hooks->control, lab->err);
    }
    return !lab->status;
}

bool attn_lab_ok(attn_lab *lab, attn_status status) {
    if (!lab->status)
        lab->status = status;
    return !lab->status;
}

void *attn_lab_no_memory(attn_lab *lab) {
    if (!lab->status)
        lab->status = attn_fail(lab->err, ATTN_ENOMEM, lab->about->name,
                                "not enough memory for the experiment");
    return NULL;
}

void *attn_lab_take(attn_lab *lab, size_t count, size_t size) {
    void *p = lab->status ? NULL : attn_arena_zeroed(lab->work, count, size);
    return p ? p : attn_lab_no_memory(lab);
}

void *attn_lab_keep(attn_lab *lab, size_t count, size_t size) {
    void *p = lab->status ? NULL : attn_arena_zeroed(lab->arena, count, size);
    return p ? p : attn_lab_no_memory(lab);
}

void attn_lab_scratch(attn_lab *lab) {
    const size_t used = attn_arena_used(lab->work), all = attn_arena_limit(lab->work);
    attn_arena_reset(lab->scratch);
    attn_arena_set_limit(lab->scratch, all > used ? all - used : 0);
}

static const char *keep_text(attn_lab *lab, const char *format, va_list args) {
    char line[1024];
    vsnprintf(line, sizeof line, format, args);
    char *text = lab->status ? NULL : attn_arena_text(lab->arena, line, strlen(line));
    return text ? text : attn_lab_no_memory(lab);
}

const char *attn_lab_say(attn_lab *lab, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *text = keep_text(lab, format, args);
    va_end(args);
    return text;
}

void attn_lab_close(attn_lab *lab, const char *format, ...) {
    va_list args;
    va_start(args, format);
    lab->out->closing = keep_text(lab, format, args);
    va_end(args);
}

attn_attention *attn_lab_attend(attn_lab *lab, const attn_inputs *in, unsigned want,
                                attn_stage stage, attn_results *out) {
    attn_attention *op;
    return !lab->status && attn_lab_ok(lab, attn_attention_new(in, lab->scratch, &op, lab->err)) &&
                   attn_lab_ok(lab,
                               attn_attention_run(op, want, stage, lab->hooks->pool,
                                                  lab->hooks->control, lab->scratch, out, lab->err))
               ? op
               : NULL;
}

float *attn_lab_normal(attn_lab *lab, uint64_t stream, size_t n) {
    float *x = attn_lab_take(lab, n, sizeof *x);
    if (x)
        attn_rng_fill_normal(x, n, attn_rng_bits(attn_lab_seed(lab), stream), 0);
    return x;
}

attn_table *attn_lab_table(attn_lab *lab, const char *title, const attn_column *columns,
                           size_t column_count, size_t rows) {
    if (!lab->out->tables)
        lab->out->tables = attn_lab_keep(lab, TABLES, sizeof *lab->out->tables);
    attn_entry *entries = attn_lab_keep(lab, rows * column_count, sizeof *entries);
    if (lab->status || lab->out->table_count == TABLES)
        return attn_lab_no_memory(lab);
    attn_table *table = &lab->out->tables[lab->out->table_count++];
    *table = (attn_table){title, columns, column_count, 0, entries};
    return table;
}

void attn_lab_row(attn_table *table, ...) {
    if (!table)
        return;
    va_list args;
    va_start(args, table);
    attn_entry *row = table->entries + table->row_count++ * table->column_count;
    for (size_t c = 0; c < table->column_count; c++)
        if (table->columns[c].decimals < 0)
            row[c] = (attn_entry){va_arg(args, const char *), (double)NAN};
        else
            row[c] = (attn_entry){NULL, va_arg(args, double)};
    va_end(args);
}

static attn_picture *add_picture(attn_lab *lab, const char *name, const char *title) {
    if (!lab->out->pictures)
        lab->out->pictures = attn_lab_keep(lab, PICTURES, sizeof *lab->out->pictures);
    if (lab->status || lab->out->picture_count == PICTURES)
        return attn_lab_no_memory(lab);
    attn_picture *p = &lab->out->pictures[lab->out->picture_count++];
    *p = (attn_picture){.name = name, .options = attn_figure_defaults()};
    p->options.title = title;
    return p;
}

attn_picture *attn_lab_curves(attn_lab *lab, const char *name, const char *title,
                              const char *x_label, const char *y_label, size_t panels,
                              const char *const *titles, size_t most) {
    attn_figure_curve *curves = attn_lab_keep(lab, most, sizeof *curves);
    attn_picture *p = add_picture(lab, name, title);
    if (!p)
        return NULL;
    p->options.x_label = x_label, p->options.y_label = y_label;
    p->curves = (attn_figure_curves){curves, 0, titles, panels, true};
    return p;
}

void attn_lab_curve(attn_lab *lab, attn_picture *p, size_t panel, const char *name, const double *x,
                    const double *y, size_t n) {
    double *points = attn_lab_keep(lab, 2 * n, sizeof *points);
    if (lab->status)
        return;
    memcpy(points, x, n * sizeof *x);
    memcpy(points + n, y, n * sizeof *y);
    /* The cast may remove const, because attn_lab_curves allocated `items` as writable memory. */
    attn_figure_curve *to = (attn_figure_curve *)p->curves.items + p->curves.count++;
    *to = (attn_figure_curve){.name = name, .x = points, .y = points + n, .n = n, .panel = panel};
}

attn_picture *attn_lab_heatmaps(attn_lab *lab, const char *name, const char *title, size_t panels,
                                size_t rows, size_t cols) {
    attn_heatmap *maps = attn_lab_keep(lab, panels, sizeof *maps);
    const char **titles = attn_lab_keep(lab, panels, sizeof *titles);
    attn_picture *p = add_picture(lab, name, title);
    if (!p)
        return NULL;
    for (size_t i = 0; i < panels; i++) {
        float *cells = attn_lab_keep(lab, rows * cols, sizeof *cells);
        maps[i] = (attn_heatmap){.head = i, .shape = {rows, cols}, .step = {1, 1}, .max = cells};
        titles[i] = "";
    }
    p->options.vmin = 0, p->options.vmax = 1;
    p->options.value_label = "weight", p->options.annotate = "";
    p->heat = (attn_figure_heat){.maps = maps, .count = panels, .titles = titles};
    return p;
}

void attn_lab_heatmap(attn_lab *lab, attn_picture *p, size_t panel, const char *title,
                      const float *cells, size_t stride) {
    if (lab->status)
        return;
    attn_heatmap *map = (attn_heatmap *)p->heat.maps + panel;
    ((const char **)p->heat.titles)[panel] = title;
    for (size_t r = 0; r < map->shape[0]; r++)
        for (size_t c = 0; c < map->shape[1]; c++) {
            const float cell = cells[r * stride + c];
            map->max[r * map->shape[1] + c] = cell;
            map->range[0] = fminf(map->range[0], cell);
            map->range[1] = fmaxf(map->range[1], cell);
        }
}

void attn_lab_labels(attn_lab *lab, attn_picture *p, const char *const *rows,
                     const char *const *cols) {
    if (lab->status)
        return;
    p->heat.row_labels = rows, p->heat.row_count = p->heat.maps->shape[0];
    p->heat.col_labels = cols, p->heat.col_count = p->heat.maps->shape[1];
}

void attn_lab_hide(attn_lab *lab, attn_picture *p, size_t panel, const uint8_t *seen) {
    if (lab->status)
        return;
    attn_heatmap *map = (attn_heatmap *)p->heat.maps + panel;
    const size_t cols = map->shape[1];
    attn_hidden_run *runs = attn_lab_keep(lab, map->shape[0] * cols, sizeof *runs);
    for (size_t r = 0; runs && r < map->shape[0]; r++)
        for (size_t c = 0; c < cols; c++) {
            if (seen[r * cols + c])
                continue;
            const size_t from = c;
            while (c < cols && !seen[r * cols + c])
                c++;
            runs[map->hidden_count++] = (attn_hidden_run){r, from, c};
        }
    map->hidden = runs;
}
