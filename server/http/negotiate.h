/* Reads the headers for media types and content codings: Content-Type and Content-Encoding say what
 * the client sends, Accept and Accept-Encoding what it can read. */
#ifndef SRV_NEGOTIATE_H
#define SRV_NEGOTIATE_H

#include <stdbool.h>
#include <stddef.h>

/* The media types of bodies that srv_decode reads, as the header Accept-Post lists them. */
#define SRV_BODY_TYPES "application/json, application/vnd.safetensors"
bool srv_type_is_body(const char *type);

/* Returns whether a body of this type may be JSON: true for application/json, for no type (""), and
 * for the default type of `curl -d`. `type` is in lower case, without parameters. */
bool srv_type_is_json(const char *type);

/* Returns whether the charset in a Content-Type header is missing, UTF-8, or US-ASCII, which is a
 * part of UTF-8. */
bool srv_type_is_utf8(const char *header);

/* Returns the SRV_ACCEPT_* bit of `produces` that the Accept header ranks highest, or 0 if it
 * accepts none. Of equal ranks the lowest in the list of negotiate.c wins, which begins with JSON.
 * Without a header (NULL) every type is accepted. */
unsigned srv_accept_choose(const char *accept, unsigned produces);
/* Writes the types of `produces` for the text of a problem, such as "application/json, text/plain
 * or image/png". Returns `text`. */
const char *srv_accept_names(unsigned produces, char *text, size_t size);

typedef enum srv_coding { SRV_IDENTITY, SRV_GZIP, SRV_DEFLATE, SRV_UNKNOWN_CODING } srv_coding;

/* Returns the coding that a Content-Encoding value names; identity for NULL. */
srv_coding srv_coding_of(const char *value);
/* Returns the coding that an Accept-Encoding value ranks highest. SRV_UNKNOWN_CODING: the client
 * accepts neither gzip nor deflate nor identity. */
srv_coding srv_coding_choose(const char *accept);

#endif
