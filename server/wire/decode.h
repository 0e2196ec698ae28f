/* Field tables: what a JSON body may hold, decoded into a C struct. The decoder, the limits, the
 * error texts and openapi.json come from these rows; the files of server/api hold the tables.
 *
 * Bit i of a struct's word `given` is set when row i of its table was in the body, so that a table
 * has at most SRV_FIELDS_MOST rows. The word is the first member of the struct, `uint64_t given;`.
 * A struct of the library has no such member: the word for an object of that type is a member of
 * the struct around it, which the row names. Absent fields keep what the struct held before (its
 * defaults); JSON null counts as absent, save inside tensors. Unknown fields are errors that name
 * the nearest known one.
 *
 * A tensor is written as nested lists, or as an object {"shape": [..], "dtype": "float32", ..} with
 * one of "data": [flat list], "base64": "little-endian bytes", "random": "normal" or "uniform"
 * (with "seed", an integer, default 0; element i of the row-major tensor is number i of
 * attn/rng.h), and "fill": "zeros", "ones", "eye" (over the last two axes) or "arange" (0, 1, 2, …
 * row-major). Without "dtype" it is float32 where numbers are accepted, else int64, else bool;
 * lists of true and false are bool where booleans are accepted.
 *
 * When the arena's limit is reached the reply is 413 too_large with setting "max_request_bytes". A
 * handler leaves that reply as it is, also in place (req->in_place, with its small limit):
 * server/http/exchange.c then drops it and runs the request again on a request thread.
 * The bounds of what is not a tensor (text, values, lists and objects) are 413 too, with setting
 * "max_envelope_bytes". */
#ifndef SRV_DECODE_H
#define SRV_DECODE_H

#include "request/request.h"

typedef enum srv_kind {
    SRV_BOOL,   /* bool; see accepts */
    SRV_INT,    /* int64_t or an unsigned type of that size, within min … max */
    SRV_REAL,   /* double, within min … max, finite */
    SRV_STRING, /* const char * */
    SRV_ENUM,   /* int or an enumeration of that size: first + index into choices */
    SRV_FLAGS,  /* unsigned: a list of names, bit = index into choices; a single string is a list of
                   one */
    SRV_TENSOR, /* attn_tensor, see accepts */
    SRV_INTS,   /* srv_ints: a list of integers */
    SRV_STRINGS, /* srv_strings: a list of strings */
    SRV_TEXTS,   /* srv_strings: a string, or a list of strings */
    SRV_WORDS,   /* srv_words: a list of strings, or a list of such lists */
    SRV_OBJECT,  /* nested struct at offset, fields; see accepts */
    SRV_OBJECTS, /* srv_objects: a list of nested structs of `size` bytes, fields, `init` */
    SRV_UNION,   /* srv_union: one of several, see accepts */
    SRV_RAW,     /* const char *: where the value begins in the text; its reader checks it */
} srv_kind;

/* accepts, for tensors. Storage: numbers float32 (or as "dtype" says), SRV_T_INT int64, booleans
 * BOOL. */
enum {
    SRV_T_REAL = 1,   /* numbers */
    SRV_T_BOOL = 2,   /* true/false, all of them or none */
    SRV_T_INT = 4,    /* integers only, exact to 64 bits */
    SRV_T_NEGINF = 8, /* null stands for -infinity */
};
/* accepts, for objects. */
enum {
    SRV_O_NAME = 1, /* a string stands for an object of its first field alone */
};
/* accepts, for booleans. */
enum {
    SRV_B_BEYOND = 1, /* true lets numbers beyond their float type be infinities */
    SRV_B_NOT = 2,    /* the member has the opposite meaning: true is stored as false */
};
/* accepts, for unions. */
enum {
    SRV_U_FALSE = 1, /* but not true */
    SRV_U_NUMBER = 2,
    SRV_U_INT = 4,    /* integral numbers only (with SRV_U_NUMBER: any number) */
    SRV_U_STRING = 8, /* one of choices */
    SRV_U_INTS = 16,
};

typedef struct srv_ints {
    int64_t *values;
    size_t count;
} srv_ints;
typedef struct srv_strings {
    const char **values;
    size_t count;
} srv_strings;
typedef struct srv_words {
    srv_strings *lists;
    size_t count;
} srv_words;
typedef struct srv_objects {
    void *items;
    size_t count;
} srv_objects;
typedef struct srv_union {
    unsigned is;   /* 0 = absent, else the one SRV_U_* bit that was found (an integral number is INT
                      when SRV_U_INT is accepted, else NUMBER) */
    double number; /* set for INT too */
    int64_t integer;
    int choice; /* STRING: index into choices */
    srv_ints ints;
} srv_union;

typedef struct srv_field {
    const char *name;
    srv_kind kind;
    size_t offset;
    const char *doc;      /* one sentence for openapi.json and the README */
    const char *mistaken; /* a name that people try for this field, for "did you mean"; or NULL */
    unsigned accepts;
    const char *const *choices;     /* NULL-terminated */
    int first;                      /* ENUM: the number of the first choice */
    const struct srv_field *fields; /* nested table, ended by a row with name NULL */
    size_t given; /* OBJECT: offset of the object's word of given bits, in the struct that
                     `offset` refers to, too; 0: the object begins with the word */
    size_t size;  /* OBJECTS: bytes of one struct */
    void (*init)(void *item); /* OBJECT, OBJECTS: defaults, set when the object is there; NULL:
                                 OBJECTS start as zeros, OBJECT as the struct was */
    double min, max;          /* INT, REAL, numbers of UNION: both 0 = no bound; OBJECTS, INTS,
                                 STRINGS, TEXTS: max count, 0 = no bound */
    bool required;
} srv_field;

_Static_assert(sizeof(size_t) == sizeof(int64_t), "SRV_INT rows may name a size_t");

enum { SRV_FIELDS_MOST = 64 }; /* rows of one table: the bits of `given` */

/* Returns whether the field table and all tables nested in it have at most SRV_FIELDS_MOST rows.
 * The service checks the tables of all routes when it starts. */
bool srv_fields_fit(const srv_field *fields);

/* Returns the word of given bits of an object or element, which the row `f` describes. */
static inline uint64_t *srv_given_word(const srv_field *f, void *object) {
    return (uint64_t *)(void *)(f->given ? (char *)object - f->offset + f->given : (char *)object);
}

/* Decodes the body of `req`, of any content type that the route accepts, into *out. Tensors and
 * strings are in req->arena or in the body. Returns false with a problem in req->reply on failure.
 */
bool srv_decode(srv_request *req, const srv_field *fields, void *out);

/* Decodes the query string of `req` into *out by a field table, with the same bounds and problems
 * as for bodies. Lists are written 1,2,3 and ranges 0:256. The fields of nested objects are
 * parameters like the other fields. Returns false with a problem set on failure. */
bool srv_decode_query(srv_request *req, const srv_field *fields, void *out);

/* Returns the row whose name is the n bytes at `name`, or NULL. */
const srv_field *srv_find_field(const srv_field *fields, const char *name, size_t n);
/* Sets the problem for a name that no row has. It suggests the row with the most similar name. */
void srv_unknown_field(srv_request *req, const char *pointer, const char *name,
                       const srv_field *fields);

#endif
