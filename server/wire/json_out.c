/* The JSON writer. Every value begins with `open_value`, which writes the comma before it.
 *
 * The buffer is a block of the arena. `make_room` is called before each write, for up to RUN
 * numbers at a time. A buffer that is too small is replaced by one of at least twice the size. The
 * old block stays in the arena until the request ends, which wastes memory; therefore a tensor
 * first reserves the size that its text will probably have. */
#include "wire/json_out.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "number/base64.h"
#include "number/number.h"
#include "number/print_small.h"

enum {
    FIRST_ROOM = 1024, /* first size of the buffer in bytes */
    RUN = 128,         /* numbers that are converted between two calls of make_room */
    LIKELY = 12,       /* expected bytes of a number in a tensor, comma included */
    LOOK = 64 << 10    /* bytes of text between two checks of the deadline, about 0.1 ms */
};

/* --- numbers to text --- */

/* Writes a number of at most ATTN_NUMBER_TEXT bytes at p and returns its end. `decimals` is as in
 * srv_json. A number that is not finite becomes null. */
static char *write_real(char *p, double value, int decimals) {
    if (!isfinite(value)) {
        memcpy(p, "null", 4);
        return p + 4;
    }
    return decimals < 0 ? attn_write_f64(p, value) : attn_write_decimals(p, value, decimals);
}

static char *write_float(char *p, float value, int decimals) {
    if (decimals < 0 && isfinite(value))
        return attn_write_f32(p, value);
    return write_real(p, value, decimals);
}

/* Writes n <= RUN elements of any type at p, each followed by a comma, and returns the end.
 * `stride` is the distance of two elements in elements. At most n * (ATTN_NUMBER_TEXT + 1) bytes
 * are written. */
static char *write_run(char *p, const char *src, attn_dtype dtype, ptrdiff_t stride, size_t n,
                       int decimals) {
    union {
        float f[RUN];
        double d[RUN];
    } wide;
    switch (dtype) {
    case ATTN_F32:
    case ATTN_F16:
    case ATTN_BF16:
        if (decimals < 0 && dtype == ATTN_F32 && stride == 1)
            return attn_write_singles(p, (const float *)(const void *)src, n);
        attn_widen_f32(wide.f, src, dtype, stride, n);
        if (decimals < 0)
            return attn_write_singles(p, wide.f, n);
        for (size_t i = 0; i < n; i++, *p++ = ',')
            p = write_float(p, wide.f[i], decimals);
        break;
    case ATTN_F64:
        attn_widen_f64(wide.d, src, dtype, stride, n);
        for (size_t i = 0; i < n; i++, *p++ = ',')
            p = write_real(p, wide.d[i], decimals);
        break;
    case ATTN_BOOL:
        for (size_t i = 0; i < n; i++, *p++ = ',') {
            bool on = src[(ptrdiff_t)i * stride] != 0;
            memcpy(p, on ? "true" : "false", on ? 4 : 5);
            p += on ? 4 : 5;
        }
        break;
    case ATTN_I64:
        for (size_t i = 0; i < n; i++, *p++ = ',')
            p = attn_write_i64(p, ((const int64_t *)(const void *)src)[(ptrdiff_t)i * stride]);
        break;
    case ATTN_I32:
        for (size_t i = 0; i < n; i++, *p++ = ',')
            p = attn_write_i64(p, ((const int32_t *)(const void *)src)[(ptrdiff_t)i * stride]);
        break;
    case ATTN_U8:
        for (size_t i = 0; i < n; i++, *p++ = ',')
            p = attn_write_i64(p, ((const uint8_t *)src)[(ptrdiff_t)i * stride]);
        break;
    }
    return p;
}

/* --- the buffer --- */

/* Moves the text to a buffer of `room` bytes. false: there is no memory, and nothing has changed.
 */
static bool grow(srv_json *j, size_t room) {
    char *data = attn_arena_take(j->req->arena, room);
    if (!data)
        return false;
    memcpy(data, j->data, j->size);
    j->data = data;
    j->room = room;
    return true;
}

/* Makes room for `more` bytes at data + size, and checks the deadline from time to time. Returns
 * false if memory ran out or the deadline has passed; `failed` is then set. */
static bool make_room(srv_json *j, size_t more) {
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
    if (!make_room(j, n))
        return;
    memcpy(j->data + j->size, text, n);
    j->size += n;
}

/* Writes the comma before a value or a key. There is none before the first one of a list or an
 * object and between a key and its value. */
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
    size_t need, run = RUN * (ATTN_NUMBER_TEXT + 1); /* what make_room asks for at the end */
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
    if (!attn_size_mul(n, ATTN_ESCAPE_MOST, &most) || !make_room(j, most + 2)) {
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
    srv_json_raw(j, text, (size_t)(write_real(text, value, -1) - text));
}

void srv_json_float(srv_json *j, float value) {
    char text[ATTN_NUMBER_TEXT];
    srv_json_raw(j, text, (size_t)(write_float(text, value, j->decimals) - text));
}

/* --- large tensors ---
 *
 * The workers of the pool write a large tensor in pieces of PIECE elements. A worker writes a piece
 * into scratch memory of its own. The place of the text in the buffer depends on the lengths of all
 * earlier pieces; therefore the worker waits until these have been placed, and then copies its text
 * behind theirs. The brackets around an element depend only on its index, so the text is the same
 * for any number of workers. */

enum {
    PIECE = 4096,    /* elements of a piece, about 30 microseconds of work */
    LEAST = 1 << 16, /* smallest number of elements of a tensor that is written in pieces */
    SINGLE = 16,     /* bytes of the longest float32 with its comma, -1.1754944e-38 */
    PATIENCE = 1000  /* checks of another worker's progress before sched_yield */
};

typedef struct work {
    const attn_tensor *t;
    size_t count, width; /* elements of the tensor, and of its last axis */
    int decimals;
    char *scratch; /* `room` bytes for each worker */
    size_t room;
    char *to;           /* where the text of the tensor begins in the buffer */
    atomic_size_t next; /* index of the piece that is placed next; only its worker uses `size` */
    size_t size;        /* bytes of all pieces that have been placed */
} work;

/* Returns the address of the element with the row-major index `at`. */
static const char *element(const attn_tensor *t, size_t at) {
    ptrdiff_t offset = 0;
    for (int i = t->rank - 1; i >= 0; at /= t->dims[i], i--)
        offset += (ptrdiff_t)(at % t->dims[i]) * t->strides[i];
    return (const char *)t->data + offset * (ptrdiff_t)attn_dtype_size(t->dtype);
}

static char *brackets(char *p, char bracket, int n) {
    memset(p, bracket, (size_t)n);
    return p + n;
}

/* Writes the brackets behind a complete row at p, where `at` is the index of the next element: "]"
 * for each list that ends, and ",[" with as many brackets for the lists that begin. The comma
 * behind the row's last element is replaced by the first bracket. */
static char *end_row(const work *w, size_t at, char *p) {
    size_t row = at / w->width;
    int closed = 1;
    for (int i = w->t->rank - 2; i >= 0 && row % w->t->dims[i] == 0; row /= w->t->dims[i], i--)
        closed++;
    p[-1] = ']';
    p = brackets(p, ']', closed - 1);
    if (at == w->count)
        return p;
    *p++ = ',';
    return brackets(p, '[', closed);
}

/* Writes the elements from index `at` to `end` with their commas and brackets at p. */
static char *write_piece(const work *w, size_t at, size_t end, char *p) {
    if (at == 0)
        p = brackets(p, '[', w->t->rank);
    while (at < end) {
        size_t n = w->width - at % w->width;
        n = n < end - at ? n : end - at;
        n = n < RUN ? n : RUN;
        p = write_run(p, element(w->t, at), w->t->dtype, w->t->strides[w->t->rank - 1], n,
                      w->decimals);
        at += n;
        if (at % w->width == 0)
            p = end_row(w, at, p);
    }
    return p;
}

/* Writes piece i on worker `lane`. The pool starts pieces in order, so the worker of the first
 * piece that is not placed yet never waits for another one. */
static attn_status put_piece(void *ctx, size_t i, size_t lane, attn_error *err) {
    work *w = ctx;
    size_t at = i * PIECE, end = w->count - at < PIECE ? w->count : at + PIECE;
    char *from = w->scratch + lane * w->room;
    size_t size = (size_t)(write_piece(w, at, end, from) - from);
    (void)err;
    for (int looks = 0; atomic_load_explicit(&w->next, memory_order_acquire) != i; looks++)
        if (looks >= PATIENCE)
            sched_yield();
    char *to = w->to + w->size;
    w->size += size;
    atomic_store_explicit(&w->next, i + 1, memory_order_release);
    memcpy(to, from, size);
    return ATTN_OK;
}

/* Computes an upper bound of the bytes of the tensor's text. Returns false on overflow. */
static bool bound_text(const work *w, size_t *out) {
    attn_dtype dtype = w->t->dtype;
    bool single = dtype == ATTN_F32 || dtype == ATTN_F16 || dtype == ATTN_BF16;
    size_t number = single && w->decimals < 0 ? SINGLE : ATTN_NUMBER_TEXT + 1;
    size_t row = 2 * (size_t)w->t->rank + 1, rows;
    return attn_size_mul(w->count, number, out) && attn_size_mul(w->count / w->width, row, &rows) &&
           attn_size_add(*out, rows, out);
}

/* Writes a large tensor in pieces. Returns false if nothing was written and put_axis must write the
 * tensor: it is small, there is only one worker, there is no memory, or the deadline has passed. */
static bool put_pieces(srv_json *j, const attn_tensor *t) {
    attn_pool *pool = srv_request_pool(j->req);
    attn_arena *arena = j->req->arena;
    size_t lanes = attn_pool_slots(pool), bytes;
    work w = {.t = t, .decimals = j->decimals, .width = t->dims[t->rank - 1]};
    if (j->failed || lanes < 2 || !attn_tensor_count(t, &w.count) || w.count < LEAST ||
        !bound_text(&w, &bytes))
        return false;
    if (!make_room(j, bytes)) { /* put_axis may need less memory than this bound */
        j->failed = false;
        return false;
    }
    w.room = PIECE * (ATTN_NUMBER_TEXT + 1) + (PIECE / w.width + 2) * (2 * ATTN_MAX_RANK);
    w.scratch = attn_arena_take(arena, lanes * w.room);
    if (!w.scratch)
        return false;
    w.to = j->data + j->size;
    atomic_init(&w.next, 0);
    bool ok =
        !attn_pool_run(pool, (w.count + PIECE - 1) / PIECE, put_piece, &w, &j->req->control, NULL);
    attn_arena_shrink(arena, w.scratch, 0);
    j->size += ok ? w.size : 0;
    return ok;
}

/* --- tensors --- */

/* Writes n elements as [a,b,c]. The comma behind the last element is replaced by the bracket. */
static void put_row(srv_json *j, const char *src, attn_dtype dtype, ptrdiff_t stride, size_t n) {
    put(j, "[", 1);
    for (size_t i = 0; i < n; i += RUN) {
        size_t run = n - i < RUN ? n - i : RUN;
        if (!make_room(j, run * (ATTN_NUMBER_TEXT + 1)))
            return;
        const char *at = src + (ptrdiff_t)i * stride * (ptrdiff_t)attn_dtype_size(dtype);
        char *p = write_run(j->data + j->size, at, dtype, stride, run, j->decimals);
        j->size = (size_t)(p - j->data);
    }
    if (n > 0 && !j->failed)
        j->data[j->size - 1] = ']';
    else
        put(j, "]", 1);
}

/* Returns whether put_short_rows can write the last two axes: rows of contiguous float32 values,
 * each so short that two or more rows have at most RUN elements. */
static bool has_short_rows(const srv_json *j, const attn_tensor *t, int axis) {
    const size_t width = t->dims[axis + 1];
    return t->dtype == ATTN_F32 && j->decimals < 0 && t->dims[axis] > 0 && width > 0 &&
           width <= RUN / 2 && t->strides[axis + 1] == 1 && t->strides[axis] == (ptrdiff_t)width;
}

/* Writes rows of `width` elements as [[a,b],[c,d]], several rows in one call. The ",[" behind the
 * last row is replaced by the final bracket. */
static void put_short_rows(srv_json *j, const float *src, size_t rows, size_t width) {
    const size_t most = RUN / width;
    put(j, "[[", 2);
    for (size_t i = 0; i < rows; i += most) {
        size_t run = rows - i < most ? rows - i : most;
        if (!make_room(j, run * width * (ATTN_NUMBER_TEXT + 1)))
            return;
        char *p = attn_write_single_rows(j->data + j->size, src + i * width, run, width);
        j->size = (size_t)(p - j->data);
    }
    j->size--;
    j->data[j->size - 1] = ']';
}

/* Writes the axes of the tensor from `axis` on as nested lists. `src` is the first element. */
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

/* Removes the key of the tensor from the text and adds the tensor to the parts. Its name consists
 * of the keys from depth 1, the members of the answer, to the present depth. */
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
        grow(j, likely); /* if this fails, the buffer grows as it fills */
    if (!put_pieces(j, t))
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
    if (n >= SIZE_MAX / 4 || !make_room(j, attn_base64_length(n) + 2)) {
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
