/* Media types: what the client sends (Content-Type) and what it can read (Accept). */
#ifndef SRV_NEGOTIATE_H
#define SRV_NEGOTIATE_H

#include <stdbool.h>
#include <stddef.h>

/* The types of bodies that srv_decode reads, for Accept-Post. */
#define SRV_BODY_TYPES "application/json, application/vnd.safetensors"
bool srv_type_is_body(const char *type);

/* May a body of this type be JSON? `type`: lower case, without parameters. Yes for
 * application/json, for none, and for what `curl -d` sends unasked. */
bool srv_type_is_json(const char *type);

/* Is the charset of a whole Content-Type header UTF-8 (or its part US-ASCII), or not stated? */
bool srv_type_is_utf8(const char *header);

/* The one SRV_ACCEPT_* bit of `produces` that an Accept header ranks highest (ties: JSON); 0: none.
 * `accept` NULL: everything. */
unsigned srv_accept_choose(const char *accept, unsigned produces);
/* The weight of one choice, "text/plain;q=0.5", in thousandths: the number behind q, else 1000. */
int srv_accept_weight(const char *p, const char *end);
/* The types of `produces` for error texts: "application/json, text/plain or image/png". */
const char *srv_accept_names(unsigned produces, char *text, size_t size);

#endif
