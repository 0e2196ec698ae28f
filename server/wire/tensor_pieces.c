/* Reads large nested lists of float32 by several workers. The text is divided into pieces of PIECE
 * bytes. A row is an innermost list of numbers.
 *
 *   1. The workers count the commas of each piece. All rows are assumed to be as long as the first
 *      one. The number of commas before a row then gives the index of its first element.
 *   2. The workers read the rows that begin in each piece, and note for each row how many lists end
 *      behind it: 1 for "]", 2 for "]]".
 *   3. The shape is computed from these notes.
 *
 * If the text is not as assumed (white space between brackets, a row of another length, something
 * that is not a number), nothing is returned, and tensor_list.c reads the text again from its
 * beginning on one thread. Only that reader sets problems. Therefore the result does not depend on
 * the number of workers. */
#include <string.h>

#include "number/number.h"
#include "wire/tensor_read.h"

enum { PIECE = 1 << 18 }; /* bytes of text in a piece */

/* --- counting elements --- */

static size_t count_commas(const char *p, const char *end) {
    size_t n = 0;
    while (p < end) {
        size_t block = end - p < 192 ? (size_t)(end - p) : 192; /* `commas` must fit into a byte */
        uint8_t commas = 0;
        for (size_t i = 0; i < block; i++)
            commas = (uint8_t)(commas + (p[i] == ','));
        n += commas;
        p += block;
    }
    return n;
}

/* Searches each block of 8 KiB first for a quote and then for commas. The block is so short that it
 * is still in the processor's cache in the second search. */
size_t srv_tensor_room(const char *from, const char *to) {
    size_t n = 1;
    while (from < to) {
        size_t piece = to - from < 8192 ? (size_t)(to - from) : 8192;
        const char *quote = memchr(from, '"', piece);
        to = quote ? quote : to;
        piece = quote ? (size_t)(quote - from) : piece;
        n += count_commas(from, from + piece);
        from += piece;
    }
    return n;
}

/* --- lists in pieces --- */

typedef struct work {
    const attn_scan *s;
    const char *from, *to; /* the lists, from the first '[' to behind the last ']' */
    size_t *commas;  /* for each piece: in step 1 its commas, afterwards the commas before it */
    size_t width;    /* elements of a row */
    size_t rows;     /* number of rows */
    float *data;     /* rows * width elements */
    uint8_t *closed; /* for each row: how many lists end behind it */
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

/* Returns a pointer to the first number of the first row that begins at p or later. NULL: no row
 * begins before `end`. A row begins with the '[' directly before its numbers, and belongs to the
 * piece that has this bracket. */
static const char *find_row(const char *p, const char *end) {
    p = memchr(p, '[', (size_t)(end - p));
    while (p && p[1] == '[')
        p++;
    return p && p < end ? p + 1 : NULL;
}

/* Moves *at from the first ']' behind row `row` to the first number of the next row; NULL: this is
 * the last row. Notes how many lists end here. Returns false if the text between the rows is not as
 * assumed. */
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

/* Step 2: reads the rows that begin in piece i. Fails with ATTN_EARG if the text is not as
 * assumed. */
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

/* Step 3: computes the shape from `closed`. Returns false if the lists are not all of the same
 * shape. */
static bool find_shape(const work *w, int rank, size_t dims[ATTN_MAX_RANK]) {
    /* rows[k]: the number of rows in a list that has k axes. A list with 1 axis is a row itself. */
    size_t rows[ATTN_MAX_RANK + 1] = {0, 1};
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

/* Sets w->from and w->to to the lists, which end with the last ']' before the next string. Returns
 * false if the text is too short for several workers. */
static bool find_text(work *w) {
    const attn_scan *s = w->s;
    w->from = s->p;
    w->to = memchr(s->p, '"', (size_t)(s->end - s->p));
    w->to = w->to ? w->to : s->end;
    while (w->to > w->from && w->to[-1] != ']')
        w->to--;
    return w->to - w->from >= SRV_TENSOR_LARGE;
}

/* Step 1: computes width, rows and the commas before each piece. Returns false if the elements do
 * not fill whole rows. */
static bool count_elements(work *w, attn_pool *pool, size_t pieces, int rank) {
    const srv_request *req = srv_scan_of(w->s)->req;
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

bool srv_tensor_in_pieces(attn_scan *s, attn_tensor *out) {
    attn_pool *pool = srv_request_pool(srv_scan_of(s)->req);
    attn_arena *arena = s->arena;
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
    if (attn_pool_run(pool, pieces, read_piece, &w, &srv_scan_of(s)->req->control, NULL) ||
        !find_shape(&w, rank, dims)) {
        attn_arena_shrink(arena, w.data, 0);
        return false;
    }
    s->p = w.to;
    *out = attn_tensor_dense(w.data, ATTN_F32, rank, dims);
    return true;
}
