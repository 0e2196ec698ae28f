/* Findings for a terminal: tables with aligned columns, then what they say. */
#include <math.h>
#include <stdio.h>
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

/* Texts to the left, numbers to the right; no blanks at the end of a line. */
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
