/* Heatmaps, tables and curves for spreadsheets. */
#include "api/csv.h"

#include <math.h>
#include <string.h>

#include "number/number.h"

enum { FIELDS_A_LOOK = 4096 }; /* between two looks at the clock */

srv_csv srv_csv_begin(srv_request *req) {
    return (srv_csv){.req = req, .text = {.arena = req->arena}};
}

static void begin_field(srv_csv *t, bool first) {
    if (++t->fields % FIELDS_A_LOOK == 0 && !t->text.failed)
        t->text.failed = attn_control_check(&t->req->control, &t->err) != ATTN_OK;
    if (!first)
        attn_text_add(&t->text, ",");
}

void srv_csv_text(srv_csv *t, bool first, const char *text) {
    begin_field(t, first);
    if (!strpbrk(text, ",\"\r\n") && text[0] != ' ') {
        attn_text_add(&t->text, "%s", text);
        return;
    }
    attn_text_add(&t->text, "\"");
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\"");
        attn_text_add(&t->text, "%.*s%s", (int)n, p, p[n] ? "\"\"" : "");
        p += n + (p[n] != 0);
    }
    attn_text_add(&t->text, "\"");
}

void srv_csv_number(srv_csv *t, bool first, double value, bool single, int decimals) {
    char text[ATTN_NUMBER_TEXT];
    begin_field(t, first);
    if (!isfinite(value))
        return;
    char *end = decimals >= 0 ? attn_write_decimals(text, value, decimals)
                : single      ? attn_write_f32(text, (float)value)
                              : attn_write_f64(text, value);
    attn_text_add(&t->text, "%.*s", (int)(end - text), text);
}

void srv_csv_index(srv_csv *t, bool first, size_t value) {
    begin_field(t, first);
    attn_text_add(&t->text, "%zu", value);
}

void srv_csv_line(srv_csv *t) {
    attn_text_add(&t->text, "\r\n");
}

void srv_csv_end(const srv_csv *t) {
    attn_error err = t->err;
    if (!t->text.failed) {
        srv_reply_set(t->req, 200, "text/csv; charset=utf-8; header=present",
                      t->text.data ? t->text.data : "", t->text.size);
        return;
    }
    if (!err.code)
        attn_fail(&err, ATTN_ENOMEM, "",
                  "the answer as CSV needs more memory than a request may use");
    srv_problem_error(t->req, &err);
}

/* The label of the first row or key that a cell covers, else its index. */
static void put_name(srv_csv *t, const srv_strings *names, const attn_heatmap *map, int axis,
                     size_t cell) {
    const size_t at = map->origin[axis] + cell * map->step[axis];
    if (at < names->count)
        srv_csv_text(t, false, names->values[at]);
    else
        srv_csv_index(t, false, at);
}

static void put_cells(srv_csv *t, const srv_heat_answer *a, const attn_heatmap *map) {
    const float *cells = map->max ? map->max : map->mean;
    const size_t apart = a->maps->layer_batches;
    size_t run = 0;
    for (size_t r = 0; r < map->shape[0] && !t->text.failed; r++) {
        if (apart)
            srv_csv_index(t, true, map->batch / apart);
        srv_csv_index(t, !apart, apart ? map->batch % apart : map->batch);
        if (map->head == SIZE_MAX)
            srv_csv_text(t, false, "mean");
        else if (a->titles && map->head < a->titles->count)
            srv_csv_text(t, false, a->titles->values[map->head]);
        else
            srv_csv_index(t, false, map->head);
        put_name(t, &a->labels->query, map, 0, r);
        for (size_t c = 0; c < map->shape[1]; c++) {
            while (run < map->hidden_count &&
                   (map->hidden[run].row < r ||
                    (map->hidden[run].row == r && map->hidden[run].to <= c)))
                run++;
            bool hidden =
                run < map->hidden_count && map->hidden[run].row == r && map->hidden[run].from <= c;
            srv_csv_number(t, false, hidden ? NAN : cells[r * map->shape[1] + c], true,
                           a->decimals);
        }
        srv_csv_line(t);
    }
}

void srv_heat_csv(srv_request *req, const srv_heat_answer *a) {
    srv_csv t = srv_csv_begin(req);
    if (a->maps->layer_batches)
        srv_csv_text(&t, true, "layer");
    srv_csv_text(&t, a->maps->layer_batches == 0, "batch");
    srv_csv_text(&t, false, "head");
    srv_csv_text(&t, false, "query");
    for (size_t c = 0; a->maps->count > 0 && c < a->maps->items[0].shape[1]; c++)
        put_name(&t, &a->labels->key, &a->maps->items[0], 1, c);
    srv_csv_line(&t);
    for (size_t i = 0; i < a->maps->count; i++)
        put_cells(&t, a, &a->maps->items[i]);
    srv_csv_end(&t);
}
