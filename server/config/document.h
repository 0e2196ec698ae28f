/* Memory for the JSON documents that jansson reads, allocated before the document is read. jansson
 * 2.14 does not check whether a buffer could grow: if memory runs out while it reads a string, it
 * writes past the end of a block. With these functions its allocations never fail. Use:
 *
 *   size_t n = srv_document_bytes(size, values, containers);
 *   void *block = malloc(n);
 *   srv_document_begin(&document, block, n);
 *   json_t *root = json_loadb(…);
 *   …
 *   json_decref(root);
 *   srv_document_end();
 *   free(block); */
#ifndef SRV_DOCUMENT_H
#define SRV_DOCUMENT_H

#include <stddef.h>

typedef struct srv_document {
    char *start, *at, *end; /* the caller's block; its free part begins at `at` */
} srv_document;

/* Makes jansson use this allocator. Call this once, before any other thread reads JSON. */
void srv_document_start(void);
/* Returns an upper bound of the bytes that jansson needs to read a text of `size` bytes with at
 * most `values` values and `containers` lists and objects. 0: the bound overflows. */
size_t srv_document_bytes(size_t size, size_t values, size_t containers);
/* From this call to srv_document_end, jansson allocates from `block` on this thread. `block` has
 * `size` bytes and must be 16-byte aligned. */
void srv_document_begin(srv_document *document, void *block, size_t size);
void srv_document_end(void);

#endif
