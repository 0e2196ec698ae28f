/* Memory for JSON documents, allocated before they are read. jansson 2.14 does not check whether a
 * buffer could grow: if memory runs out while it reads a string, it writes past the end of another
 * block. With these functions its allocations never fail.
 *
 * srv_document_begin(&p, block, srv_document_bytes(size, values, containers)); root =
 * json_loadb(…); … json_decref(root); srv_document_end(); */
#ifndef SRV_DOCUMENT_H
#define SRV_DOCUMENT_H

#include <stddef.h>

typedef struct srv_document {
    char *start, *at, *end;
} srv_document;

/* Installs the allocator. To be called once, before any other thread reads JSON. */
void srv_document_start(void);
/* Returns an upper bound of the memory that reading a text of `size` bytes needs, with the given
 * numbers of values and containers (lists and objects). 0: the bound overflows. */
size_t srv_document_bytes(size_t size, size_t values, size_t containers);
/* Begins a document: until srv_document_end, JSON that this thread reads is kept in `block`, which
 * must be 16-byte aligned. */
void srv_document_begin(srv_document *document, void *block, size_t size);
void srv_document_end(void);

#endif
