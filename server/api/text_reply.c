/* Answers as text, and warnings as text or as JSON. Texts grow in the request's arena. */
#include "api/text_reply.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

attn_text srv_text_begin(srv_request *req) {
    return (attn_text){.arena = req->arena};
}

void srv_text_end(srv_request *req, const attn_text *t) {
    if (t->failed) {
        attn_error err;
        attn_fail(&err, ATTN_ENOMEM, "",
                  "the answer as text needs more memory than a request may use");
        srv_problem_error(req, &err);
        return;
    }
    srv_reply_set(req, 200, "text/plain; charset=utf-8", t->data ? t->data : "", t->size);
}

/* Replaces the data of a float tensor by a copy whose elements are rounded to `decimals` decimals;
 * the caller then prints them with as few digits as possible. false: memory ran out. */
static bool round_tensor(attn_tensor *t, attn_arena *arena, int decimals) {
    size_t count;
    if (!attn_tensor_count(t, &count) || (t->dtype != ATTN_F32 && t->dtype != ATTN_F64))
        return true;
    double unit = pow(10, decimals);
    size_t each = attn_dtype_size(t->dtype);
    void *copy = attn_arena_take(arena, count * each);
    if (!copy)
        return false;
    for (size_t i = 0; i < count; i++) {
        double v =
            t->dtype == ATTN_F32 ? ((const float *)t->data)[i] : ((const double *)t->data)[i];
        double rounded = isfinite(v * unit) ? nearbyint(v * unit) / unit : v;
        if (t->dtype == ATTN_F32)
            ((float *)copy)[i] = (float)rounded;
        else
            ((double *)copy)[i] = rounded;
    }
    t->data = copy;
    return true;
}

void srv_text_tensor(attn_text *t, const char *name, const attn_tensor *tensor, int decimals) {
    if (tensor->rank == 0)
        return;
    attn_tensor shown = *tensor;
    if (decimals >= 0 && attn_tensor_is_dense(&shown) &&
        !round_tensor(&shown, t->arena, decimals)) {
        t->failed = true;
        return;
    }
    attn_text_add(t, "%s:\n", name);
    attn_text_tensor(t, &shown);
    attn_text_add(t, "\n");
}

bool srv_warnings_add(attn_warnings *warnings, attn_arena *arena, const char *code,
                      const char *where, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    attn_warning *items = attn_arena_small(arena, (warnings->count + 1) * sizeof *items);
    const char *copy = attn_arena_text(arena, text, strlen(text));
    if (!items || !copy)
        return false;
    if (warnings->count > 0)
        memcpy(items, warnings->items, warnings->count * sizeof *items);
    items[warnings->count++] = (attn_warning){code, where, copy};
    warnings->items = items;
    return true;
}

void srv_warnings_write(srv_json *j, const attn_warnings *warnings) {
    if (warnings->count == 0)
        return;
    srv_json_key(j, "warnings");
    srv_json_array(j);
    for (size_t i = 0; i < warnings->count; i++) {
        const attn_warning *w = &warnings->items[i];
        srv_json_object(j);
        srv_json_key(j, "code");
        srv_json_string(j, w->code);
        srv_json_key(j, "where");
        srv_json_string(j, w->where);
        srv_json_key(j, "text");
        srv_json_string(j, w->text);
        srv_json_object_end(j);
    }
    srv_json_array_end(j);
}

void srv_warnings_text(attn_text *t, const attn_warnings *warnings) {
    for (size_t i = 0; i < warnings->count; i++) {
        const attn_warning *w = &warnings->items[i];
        attn_text_add(t, "warning (%s%s%s): %s\n", w->code, w->where[0] ? ", " : "", w->where,
                      w->text);
    }
}
