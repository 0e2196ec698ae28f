/* The tensors that an answer to POST /v1/attention can have: their names, shapes and bytes, before
 * they are computed. */
#include <stdio.h>
#include <string.h>

#include "api/attention/attention_call.h"

typedef struct list {
    srv_result *rows;
    size_t count;
    unsigned want;
} list;

static void add_result(list *l, const char *name, unsigned want, const attn_tensor *tensor,
                       attn_dtype dtype, int rank, const size_t *dims) {
    if (!(want & l->want))
        return;
    srv_result *row = &l->rows[l->count++];
    *row = (srv_result){.name = name, .tensor = tensor, .want = want, .rank = rank, .values = 1};
    memcpy(row->dims, dims, sizeof row->dims);
    for (int i = 0; i < rank; i++)
        row->values *= (double)dims[i];
    row->bytes = row->values * (double)attn_dtype_size(dtype);
}

static void add_present(list *l, const srv_attention_call *call) {
    const attn_attention_dims *d = &call->body.operation.dims;
    const attn_tensor *past = &call->body.operation.shaped->past_key;
    const attn_results *r = &call->results;
    bool heads = past->rank ? past->rank == d->batch_rank + 3 : d->has_heads;
    size_t dims[ATTN_MAX_RANK];
    int rank = d->batch_rank;
    memcpy(dims, d->batch, sizeof dims);
    if (heads)
        dims[rank++] = d->Hkv;
    dims[rank++] = d->S;
    dims[rank] = d->Ek;
    add_result(l, "present_key", ATTN_WANT_PRESENT, &r->present_key, d->result, rank + 1, dims);
    dims[rank] = d->Ev;
    if (heads)
        dims[rank - 2] = d->Hv;
    add_result(l, "present_value", ATTN_WANT_PRESENT, &r->present_value, d->result, rank + 1, dims);
}

attn_stage srv_attention_stage(const srv_attention_call *call) {
    int stage = 0;
    while (!(call->body.score_stages >> stage & 1))
        stage++;
    return (attn_stage)stage;
}

static void add_scores(list *l, const srv_attention_call *call) {
    const attn_attention_dims *d = &call->body.operation.dims;
    const unsigned stages = call->body.score_stages;
    for (int stage = 0; stage < SRV_STAGES; stage++)
        if (stages >> stage & 1) {
            add_result(l, "scores", ATTN_WANT_SCORES, &call->scores[stage], d->result,
                       d->weights_rank, d->scores);
            if (stages & SRV_FLAGS_LIST)
                l->rows[l->count - 1].part = attn_stage_words[stage];
        }
}

static void drop_dim(size_t *dims, int rank, int from_end) {
    for (int a = rank - from_end; a < rank - 1; a++)
        dims[a] = dims[a + 1];
}

void srv_drop_axis(attn_tensor *t, int from_end) {
    if (t->rank <= from_end)
        return;
    drop_dim(t->dims, t->rank, from_end);
    *t = attn_tensor_dense(t->data, t->dtype, t->rank - 1, t->dims);
}

attn_tensor srv_attention_item(const attn_tensor *t) {
    return attn_tensor_dense(t->data, t->dtype, t->rank - 1, t->dims + 1);
}

static int add_dims(size_t *dims, int rank, int count) {
    memmove(dims + count, dims, (size_t)rank * sizeof *dims);
    for (int a = 0; a < count; a++)
        dims[a] = 1;
    return rank + count;
}

void srv_add_axes(attn_tensor *t, int count) {
    if (t->rank)
        *t = attn_tensor_dense(t->data, t->dtype, add_dims(t->dims, t->rank, count), t->dims);
}

/* Stores the shape of the weights in the answer in `dims`, without a head axis if the weights are
 * averaged over heads. Returns the number of axes. */
static int weights_shape(const srv_attention_call *call, size_t dims[ATTN_MAX_RANK]) {
    const attn_attention_dims *d = &call->body.operation.dims;
    memcpy(dims, d->weights, sizeof d->weights);
    if (!call->body.average_attn_weights || !d->has_heads)
        return d->weights_rank;
    dims[d->batch_rank] = d->L;
    dims[d->batch_rank + 1] = d->S;
    return d->weights_rank - 1;
}

/* Adds the operands, and their products with the weights. */
static void add_operands(list *l, const srv_attention_call *call) {
    const attn_attention_dims *d = &call->body.operation.dims;
    const int last = d->weights_rank - 1, drop = call->body.operation.in.one_query;
    size_t dims[ATTN_MAX_RANK];
    memcpy(dims, d->scores, sizeof dims);
    dims[last] = d->E;
    if (drop)
        drop_dim(dims, last + 1, 2);
    add_result(l, "query", SRV_WANT_INPUTS, &call->query, d->result, last + 1 - drop, dims);
    memcpy(dims, d->weights, sizeof dims);
    if (d->has_heads)
        dims[d->batch_rank] = d->Hkv;
    dims[last - 1] = d->S;
    dims[last] = d->Ek;
    add_result(l, "key", SRV_WANT_INPUTS, &call->key, d->result, last + 1, dims);
    dims[last] = d->Ev;
    if (d->has_heads)
        dims[d->batch_rank] = d->Hv;
    if (!call->body.operation.valueless)
        add_result(l, "value", SRV_WANT_INPUTS, &call->value, d->result, last + 1, dims);
    if (last + 1 == ATTN_MAX_RANK)
        return;
    memcpy(dims, d->weights, sizeof dims);
    dims[last + 1] = d->Ev;
    if (drop)
        drop_dim(dims, last + 2, 3);
    add_result(l, "weighted_values", SRV_WANT_WEIGHTED_VALUES, &call->weighted_values, d->result,
               last + 2 - drop, dims);
}

size_t srv_attention_results(const srv_attention_call *call, unsigned want,
                             srv_result rows[SRV_RESULTS]) {
    const attn_attention_dims *d = &call->body.operation.dims;
    const attn_results *r = &call->results;
    const attn_tensor *w_o = &call->body.operation.projections.w_o;
    attn_dtype output = w_o->rank && w_o->dtype == ATTN_F64 ? ATTN_F64 : d->result;
    list l = {.rows = rows, .want = want};
    size_t dims[ATTN_MAX_RANK];
    memcpy(dims, d->output, sizeof dims);
    if (w_o->rank)
        dims[d->output_rank - 1] = w_o->dims[0];
    add_result(&l, "output", ATTN_WANT_OUTPUT, &r->output, output, d->output_rank, dims);
    const int weights_rank = weights_shape(call, dims);
    add_result(&l, "weights", ATTN_WANT_WEIGHTS, &r->weights, d->result, weights_rank, dims);
    add_result(&l, "weights_dropped", ATTN_WANT_WEIGHTS_DROPPED, &r->weights_dropped, d->result,
               weights_rank, dims);
    add_result(&l, "logsumexp", ATTN_WANT_LOGSUMEXP, &r->logsumexp, d->result, d->rows_rank,
               d->rows);
    add_result(&l, "row_sums", SRV_WANT_ROW_SUMS, &call->row_sums, d->result, d->weights_rank - 1,
               d->weights);
    if (want & ATTN_WANT_SCORES)
        add_scores(&l, call);
    for (size_t i = 0; call->body.operation.in.one_query && i < l.count; i++)
        drop_dim(rows[i].dims, rows[i].rank--,
                 rows[i].want & (ATTN_WANT_LOGSUMEXP | SRV_WANT_ROW_SUMS) ? 1 : 2);
    for (size_t i = 0; call->body.operation.extra_axes && i < l.count; i++)
        rows[i].rank = add_dims(rows[i].dims, rows[i].rank, call->body.operation.extra_axes);
    if (want & ATTN_WANT_PRESENT)
        add_present(&l, call);
    if (want & (SRV_WANT_INPUTS | SRV_WANT_WEIGHTED_VALUES))
        add_operands(&l, call);
    return l.count;
}

const char *srv_result_path(const srv_attention_call *call, const srv_result *row) {
    char path[64];
    if (!row->part)
        return row->name;
    const int n = snprintf(path, sizeof path, "%s/%s", row->name, row->part);
    return attn_arena_text(call->req->arena, path, (size_t)n);
}
