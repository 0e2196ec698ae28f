/* Reads the axes of rotary positions. In a request, each axis has its positions and its number of
 * pairs. The library takes one tensor with the positions of all axes, and a list that gives each
 * pair its axis. */
#include "api/common/axes_input.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>

#include "request/shared.h"

#define POSITIONS  (SRV_T_REAL | SRV_T_NEGINF | SRV_T_ENTRIES | SRV_T_ENTRY_ROWS)
#define PAIRS_MOST 65536 /* largest number of pairs of an axis */

const srv_field srv_axis_fields[] = {
    SRV_TENSOR_ROW(srv_axis, positions, POSITIONS,
                   "[S] or [B, S]: the position of each token on this axis, for queries and keys "
                   "alike. Real numbers; null = the pairs of the axis do not turn.",
                   .entries = offsetof(srv_axis, entries.positions)),
    SRV_TENSOR_ROW(srv_axis, query_positions, POSITIONS,
                   "[L] or [B, L]: the positions of the queries, beside key_positions.",
                   .entries = offsetof(srv_axis, entries.query_positions)),
    SRV_TENSOR_ROW(srv_axis, key_positions, POSITIONS,
                   "[S] or [B, S]: the positions of the keys, cached ones first.",
                   .entries = offsetof(srv_axis, entries.key_positions)),
    SRV_INT_ROW(srv_axis, num_pairs, 1, PAIRS_MOST,
                "How many pairs turn by this axis: those behind the pairs of the axis before it.",
                .required = true),
    SRV_BOOL_ROW(srv_axis, interleaved,
                 "true: the axis shares its pairs with the neighbouring axes that have this field, "
                 "which take turns. Of A such axes axis a > 0 has the pairs a, a + A, a + 2A, .. "
                 "of theirs, and the first one has the rest (mrope_interleaved of Qwen3-VL)."),
    SRV_REAL_ROW(srv_axis, base, 1, DBL_MAX,
                 "Frequencies of this axis alone: its k-th pair of n has base^(-k/n). Without it "
                 "pair t of all has base^(-2t/dims).",
                 .above = true),
    {0},
};

/* --- positions --- */

static const attn_tensor *places_of(const srv_axis *axis, bool keys) {
    return axis->positions.rank ? &axis->positions
           : keys               ? &axis->key_positions
                                : &axis->query_positions;
}

static const char *name_of(const srv_axis *axis, bool keys) {
    return axis->positions.rank ? "positions" : keys ? "key_positions" : "query_positions";
}

static srv_scope scope_of(const srv_scope *scope, const srv_objects *list, size_t i, char at[96]) {
    const srv_axis *axis = (const srv_axis *)list->items + i;
    snprintf(at, 96, "%.64s/axes/%zu", scope->at, i);
    return (srv_scope){scope->req, srv_axis_fields, &axis->given, at};
}

static bool check_axis(const srv_scope *s, const srv_axis *axis) {
    const srv_entries *lists[] = {&axis->entries.positions, &axis->entries.query_positions,
                                  &axis->entries.key_positions};
    for (size_t i = 0; i < 3; i++) /* the rows of the fields have this order */
        if (lists[i]->count)
            return srv_refuse_list(s, srv_axis_fields[i].name, lists[i]);
    if (!axis->positions.rank && (!axis->query_positions.rank || !axis->key_positions.rank))
        return srv_refuse(s, SRV_VALUE, "positions",
                          "an axis needs positions, or query_positions and key_positions");
    return srv_excludes(s, "positions", "query_positions", "positions are those of both") &&
           srv_excludes(s, "positions", "key_positions", "positions are those of both");
}

/* Sets *batch to the number of batch entries of the positions (0: no axis has a batch axis), *n to
 * the number of rows, and *dtype. */
static bool measure(const srv_scope *scope, const srv_objects *list, bool keys, size_t *batch,
                    size_t *n, attn_dtype *dtype) {
    const srv_axis *axes = list->items;
    *batch = 0, *dtype = ATTN_F32;
    *n = places_of(axes, keys)->dims[places_of(axes, keys)->rank - 1];
    for (size_t i = 0; i < list->count; i++) {
        const attn_tensor *t = places_of(&axes[i], keys);
        char at[96], found[128];
        const srv_scope s = scope_of(scope, list, i, at);
        const size_t entries = t->rank == 2 ? t->dims[0] : 0;
        if (t->rank > 2 || t->dims[t->rank - 1] != *n ||
            (entries > 1 && *batch > 1 && entries != *batch))
            return srv_refuse(&s, SRV_SHAPE, name_of(&axes[i], keys),
                              "expected [n] or [B, n], with the same n and B on every axis; axis 0 "
                              "has n = %zu, found %s",
                              *n, attn_found_text(t, found, sizeof found));
        *batch = entries > *batch ? entries : *batch;
        *dtype = t->dtype == ATTN_F64 ? ATTN_F64 : *dtype;
    }
    return true;
}

/* Makes the tensor of the positions of all axes, [axes, n] or [axes, B, n]. */
static bool stack(const srv_scope *scope, const srv_objects *list, bool keys, attn_tensor *out) {
    const srv_axis *axes = list->items;
    size_t batch, n, bytes;
    attn_dtype dtype;
    if (!measure(scope, list, keys, &batch, &n, &dtype))
        return false;
    const size_t each = attn_dtype_size(dtype), rows = batch ? batch : 1;
    const size_t dims[3] = {list->count, batch ? batch : n, n};
    *out = attn_tensor_dense(NULL, dtype, batch ? 3 : 2, dims);
    char *to = attn_size_mul(n * each, rows, &bytes)
                   ? attn_arena_array(scope->req->arena, list->count, bytes)
                   : NULL;
    if (!to)
        return srv_problem_memory(scope->req, NULL, "no memory is left for the axes");
    out->data = to;
    for (size_t i = 0; i < list->count; i++)
        for (size_t b = 0; b < rows; b++, to += n * each) {
            const attn_tensor *t = places_of(&axes[i], keys);
            const size_t row = t->rank == 2 && t->dims[0] > 1 ? b : 0;
            const char *from = (const char *)t->data + row * n * attn_dtype_size(t->dtype);
            if (dtype == ATTN_F64)
                attn_widen_f64((double *)(void *)to, from, t->dtype, 1, n);
            else
                attn_widen_f32((float *)(void *)to, from, t->dtype, 1, n);
        }
    return true;
}

/* --- pairs --- */

/* Assigns axes to pairs for the `count` interleaved axes from `first` on. Writes them to `to`. */
static bool interleave(const srv_scope *scope, const srv_objects *list, size_t first, size_t count,
                       int32_t *to) {
    const srv_axis *axes = list->items;
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = axes[first + i].num_pairs; k > 0; k--)
            to[total++] = (int32_t)first;
    for (size_t i = 1; i < count; i++) {
        const size_t n = axes[first + i].num_pairs, last = i + count * (n - 1);
        char at[96];
        const srv_scope s = scope_of(scope, list, first + i, at);
        if (last >= total)
            return srv_refuse(&s, SRV_VALUE, "num_pairs",
                              "the last pair of this axis would be %zu, and the last of all is "
                              "%zu: the first axis needs more pairs",
                              last, total - 1);
        for (size_t k = 0; k < n; k++)
            to[i + count * k] = (int32_t)(first + i);
    }
    return true;
}

static bool deal_pairs(const srv_scope *scope, const srv_objects *list, attn_tensor *out) {
    const srv_axis *axes = list->items;
    size_t total = 0;
    for (size_t i = 0; i < list->count; i++)
        total += axes[i].num_pairs;
    int32_t *to = attn_arena_zeroed(scope->req->arena, total, sizeof *to);
    if (!to)
        return srv_problem_memory(scope->req, NULL, "no memory is left for the axes");
    *out = attn_tensor_dense(to, ATTN_I32, 1, &total);
    for (size_t i = 0, next; i < list->count; i = next) {
        next = i + 1;
        while (axes[i].interleaved && next < list->count && axes[next].interleaved)
            next++;
        if (!interleave(scope, list, i, next - i, to))
            return false;
        for (; i < next; i++)
            to += axes[i].num_pairs;
    }
    return true;
}

static bool read_bases(const srv_scope *scope, const srv_objects *list, attn_tensor *out) {
    const srv_axis *axes = list->items;
    double *bases = attn_arena_zeroed(scope->req->arena, list->count, sizeof *bases);
    bool any = false;
    if (!bases)
        return srv_problem_memory(scope->req, NULL, "no memory is left for the axes");
    for (size_t i = 0; i < list->count; i++) {
        bases[i] = axes[i].base;
        any |= bases[i] != 0;
    }
    if (any)
        *out = attn_tensor_dense(bases, ATTN_F64, 1, &list->count);
    return true;
}

bool srv_axes_read(const srv_scope *scope, const srv_objects *list, attn_rotary_axes *out) {
    const srv_axis *axes = list->items;
    if (!list->count)
        return srv_refuse(scope, SRV_VALUE, "axes", "expected at least one axis");
    for (size_t i = 0; i < list->count; i++) {
        char at[96];
        const srv_scope s = scope_of(scope, list, i, at);
        if (!check_axis(&s, &axes[i]))
            return false;
    }
    return stack(scope, list, false, &out->query_positions) &&
           stack(scope, list, true, &out->key_positions) && deal_pairs(scope, list, &out->pairs) &&
           read_bases(scope, list, &out->bases);
}

/* --- places of errors --- */

void srv_axes_where(const srv_objects *list, const char *at, attn_error *err) {
    const size_t n = strlen(at);
    char side, where[sizeof err->where];
    size_t axis, entry;
    int used = 0, more = 0;
    if (strncmp(err->where, at, n) != 0 || err->where[n] != '/')
        return;
    const char *rest = err->where + n + 1;
    if (sscanf(rest, "%c%*[a-z]_positions/%zu%n", &side, &axis, &used) != 2 || !used ||
        axis >= list->count) {
        err->where[n] = 0; /* the error is not about a single axis */
        return;
    }
    const srv_axis *item = (const srv_axis *)list->items + axis;
    const bool keys = side == 'k';
    rest += used;
    if (places_of(item, keys)->rank == 1 && sscanf(rest, "/%zu%n/", &entry, &more) == 1 &&
        rest[more] == '/')
        rest += more; /* skips the batch entry, because the request has no such axis */
    snprintf(where, sizeof where, "%.*s/%zu/%s%s", (int)n, at, axis, name_of(item, keys), rest);
    memcpy(err->where, where, sizeof where);
}
