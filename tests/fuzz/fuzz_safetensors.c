/* Any bytes as a safetensors body: reading it may neither crash nor look outside of it; what is
 * accepted has tensors inside of the body (or copied), aligned, of the size of their shape, and
 * goes out and comes in again as it was. */
#include <stdio.h>

#include "fuzz_fields.h"
#include "fuzz_request.h"
#include "wire/container.h"

/* Header and blobs in one block, read again: the same tensors by name. */
static void round_trip(srv_request *req, const attn_named_tensor *tensors, size_t count) {
    attn_safetensors file = {.count = count}, back;
    attn_error err;
    const void *header;
    size_t size, total;
    file.tensors = attn_arena_zeroed(req->arena, count + 1, sizeof *file.tensors);
    if (!file.tensors)
        return;
    for (size_t i = 0; i < count; i++)
        file.tensors[i] = tensors[i];
    if (attn_safetensors_header(&file, req->arena, &header, &size, &err))
        return;
    total = size;
    for (size_t i = 0; i < count; i++)
        total += fuzz_bytes(&file.tensors[i].tensor);
    char *block = malloc(total), *p = block + size;
    memcpy(block, header, size);
    for (size_t i = 0; i < count; i++) {
        memcpy(p, file.tensors[i].tensor.data, fuzz_bytes(&file.tensors[i].tensor));
        p += fuzz_bytes(&file.tensors[i].tensor);
    }
    attn_status status = attn_safetensors_read(block, total, req->arena, &back, &err);
    if (status && status != ATTN_ENOMEM) {
        fprintf(stderr, "%s: %s\n", err.where, err.text);
        abort();
    }
    for (size_t i = 0; !status && i < count; i++) {
        const attn_tensor *a = &file.tensors[i].tensor, *b = &back.tensors[i].tensor;
        if (back.count != count || strcmp(file.tensors[i].name, back.tensors[i].name) ||
            a->dtype != b->dtype || a->rank != b->rank ||
            memcmp(a->dims, b->dims, sizeof(size_t) * (size_t)a->rank) ||
            memcmp(a->data, b->data, fuzz_bytes(a)))
            abort();
    }
    free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    srv_request req;
    srv_decoded_body form;
    fuzz_input in = {0};
    fuzz_open(&req, data, size);
    req.content_type = SRV_SAFETENSORS;
    if (srv_safetensors_body(&req, &form)) {
        fuzz_check_accepted(req.body + 8, srv_safetensors_lead(req.body, req.body_size) - 8,
                            JSON_REJECT_DUPLICATES);
        for (size_t i = 0; i < form.count; i++)
            fuzz_touch(&form.tensors[i].tensor);
        round_trip(&req, form.tensors, form.count);
    } else {
        fuzz_check_problem(&req);
    }
    if (!srv_decode(&req, fuzz_fields, &in))
        fuzz_check_problem(&req);
    fuzz_close(&req);
    return 0;
}
