/* Makes the header of an .npy file. The header consists of a magic, the version 1.0, a length of 16
 * bits, and a Python dictionary. Blanks pad it to a multiple of 64 bytes. */
#include <stdio.h>
#include <string.h>

#include "attn/npy.h"

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
