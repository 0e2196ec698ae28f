/* Which labels are padding, and what is said when they receive weight. */
#include "api/padding.h"

#include <stdio.h>
#include <strings.h>

#include "api/attention_call.h"
#include "api/plain.h"

#define LEAST     1e-6 /* mean weight of a row on padding that is worth a word: beyond rounding */
#define TOLD      8    /* heads that are named */
#define LOOKED_AT 1048576 /* cells, a few milliseconds; heads beyond it are not looked at */

bool srv_label_is_padding(const char *label) {
    static const char *const tokens[] = {"<pad>", "[pad]", "<|pad|>", "<blank>"};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        if (strcasecmp(label, tokens[i]) == 0)
            return true;
    return false;
}

bool srv_padding_begin(srv_padding *p, attn_arena *arena, const srv_labels *labels, bool many,
                       attn_warnings *to) {
    *p = (srv_padding){.arena = arena, .labels = labels, .many = many, .to = to};
    for (size_t j = 0; j < labels->key.count; j++) {
        if (!srv_label_is_padding(labels->key.values[j]))
            continue;
        if (!p->keys && !(p->keys = attn_arena_zeroed(arena, labels->key.count, sizeof *p->keys)))
            return false;
        p->keys[p->key_count++] = j;
    }
    return true;
}

bool srv_padding_looks(const srv_padding *p, size_t i) {
    const srv_strings *names = &p->labels->query;
    return i >= names->count || !srv_label_is_padding(names->values[i]);
}

void srv_padding_row(srv_padding *p, size_t i, const double *weights) {
    p->rows++;
    for (size_t k = 0; k < p->key_count; k++) {
        p->mass += weights[k];
        if (weights[k] > p->most) {
            p->most = weights[k];
            p->row = i;
            p->key = p->keys[k];
        }
    }
}

bool srv_padding_head(srv_padding *p, size_t batch, size_t head) {
    double share = p->rows > 0 ? p->mass / (double)p->rows : 0;
    bool found = share > LEAST, ok = true;
    char which[64] = "";
    if (p->many)
        snprintf(which, sizeof which, "batch entry %zu, head %zu: ", batch, head);
    if (found && p->heads_told == TOLD)
        p->heads_left++;
    else if (found)
        ok = srv_warnings_add(p->to, p->arena, "padding_mass", "labels/key",
                              "%s%.3g %% of the attention goes to padding, most of it (%.3g) from "
                              "query %zu to key %zu, \"%.40s\": hide such keys with token_ids, "
                              "key_lengths or key_padding_mask",
                              which, 100 * share, p->most, p->row, p->key,
                              p->labels->key.values[p->key]);
    p->heads_told += found && p->heads_left == 0;
    p->mass = p->most = 0;
    p->rows = 0;
    return ok;
}

bool srv_padding_end(srv_padding *p) {
    return p->heads_left == 0 ||
           srv_warnings_add(p->to, p->arena, "padding_mass", "labels/key",
                            "%zu more heads give weight to padding", p->heads_left);
}

/* --- of a run --- */

typedef struct reader {
    const srv_attention_call *call;
    attn_cells_scratch *scratch;
    void *cells;
    double *row;
} reader;

/* The weights of row i on the padding keys, neighbours at once. */
static attn_status read_row(const reader *r, const srv_padding *p, size_t b, size_t h, size_t i,
                            attn_error *err) {
    attn_dtype dtype = r->call->dims.result;
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
    for (size_t i = 0; i < r->call->dims.L && !status; i++) {
        if (!srv_padding_looks(p, i))
            continue;
        status = read_row(r, p, b, h, i, err);
        if (!status)
            srv_padding_row(p, i, r->row);
    }
    if (!status && !srv_padding_head(p, b, h))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for warnings");
    return status;
}

attn_status srv_attention_padding(srv_attention_call *call, attn_error *err) {
    const attn_attention_dims *d = &call->dims;
    attn_arena *arena = call->req->arena;
    srv_padding p;
    bool many = d->B > 1 || d->Hq > 1;
    bool ok = srv_padding_begin(&p, arena, &call->body.labels, many, &call->warnings);
    if (ok && p.key_count == 0)
        return ATTN_OK;
    reader r = {.call = call,
                .scratch = attn_cells_scratch_new(call->op, arena),
                .cells = attn_arena_zeroed(arena, d->S, sizeof(double)),
                .row = attn_arena_zeroed(arena, d->S, sizeof(double))};
    attn_status status = ok && r.scratch && r.cells && r.row
                             ? ATTN_OK
                             : attn_fail(err, ATTN_ENOMEM, "", "no memory left for warnings");
    double looked = 0, each = (double)d->L * (double)p.key_count;
    for (size_t b = 0; b < d->B && !status; b++)
        for (size_t h = 0; h < d->Hq && !status && looked + each <= LOOKED_AT; h++, looked += each)
            status = read_head(&r, &p, b, h, err);
    if (!status && !srv_padding_end(&p))
        status = attn_fail(err, ATTN_ENOMEM, "", "no memory left for warnings");
    return status;
}
