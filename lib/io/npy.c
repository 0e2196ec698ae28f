/* Makes and reads the header of an .npy file. A header that is made has the version 1.0, and blanks
 * pad it to a multiple of 64 bytes. In a header that is read, the dictionary must have exactly the
 * three members that NumPy writes, in any order. */
#include <stdio.h>
#include <string.h>

#include "attn/npy.h"
#include "base/try.h"
#include "json/json_scan.h"

static const char *descriptor(attn_dtype dtype) {
    switch (dtype) {
    case ATTN_F32:
        return "<f4";
    case ATTN_F16:
        return "<f2";
    case ATTN_F64:
        return "<f8";
    case ATTN_I32:
        return "<i4";
    case ATTN_I64:
        return "<i8";
    case ATTN_U8:
        return "|u1";
    case ATTN_BOOL:
        return "|b1";
    case ATTN_BF16:
    case ATTN_BITS:
        break;
    }
    return NULL;
}

attn_status attn_npy_header(const attn_tensor *tensor, attn_arena *arena, const void **header,
                            size_t *size, attn_error *err) {
    enum { LEAD = 10, ROOM = 384 }; /* ROOM suffices for ATTN_MAX_RANK (8) sizes of 20 digits */
    const char *type = descriptor(tensor->dtype);
    if (!type)
        return attn_fail(err, ATTN_EDTYPE, "", "NumPy's format has no %s",
                         attn_dtype_name(tensor->dtype));
    char *text = attn_arena_take(arena, ROOM);
    ATTN_TAKEN(text, "the header of an array", err);
    char *p = text + LEAD;
    p += sprintf(p, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    for (int i = 0; i < tensor->rank; i++)
        p += sprintf(p, "%zu,%s", tensor->dims[i], i + 1 < tensor->rank ? " " : "");
    p += sprintf(p, "), }");
    while ((p + 1 - text) % 64)
        *p++ = ' ';
    *p++ = '\n';
    size_t length = (size_t)(p - text) - LEAD;
    memcpy(text, "\x93NUMPY\x01\x00", 8);
    text[8] = (char)(unsigned char)(length & 255);
    text[9] = (char)(unsigned char)(length >> 8);
    *header = text;
    *size = LEAD + length;
    return ATTN_OK;
}

/* --- reading --- */

/* Reads a string of at most `room` - 1 characters between single or double quotes, without escapes.
 */
static bool read_name(attn_scan *s, char *out, size_t room) {
    size_t n = 0;
    attn_scan_space(s);
    const char quote = attn_scan_peek(s);
    if (quote != '\'' && quote != '"')
        return attn_scan_expected(s, "a string");
    for (s->p++; s->p < s->end && *s->p != quote; s->p++) {
        if (n + 1 >= room || *s->p == '\\' || *s->p < ' ')
            return attn_scan_expected(s, "a short string");
        out[n++] = *s->p;
    }
    out[n] = 0;
    return attn_scan_mark(s, quote, "the end of a string");
}

static bool read_truth(attn_scan *s, bool *out) {
    attn_scan_space(s);
    *out = attn_scan_word(s, "True");
    return *out || attn_scan_word(s, "False") || attn_scan_expected(s, "True or False");
}

/* Reads a tuple: (), (3,) or (3, 4). Python 2 wrote some sizes as 3L. */
static bool read_shape(attn_scan *s, attn_npy *out) {
    if (!attn_scan_mark(s, '(', "'('"))
        return false;
    for (out->rank = 0; !attn_scan_take(s, ')'); out->rank++) {
        if (out->rank == ATTN_MAX_RANK)
            return attn_scan_fail(s, ATTN_ESHAPE, s->p, "expected at most %d axes, found more",
                                  ATTN_MAX_RANK);
        if (!attn_scan_count(s, &out->dims[out->rank]))
            return false;
        s->p += attn_scan_peek(s) == 'L';
        if (attn_scan_take(s, ','))
            continue;
        if (out->rank == 0) /* (3) is a number in Python, not a tuple */
            return attn_scan_expected(s, "','");
        out->rank++;
        return attn_scan_mark(s, ')', "',' or ')'");
    }
    return true;
}

static bool read_member(attn_scan *s, attn_npy *out, unsigned *seen) {
    static const char *const names[] = {"descr", "fortran_order", "shape"};
    char name[16];
    unsigned which = 0;
    if (!read_name(s, name, sizeof name))
        return false;
    while (which < 3 && strcmp(name, names[which]) != 0)
        which++;
    if (which == 3 || (*seen >> which & 1))
        return attn_scan_expected(s, "descr, fortran_order and shape, each once");
    *seen |= 1u << which;
    if (!attn_scan_mark(s, ':', "':'"))
        return false;
    return which == 0   ? read_name(s, out->type, sizeof out->type)
           : which == 1 ? read_truth(s, &out->fortran_order)
                        : read_shape(s, out);
}

static bool read_dictionary(attn_scan *s, attn_npy *out) {
    unsigned seen = 0;
    if (!attn_scan_mark(s, '{', "'{'"))
        return false;
    while (!attn_scan_take(s, '}')) {
        if (!read_member(s, out, &seen))
            return false;
        if (attn_scan_take(s, ','))
            continue;
        if (!attn_scan_mark(s, '}', "',' or '}'"))
            return false;
        break;
    }
    if (seen != 7)
        return attn_scan_expected(s, "descr, fortran_order and shape, each once");
    return attn_scan_end(s);
}

attn_status attn_npy_open(const void *data, size_t size, attn_npy *out, attn_error *err) {
    const unsigned char *p = data;
    /* bytes that hold the length of the header */
    const size_t wide = size >= 8 && p[6] >= 2 ? 4 : 2;
    size_t length = 0;
    if (size < 8 + wide || memcmp(p, "\x93NUMPY", 6) != 0)
        return attn_fail(err, ATTN_EARG, "",
                         "this is no .npy file: it does not begin with "
                         "\\x93NUMPY");
    if (p[6] < 1 || p[6] > 3 || p[7] != 0)
        return attn_fail(err, ATTN_EARG, "",
                         "expected version 1.0, 2.0 or 3.0 of the format, found "
                         "%u.%u",
                         p[6], p[7]);
    for (size_t i = wide; i-- > 0;)
        length = length << 8 | p[8 + i];
    if (length > size - 8 - wide)
        return attn_fail(err, ATTN_EARG, "",
                         "the header has %zu bytes, and the file ends after %zu", length,
                         size - 8 - wide);
    const char *text = (const char *)data + 8 + wide;
    attn_scan scan = {
        .start = text, .p = text, .end = text + length, .of = "the header", .err = err};
    attn_npy file = {.data = text + length, .size = size - 8 - wide - length};
    if (!read_dictionary(&scan, &file))
        return scan.status;
    *out = file;
    return ATTN_OK;
}

/* Returns whether a type is the one of a descriptor. The order of bytes says nothing about elements
 * of one byte: NumPy writes |u1, and other writers <u1. */
static bool is_type(const char *type, const char *descriptor) {
    return strcmp(type, descriptor) == 0 ||
           (descriptor[0] == '|' && type[0] && strchr("<>=", type[0]) &&
            strcmp(type + 1, descriptor + 1) == 0);
}

/* Finds the element type. NumPy never writes a type without '<', such as "f4", so it is refused. */
static attn_status type_of(const attn_npy *file, attn_dtype *out, attn_error *err) {
    for (int d = ATTN_F32; d <= ATTN_BOOL; d++) {
        const char *name = descriptor((attn_dtype)d);
        if (name && is_type(file->type, name)) {
            *out = (attn_dtype)d;
            return ATTN_OK;
        }
    }
    return attn_fail(err, ATTN_EDTYPE, "",
                     "expected one of <f4, <f2, <f8, <i4, <i8, |u1 and |b1, found %s%s", file->type,
                     file->type[0] == '>' ? ", which is big-endian" : "");
}

attn_status attn_npy_tensor(const attn_npy *file, attn_tensor *out, attn_error *err) {
    attn_dtype dtype = ATTN_F32;
    size_t bytes, have = file->size;
    char shape[128];
    ATTN_TRY(type_of(file, &dtype, err));
    if (file->rank == 0)
        return attn_fail(err, ATTN_ESHAPE, "", "expected 1 to %d axes, found a single number",
                         ATTN_MAX_RANK);
    attn_tensor t = attn_tensor_dense((void *)(uintptr_t)file->data, dtype, file->rank, file->dims);
    if (!attn_tensor_count(&t, &bytes) || !attn_size_mul(bytes, attn_dtype_size(dtype), &bytes) ||
        bytes != have)
        return attn_fail(err, ATTN_ESHAPE, "",
                         "%zu bytes follow the header, and %s of %s needs "
                         "another number",
                         have, attn_shape_text(t.dims, t.rank, shape, sizeof shape),
                         attn_dtype_name(dtype));
    if (file->fortran_order) {
        /* it can overflow only if an axis has length 0, and then no stride is used */
        size_t stride = 1;
        for (int i = 0; i < t.rank; i++) {
            t.strides[i] = (ptrdiff_t)stride;
            stride *= t.dims[i];
        }
    }
    *out = t;
    return ATTN_OK;
}
