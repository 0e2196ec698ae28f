/* Large tensors to text in pieces by several workers: each worker writes a piece into scratch
 * memory of its own, waits until the pieces before it know how long they are, and copies it behind
 * them. The brackets around an element depend on its place alone, so that the bytes are those of
 * one worker. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "number/number.h"
#include "wire/json_run.h"

enum {
    PIECE = 4096,    /* elements: 30 microseconds */
    LEAST = 1 << 16, /* elements of a tensor for which it is worth it */
    SINGLE = 16,     /* bytes of the longest float32 with its comma: -1.1754944e-38 */
    PATIENCE = 1000  /* looks at another worker before the processor is given away */
};

typedef struct work {
    const attn_tensor *t;
    size_t count, width;
    int decimals;
    char *scratch; /* of each lane `room` bytes */
    size_t room;
    char *to;           /* where the text goes */
    atomic_size_t turn; /* the next piece in line; its worker alone looks at .. */
    size_t size;        /* .. the bytes of all before it */
} work;

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

/* Behind the last element of a row, before element `at`: its comma becomes a bracket. */
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

static char *write_piece(const work *w, size_t at, size_t end, char *p) {
    if (at == 0)
        p = brackets(p, '[', w->t->rank);
    while (at < end) {
        size_t n = w->width - at % w->width;
        n = n < end - at ? n : end - at;
        n = n < SRV_RUN ? n : SRV_RUN;
        p = srv_write_run(p, element(w->t, at), w->t->dtype, w->t->strides[w->t->rank - 1], n,
                          w->decimals);
        at += n;
        if (at % w->width == 0)
            p = end_row(w, at, p);
    }
    return p;
}

/* Pieces are begun in their order, so the first that is not done waits for nobody. */
static attn_status put_piece(void *ctx, size_t i, size_t lane, attn_error *err) {
    work *w = ctx;
    size_t at = i * PIECE, end = w->count - at < PIECE ? w->count : at + PIECE;
    char *from = w->scratch + lane * w->room;
    size_t size = (size_t)(write_piece(w, at, end, from) - from);
    (void)err;
    for (int looks = 0; atomic_load_explicit(&w->turn, memory_order_acquire) != i; looks++)
        if (looks >= PATIENCE)
            sched_yield();
    char *to = w->to + w->size;
    w->size += size;
    atomic_store_explicit(&w->turn, i + 1, memory_order_release);
    memcpy(to, from, size);
    return ATTN_OK;
}

/* The most that the text can be; false: too much to count. */
static bool bound_text(const work *w, size_t *out) {
    attn_dtype dtype = w->t->dtype;
    bool single = dtype == ATTN_F32 || dtype == ATTN_F16 || dtype == ATTN_BF16;
    size_t number = single && w->decimals < 0 ? SINGLE : ATTN_NUMBER_TEXT + 1;
    size_t row = 2 * (size_t)w->t->rank + 1, rows;
    return attn_size_mul(w->count, number, out) && attn_size_mul(w->count / w->width, row, &rows) &&
           attn_size_add(*out, rows, out);
}

bool srv_json_pieces(srv_json *j, const attn_tensor *t) {
    attn_pool *pool = srv_request_pool(j->req);
    attn_arena *arena = j->req->arena;
    size_t lanes = attn_pool_slots(pool), bytes;
    work w = {.t = t, .decimals = j->decimals, .width = t->dims[t->rank - 1]};
    if (j->failed || lanes < 2 || !attn_tensor_count(t, &w.count) || w.count < LEAST ||
        !bound_text(&w, &bytes))
        return false;
    if (!srv_json_room(j, bytes)) { /* for less there may be */
        j->failed = false;
        return false;
    }
    w.room = PIECE * (ATTN_NUMBER_TEXT + 1) + (PIECE / w.width + 2) * (2 * ATTN_MAX_RANK);
    w.scratch = attn_arena_take(arena, lanes * w.room);
    if (!w.scratch)
        return false;
    w.to = j->data + j->size;
    atomic_init(&w.turn, 0);
    bool ok =
        !attn_pool_run(pool, (w.count + PIECE - 1) / PIECE, put_piece, &w, &j->req->control, NULL);
    attn_arena_shrink(arena, w.scratch, 0);
    j->size += ok ? w.size : 0;
    return ok;
}
