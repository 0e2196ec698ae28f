/* Whose something is, as a number: of the name of an API key, or of a client's address. */
#ifndef SRV_OWNER_H
#define SRV_OWNER_H

#include <stdint.h>

/* Most characters of the name of an API key. */
enum { SRV_OWNER_NAME = 64 };

typedef uint64_t srv_owner; /* 0: nobody's own, shared by all */

/* FNV-1a of the name, 64 bits; NULL: 0. Two names hardly ever share a number; where they do they
 * share an account, never a right. */
srv_owner srv_owner_of(const char *name);

#endif
