/* Writes findings as text for a terminal and as JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/draw.h"
#include "experiments/lab.h"

enum { CELL = 64 };

static void say_cell(char cell[CELL], const attn_column *column, const attn_entry *entry) {
    if (column->decimals < 0)
        snprintf(cell, CELL, "%s", entry->text ? entry->text : "-");
    else if (!isfinite(entry->number))
        snprintf(cell, CELL, "-");
    else if (entry->number != 0 && fabs(entry->number) < 0.5 * pow(10, -column->decimals))
        snprintf(cell, CELL, "%.1e", entry->number);
    else
        snprintf(cell, CELL, "%.*f", column->decimals, entry->number);
}

static void say_head(char cell[CELL], const attn_column *column) {
    snprintf(cell, CELL, "%s%s%s", column->name, *column->unit ? ", " : "", column->unit);
}

static size_t width(const attn_table *table, size_t c) {
    char cell[CELL];
    say_head(cell, &table->columns[c]);
    size_t most = attn_draw_width(cell);
    for (size_t r = 0; r < table->row_count; r++) {
        say_cell(cell, &table->columns[c], &table->entries[r * table->column_count + c]);
        most = attn_draw_width(cell) > most ? attn_draw_width(cell) : most;
    }
    return most;
}

/* Writes a cell of a line, padded to the width of its column. Texts are aligned left, numbers
 * right. A line has no blanks at its end. */
static void put_cell(attn_text *to, const attn_table *table, size_t c, const char *cell) {
    const size_t blanks = width(table, c) - attn_draw_width(cell);
    const bool text = table->columns[c].decimals < 0, last = c + 1 == table->column_count;
    attn_draw_repeat(to, ' ', c ? 2 : 0);
    attn_draw_repeat(to, ' ', text ? 0 : blanks);
    attn_text_add(to, "%s", cell);
    attn_draw_repeat(to, ' ', text && !last ? blanks : 0);
    if (last)
        attn_text_add(to, "\n");
}

static void print_table(const attn_table *table, attn_text *to) {
    char cell[CELL];
    attn_text_add(to, "%s\n", table->title);
    for (size_t c = 0; c < table->column_count; c++) {
        say_head(cell, &table->columns[c]);
        put_cell(to, table, c, cell);
    }
    for (size_t r = 0; r < table->row_count; r++)
        for (size_t c = 0; c < table->column_count; c++) {
            say_cell(cell, &table->columns[c], &table->entries[r * table->column_count + c]);
            put_cell(to, table, c, cell);
        }
    attn_text_add(to, "\n");
}

void attn_findings_print(const attn_findings *findings, attn_text *to) {
    for (size_t i = 0; i < findings->table_count; i++)
        print_table(&findings->tables[i], to);
    attn_text_add(to, "%s\n", findings->closing);
}

static void put_text(attn_text *to, const char *text) {
    if (!text) {
        attn_text_add(to, "null");
        return;
    }
    attn_text_add(to, "\"");
    for (const char *p = text; *p; p++)
        if (*p == '"' || *p == '\\')
            attn_text_add(to, "\\%c", *p);
        else if ((unsigned char)*p < 0x20)
            attn_text_add(to, "\\u%04x", (unsigned)*p);
        else
            attn_text_add(to, "%c", *p);
    attn_text_add(to, "\"");
}

/* Writes a number with 15, 16 or 17 digits: the fewest that read back as the same double. */
static void put_number(attn_text *to, double x) {
    char text[32];
    if (!isfinite(x)) {
        attn_text_add(to, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    attn_text_add(to, "%s", text);
}

static void put_single(attn_text *to, float x) {
    char text[32];
    if (!isfinite(x)) {
        attn_text_add(to, "null");
        return;
    }
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x)
            break;
    }
    attn_text_add(to, "%s", text);
}

static void put_texts(attn_text *to, const char *key, const char *const *texts, size_t n) {
    attn_text_add(to, ",\"%s\":", key);
    if (!texts) {
        attn_text_add(to, "null");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        attn_text_add(to, i ? "," : "[");
        put_text(to, texts[i]);
    }
    attn_text_add(to, "]");
}

static void put_table(attn_text *to, const attn_table *table) {
    attn_text_add(to, "{\"title\":");
    put_text(to, table->title);
    attn_text_add(to, ",\"columns\":[");
    for (size_t c = 0; c < table->column_count; c++) {
        attn_text_add(to, "%s{\"name\":", c ? "," : "");
        put_text(to, table->columns[c].name);
        attn_text_add(to, ",\"unit\":");
        put_text(to, table->columns[c].unit);
        attn_text_add(to, ",\"measured\":%s}", table->columns[c].measured ? "true" : "false");
    }
    attn_text_add(to, "],\"rows\":[");
    for (size_t r = 0; r < table->row_count; r++) {
        attn_text_add(to, r ? "],[" : "[");
        for (size_t c = 0; c < table->column_count; c++) {
            const attn_entry *entry = &table->entries[r * table->column_count + c];
            attn_text_add(to, c ? "," : "");
            if (table->columns[c].decimals < 0)
                put_text(to, entry->text);
            else
                put_number(to, entry->number);
        }
    }
    attn_text_add(to, table->row_count ? "]]}" : "]}");
}

static void put_curves(attn_text *to, const attn_figure_curves *curves) {
    put_texts(to, "panels", curves->titles, curves->panels);
    attn_text_add(to, ",\"curves\":[");
    for (size_t i = 0; i < curves->count; i++) {
        const attn_figure_curve *c = &curves->items[i];
        attn_text_add(to, "%s{\"panel\":%zu,\"name\":", i ? "," : "", c->panel);
        put_text(to, c->name);
        for (int axis = 0; axis < 2; axis++) {
            attn_text_add(to, axis ? "],\"y\":[" : ",\"x\":[");
            for (size_t k = 0; k < c->n; k++) {
                attn_text_add(to, k ? "," : "");
                put_number(to, axis ? c->y[k] : c->x[k]);
            }
        }
        attn_text_add(to, "]}");
    }
    attn_text_add(to, "]");
}

/* Tells whether a cell is hidden. Cells are asked for in row-major order. *at is the index of the
 * first hidden run (a sequence of hidden cells in a row) that can contain the cell. */
static bool is_hidden(const attn_heatmap *map, size_t row, size_t col, size_t *at) {
    while (*at < map->hidden_count && (map->hidden[*at].row < row ||
                                       (map->hidden[*at].row == row && map->hidden[*at].to <= col)))
        (*at)++;
    return *at < map->hidden_count && map->hidden[*at].row == row && map->hidden[*at].from <= col;
}

static void put_heat(attn_text *to, const attn_figure_heat *heat) {
    put_texts(to, "panels", heat->titles, heat->count);
    put_texts(to, "rows", heat->row_labels, heat->row_count);
    put_texts(to, "columns", heat->col_labels, heat->col_count);
    attn_text_add(to, ",\"cells\":[");
    for (size_t m = 0; m < heat->count; m++) {
        const attn_heatmap *map = &heat->maps[m];
        size_t run = 0;
        attn_text_add(to, m ? ",[" : "[");
        for (size_t r = 0; r < map->shape[0]; r++)
            for (size_t c = 0; c < map->shape[1]; c++) {
                attn_text_add(to, c ? "," : r ? "],[" : "[");
                put_single(to, is_hidden(map, r, c, &run) ? NAN : map->max[r * map->shape[1] + c]);
            }
        attn_text_add(to, "]]");
    }
    attn_text_add(to, "]");
}

static void put_picture(attn_text *to, const attn_picture *picture) {
    attn_text_add(to, "{\"name\":");
    put_text(to, picture->name);
    attn_text_add(
        to, ",\"measured\":%s,\"kind\":\"%s\",\"title\":", picture->measured ? "true" : "false",
        picture->heat.count ? "heatmaps" : "curves");
    put_text(to, picture->options.title);
    attn_text_add(to, ",\"x_label\":");
    put_text(to, picture->options.x_label);
    attn_text_add(to, ",\"y_label\":");
    put_text(to, picture->options.y_label);
    if (picture->heat.count)
        put_heat(to, &picture->heat);
    else
        put_curves(to, &picture->curves);
    attn_text_add(to, "}");
}

void attn_findings_json(const attn_findings *findings, attn_text *to) {
    const attn_experiment *about = findings->experiment;
    attn_text_add(to, "{\"experiment\":\"%s\",\"title\":", about->name);
    put_text(to, about->title);
    attn_text_add(to, ",\"settings\":{");
    for (size_t i = 0; i < about->setting_count; i++) {
        attn_text_add(to, "%s\"%s\":", i ? "," : "", about->settings[i].name);
        put_number(to, findings->values[i]);
    }
    attn_text_add(to, "},\"tables\":[");
    for (size_t i = 0; i < findings->table_count; i++) {
        attn_text_add(to, i ? "," : "");
        put_table(to, &findings->tables[i]);
    }
    attn_text_add(to, "],\"pictures\":[");
    for (size_t i = 0; i < findings->picture_count; i++) {
        attn_text_add(to, i ? "," : "");
        put_picture(to, &findings->pictures[i]);
    }
    attn_text_add(to, "],\"closing\":");
    put_text(to, findings->closing);
    attn_text_add(to, "}\n");
}
