/* The names that other libraries give to fields and values of requests. They are never accepted;
 * the problem says how the field is called here and why, or what to send instead. */
#ifndef SRV_ALIASES_H
#define SRV_ALIASES_H

#include "wire/decode.h"

enum { SRV_ALIAS_ROOM = 320 }; /* bytes that hold every text */

/* Writes the end of the sentence that refuses the name `other`, ignoring its case, for a list of
 * choices: how it is called here, or what to send instead. Returns text, or NULL if nothing is known
 * about the name. */
const char *srv_alias_of_choice(const char *other, const char *const *choices, char *text,
                                size_t room);

#endif
