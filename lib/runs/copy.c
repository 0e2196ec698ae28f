#include "runs/copy.h"

#include <attn/input_rows.h>
#include <string.h>

#include "base/view.h"

/* --- tensors --- */

/* Copies all elements of the tensor to `to`, row-major. */
static void copy_elements(char *to, const attn_tensor *t, size_t count) {
    const size_t each = attn_dtype_size(t->dtype), width = t->dims[t->rank - 1];
    const ptrdiff_t step = t->strides[t->rank - 1] * (ptrdiff_t)each;
    for (size_t r = 0; width && r < count / width; r++) {
        const char *from = attn_dense_row(t, r);
        for (size_t j = 0; j < width; j++, to += each, from += step)
            memcpy(to, from, each);
    }
}

void attn_run_copy_tensor(attn_run_copier *c, attn_tensor *t) {
    size_t count, bytes;
    if (!t->rank)
        return;
    char *data =
        attn_tensor_count(t, &count) && attn_size_mul(count, attn_dtype_size(t->dtype), &bytes)
            ? attn_arena_take(c->arena, bytes)
            : NULL;
    c->failed = c->failed || !data;
    if (c->failed)
        return;
    copy_elements(data, t, count);
    *t = attn_tensor_dense(data, t->dtype, t->rank, t->dims);
}

void attn_run_copy_operands(attn_run_copier *c, attn_inputs *in) {
    attn_mask_spec *mask = &in->mask;
    mask->offsets = attn_run_copy_list(c, mask->offsets, mask->offset_count, sizeof(int64_t));
    for (const attn_input *row = attn_input_rows + ATTN_INPUT_SEQUENCES; row->name; row++)
        if (attn_input_is_tensor(row))
            attn_run_copy_tensor(c, attn_tensor_at(in, row->offset));
    for (size_t i = 0; i < mask->count; i++) {
        attn_mask_layer *layer = &mask->layers[i];
        attn_run_copy_tensor(c, &layer->values);
        layer->by_head =
            attn_run_copy_list(c, layer->by_head, layer->head_count, sizeof *layer->by_head);
    }
    if (mask->query_positions.rank)
        mask->query_positions = in->query_positions;
    if (mask->key_positions.rank)
        mask->key_positions = in->key_positions;
}

/* --- lists and texts --- */

/* Returns a copy of `count` elements, followed by `more` + 1 elements of zeros. NULL: `from` is
 * NULL, or memory ran out. */
static void *copy_longer(attn_run_copier *c, const void *from, size_t count, size_t more,
                         size_t size) {
    size_t room;
    if (!from || c->failed)
        return NULL;
    void *copy = attn_size_add(count, more, &room) && attn_size_add(room, 1, &room)
                     ? attn_arena_zeroed(c->arena, room, size)
                     : NULL;
    c->failed = !copy;
    if (copy && count)
        memcpy(copy, from, count * size);
    return copy;
}

void *attn_run_copy_list(attn_run_copier *c, const void *from, size_t count, size_t size) {
    return copy_longer(c, from, count, 0, size);
}

const char *attn_run_copy_string(attn_run_copier *c, const char *from) {
    return from ? copy_longer(c, from, strlen(from), 0, 1) : NULL;
}

void attn_run_copy_text(attn_run_copier *c, size_t more, attn_run_text *text) {
    const size_t n = text->count;
    /* Tokens that are added later need an array, even if the text has no tokens yet. */
    const void *from = text->tokens ? (const void *)text->tokens : "";
    const char **tokens = copy_longer(c, from, n, more, sizeof *tokens);
    for (size_t i = 0; i < n && !c->failed; i++)
        tokens[i] = attn_run_copy_string(c, tokens[i]);
    text->tokens = tokens;
    text->ids = copy_longer(c, text->ids, n, more, sizeof *text->ids);
    text->special = copy_longer(c, text->special, n, more, 1);
    text->offsets = attn_run_copy_list(c, text->offsets, n, sizeof *text->offsets);
    text->text = attn_run_copy_string(c, text->text);
}

void attn_run_copy_info(attn_run_copier *c, attn_run_site_info *info, size_t B) {
    info->name = attn_run_copy_string(c, info->name);
    info->stack = attn_run_copy_string(c, info->stack);
    info->query_texts =
        attn_run_copy_list(c, info->query_texts, info->query_text_count, sizeof(size_t));
    info->key_texts = attn_run_copy_list(c, info->key_texts, info->key_text_count, sizeof(size_t));
    info->query_lengths = attn_run_copy_list(c, info->query_lengths, B, sizeof(int64_t));
    info->key_lengths = attn_run_copy_list(c, info->key_lengths, B, sizeof(int64_t));
    info->axes = attn_run_copy_list(c, info->axes, info->axis_count, sizeof(char *));
}
