/* Finds the nearest known name, for "did you mean". */
#ifndef SRV_NEAREST_H
#define SRV_NEAREST_H

#include <stddef.h>

/* The name with the fewest edits from `word`, ignoring case, or NULL if none is near. */
const char *srv_nearest(const char *word, const char *const *names, size_t count);

#endif
