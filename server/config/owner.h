/* The owner of a run, a model or a job as a number: a hash of the name of an API key or of a
 * client's address (client.c). This is a header of its own, because many parts of the server
 * compare owners. */
#ifndef SRV_OWNER_H
#define SRV_OWNER_H

#include <stdint.h>

/* Most characters in the name of an API key. */
enum { SRV_OWNER_NAME = 64 };

typedef uint64_t srv_owner; /* 0: no owner, shared by all */

/* Returns the number of an owner; for NULL 0. If two names ever get the same number, which is very
 * unlikely, they share the account of their processor time, but no rights. */
srv_owner srv_owner_of(const char *name);

#endif
