/* Macros for rows of the tables of fields. They are for fields that have the name of a member of the
 * decoded struct T; further initialisers of the row may follow their arguments. Fields that many
 * routes share are defined here once. */
#ifndef SRV_ROUTE_FIELDS_H
#define SRV_ROUTE_FIELDS_H

#include <stddef.h>

#include "wire/decode.h"

#define SRV_WEIGHTS_UNASKED 65536 /* most weights in an answer whose request does not name them */

#define SRV_FIELD_ROW(T, member, type, text, ...)                                                  \
    { .name = #member, .kind = type, .offset = offsetof(T, member), .doc = text, __VA_ARGS__ }
#define SRV_BOOL_ROW(T, member, text, ...) SRV_FIELD_ROW(T, member, SRV_BOOL, text, __VA_ARGS__)
#define SRV_INT_ROW(T, member, least, most, text, ...)                                             \
    {                                                                                              \
        .name = #member, .kind = SRV_INT, .offset = offsetof(T, member), .min = least,             \
        .max = most, .doc = text, __VA_ARGS__                                                      \
    }
#define SRV_REAL_ROW(T, member, least, most, text, ...)                                            \
    {                                                                                              \
        .name = #member, .kind = SRV_REAL, .offset = offsetof(T, member), .min = least,            \
        .max = most, .doc = text, __VA_ARGS__                                                      \
    }
#define SRV_ENUM_ROW(T, member, names, text, ...)                                                  \
    {                                                                                              \
        .name = #member, .kind = SRV_ENUM, .offset = offsetof(T, member), .choices = names,        \
        .doc = text, __VA_ARGS__                                                                   \
    }
#define SRV_TENSOR_ROW(T, member, what, text)                                                      \
    {                                                                                              \
        .name = #member, .kind = SRV_TENSOR, .offset = offsetof(T, member), .accepts = what,       \
        .doc = text                                                                                \
    }
/* The field `kind` of an object, which decides on the object's other fields. */
#define SRV_KIND_ROW(T, names, text)                                                               \
    {                                                                                              \
        .name = "kind", .kind = SRV_ENUM, .offset = offsetof(T, kind), .choices = names,           \
        .required = true, .doc = text                                                              \
    }

#define SRV_TIMEOUT_ROW(T)                                                                         \
    SRV_INT_ROW(T, timeout_ms, 1, 86400000,                                                        \
                "Time limit of the request in milliseconds. The limit of the service applies if "  \
                "it is shorter.")
/* `more` is the end of the sentence that describes the field. */
#define SRV_DECIMALS_ROW(T, more)                                                                  \
    SRV_INT_ROW(T, decimals, 0, 17, "Round the numbers of the answer to this many decimals" more)
#define SRV_FULL_ROW(T)                                                                            \
    SRV_BOOL_ROW(T, full,                                                                          \
                 "For answers as text: print all elements of a tensor. The default prints the "    \
                 "ends of the axes if there are more than 1,000 elements.")
#define SRV_DRY_RUN_ROW(T, text) SRV_BOOL_ROW(T, dry_run, text)

#endif
