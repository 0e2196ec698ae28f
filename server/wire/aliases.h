/* The names that other libraries give to fields and values of requests. The service never accepts
 * them. The problem gives the name that this service uses and the reason, or says what to send
 * instead. */
#ifndef SRV_ALIASES_H
#define SRV_ALIASES_H

#include "wire/decode.h"

enum { SRV_ALIAS_ROOM = 320 }; /* size of a buffer into which every text fits, in bytes */

/* Writes advice to `text`: the value to send instead of `other`, a name that is not in `choices`.
 * The text is the end of the sentence that refuses `other`. The case of `other` does not matter.
 * Returns `text`, or NULL if nothing is known about the name. `choices` ends with NULL. */
const char *srv_alias_of_choice(const char *other, const char *const *choices, char *text,
                                size_t room);

#endif
