/* Warnings about weights on keys whose labels mark them as padding. */
#include "api/attention/attention_call.h"
#include "api/weights/weights_api.h"

/* The largest number of cells that are read to find weights on padding. Reading them takes a few
 * milliseconds. Heads that would need further cells are not checked. */
#define PADDING_CELLS 1048576

typedef struct reader {
    const srv_attention_call *call;
    attn_cells_scratch *scratch;
    void *cells;
    double *row;
} reader;

/* Reads the weights of query i on the padding keys into r->row. Adjacent keys are read in one call.
 */
static attn_status read_row(const reader *r, const srv_padding *p, size_t b, size_t h, size_t i,
                            attn_error *err) {
    attn_dtype dtype = r->call->body.operation.dims.result;
    for (size_t k = 0, n; k < p->key_count; k += n) {
        for (n = 1; k + n < p->key_count && p->keys[k + n] == p->keys[k] + n;)
            n++;
        const attn_range range = {b, h, i, 1, p->keys[k], n};
        attn_status status = attn_attention_cells(r->call->op, &r->call->results.stats, &range,
                                                  ATTN_STAGE_PROBS, r->cells, n, r->scratch, err);
        if (status)
            return status;
        attn_widen_f64(r->row + k, r->cells, dtype, 1, n);
    }
    return ATTN_OK;
}

static attn_status read_head(const reader *r, srv_padding *p, size_t b, size_t h, attn_error *err) {
    attn_status status = attn_control_check(&r->call->req->control, err);
    for (size_t i = 0; i < r->call->body.operation.dims.L && !status; i++) {
        if (!srv_padding_counts(p, i))
            continue;
        status = read_row(r, p, b, h, i, err);
        if (!status)
            srv_padding_row(p, i, r->row);
    }
    if (!status && !srv_padding_head(p, h))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for warnings");
    return status;
}

/* Makes a reader of the weights of a call. */
static attn_status new_reader(const srv_attention_call *call, reader *r, attn_error *err) {
    const size_t S = call->body.operation.dims.S;
    attn_arena *arena = call->req->arena;
    *r = (reader){.call = call,
                  .scratch = attn_cells_scratch_new(call->op, arena),
                  .cells = attn_arena_zeroed(arena, S, sizeof(double)),
                  .row = attn_arena_zeroed(arena, S, sizeof(double))};
    return r->scratch && r->cells && r->row
               ? ATTN_OK
               : attn_fail(err, ATTN_ENOMEM, "", "no memory left for warnings");
}

attn_status srv_attention_warn_padding(srv_attention_call *call, attn_error *err) {
    const srv_attention_call *first = call->entries ? call->entries : call;
    const attn_attention_dims *d = &first->body.operation.dims;
    const size_t entries = call->entries ? call->entry_count : d->B;
    srv_padding p;
    reader r = {.call = NULL};
    double looked = 0;
    attn_status status = ATTN_OK;
    if (!srv_padding_begin(&p, call->req->arena, &call->body.labels, entries > 1 || d->Ho > 1,
                           &call->warnings))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for warnings");
    for (size_t b = 0; p.any && b < entries && !status; b++) {
        const srv_attention_call *of = call->entries ? &call->entries[b] : call;
        const size_t batch = call->entries ? 0 : b; /* the operation of a ragged entry has one */
        srv_padding_entry(&p, b);
        const double each = (double)of->body.operation.dims.L * (double)p.key_count;
        if (p.key_count && r.call != of)
            status = new_reader(of, &r, err);
        for (size_t h = 0;
             h < d->Ho && p.key_count > 0 && !status && looked + each <= PADDING_CELLS;
             h++, looked += each)
            status = read_head(&r, &p, batch, h, err);
    }
    if (!status && p.any && !srv_padding_end(&p))
        status = attn_fail(err, ATTN_ENOMEM, "", "no memory left for warnings");
    return status;
}
