/* The names that other libraries give to fields and values of requests. They are never accepted;
 * the problem says how the field is called here and why. */
#ifndef SRV_ALIASES_H
#define SRV_ALIASES_H

#include "wire/decode.h"

typedef struct srv_alias {
    const char *other; /* the name elsewhere */
    const char *name;  /* the name here */
    const char *why;   /* completes the sentence "here it is called .., because .." */
} srv_alias;

/* Returns the alias `other` of a field of the table, ignoring case. NULL: there is none. */
const srv_alias *srv_alias_of_field(const char *other, const srv_field *fields);
/* Returns the alias `other` of one of the choices, ignoring case. NULL: there is none. */
const srv_alias *srv_alias_of_choice(const char *other, const char *const *choices);

#endif
