/* From req.reply to a response of the HTTP library. The body stays where it is, in the arena; the
 * response holds the exchange's second reference until it is freed. */
#include <string.h>
#include <strings.h>

#include "http/cors.h"
#include "http/exchange.h"
#include "line.h"

static void free_response(void *cls) {
    srv_exchange_drop(cls);
}

static void add_timing(srv_exchange *x, struct MHD_Response *response) {
    char text[160], *p = text;
    p = srv_put_ms(srv_put(p, "queue;dur="), x->req.queued_ns);
    p = srv_put_ms(srv_put(p, ", decode;dur="), x->req.decode_ns);
    p = srv_put_ms(srv_put(p, ", compute;dur="), x->req.compute_ns);
    p = srv_put_ms(srv_put(p, ", encode;dur="), x->req.encode_ns);
    *p = 0;
    MHD_add_response_header(response, "Server-Timing", text);
}

/* FNV-1a, 64 bits: tells two states of a constant document apart, which is all a strong tag must.
 */
static void make_tag(const char *body, size_t size, char tag[20]) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)body[i]) * 0x100000001b3u;
    tag[0] = '"';
    for (int i = 0; i < 16; i++, hash >>= 4)
        tag[1 + i] = "0123456789abcdef"[hash & 15];
    memcpy(tag + 17, "\"", 2);
}

static bool tag_matches(const char *list, const char *tag) {
    return list && (!strcmp(list, "*") || strstr(list, tag));
}

static bool has_header(const srv_reply *reply, const char *name) {
    for (size_t i = 0; i < reply->header_count; i++)
        if (!strcasecmp(reply->headers[i].name, name))
            return true;
    return false;
}

/* Documents that a GET finds always the same carry a tag; the rest must not be kept. `tag`: "" or
 * the text to send. */
static void decide_caching(srv_exchange *x, char tag[20]) {
    srv_reply *reply = &x->req.reply;
    bool get = !strcmp(x->req.method, "GET") || !strcmp(x->req.method, "HEAD");
    tag[0] = 0;
    if (has_header(reply, "Cache-Control"))
        return;
    if (!get || reply->status != 200) {
        if (strcmp(x->req.method, "OPTIONS"))
            srv_reply_header(&x->req, "Cache-Control", "no-store");
        return;
    }
    make_tag(reply->body, reply->size, tag);
    srv_reply_header(&x->req, "Cache-Control", "no-cache");
    if (tag_matches(x->facts.if_none_match, tag)) {
        reply->status = 304;
        reply->size = 0;
        reply->body = "";
    }
}

static void add_headers(srv_exchange *x, struct MHD_Response *response, const char *tag) {
    const srv_reply *reply = &x->req.reply;
    if (reply->type && reply->status != 304)
        MHD_add_response_header(response, "Content-Type", reply->type);
    MHD_add_response_header(response, "X-Request-Id", x->req.id);
    if (!x->refused)
        add_timing(x, response);
    for (size_t i = 0; i < reply->header_count; i++)
        MHD_add_response_header(response, reply->headers[i].name, reply->headers[i].value);
    if (*tag)
        MHD_add_response_header(response, "ETag", tag);
    if (x->match.route) {
        bool several = x->match.route->produces & (x->match.route->produces - 1);
        MHD_add_response_header(response, "Vary",
                                several ? "Accept, Accept-Encoding" : "Accept-Encoding");
    }
    srv_cors(x, response);
    if (x->close || atomic_load_explicit(&x->req.app->draining, memory_order_relaxed))
        MHD_add_response_header(response, "Connection", "close");
}

/* The slowest rate that is served bounds the time of the download. */
static void set_deadline(srv_exchange *x) {
    const srv_config *config = x->req.app->config;
    double allowed = (double)x->req.reply.size / (double)config->min_rate_bytes;
    int64_t ns = config->header_timeout_ms * 1000000 + (int64_t)(allowed * 1e9);
    atomic_store_explicit(&x->link->deadline_ns, attn_now_ns() + ns, memory_order_relaxed);
}

/* Bodies in pieces go out from where the pieces lie. */
static struct MHD_Response *make_response(srv_exchange *x) {
    srv_reply *reply = &x->req.reply;
    if (!reply->pieces)
        return MHD_create_response_from_buffer_with_free_callback_cls(
            reply->size, (void *)reply->body, free_response, x);
    struct MHD_IoVec *list = attn_arena_zeroed(x->req.arena, reply->piece_count, sizeof *list);
    for (size_t i = 0; list && i < reply->piece_count; i++)
        list[i] = (struct MHD_IoVec){reply->pieces[i].data, reply->pieces[i].size};
    return list ? MHD_create_response_from_iovec(list, (unsigned)reply->piece_count, free_response,
                                                 x)
                : NULL;
}

enum MHD_Result srv_exchange_send(srv_exchange *x) {
    srv_reply *reply = &x->req.reply;
    char tag[20];
    decide_caching(x, tag);
    struct MHD_Response *response = make_response(x);
    if (!response)
        return MHD_NO;
    x->refs++;
    add_headers(x, response, tag);
    atomic_store_explicit(&x->link->reading, false, memory_order_relaxed);
    set_deadline(x);
    x->phase = SRV_SENT;
    enum MHD_Result queued = MHD_queue_response(x->connection, (unsigned)reply->status, response);
    MHD_destroy_response(response);
    return queued;
}
