/* Reads bodies in NumPy's formats. The array of an .npy body becomes the first tensor field of the
 * route; the query string holds the other fields. An .npz body is an archive of .npy files, named
 * after the fields. Its member `request` has the JSON with the other fields. It is an array of a
 * string, an array of bytes, or a plain file request.json. */
#include <stdio.h>
#include <string.h>

#include <attn/npy.h>

#include "wire/container.h"
#include "wire/decode.h"
#include "wire/scan.h"
#include "wire/zip_in.h"

#define REQUEST "request"

/* Sets the problem for an error about a tensor. A malformed file has no JSON pointer, because it is
 * not JSON; the text names the tensor. */
static bool refuse(srv_request *req, const char *name, const attn_error *err) {
    char pointer[280];
    snprintf(pointer, sizeof pointer, "/%.256s", name);
    if (err->code == ATTN_EARG)
        return srv_problem(req, SRV_MALFORMED, NULL, "npy: %.100s: %s", name, err->text);
    return srv_problem(req, err->code == ATTN_EDTYPE ? SRV_DTYPE : SRV_SHAPE, pointer, "%s",
                       err->text);
}

static bool read_tensor(srv_request *req, const char *name, const attn_npy *file,
                        attn_named_tensor *out) {
    attn_error err = {0};
    *out = (attn_named_tensor){.name = name};
    if (attn_npy_tensor(file, &out->tensor, &err))
        return refuse(req, name, &err);
    return srv_tensor_settle(req, out);
}

static bool open_file(srv_request *req, const char *name, const void *data, size_t size,
                      attn_npy *out) {
    attn_error err = {0};
    return !attn_npy_open(data, size, out, &err) || refuse(req, name, &err);
}

/* --- npy --- */

bool srv_npy_body(srv_request *req, const srv_field *fields, srv_decoded_body *out) {
    const srv_field *f = fields;
    attn_named_tensor *tensor = attn_arena_zeroed(req->arena, 1, sizeof *tensor);
    attn_npy file;
    const char *text;
    size_t size;
    while (f->name && f->kind != SRV_TENSOR)
        f++;
    if (!f->name)
        return srv_problem(req, SRV_MEDIA_TYPE, NULL,
                           "no field of this route is a tensor: send JSON");
    if (!tensor)
        return srv_problem_memory(req, NULL,
                                  "The memory of one request does not suffice for its tensor");
    if (!open_file(req, f->name, req->body, req->body_size, &file) ||
        !read_tensor(req, f->name, &file, tensor) || !srv_query_text(req, fields, &text, &size))
        return false;
    *out = (srv_decoded_body){.text = text, .size = size, .tensors = tensor, .count = 1};
    return true;
}

/* --- npz --- */

static bool refuse_request(srv_request *req) {
    return srv_problem(
        req, SRV_MALFORMED, NULL,
        "npz: expected \"request\" to be one string of JSON: str, bytes, or a uint8 array "
        "of its bytes");
}

static bool refuse_fields(srv_request *req) {
    return srv_problem_memory(req, NULL,
                              "The memory of one request does not suffice for its fields");
}

/* Returns whether the code point is a character and not NUL. */
static bool is_character(uint32_t c) {
    return c > 0 && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
}

static uint32_t code_point(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Reads text in UTF-32, the form in which NumPy stores str, into *out. Zeros at the end are
 * padding. */
static bool read_wide(srv_request *req, const attn_npy *file, srv_decoded_body *out) {
    const unsigned char *from = file->data;
    size_t n = file->size / 4;
    char *text = attn_arena_take(req->arena, file->size + 1), *p = text;
    if (!text)
        return refuse_fields(req);
    while (n > 0 && !code_point(from + 4 * (n - 1)))
        n--;
    for (size_t i = 0; i < n; i++) {
        const uint32_t c = code_point(from + 4 * i);
        if (!is_character(c))
            return refuse_request(req);
        p = attn_put_utf8(p, c);
    }
    *p = 0;
    out->text = text;
    out->size = (size_t)(p - text);
    return true;
}

static bool read_bytes(srv_request *req, const char *data, size_t size, srv_decoded_body *out) {
    while (size > 0 && data[size - 1] == 0) /* NumPy pads byte strings with NULs */
        size--;
    out->text = attn_arena_text(req->arena, data, size);
    out->size = size;
    return out->text || refuse_fields(req);
}

/* Reads the JSON of the other fields from an array. */
static bool read_request(srv_request *req, const attn_npy *file, srv_decoded_body *out) {
    const char kind = file->type[1];
    size_t width = 0;
    const bool text = kind == 'U' || kind == 'S';
    for (const char *p = file->type + 2; text && *p >= '0' && *p <= '9'; p++)
        width = 10 * width + (size_t)(*p - '0');
    const bool one = file->rank == 0 || (file->rank == 1 && file->dims[0] == 1);
    if (kind == 'U' && file->type[0] == '<' && one && file->size % 4 == 0 &&
        file->size / 4 == width)
        return read_wide(req, file, out);
    if (kind == 'S' && one && file->size == width)
        return read_bytes(req, file->data, file->size, out);
    if (strcmp(file->type, "|u1") == 0 && file->rank == 1 && file->size == file->dims[0])
        return read_bytes(req, file->data, file->size, out);
    return refuse_request(req);
}

/* Reads a member of the archive, which is a tensor or the JSON of the other fields. */
static bool read_member(srv_request *req, const srv_zip_member *m, srv_decoded_body *out,
                        attn_named_tensor *tensors) {
    const size_t n = strlen(m->name);
    attn_npy file;
    if (strcmp(m->name, REQUEST ".json") == 0)
        return read_bytes(req, m->data, m->size, out);
    if (n <= 4 || strcmp(m->name + n - 4, ".npy") != 0)
        return srv_problem(req, SRV_MALFORMED, NULL,
                           "npz: expected members FIELD.npy and request.json, found \"%.100s\"",
                           m->name);
    const char *name = attn_arena_text(req->arena, m->name, n - 4);
    if (!name)
        return srv_refuse_tensors(req, NULL);
    if (!open_file(req, name, m->data, m->size, &file))
        return false;
    if (strcmp(name, REQUEST) == 0)
        return read_request(req, &file, out);
    return read_tensor(req, name, &file, &tensors[out->count++]);
}

/* Returns whether the member is the entry of a folder, which holds nothing. */
static bool is_folder(const srv_zip_member *m) {
    const size_t n = strlen(m->name);
    return n && m->name[n - 1] == '/' && !m->size;
}

bool srv_npz_body(srv_request *req, srv_decoded_body *out) {
    srv_zip_member *members;
    size_t count;
    *out = (srv_decoded_body){.text = "{}", .size = 2};
    if (!srv_zip_read(req, &members, &count))
        return false;
    attn_named_tensor *tensors = attn_arena_zeroed(req->arena, count, sizeof *tensors);
    if (!tensors)
        return srv_refuse_tensors(req, NULL);
    out->tensors = tensors;
    for (size_t i = 0; i < count; i++)
        if (!is_folder(&members[i]) && !read_member(req, &members[i], out, tensors))
            return false;
    return true;
}
