/* The owner of a thing as a number, made from the name of an API key or from the address of a
 * client. */
#ifndef SRV_OWNER_H
#define SRV_OWNER_H

#include <stdint.h>

/* Most characters of the name of an API key. */
enum { SRV_OWNER_NAME = 64 };

typedef uint64_t srv_owner; /* 0: shared by all */

/* FNV-1a of the name in 64 bits; NULL gives 0. Two names with the same number, which are very
 * unlikely, share the account of their processor time and no right. */
srv_owner srv_owner_of(const char *name);

#endif
