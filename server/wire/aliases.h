/* The names that other libraries give to fields and values of requests. They are never accepted;
 * the problem says how the field is called here and why, or what to send instead. */
#ifndef SRV_ALIASES_H
#define SRV_ALIASES_H

#include "wire/decode.h"

enum { SRV_ALIAS_ROOM = 320 }; /* bytes that hold every text */

/* Write the end of the sentence that refuses the name `other`, ignoring its case, for a table of
 * fields or a list of choices: how it is called here, or what to send instead. They return text, or
 * NULL if nothing is known about the name. */
const char *srv_alias_of_field(const char *other, const srv_field *fields, char *text, size_t room);
const char *srv_alias_of_choice(const char *other, const char *const *choices, char *text,
                                size_t room);

#endif
