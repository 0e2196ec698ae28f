/* Decodes JSON bodies into C structs by field tables. A table (srv_field[]) describes a struct: it
 * has a row for each member that the JSON may have. The decoder, the bounds of values, the texts of
 * problems and openapi.json follow from the tables, which are in server/api. Answers are written by
 * tables of the same rows (answer.h).
 *
 * Which fields were given: a struct begins with `srv_given_bits given;` (given.h), whose bit i is
 * set if row i of its table was in the body. A struct of the library has no such bits; then the
 * struct around it has them, and the row says where (srv_field.given).
 *
 * Absent fields keep the values that the struct had before, its defaults. JSON null counts as
 * absent, except inside tensors. An unknown field is an error, which names the most similar known
 * field.
 *
 * Tensors are written as nested lists or as objects (tensor_read.h). Without "dtype" the element
 * type is float32 if the row accepts numbers, else int64 if it accepts integers, else bool. Lists
 * of true and false are bool if the row accepts booleans.
 *
 * Memory: if the request's arena is used up, the problem is 413 with the setting max_request_bytes.
 * A handler must leave this problem in the reply. On the HTTP thread, whose arenas are small,
 * server/http/exchange.c then runs the request again on a request thread. The setting
 * max_envelope_bytes bounds the bytes, values, lists and objects outside of tensors; beyond it the
 * problem is 413, too. */
#ifndef SRV_DECODE_H
#define SRV_DECODE_H

#include <stddef.h>
#include <string.h>

#include "request/request.h"
#include "wire/given.h"
#include "json/json_write.h"

/* The kind of a field: the C type of the struct's member, and the JSON that it is read from. */
typedef enum srv_kind {
    SRV_BOOL,    /* bool: true or false; accepts has SRV_B_* bits */
    SRV_INT,     /* int64_t, or an unsigned type of its size: an integer within min … max */
    SRV_REAL,    /* double: a finite number within min … max, or a name, stored as in ENUM */
    SRV_STRING,  /* const char *: a string */
    SRV_ENUM,    /* int, or an enumeration of its size: a name; stored as first + its index */
    SRV_FLAGS,   /* unsigned: a list of names, or one name; name i of choices sets bit i; accepts
                  * has SRV_F_* bits */
    SRV_TENSOR,  /* attn_tensor; accepts has SRV_T_* bits */
    SRV_INTS,    /* srv_ints: a list of integers */
    SRV_RANGES,  /* srv_ranges: [from, to], an index, or text; accepts has SRV_R_* bits */
    SRV_STRINGS, /* srv_strings: a list of strings */
    SRV_TEXTS,   /* srv_strings: a string, or a list of strings */
    SRV_WORDS,   /* srv_words: a list of strings, or a list of such lists */
    SRV_LISTS,   /* srv_int_lists: a list of integers, or a list of such lists */
    SRV_OBJECT,  /* a struct with the table `fields`: an object; accepts has SRV_O_* bits */
    SRV_OBJECTS, /* srv_objects: a list of objects with the table `fields`; accepts SRV_O_* too */
    SRV_UNION,   /* srv_union: a value of one of several types; accepts has SRV_U_* bits */
    SRV_RAW,     /* const char *: any value; the address where it begins in the text, unchecked */
    /* These kinds are only for answers (answer.h): */
    SRV_CHARS, /* char[]: a string; "" is unknown */
    SRV_PUT,   /* the value that the function `put` writes */
} srv_kind;

/* The elements that a tensor may have. Without "dtype", the element type is float32 for SRV_T_REAL,
 * int64 for SRV_T_INT and bool for SRV_T_BOOL. */
enum {
    SRV_T_REAL = 1, /* numbers */
    /* Booleans true and false, not mixed with numbers, and bits. If the JSON has no source of the
     * bits, they are ATTN_BITS whose data is NULL until a tensor of a binary body provides it. */
    SRV_T_BOOL = 2,
    SRV_T_INT = 4,      /* integers, exact to 64 bits */
    SRV_T_NEGINF = 8,   /* null or -Infinity among numbers; both mean -infinity */
    SRV_T_BITS = 64,    /* bits stay packed (ATTN_BITS), with SRV_T_BOOL */
    SRV_T_NUMBER = 128, /* one number, which stands for a tensor [1] */
    SRV_T_NONE = 32,    /* null among integers of 64 bits; it means INT64_MIN */
    /* Random elements (the members random and init) are drawn by srv_draw_random. Until then the
     * handler may read only the type and the shape of the tensor. */
    SRV_T_LATE = 16,
    /* Lists whose items may differ in length. If they do, the tensor gets rank 0, and the items are
     * stored at srv_field.entries. */
    SRV_T_ENTRIES = 256,
    SRV_T_ENTRY_ROWS = 512, /* with SRV_T_ENTRIES: the items may be lists of numbers, too */
};
/* Other forms of an object, or of an element of OBJECTS. */
enum {
    SRV_O_NAME = 1,    /* as a string, which is the value of the object's first field */
    SRV_O_STRINGS = 2, /* as a list of strings, which is the value of each field of the object */
    /* For OBJECTS: a single object instead of a list. The decoder then sets srv_objects.single.
     * With SRV_O_STRINGS, a list of strings counts as one object, too. */
    SRV_O_SINGLE = 4,
    SRV_O_NUMBER = 8, /* as a number, which is the value of the object's first field */
    /* These two are only for answers: */
    SRV_O_POINTER = 16, /* the struct has a pointer to the value (also for PUT); NULL: unknown */
    SRV_O_OPEN = 32,    /* the object may have members without a row */
};
/* Options of SRV_FLAGS. */
enum {
    SRV_F_LIST = 1, /* a list also sets the bit SRV_FLAGS_LIST, which a single name does not set */
};
#define SRV_FLAGS_LIST (1u << 31)
/* The meaning of a boolean. */
enum {
    SRV_B_BEYOND = 1, /* true allows numbers beyond their float type (srv_beyond, decoded_body.h) */
    SRV_B_NOT = 2, /* the struct's member has the opposite meaning: JSON true is stored as false */
};
/* The number of ranges in the text of SRV_RANGES. */
enum {
    SRV_R_MANY = 1, /* several, such as "5,9,100:104"; without this bit only one: "5" or "5:9" */
};
/* The types of a union. */
enum {
    SRV_U_FALSE = 1,
    SRV_U_NUMBER = 2,
    SRV_U_INT = 4,    /* an integer; together with SRV_U_NUMBER any number is allowed */
    SRV_U_STRING = 8, /* one of the names in `choices` */
    SRV_U_INTS = 16,  /* a list of integers */
    SRV_U_TRUE = 32,
    SRV_U_TENSOR = 64, /* a tensor of numbers, as a row of kind TENSOR with SRV_T_REAL takes it */
};

typedef struct srv_ints {
    int64_t *values;
    size_t count;
} srv_ints;
/* Half-open ranges [from, to), in the order in which they were given. A single index i stands for
 * [i, i + 1). The decoder does not check that from < to; srv_range and srv_ranges_check
 * (api/common/scope.h) do. */
typedef struct srv_bounds {
    int64_t from, to;
} srv_bounds;
typedef struct srv_ranges {
    srv_bounds *items;
    size_t count;
    const char *text; /* the text that was sent, for problems: "[5, 9]" or "5:9" */
} srv_ranges;
typedef struct srv_strings {
    const char **values;
    size_t count;
} srv_strings;
typedef struct srv_words {
    srv_strings *lists;
    size_t count;
} srv_words;
typedef struct srv_int_lists {
    srv_ints *lists;
    size_t count;
} srv_int_lists;
typedef struct srv_objects {
    void *items;
    size_t count;
    bool single; /* a single item was sent without a list around it */
} srv_objects;
/* The items of a ragged list: dense tensors of one type. */
typedef struct srv_entries {
    attn_tensor *items;
    size_t count; /* 0: the list is not ragged */
} srv_entries;
typedef struct srv_union {
    unsigned is;     /* the SRV_U_* bit of the type that was given; 0: the field is absent */
    double number;   /* the value for SRV_U_NUMBER and SRV_U_INT */
    int64_t integer; /* for SRV_U_INT: a number without a fraction, if the row accepts SRV_U_INT */
    int choice;      /* for SRV_U_STRING: index into choices */
    srv_ints ints;   /* for SRV_U_INTS */
    attn_tensor tensor; /* for SRV_U_TENSOR */
} srv_union;

/* A row of a field table. A table ends with a row whose name is NULL. */
typedef struct srv_field {
    const char *name; /* name of the JSON member */
    srv_kind kind;
    size_t offset;   /* offset of the member in the struct, in bytes */
    const char *doc; /* one sentence for openapi.json and the README */
    /* For TENSOR: advice for the problem that rows of the list differ in length; NULL: none. */
    const char *ragged;
    size_t entries;      /* for TENSOR with SRV_T_ENTRIES: offset of a srv_entries in the struct */
    const char *example; /* a value as JSON, for openapi.json and problems; NULL: none */
    /* For rows of query strings: the default value as JSON. It is stored before the query string is
     * decoded. A request that sends the default must get the same answer as one without the
     * parameter, whatever its other parameters are. NULL: the handler chooses the default, or no
     * value means the same as an absent parameter. */
    const char *standard;
    unsigned accepts;           /* SRV_T_*, SRV_O_*, SRV_F_*, SRV_B_*, SRV_R_* or SRV_U_* bits */
    const char *const *choices; /* for ENUM, FLAGS, UNION and REAL: the names, ended by NULL */
    int first;                  /* for ENUM and REAL: the value of the first choice */
    const struct srv_field *fields; /* for OBJECT and OBJECTS: the table of the object */
    /* For OBJECT: offset of the object's given bits, in the struct around the object. 0: the object
     * begins with them. */
    size_t given;
    size_t size; /* for OBJECTS: bytes of one struct */
    /* For OBJECTS: the name of the schema of an element in openapi.json. Tables that contain
     * themselves need it. NULL: the schema has no name and is written in place. */
    const char *schema;
    /* For OBJECT and OBJECTS: sets an object's defaults before it is decoded. NULL: an element of
     * OBJECTS starts as zeros, and an OBJECT with the values that the struct has. */
    void (*init)(void *item);
    /* For INT, REAL and numbers of UNION: the range; both 0: any number. For OBJECTS, INTS, STRINGS
     * and TEXTS: max is the largest number of elements; 0: any number. */
    double min, max;
    bool above, below; /* for REAL: the bound min, or max, is itself not allowed */
    bool required;
    bool narrow; /* for INT: the member is a size_t of 32 bits */
    /* --- only for answers (answer.h) --- */
    const char *type; /* JSON type in the notation of answer.h; NULL: it follows from the kind */
    bool always;      /* present even if the value is unknown */
    size_t when; /* offset of the bool that says whether the member is present; 0: there is none */
    /* For PUT: writes the value at `place`, the struct's address plus `offset`. A value that is not
     * written is absent. */
    void (*put)(attn_json_text *j, const void *place);
} srv_field;

/* Rows of the field table of struct T. `text` is the row's `doc`, and further members of the row
 * may follow it, such as .required = true. In all rows but SRV_NAMED_ROW the JSON field has the
 * name of the member of T. */
#define SRV_IS_NARROW(T, member) (sizeof(((T *)0)->member) == 4)
#define SRV_NAMED_ROW(T, field, member, type, text, ...)                                           \
    {                                                                                              \
        .name = field, .kind = type, .offset = offsetof(T, member), .doc = text,                   \
        .narrow = SRV_IS_NARROW(T, member), __VA_ARGS__                                            \
    }
#define SRV_FIELD_ROW(T, member, type, text, ...)                                                  \
    SRV_NAMED_ROW(T, #member, member, type, text, __VA_ARGS__)
#define SRV_BOOL_ROW(T, member, text, ...) SRV_FIELD_ROW(T, member, SRV_BOOL, text, __VA_ARGS__)
#define SRV_INT_ROW(T, member, least, most, text, ...)                                             \
    SRV_FIELD_ROW(T, member, SRV_INT, text, .min = least, .max = most, __VA_ARGS__)
#define SRV_REAL_ROW(T, member, least, most, text, ...)                                            \
    SRV_FIELD_ROW(T, member, SRV_REAL, text, .min = least, .max = most, __VA_ARGS__)
#define SRV_ENUM_ROW(T, member, names, text, ...)                                                  \
    SRV_FIELD_ROW(T, member, SRV_ENUM, text, .choices = names, __VA_ARGS__)
#define SRV_TENSOR_ROW(T, member, what, text, ...)                                                 \
    SRV_FIELD_ROW(T, member, SRV_TENSOR, text, .accepts = what, __VA_ARGS__)
/* The required field `kind` of an object. Its value decides which other fields the object has. */
#define SRV_KIND_ROW(T, names, text) SRV_ENUM_ROW(T, kind, names, text, .required = true)

/* Reads and stores the value of a row of SRV_INT. A size_t of 32 bits whose bits are all set is -1:
 * an unknown value. */
static inline int64_t srv_int_at(const srv_field *f, const void *place) {
    return f->narrow ? *(const int32_t *)place : *(const int64_t *)place;
}
static inline void srv_int_store(const srv_field *f, void *place, int64_t value) {
    if (f->narrow)
        *(int32_t *)place = (int32_t)value;
    else
        *(int64_t *)place = value;
}

/* Returns whether the field table and all tables nested in it have at most SRV_FIELDS_MOST rows.
 * The service checks the tables of all routes when it starts. */
bool srv_fields_fit(const srv_field *fields);

/* Returns the bits that say which fields of `object` were given. f is the row of this object or,
 * for SRV_OBJECTS, of the list of which `object` is an element. */
static inline srv_given_bits *srv_given_of(const srv_field *f, void *object) {
    return (void *)(f->given ? (char *)object - f->offset + f->given : (char *)object);
}

/* Decodes the body of `req`, of any content type that the route accepts, into *out. Tensors and
 * strings are in req->arena or in the body. false: a problem is set. */
bool srv_decode(srv_request *req, const srv_field *fields, void *out);

/* Draws the random elements of all tensors of rows with SRV_T_LATE. false: a problem is set. */
bool srv_draw_random(srv_request *req);
/* Predicts the time of srv_draw_random in nanoseconds, by drawing the first elements of each
 * tensor. */
double srv_draw_random_ns(const srv_request *req);

/* Stores the defaults of the rows (srv_field.standard) in *out, also those of nested objects.
 * false: a problem is set. */
bool srv_decode_standards(srv_request *req, const srv_field *fields, void *out);

/* Refuses all query parameters of a request whose route does not read the query string. `body` is
 * the field table of the request's body, for advice; NULL: there is no body. false: a problem is
 * set. */
bool srv_query_refuse(srv_request *req, const srv_field *body);

/* Turns the query string into a JSON object, *size bytes and a NUL in the arena, which
 * srv_read_query (api/common/scope.h) decodes. false: a problem is set. */
bool srv_query_text(srv_request *req, const srv_field *fields, const char **text, size_t *size);

/* Returns the row whose name is the n bytes at `name`. NULL: there is none. */
static inline const srv_field *srv_find_field(const srv_field *fields, const char *name, size_t n) {
    for (; fields->name; fields++)
        if (fields->name[0] == name[0] && strlen(fields->name) == n &&
            memcmp(fields->name, name, n) == 0)
            return fields;
    return NULL;
}
/* Returns the SRV_T_* bits of the tensors that the row takes. 0: it takes none. */
static inline unsigned srv_tensor_types(const srv_field *f) {
    if (f->kind == SRV_UNION)
        return f->accepts & SRV_U_TENSOR ? SRV_T_REAL : 0;
    return f->kind == SRV_TENSOR ? f->accepts : 0;
}
/* The text of the problem that no tensor of the body provides the bits. */
#define SRV_BITS_MISSING                                                                           \
    "the bits are missing: expected base64 beside encoding, or in a binary body a tensor of "      \
    "uint8 "                                                                                       \
    "with this name"
/* Sets the problem that no row has the name `name`. The problem suggests the field for which other
 * libraries use this name (aliases.h), or else the field with the most similar name. */
void srv_unknown_field(srv_request *req, const char *pointer, const char *name,
                       const srv_field *fields);

#endif
