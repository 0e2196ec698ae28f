/* Tensors of a ragged batch in binary answers. A tensor whose entries differ only in their number
 * of rows is packed: it holds the rows of all entries one after the other, [sum of L, H, Ev], as in
 * a request. The answer then also has query_lengths and key_lengths. Entries of weights and scores
 * differ in two axes, so each entry is a tensor of its own, such as "weights.0". */
#include <stdio.h>
#include <string.h>

#include "api/attention/attention_call.h"

/* The axis of rows of an entry's tensor, and whether its rows belong to keys. */
typedef struct row_axis {
    int axis;
    bool keys;
} row_axis;

int srv_entry_rows(const srv_attention_call *call, int rank) {
    return call->body.operation.in.layout == ATTN_BLHE && rank == 3 ? 0 : rank - 2;
}

/* Finds the axis of rows of an entry's tensor without the batch axis. false: entries of this tensor
 * differ in two axes. */
static bool find_rows(const srv_attention_call *entry, const srv_result *row, row_axis *out) {
    const int rank = row->rank - 1;
    switch (row->want) {
    case ATTN_WANT_OUTPUT:
        out->axis = srv_entry_rows(entry, rank);
        break;
    case ATTN_WANT_LOGSUMEXP:
    case SRV_WANT_ROW_SUMS:
        out->axis = rank - 1;
        break;
    case SRV_WANT_INPUTS:
    case ATTN_WANT_PRESENT:
        out->axis = rank - 2;
        break;
    default:
        return false;
    }
    out->keys = row->want == ATTN_WANT_PRESENT ||
                (row->want == SRV_WANT_INPUTS && strcmp(row->name, "query") != 0);
    return true;
}

bool srv_packs(const srv_attention_call *call) {
    const srv_request *req = call->req;
    return req->parts || (req->accept & (SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY));
}

/* Returns the name of a wanted tensor that cannot be packed. NULL: there is none. */
static const char *find_unpacked(const srv_attention_call *call) {
    srv_result rows[SRV_RESULTS];
    row_axis at;
    const size_t n = srv_attention_results(call->entries, call->want, rows);
    for (size_t i = 0; i < n; i++)
        if (!find_rows(call->entries, &rows[i], &at))
            return rows[i].name;
    return NULL;
}

bool srv_packed_check(const srv_attention_call *call) {
    const char *name = call->req->parts ? find_unpacked(call) : NULL;
    return !name || srv_problem(call->req, SRV_VALUE, "/return",
                                "the entries of %s in a ragged batch differ in two axes, and an "
                                "output has one shape: name other outputs, such as output and "
                                "logsumexp, or send the batch to POST /v1/attention",
                                name);
}

double srv_packed_bytes(const srv_attention_call *call) {
    double bytes = 0;
    row_axis at;
    for (size_t b = 0; srv_packs(call) && b < call->entry_count; b++) {
        srv_result rows[SRV_RESULTS];
        const size_t n = srv_attention_results(&call->entries[b], call->want, rows);
        bytes += 2 * sizeof(int64_t);
        for (size_t i = 0; i < n; i++)
            if (find_rows(&call->entries[b], &rows[i], &at))
                bytes += rows[i].bytes;
    }
    return bytes;
}

/* Copies the rows of an entry to `to`. Returns the address behind the copied rows. */
static char *copy_rows(char *to, const attn_tensor *t, int axis) {
    size_t before = 1, bytes = attn_dtype_size(t->dtype);
    for (int a = 0; a < axis; a++)
        before *= t->dims[a];
    for (int a = axis + 1; a < t->rank; a++)
        bytes *= t->dims[a];
    for (size_t i = 0; i < t->dims[axis]; i++)
        for (size_t h = 0; h < before; h++, to += bytes)
            memcpy(to, (const char *)t->data + (h * t->dims[axis] + i) * bytes, bytes);
    return to;
}

/* Packs tensor number `row` of all entries. The data of the result is NULL if memory ran out. */
static attn_tensor pack(const srv_attention_call *call, srv_entry_tensor *item_of, size_t row,
                        int axis) {
    const attn_tensor first = item_of(call, 0, row);
    size_t dims[ATTN_MAX_RANK] = {0}, count;
    memcpy(dims + 1, first.dims, (size_t)axis * sizeof *dims);
    memcpy(dims + axis + 1, first.dims + axis + 1, (size_t)(first.rank - axis - 1) * sizeof *dims);
    for (size_t b = 0; b < call->entry_count; b++)
        dims[0] += item_of(call, b, row).dims[axis];
    attn_tensor all = attn_tensor_dense(NULL, first.dtype, first.rank, dims);
    if (attn_tensor_count(&all, &count))
        all.data = attn_arena_array(call->req->arena, count + 1, attn_dtype_size(first.dtype));
    char *to = all.data;
    for (size_t b = 0; to && b < call->entry_count; b++) {
        const attn_tensor item = item_of(call, b, row);
        to = copy_rows(to, &item, axis);
    }
    return all;
}

static void put_list(attn_json_text *j, const srv_attention_call *call, srv_entry_tensor *item_of,
                     size_t row) {
    attn_json_array(j);
    for (size_t b = 0; b < call->entry_count; b++) {
        const attn_tensor item = item_of(call, b, row);
        srv_json_tensor(j, &item);
    }
    attn_json_array_end(j);
}

static void put_by_entry(attn_json_text *j, const srv_attention_call *call,
                         srv_entry_tensor *item_of, size_t row) {
    attn_json_object(j);
    for (size_t b = 0; b < call->entry_count; b++) {
        char name[24];
        const int n = snprintf(name, sizeof name, "%zu", b);
        const char *key = attn_arena_text(j->arena, name, (size_t)n);
        const attn_tensor item = item_of(call, b, row);
        j->failed |= !key;
        if (key)
            srv_json_key_tensor(j, key, &item);
    }
    attn_json_object_end(j);
}

void srv_entries_put(attn_json_text *j, const srv_attention_call *call, srv_entry_tensor *item,
                     size_t row, int axis) {
    if (!j->aside || axis < 0) {
        (j->aside ? put_by_entry : put_list)(j, call, item, row);
        return;
    }
    const attn_tensor all = pack(call, item, row, axis);
    if (all.data)
        srv_json_tensor(j, &all);
    else
        j->failed = true;
}

static attn_tensor result_of(const srv_attention_call *call, size_t b, size_t row) {
    srv_result rows[SRV_RESULTS];
    srv_attention_results(&call->entries[b], call->want, rows);
    return srv_attention_item(rows[row].tensor);
}

void srv_entries_result(attn_json_text *j, const srv_attention_call *call, size_t row) {
    srv_result rows[SRV_RESULTS];
    row_axis at;
    srv_attention_results(call->entries, call->want, rows);
    const bool packs = find_rows(call->entries, &rows[row], &at);
    srv_entries_put(j, call, result_of, row, packs ? at.axis : -1);
}

void srv_packed_lengths(attn_json_text *j, const srv_attention_call *call) {
    static const char *const names[] = {"query_lengths", "key_lengths"};
    const size_t count = call->entry_count;
    bool wanted[2] = {false, false};
    srv_result rows[SRV_RESULTS];
    row_axis at;
    const size_t n = srv_attention_results(call->entries, call->want, rows);
    for (size_t i = 0; i < n; i++)
        if (find_rows(call->entries, &rows[i], &at))
            wanted[at.keys] = true;
    if (call->backward && (call->entries->gradient_items & SRV_WANT_GRADIENTS)) {
        wanted[0] = true;
        wanted[1] |= call->entries->body.operation.in.key.rank > 0;
    }
    for (int side = 0; side < 2; side++) {
        int64_t *lengths = wanted[side] ? attn_arena_array(j->arena, count, sizeof *lengths) : NULL;
        j->failed |= wanted[side] && !lengths;
        for (size_t b = 0; lengths && b < count; b++) {
            const attn_attention_dims *d = &call->entries[b].body.operation.dims;
            lengths[b] = (int64_t)(side ? d->S : d->L);
        }
        const attn_tensor t = attn_tensor_dense(lengths, ATTN_I64, 1, &count);
        if (lengths)
            srv_json_key_tensor(j, names[side], &t);
    }
}
