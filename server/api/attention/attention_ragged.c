/* Ragged batches of POST /v1/attention: batch entries with different numbers of queries and keys,
 * which are computed without padding. Each entry is prepared as a request of its own with a batch
 * of 1. The library runs the operations of all entries as one (attn_attention_run_each). Therefore
 * the answer of an entry has the same bytes as the answer to a request with this entry alone.
 *
 * A request asks for a ragged batch in one of three ways:
 *
 *   lists           query, key and value are lists of entries that differ in length
 *   query_lengths   query, key and value are packed, the rows of all entries one after the other,
 *                   [sum of L, H, E] or [sum of L, D]; key_lengths are those of key and value
 *   cu_seqlens      packed, with sums of lengths: https://github.com/Dao-AILab/flash-attention */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/attention/attention_call.h"
#include "api/common/route_fields.h"
#include "request/shared.h"

/* Each entry needs about 10 KB before it is admitted. */
#define ENTRIES 1024

const char *const srv_operand_names[SRV_OPERANDS] = {"query", "key", "value", "grad_output",
                                                     "grad_logsumexp"};

attn_tensor *srv_operand_at(srv_operation *o, size_t which) {
    attn_tensor *const tensors[SRV_OPERANDS] = {&o->in.query, &o->in.key, &o->in.value,
                                                &o->grad_output, &o->in.grad_logsumexp};
    return tensors[which];
}

/* Returns the list of entries of the tensor `which`. Its count is 0 if the tensor is not a list. */
static srv_entries *list_at(srv_operation *o, size_t which) {
    srv_entries *const lists[SRV_OPERANDS] = {&o->query_entries, &o->key_entries, &o->value_entries,
                                              &o->grad_output_entries, &o->grad_logsumexp_entries};
    return lists[which];
}

bool srv_operand_is_of_keys(size_t which) {
    return which == SRV_OPERAND_KEY || which == SRV_OPERAND_VALUE;
}

/* The rows of the entries of an operand. */
typedef struct operand {
    const attn_tensor *packed; /* NULL: a list */
    srv_entries *list;
    size_t *starts; /* [B + 1]: entry b has the packed rows starts[b] … starts[b + 1] - 1 */
} operand;

typedef struct ragged {
    srv_attention_call *call;
    size_t count;              /* entries */
    bool blocks;               /* key and value are pools of blocks, which all entries share */
    bool packed;               /* true: the operands are packed; false: they are lists */
    operand all[SRV_OPERANDS]; /* an operand without `packed` and `list` is not in the request */
} ragged;

/* --- fields that have no meaning for entries of different length --- */

/* Returns whether the field is a tensor that ragged batches take. */
static bool is_taken(const char *name, bool packed, bool blocks) {
    static const char always[] = " query key value grad_output grad_logsumexp sinks scale ";
    static const char lengths[] = " query_lengths cu_seqlens ";
    if (!strcmp(name, "key_lengths"))
        return packed || blocks;
    if (!strcmp(name, "block_table"))
        return blocks;
    return srv_by_entry_takes(name) || srv_is_listed(always, name) ||
           (packed && srv_is_listed(lengths, name));
}

static bool check_fields(const ragged *r) {
    const srv_scope *scope = &r->call->scope;
    for (const srv_field *f = scope->fields; f->name; f++)
        if (f->kind == SRV_TENSOR && srv_given(scope, f->name) &&
            !is_taken(f->name, r->packed, r->blocks))
            return srv_refuse(scope, SRV_VALUE, f->name,
                              "not with a ragged batch, whose entries have no shape in common: "
                              "is_causal, window, pattern and position follow the lengths of each "
                              "entry; send an entry that needs this field as a request of its own");
    if (r->call->body.heatmap.batch.count)
        return srv_problem(r->call->req, SRV_VALUE, "/heatmap/batch",
                           "not with a ragged batch, each of whose entries has its heatmaps");
    return true;
}

/* --- lengths --- */

static bool refuse_at(const ragged *r, const char *name, size_t i, const char *text, double found,
                      double expected) {
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/%s/%zu", name, i);
    return srv_problem(r->call->req, SRV_VALUE, pointer, "%s %.0f, found %.0f", text, expected,
                       found);
}

static bool check_entries(const ragged *r, const char *name, size_t count) {
    if (!count || count > ENTRIES)
        return srv_refuse(&r->call->scope, SRV_VALUE, name,
                          "a ragged batch has 1 to %d entries, found %zu", ENTRIES, count);
    return true;
}

/* Sets the starts of an operand from `values`, the numbers of the field `name`. If `sums` is true,
 * the numbers are cumulative sums that begin with 0; if not, they are lengths. */
static bool read_starts(ragged *r, size_t which, const char *name, bool sums,
                        const double *values) {
    operand *o = &r->all[which];
    const double rows = (double)o->packed->dims[0];
    double end = 0;
    o->starts = attn_arena_zeroed(r->call->req->arena, r->count + 1, sizeof *o->starts);
    if (!o->starts)
        return srv_problem_memory(r->call->req, NULL, "no memory is left for the entries");
    if (sums && *values != 0)
        return refuse_at(r, name, 0, "the first sum is", *values, 0);
    for (size_t b = 0; b < r->count; b++) {
        const size_t at = b + sums;
        const double length = sums ? values[at] - values[b] : values[at];
        if (length < 0)
            return refuse_at(r, name, at, sums ? "a sum is at least" : "a length is at least",
                             values[at], sums ? values[b] : 0);
        end += length;
        if (end > rows)
            return refuse_at(r, name, at, "the rows of the packed tensor are", end, rows);
        o->starts[b + 1] = (size_t)end;
    }
    if (end != rows)
        return srv_refuse(&r->call->scope, SRV_VALUE, name,
                          "the entries have %.0f rows, and %s has %.0f", end,
                          srv_operand_names[which], rows);
    return true;
}

static bool check_axes(const ragged *r, const char *name, const attn_tensor *t) {
    return t->rank == 1 ||
           srv_refuse(&r->call->scope, SRV_SHAPE, name, "expected [B]; found %d axes", t->rank);
}

/* Returns the integers of a field as doubles, which are exact up to 2^53. NULL: a problem is set. */
static const double *read_numbers(const ragged *r, const attn_tensor *t) {
    size_t count = 0;
    double *values = attn_tensor_count(t, &count)
                         ? attn_arena_zeroed(r->call->req->arena, count + 1, sizeof *values)
                         : NULL;
    if (values)
        attn_widen_f64(values, t->data, t->dtype, 1, count);
    else
        srv_problem_memory(r->call->req, NULL, "no memory is left for the entries");
    return values;
}

/* Reads the lengths in `t`, which set the rows of the queries, or of the keys and values. */
static bool read_side(ragged *r, bool queries, const char *name, const attn_tensor *t) {
    const double *values = read_numbers(r, t);
    if (!values)
        return false;
    for (size_t i = 0; i < SRV_OPERANDS; i++)
        if (r->all[i].packed && srv_operand_is_of_keys(i) != queries &&
            !read_starts(r, i, name, false, values))
            return false;
    return true;
}

static bool read_lengths(ragged *r) {
    const srv_operation *o = &r->call->body.operation;
    const srv_scope *scope = &r->call->scope;
    const attn_tensor *queries = &o->query_lengths, *keys = &o->mask.key_lengths;
    if (!srv_needs(scope, "key_lengths", "key", "self-attention has the lengths of query") ||
        !check_axes(r, "query_lengths", queries) ||
        (keys->rank && !check_axes(r, "key_lengths", keys)))
        return false;
    r->count = queries->dims[0];
    if (!check_entries(r, "query_lengths", r->count))
        return false;
    if (keys->rank && keys->dims[0] != r->count)
        return srv_refuse(scope, SRV_SHAPE, "key_lengths",
                          "expected a length for each entry of query_lengths, %zu; found %zu",
                          r->count, keys->dims[0]);
    return read_side(r, true, "query_lengths", queries) &&
           (keys->rank ? read_side(r, false, "key_lengths", keys)
                       : read_side(r, false, "query_lengths", queries));
}

static bool read_sums(ragged *r) {
    static const char *const names[] = {"cu_seqlens/0", "cu_seqlens/1"};
    static const char why[] = "the lengths are the differences of the sums";
    const attn_tensor *sums = &r->call->body.operation.cu_seqlens;
    const srv_scope *scope = &r->call->scope;
    const size_t each = sums->dims[sums->rank - 1];
    const bool two = sums->rank == 2 && sums->dims[0] == 2 && r->all[SRV_OPERAND_KEY].packed;
    if (!srv_excludes(scope, "query_lengths", "cu_seqlens", why) ||
        (!r->blocks && !srv_excludes(scope, "key_lengths", "cu_seqlens", why)))
        return false;
    if ((sums->rank != 1 && !two) || each < 2)
        return srv_refuse(scope, SRV_SHAPE, "cu_seqlens",
                          "expected [B + 1] or, with key, [2, B + 1] for queries and keys");
    if (!check_entries(r, "cu_seqlens", r->count = each - 1))
        return false;
    const double *values = read_numbers(r, sums);
    for (size_t i = 0; values && i < SRV_OPERANDS; i++)
        if (r->all[i].packed &&
            !read_starts(r, i, two ? names[srv_operand_is_of_keys(i)] : "cu_seqlens", true,
                         values + (two && srv_operand_is_of_keys(i) ? each : 0)))
            return false;
    return values != NULL;
}

/* --- operands --- */

/* Checks the number of axes of a packed tensor. */
static bool check_packed(const ragged *r, size_t which, const attn_tensor *t) {
    const bool side_by_side = r->call->body.operation.in.layout == ATTN_BLD;
    const int least = which == SRV_OPERAND_GRAD_LOGSUMEXP ? 1 : 2;
    const char *expected = which == SRV_OPERAND_GRAD_LOGSUMEXP ? "[sum of L, H] or [sum of L]"
                           : side_by_side                      ? "[sum of L, D]"
                                          : "[sum of L, H, E] or [sum of L, E]";
    return t->rank == least || (t->rank == least + 1 && (least == 1 || !side_by_side)) ||
           srv_refuse(&r->call->scope, SRV_SHAPE, srv_operand_names[which],
                      "expected packed rows, %s; found %d axes", expected, t->rank);
}

/* Returns whether an operand is a pool of blocks and has no rows of entries. */
static bool is_pool(const ragged *r, size_t which) {
    return r->blocks && srv_operand_is_of_keys(which);
}

static bool read_packed(ragged *r) {
    srv_operation *o = &r->call->body.operation;
    for (size_t i = 0; i < SRV_OPERANDS; i++) {
        const attn_tensor *t = srv_operand_at(o, i);
        if (is_pool(r, i))
            continue;
        if (list_at(o, i)->count)
            return srv_refuse(&r->call->scope, SRV_SHAPE, srv_operand_names[i],
                              "with %s expected packed rows, found a list of entries",
                              o->cu_seqlens.rank ? "cu_seqlens" : "query_lengths");
        if (!t->rank)
            continue;
        r->all[i].packed = t;
        if (!check_packed(r, i, t))
            return false;
    }
    if (o->in.query.rank == 3)
        o->in.layout = ATTN_BLHE;
    return o->cu_seqlens.rank ? read_sums(r) : read_lengths(r);
}

/* Splits a tensor along its first axis. The decoder reads a list of entries of equal length as a
 * tensor. */
static bool split_tensor(const ragged *r, const attn_tensor *t, srv_entries *out) {
    const size_t count = t->dims[0];
    attn_tensor one = *t;
    out->items = attn_arena_zeroed(r->call->req->arena, count + 1, sizeof *out->items);
    if (!out->items)
        return srv_problem_memory(r->call->req, NULL, "no memory is left for the entries");
    out->count = count;
    one.rank--;
    memmove(one.dims, one.dims + 1, (size_t)one.rank * sizeof *one.dims);
    memmove(one.strides, one.strides + 1, (size_t)one.rank * sizeof *one.strides);
    for (size_t b = 0; b < count; b++) {
        out->items[b] = one;
        out->items[b].data =
            (char *)t->data + (ptrdiff_t)b * t->strides[0] * (ptrdiff_t)attn_dtype_size(t->dtype);
    }
    return true;
}

/* Returns the axis of rows in an entry of a list. */
static int row_axis(const ragged *r, size_t which, const attn_tensor *item) {
    if (which == SRV_OPERAND_GRAD_LOGSUMEXP)
        return item->rank - 1;
    return r->call->body.operation.in.layout == ATTN_BLHE && item->rank == 3 ? 0 : item->rank - 2;
}

static bool is_empty(const attn_tensor *t) {
    size_t count = 0;
    return attn_tensor_count(t, &count) && count == 0;
}

/* Checks that the entries of a list differ only in the number of rows, and that there is one for
 * each entry of query. An entry without numbers has 0 rows, because JSON cannot express the width
 * of an empty tensor. */
static bool check_list(const ragged *r, size_t which) {
    srv_entries *list = r->all[which].list;
    const char *name = srv_operand_names[which];
    char pointer[64], have[128], want[128];
    size_t first = 0;
    if (list->count != r->count)
        return srv_refuse(&r->call->scope, SRV_SHAPE, name,
                          "expected as many entries as query has, %zu; found %zu", r->count,
                          list->count);
    while (first + 1 < list->count && is_empty(&list->items[first]))
        first++;
    if (which != SRV_OPERAND_GRAD_LOGSUMEXP && list->items[first].rank < 2)
        return srv_refuse(&r->call->scope, SRV_SHAPE, name,
                          "expected entries [L, E] or [H, L, E], found lists of numbers");
    for (size_t b = 0; b < list->count; b++) {
        attn_tensor expected = list->items[first], *item = &list->items[b];
        const int axis = row_axis(r, which, &expected);
        const bool empty = is_empty(item) && item->rank < expected.rank;
        expected.dims[axis] = empty ? 0 : item->dims[axis];
        if (empty)
            *item = attn_tensor_dense(item->data, item->dtype, expected.rank, expected.dims);
        if (item->rank == expected.rank &&
            !memcmp(item->dims, expected.dims, (size_t)item->rank * sizeof *item->dims))
            continue;
        snprintf(pointer, sizeof pointer, "/%s/%zu", name, b);
        return srv_problem(
            r->call->req, SRV_SHAPE, pointer,
            "expected %s as in /%s/%zu, apart from the number of rows; found %s",
            attn_shape_text(list->items[first].dims, list->items[first].rank, want, sizeof want),
            name, first, attn_shape_text(item->dims, item->rank, have, sizeof have));
    }
    return true;
}

/* Checks that key and value have the same number of rows in each entry. */
static bool check_values(const ragged *r) {
    const srv_entries *keys = r->all[SRV_OPERAND_KEY].list,
                      *values = r->all[SRV_OPERAND_VALUE].list;
    char pointer[64];
    for (size_t b = 0; keys && values && b < r->count; b++) {
        const size_t have =
            values->items[b].dims[row_axis(r, SRV_OPERAND_VALUE, &values->items[b])];
        const size_t want = keys->items[b].dims[row_axis(r, SRV_OPERAND_KEY, &keys->items[b])];
        if (have == want)
            continue;
        snprintf(pointer, sizeof pointer, "/value/%zu", b);
        return srv_problem(r->call->req, SRV_SHAPE, pointer,
                           "expected as many rows as /key/%zu has, %zu; found %zu", b, want, have);
    }
    return true;
}

static bool read_lists(ragged *r) {
    srv_operation *o = &r->call->body.operation;
    for (size_t i = 0; i < SRV_OPERANDS; i++) {
        srv_entries *list = list_at(o, i);
        if (is_pool(r, i) || (!list->count && srv_operand_at(o, i)->rank < 2))
            continue;
        if (!list->count && !split_tensor(r, srv_operand_at(o, i), list))
            return false;
        r->all[i].list = list;
        r->count = r->count ? r->count : list->count;
        if (!check_entries(r, srv_operand_names[i], r->count) || !check_list(r, i))
            return false;
    }
    return check_values(r);
}

static void swap_axes(attn_tensor *t, int a, int b) {
    const size_t n = t->dims[a];
    const ptrdiff_t step = t->strides[a];
    t->dims[a] = t->dims[b];
    t->strides[a] = t->strides[b];
    t->dims[b] = n;
    t->strides[b] = step;
}

/* Returns entry b of an operand. The result has a batch axis of length 1. */
static attn_tensor entry_of(const ragged *r, size_t which, size_t b) {
    const operand *o = &r->all[which];
    attn_tensor t = o->packed ? *o->packed : o->list->items[b];
    if (o->packed) {
        t.dims[0] = o->starts[b + 1] - o->starts[b];
        t.data = (char *)t.data +
                 (ptrdiff_t)o->starts[b] * t.strides[0] * (ptrdiff_t)attn_dtype_size(t.dtype);
    }
    memmove(t.dims + 1, t.dims, (size_t)t.rank * sizeof *t.dims);
    memmove(t.strides + 1, t.strides, (size_t)t.rank * sizeof *t.strides);
    t.rank++;
    t.dims[0] = 1;
    t.strides[0] = t.strides[1] * (ptrdiff_t)t.dims[1];
    if (o->packed && which == SRV_OPERAND_GRAD_LOGSUMEXP && t.rank == 3)
        swap_axes(&t, 1, 2); /* [1, H, L] */
    return t;
}

/* --- the steps --- */

/* Returns the number of rows of entry b among the queries, or among the keys, those of caches
 * included. In self-attention the rows of the queries are also those of the keys. */
static size_t rows_of(const ragged *r, size_t which, size_t b) {
    const operand *o =
        &r->all[r->all[which].packed || r->all[which].list ? which : SRV_OPERAND_QUERY];
    const size_t kept =
        srv_operand_is_of_keys(which) ? srv_by_entry_kept(&r->call->body.operation, b) : 0;
    if (is_pool(r, which))
        return kept;
    if (o->packed)
        return kept + o->starts[b + 1] - o->starts[b];
    return kept + o->list->items[b].dims[row_axis(r, which, &o->list->items[b])];
}

/* Adds the rows of queries and of keys of entry b to `rows`. */
static void add_rows(const ragged *r, size_t b, size_t rows[2]) {
    rows[0] += rows_of(r, SRV_OPERAND_QUERY, b);
    rows[1] += rows_of(r, SRV_OPERAND_KEY, b);
}

/* Checks that each entry has labels of its own, or that all entries share one set of labels. */
static bool check_labels(const ragged *r) {
    const srv_labels *labels = &r->call->body.labels;
    const srv_names *names = labels->items;
    char at[48];
    if (labels->single || !labels->items)
        return true;
    if (labels->count != r->count)
        return srv_refuse(&r->call->scope, SRV_SHAPE, "labels",
                          "expected names for each of %zu entries; found a list of %zu", r->count,
                          labels->count);
    for (size_t b = 1; b < r->count; b++)
        if (memcmp(&names[b].given, &names[0].given, sizeof names->given)) {
            snprintf(at, sizeof at, "/labels/%zu", b);
            return srv_problem(r->call->req, SRV_VALUE, at,
                               "all entries name queries, keys or both alike: expected the fields "
                               "of labels/0");
        }
    return true;
}

/* `first` are the rows of queries and keys in front of entry b, and `all` those of all entries. */
static bool prepare_entry(const ragged *r, size_t b, const size_t first[2], const size_t all[2]) {
    srv_attention_call *entry = &r->call->entries[b];
    srv_operation *o = &entry->body.operation;
    *entry = *r->call;
    entry->entries = NULL;
    o->is_entry = true;
    o->entry = b;
    entry->scope.given = &entry->body.given;
    for (size_t i = 0; i < SRV_OPERANDS; i++)
        if (r->all[i].packed || r->all[i].list)
            *srv_operand_at(o, i) = entry_of(r, i, b);
    if (!srv_by_entry_place(r->call, b, first, all, r->count, o))
        return false;
    if (entry->body.labels.count && !entry->body.labels.single) {
        entry->body.labels.items = (srv_names *)entry->body.labels.items + b;
        entry->body.labels.count = 1;
        entry->body.labels.single = true;
    }
    if (r->packed && !r->blocks) /* here key_lengths split the packed rows and do not mask keys */
        for (const srv_field *f = entry->scope.fields; f->name; f++)
            if (!strcmp(f->name, "key_lengths"))
                srv_given_drop(&entry->body.given, (size_t)(f - entry->scope.fields));
    return srv_attention_prepare(entry);
}

/* Leaves the weights out of the answer if all entries together have too many. */
static void omit_weights(srv_attention_call *call) {
    double values = 0;
    for (size_t b = 0; b < call->entry_count; b++) {
        const attn_attention_dims *d = &call->entries[b].body.operation.dims;
        values += (double)d->Hq * (double)d->L * (double)d->S;
    }
    if (srv_given(&call->scope, "return") || srv_draws(call->req) || values <= SRV_WEIGHTS_UNASKED)
        return;
    for (size_t b = 0; b < call->entry_count; b++)
        srv_attention_omit(&call->entries[b]);
    call->weights_omitted = true;
}

bool srv_ragged_prepare(srv_attention_call *call) {
    const srv_operation *o = &call->body.operation;
    ragged r = {
        .call = call, .packed = srv_operation_is_packed(o), .blocks = o->block_table.rank > 0};
    if (!check_fields(&r) || !(r.packed ? read_packed(&r) : read_lists(&r)) || !check_labels(&r))
        return false;
    srv_attention_call *entries = attn_arena_zeroed(call->req->arena, r.count, sizeof *entries);
    if (!entries)
        return srv_problem_memory(call->req, NULL, "no memory is left for the entries");
    call->entries = entries;
    size_t first[2] = {0}, all[2] = {0};
    for (size_t b = 0; b < r.count; b++)
        add_rows(&r, b, all);
    for (size_t b = 0; b < r.count; b++) {
        if (!prepare_entry(&r, b, first, all))
            return false;
        add_rows(&r, b, first);
    }
    call->entry_count = r.count;
    call->heatmap = entries->heatmap;
    call->analyses = entries->analyses;
    call->stage_count = entries->stage_count;
    memcpy(call->stages, entries->stages, sizeof call->stages);
    call->backward = entries->backward;
    omit_weights(call);
    call->want = entries->want;
    return srv_packed_check(call);
}
