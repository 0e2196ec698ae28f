/* Sinusoidal and learned encodings, added to query, key and value (encodings.h). */
#include "attention/encodings.h"

#include <attn/rng.h>
#include <attn/text.h>
#include <math.h>
#include <string.h>

#include "attention/resolved.h"
#include "base/try.h"

attn_status attn_encoding_check(const attn_position *p, const char *where, const attn_tensor *x,
                                size_t positions, attn_error *err) {
    const size_t D = x->dims[x->rank - 1];
    char have[128];
    if (!(p->dropout_p >= 0 && p->dropout_p < 1))
        return attn_fail(err, ATTN_EARG, "position/dropout_p",
                         "expected a probability from 0 to below 1");
    if (p->kind == ATTN_POSITION_SINUSOIDAL && (unsigned)p->rotary > ATTN_ROTARY_HALVES)
        return attn_fail(err, ATTN_EARG, "position/layout", "there is no layout of the number %d",
                         (int)p->rotary);
    if (p->kind == ATTN_POSITION_SINUSOIDAL && D % 2)
        return attn_fail(err, ATTN_EARG, where,
                         "sinusoidal positions need an even width (pairs of sine and cosine), "
                         "found %zu",
                         D);
    if (p->kind == ATTN_POSITION_SINUSOIDAL)
        return ATTN_OK;
    if (!p->table.rank)
        return attn_fail(err, ATTN_EARG, where,
                         "this kind of position needs this table, of shape [positions, %zu]: a row "
                         "for each position, as wide as query",
                         D);
    if (p->table.rank != 2 || p->table.dims[1] != D)
        return attn_fail(err, ATTN_ESHAPE, where,
                         "expected a table [positions, %zu] of the width of query, key and value, "
                         "found %s",
                         D, attn_shape_text(p->table.dims, p->table.rank, have, sizeof have));
    if (p->table.dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, where, "expected floating-point numbers");
    if (p->table.dims[0] < positions)
        return attn_fail(err, ATTN_ESHAPE, where,
                         "expected %zu row%s, one a position of the keys, found %zu", positions,
                         attn_plural(positions), p->table.dims[0]);
    return ATTN_OK;
}

attn_status attn_encoding_differentiable(const attn_position *p, attn_error *err) {
    return p->dropout_p == 0
               ? ATTN_OK
               : attn_fail(err, ATTN_EARG, "position/dropout_p",
                           "gradients are computed without dropout of the encoded inputs: leave "
                           "out dropout_p or grad_output");
}

/* Returns the position of row i of batch entry b of the queries, or of the keys and values. Row 0
 * of the keys and values stands behind the cached keys. */
static int64_t position_of_row(const attn_encoding *e, bool queries, size_t b, size_t i) {
    return queries ? attn_position_at(&e->query_positions, b, i)
                   : attn_position_at(&e->key_positions, b, e->dims.past + i);
}

/* --- rows of a tensor --- */

/* How the rows of a tensor are numbered: [outer, L, inner] in row-major order. L is the length of
 * the sequence, and `outer` the product of the axes before the axis of L. `inner` is the number of
 * heads if the axis of heads follows that of L (BLHE), else 1. */
typedef struct row_order {
    size_t outer, L, inner;
    /* How many of the `outer` indices belong to one batch entry. 0: all entries have the same
     * positions. */
    size_t a_batch;
} row_order;

/* Sets *order. Returns false if batch entries of the operation have different positions but read the
 * same rows of x. */
static bool find_row_order(const attn_encoding *e, bool queries, const attn_tensor *x,
                           row_order *order) {
    const int axis = x->rank - (e->layout == ATTN_BLHE ? 3 : 2);
    size_t entries = 1;
    *order = (row_order){.outer = 1, .L = x->dims[axis], .inner = 1};
    for (int a = 0; a < axis; a++)
        order->outer *= x->dims[a];
    for (int a = 0; a < e->dims.batch_rank; a++)
        entries *= x->dims[a];
    if (axis < x->rank - 2)
        order->inner = x->dims[axis + 1];
    if (attn_positions_same(queries ? &e->query_positions : &e->key_positions, e->dims.B))
        return true;
    if (entries != e->dims.B)
        return false;
    order->a_batch = entries ? order->outer / entries : 1;
    return true;
}

static int64_t position_of(const attn_encoding *e, bool queries, const row_order *order, size_t o,
                           size_t i) {
    return position_of_row(e, queries, order->a_batch ? o / order->a_batch : 0, i);
}

/* Checks that a learned table has the positions of all rows. */
static attn_status check_positions(const attn_encoding *e, bool queries, const row_order *order,
                                   attn_error *err) {
    const size_t entries = order->a_batch ? e->dims.B : 1, most = e->position.table.dims[0];
    if (e->position.kind != ATTN_POSITION_LEARNED || !e->dims.B)
        return ATTN_OK;
    for (size_t b = 0; b < entries; b++)
        for (size_t i = 0; i < order->L; i++) {
            const int64_t at = position_of_row(e, queries, b, i);
            if (at != ATTN_NO_POSITION && (at < 0 || at >= (int64_t)most))
                return attn_fail(err, ATTN_ESHAPE, e->where,
                                 "the table has the positions 0 to %lld; %s %zu has the position "
                                 "%lld",
                                 (long long)most - 1, queries ? "query" : "key", i, (long long)at);
        }
    return ATTN_OK;
}

/* --- encodings --- */

/* Computes line [D], the encoding of a position; ATTN_NO_POSITION gives zeros. `rates` [D / 2] are
 * the angles of position 1. */
static void encoding_of(const attn_position *p, int64_t position, const double *rates, size_t D,
                        double *line) {
    if (position == ATTN_NO_POSITION) {
        memset(line, 0, D * sizeof *line);
        return;
    }
    if (p->kind == ATTN_POSITION_LEARNED) {
        attn_widen_f64(line, attn_dense_row(&p->table, (size_t)position), p->table.dtype,
                       p->table.strides[1], D);
        return;
    }
    const bool halves = p->rotary == ATTN_ROTARY_HALVES;
    for (size_t t = 0; t < D / 2; t++) {
        const double angle = (double)position * rates[t];
        line[halves ? t : 2 * t] = sin(angle);
        line[halves ? D / 2 + t : 2 * t + 1] = cos(angle);
    }
}

uint64_t attn_encoding_stream(const attn_tensor *const parts[3], int part) {
    int first = 0;
    while (first < part && parts[first]->data != parts[part]->data)
        first++;
    return (uint64_t)first;
}

/* Stores row r of x plus `line` [D], after dropout, as row r of *out. `sum` is scratch [D]. */
static void add_row(const attn_encoding *e, const attn_tensor *x, size_t r, const double *line,
                    double *sum, size_t D, attn_tensor *out) {
    const double p = e->position.dropout_p;
    const uint64_t seed = e->position.dropout_seed + e->stream * UINT64_C(0x9E3779B97F4A7C15);
    attn_widen_f64(sum, attn_dense_row(x, r), x->dtype, x->strides[x->rank - 1], D);
    for (size_t c = 0; c < D; c++) {
        sum[c] += line[c];
        if (p > 0)
            sum[c] = attn_rng_uniform(seed, r * D + c) < p ? 0 : sum[c] / (1 - p);
    }
    attn_dense_store(out, r * D, sum, D);
}

attn_status attn_encode(const attn_encoding *e, bool queries, const attn_tensor *x,
                        attn_arena *arena, attn_tensor *out, attn_error *err) {
    const size_t D = x->dims[x->rank - 1];
    const attn_dtype dtype = x->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    size_t count;
    row_order order;
    if (!attn_tensor_count(x, &count))
        return attn_fail(err, ATTN_ELIMIT, "query", "too many elements");
    if (!find_row_order(e, queries, x, &order))
        return attn_fail(err, ATTN_EARG,
                         e->query_positions.given ? "query_positions" : "query_offset",
                         "positions that differ by batch entry need queries of their own for each "
                         "entry, to which they can be added");
    ATTN_TRY(check_positions(e, queries, &order, err));
    double *rates = attn_arena_zeroed(arena, 3 * D, sizeof *rates);
    *out = attn_tensor_dense(attn_arena_array(arena, count, attn_dtype_size(dtype)), dtype, x->rank,
                             x->dims);
    ATTN_TAKEN(rates && out->data, "positions", err);
    double *const line = rates + D;
    for (size_t t = 0; t < D / 2; t++)
        rates[t] = pow(10000, -2.0 * (double)t / (double)D);
    for (size_t i = 0; i < order.L; i++)
        for (size_t o = 0; o < order.outer; o++) {
            const int64_t at = position_of(e, queries, &order, o, i);
            if (o == 0 || at != position_of(e, queries, &order, o - 1, i))
                encoding_of(&e->position, at, rates, D, line);
            for (size_t n = 0; n < order.inner; n++)
                add_row(e, x, (o * order.L + i) * order.inner + n, line, line + D, D, out);
        }
    return ATTN_OK;
}

void attn_encode_backward(const attn_encoding *e, bool queries, const attn_tensor *grad,
                          double *sums) {
    const size_t D = grad->dims[grad->rank - 1];
    row_order order;
    if (!find_row_order(e, queries, grad, &order))
        return;
    for (size_t o = 0; o < order.outer; o++)
        for (size_t i = 0; i < order.L; i++) {
            const int64_t at = position_of(e, queries, &order, o, i);
            double *to = sums + (at == ATTN_NO_POSITION ? 0 : (size_t)at * D);
            for (size_t n = 0; at != ATTN_NO_POSITION && n < order.inner * D; n++) {
                const size_t from = (o * order.L + i) * order.inner * D + n;
                to[n % D] += attn_element(grad->data, attn_dtype_size(grad->dtype), from);
            }
        }
}

static void add_rows_by_position(const attn_attention *a, const attn_encoding_rows *part,
                                 double *sums) {
    const size_t D = a->in.position.table.dims[1];
    for (size_t head = 0; head < a->dims.B * part->heads; head++) {
        const attn_sequence_positions *positions =
            part->queries ? &a->query_positions : &a->key_positions;
        const size_t b = head / part->heads;
        const size_t column = a->in.layout == ATTN_BLD ? head % part->heads * part->width : 0;
        for (size_t i = 0; i < part->rows; i++) {
            const char *row =
                part->grads + (head * part->stored + part->first + i) * part->width * part->elem;
            const int64_t at = attn_position_at(positions, b, part->first + i);
            double *to = sums + (at == ATTN_NO_POSITION ? 0 : (size_t)at * D) + column;
            for (size_t c = 0; at != ATTN_NO_POSITION && c < part->width; c++)
                to[c] += attn_element(row, part->elem, c);
        }
    }
}

double *attn_encoding_sums(const attn_tensor *table, attn_arena *arena) {
    size_t n;
    return attn_tensor_count(table, &n) ? attn_arena_zeroed(arena, n, sizeof(double)) : NULL;
}

attn_status attn_encodings_collect(const attn_attention *a, const attn_encoding_rows *parts,
                                   size_t count, attn_arena *arena, attn_tensor *table,
                                   attn_error *err) {
    const attn_tensor *like = &a->in.position.table;
    double *sums = attn_encoding_sums(like, arena);
    ATTN_TAKEN(sums, "gradients", err);
    for (size_t i = 0; i < count; i++)
        add_rows_by_position(a, &parts[i], sums);
    return attn_encoding_table(like, sums, a->dims.result, arena, table, err);
}

attn_status attn_encoding_table(const attn_tensor *like, const double *sums, attn_dtype dtype,
                                attn_arena *arena, attn_tensor *table, attn_error *err) {
    size_t n = 0;
    ATTN_TRY(attn_dense_zeros(like, dtype, arena, table, err));
    if (attn_tensor_count(like, &n))
        attn_dense_store(table, 0, sums, n);
    return ATTN_OK;
}
