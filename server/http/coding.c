/* Compressed bodies are decoded on a request thread, never on the HTTP thread, because a few
 * kilobytes can decode to megabytes. The memory for the decoded body grows as bytes are decoded. */
#include "http/coding.h"

#include <string.h>
#include <zlib.h>

#include "http/negotiate.h"
#include "load/budget.h"

enum {
    ZLIB = 15,             /* windowBits of zlib for the coding deflate */
    GZIP = 15 + 16,        /* windowBits of zlib for the coding gzip */
    LEVEL = 1,             /* compression level of zlib; 1 is the fastest */
    WORTH_IT = 1024,       /* smallest reply that is encoded, in bytes */
    FREE_OUTPUT = 1 << 20, /* max_inflate_ratio does not bound decoded bodies up to this size */
};

/* The decoded body, `size` bytes at block + shift. The block has ATTN_ALIGN + 1 bytes more than
 * `room`, for the shift and a NUL. */
typedef struct output {
    char *block;
    size_t shift, size, room;
} output;

static bool refuse_ratio(srv_exchange *x, size_t ratio) {
    return srv_problem_limit(&x->req, SRV_TOO_LARGE, NULL, (double)ratio, "max_inflate_ratio",
                             "the body decodes to more than %zu times its size", ratio);
}

static bool refuse_memory(srv_exchange *x) {
    return srv_problem_limit(&x->req, SRV_MEMORY_BUDGET, NULL, (double)srv_budget_total(),
                             "memory_bytes",
                             "there is no memory to decode the body now; try again a little later");
}

/* Doubles the room of the block. false: a problem is set, because the decoded body would exceed a
 * limit or memory ran out. */
static bool grow(srv_exchange *x, output *out) {
    const srv_config *config = x->req.app->config;
    size_t cap = (size_t)config->max_body_bytes, ratio = (size_t)config->max_inflate_ratio, most;
    if (!attn_size_mul(x->req.body_size, ratio, &most) || most > cap)
        most = cap;
    if (most < cap && most < FREE_OUTPUT)
        most = FREE_OUTPUT < cap ? FREE_OUTPUT : cap;
    if (out->block && out->room == most) {
        if (most < cap)
            return refuse_ratio(x, ratio);
        return srv_problem_limit(&x->req, SRV_TOO_LARGE, NULL, (double)cap, "max_body_bytes",
                                 "the body decodes to more than %zu bytes", cap);
    }
    size_t room = out->room ? 2 * out->room : 4 * x->req.body_size;
    room = room < 16384 ? 16384 : room;
    room = room > most ? most : room;
    char *block = attn_alloc(room + ATTN_ALIGN + 1);
    if (!block)
        return refuse_memory(x);
    if (out->size)
        memcpy(block, out->block + out->shift, out->size);
    attn_free(out->block);
    *out = (output){block, 0, out->size, room};
    return true;
}

static bool refuse_stream(srv_exchange *x, const char *why) {
    return srv_problem(&x->req, SRV_BAD_REQUEST, NULL, "the compressed body %s", why);
}

static bool inflate_body(srv_exchange *x, z_stream *z, bool gzip, output *out) {
    for (;;) {
        if (out->size == out->room && !grow(x, out))
            return false;
        size_t room = out->room - out->size;
        uInt step = room > 1 << 20 ? 1 << 20 : (uInt)room;
        z->next_out = (Bytef *)out->block + out->size;
        z->avail_out = step;
        int result = inflate(z, Z_NO_FLUSH);
        out->size += step - z->avail_out;
        if (atomic_load_explicit(&x->req.cancel, memory_order_relaxed))
            return refuse_stream(x, "was not waited for");
        if (result == Z_STREAM_END && z->avail_in == 0)
            return true;
        if (result == Z_STREAM_END && (!gzip || inflateReset(z) != Z_OK))
            return refuse_stream(x, "has bytes behind its end");
        if (result == Z_BUF_ERROR && z->avail_out > 0)
            return refuse_stream(x, "ends early");
        if (result == Z_MEM_ERROR)
            return refuse_memory(x);
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
            return refuse_stream(x, "is not what its Content-Encoding says");
    }
}

bool srv_coding_decode(srv_exchange *x) {
    z_stream z = {0};
    output out = {0};
    bool gzip = srv_coding_of(x->head.encoding) == SRV_GZIP;
    if (x->req.body_size > UINT32_MAX)
        return refuse_stream(x, "has more than 4 GiB");
    z.next_in = (Bytef *)(uintptr_t)x->req.body;
    z.avail_in = (uInt)x->req.body_size;
    if (inflateInit2(&z, gzip ? GZIP : ZLIB) != Z_OK)
        return refuse_memory(x);
    bool ok = inflate_body(x, &z, gzip, &out);
    inflateEnd(&z);
    if (!ok) {
        attn_free(out.block);
        return false;
    }
    srv_body_replace(x, out.block, out.size);
    x->head.encoding = NULL;
    return true;
}

/* Returns whether the body of the reply is likely to shrink. Text shrinks, and so do cells, whose
 * bytes repeat. */
static bool is_worth_it(const srv_exchange *x) {
    const char *type = x->req.reply.type;
    const srv_route *route = x->match.route;
    if (route && (route->shrinks || route->produces & SRV_ACCEPT_OCTETS))
        return true;
    return type &&
           (!strncmp(type, "application/json", 16) || !strncmp(type, "text/", 5) ||
            !strncmp(type, "image/svg+xml", 13) || !strncmp(type, "application/problem+json", 24));
}

/* Makes the ETag of an encoded reply weak. A strong ETag identifies the exact bytes of a body, and
 * encoding has changed the bytes (RFC 9110, 8.8.1). */
static void weaken_tag(srv_request *req) {
    for (size_t i = 0; i < req->reply.header_count; i++) {
        srv_header *header = &req->reply.headers[i];
        attn_text weak = {.arena = req->arena};
        if (strcmp(header->name, "ETag") != 0 || header->value[0] != '"')
            continue;
        attn_text_add(&weak, "W/%s", header->value);
        if (!weak.failed)
            header->value = weak.data;
    }
}

/* Makes the encoded bytes the body of the reply. */
static void take_encoded(srv_request *req, const char *body, size_t size, const char *coding) {
    req->reply.body = body;
    req->reply.size = size;
    srv_reply_header(req, "Content-Encoding", coding);
    weaken_tag(req);
}

void srv_coding_encode(srv_exchange *x, size_t most) {
    srv_reply *reply = &x->req.reply;
    srv_coding coding = srv_coding_choose(x->head.accept_encoding);
    z_stream z = {0};
    bool gzip = coding == SRV_GZIP;
    if (reply->brotli.data && srv_coding_is_brotli(x->head.accept_encoding)) {
        take_encoded(&x->req, reply->brotli.data, reply->brotli.size, "br");
        return;
    }
    if (gzip && reply->gzip.data) {
        take_encoded(&x->req, reply->gzip.data, reply->gzip.size, "gzip");
        return;
    }
    if (reply->pieces || reply->stream || reply->size < WORTH_IT || reply->size > most ||
        !is_worth_it(x) || (!gzip && coding != SRV_DEFLATE) ||
        deflateInit2(&z, LEVEL, Z_DEFLATED, gzip ? GZIP : ZLIB, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return;
    size_t room = reply->size - reply->size / 8; /* the encoding must save an eighth */
    char *to = room <= UINT32_MAX ? attn_arena_take(x->req.arena, room) : NULL;
    if (to) {
        z.next_in = (Bytef *)(uintptr_t)reply->body;
        z.avail_in = (uInt)reply->size;
        z.next_out = (Bytef *)to;
        z.avail_out = (uInt)room;
        if (deflate(&z, Z_FINISH) == Z_STREAM_END)
            take_encoded(&x->req, to, room - z.avail_out, gzip ? "gzip" : "deflate");
        attn_arena_shrink(x->req.arena, to, to == reply->body ? reply->size : 0);
    }
    deflateEnd(&z);
}
