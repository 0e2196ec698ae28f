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
    OF_ENTRY,   /* one number for the entry, or one for all entries */
    OF_LENGTHS, /* one number for the entry; beside query they may be lengths of packed rows */
    OF_BLOCKS,  /* the entry, in a page cache */
} item_kind;

struct srv_by_entry_row {
    const char *name;
    size_t tensor, list; /* offsets in the struct of the table; a list at 0 does not exist */
    item_kind kind;
};

#define ROW(T, name, member, list, kind)                                                           \
    { name, offsetof(T, member), offsetof(T, list), kind }
static const srv_by_entry_row of_operation[] = {
    ROW(srv_operation, "past_key", in.past_key, past_key_entries, OF_CACHE),
    ROW(srv_operation, "past_value", in.past_value, past_value_entries, OF_CACHE),
    {"block_table", offsetof(srv_operation, block_table), 0, OF_BLOCKS},
    ROW(srv_operation, "attn_bias", attn_bias, bias_entries, OF_CELLS),
    ROW(srv_operation, "query_positions", in.query_positions, query_position_entries, OF_QUERIES),
    ROW(srv_operation, "key_positions", in.key_positions, key_position_entries, OF_KEYS),
    {0},
};
static const srv_by_entry_row of_mask[] = {
    ROW(srv_mask_input, "attn_mask", attn_mask, entries.attn_mask, OF_CELLS),
    ROW(srv_mask_input, "top_k_indices", top_k_indices, entries.top_k_indices, OF_CHOICES),
    ROW(srv_mask_input, "key_padding_mask", key_padding_mask, entries.key_padding_mask, OF_KEYS),
    ROW(srv_mask_input, "token_ids", token_ids, entries.token_ids, OF_KEYS),
    ROW(srv_mask_input, "document_ids", document_ids, entries.document_ids, OF_KEYS),
    ROW(srv_mask_input, "parents", parents, entries.parents, OF_KEYS),
    {"prefix_lengths", offsetof(srv_mask_input, prefix_lengths), 0, OF_ENTRY},
    {"key_lengths", offsetof(srv_mask_input, key_lengths), 0, OF_LENGTHS},
    {0},
};
static const srv_by_entry_row of_axis[] = {
    ROW(srv_axis, "positions", positions, entries.positions, OF_KEYS),
    ROW(srv_axis, "query_positions", query_positions, entries.query_positions, OF_QUERIES),
    ROW(srv_axis, "key_positions", key_positions, entries.key_positions, OF_KEYS),
    {0},
};

bool srv_by_entry_takes(const char *name) {
    for (const srv_by_entry_row *row = of_operation; row->name; row++)
        if (!strcmp(name, row->name))
            return true;
    for (const srv_by_entry_row *row = of_mask; row->name; row++)
        if (!strcmp(name, row->name))
            return true;
    return false;
}

/* --- the walk over the fields of a request and of one entry --- */

typedef struct walk {
    srv_by_entry_visit *visit;
    void *data;
} walk;

static const srv_entries *list_of(const srv_by_entry_row *row, const void *from) {
    static const srv_entries none = {0};
    return row->list ? (const srv_entries *)(const void *)((const char *)from + row->list) : &none;
}

/* Visits the fields of a table that the request has. `from` is the struct of the request and `to`
 * that of the entry. The fields stand in the object at the path `at`, which ends with '/' or is
 * empty. */
static bool walk_rows(const walk *w, const srv_by_entry_row *rows, const void *from, void *to,
                      const char *at) {
    for (const srv_by_entry_row *row = rows; row->name; row++) {
        srv_by_entry field = {
            .row = row,
            .whole = (const attn_tensor *)(const void *)((const char *)from + row->tensor),
            .list = list_of(row, from),
            .item = (attn_tensor *)(void *)((char *)to + row->tensor),
            .nested = *at != 0};
        if (!field.whole->rank && !field.list->count)
            continue;
        field.packed = field.whole->rank == 1 && (row->kind == OF_QUERIES || row->kind == OF_KEYS);
        snprintf(field.at, sizeof field.at, "%s%s", at, row->name);
        if (!w->visit(w->data, &field))
            return false;
    }
    return true;
}

static bool walk_mask(const walk *w, const srv_mask_input *from, srv_mask_input *to,
                      const char *at);

static bool walk_parts(const walk *w, const srv_objects *from, srv_objects *to, const char *at,
                       const char *name) {
    const srv_mask_item *have = from->items;
    srv_mask_item *own = to->items;
    char inside[SRV_BY_ENTRY_PATH];
    for (size_t i = 0; i < from->count; i++) {
        if (from->single)
            snprintf(inside, sizeof inside, "%s%s/", at, name);
        else
            snprintf(inside, sizeof inside, "%s%s/%zu/", at, name, i);
        if (!walk_mask(w, &have[i].mask, &own[i].mask, inside))
            return false;
    }
    return true;
}

static bool walk_mask(const walk *w, const srv_mask_input *from, srv_mask_input *to,
                      const char *at) {
    return walk_rows(w, of_mask, from, to, at) &&
           walk_parts(w, &from->any_of, &to->any_of, at, "any_of") &&
           walk_parts(w, &from->all_of, &to->all_of, at, "all_of") &&
           walk_parts(w, &from->not_of, &to->not_of, at, "not");
}

static bool walk_axes(const walk *w, const srv_objects *from, srv_objects *to) {
    const srv_position_item *have = from->items;
    srv_position_item *own = to->items;
    char inside[SRV_BY_ENTRY_PATH];
    for (size_t i = 0; i < from->count; i++)
        for (size_t a = 0; a < have[i].axes.count; a++) {
            if (from->single)
                snprintf(inside, sizeof inside, "position/axes/%zu/", a);
            else
                snprintf(inside, sizeof inside, "position/%zu/axes/%zu/", i, a);
            if (!walk_rows(w, of_axis, (const srv_axis *)have[i].axes.items + a,
                           (srv_axis *)own[i].axes.items + a, inside))
                return false;
        }
    return true;
}

bool srv_by_entry_each(const srv_operation *from, srv_operation *to, srv_by_entry_visit *visit,
                       void *data) {
    const walk w = {visit, data};
    return walk_rows(&w, of_operation, from, to, "") && walk_mask(&w, &from->mask, &to->mask, "") &&
           walk_axes(&w, &from->position, &to->position);
}

/* --- the items of an entry --- */

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

/* The entry that gets its items. */
typedef struct placing {
    const srv_attention_call *call;
    size_t b, count; /* index of the entry, number of entries */
    /* Queries and keys: the rows in front of the entry, those of all entries, those of the entry. */
    size_t first[2], all[2], sizes[2];
    const attn_tensor *key, *value; /* operands of the entry */
    int rank;                       /* axes of the weights */
} placing;

static bool refuse_item(const placing *p, const srv_by_entry *field, const char *want,
                        const attn_tensor *found) {
    char pointer[SRV_BY_ENTRY_PATH + 24], have[128];
    snprintf(pointer, sizeof pointer, "/%s/%zu", field->at, p->b);
    return srv_problem(p->call->req, SRV_SHAPE, pointer,
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
 * an empty tensor. */
static void complete_item(const placing *p, const srv_by_entry *field, attn_tensor *t) {
    const bool of_value = p->value->rank && !strcmp(field->row->name, "past_value");
    const attn_tensor *like = of_value ? p->value : p->key;
    if (field->row->kind == OF_CACHE && t->rank && !t->dims[t->rank - 1] &&
        t->rank < like->rank - 1)
        add_last_axis(t, like->dims[like->rank - 1]);
    const bool whole = t->rank == 2 && !t->dims[0]; /* [0, 0], from a tensor of all entries */
    if (field->row->kind == OF_CELLS && !p->sizes[0] && t->rank && t->rank <= 2 && !whole &&
        !t->dims[t->rank - 1])
        add_last_axis(t, p->sizes[1]);
}

/* Checks the shape of an item. */
static bool check_item(const placing *p, const srv_by_entry *field, const attn_tensor *t) {
    const item_kind kind = field->row->kind;
    const size_t L = p->sizes[0], S = p->sizes[1], rows = t->rank > 1 ? t->dims[t->rank - 2] : 1,
                 last = t->rank ? t->dims[t->rank - 1] : 0;
    char want[160];
    if (kind == OF_CACHE)
        return t->rank >= 2 || refuse_item(p, field, "rows [Hkv, P, E]", t);
    if (kind == OF_QUERIES || kind == OF_KEYS) {
        const size_t count = kind == OF_KEYS ? S : L;
        snprintf(want, sizeof want, "a number for each of %zu %s%s", count,
                 kind == OF_KEYS ? "key" : "quer",
                 kind == OF_KEYS ? attn_plural(count) : attn_plural_y(count));
        return (t->rank == 1 && last == count) || refuse_item(p, field, want, t);
    }
    snprintf(want, sizeof want, "%s broadcast to [H, %zu, %zu]",
             kind == OF_CHOICES ? "rows of keys, whose axes but the last" : "which can be", L, S);
    return (t->rank >= 1 && t->rank < p->rank && (rows == L || rows == 1) &&
            (kind == OF_CHOICES || last == S || last == 1)) ||
           refuse_item(p, field, want, t);
}

/* Checks that a field has an item for each entry or, if it is packed, a number for each packed
 * row. */
static bool check_whole(const placing *p, const srv_by_entry *field) {
    const item_kind kind = field->row->kind;
    const attn_tensor *t = field->whole;
    const srv_scope *scope = &p->call->scope;
    const size_t items = field->list->count ? field->list->count : t->dims[0];
    const size_t rows = p->all[kind == OF_KEYS];
    if (t->dtype == ATTN_BITS && t->rank)
        return srv_refuse(scope, SRV_VALUE, field->at,
                          "packed bits have one shape: of a ragged batch send booleans by entry");
    if (field->packed) {
        const bool packs = srv_operation_is_packed(&p->call->body.operation);
        return (packs && t->dims[0] == rows) ||
               srv_refuse(scope, SRV_SHAPE, field->at,
                          packs
                              ? "expected a number for each packed row, %zu; found %zu"
                              : "expected a list for each of the entries of the ragged batch, with "
                                "%zu numbers in all; found %zu numbers",
                          rows, t->dims[0]);
    }
    return items == p->count || (kind == OF_ENTRY && t->rank == 1 && items == 1) ||
           srv_refuse(scope, SRV_SHAPE, field->at,
                      "expected an item for each of %zu entries; found %zu", p->count, items);
}

/* Returns the item of the entry, which has no batch axis. */
static attn_tensor item_of(const placing *p, const srv_by_entry *field) {
    const bool keys = field->row->kind == OF_KEYS;
    if (field->packed)
        return cut(field->whole, p->first[keys], p->sizes[keys]);
    if (field->list->count)
        return field->list->items[p->b];
    attn_tensor item = cut(field->whole, p->b, 1);
    item.rank--;
    memmove(item.dims, item.dims + 1, (size_t)item.rank * sizeof *item.dims);
    memmove(item.strides, item.strides + 1, (size_t)item.rank * sizeof *item.strides);
    return item;
}

/* Gives the entry its item of a field. */
static bool place(void *data, const srv_by_entry *field) {
    const placing *p = data;
    const item_kind kind = field->row->kind;
    const bool pages = p->call->body.operation.block_table.rank > 0;
    if (kind == OF_LENGTHS && !field->nested && !pages) /* they have split the packed rows */
        return true;
    if (!check_whole(p, field))
        return false;
    if (kind == OF_ENTRY || kind == OF_LENGTHS || kind == OF_BLOCKS) {
        *field->item = kind == OF_ENTRY && field->whole->dims[0] == 1 ? *field->whole
                                                                      : cut(field->whole, p->b, 1);
        return true;
    }
    attn_tensor item = item_of(p, field);
    complete_item(p, field, &item);
    if (!check_item(p, field, &item))
        return false;
    add_batch_axis(&item);
    *field->item = item;
    return true;
}

/* Gives the operation of an entry lists of its own, for the items of that entry. */
static bool copy_list(srv_request *req, srv_objects *list, size_t size) {
    void *copy = list->count ? attn_arena_array(req->arena, list->count, size) : NULL;
    if (!list->count)
        return true;
    if (!copy)
        return srv_problem_memory(req, NULL, "no memory is left for the entries");
    memcpy(copy, list->items, list->count * size);
    list->items = copy;
    return true;
}

static bool copy_parts(srv_request *req, srv_mask_input *mask) {
    srv_objects *const lists[] = {&mask->any_of, &mask->all_of, &mask->not_of};
    mask->entries = (srv_mask_entries){0}; /* the entry has their items */
    for (size_t n = 0; n < sizeof lists / sizeof *lists; n++) {
        if (!copy_list(req, lists[n], sizeof(srv_mask_item)))
            return false;
        srv_mask_item *parts = lists[n]->items;
        for (size_t i = 0; i < lists[n]->count; i++)
            if (!copy_parts(req, &parts[i].mask))
                return false;
    }
    return true;
}

static bool copy_axes(srv_request *req, srv_objects *positions) {
    if (!copy_list(req, positions, sizeof(srv_position_item)))
        return false;
    srv_position_item *items = positions->items;
    for (size_t i = 0; i < positions->count; i++) {
        if (!copy_list(req, &items[i].axes, sizeof(srv_axis)))
            return false;
        srv_axis *axes = items[i].axes.items;
        for (size_t a = 0; a < items[i].axes.count; a++)
            axes[a].entries = (srv_axis_entries){0};
    }
    return true;
}

bool srv_by_entry_place(const srv_attention_call *call, size_t b, const size_t first[2],
                        const size_t all[2], size_t count, srv_operation *entry) {
    const srv_operation *o = &call->body.operation;
    const attn_tensor *query = &entry->in.query, *key = entry->in.key.rank ? &entry->in.key : query;
    const int rows = query->rank - (entry->in.layout == ATTN_BLHE && query->rank == 4 ? 3 : 2);
    const bool heads = entry->in.layout == ATTN_BLD || entry->projections.num_heads;
    const bool pages = o->block_table.rank > 0;
    placing p = {
        .call = call,
        .b = b,
        .count = count,
        .first = {first[0], first[1]},
        .all = {all[0], all[1]},
        .sizes = {query->dims[rows], (pages ? 0 : key->dims[rows]) + srv_by_entry_kept(o, b)},
        .key = key,
        .value = &entry->in.value,
        .rank = heads ? 4 : query->rank};
    return copy_parts(call->req, &entry->mask) && copy_axes(call->req, &entry->position) &&
           srv_by_entry_each(o, entry, place, &p);
}
