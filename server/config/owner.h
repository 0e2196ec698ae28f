/* The owner of a run, a model or a job as a number: a hash of the name of an API key, or of a
 * client's address (client.c). A header of its own, since many rooms compare owners. */
#ifndef SRV_OWNER_H
#define SRV_OWNER_H

#include <stdint.h>

/* Most characters of the name of an API key. */
enum { SRV_OWNER_NAME = 64 };

typedef uint64_t srv_owner; /* 0: no owner, shared by all */

/* NULL gives 0. Two names with the same number, which are very unlikely, share the account of their
 * processor time and no right. */
srv_owner srv_owner_of(const char *name);

#endif
