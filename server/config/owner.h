/* The owner of a run, a model or a job as a number: a hash of the name of an API key, or of a
 * client's address (client.h). Code that only compares owners needs no more than this header. */
#ifndef SRV_OWNER_H
#define SRV_OWNER_H

#include <stdint.h>

/* Largest number of characters of an API key's name, without the NUL. */
enum { SRV_OWNER_NAME = 64 };

typedef uint64_t srv_owner; /* 0: no owner, shared by all */

/* Returns the number of the owner with this name; 0 for NULL. It is very unlikely that two names
 * have the same hash. If they do, the queue treats them as one client, but they have no rights to
 * each other's objects, because rights depend on names (srv_request_owns). */
srv_owner srv_owner_of(const char *name);

#endif
