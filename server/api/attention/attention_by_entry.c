/* Fields of a ragged batch besides the operands: caches, masks, biases, positions and numbers of
 * keys. Each entry has an item of its own, without the batch axis. The items are sent in one of
 * two forms:
 *
 *   lists    a list of items, each with a shape of its own, or a tensor whose first axis counts
 *            the entries
 *   packed   a tensor with one axis, [sum of L] or [sum of S]: the numbers of all entries, one
 *            entry after the other
 *
 * An item gets a batch axis of length 1, so that it looks as in a request with this entry alone. */
#include <stdio.h>
#include <string.h>

#include "api/attention/attention_call.h"
#include "request/shared.h"

/* The things for which an item has one element or one row each. */
typedef enum item_kind {
    OF_CACHE, /* rows of keys in front of those of `key` */
    OF_CELLS,
    OF_CHOICES,
    OF_QUERIES,
    OF_KEYS,
    OF_ENTRY,
    OF_BLOCKS, /* the entry, in a page cache */
} item_kind;

#define ROW(name, member, list, kind)                                                              \
    { name, offsetof(srv_operation, member), offsetof(srv_operation, list), kind }
static const struct {
    const char *name;
    size_t tensor, list; /* offsets in srv_operation; a list at 0 does not exist */
    item_kind kind;
} fields[SRV_BY_ENTRY] = {
    ROW("past_key", in.past_key, past_key_entries, OF_CACHE),
    ROW("past_value", in.past_value, past_value_entries, OF_CACHE),
    {"block_table", offsetof(srv_operation, block_table), 0, OF_BLOCKS},
    {"key_lengths", offsetof(srv_operation, mask.key_lengths), 0, OF_BLOCKS},
    ROW("attn_mask", mask.attn_mask, mask.entries.attn_mask, OF_CELLS),
    ROW("attn_bias", attn_bias, bias_entries, OF_CELLS),
    ROW("top_k_indices", mask.top_k_indices, mask.entries.top_k_indices, OF_CHOICES),
    ROW("query_positions", in.query_positions, query_position_entries, OF_QUERIES),
    ROW("key_positions", in.key_positions, key_position_entries, OF_KEYS),
    ROW("key_padding_mask", mask.key_padding_mask, mask.entries.key_padding_mask, OF_KEYS),
    ROW("token_ids", mask.token_ids, mask.entries.token_ids, OF_KEYS),
    ROW("document_ids", mask.document_ids, mask.entries.document_ids, OF_KEYS),
    ROW("parents", mask.parents, mask.entries.parents, OF_KEYS),
    {"prefix_lengths", offsetof(srv_operation, mask.prefix_lengths), 0, OF_ENTRY},
};

const char *srv_by_entry_name(size_t which) {
    return fields[which].name;
}

attn_tensor *srv_by_entry_at(srv_operation *o, size_t which) {
    return (attn_tensor *)(void *)((char *)o + fields[which].tensor);
}

static const attn_tensor *tensor_of(const srv_operation *o, size_t which) {
    return (const attn_tensor *)(const void *)((const char *)o + fields[which].tensor);
}

static const srv_entries *list_of(const srv_operation *o, size_t which) {
    static const srv_entries none = {0};
    return fields[which].list
               ? (const srv_entries *)(const void *)((const char *)o + fields[which].list)
               : &none;
}

bool srv_by_entry_is_packed(const srv_operation *o, size_t which) {
    const int rank = tensor_of(o, which)->rank;
    return rank == 1 && (fields[which].kind == OF_QUERIES || fields[which].kind == OF_KEYS);
}

const char *srv_by_entry_list(const srv_operation *o) {
    for (size_t i = 0; i < SRV_BY_ENTRY; i++)
        if (list_of(o, i)->count)
            return fields[i].name;
    return NULL;
}

size_t srv_by_entry_kept(const srv_operation *o, size_t b) {
    const srv_entries *list = &o->past_key_entries;
    const attn_tensor *lengths = &o->mask.key_lengths, *past = &o->in.past_key;
    size_t count = 0;
    if (o->block_table.rank) {
        const bool given = lengths->rank == 1 && b < lengths->dims[0];
        double length = 0;
        if (given)
            attn_widen_f64(&length,
                           (const char *)lengths->data + b * attn_dtype_size(lengths->dtype),
                           lengths->dtype, 1, 1);
        return length > 0 && length < 0x1p53 ? (size_t)length : 0;
    }
    if (list->count)
        past = b < list->count ? &list->items[b] : NULL;
    return past && past->rank > 1 && attn_tensor_count(past, &count) && count
               ? past->dims[past->rank - 2]
               : 0;
}

/* Returns a view of the rows first … first + rows - 1 of the first axis. */
static attn_tensor cut(const attn_tensor *t, size_t first, size_t rows) {
    attn_tensor part = *t;
    part.data =
        (char *)t->data + (ptrdiff_t)first * t->strides[0] * (ptrdiff_t)attn_dtype_size(t->dtype);
    part.dims[0] = rows;
    return part;
}

/* Adds a first axis of length 1. */
static void add_batch_axis(attn_tensor *t) {
    memmove(t->dims + 1, t->dims, (size_t)t->rank * sizeof *t->dims);
    memmove(t->strides + 1, t->strides, (size_t)t->rank * sizeof *t->strides);
    t->strides[0] = t->rank ? t->strides[1] * (ptrdiff_t)t->dims[1] : 1;
    t->dims[0] = 1;
    t->rank++;
}

static bool refuse_item(const srv_attention_call *call, size_t which, size_t b, const char *want,
                        const attn_tensor *found) {
    char pointer[64], have[128];
    snprintf(pointer, sizeof pointer, "/%s/%zu", fields[which].name, b);
    return srv_problem(call->req, SRV_SHAPE, pointer,
                       "expected the item of this entry, %s; found %s", want,
                       attn_shape_text(found->dims, found->rank, have, sizeof have));
}

static void add_last_axis(attn_tensor *t, size_t size) {
    size_t dims[ATTN_MAX_RANK];
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    dims[t->rank] = size;
    *t = attn_tensor_dense(t->data, t->dtype, t->rank + 1, dims);
}

/* Adds the last axis to an item without rows, because JSON cannot express the length of the rows of
 * an empty tensor. `like` is the key or the value of the entry. */
static void complete_item(size_t which, attn_tensor *t, size_t L, size_t S,
                          const attn_tensor *like) {
    if (fields[which].kind == OF_CACHE && t->rank && !t->dims[t->rank - 1] &&
        t->rank < like->rank - 1)
        add_last_axis(t, like->dims[like->rank - 1]);
    const bool whole = t->rank == 2 && !t->dims[0]; /* [0, 0], from a tensor of all entries */
    if (fields[which].kind == OF_CELLS && !L && t->rank && t->rank <= 2 && !whole &&
        !t->dims[t->rank - 1])
        add_last_axis(t, S);
}

/* Checks the shape of the item of entry b, which has L queries, S keys and weights with `rank`
 * axes. */
static bool check_item(const srv_attention_call *call, size_t which, size_t b, const attn_tensor *t,
                       size_t L, size_t S, int rank) {
    const item_kind kind = fields[which].kind;
    const size_t rows = t->rank > 1 ? t->dims[t->rank - 2] : 1,
                 last = t->rank ? t->dims[t->rank - 1] : 0;
    char want[160];
    if (kind == OF_CACHE)
        return t->rank >= 2 || refuse_item(call, which, b, "rows [Hkv, P, E]", t);
    if (kind == OF_QUERIES || kind == OF_KEYS) {
        const size_t count = kind == OF_KEYS ? S : L;
        snprintf(want, sizeof want, "a number for each of %zu %s%s", count,
                 kind == OF_KEYS ? "key" : "quer",
                 kind == OF_KEYS ? attn_plural(count) : attn_plural_y(count));
        return (t->rank == 1 && last == count) || refuse_item(call, which, b, want, t);
    }
    snprintf(want, sizeof want, "%s broadcast to [H, %zu, %zu]",
             kind == OF_CHOICES ? "rows of keys, whose axes but the last" : "which can be", L, S);
    return (t->rank >= 1 && t->rank < rank && (rows == L || rows == 1) &&
            (kind == OF_CHOICES || last == S || last == 1)) ||
           refuse_item(call, which, b, want, t);
}

/* Checks that a field has an item for each of `count` entries or, if it is packed, a number for
 * each of the `rows` packed rows. */
static bool check_whole(const srv_attention_call *call, size_t which, size_t count, size_t rows) {
    const srv_operation *o = &call->body.operation;
    const attn_tensor *t = tensor_of(o, which);
    const srv_scope *scope = &call->scope;
    const char *name = fields[which].name;
    const size_t items = list_of(o, which)->count ? list_of(o, which)->count : t->dims[0];
    if (t->dtype == ATTN_BITS && t->rank)
        return srv_refuse(scope, SRV_VALUE, name,
                          "packed bits have one shape: of a ragged batch send booleans by entry");
    if (srv_by_entry_is_packed(o, which))
        return (srv_operation_is_packed(o) && t->dims[0] == rows) ||
               srv_refuse(scope, SRV_SHAPE, name,
                          srv_operation_is_packed(o)
                              ? "expected a number for each packed row, %zu; found %zu"
                              : "expected a list for each of the entries of the ragged batch, with "
                                "%zu numbers in all; found %zu numbers",
                          rows, t->dims[0]);
    return items == count || (fields[which].kind == OF_ENTRY && t->rank == 1 && items == 1) ||
           srv_refuse(scope, SRV_SHAPE, name, "expected an item for each of %zu entries; found %zu",
                      count, items);
}

/* Returns the item of entry b of a field. A packed field has the `rows` numbers of the entry from
 * number `first` on. */
static attn_tensor item_of(const srv_operation *o, size_t which, size_t b, size_t first,
                           size_t rows) {
    const attn_tensor *whole = tensor_of(o, which);
    const srv_entries *list = list_of(o, which);
    if (srv_by_entry_is_packed(o, which))
        return cut(whole, first, rows);
    if (list->count)
        return list->items[b];
    attn_tensor item = cut(whole, b, 1);
    item.rank--;
    memmove(item.dims, item.dims + 1, (size_t)item.rank * sizeof *item.dims);
    memmove(item.strides, item.strides + 1, (size_t)item.rank * sizeof *item.strides);
    return item;
}

bool srv_by_entry_place(const srv_attention_call *call, size_t b, const size_t first[2],
                        const size_t all[2], size_t count, srv_operation *entry) {
    const srv_operation *o = &call->body.operation;
    const bool blocks = o->block_table.rank > 0;
    const attn_tensor *query = &entry->in.query, *key = entry->in.key.rank ? &entry->in.key : query;
    const int of_query = query->rank - (entry->in.layout == ATTN_BLHE && query->rank == 4 ? 3 : 2);
    const bool heads = entry->in.layout == ATTN_BLD || entry->projections.num_heads;
    const size_t sizes[] = {query->dims[of_query],
                            (blocks ? 0 : key->dims[of_query]) + srv_by_entry_kept(o, b)};
    for (size_t i = 0; i < SRV_BY_ENTRY; i++) {
        const attn_tensor *whole = tensor_of(o, i);
        const item_kind kind = fields[i].kind;
        const bool keys = kind == OF_KEYS;
        if ((!whole->rank && !list_of(o, i)->count) || (kind == OF_BLOCKS && !blocks))
            continue;
        if (!check_whole(call, i, count, all[keys]))
            return false;
        if (kind == OF_ENTRY || kind == OF_BLOCKS) {
            *srv_by_entry_at(entry, i) =
                kind == OF_ENTRY && whole->dims[0] == 1 ? *whole : cut(whole, b, 1);
            continue;
        }
        attn_tensor item = item_of(o, i, b, first[keys], sizes[keys]);
        const bool value = entry->in.value.rank && !strcmp(fields[i].name, "past_value");
        complete_item(i, &item, sizes[0], sizes[1], value ? &entry->in.value : key);
        if (!check_item(call, i, b, &item, sizes[0], sizes[1], heads ? 4 : query->rank))
            return false;
        add_batch_axis(&item);
        *srv_by_entry_at(entry, i) = item;
    }
    return true;
}
