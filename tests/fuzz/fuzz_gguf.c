/* Any bytes as a GGUF file: reading it may neither crash nor look outside of it; what is accepted
 * has values and tensors inside of the file, and tensors that do not overlap. */
#include <attn/gguf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/blocks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_inside(const void *at, size_t bytes, const char *file, size_t size) {
    if ((const char *)at < file || bytes > size || (size_t)((const char *)at - file) > size - bytes)
        abort();
}

static void check_value(const attn_gguf_value *v, const char *file, size_t size) {
    attn_gguf_text text;
    double x;
    size_t n;
    for (size_t i = 0; i < v->count; i++) {
        if (v->texts)
            check_inside(v->texts[i].at, v->texts[i].size, file, size);
        else if (!attn_gguf_number(v, i, &x))
            abort();
        attn_gguf_count(v, i, &n);
    }
    if (attn_gguf_text_of(v, &text) && text.at != v->texts[0].at)
        abort();
}

static void check_tensor(const attn_gguf_tensor *t, const char *file, size_t size) {
    size_t values = 1;
    float x[ATTN_BLOCK_MOST];
    check_inside(t->data, t->bytes, file, size);
    for (int i = 0; i < t->rank; i++)
        values *= t->dims[i];
    if (values / t->format->values * t->format->bytes != t->bytes)
        abort();
    attn_gguf_widen(x, t, values - t->format->values, t->format->values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *file = malloc(size ? size : 1); /* reading past the end is seen */
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_gguf g;
    attn_error err = {0};
    if (!file || !arena)
        abort();
    if (size)
        memcpy(file, data, size);
    if (attn_gguf_read(file, size, arena, &g, &err)) {
        if (!err.text[0])
            abort();
    } else {
        for (size_t i = 0; i < g.value_count; i++)
            check_value(&g.values[i], file, size);
        for (size_t i = 0; i < g.count; i++)
            check_tensor(&g.tensors[i], file, size);
        for (size_t i = 0; i < g.count; i++)
            for (size_t j = 0; j < i; j++) {
                const char *a = g.tensors[i].data, *b = g.tensors[j].data;
                if (a < b + g.tensors[j].bytes && b < a + g.tensors[i].bytes)
                    abort();
            }
    }
    attn_arena_free(arena);
    free(file);
    return 0;
}
