/* Any bytes as a body of NumPy's formats: reading it may neither crash nor look outside of it; what
 * is accepted has tensors of the size of their shape, dense and aligned. The first byte chooses what
 * the rest is: an .npy body, an .npz body, or a member of a well-formed archive, since a changed
 * archive nearly always fails at its CRC-32. */
#include <stdio.h>
#include <zlib.h>

#include "fuzz_fields.h"
#include "fuzz_request.h"
#include "wire/container.h"

enum { NPY_BODY, NPZ_BODY, TENSOR, REQUEST, KINDS };

static void put(unsigned char **p, size_t value, int bytes) {
    for (int i = 0; i < bytes; i++, value >>= 8)
        *(*p)++ = (unsigned char)(value & 255);
}

static void put_text(unsigned char **p, const char *text, size_t n) {
    memcpy(*p, text, n);
    *p += n;
}

/* Makes an archive with one stored member. Its size is returned; the caller frees *out. */
static size_t make_archive(const char *name, const uint8_t *data, size_t size,
                           unsigned char **out) {
    const size_t n = strlen(name), crc = crc32(crc32(0, NULL, 0), data, (uInt)size);
    unsigned char *p = *out = malloc(size + 2 * n + 128);
    if (!p)
        abort();
    put(&p, 0x04034b50, 4);
    put(&p, 20, 10); /* version, flags, method, time, date */
    put(&p, crc, 4);
    put(&p, size, 4);
    put(&p, size, 4);
    put(&p, n, 4);
    put_text(&p, name, n);
    put_text(&p, (const char *)data, size);
    const size_t directory = (size_t)(p - *out);
    put(&p, 0x02014b50, 4);
    put(&p, 20, 2);
    put(&p, 20, 10);
    put(&p, crc, 4);
    put(&p, size, 4);
    put(&p, size, 4);
    put(&p, n, 2);
    put(&p, 0, 8);
    put(&p, 0, 4);
    put(&p, 0, 4); /* offset of the local header */
    put_text(&p, name, n);
    const size_t bytes = (size_t)(p - *out) - directory;
    put(&p, 0x06054b50, 4);
    put(&p, 0, 4);
    put(&p, 1, 2);
    put(&p, 1, 2);
    put(&p, bytes, 4);
    put(&p, directory, 4);
    put(&p, 0, 2);
    return (size_t)(p - *out);
}

static void read_body(const char *type, const void *data, size_t size) {
    srv_request req;
    srv_decoded_body body;
    fuzz_input in = {0};
    fuzz_open(&req, data, size);
    req.method = "POST";
    req.content_type = type;
    const bool npz = strcmp(type, SRV_NPZ) == 0;
    if (npz ? srv_npz_body(&req, &body) : srv_npy_body(&req, fuzz_fields, &body)) {
        for (size_t i = 0; i < body.count; i++) {
            if (!attn_tensor_is_dense(&body.tensors[i].tensor))
                abort();
            fuzz_touch(&body.tensors[i].tensor);
        }
        if (strlen(body.text) > body.size)
            abort();
    } else {
        fuzz_check_problem(&req);
    }
    if (!srv_decode(&req, fuzz_fields, &in))
        fuzz_check_problem(&req);
    fuzz_close(&req);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char *archive;
    const int kind = size ? data[0] % KINDS : NPY_BODY;
    data += size > 0;
    size -= size > 0;
    if (kind == NPY_BODY || kind == NPZ_BODY) {
        read_body(kind == NPZ_BODY ? SRV_NPZ : SRV_NPY, data, size);
        return 0;
    }
    size = make_archive(kind == TENSOR ? "score.w.npy" : "request.npy", data, size, &archive);
    read_body(SRV_NPZ, archive, size);
    free(archive);
    return 0;
}
