/* Values that stand for themselves, a flag or a whole number or a name: read where they are, so
 * that most bodies need no tree. Whatever is not exactly as expected is left to the tree, which can
 * say what is wrong with it. */
#ifndef SRV_LEAF_H
#define SRV_LEAF_H

#include "wire/fields.h"

/* The value at `p`, in a text that ends with a NUL byte at `end`, into the member `out` of a field.
 * The byte after it, or NULL: not read, nothing was changed. */
const char *srv_leaf_read(const char *p, const char *end, const srv_field *field, void *out);

#endif
