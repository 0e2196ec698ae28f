/* Writes findings as text for a terminal and as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw/draw.h"
#include "experiments/lab.h"

enum { CELL = 64 };

static void format_cell(char cell[CELL], const attn_column *column, const attn_entry *entry) {
    if (column->decimals < 0)
        snprintf(cell, CELL, "%s", entry->text ? entry->text : "-");
    else if (!isfinite(entry->number))
        snprintf(cell, CELL, "-");
    else if (entry->number != 0 && fabs(entry->number) < 0.5 * pow(10, -column->decimals))
        snprintf(cell, CELL, "%.1e", entry->number);
    else
        snprintf(cell, CELL, "%.*f", column->decimals, entry->number);
}

static void format_head(char cell[CELL], const attn_column *column) {
    snprintf(cell, CELL, "%s%s%s", column->name, *column->unit ? ", " : "", column->unit);
}

static size_t column_width(const attn_table *table, size_t c) {
    char cell[CELL];
    format_head(cell, &table->columns[c]);
    size_t most = attn_draw_width(cell);
    for (size_t r = 0; r < table->row_count; r++) {
        format_cell(cell, &table->columns[c], &table->entries[r * table->column_count + c]);
        most = attn_draw_width(cell) > most ? attn_draw_width(cell) : most;
    }
    return most;
}

/* Writes a cell of a line, padded to the width of its column. Texts are aligned left, numbers
 * right. A line has no blanks at its end. */
static void put_cell(attn_text *to, const attn_table *table, size_t c, const char *cell) {
    const size_t blanks = column_width(table, c) - attn_draw_width(cell);
    const bool text = table->columns[c].decimals < 0, last = c + 1 == table->column_count;
    attn_text_repeat(to, ' ', c ? 2 : 0);
    attn_text_repeat(to, ' ', text ? 0 : blanks);
    attn_text_add(to, "%s", cell);
    attn_text_repeat(to, ' ', text && !last ? blanks : 0);
    if (last)
        attn_text_add(to, "\n");
}

static void print_table(const attn_table *table, attn_text *to) {
    char cell[CELL];
    attn_text_add(to, "%s\n", table->title);
    for (size_t c = 0; c < table->column_count; c++) {
        format_head(cell, &table->columns[c]);
        put_cell(to, table, c, cell);
    }
    for (size_t r = 0; r < table->row_count; r++)
        for (size_t c = 0; c < table->column_count; c++) {
            format_cell(cell, &table->columns[c], &table->entries[r * table->column_count + c]);
            put_cell(to, table, c, cell);
        }
    attn_text_add(to, "\n");
}

void attn_findings_print(const attn_findings *findings, attn_text *to) {
    for (size_t i = 0; i < findings->table_count; i++)
        print_table(&findings->tables[i], to);
    attn_text_add(to, "%s\n", findings->closing);
}

/* --- JSON --- */

static void put_texts(attn_json_text *to, const char *key, const char *const *texts, size_t n) {
    attn_json_key(to, key);
    if (!texts) {
        attn_json_null(to);
        return;
    }
    attn_json_strings(to, texts, n);
}

static void put_columns(attn_json_text *to, const attn_table *table) {
    attn_json_key_array(to, "columns");
    for (size_t c = 0; c < table->column_count; c++) {
        attn_json_object(to);
        attn_json_key_string(to, "name", table->columns[c].name);
        attn_json_key_string(to, "unit", table->columns[c].unit);
        attn_json_key_bool(to, "measured", table->columns[c].measured);
        attn_json_object_end(to);
    }
    attn_json_array_end(to);
}

static void put_row(attn_json_text *to, const attn_table *table, const attn_entry *entries) {
    attn_json_array(to);
    for (size_t c = 0; c < table->column_count; c++)
        if (table->columns[c].decimals < 0)
            attn_json_string(to, entries[c].text);
        else
            attn_json_real(to, entries[c].number);
    attn_json_array_end(to);
}

static void put_table(attn_json_text *to, const attn_table *table) {
    attn_json_object(to);
    attn_json_key_string(to, "title", table->title);
    put_columns(to, table);
    attn_json_key_array(to, "rows");
    for (size_t r = 0; r < table->row_count; r++)
        put_row(to, table, &table->entries[r * table->column_count]);
    attn_json_array_end(to);
    attn_json_object_end(to);
}

static void put_numbers(attn_json_text *to, const char *key, const double *values, size_t n) {
    attn_json_key_array(to, key);
    for (size_t i = 0; i < n; i++)
        attn_json_real(to, values[i]);
    attn_json_array_end(to);
}

static void put_curves(attn_json_text *to, const attn_figure_curves *curves) {
    put_texts(to, "panels", curves->titles, curves->panels);
    attn_json_key_array(to, "curves");
    for (size_t i = 0; i < curves->count; i++) {
        const attn_figure_curve *c = &curves->items[i];
        attn_json_object(to);
        attn_json_key_size(to, "panel", c->panel);
        attn_json_key_string(to, "name", c->name);
        put_numbers(to, "x", c->x, c->n);
        put_numbers(to, "y", c->y, c->n);
        attn_json_object_end(to);
    }
    attn_json_array_end(to);
}

static void put_map(attn_json_text *to, const attn_heatmap *map) {
    size_t run = 0;
    attn_json_array(to);
    for (size_t r = 0; r < map->shape[0]; r++) {
        attn_json_array(to);
        for (size_t c = 0; c < map->shape[1]; c++)
            attn_json_float(to, attn_heatmap_is_hidden(map, r, c, &run)
                                    ? NAN
                                    : map->max[r * map->shape[1] + c]);
        attn_json_array_end(to);
    }
    attn_json_array_end(to);
}

static void put_heat(attn_json_text *to, const attn_figure_heat *heat) {
    put_texts(to, "panels", heat->titles, heat->count);
    put_texts(to, "rows", heat->row_labels, heat->row_count);
    put_texts(to, "columns", heat->col_labels, heat->col_count);
    attn_json_key_array(to, "cells");
    for (size_t m = 0; m < heat->count; m++)
        put_map(to, &heat->maps[m]);
    attn_json_array_end(to);
}

static void put_picture(attn_json_text *to, const attn_picture *picture) {
    attn_json_object(to);
    attn_json_key_string(to, "name", picture->name);
    attn_json_key_bool(to, "measured", picture->measured);
    attn_json_key_string(to, "kind", picture->heat.count ? "heatmaps" : "curves");
    attn_json_key_string(to, "title", picture->options.title);
    attn_json_key_string(to, "x_label", picture->options.x_label);
    attn_json_key_string(to, "y_label", picture->options.y_label);
    if (picture->heat.count)
        put_heat(to, &picture->heat);
    else
        put_curves(to, &picture->curves);
    attn_json_object_end(to);
}

void attn_findings_json(const attn_findings *findings, attn_json_text *to) {
    const attn_experiment *about = findings->experiment;
    attn_json_object(to);
    attn_json_key_string(to, "experiment", about->name);
    attn_json_key_string(to, "title", about->title);
    attn_json_key_object(to, "settings");
    for (size_t i = 0; i < about->setting_count; i++)
        attn_json_key_real(to, about->settings[i].name, findings->values[i]);
    attn_json_object_end(to);
    attn_json_key_array(to, "tables");
    for (size_t i = 0; i < findings->table_count; i++)
        put_table(to, &findings->tables[i]);
    attn_json_array_end(to);
    attn_json_key_array(to, "pictures");
    for (size_t i = 0; i < findings->picture_count; i++)
        put_picture(to, &findings->pictures[i]);
    attn_json_array_end(to);
    attn_json_key_string(to, "closing", findings->closing);
    attn_json_object_end(to);
    attn_json_put(to, "\n", 1);
}
