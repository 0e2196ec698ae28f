/* Writes answers by tables of rows (srv_field); decode.h reads bodies by such tables. A row
 * describes one member of an answer: its name, its kind, where the value is in the C struct, when
 * it is present, and a sentence about it. JSON and the schemas of openapi.json follow from the
 * rows, so a member is added by adding a row. A table ends with a row whose name is NULL.
 *
 * Presence: a member with `always` is there in every case. Otherwise, if the row has `when`, a bool
 * of the struct decides. Without `when` a member is absent if its value is unknown: a negative
 * integer, an enumeration below its first name, a real that is not finite, NULL, an empty text,
 * list or tensor, an object whose members are all unknown, or a value that `put` does not write.
 *
 * A row whose name is "" is an object whose members are members of the object around it. A row of
 * the kind SRV_PUT without a function describes a member that other code writes.
 *
 * Type: the kind says it, or `type` in this notation:
 *
 *   string, integer, number, boolean, object   a value of this JSON type
 *   any            any value
 *   base64         bytes as text
 *   string:uri     a string of this format
 *   string:binary;image/png   with this media type
 *   integer+       at least 0; integer+1: at least 1; .min and .max of the row are bounds, too
 *   Job            the schema of this name
 *   *              an object with the rows `fields`
 *   [number]       a list; [integer 3]: of 3 elements, [integer 1+]: of at least 1, [* 0-16]
 *   {number}       an object with any names and values of this type; {string 1+}: at least one
 *   <Job>          a string that is JSON of this type
 *   number?        the type, or null
 *   Names|[Names]  one of several types
 *
 * A string is one of `choices` if the row has them. A type that begins with {" is the schema
 * itself, as JSON. */
#ifndef SRV_ANSWER_H
#define SRV_ANSWER_H

#include <stddef.h>

#include "wire/decode.h"

/* Rows of a table for the struct T: SRV_ALWAYS for a member that is always present, SRV_IF_KNOWN
 * for a member that is absent if its value is unknown. `text` is the sentence, or NULL; further
 * initialisers of the row may follow it. */
#define SRV_ALWAYS(name, kind, T, member, text, ...)                                               \
    {                                                                                              \
        name, kind, offsetof(T, member), text, .always = true, .narrow = SRV_IS_NARROW(T, member), \
                                               __VA_ARGS__                                         \
    }
#define SRV_IF_KNOWN(name, kind, T, member, text, ...)                                             \
    {                                                                                              \
        name, kind, offsetof(T, member), text, .always = false,                                    \
                                               .narrow = SRV_IS_NARROW(T, member), __VA_ARGS__     \
    }
/* A member that `function` writes. The function gets the address of the whole struct. */
#define SRV_WRITTEN(name, of_type, function, text, ...)                                            \
    { name, SRV_PUT, 0, text, .type = of_type, .put = function, __VA_ARGS__ }
/* A member that `function` writes. The function gets the address of the member `member` of the
 * struct. */
#define SRV_WRITTEN_AT(name, of_type, function, T, member, text, ...)                              \
    { name, SRV_PUT, offsetof(T, member), text, .type = of_type, .put = function, __VA_ARGS__ }
/* An object whose members have rows of the same struct; or, in a list of schemas
 * (server/api/service/openapi.c), the schema of an object with these rows. */
#define SRV_GROUP(name, rows, text, ...)                                                           \
    { name, SRV_OBJECT, 0, text, .fields = rows, __VA_ARGS__ }

/* Writes the member of `object` that the row describes, if it is present. */
void srv_answer_member(attn_json_text *j, const srv_field *f, const void *object);
/* Writes the members of `object` by its rows. The caller begins and ends the JSON object. */
void srv_answer_members(attn_json_text *j, const srv_field *rows, const void *object);
/* Writes `object` as a JSON object, braces included. */
void srv_answer_object(attn_json_text *j, const srv_field *rows, const void *object);
/* Sets the reply to the object as JSON. false: a problem is set. */
bool srv_answer_reply(srv_request *req, const srv_field *rows, const void *object);

#endif
