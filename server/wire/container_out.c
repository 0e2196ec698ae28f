/* Answers as safetensors and npy. The body is a list of pieces: a header, which is made here, and
 * then the memory of each tensor, so that no tensor is copied. */
#include <string.h>

#include <attn/npy.h>

#include "wire/container.h"

#define RESPONSE "response" /* key of the metadata text: the answer without its tensors, as JSON */

static bool out_of_memory(srv_request *req) {
    return srv_problem_limit(req, SRV_TOO_LARGE, NULL, (double)attn_arena_limit(req->arena),
                             "max_request_bytes",
                             "The answer does not fit the memory of this request: ask for less");
}

static size_t bytes_of(const attn_tensor *t) {
    size_t count = 0;
    attn_tensor_count(t, &count);
    return count * attn_dtype_size(t->dtype);
}

/* Copies a part of the tensor to *to, densely and in row-major order, and moves *to behind the
 * copy. The part has the axes `axis`, axis + 1, …, and `from` is its first element. */
static void copy_axis(char **to, const attn_tensor *t, int axis, const char *from) {
    size_t each = attn_dtype_size(t->dtype);
    for (size_t i = 0; i < t->dims[axis]; i++, from += t->strides[axis] * (ptrdiff_t)each) {
        if (axis + 1 < t->rank) {
            copy_axis(to, t, axis + 1, from);
            continue;
        }
        memcpy(*to, from, each);
        *to += each;
    }
}

bool srv_tensor_make_dense(srv_request *req, attn_tensor *t) {
    if (attn_tensor_is_dense(t))
        return true;
    char *data = attn_arena_take(req->arena, bytes_of(t)), *to = data;
    if (!data)
        return false;
    copy_axis(&to, t, 0, t->data);
    *t = attn_tensor_dense(data, t->dtype, t->rank, t->dims);
    return true;
}

bool srv_parts_add(srv_request *req, srv_parts *parts, const char *const *path, int depth,
                   const attn_tensor *t) {
    if (parts->count == parts->room) {
        size_t room = parts->room ? 2 * parts->room : 8;
        attn_named_tensor *grown = attn_arena_zeroed(req->arena, room, sizeof *grown);
        if (!grown)
            return false;
        if (parts->count)
            memcpy(grown, parts->tensors, parts->count * sizeof *grown);
        parts->tensors = grown;
        parts->room = room;
    }
    char name[256];
    size_t used = 0;
    for (int i = 0; i <= depth; i++) {
        size_t n = strlen(path[i]);
        if (used + n + 2 > sizeof name)
            return false;
        if (used)
            name[used++] = '.';
        memcpy(name + used, path[i], n);
        used += n;
    }
    attn_named_tensor *part = &parts->tensors[parts->count];
    part->name = attn_arena_text(req->arena, name, used);
    part->tensor = *t;
    if (!part->name || !srv_tensor_make_dense(req, &part->tensor))
        return false;
    parts->count++;
    return true;
}

/* Sets the reply: the header, then the data of each tensor. */
static bool reply(srv_request *req, const char *type, const void *header, size_t header_size,
                  const srv_parts *parts) {
    srv_piece *pieces = attn_arena_zeroed(req->arena, parts->count + 1, sizeof *pieces);
    size_t total = header_size, n = 1;
    if (!pieces)
        return out_of_memory(req);
    pieces[0] = (srv_piece){header, header_size};
    for (size_t i = 0; i < parts->count; i++) {
        size_t bytes = bytes_of(&parts->tensors[i].tensor);
        total += bytes;
        if (bytes)
            pieces[n++] = (srv_piece){parts->tensors[i].tensor.data, bytes};
    }
    srv_reply_set(req, 200, type, "", total);
    req->reply.pieces = pieces;
    req->reply.piece_count = n;
    return true;
}

static bool reply_safetensors(srv_request *req, srv_parts *parts) {
    attn_metadata rest = {RESPONSE, parts->rest};
    attn_safetensors file = {.tensors = parts->tensors, .count = parts->count};
    const void *header;
    size_t size;
    attn_error err;
    if (strcmp(parts->rest, "{}") != 0) {
        file.metadata = &rest;
        file.metadata_count = 1;
    }
    if (!attn_safetensors_header(&file, req->arena, &header, &size, &err))
        return reply(req, SRV_SAFETENSORS, header, size, parts);
    return srv_problem_error(req, &err);
}

static bool reply_npy(srv_request *req, const srv_parts *parts) {
    const void *header;
    size_t size;
    attn_error err;
    if (parts->count != 1 || strcmp(parts->rest, "{}") != 0) {
        return srv_problem(
            req, SRV_NOT_ACCEPTABLE, NULL,
            "an .npy file holds one tensor and nothing else; this answer has %zu tensor%s%s: "
            "ask for one alone, or accept " SRV_SAFETENSORS,
            parts->count, attn_plural(parts->count),
            strcmp(parts->rest, "{}") ? " and other parts" : "");
    }
    if (!attn_npy_header(&parts->tensors[0].tensor, req->arena, &header, &size, &err))
        return reply(req, SRV_NPY, header, size, parts);
    return srv_problem_error(req, &err);
}

bool srv_parts_reply(srv_request *req, srv_parts *parts) {
    return req->accept & SRV_ACCEPT_NPY ? reply_npy(req, parts) : reply_safetensors(req, parts);
}
