/* Prints heatmaps and masks for a terminal. A cell is two columns wide, so that it looks square.
 *
 * A cell is one of five shades: blank, 1/4, 2/4, 3/4 and full block. The scale runs from 0 (or the
 * smallest value, if that is negative) to the largest value, and a value gets the nearest shade. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attn/print.h"
#include "draw/draw.h"

enum {
    DEFAULT_WIDTH = 100,
    CELL = 2,
    LABEL_MOST = 20, /* a row label is cut to this many columns */
    LINES_MOST = 12, /* a column label, written from top to bottom, is cut to this many lines */
    SHADES = 5,
};

static const char *const shades[SHADES] = {"  ", "░░", "▒▒", "▓▓", "██"};
static const char hidden_cell[] = "··", nan_cell[] = "??";

typedef struct names {
    const char *const *list; /* NULL: indices are the labels */
    size_t count, origin, step;
    char index[24];
} names;

/* Returns the label of cell i: the label of the first row (or column) of the matrix in the cell. */
static const char *name_of(names *n, size_t i) {
    size_t at = n->origin + i * n->step;
    if (n->list && at < n->count)
        return n->list[at];
    snprintf(n->index, sizeof n->index, "%zu", at);
    return n->index;
}

static size_t widest_label(names *n, size_t count, size_t most) {
    size_t width = 0;
    for (size_t i = 0; i < count && width < most; i++) {
        size_t w = attn_draw_width(name_of(n, i));
        width = w > width ? w : width;
    }
    return width < most ? width : most;
}

/* --- column labels --- */

/* Writes line `at` (from 0) of a column label that is written from top to bottom, in two terminal
 * columns. `length` is the number of characters of the label. If `length` is above LINES_MOST, the
 * last line is "…". Combining marks are written with their character. */
static void put_label_line(attn_text *t, const char *label, size_t at, size_t length) {
    size_t seen = 0, size;
    bool cut = length > LINES_MOST;
    if (cut && at == LINES_MOST - 1) {
        attn_text_bytes(t, "… ", strlen("… "));
        return;
    }
    for (const char *p = label; *p; p += size) {
        unsigned code = attn_draw_decode(p, &size);
        size_t columns = attn_draw_columns(code);
        if (columns && seen++ > at)
            break;
        if (seen != at + 1)
            continue;
        attn_draw_character(t, code, p, size);
        if (columns == 1) { /* combining marks come before the blank that fills the second column */
            const char *mark = p + size;
            for (; *mark && attn_draw_columns(attn_draw_decode(mark, &size)) == 0; mark += size)
                attn_text_bytes(t, mark, size);
            attn_text_bytes(t, " ", 1);
            return;
        }
    }
}

/* Returns the number of lines of a label that is written from top to bottom. */
static size_t label_height(const char *label) {
    size_t n = 0, size;
    for (; *label; label += size)
        n += attn_draw_columns(attn_draw_decode(label, &size)) > 0;
    return n;
}

static void put_upright_labels(attn_text *t, names *n, size_t cols, size_t left) {
    size_t height = 0;
    for (size_t c = 0; c < cols; c++) {
        size_t h = label_height(name_of(n, c));
        height = h > height ? h : height;
    }
    height = height < LINES_MOST ? height : LINES_MOST;
    for (size_t line = 0; line < height && !t->failed; line++) {
        size_t blanks = left + 2; /* blanks to write before the next character */
        for (size_t c = 0; c < cols; c++) {
            const char *label = name_of(n, c);
            size_t length = label_height(label), own = length < height ? length : height;
            if (line + own < height) {
                blanks += CELL;
                continue;
            }
            attn_text_repeat(t, ' ', blanks);
            blanks = 0;
            put_label_line(t, label, line + own - height, length);
        }
        attn_text_bytes(t, "\n", 1);
    }
}

/* Writes indices above every cell, or above every 2nd, 5th, 10th, … cell: the smallest distance at
 * which blanks separate the indices. */
static void put_ticks(attn_text *t, names *n, size_t cols, size_t left) {
    static const size_t factors[] = {1, 2, 5};
    size_t every = 1, digits = cols ? strlen(name_of(n, cols - 1)) : 0;
    for (size_t i = 1, ten = 1; every * CELL <= digits; i++) {
        ten = i % 3 == 0 ? ten * 10 : ten;
        every = factors[i % 3] * ten;
    }
    attn_text_repeat(t, ' ', left + 2);
    for (size_t c = 0, used = 0; c < cols; c += every) {
        const char *name = name_of(n, c);
        if (c && c * CELL + strlen(name) > cols * CELL + 1) /* would extend beyond the frame */
            break;
        attn_text_repeat(t, ' ', c * CELL - used);
        attn_text_bytes(t, name, strlen(name));
        used = c * CELL + strlen(name);
    }
    attn_text_bytes(t, "\n", 1);
}

/* --- cells --- */

typedef struct scale {
    double low, high;
    const float *cells;
} scale;

static scale scale_of(const attn_heatmap *map) {
    double low = map->range[0] < 0 ? (double)map->range[0] : 0;
    return (scale){low, map->range[1], map->max ? map->max : map->mean};
}

static const char *shade_of(const scale *s, float v, bool *nan_seen) {
    if (isnan(v)) {
        *nan_seen = true;
        return nan_cell;
    }
    double t = s->high > s->low ? (v - s->low) / (s->high - s->low) : 0;
    double level = fmin(fmax(t, 0), 1) * (SHADES - 1);
    return shades[(size_t)(level + 0.5)];
}

static void put_rule(attn_text *t, size_t left, size_t cells, const char *from, const char *to) {
    attn_text_repeat(t, ' ', left + 1);
    attn_text_bytes(t, from, strlen(from));
    for (size_t i = 0; i < cells * CELL; i++)
        attn_text_bytes(t, "─", strlen("─"));
    attn_text_bytes(t, to, strlen(to));
    attn_text_bytes(t, "\n", 1);
}

static void put_rows(attn_text *t, const attn_heatmap *map, names *rows, size_t cols, size_t left,
                     bool *nan_seen) {
    scale s = scale_of(map);
    size_t run = 0;
    for (size_t r = 0; r < map->shape[0] && !t->failed; r++) {
        const char *label = name_of(rows, r);
        size_t width = attn_draw_width(label);
        attn_text_repeat(t, ' ', width < left ? left - width : 0);
        attn_draw_cut(t, label, left);
        attn_text_bytes(t, " │", strlen(" │"));
        for (size_t c = 0; c < cols; c++) {
            const char *cell = attn_heatmap_is_hidden(map, r, c, &run)
                                   ? hidden_cell
                                   : shade_of(&s, s.cells[r * map->shape[1] + c], nan_seen);
            attn_text_bytes(t, cell, strlen(cell));
        }
        attn_text_bytes(t, "│\n", strlen("│\n"));
    }
}

static void put_legend(attn_text *t, const attn_heatmap *map, bool nan_seen) {
    scale s = scale_of(map);
    attn_text_add(t, "scale: blank %.3g", s.low);
    for (int i = 1; i < SHADES && s.high > s.low; i++)
        attn_text_add(t, "  %s %.3g", shades[i], s.low + (s.high - s.low) * i / (SHADES - 1));
    if (map->hidden_count)
        attn_text_add(t, "  %s hidden", hidden_cell);
    if (nan_seen)
        attn_text_add(t, "  %s not a number", nan_cell);
    attn_text_add(t, "   (values %.3g to %.3g)\n", (double)map->range[0], (double)map->range[1]);
}

void attn_text_heatmap(attn_text *t, const attn_heatmap *map, const char *const *row_labels,
                       size_t row_count, const char *const *col_labels, size_t col_count,
                       size_t width) {
    names rows = {row_labels, row_count, map->origin[0], map->step[0], ""};
    names cols = {col_labels, col_count, map->origin[1], map->step[1], ""};
    size_t R = map->shape[0], C = map->shape[1], shown = C;
    bool nan_seen = false;
    if (!R || !C) {
        attn_text_add(t, "(no cells: %zu row%s, %zu column%s)\n", R, attn_plural(R), C,
                      attn_plural(C));
        return;
    }
    size_t left = widest_label(&rows, R, LABEL_MOST), room = width ? width : DEFAULT_WIDTH;
    /* 3 columns: a blank and both sides of the frame */
    room = room > left + 3 + CELL ? (room - left - 3) / CELL : 1;
    shown = shown < room ? shown : room;
    if (cols.list)
        put_upright_labels(t, &cols, shown, left);
    else
        put_ticks(t, &cols, shown, left);
    put_rule(t, left, shown, "┌", "┐");
    put_rows(t, map, &rows, shown, left, &nan_seen);
    put_rule(t, left, shown, "└", "┘");
    put_legend(t, map, nan_seen);
    if (map->step[0] > 1 || map->step[1] > 1)
        attn_text_add(t,
                      "pooled: a cell is the %s of %zu quer%s x %zu key%s; labels name the first\n",
                      map->max ? "largest" : "mean", map->step[0], attn_plural_y(map->step[0]),
                      map->step[1], attn_plural(map->step[1]));
    if (shown < C)
        attn_text_add(t, "cut: %zu of %zu columns of cells are drawn\n", shown, C);
}

void attn_text_mask(attn_text *t, const uint8_t *keep, size_t rows, size_t cols) {
    for (size_t i = 0; i < rows && !t->failed; i++) {
        for (size_t j = 0; j < cols; j++) {
            const char *mark = keep[i * cols + j] ? "✓" : "✗";
            if (j)
                attn_text_bytes(t, " ", 1);
            attn_text_bytes(t, mark, strlen(mark));
        }
        attn_text_bytes(t, "\n", 1);
    }
    attn_text_add(t, "a line is a query, a column a key: ✓ visible, ✗ hidden\n");
}
