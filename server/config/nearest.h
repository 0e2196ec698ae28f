/* Finds the known name that is nearest to a wrong one, for "did you mean". */
#ifndef SRV_NEAREST_H
#define SRV_NEAREST_H

#include <stddef.h>

/* Returns the name that needs the fewest edits to become `word`, ignoring case. NULL: every name
 * needs more edits than a typing error would explain. */
const char *srv_nearest(const char *word, const char *const *names, size_t count);

/* Returns the number of edits that turn `word` into `name`, ignoring case. SIZE_MAX: more than a
 * typing error would explain. */
size_t srv_edits(const char *word, const char *name);

#endif
