/* The allocator for jansson takes consecutive blocks of memory; the owner of the memory frees all
 * of them at once. jansson's allocation hook has no context pointer, so the current document is a
 * thread-local variable. */
#include "config/document.h"

#include <attn/memory.h>
#include <jansson.h>
#include <stdlib.h>

enum { ALIGN = 16 };

static _Thread_local srv_document *current;

static void *take(size_t size) {
    srv_document *d = current;
    size_t rounded = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (!d || rounded < size || rounded > (size_t)(d->end - d->at))
        return malloc(size);
    void *p = d->at;
    d->at += rounded;
    return p;
}

static void give(void *p) {
    const srv_document *d = current;
    if (!d || (char *)p < d->start || (char *)p >= d->end)
        free(p);
}

void srv_document_start(void) {
    json_set_alloc_funcs(take, give);
}

/* Upper bounds of the bytes that jansson 2.14 allocates, with room for alignment. A_BYTE, for a
 * byte of the text: the buffer of the longest token grows by doubling, 16 + 32 + … (at most 4 bytes
 * a byte), each string is copied once, each key twice. A_VALUE, for a value: its node (32), the
 * rounding of its characters (16), and its slot in a list that grows by doubling (32), or its
 * bucket in an object (64) with its entry and the rounding of its key (96). A_CONTAINER, for a list
 * or an object: its node (96) and its first slots or buckets (128). */
enum { A_BYTE = 8, A_VALUE = 256, A_CONTAINER = 256, AT_LEAST = 512 };

size_t srv_document_bytes(size_t size, size_t values, size_t containers) {
    size_t text, nodes, lists, sum;
    if (!attn_size_mul(size, A_BYTE, &text) || !attn_size_mul(values, A_VALUE, &nodes) ||
        !attn_size_mul(containers, A_CONTAINER, &lists) || !attn_size_add(text, nodes, &sum) ||
        !attn_size_add(sum, lists, &sum) || !attn_size_add(sum, AT_LEAST, &sum))
        return 0;
    return sum;
}

void srv_document_begin(srv_document *document, void *block, size_t size) {
    *document = (srv_document){block, block, (char *)block + size};
    current = document;
}

void srv_document_end(void) {
    current = NULL;
}
