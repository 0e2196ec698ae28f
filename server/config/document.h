/* The memory of JSON documents, put aside before they are read: jansson 2.14 does not look whether
 * a buffer could grow, so that memory that runs out while it reads a string makes it write past the
 * end of another block. Here it always gets what it asks for.
 *
 *   srv_document_begin(&p, block, srv_document_bytes(size, values, containers));
 *   root = json_loadb(…); … json_decref(root);
 *   srv_document_end();
 */
#ifndef SRV_DOCUMENT_H
#define SRV_DOCUMENT_H

#include <stddef.h>

typedef struct srv_document {
    char *start, *at, *end;
} srv_document;

/* Install the hook: once, before any other thread reads JSON. */
void srv_document_start(void);
/* What reading a text of `size` bytes with so many values, of them lists and objects, can take;
 * 0: more than can be counted. */
size_t srv_document_bytes(size_t size, size_t values, size_t containers);
/* From here to the end this thread's documents live in `block` (16-byte aligned). */
void srv_document_begin(srv_document *document, void *block, size_t size);
void srv_document_end(void);

#endif
