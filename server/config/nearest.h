/* Finds the known name that is nearest to a wrong one, for "did you mean". */
#ifndef SRV_NEAREST_H
#define SRV_NEAREST_H

#include <stddef.h>

/* Returns the name that is nearest to `word` by srv_edits. NULL: no name is near. */
const char *srv_nearest(const char *word, const char *const *names, size_t count);

/* Returns the number of edits that turn `word` into `name`, ignoring case. SIZE_MAX: they are more
 * than a typing error would explain. A name that contains `word` is still near, and then the most
 * edits that a typing error would explain are returned. */
size_t srv_edits(const char *word, const char *name);

#endif
