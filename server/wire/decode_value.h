/* The decoder's state, and the readers of values that contain no other values (decode_value.c).
 * decode.c uses them to read objects and lists.
 *
 * A reader starts at the first byte of a value, writes the member `out` of a struct as the row `f`
 * says, and leaves the cursor behind the value. Functions that return bool return false after they
 * have set the problem. */
#ifndef SRV_DECODE_VALUE_H
#define SRV_DECODE_VALUE_H

#include "wire/decode.h"
#include "wire/scan.h"

typedef struct srv_decoder srv_decoder;
struct srv_decoder {
    attn_scan s;
    srv_scan own; /* the owner of `s` (scan.h) */
    size_t most;  /* the setting max_envelope_bytes */
    /* How many more bytes, values and containers (lists and objects) the request may have outside
     * of tensors. */
    size_t bytes, values, containers;
    /* If `open` is not NULL, objects of this table may have members that the table lacks. They are
     * read by `other`, which starts with the cursor at the colon behind the name. `text` is the
     * name as it was sent, from its quote on. */
    const srv_field *open;
    bool (*other)(srv_decoder *d, const attn_name *name, const char *text);
};

/* Prepares a decoder with the bounds of the service. The caller then sets the text: s.start, s.p
 * and s.end. */
void srv_decode_begin(srv_decoder *d, srv_request *req);
/* Reads the text, which is one JSON object, into *out. */
bool srv_decode_document(srv_decoder *d, const srv_field *fields, void *out);
/* Checks that the required members of the struct and of its nested structs were in the text. */
bool srv_decode_required(srv_decoder *d, const srv_field *fields, void *out);

typedef bool srv_read_fn(srv_decoder *d, const srv_field *f, void *out);

srv_read_fn srv_read_bool, srv_read_int, srv_read_real, srv_read_string, srv_read_choice;
/* Reads a tensor of a type that the row takes (srv_tensor_types). */
srv_read_fn srv_read_tensor;
/* Stores the address of the value and moves the cursor behind the value. Checks only its strings
 * and that its brackets balance. */
srv_read_fn srv_read_raw;
/* Reads an integer of 64 bits. The range of the row does not apply. */
srv_read_fn srv_read_any_int;

/* Reads the ranges of a string such as "5,9,100:104" (SRV_RANGES). */
srv_read_fn srv_read_ranges_text;

/* A JSON number as a double and, if it is integral, as an integer. */
typedef struct srv_number {
    double x;
    int64_t i;       /* the value, if `integral` */
    bool integral;   /* true for 3, 3.0 and 30e-1 */
    bool whole;      /* true if written without a point and an exponent */
    const char *end; /* the byte behind the number */
} srv_number;

/* Reads the number at the cursor. The cursor stays, so that the caller can set a problem that shows
 * the number; the caller then moves the cursor to n->end. */
bool srv_read_number(srv_decoder *d, srv_number *n);
/* Checks that x is within the bounds of the row. `kind` is "a number" or "an integer", for the text
 * of the problem. */
bool srv_in_range(srv_decoder *d, const srv_field *f, double x, const char *kind);

size_t srv_count_choices(const char *const *choices);
/* Writes the expected names: "one of \"a\", \"b\"". Returns the length of the whole text. Of this
 * text, the first size - 1 bytes are written. */
size_t srv_choices_text(const char *const *choices, char *text, size_t size);

/* Sets the problem "expected <expected>, found <the value at the cursor>". Returns false. */
bool srv_refuse_value(srv_decoder *d, srv_code code, const char *expected);
/* Set the problem that an object, or a list of objects, is expected for the field of row f. The
 * text names the first fields of the object and shows the example of the row. Return false. */
bool srv_refuse_object(srv_decoder *d, const srv_field *f);
bool srv_refuse_object_list(srv_decoder *d, const srv_field *f);
/* Sets the problem that the memory of the request is used up. Returns false. */
bool srv_refuse_memory(srv_decoder *d);

#endif
