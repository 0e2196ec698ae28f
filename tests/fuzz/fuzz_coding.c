/* Any bytes as a compressed body: what is accepted is what zlib makes of it in one call a member,
 * and within the limits; everything else is refused with a problem. The first byte chooses the
 * coding and the limits. */
#include <zlib.h>

#include "fuzz_request.h"
#include "http/coding.h"
#include "load/budget.h"

enum { MOST = 1 << 16 };

/* The reference: all members, one after the other, into `out`; -1: refused. */
static long inflate_all(const uint8_t *data, size_t size, bool gzip, char *out, size_t room) {
    size_t used = 0;
    bool ok = false;
    while (!ok) {
        z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size};
        if (inflateInit2(&z, gzip ? 15 + 16 : 15) != Z_OK)
            abort();
        z.next_out = (Bytef *)out + used;
        z.avail_out = (uInt)(room - used);
        int result = inflate(&z, Z_FINISH);
        used = room - z.avail_out;
        data = z.next_in;
        size = z.avail_in;
        inflateEnd(&z);
        if (result != Z_STREAM_END || (size && !gzip))
            return -1;
        ok = size == 0;
    }
    return (long)used;
}

/* Made once; memory beyond the bodies of one input is never short. */
static srv_admission *admission_of_all(void) {
    static srv_admission *made;
    srv_config config;
    if (made)
        return made;
    if (!srv_config_init(&config, &(srv_config_error){.memory = false}))
        abort();
    srv_budget_start((size_t)1 << 28);
    made = srv_admission_new(&config);
    srv_config_close(&config);
    attn_set_allocator(malloc, free); /* blocks that end where they are said to */
    return made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char whole[MOST + 1];
    srv_config config = {0};
    struct srv_app app = {.config = &config};
    srv_exchange x = {0};
    if (size < 2)
        return -1;
    bool gzip = data[0] & 1;
    config.max_body_bytes = data[0] & 2 ? MOST : 512;
    config.max_inflate_ratio = data[0] & 4 ? 1000 : 10;
    app.admission = admission_of_all();
    fuzz_open(&x.req, data + 1, size - 1);
    x.body.block = attn_alloc(size);
    if (!x.body.block)
        abort();
    memcpy(x.body.block, data + 1, size - 1);
    free((char *)(uintptr_t)x.req.body);
    x.req.body = x.body.block;
    x.req.app = &app;
    x.head.encoding = gzip ? "gzip" : "deflate";
    long wanted = inflate_all(data + 1, size - 1, gzip, whole, MOST + 1);
    if (srv_coding_decode(&x)) {
        if ((long)x.req.body_size != wanted || x.req.body_size > (size_t)config.max_body_bytes ||
            memcmp(x.req.body, whole, x.req.body_size) || x.req.body[x.req.body_size] != 0)
            abort();
    } else {
        fuzz_check_problem(&x.req);
        if (wanted >= 0 && x.req.reply.status != 413)
            abort();
    }
    srv_body_drop(&x);
    attn_arena_free(x.req.arena);
    return 0;
}
