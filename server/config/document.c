/* The allocator for jansson takes one piece after the other from the caller's block, and frees
 * nothing. The caller frees the whole block. jansson's allocation hook has no context pointer, so
 * the current document is a thread-local variable. */
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

/* Upper bounds of the bytes that jansson 2.14 allocates, alignment included:
 *
 *   A_BYTE        for each byte of the text: the buffer of the longest token, which grows by
 *                 doubling (at most 4), one copy of each string, two copies of each key
 *   A_VALUE       for each value: its node (32), the rounding of its text (16), and either its
 *                 slot in a list, which grows by doubling (32), or its bucket in an object (64)
 *                 with the entry and the rounding of the key (96)
 *   A_CONTAINER   for each list or object: its node (96) and its first slots or buckets (128)
 *   AT_LEAST      for the document as a whole */
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
