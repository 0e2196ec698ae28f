/* Reads the headers about media types and content codings. Content-Type and Content-Encoding
 * describe the body of the request. Accept and Accept-Encoding list the forms of the answer that
 * the client can read. */
#ifndef SRV_NEGOTIATE_H
#define SRV_NEGOTIATE_H

#include <stdbool.h>
#include <stddef.h>

/* The media types of bodies that srv_decode reads, as the header Accept-Post lists them. */
#define SRV_BODY_TYPES                                                                             \
    "application/json, application/vnd.safetensors, application/x-npy, application/x-npz"
bool srv_type_is_body(const char *type);
/* The types for a route with an intake (router.h), which takes safetensors also as octets. */
#define SRV_INTAKE_TYPES "application/json, application/vnd.safetensors, application/octet-stream"
bool srv_type_is_intake(const char *type);

/* Returns whether a body of this type is read as JSON. That is so for application/json, for no type
 * (""), and for application/x-www-form-urlencoded, which `curl -d` sends by default. `type` is in
 * lower case, without parameters. */
bool srv_type_is_json(const char *type);

/* Returns whether a Content-Type header has no charset, or the charset UTF-8 or US-ASCII (a subset
 * of UTF-8). */
bool srv_type_is_utf8(const char *header);

/* Chooses the media type of the answer: returns the SRV_ACCEPT_* bit of `produces` to which the
 * Accept header gives the highest weight. 0: the client accepts none of these types. Among types of
 * equal weight, chooses the one that comes first in the list of negotiate.c, which begins with
 * JSON. `accept` NULL: the client accepts every type. */
unsigned srv_accept_choose(const char *accept, unsigned produces);
/* Writes the names of the types in `produces` for the text of a problem, such as "application/json,
 * text/plain or image/png". Returns `text`. */
const char *srv_accept_names(unsigned produces, char *text, size_t size);

typedef enum srv_coding { SRV_IDENTITY, SRV_GZIP, SRV_DEFLATE, SRV_UNKNOWN_CODING } srv_coding;

/* Returns the coding that a Content-Encoding value names; identity for NULL. */
srv_coding srv_coding_of(const char *value);
/* Returns the coding to which an Accept-Encoding value gives the highest weight.
 * SRV_UNKNOWN_CODING: the client accepts neither gzip nor deflate nor identity. */
srv_coding srv_coding_choose(const char *accept);
/* Returns whether an Accept-Encoding value prefers Brotli ("br") to gzip or likes both equally.
 * Only bodies that were encoded at build time exist in this coding. */
bool srv_coding_is_brotli(const char *accept);

#endif
