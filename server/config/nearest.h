/* Finds the known name that is nearest to a wrong one, for "did you mean". */
#ifndef SRV_NEAREST_H
#define SRV_NEAREST_H

#include <stddef.h>

/* Returns the name with the fewest edits from `word`, ignoring case; NULL: none is near. */
const char *srv_nearest(const char *word, const char *const *names, size_t count);

#endif
