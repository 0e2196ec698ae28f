/* Writes tensors into the text of an answer, or beside it. */
#include "wire/json_out.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "number/number.h"

enum {
    RUN = 128,  /* most numbers that are converted to text at a time, called a run */
    LIKELY = 12 /* expected bytes of a number in a tensor, comma included */
};

/* Writes n <= RUN elements of any type at p, each followed by a comma. Returns the end of the text,
 * which has at most n * (ATTN_NUMBER_TEXT + 1) bytes. `stride` is the distance from one element to
 * the next, counted in elements. */
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
            p = attn_json_number(p, wide.f[i], decimals);
        break;
    case ATTN_F64:
        attn_widen_f64(wide.d, src, dtype, stride, n);
        for (size_t i = 0; i < n; i++, *p++ = ',')
            p = attn_json_number(p, wide.d[i], decimals);
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
    case ATTN_BITS: /* writes the bytes; no answer has bits */
        for (size_t i = 0; i < n; i++, *p++ = ',')
            p = attn_write_i64(p, ((const uint8_t *)src)[(ptrdiff_t)i * stride]);
        break;
    }
    return p;
}

void srv_json_begin(attn_json_text *j, srv_request *req) {
    const bool binary = req->accept & (SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY);
    *j = (attn_json_text){.arena = req->arena,
                          .control = &req->control,
                          .decimals = -1,
                          .owner = req,
                          .aside = req->parts};
    if (!req->parts && binary) {
        j->aside = attn_arena_zeroed(req->arena, 1, sizeof(srv_parts));
        j->failed = !j->aside;
    }
}

attn_json_text srv_json_object(srv_request *req) {
    attn_json_text j;
    srv_json_begin(&j, req);
    attn_json_object(&j);
    return j;
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
    size_t count; /* elements of the tensor */
    size_t width; /* elements of its last axis */
    int decimals;
    char *scratch; /* `room` bytes for each worker */
    size_t room;
    char *to;           /* where the text of the tensor begins in the buffer */
    atomic_size_t next; /* index of the piece that is placed next */
    size_t size;        /* bytes of all placed pieces; only the worker of piece `next` uses it */
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

/* Writes piece i on worker `lane`. The pool starts pieces in order. Therefore the worker of the
 * first piece that is not placed yet never waits for another worker. */
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

/* Writes a tensor of `count` elements, at least LEAST, in pieces. Returns false if nothing was
 * written and put_axis must write the tensor: there is only one worker, there is no memory, or the
 * deadline has passed. */
static bool put_pieces(attn_json_text *j, const attn_tensor *t, size_t count) {
    srv_request *req = srv_json_request(j);
    attn_pool *pool = srv_request_pool(req);
    size_t lanes = attn_pool_slots(pool), bytes;
    work w = {.t = t, .count = count, .decimals = j->decimals, .width = t->dims[t->rank - 1]};
    if (j->failed || lanes < 2 || !bound_text(&w, &bytes))
        return false;
    if (!attn_json_room(j, bytes)) { /* put_axis may need less memory than this bound */
        j->failed = false;
        return false;
    }
    w.room = PIECE * (ATTN_NUMBER_TEXT + 1) + (PIECE / w.width + 2) * (2 * ATTN_MAX_RANK);
    w.scratch = attn_arena_take(j->arena, lanes * w.room);
    if (!w.scratch)
        return false;
    w.to = j->data + j->size;
    atomic_init(&w.next, 0);
    bool ok =
        !attn_pool_run(pool, (w.count + PIECE - 1) / PIECE, put_piece, &w, &req->control, NULL);
    attn_arena_shrink(j->arena, w.scratch, 0);
    j->size += ok ? w.size : 0;
    return ok;
}

/* --- tensors --- */

/* Writes n elements as [a,b,c]. The last element is first written with a comma, which is then
 * replaced by the bracket. */
static void put_row(attn_json_text *j, const char *src, attn_dtype dtype, ptrdiff_t stride,
                    size_t n) {
    attn_json_put(j, "[", 1);
    for (size_t i = 0; i < n; i += RUN) {
        size_t run = n - i < RUN ? n - i : RUN;
        char *p = attn_json_room(j, run * (ATTN_NUMBER_TEXT + 1));
        if (!p)
            return;
        const char *at = src + (ptrdiff_t)i * stride * (ptrdiff_t)attn_dtype_size(dtype);
        p = write_run(p, at, dtype, stride, run, j->decimals);
        j->size = (size_t)(p - j->data);
    }
    if (n > 0 && !j->failed)
        j->data[j->size - 1] = ']';
    else
        attn_json_put(j, "]", 1);
}

/* Returns whether put_short_rows can write the last two axes: rows of contiguous float32 values,
 * each so short that two or more rows have at most RUN elements. */
static bool has_short_rows(const attn_json_text *j, const attn_tensor *t, int axis) {
    const size_t width = t->dims[axis + 1];
    return t->dtype == ATTN_F32 && j->decimals < 0 && t->dims[axis] > 0 && width > 0 &&
           width <= RUN / 2 && t->strides[axis + 1] == 1 && t->strides[axis] == (ptrdiff_t)width;
}

/* Writes rows of `width` elements as [[a,b],[c,d]], several rows in one call. The last row is first
 * written with ",[" behind it, which is then replaced by the final bracket. */
static void put_short_rows(attn_json_text *j, const float *src, size_t rows, size_t width) {
    const size_t most = RUN / width;
    attn_json_put(j, "[[", 2);
    for (size_t i = 0; i < rows; i += most) {
        size_t run = rows - i < most ? rows - i : most;
        char *p = attn_json_room(j, run * width * (ATTN_NUMBER_TEXT + 1));
        if (!p)
            return;
        p = attn_write_single_rows(p, src + i * width, run, width);
        j->size = (size_t)(p - j->data);
    }
    j->size--;
    j->data[j->size - 1] = ']';
}

/* Writes a part of the tensor as nested lists. The part has the axes `axis`, axis + 1, …, and `src`
 * is its first element. */
static void put_axis(attn_json_text *j, const attn_tensor *t, int axis, const char *src) {
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
    attn_json_put(j, "[", 1);
    for (size_t i = 0; i < n && !j->failed; i++) {
        if (i > 0)
            attn_json_put(j, ",", 1);
        put_axis(j, t, axis + 1, src + (ptrdiff_t)i * step);
    }
    attn_json_put(j, "]", 1);
}

/* Removes the key of the tensor from the text and adds the tensor to the parts. Its name consists
 * of the keys from depth 1, the members of the answer, to the present depth. */
static void put_part(attn_json_text *j, const attn_tensor *t) {
    attn_json_drop_key(j);
    if (!j->failed)
        j->failed = !srv_parts_add(srv_json_request(j), j->aside, j->names + 1, j->depth - 1, t);
}

void srv_json_tensor(attn_json_text *j, const attn_tensor *t) {
    size_t count, likely;
    if (j->aside && j->lists == 0 && t->rank > 0 && attn_json_after_key(j)) {
        put_part(j, t);
        return;
    }
    if (t->rank == 0) {
        attn_json_null(j);
        return;
    }
    attn_json_value(j);
    const bool counted = attn_tensor_count(t, &count);
    if (counted && attn_size_mul(count, LIKELY, &likely) && likely > j->room - j->size)
        attn_json_reserve(j, likely); /* if this fails, the text grows as it fills */
    if (!counted || count < LEAST || !put_pieces(j, t, count))
        put_axis(j, t, 0, t->data);
}

void srv_json_tensor_single(attn_json_text *j, const attn_tensor *t) {
    size_t count = 0, bytes;
    float *singles = NULL;
    if (attn_tensor_count(t, &count) && attn_size_mul(count, sizeof *singles, &bytes))
        singles = attn_arena_take(j->arena, bytes);
    if (!singles) {
        j->failed = true;
        return;
    }
    attn_widen_f32(singles, t->data, ATTN_F64, 1, count);
    const attn_tensor narrow = attn_tensor_dense(singles, ATTN_F32, t->rank, t->dims);
    srv_json_tensor(j, &narrow);
}

void srv_json_key_tensor(attn_json_text *j, const char *key, const attn_tensor *t) {
    attn_json_key(j, key);
    srv_json_tensor(j, t);
}

void srv_json_floats(attn_json_text *j, const float *values, size_t n) {
    attn_json_value(j);
    put_row(j, (const char *)values, ATTN_F32, 1, n);
}

bool srv_json_end(attn_json_text *j) {
    srv_request *req = srv_json_request(j);
    srv_parts *parts = j->aside;
    attn_error err;
    attn_json_put(j, parts ? "\0" : "\n", 1);
    if (j->failed && attn_control_check(&req->control, &err))
        return srv_problem_error(req, &err);
    if (j->failed)
        return srv_problem_limit(req, SRV_TOO_LARGE, NULL, (double)attn_arena_limit(j->arena),
                                 "max_request_bytes",
                                 "The answer does not fit the memory of this request: ask for less "
                                 "(\"return\", \"decimals\") or send smaller tensors");
    attn_arena_shrink(j->arena, j->data, j->size);
    srv_reply_set(req, 200, "application/json", j->data, j->size - (parts != NULL));
    if (!parts)
        return true;
    parts->rest = j->data;
    parts->rest_size = j->size - 1;
    parts->decimals = j->decimals;
    return req->parts != NULL || srv_parts_reply(req, parts);
}

bool srv_json_object_end(attn_json_text *j) {
    attn_json_object_end(j);
    return srv_json_end(j);
}
