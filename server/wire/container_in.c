/* Reads safetensors bodies (attn/safetensors.h parses the container), and stores tensors in the
 * members of the decoded struct that their names select. */
#include <stdio.h>
#include <string.h>

#include "wire/container.h"
#include "wire/decode.h"
#include "wire/scan.h"
#include "wire/tensor_read.h"

#define REQUEST "request" /* key of the metadata text with the JSON of the request */

size_t srv_safetensors_lead(const char *first, size_t size) {
    uint64_t length = 0;
    if (size < 8)
        return 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | (unsigned char)first[i];
    return length < SIZE_MAX / 2 ? 8 + (size_t)length : 0;
}

bool srv_safetensors_refuse(srv_request *req, const attn_error *err) {
    if (err->code == ATTN_EARG)
        return srv_problem(req, SRV_MALFORMED, NULL, "safetensors: %s%s%s", err->where,
                           err->where[0] ? ": " : "", err->text);
    return srv_problem_error(req, err);
}

/* Checks that the bytes of a boolean tensor are 0 or 1. For other types all bytes are valid. */
static bool check_booleans(srv_request *req, const attn_named_tensor *t) {
    const uint8_t *bytes = t->tensor.data;
    size_t count = 0;
    attn_tensor_count(&t->tensor, &count);
    for (size_t i = 0; t->tensor.dtype == ATTN_BOOL && i < count; i++)
        if (bytes[i] > 1) {
            char pointer[128];
            int n = (int)strnlen(t->name, 100);
            memcpy(pointer, "/", 1);
            memcpy(pointer + 1, t->name, (size_t)n);
            pointer[n + 1] = 0;
            return srv_problem(req, SRV_VALUE, pointer,
                               "expected bytes 0 and 1 for bool, found %u at index %zu", bytes[i],
                               i);
        }
    return true;
}

/* Copies the data of the tensor if it is not aligned to its elements, because the kernels of the
 * library need aligned elements. */
static bool align(srv_request *req, attn_tensor *t) {
    size_t count = 0;
    if (attn_tensor_is_aligned(t))
        return true;
    attn_tensor_count(t, &count);
    size_t bytes = count * attn_dtype_size(t->dtype); /* at most the size of the body */
    void *copy = attn_arena_take(req->arena, bytes);
    if (!copy)
        return srv_refuse_tensors(req, "");
    memcpy(copy, t->data, bytes);
    t->data = copy;
    return true;
}

bool srv_tensor_fits(const attn_arena *arena, const attn_tensor *t) {
    size_t bound = attn_dtype_size(t->dtype);
    for (int i = 0; i < t->rank; i++)
        if (!attn_size_mul(bound, t->dims[i] ? t->dims[i] : 1, &bound))
            return false;
    return bound <= attn_arena_limit(arena);
}

bool srv_tensor_settle(srv_request *req, attn_named_tensor *t) {
    if (!srv_tensor_fits(req->arena, &t->tensor) || !srv_tensor_make_dense(req, &t->tensor))
        return srv_refuse_tensors(req, "");
    return check_booleans(req, t) && align(req, &t->tensor);
}

bool srv_safetensors_body(srv_request *req, srv_decoded_body *out) {
    attn_safetensors file = {0};
    attn_error err;
    if (attn_safetensors_read(req->body, req->body_size, req->arena, &file, &err))
        return srv_safetensors_refuse(req, &err);
    *out = (srv_decoded_body){.text = "{}", .tensors = file.tensors, .count = file.count};
    for (size_t i = 0; i < file.metadata_count; i++)
        if (strcmp(file.metadata[i].key, REQUEST) == 0)
            out->text = file.metadata[i].text;
    out->size = strlen(out->text);
    for (size_t i = 0; i < file.count; i++)
        if (!srv_tensor_settle(req, &file.tensors[i]))
            return false;
    return true;
}

/* --- names like "query", "score.w" and "masks.0.attn_mask" to members of a struct --- */

/* The state while a tensor's name is followed from the decoded struct to a member. */
typedef struct place {
    srv_request *req;
    attn_path path;
    const char *name;        /* the part of the name that has not been followed yet */
    const srv_field *fields; /* field table of `body` */
    char *body;              /* the struct that has been reached */
    srv_given_bits *given;   /* which fields of `body` were given */
} place;

/* Returns the row of the field whose name is the next n bytes of at->name. NULL: a problem is
 * set. */
static const srv_field *row_of_part(place *at, size_t n) {
    char name[128];
    const srv_field *f = srv_find_field(at->fields, at->name, n);
    attn_path_key(&at->path, at->name, n);
    if (!f) {
        snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), at->name);
        srv_unknown_field(at->req, at->path.text, name, at->fields);
    }
    return f;
}

/* Returns the element of a list of objects (row f) that the rest of the name selects, such as
 * element 3 for "3.values". Moves at->name behind the index and its dot. A single object that was
 * sent without a list has no index. NULL: there is no such element. */
static char *enter_element(place *at, const srv_field *f) {
    const srv_objects *l = (const void *)(at->body + f->offset);
    const size_t digits = strspn(at->name, "0123456789");
    size_t index = 0;
    if (l->single && !digits)
        return l->items;
    attn_path_key(&at->path, at->name, digits);
    if (digits == 0 || digits > 9 || at->name[digits] != '.')
        return NULL;
    for (size_t i = 0; i < digits; i++)
        index = index * 10 + (size_t)(at->name[i] - '0');
    at->name += digits + 1;
    return index < l->count ? (char *)l->items + index * f->size : NULL;
}

/* Moves the walk into the object of row f, or into the selected element if f is a list of objects.
 * An object that the JSON lacks gets its default values. false: a problem is set. */
static bool enter_object(place *at, const srv_field *f) {
    const size_t row = (size_t)(f - at->fields);
    char *inner = NULL;
    if (f->kind == SRV_OBJECT) {
        inner = at->body + f->offset;
        if (!srv_given_has(at->given, row)) {
            if (f->init)
                f->init(inner);
            *srv_given_of(f, inner) = (srv_given_bits){0};
        }
        srv_given_add(at->given, row);
    } else if (f->kind == SRV_OBJECTS && srv_given_has(at->given, row)) {
        inner = enter_element(at, f);
    }
    if (!inner)
        return srv_problem(at->req, SRV_VALUE, at->path.text,
                           "the request has no object here that a tensor could belong to");
    at->body = inner;
    at->given = srv_given_of(f, inner);
    at->fields = f->fields;
    return true;
}

/* Checks that the field f (a row of the field table) accepts tensors of this element type: bool
 * needs SRV_T_BOOL; int32, int64 and uint8 need SRV_T_INT or SRV_T_REAL; the other types need
 * SRV_T_REAL. false: a problem is set. */
static bool takes_dtype(const place *at, const srv_field *f, attn_dtype dtype) {
    bool whole = dtype == ATTN_I32 || dtype == ATTN_I64 || dtype == ATTN_U8;
    unsigned wanted = dtype == ATTN_BOOL ? SRV_T_BOOL : whole ? SRV_T_REAL | SRV_T_INT : SRV_T_REAL;
    const unsigned accepts = srv_tensor_types(f);
    if (accepts & wanted)
        return true;
    return srv_problem(at->req, SRV_DTYPE, at->path.text, "expected %s, found %s",
                       accepts & SRV_T_REAL  ? "numbers"
                       : accepts & SRV_T_INT ? "int32, int64 or uint8"
                                             : "bool",
                       attn_dtype_name(dtype));
}

/* Gives the row its bits: the JSON has their shape, and the tensor of uint8 has their bytes. */
static bool store_bits(place *at, unsigned accepts, attn_tensor *bits, const attn_tensor *t) {
    char shape[128], expected[128], found[128];
    attn_tensor bytes = *bits;
    const int last = bits->rank - 1;
    bytes.dims[last] = bits->dims[last] / 8 + (bits->dims[last] % 8 != 0);
    if (t->dtype != ATTN_U8 || t->rank != bytes.rank ||
        memcmp(t->dims, bytes.dims, (size_t)t->rank * sizeof *t->dims) != 0)
        return srv_problem(
            at->req, SRV_SHAPE, at->path.text,
            "the bits of %s are a tensor of uint8 and shape %s, found %s of shape %s",
            attn_shape_text(bits->dims, bits->rank, shape, sizeof shape),
            attn_shape_text(bytes.dims, bytes.rank, expected, sizeof expected),
            attn_dtype_name(t->dtype), attn_shape_text(t->dims, t->rank, found, sizeof found));
    bits->data = t->data;
    return (accepts & SRV_T_BITS) || srv_tensor_unpack(at->req, at->path.text, bits);
}

static bool store_tensor(place *at, const srv_field *f, const attn_tensor *t) {
    const size_t row = (size_t)(f - at->fields);
    const bool there = srv_given_has(at->given, row);
    void *member = at->body + f->offset;
    attn_tensor *to = f->kind == SRV_UNION ? &((srv_union *)member)->tensor : member;
    if (!srv_tensor_types(f))
        return srv_problem(at->req, SRV_TYPE, at->path.text, "this field is no tensor");
    if (there && to->dtype == ATTN_BITS && !to->data)
        return store_bits(at, srv_tensor_types(f), to, t);
    if (there)
        return srv_problem(at->req, SRV_MALFORMED, at->path.text,
                           "the field is there twice, in the JSON and as a tensor");
    if (!takes_dtype(at, f, t->dtype))
        return false;
    *to = *t;
    srv_given_add(at->given, row);
    if (f->kind == SRV_UNION)
        ((srv_union *)member)->is = SRV_U_TENSOR;
    return srv_tensor_as_numbers(at->req, srv_tensor_types(f), to);
}

bool srv_insert_tensors(srv_request *req, const srv_decoded_body *from, const srv_field *fields,
                        void *to) {
    for (size_t i = 0; i < from->count; i++) {
        place at = {
            .req = req, .name = from->tensors[i].name, .fields = fields, .body = to, .given = to};
        for (;;) {
            const size_t n = strcspn(at.name, ".");
            const srv_field *f = row_of_part(&at, n);
            if (!f)
                return false;
            if (at.name[n] == 0) {
                if (!store_tensor(&at, f, &from->tensors[i].tensor))
                    return false;
                break;
            }
            at.name += n + 1;
            if (!enter_object(&at, f))
                return false;
        }
    }
    return true;
}
