#include "runs/copy.h"

#include <attn/input_rows.h>
#include <string.h>

/* --- tensors --- */

/* Copies the elements of axis `axis` and of all later axes to *to, row-major, and advances *to
 * behind them. */
static void copy_axis(char **to, const attn_tensor *t, int axis, const char *from) {
    const size_t each = attn_dtype_size(t->dtype);
    for (size_t i = 0; i < t->dims[axis]; i++, from += t->strides[axis] * (ptrdiff_t)each) {
        if (axis + 1 < t->rank) {
            copy_axis(to, t, axis + 1, from);
            continue;
        }
        memcpy(*to, from, each);
        *to += each;
    }
}

bool attn_run_copy_tensor(attn_tensor *t, attn_arena *arena) {
    size_t count, bytes;
    if (!t->rank)
        return true;
    char *data =
        attn_tensor_count(t, &count) && attn_size_mul(count, attn_dtype_size(t->dtype), &bytes)
            ? attn_arena_take(arena, bytes)
            : NULL;
    if (!data)
        return false;
    const attn_tensor copy = attn_tensor_dense(data, t->dtype, t->rank, t->dims);
    copy_axis(&data, t, 0, t->data);
    *t = copy;
    return true;
}

bool attn_run_copy_operands(attn_inputs *in, attn_arena *arena) {
    attn_mask_spec *mask = &in->mask;
    const void *offsets = NULL;
    bool ok = attn_run_copy_list(mask->offsets, mask->offset_count, sizeof *mask->offsets, arena,
                                 &offsets);
    mask->offsets = offsets;
    for (const attn_input *row = attn_input_rows + ATTN_INPUT_SEQUENCES; row->name && ok; row++)
        ok = row->type != ATTN_INPUT_TENSOR ||
             attn_run_copy_tensor(attn_tensor_at(in, row->offset), arena);
    for (size_t i = 0; ok && i < mask->count; i++)
        ok = attn_run_copy_tensor(&mask->layers[i].values, arena);
    return ok;
}

/* --- lists and texts --- */

bool attn_run_copy_list(const void *from, size_t count, size_t size, attn_arena *arena,
                        const void **to) {
    void *copy = from ? attn_arena_zeroed(arena, count + 1, size) : NULL;
    *to = copy;
    if (copy && count)
        memcpy(copy, from, count * size);
    return copy || !from;
}

bool attn_run_copy_string(const char *from, attn_arena *arena, const char **to) {
    *to = from ? attn_arena_text(arena, from, strlen(from)) : NULL;
    return *to || !from;
}

bool attn_run_copy_text(const attn_run_text *from, size_t more, attn_arena *arena,
                        attn_run_text *to) {
    const size_t n = from->count;
    size_t room;
    const void *offsets = NULL;
    *to = (attn_run_text){.count = n};
    if (!attn_size_add(n, more, &room) || room == SIZE_MAX)
        return false;
    const char **tokens = attn_arena_zeroed(arena, room + 1, sizeof *tokens);
    int64_t *ids = from->ids ? attn_arena_zeroed(arena, room + 1, sizeof *ids) : NULL;
    uint8_t *special = from->special ? attn_arena_zeroed(arena, room + 1, 1) : NULL;
    bool ok = tokens && (ids || !from->ids) && (special || !from->special) &&
              attn_run_copy_list(from->offsets, n, sizeof *from->offsets, arena, &offsets) &&
              attn_run_copy_string(from->text, arena, &to->text);
    for (size_t i = 0; ok && i < n; i++)
        ok = attn_run_copy_string(from->tokens[i], arena, &tokens[i]);
    if (!ok)
        return false;
    if (ids)
        memcpy(ids, from->ids, n * sizeof *ids);
    if (special)
        memcpy(special, from->special, n);
    to->tokens = tokens;
    to->ids = ids;
    to->special = special;
    to->offsets = offsets;
    return true;
}

bool attn_run_copy_info(attn_run_site_info *info, size_t B, attn_arena *arena) {
    const void *lists[5];
    const bool ok =
        attn_run_copy_string(info->name, arena, &info->name) &&
        attn_run_copy_string(info->stack, arena, &info->stack) &&
        attn_run_copy_list(info->query_texts, info->query_text_count, sizeof(size_t), arena,
                           &lists[0]) &&
        attn_run_copy_list(info->key_texts, info->key_text_count, sizeof(size_t), arena,
                           &lists[1]) &&
        attn_run_copy_list(info->query_lengths, B, sizeof(int64_t), arena, &lists[2]) &&
        attn_run_copy_list(info->key_lengths, B, sizeof(int64_t), arena, &lists[3]) &&
        attn_run_copy_list(info->axes, info->axis_count, sizeof(char *), arena, &lists[4]);
    if (!ok)
        return false;
    info->query_texts = lists[0];
    info->key_texts = lists[1];
    info->query_lengths = lists[2];
    info->key_lengths = lists[3];
    info->axes = lists[4];
    return true;
}
