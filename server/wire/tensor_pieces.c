/* Large nested lists of float32, read in pieces by several workers.
 *
 * Commas are counted first, piece by piece. Every list has as many elements as the first row, so
 * the count before a row is the place of its elements. Each piece then reads the rows that begin in
 * it, and notes how many lists end behind each row; the shape comes from these notes. Whatever is
 * unusual (white space between brackets, a row of another length, something that is no number)
 * ends all of this, and the ordinary reader, which words errors, begins anew. The result therefore
 * never depends on the number of workers. */
#include <string.h>

#include "number/number.h"
#include "wire/tensor_read.h"

enum { PIECE = 1 << 18 }; /* bytes of text */

typedef struct work {
    const srv_scan *s;
    const char *from, *to; /* the lists, from their first '[' to behind their last ']' */
    size_t *commas;        /* in each piece; later, before each piece */
    size_t width, rows;
    float *data;
    uint8_t *closed; /* for each row: how many lists end with it */
} work;

static const char *piece_end(const work *w, size_t i) {
    size_t left = (size_t)(w->to - w->from) - i * PIECE;
    return w->from + i * PIECE + (left < PIECE ? left : PIECE);
}

static attn_status count_piece(void *ctx, size_t i, size_t lane, attn_error *err) {
    work *w = ctx;
    (void)lane;
    (void)err;
    w->commas[i] = srv_tensor_room(w->from + i * PIECE, piece_end(w, i)) - 1;
    return ATTN_OK;
}

/* The byte behind the innermost bracket of the first row that begins at p or later; NULL: none
 * begins before `end`. A row belongs to the piece that holds this bracket. */
static const char *find_row(const char *p, const char *end) {
    p = memchr(p, '[', (size_t)(end - p));
    while (p && p[1] == '[')
        p++;
    return p && p < end ? p + 1 : NULL;
}

/* Moves *at from the end of a row's numbers to the first number of the next row; NULL behind the
 * last row. false: the text in between is unusual. */
static bool next_row(const work *w, const char **at, size_t row) {
    const char *p = *at;
    size_t closed = 0, opened = 0;
    for (; p < w->to && *p == ']'; p++)
        closed++;
    if (closed == 0 || closed > ATTN_MAX_RANK)
        return false;
    w->closed[row] = (uint8_t)closed;
    if (row + 1 == w->rows) {
        *at = NULL;
        return p == w->to;
    }
    if (p == w->to || *p++ != ',')
        return false;
    p += *p == ' ';
    for (; *p == '['; p++)
        opened++;
    *at = p;
    return opened == closed;
}

static attn_status read_piece(void *ctx, size_t i, size_t lane, attn_error *err) {
    work *w = ctx;
    const char *begin = w->from + i * PIECE, *end = piece_end(w, i), *p = find_row(begin, end);
    (void)lane;
    (void)err;
    if (!p)
        return ATTN_OK;
    size_t before = w->commas[i] + srv_tensor_room(begin, p) - 1, row = before / w->width;
    if (before % w->width)
        return ATTN_EARG;
    for (; p && p - 1 < end; row++) {
        size_t count = 0;
        bool comma = true;
        if (row >= w->rows)
            return ATTN_EARG;
        p = attn_read_singles(p, w->s->start, w->s->end, w->data + row * w->width, w->width, &count,
                              &comma);
        if (count != w->width || comma || *p != ']' || !next_row(w, &p, row))
            return ATTN_EARG;
    }
    return ATTN_OK;
}

/* Finds the shape from the number of lists that end with each row. false: there is none. */
static bool find_shape(const work *w, int rank, size_t dims[ATTN_MAX_RANK]) {
    size_t rows[ATTN_MAX_RANK + 1] = {0, 1}; /* [k]: rows of a list of level k, from inside */
    dims[rank - 1] = w->width;
    for (int k = 2; k <= rank; k++) {
        size_t n = rows[k - 1];
        while (n < w->rows && w->closed[n - 1] < k)
            n += rows[k - 1];
        rows[k] = n;
        dims[rank - k] = n / rows[k - 1];
    }
    if (rows[rank] != w->rows)
        return false;
    for (size_t i = 1; i <= w->rows; i++) {
        int expected = 1;
        while (expected < rank && i % rows[expected + 1] == 0)
            expected++;
        if (w->closed[i - 1] != expected)
            return false;
    }
    return true;
}

/* Finds the text of the lists, which ends with the last bracket before the next string. */
static bool find_text(work *w) {
    const srv_scan *s = w->s;
    w->from = s->p;
    w->to = memchr(s->p, '"', (size_t)(s->end - s->p));
    w->to = w->to ? w->to : s->end;
    while (w->to > w->from && w->to[-1] != ']')
        w->to--;
    return w->to - w->from >= SRV_TENSOR_LARGE;
}

/* Counts elements and rows by the commas. */
static bool count_elements(work *w, attn_pool *pool, size_t pieces, int rank) {
    const srv_request *req = w->s->req;
    size_t elements = 1;
    const char *row = w->from + rank, *close = memchr(row, ']', (size_t)(w->to - row));
    w->width = srv_tensor_room(row, close ? close : row);
    if (attn_pool_run(pool, pieces, count_piece, w, &req->control, NULL))
        return false;
    for (size_t i = 0; i < pieces; i++) {
        size_t here = w->commas[i];
        w->commas[i] = elements - 1;
        elements += here;
    }
    w->rows = elements / w->width;
    return elements % w->width == 0;
}

bool srv_tensor_in_pieces(srv_scan *s, attn_tensor *out) {
    attn_pool *pool = srv_request_pool(s->req);
    attn_arena *arena = s->req->arena;
    work w = {.s = s};
    size_t dims[ATTN_MAX_RANK], bytes;
    int rank = 0;
    if (attn_pool_slots(pool) < 2 || !find_text(&w))
        return false;
    while (rank <= ATTN_MAX_RANK && w.from[rank] == '[')
        rank++;
    if (rank < 2 || rank > ATTN_MAX_RANK || s->depth + (size_t)rank > s->max_depth)
        return false;
    size_t pieces = ((size_t)(w.to - w.from) + PIECE - 1) / PIECE;
    w.commas = attn_arena_zeroed(arena, pieces, sizeof *w.commas);
    if (!w.commas || !count_elements(&w, pool, pieces, rank))
        return false;
    w.closed = attn_arena_zeroed(arena, w.rows, 1);
    if (!w.closed || !attn_size_mul(w.rows * w.width, sizeof(float), &bytes) ||
        !(w.data = attn_arena_take(arena, bytes)))
        return false;
    if (attn_pool_run(pool, pieces, read_piece, &w, &s->req->control, NULL) ||
        !find_shape(&w, rank, dims)) {
        attn_arena_shrink(arena, w.data, 0);
        return false;
    }
    s->p = w.to;
    *out = attn_tensor_dense(w.data, ATTN_F32, rank, dims);
    return true;
}
