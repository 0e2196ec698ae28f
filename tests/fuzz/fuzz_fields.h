/* A small field table for the fuzz targets of binary containers: one field of each kind that a
 * tensor beside the JSON can belong to. */
#ifndef FUZZ_FIELDS_H
#define FUZZ_FIELDS_H

#include "wire/decode.h"

typedef struct fuzz_inner {
    srv_given_bits given;
    attn_tensor w;
} fuzz_inner;

typedef struct fuzz_input {
    srv_given_bits given;
    attn_tensor query, mask, flags, ids;
    fuzz_inner score;
    srv_objects masks;
    double scale;
} fuzz_input;

static const srv_field fuzz_inner_fields[] = {
    {.name = "w", .kind = SRV_TENSOR, .offset = offsetof(fuzz_inner, w), .accepts = SRV_T_REAL},
    {0},
};
static const srv_field fuzz_fields[] = {
    {.name = "query",
     .kind = SRV_TENSOR,
     .offset = offsetof(fuzz_input, query),
     .accepts = SRV_T_REAL},
    {.name = "mask",
     .kind = SRV_TENSOR,
     .offset = offsetof(fuzz_input, mask),
     .accepts = SRV_T_REAL | SRV_T_BOOL | SRV_T_NEGINF | SRV_T_BITS},
    {.name = "flags",
     .kind = SRV_TENSOR,
     .offset = offsetof(fuzz_input, flags),
     .accepts = SRV_T_BOOL},
    {.name = "ids", .kind = SRV_TENSOR, .offset = offsetof(fuzz_input, ids), .accepts = SRV_T_INT},
    {.name = "score",
     .kind = SRV_OBJECT,
     .offset = offsetof(fuzz_input, score),
     .fields = fuzz_inner_fields},
    {.name = "masks",
     .kind = SRV_OBJECTS,
     .offset = offsetof(fuzz_input, masks),
     .fields = fuzz_inner_fields,
     .size = sizeof(fuzz_inner),
     .max = 8},
    {.name = "scale", .kind = SRV_REAL, .offset = offsetof(fuzz_input, scale)},
    {0},
};

#endif
