/* Writes tables as CSV, field by field. The deadline is checked after every FIELDS_A_CHECK fields,
 * because tables can be long. */
#include "wire/csv.h"

#include <math.h>
#include <string.h>

#include "number/number.h"

enum { FIELDS_A_CHECK = 4096 }; /* fields between two checks of the deadline */

srv_csv srv_csv_begin(srv_request *req) {
    return (srv_csv){.req = req, .text = {.arena = req->arena}};
}

static void begin_field(srv_csv *t, bool first) {
    if (++t->fields % FIELDS_A_CHECK == 0 && !t->text.failed)
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
    if (!t->text.failed)
        srv_reply_set(t->req, 200, "text/csv; charset=utf-8; header=present",
                      t->text.data ? t->text.data : "", t->text.size);
    else if (t->err.code)
        srv_problem_error(t->req, &t->err);
    else
        srv_problem_memory(t->req, NULL,
                           "the answer as CSV needs more memory than a request may use");
}
