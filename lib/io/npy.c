/* Makes and reads the header of an .npy file. A header that is made has the version 1.0 and blanks
 * up to a multiple of 64 bytes. Of a header that is read, the dictionary must have the three
 * members that NumPy writes, in any order, and nothing else. */
#include <stdio.h>
#include <string.h>

#include "attn/npy.h"
#include "json/header_text.h"

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
    char *text = attn_arena_take(arena, ROOM), *p = text + LEAD;
    if (!text)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for the header is left");
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
static attn_status read_name(attn_io_cursor *c, char *out, size_t room) {
    size_t n = 0;
    attn_io_space(c);
    const char quote = c->p < c->end ? *c->p : 0;
    if (quote != '\'' && quote != '"')
        return attn_io_expected(c, "a string");
    for (c->p++; c->p < c->end && *c->p != quote; c->p++) {
        if (n + 1 >= room || *c->p == '\\' || *c->p < ' ')
            return attn_io_expected(c, "a short string");
        out[n++] = *c->p;
    }
    if (c->p == c->end)
        return attn_io_expected(c, "the end of a string");
    c->p++;
    out[n] = 0;
    return ATTN_OK;
}

static attn_status read_truth(attn_io_cursor *c, bool *out) {
    attn_io_space(c);
    const size_t left = (size_t)(c->end - c->p);
    *out = left >= 4 && memcmp(c->p, "True", 4) == 0;
    if (!*out && !(left >= 5 && memcmp(c->p, "False", 5) == 0))
        return attn_io_expected(c, "True or False");
    c->p += *out ? 4 : 5;
    return ATTN_OK;
}

/* Reads a tuple: (), (3,) or (3, 4). */
static attn_status read_shape(attn_io_cursor *c, attn_npy *out) {
    attn_status status = attn_io_need(c, '(', "'('");
    out->rank = 0;
    while (status == ATTN_OK && !attn_io_take(c, ')')) {
        if (out->rank == ATTN_MAX_RANK)
            return attn_fail(c->err, ATTN_ESHAPE, "", "expected at most %d axes, found more",
                             ATTN_MAX_RANK);
        status = attn_io_count(c, &out->dims[out->rank]);
        if (status != ATTN_OK)
            return status;
        out->rank++;
        if (attn_io_take(c, ','))
            continue;
        if (out->rank == 1) /* (3) is a number in Python and no tuple */
            return attn_io_expected(c, "','");
        return attn_io_need(c, ')', "',' or ')'");
    }
    return status;
}

static attn_status read_member(attn_io_cursor *c, attn_npy *out, unsigned *seen) {
    static const char *const names[] = {"descr", "fortran_order", "shape"};
    char name[16];
    unsigned which = 0;
    attn_status status = read_name(c, name, sizeof name);
    if (status != ATTN_OK)
        return status;
    while (which < 3 && strcmp(name, names[which]) != 0)
        which++;
    if (which == 3 || (*seen >> which & 1))
        return attn_io_expected(c, "descr, fortran_order and shape, each once");
    *seen |= 1u << which;
    status = attn_io_need(c, ':', "':'");
    if (status != ATTN_OK)
        return status;
    return which == 0   ? read_name(c, out->type, sizeof out->type)
           : which == 1 ? read_truth(c, &out->fortran_order)
                        : read_shape(c, out);
}

static attn_status read_dictionary(attn_io_cursor *c, attn_npy *out) {
    unsigned seen = 0;
    attn_status status = attn_io_need(c, '{', "'{'");
    while (status == ATTN_OK && !attn_io_take(c, '}')) {
        status = read_member(c, out, &seen);
        if (status == ATTN_OK && !attn_io_take(c, ',')) {
            status = attn_io_need(c, '}', "',' or '}'");
            break;
        }
    }
    if (status != ATTN_OK)
        return status;
    attn_io_space(c);
    if (seen != 7)
        return attn_io_expected(c, "descr, fortran_order and shape, each once");
    return c->p == c->end ? ATTN_OK : attn_io_expected(c, "the end of the header");
}

attn_status attn_npy_open(const void *data, size_t size, attn_npy *out, attn_error *err) {
    const unsigned char *p = data;
    const size_t wide = size >= 8 && p[6] >= 2 ? 4 : 2; /* bytes of the header's length */
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
    attn_io_cursor c = {.start = text, .p = text, .end = text + length, .err = err};
    attn_npy file = {.data = text + length, .size = size - 8 - wide - length};
    attn_status status = read_dictionary(&c, &file);
    if (status == ATTN_OK)
        *out = file;
    return status;
}

/* Finds the element type. A type without '<', such as "f4", is not what NumPy writes. */
static attn_status type_of(const attn_npy *file, attn_dtype *out, attn_error *err) {
    for (int d = ATTN_F32; d <= ATTN_BOOL; d++) {
        const char *name = descriptor((attn_dtype)d);
        if (name && strcmp(name, file->type) == 0) {
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
    attn_status status = type_of(file, &dtype, err);
    if (status != ATTN_OK)
        return status;
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
        size_t stride = 1; /* it wraps only if an axis has length 0; then no stride is used */
        for (int i = 0; i < t.rank; i++) {
            t.strides[i] = (ptrdiff_t)stride;
            stride *= t.dims[i];
        }
    }
    *out = t;
    return ATTN_OK;
}
