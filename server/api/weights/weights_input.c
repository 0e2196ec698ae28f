/* An attn_weight_source that reads the weights of a request, and warnings about weights: rows whose
 * sum is not 1, weights outside of 0 … 1, and weights on padding. The service computes with such
 * weights, but they are probably a mistake of the client. */
#include "api/weights/weights_api.h"

#include <stdio.h>
#include <strings.h>

#include "base/try.h"

#define TOLD 8 /* largest number of heads that get a warning of the same code */

typedef struct operand {
    const attn_tensor *weights;
    const attn_attention_dims *dims;
} operand;

/* Implements attn_weight_source.fetch: reads rows of weights. Writes no logits, because a weight of
 * 0 alone does not say whether its cell is hidden. */
static attn_status fetch(void *ctx, size_t lane, const attn_range *rows, float *weights,
                         float *logits, attn_error *err) {
    const operand *o = ctx;
    const attn_attention_dims *d = o->dims;
    const size_t head = (rows->batch * d->Hq + rows->head) * d->L;
    (void)lane, (void)logits, (void)err;
    for (size_t r = 0; r < rows->rows; r++) {
        const size_t at = (head + rows->row + r) * d->S + rows->col;
        attn_widen_f32(weights + r * rows->cols,
                       (const char *)o->weights->data + at * attn_dtype_size(o->weights->dtype),
                       o->weights->dtype, 1, rows->cols);
    }
    return ATTN_OK;
}

bool srv_weights_shape(const srv_scope *scope, const char *name, const attn_tensor *weights,
                       int most, attn_attention_dims *dims, size_t *layers, size_t *entries) {
    const int rank = weights->rank;
    if (rank < 2 || rank > most)
        return srv_refuse(
            scope, SRV_SHAPE, name,
            "expected [L, S], [H, L, S], [B, H, L, S] or [layers, B, H, L, S], found %s",
            attn_rank_text(weights));
    dims->L = weights->dims[rank - 2];
    dims->S = weights->dims[rank - 1];
    dims->Hq = rank > 2 ? weights->dims[rank - 3] : 1;
    *layers = rank > 4 ? weights->dims[0] : 1;
    *entries = 1;
    /* The products cannot overflow, because the decoder has checked the number of elements. (It
     * counts an axis of 0 as 1.) */
    for (int axis = rank > 4; axis < rank - 3; axis++)
        *entries *= weights->dims[axis];
    dims->B = *layers * *entries;
    return true;
}

attn_status srv_weights_source(const attn_tensor *weights, const attn_attention_dims *dims,
                               attn_arena *arena, attn_weight_source *out, attn_error *err) {
    operand *o = attn_arena_small(arena, sizeof *o);
    ATTN_TAKEN(o, "the operands", err);
    *o = (operand){weights, dims};
    *out = (attn_weight_source){.batches = dims->B,
                                .heads = dims->Hq,
                                .rows = dims->L,
                                .cols = dims->S,
                                .fetch = fetch,
                                .ctx = o};
    return ATTN_OK;
}

/* --- weights on padding --- */

/* Mean weight on padding above which a warning is given. Smaller weights may be rounding errors. */
#define LEAST 1e-6

static bool is_padding(const char *label) {
    static const char *const tokens[] = {"<pad>", "[pad]", "<|pad|>", "<blank>"};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        if (strcasecmp(label, tokens[i]) == 0)
            return true;
    return false;
}

bool srv_padding_begin(srv_padding *p, attn_arena *arena, const srv_labels *labels, bool many,
                       srv_warnings *to) {
    size_t most = 0;
    *p = (srv_padding){.arena = arena, .labels = labels, .many = many, .to = to};
    for (size_t b = 0; b < labels->count; b++) {
        const srv_strings *keys = &srv_labels_of(labels, b)->key;
        size_t found = 0;
        for (size_t j = 0; j < keys->count; j++)
            found += is_padding(keys->values[j]);
        most = found > most ? found : most;
    }
    p->any = most > 0;
    p->keys = p->any ? attn_arena_zeroed(arena, most, sizeof *p->keys) : NULL;
    return !p->any || p->keys;
}

void srv_padding_entry(srv_padding *p, size_t batch) {
    const srv_names *names = srv_labels_of(p->labels, batch);
    p->batch = batch;
    if (names == p->names)
        return; /* p->keys already has the padding keys of these names */
    p->names = names;
    p->key_count = 0;
    for (size_t j = 0; p->any && j < p->names->key.count; j++)
        if (is_padding(p->names->key.values[j]))
            p->keys[p->key_count++] = j;
}

bool srv_padding_counts(const srv_padding *p, size_t i) {
    const srv_strings *queries = &p->names->query;
    return i >= queries->count || !is_padding(queries->values[i]);
}

void srv_padding_row(srv_padding *p, size_t i, const double *weights) {
    attn_padding_check(&p->head, i, weights, p->keys, p->key_count);
}

bool srv_padding_head(srv_padding *p, size_t head) {
    const attn_padding_mass *m = &p->head;
    const double share = m->rows > 0 ? m->mass / (double)m->rows : 0;
    bool found = share > LEAST, ok = true;
    char which[64] = "";
    if (p->many)
        snprintf(which, sizeof which, "batch entry %zu, head %zu: ", p->batch, head);
    if (found && p->heads_told == TOLD)
        p->heads_left++;
    else if (found)
        ok = srv_warnings_add(
            p->to, p->arena, "padding_mass", srv_labels_where(p->arena, p->labels, p->batch, "key"),
            "%s%.3g %% of the attention goes to padding, most of it (%.3g) from "
            "query %zu to key %zu, \"%.40s\": hide such keys with token_ids, "
            "key_lengths or key_padding_mask",
            which, 100 * share, m->most, m->row, m->key, p->names->key.values[m->key]);
    p->heads_told += found && p->heads_left == 0;
    p->head = (attn_padding_mass){0};
    return ok;
}

bool srv_padding_end(srv_padding *p) {
    return p->heads_left == 0 ||
           srv_warnings_add(p->to, p->arena, "padding_mass",
                            srv_labels_differ(p->labels) ? "labels" : "labels/key",
                            "%zu more head%s give%s weight to padding", p->heads_left,
                            attn_plural(p->heads_left), p->heads_left == 1 ? "s" : "");
}

/* --- sums of rows and ranges of weights --- */

/* Adds the warnings of one head. told[0] counts heads with rows whose sum is not 1, told[1] heads
 * with weights outside of 0 … 1. */
static bool warn_of_head(const srv_weights_lint *l, const attn_weights_faults *f, size_t b,
                         size_t h, size_t told[2]) {
    attn_arena *arena = l->req->arena;
    char which[64] = "";
    bool ok = true;
    if (l->dims->B > 1 || l->dims->Hq > 1)
        snprintf(which, sizeof which, "batch entry %zu, head %zu: ", b, h);
    if (f->sums > 0 && told[0]++ < TOLD)
        ok = srv_warnings_add(l->warnings, arena, "row_sums", l->where,
                              "%s%zu row%s of %zu do%s not sum to 1; row %zu sums to %.6g", which,
                              f->sums, attn_plural(f->sums), l->dims->L, f->sums == 1 ? "es" : "",
                              f->row, f->sum);
    if (ok && f->outside > 0 && told[1]++ < TOLD)
        ok = srv_warnings_add(l->warnings, arena, "weight_range", l->where,
                              "%s%zu weight%s negative or above 1, such as %.6g at [%zu, %zu]",
                              which, f->outside, f->outside == 1 ? " is" : "s are", f->value,
                              f->at_row, f->at_key);
    return ok;
}

/* Adds a last warning for each code that more than TOLD heads have: the number of further heads. */
static bool warn_of_rest(const srv_weights_lint *l, const size_t told[2]) {
    static const char *const codes[] = {"row_sums", "weight_range"};
    bool ok = true;
    for (size_t i = 0; i < 2; i++)
        if (ok && told[i] > TOLD)
            ok = srv_warnings_add(l->warnings, l->req->arena, codes[i], l->where,
                                  "so it is in %zu more head%s", told[i] - TOLD,
                                  attn_plural(told[i] - TOLD));
    return ok;
}

attn_status srv_weights_warn(const srv_weights_lint *l, bool *unshared, attn_error *err) {
    static const srv_labels none;
    const attn_attention_dims *d = l->dims;
    const attn_tensor *w = l->weights;
    const char *from = w->data;
    size_t told[2] = {0, 0};
    attn_arena *arena = l->req->arena;
    double *row = attn_arena_zeroed(arena, d->S, sizeof *row);
    /* `padded` holds the weights of one row on the padding keys, in the order of the keys. */
    double *padded = attn_arena_zeroed(arena, d->S, sizeof *padded);
    srv_padding p;
    bool ok = row && padded &&
              srv_padding_begin(&p, arena, l->labels ? l->labels : &none, d->B > 1 || d->Hq > 1,
                                l->warnings);
    for (size_t n = 0; ok && n < d->B * d->Hq; n++) {
        attn_weights_faults f = {0};
        srv_padding_entry(&p, n / d->Hq);
        for (size_t i = 0; i < d->L; i++, from += d->S * attn_dtype_size(w->dtype)) {
            ATTN_TRY(attn_control_check(&l->req->control, err));
            attn_widen_f64(row, from, w->dtype, 1, d->S);
            attn_weights_check(&f, i, row, d->S);
            for (size_t k = 0; k < p.key_count; k++)
                padded[k] = row[p.keys[k]];
            if (p.key_count > 0 && srv_padding_counts(&p, i))
                srv_padding_row(&p, i, padded);
        }
        *unshared |= f.unshared > 0;
        ok = warn_of_head(l, &f, n / d->Hq, n % d->Hq, told) && srv_padding_head(&p, n % d->Hq);
    }
    if (ok && warn_of_rest(l, told) && srv_padding_end(&p))
        return ATTN_OK;
    return attn_no_memory(err, "warnings");
}
