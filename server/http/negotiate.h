/* Media types and content codings: what the client sends (Content-Type, Content-Encoding) and what
 * it can read (Accept, Accept-Encoding). */
#ifndef SRV_NEGOTIATE_H
#define SRV_NEGOTIATE_H

#include <stdbool.h>
#include <stddef.h>

/* The types of bodies that srv_decode reads, for Accept-Post. */
#define SRV_BODY_TYPES "application/json, application/vnd.safetensors"
bool srv_type_is_body(const char *type);

/* Tells whether a body of this type may be JSON. `type`: lower case, without parameters. This is so
 * for application/json, for no type, and for the default type of `curl -d`. */
bool srv_type_is_json(const char *type);

/* Tells whether the charset in a Content-Type header is UTF-8 (or its part US-ASCII), or missing.
 */
bool srv_type_is_utf8(const char *header);

/* The one SRV_ACCEPT_* bit of `produces` that an Accept header ranks highest (ties: JSON); 0: none.
 * `accept` NULL: everything. */
unsigned srv_accept_choose(const char *accept, unsigned produces);
/* The types of `produces` for error texts: "application/json, text/plain or image/png". */
const char *srv_accept_names(unsigned produces, char *text, size_t size);

typedef enum srv_coding { SRV_IDENTITY, SRV_GZIP, SRV_DEFLATE, SRV_UNKNOWN_CODING } srv_coding;

/* The value of Content-Encoding; NULL: identity. */
srv_coding srv_coding_of(const char *value);
/* The best of Accept-Encoding that this service writes; SRV_UNKNOWN_CODING: not even identity. */
srv_coding srv_coding_choose(const char *accept);

#endif
