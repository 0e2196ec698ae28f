/* The JSON writer: text in a growing arena buffer, commas and colons from a small state.
 *
 * Every value begins with `open_value`, which puts the comma. Room is asked for before writing, a
 * run of numbers at a time; a buffer that is too small is replaced by one of at least twice the
 * size (the old one stays in the arena until the request ends), so a tensor asks for its likely
 * size first. */
#include "wire/json_out.h"

#include <math.h>
#include <string.h>

#include "number/base64.h"
#include "number/number.h"
#include "number/print_small.h"
#include "wire/json_run.h"

enum {
    FIRST_ROOM = 1024,
    LIKELY = 12,    /* bytes of a number */
    LOOK = 64 << 10 /* bytes of text from one look at the deadline to the next: 0.1 ms */
};

/* A larger buffer; false leaves the writer as it was. */
static bool grow(srv_json *j, size_t room) {
    char *data = attn_arena_take(j->req->arena, room);
    if (!data)
        return false;
    memcpy(data, j->data, j->size);
    j->data = data;
    j->room = room;
    return true;
}

bool srv_json_room(srv_json *j, size_t more) {
    size_t need;
    if (!j->failed && j->size >= j->look_at) {
        attn_error err;
        j->failed = attn_control_check(&j->req->control, &err) != ATTN_OK;
        j->look_at = j->size + LOOK;
    }
    if (!j->failed && more > j->room - j->size)
        j->failed = !attn_size_add(j->size, more, &need) || need > SIZE_MAX / 2 ||
                    (!grow(j, need > 2 * j->room ? need : 2 * j->room) && !grow(j, need));
    return !j->failed;
}

static void put(srv_json *j, const char *text, size_t n) {
    if (!srv_json_room(j, n))
        return;
    memcpy(j->data + j->size, text, n);
    j->size += n;
}

/* What comes before a value or a key: a comma, unless it is the first or follows its key. */
static void open_value(srv_json *j) {
    if (!j->after_key && !j->first[j->depth])
        put(j, ",", 1);
    j->after_key = false;
    j->first[j->depth] = false;
}

void srv_json_begin(srv_json *j, srv_request *req) {
    bool binary = req->accept & (SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY);
    *j = (srv_json){.req = req, .decimals = -1, .parts = req->parts, .look_at = LOOK};
    if (!j->parts && binary)
        j->parts = attn_arena_zeroed(req->arena, 1, sizeof *j->parts);
    j->first[0] = true;
    j->data = attn_arena_take(req->arena, FIRST_ROOM);
    j->room = j->data ? FIRST_ROOM : 0;
    j->failed = !j->data || (binary && !j->parts);
}

void srv_json_reserve(srv_json *j, size_t bytes) {
    size_t need, run = SRV_RUN * (ATTN_NUMBER_TEXT + 1); /* what the last run of numbers asks for */
    if (!j->failed && attn_size_add(j->size + run, bytes, &need) && need > j->room)
        grow(j, need);
}

static void descend(srv_json *j, const char *bracket) {
    open_value(j);
    if (j->depth == SRV_JSON_DEPTH) {
        j->failed = true;
        return;
    }
    put(j, bracket, 1);
    j->first[++j->depth] = true;
}

static void ascend(srv_json *j, const char *bracket) {
    if (j->depth > 0)
        j->depth--;
    put(j, bracket, 1);
}

void srv_json_object(srv_json *j) {
    descend(j, "{");
}

void srv_json_object_end(srv_json *j) {
    ascend(j, "}");
}

void srv_json_array(srv_json *j) {
    descend(j, "[");
    j->lists++;
}

void srv_json_array_end(srv_json *j) {
    j->lists--;
    ascend(j, "]");
}

static void put_text(srv_json *j, const char *text) {
    size_t n = strlen(text), most;
    if (!attn_size_mul(n, ATTN_ESCAPE_MOST, &most) || !srv_json_room(j, most + 2)) {
        j->failed = true;
        return;
    }
    char *p = j->data + j->size;
    *p++ = '"';
    p = attn_escape(p, text, n);
    *p++ = '"';
    j->size = (size_t)(p - j->data);
}

void srv_json_key(srv_json *j, const char *key) {
    j->names[j->depth] = key;
    j->key_at = j->size;
    j->key_first = j->first[j->depth];
    open_value(j);
    put_text(j, key);
    put(j, ":", 1);
    j->after_key = true;
}

void srv_json_string(srv_json *j, const char *text) {
    if (!text) {
        srv_json_null(j);
        return;
    }
    open_value(j);
    put_text(j, text);
}

void srv_json_raw(srv_json *j, const char *text, size_t size) {
    open_value(j);
    put(j, text, size);
}

void srv_json_null(srv_json *j) {
    srv_json_raw(j, "null", 4);
}

void srv_json_bool(srv_json *j, bool value) {
    srv_json_raw(j, value ? "true" : "false", value ? 4 : 5);
}

void srv_json_int(srv_json *j, int64_t value) {
    char text[ATTN_NUMBER_TEXT];
    srv_json_raw(j, text, (size_t)(attn_write_i64(text, value) - text));
}

void srv_json_size(srv_json *j, size_t value) {
    if (value <= INT64_MAX)
        srv_json_int(j, (int64_t)value);
    else
        srv_json_real(j, (double)value);
}

void srv_json_real(srv_json *j, double value) {
    char text[ATTN_NUMBER_TEXT];
    srv_json_raw(j, text, (size_t)(srv_write_real(text, value, -1) - text));
}

void srv_json_float(srv_json *j, float value) {
    char text[ATTN_NUMBER_TEXT];
    srv_json_raw(j, text, (size_t)(srv_write_float(text, value, j->decimals) - text));
}

/* One row as [a,b,c]; its last comma becomes the bracket. */
static void put_row(srv_json *j, const char *src, attn_dtype dtype, ptrdiff_t stride, size_t n) {
    put(j, "[", 1);
    for (size_t i = 0; i < n; i += SRV_RUN) {
        size_t run = n - i < SRV_RUN ? n - i : SRV_RUN;
        if (!srv_json_room(j, run * (ATTN_NUMBER_TEXT + 1)))
            return;
        const char *at = src + (ptrdiff_t)i * stride * (ptrdiff_t)attn_dtype_size(dtype);
        char *p = srv_write_run(j->data + j->size, at, dtype, stride, run, j->decimals);
        j->size = (size_t)(p - j->data);
    }
    if (n > 0 && !j->failed)
        j->data[j->size - 1] = ']';
    else
        put(j, "]", 1);
}

/* Can rows of the last two axes be written as a run? */
static bool has_short_rows(const srv_json *j, const attn_tensor *t, int axis) {
    const size_t width = t->dims[axis + 1];
    return t->dtype == ATTN_F32 && j->decimals < 0 && t->dims[axis] > 0 && width > 0 &&
           width <= SRV_RUN / 2 && t->strides[axis + 1] == 1 &&
           t->strides[axis] == (ptrdiff_t)width;
}

/* [[a,b],[c,d]]: what opens one more row becomes the last bracket. */
static void put_short_rows(srv_json *j, const float *src, size_t rows, size_t width) {
    const size_t most = SRV_RUN / width;
    put(j, "[[", 2);
    for (size_t i = 0; i < rows; i += most) {
        size_t run = rows - i < most ? rows - i : most;
        if (!srv_json_room(j, run * width * (ATTN_NUMBER_TEXT + 1)))
            return;
        char *p = attn_write_single_rows(j->data + j->size, src + i * width, run, width);
        j->size = (size_t)(p - j->data);
    }
    j->size--;
    j->data[j->size - 1] = ']';
}

static void put_axis(srv_json *j, const attn_tensor *t, int axis, const char *src) {
    size_t n = t->dims[axis];
    if (axis + 1 == t->rank) {
        put_row(j, src, t->dtype, t->strides[axis], n);
        return;
    }
    if (axis + 2 == t->rank && has_short_rows(j, t, axis)) {
        put_short_rows(j, (const float *)(const void *)src, n, t->dims[axis + 1]);
        return;
    }
    ptrdiff_t step = t->strides[axis] * (ptrdiff_t)attn_dtype_size(t->dtype);
    put(j, "[", 1);
    for (size_t i = 0; i < n && !j->failed; i++) {
        if (i > 0)
            put(j, ",", 1);
        put_axis(j, t, axis + 1, src + (ptrdiff_t)i * step);
    }
    put(j, "]", 1);
}

/* Take the key back and hand the tensor over; depth 1 is the answer's own object. */
static void put_part(srv_json *j, const attn_tensor *t) {
    j->size = j->key_at;
    j->first[j->depth] = j->key_first;
    j->after_key = false;
    if (!j->failed)
        j->failed = !srv_parts_add(j->req, j->parts, j->names + 1, j->depth - 1, t);
}

void srv_json_tensor(srv_json *j, const attn_tensor *t) {
    size_t count, likely;
    if (j->parts && j->after_key && j->lists == 0 && t->rank > 0) {
        put_part(j, t);
        return;
    }
    if (t->rank == 0) {
        srv_json_null(j);
        return;
    }
    open_value(j);
    if (!j->failed && attn_tensor_count(t, &count) && attn_size_mul(count, LIKELY, &likely) &&
        likely > j->room - j->size && attn_size_add(likely, j->size, &likely))
        grow(j, likely); /* without it the buffer still grows as it fills */
    if (!srv_json_pieces(j, t))
        put_axis(j, t, 0, t->data);
}

void srv_json_tensor_single(srv_json *j, const attn_tensor *t) {
    size_t count = 0, bytes;
    float *singles = NULL;
    if (attn_tensor_count(t, &count) && attn_size_mul(count, sizeof *singles, &bytes))
        singles = attn_arena_take(j->req->arena, bytes);
    if (!singles) {
        j->failed = true;
        return;
    }
    attn_widen_f32(singles, t->data, ATTN_F64, 1, count);
    const attn_tensor narrow = attn_tensor_dense(singles, ATTN_F32, t->rank, t->dims);
    srv_json_tensor(j, &narrow);
}

void srv_json_floats(srv_json *j, const float *values, size_t n) {
    open_value(j);
    put_row(j, (const char *)values, ATTN_F32, 1, n);
}

void srv_json_base64(srv_json *j, const void *bytes, size_t n) {
    open_value(j);
    if (n >= SIZE_MAX / 4 || !srv_json_room(j, attn_base64_length(n) + 2)) {
        j->failed = true;
        return;
    }
    char *p = j->data + j->size;
    *p++ = '"';
    p = attn_base64_encode(p, bytes, n);
    *p++ = '"';
    j->size = (size_t)(p - j->data);
}

bool srv_json_end(srv_json *j) {
    attn_error err;
    put(j, j->parts ? "\0" : "\n", 1);
    if (j->failed && attn_control_check(&j->req->control, &err)) {
        srv_problem_error(j->req, &err);
        return false;
    }
    if (j->failed) {
        srv_problem_limit(j->req, SRV_TOO_LARGE, NULL, (double)attn_arena_limit(j->req->arena),
                          "max_request_bytes",
                          "The answer does not fit the memory of this request: ask for less "
                          "(\"return\", \"decimals\") or send smaller tensors");
        return false;
    }
    attn_arena_shrink(j->req->arena, j->data, j->size);
    if (j->parts) {
        j->parts->rest = j->data;
        j->parts->rest_size = j->size - 1;
        j->parts->decimals = j->decimals;
        srv_reply_set(j->req, 200, "application/json", j->data, j->size - 1);
        return j->req->parts != NULL || srv_parts_reply(j->req, j->parts);
    }
    srv_reply_set(j->req, 200, "application/json", j->data, j->size);
    return true;
}
