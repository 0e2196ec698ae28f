/* The tables of POST /v1/positions, made by the library, and curves out of them. */
#include <stdio.h>
#include <string.h>

#include "api/positions_call.h"

/* Not zeroed, which would take its time before anybody looks at the clock. */
static double *take(srv_positions_call *call, attn_tensor *t) {
    size_t bytes;
    const bool fits = attn_tensor_count(t, &bytes) && attn_size_mul(bytes, sizeof(double), &bytes);
    return t->data = fits ? attn_arena_take(call->req->arena, bytes) : NULL;
}

static attn_status no_memory(attn_error *err) {
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the tables");
}

/* key_table[clip(distance)], a row of E numbers. */
static void shaw_row(const srv_positions_call *call, int64_t distance, double *to) {
    const attn_tensor *t = &call->position.key_table;
    const int64_t reach = (int64_t)(t->dims[0] / 2);
    const size_t E = t->dims[1];
    int64_t d = distance < -reach ? -reach : distance > reach ? reach : distance;
    const char *from = (const char *)t->data + (size_t)(d + reach) * E * attn_dtype_size(t->dtype);
    attn_widen_f64(to, from, t->dtype, 1, E);
}

/* The deadline, once in so many rows of a table. */
static attn_status look(const srv_positions_call *call, size_t row, attn_error *err) {
    return row % 64 ? ATTN_OK : attn_control_check(&call->req->control, err);
}

static attn_status fill_shaw(const srv_positions_call *call, double *table, attn_error *err) {
    const size_t L = (size_t)call->body.length, E = call->position.key_table.dims[1];
    attn_status status = ATTN_OK;
    for (size_t i = 0; i < L && !status; i++)
        for (size_t j = 0; j < call->keys && !(status = look(call, j, err)); j++)
            shaw_row(call, (int64_t)j - (int64_t)i - call->body.query_offset,
                     table + (i * call->keys + j) * E);
    return status;
}

/* ALiBi's bias of distance 0 is minus zero, which reads badly. */
static attn_status fill_bias(const srv_positions_call *call, size_t queries, size_t keys,
                             int64_t offset, double *table, attn_error *err) {
    attn_status status = attn_position_table(&call->position, call->heads, queries, keys, offset,
                                             &call->req->control, call->req->arena, table, err);
    for (size_t i = 0; i < call->heads * queries * keys && !status; i++)
        table[i] += 0.0;
    return status;
}

static attn_status fill(srv_positions_call *call, attn_error *err) {
    const srv_positions_body *body = &call->body;
    const attn_control *control = &call->req->control;
    const size_t length = (size_t)body->length, width = (size_t)body->width;
    double *tables[SRV_TABLES] = {NULL};
    for (size_t i = 0; i < SRV_TABLES; i++)
        if (call->names[i] && !(tables[i] = take(call, &call->tables[i])))
            return no_memory(err);
    switch ((srv_encoding_kind)body->kind) {
    case SRV_POSITIONS_SINUSOIDAL:
        return attn_sinusoidal(tables[0], length, width, (attn_encoding_layout)body->layout,
                               control, err);
    case SRV_POSITIONS_LEARNED:
        return attn_learned(tables[0], length, width, body->std, (uint64_t)body->seed, control,
                            err);
    case SRV_POSITIONS_ROTARY:
        return attn_rotary_table(&call->position, length, tables[0], tables[1], control, err);
    case SRV_POSITIONS_SHAW:
        return fill_shaw(call, tables[0], err);
    case SRV_POSITIONS_ALIBI:
    case SRV_POSITIONS_T5:
    case SRV_POSITIONS_RELATIVE:
        break;
    }
    return fill_bias(call, length, call->keys, body->query_offset, tables[0], err);
}

/* Column `dim` of the first table, over its positions. */
static void copy_column(const srv_positions_call *call, size_t dim, double *to) {
    const attn_tensor *t = &call->tables[0];
    for (size_t i = 0; i < t->dims[0]; i++)
        to[i] = ((const double *)t->data)[i * t->dims[1] + dim];
}

/* What heads (or columns of Shaw's table) hold for each distance: [columns, distances]. */
static attn_status by_distance(srv_positions_call *call, double *to, attn_error *err) {
    const size_t n = (size_t)call->distances, columns = call->curve_columns;
    if (call->body.kind != SRV_POSITIONS_SHAW)
        return fill_bias(call, 1, n, -call->first, to, err);
    double *row = attn_arena_zeroed(call->req->arena, columns, sizeof *row);
    if (!row)
        return no_memory(err);
    for (size_t d = 0; d < n; d++) {
        shaw_row(call, call->first + (int64_t)d, row);
        for (size_t c = 0; c < columns; c++)
            to[c * n + d] = row[c];
    }
    return ATTN_OK;
}

static attn_status make_curves(srv_positions_call *call, attn_error *err) {
    const srv_ints *dims = &call->body.dims;
    const size_t n = (size_t)(call->distances > 0 ? call->distances : call->body.length);
    attn_arena *arena = call->req->arena;
    size_t all;
    double *columns = NULL;
    if (dims->count == 0)
        return ATTN_OK;
    call->curves = attn_arena_zeroed(arena, dims->count, sizeof *call->curves);
    if (!call->curves)
        return no_memory(err);
    if (call->distances > 0) {
        if (!attn_size_mul(call->curve_columns, n, &all) ||
            !(columns = attn_arena_zeroed(arena, all, sizeof *columns)))
            return no_memory(err);
        attn_status status = by_distance(call, columns, err);
        if (status)
            return status;
    }
    for (size_t i = 0; i < dims->count; i++) {
        srv_curve *curve = &call->curves[i];
        curve->dim = (size_t)dims->values[i];
        curve->values = attn_tensor_dense(NULL, ATTN_F64, 1, &n);
        double *to = take(call, &curve->values);
        if (!to)
            return no_memory(err);
        if (columns)
            memcpy(to, columns + curve->dim * n, n * sizeof *to);
        else if (call->tables[0].rank == 2)
            copy_column(call, curve->dim, to);
    }
    return ATTN_OK;
}

bool srv_positions_make(srv_positions_call *call) {
    static const char inside[] = "position/";
    attn_error err = {0};
    attn_status status = fill(call, &err);
    if (!status)
        status = make_curves(call, &err);
    if (!status)
        return true;
    /* The library names the fields of an attention request's position, which are here the body's.
     */
    if (strncmp(err.where, inside, sizeof inside - 1) == 0)
        memmove(err.where, err.where + sizeof inside - 1,
                strlen(err.where + sizeof inside - 1) + 1);
    srv_problem_error(call->req, &err);
    return false;
}
