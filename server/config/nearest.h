/* Finds the known name that is nearest to a wrong one, for "did you mean". */
#ifndef SRV_NEAREST_H
#define SRV_NEAREST_H

#include <stddef.h>

/* Returns the name that is nearest to `word` by srv_edits. NULL: no name is near. */
const char *srv_nearest(const char *word, const char *const *names, size_t count);

/* Returns the number of edits that turn `word` into `name`, ignoring case. Returns SIZE_MAX if they
 * are more than a typing error would explain. But if `name` contains `word`, of at least 3
 * characters, returns at most the largest number that a typing error would explain. */
size_t srv_edits(const char *word, const char *name);

#endif
