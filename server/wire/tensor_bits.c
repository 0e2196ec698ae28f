/* Unpacks booleans of the encoding "bits". */
#include "wire/tensor_read.h"

bool srv_tensor_unpack(srv_request *req, const char *pointer, attn_tensor *t) {
    const size_t width = t->dims[t->rank - 1], row_bytes = width / 8 + (width % 8 != 0);
    attn_error err = {0};
    size_t count;
    uint8_t *to = attn_tensor_count(t, &count) ? attn_arena_take(req->arena, count) : NULL;
    if (!to)
        return srv_problem_memory(req, pointer, "no memory is left for the booleans of the bits");
    if (attn_bits_check(t, width, pointer + 1, &err))
        return srv_problem_error(req, &err);
    for (size_t k = 0; k < count; k++) {
        const uint8_t *row = (const uint8_t *)t->data + k / width * row_bytes;
        to[k] = row[k % width / 8] >> k % width % 8 & 1;
    }
    *t = attn_tensor_dense(to, ATTN_BOOL, t->rank, t->dims);
    return true;
}
