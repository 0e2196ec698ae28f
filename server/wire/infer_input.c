/* One input of an infer request: JSON data straight into its final buffer, binary data as a view
 * into the body. */
#include <string.h>

#include "number/number.h"
#include "wire/infer_reader.h"
#include "wire/tensor_read.h"

typedef struct datatype {
    const char *name;
    attn_dtype dtype; /* what it is stored as */
    int bytes;        /* of an element on the wire; 0: cannot be a tensor here */
    bool is_signed;   /* of those that are widened */
} datatype;

static const datatype datatypes[] = {
    {"FP32", ATTN_F32, 4, false},   {"FP16", ATTN_F16, 2, false},   {"BF16", ATTN_BF16, 2, false},
    {"FP64", ATTN_F64, 8, false},   {"BOOL", ATTN_BOOL, 1, false},  {"UINT8", ATTN_U8, 1, false},
    {"INT32", ATTN_I32, 4, true},   {"INT64", ATTN_I64, 8, true},   {"INT8", ATTN_I64, 1, true},
    {"INT16", ATTN_I64, 2, true},   {"UINT16", ATTN_I64, 2, false}, {"UINT32", ATTN_I64, 4, false},
    {"UINT64", ATTN_I64, 8, false}, {"BYTES", ATTN_U8, 0, false},
};
#define DATATYPES (sizeof datatypes / sizeof *datatypes)

const char *srv_infer_datatype(attn_dtype dtype) {
    for (size_t i = 0; i < DATATYPES; i++)
        if (datatypes[i].dtype == dtype)
            return datatypes[i].name;
    return "";
}

/* An input while its members are read. */
typedef struct input {
    const char *name;
    const datatype *type;
    int rank;
    size_t dims[ATTN_MAX_RANK];
    size_t count;
    const char *data; /* of JSON, NULL: binary */
    int64_t binary;   /* binary_data_size, -1: JSON */
    bool has_shape;
} input;

static bool read_shape(srv_infer_reader *r, input *in) {
    bool more = true;
    if (*r->s.p != '[')
        return srv_infer_refuse(r, SRV_TYPE, "expected a list of sizes");
    in->has_shape = true;
    r->s.p++;
    srv_scan_space(&r->s);
    while (more) {
        int64_t size;
        if (in->rank == ATTN_MAX_RANK || *r->s.p == ']')
            return srv_infer_refuse(r, SRV_SHAPE,
                                    in->rank ? "expected at most 8 axes, found more"
                                             : "expected 1 to 8 axes, found none");
        if (!srv_infer_integer(r, 0, &size))
            return false;
        in->dims[in->rank++] = (size_t)size;
        if (!srv_infer_next(r, ']', &more))
            return false;
    }
    return true;
}

static bool read_datatype(srv_infer_reader *r, input *in) {
    const char *name;
    if (!srv_infer_text(r, &name))
        return false;
    for (size_t i = 0; i < DATATYPES; i++)
        if (strcmp(datatypes[i].name, name) == 0 && datatypes[i].bytes) {
            in->type = &datatypes[i];
            return true;
        }
    srv_problem(r->s.req, SRV_DTYPE, r->s.path.text,
                "expected BOOL, INT8 to INT64, UINT8 to UINT64, FP16, BF16, FP32 or FP64, found "
                "\"%.40s\"",
                name);
    return false;
}

/* Elements of the shape, bounded by what a request may hold; an axis of 0 counts as 1 for that. */
static bool count_elements(srv_infer_reader *r, input *in) {
    size_t bound = attn_dtype_size(in->type->dtype);
    in->count = 1;
    for (int i = 0; i < in->rank; i++) {
        in->count *= in->dims[i];
        if (!attn_size_mul(bound, in->dims[i] ? in->dims[i] : 1, &bound))
            return srv_infer_refuse(r, SRV_SHAPE,
                                    "the shape has more elements than can be counted");
    }
    return bound <= attn_arena_limit(r->s.req->arena) || srv_scan_memory(&r->s);
}

static bool load_json(srv_infer_reader *r, input *in, attn_tensor *t) {
    srv_scan *s = &r->s;
    char shape[128], found[128];
    const char *after = s->p;
    if (in->type->dtype == ATTN_F16 || in->type->dtype == ATTN_BF16)
        return srv_infer_refuse(r, SRV_DTYPE,
                                "16-bit floats have no form in JSON: send them as binary data");
    size_t mark = srv_path_key(&s->path, "data", 4);
    s->p = in->data;
    if (!srv_tensor_list(s, in->type->dtype, t))
        return false;
    r->out->beyond = s->beyond;
    s->p = after;
    size_t count = 0;
    attn_tensor_count(t, &count);
    bool same =
        t->rank == in->rank && memcmp(t->dims, in->dims, sizeof(size_t) * (size_t)t->rank) == 0;
    if (!same && (t->rank != 1 || count != in->count)) {
        srv_problem(s->req, SRV_SHAPE, s->path.text,
                    "expected %zu elements, in one list or in lists of shape %s, found lists of "
                    "shape %s",
                    in->count, attn_shape_text(in->dims, in->rank, shape, sizeof shape),
                    attn_shape_text(t->dims, t->rank, found, sizeof found));
        return false;
    }
    srv_path_back(&s->path, mark);
    return true;
}

/* Integers of the sizes that the library does not have, as 64 bits. */
static bool widen(srv_infer_reader *r, const input *in, const char *from, attn_tensor *t) {
    int64_t *to = attn_arena_take(r->s.req->arena, in->count * sizeof *to);
    int bytes = in->type->bytes;
    if (!to)
        return srv_scan_memory(&r->s);
    for (size_t i = 0; i < in->count; i++, from += bytes) {
        uint64_t value = 0;
        memcpy(&value, from, (size_t)bytes);
        if (bytes == 8 && value > INT64_MAX)
            return srv_infer_refuse(r, SRV_VALUE, "an integer is beyond 64 bits with sign");
        int unused = 64 - 8 * bytes;
        to[i] = in->type->is_signed ? (int64_t)(value << unused) >> unused : (int64_t)value;
    }
    t->data = to;
    return true;
}

static bool load_binary(srv_infer_reader *r, const input *in, attn_tensor *t) {
    char shape[128];
    size_t size = in->count * (size_t)in->type->bytes, left = (size_t)(r->blob_end - r->blob);
    if ((uint64_t)in->binary != size) {
        srv_problem(r->s.req, SRV_SHAPE, r->s.path.text,
                    "shape %s of %s needs %zu bytes, binary_data_size is %lld",
                    attn_shape_text(in->dims, in->rank, shape, sizeof shape), in->type->name, size,
                    (long long)in->binary);
        return false;
    }
    if (size > left) {
        srv_problem(r->s.req, SRV_MALFORMED, r->s.path.text,
                    "expected %zu more bytes of binary data behind the JSON, found %zu", size,
                    left);
        return false;
    }
    const char *from = r->blob;
    r->blob += size;
    t->data = (void *)(uintptr_t)from;
    bool widens = (size_t)in->type->bytes != attn_dtype_size(in->type->dtype) ||
                  (in->type->bytes == 8 && in->type->dtype == ATTN_I64 && !in->type->is_signed);
    return !widens || widen(r, in, from, t);
}

static bool finish_input(srv_infer_reader *r, input *in, attn_named_tensor *out) {
    attn_tensor t = {0};
    if (!in->name || !in->type || !in->has_shape)
        return srv_infer_refuse(r, SRV_VALUE, "an input needs name, shape and datatype");
    if ((in->data != NULL) == (in->binary >= 0))
        return srv_infer_refuse(r, SRV_VALUE, "an input has either data or binary_data_size");
    if (!count_elements(r, in) || !(in->data ? load_json(r, in, &t) : load_binary(r, in, &t)))
        return false;
    *out = (attn_named_tensor){in->name,
                               attn_tensor_dense(t.data, in->type->dtype, in->rank, in->dims)};
    return srv_tensor_settle(r->s.req, out);
}

static const char *const parameters[] = {"binary_data_size", NULL};

static bool take_parameter(srv_infer_reader *r, const srv_infer_member *m, void *in) {
    return parameters[m->key] ? srv_infer_integer(r, 0, &((input *)in)->binary)
                              : srv_infer_unknown(r, &m->name, parameters);
}

static const char *const members[] = {"name", "shape", "datatype", "parameters", "data", NULL};

static bool take_member(srv_infer_reader *r, const srv_infer_member *m, void *to) {
    input *in = to;
    switch (m->key) {
    case 0:
        return srv_infer_text(r, &in->name);
    case 1:
        return read_shape(r, in);
    case 2:
        return read_datatype(r, in);
    case 3:
        return srv_infer_object(r, parameters, "an object", take_parameter, in);
    case 4:
        in->data = r->s.p;
        return srv_infer_skip_value(r);
    default:
        return srv_infer_unknown(r, &m->name, members);
    }
}

bool srv_infer_input(srv_infer_reader *r, attn_named_tensor *out, const char **type) {
    input in = {.binary = -1};
    if (!srv_infer_object(r, members, "an input, an object", take_member, &in) ||
        !finish_input(r, &in, out))
        return false;
    *type = in.type->name;
    return true;
}
