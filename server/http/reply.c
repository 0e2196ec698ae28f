/* Makes a response of libmicrohttpd from req.reply. The body is not copied: it stays in the arena,
 * and the response has a reference to the exchange until libmicrohttpd frees the response. Only
 * srv_reply_ahead copies the body, which is short, so that the next request can reuse the arena
 * while it is still in the processor's caches. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>

#include "http/auth.h"
#include "http/exchange.h"
#include "number/print_small.h"
#include "request/stream.h"

#define COPIED_MOST ((size_t)16384) /* largest body that srv_reply_ahead copies, in bytes */

static void free_response(void *cls) {
    srv_exchange_drop(cls);
}

/* Adds a header. If this fails, the caller must not send the reply: without Content-Encoding, for
 * example, the client could not read the body. */
static bool add(struct MHD_Response *response, const char *name, const char *value) {
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

static bool add_timing(srv_exchange *x, struct MHD_Response *response) {
    char text[160], *p = text;
    p = attn_put_ms(attn_put(p, "queue;dur="), x->req.queued_ns);
    p = attn_put_ms(attn_put(p, ", decode;dur="), x->req.decode_ns);
    p = attn_put_ms(attn_put(p, ", compute;dur="), x->req.compute_ns);
    p = attn_put_ms(attn_put(p, ", encode;dur="), x->req.encode_ns);
    *p = 0;
    return add(response, "Server-Timing", text);
}

/* A step of the hash for ETags. It is like FNV-1a but takes 8 bytes at once, because the HTTP
 * thread hashes documents of 200 KB. For a given word, different values of `hash` give different
 * results. Therefore two versions of a document that differ in only one word always have different
 * ETags. */
static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static uint64_t hash_of(uint64_t hash, const void *data, size_t size) {
    const char *bytes = data;
    uint64_t word;
    for (; size >= sizeof word; bytes += sizeof word, size -= sizeof word) {
        memcpy(&word, bytes, sizeof word);
        hash = mix(hash, word);
    }
    word = 0;
    if (size)
        memcpy(&word, bytes, size);
    return mix(hash, word ^ (uint64_t)size << 56);
}

/* Computes an ETag from the body of the reply: 16 hexadecimal digits in quotes. */
static void make_tag(const srv_reply *reply, char tag[20]) {
    uint64_t hash = 0xcbf29ce484222325u;
    if (!reply->pieces)
        hash = hash_of(hash, reply->body, reply->size);
    for (size_t i = 0; reply->pieces && i < reply->piece_count; i++)
        hash = hash_of(hash, reply->pieces[i].data, reply->pieces[i].size);
    tag[0] = '"';
    for (int i = 0; i < 16; i++, hash >>= 4)
        tag[1 + i] = "0123456789abcdef"[hash & 15];
    memcpy(tag + 17, "\"", 2);
}

/* Returns whether the value of If-Match or If-None-Match lists the tag, which includes its quotes.
 * If `weak` is false, entries that are weak tags (W/"…") do not match. */
static bool tag_matches(const char *list, const char *tag, bool weak) {
    size_t size = strlen(tag);
    if (!strcmp(list, "*"))
        return true;
    for (const char *p = list; (p = strstr(p, tag)); p += size)
        if (weak || p - list < 2 || memcmp(p - 2, "W/", 2) != 0)
            return true;
    return false;
}

const char *srv_reply_find(const srv_reply *reply, const char *name) {
    for (size_t i = 0; i < reply->header_count; i++)
        if (!strcasecmp(reply->headers[i].name, name))
            return reply->headers[i].value;
    return NULL;
}

/* Applies If-Match and then If-None-Match (RFC 9110, 13.2.2) to a reply with this ETag: the reply
 * becomes a 412, or a 304 without a body. */
static void apply_conditions(srv_exchange *x, const char *tag) {
    srv_reply *reply = &x->req.reply;
    const srv_head *h = &x->head;
    if (h->if_match && !tag_matches(h->if_match, tag, false)) {
        srv_problem(&x->req, SRV_PRECONDITION, NULL, "this is %s, which If-Match does not name",
                    tag);
        srv_reply_header(&x->req, "Cache-Control", "no-store");
    } else if (h->if_none_match && tag_matches(h->if_none_match, tag, true)) {
        reply->status = 304;
        reply->size = 0;
        reply->body = "";
        reply->pieces = NULL;
    }
}

/* Sets the headers for caches.
 *
 *   200 for GET or HEAD   ETag (the handler's, else one computed from the body) and
 *                         Cache-Control (the handler's, else no-cache)
 *   the same, but the handler has set no-store and no ETag   no change other replies
 *   Cache-Control: the handler's, else no-store (none for OPTIONS)
 *
 * `tag` becomes the computed ETag; "": none was computed. */
static void decide_caching(srv_exchange *x, char tag[20]) {
    srv_reply *reply = &x->req.reply;
    const char *kept = srv_reply_find(reply, "Cache-Control"), *own = srv_reply_find(reply, "ETag");
    bool get = !strcmp(x->req.method, "GET") || !strcmp(x->req.method, "HEAD");
    tag[0] = 0;
    if (!get || reply->status != 200) {
        if (!kept && strcmp(x->req.method, "OPTIONS"))
            srv_reply_header(&x->req, "Cache-Control", "no-store");
        return;
    }
    if (kept && !own && !strcmp(kept, "no-store"))
        return;
    if (!own)
        make_tag(reply, tag);
    if (!kept)
        srv_reply_header(&x->req, "Cache-Control", "no-cache");
    apply_conditions(x, own ? own : tag);
    if (reply->status >= 400)
        tag[0] = 0;
}

static bool add_trace(const srv_exchange *x, struct MHD_Response *response) {
    char text[SRV_TRACE_TEXT + 1];
    srv_trace_text(&x->trace, text);
    return add(response, "traceparent", text);
}

/* Adds all headers of the reply. Returns false if memory ran out. */
static bool add_headers(srv_exchange *x, struct MHD_Response *response, const char *tag) {
    const srv_reply *reply = &x->req.reply;
    bool ok = !reply->type || reply->status == 304 || add(response, "Content-Type", reply->type);
    ok = ok && add(response, "X-Request-Id", x->req.id) && add_trace(x, response);
    ok = ok && (srv_body_is_refused(x) || add_timing(x, response));
    for (size_t i = 0; ok && i < reply->header_count; i++)
        ok = add(response, reply->headers[i].name, reply->headers[i].value);
    if (*tag)
        ok = ok && add(response, "ETag", tag);
    if (x->match.route) {
        bool several = x->match.route->produces & (x->match.route->produces - 1);
        ok = ok && add(response, "Vary", several ? "Accept, Accept-Encoding" : "Accept-Encoding");
    }
    ok = ok && srv_auth_headers(x, response);
    if (x->close || x->head.chunked ||
        atomic_load_explicit(&x->req.app->draining, memory_order_relaxed))
        ok = ok && add(response, "Connection", "close");
    return ok;
}

/* Sets the deadline by which the client must read the reply. For TCP the deadline is
 * header_timeout_ms, and the watcher extends it while the client reads. For a unix socket the
 * watcher cannot see how much the client has read, so the deadline also has the time for the whole
 * reply at the slowest allowed rate. */
static void set_deadline(srv_exchange *x) {
    const srv_config *config = x->req.app->config;
    size_t unseen = x->link->tcp ? 0 : x->req.reply.size;
    double allowed = (double)unseen / (double)config->min_rate_bytes;
    int64_t ns = config->header_timeout_ms * 1000000 + (int64_t)(allowed * 1e9);
    srv_link_allow(x->link, attn_now_ns() + ns);
}

/* --- streams: a connection is suspended while its stream has no bytes to send --- */

static void suspend_stream(void *x) {
    MHD_suspend_connection(((srv_exchange *)x)->connection);
}

static void resume_stream(void *x) {
    MHD_resume_connection(((srv_exchange *)x)->connection);
}

/* Called by libmicrohttpd for the next bytes of a stream. The client must read them within
 * header_timeout_ms. */
static ssize_t read_stream(void *cls, uint64_t position, char *to, size_t room) {
    srv_exchange *x = cls;
    (void)position;
    if (atomic_load(&x->gone))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    long n = srv_stream_read(x->req.reply.stream, to, room, suspend_stream);
    if (n < 0)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (n > 0) {
        int64_t grace = x->req.app->config->header_timeout_ms * 1000000;
        srv_link_allow(x->link, attn_now_ns() + grace);
        x->req.reply.size += (size_t)n;
    }
    return n;
}

static struct MHD_Response *make_stream(srv_exchange *x) {
    enum { BLOCK = 4096 };
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, x, free_response);
    if (!response)
        return NULL;
    /* The reply to HEAD has no body, but libmicrohttpd would still send the final chunk, and the
     * client would take it for the next reply. Without chunks libmicrohttpd closes the connection
     * instead. */
    if (!strcmp(x->req.method, "HEAD"))
        MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    srv_stream_start(x->req.reply.stream, resume_stream, x);
    pthread_mutex_lock(&x->daemon->lock);
    x->link->streaming = x;
    pthread_mutex_unlock(&x->daemon->lock);
    return response;
}

/* If `on` is 1, makes the kernel hold back the data for this connection. If `on` is 0, makes it
 * send all of this data. The two calls around a reply in pieces join its header and body. Otherwise
 * libmicrohttpd would send the header in a packet of its own, which wakes the client once more than
 * necessary. */
static void set_cork(const srv_exchange *x, int on) {
    if (x->link->tcp && x->link->plain && x->req.reply.pieces)
        (void)setsockopt(x->link->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
}

void srv_reply_end(srv_exchange *x) {
    srv_stream *stream = x->req.reply.stream;
    set_cork(x, 0);
    if (!stream)
        return;
    pthread_mutex_lock(&x->daemon->lock);
    x->link->streaming = NULL;
    pthread_mutex_unlock(&x->daemon->lock);
    x->req.reply.stream = NULL;
    srv_stream_stop(stream);
}

/* Makes the response with the body of the reply, without a copy and without headers. NULL: out of
 * memory. */
static struct MHD_Response *make_response(srv_exchange *x) {
    srv_reply *reply = &x->req.reply;
    if (reply->stream)
        return make_stream(x);
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

/* Makes the response with body and headers. The response has a reference to the exchange. NULL:
 * memory ran out, or the link was cut. */
static struct MHD_Response *prepare(srv_exchange *x) {
    char tag[20];
    if (!srv_link_claim(x->link))
        return NULL;
    decide_caching(x, tag);
    struct MHD_Response *response = make_response(x);
    if (!response)
        return NULL;
    atomic_fetch_add(&x->refs, 1);
    if (add_headers(x, response, tag))
        return response;
    MHD_destroy_response(response);
    return NULL;
}

void srv_reply_ahead(srv_exchange *x) {
    srv_reply *reply = &x->req.reply;
    char tag[20];
    if (reply->stream || reply->pieces || reply->size > COPIED_MOST)
        return;
    decide_caching(x, tag);
    void *copy = attn_block_take(reply->size);
    if (copy)
        x->response = MHD_create_response_from_buffer_with_free_callback(
            reply->size, memcpy(copy, reply->body, reply->size), attn_block_give);
    if (!x->response)
        attn_block_give(copy);
    if (!x->response)
        return;
    if (!add_headers(x, x->response, tag)) {
        srv_reply_forget(x);
        return;
    }
    srv_body_drop(x);
    srv_exchange_spare(x);
}

void srv_reply_forget(srv_exchange *x) {
    MHD_destroy_response(x->response);
    x->response = NULL;
}

struct MHD_Response *srv_reply_shortage(void) {
    srv_request bare = {.path = NULL};
    srv_problem(&bare, SRV_MEMORY_BUDGET, NULL, "%s", ""); /* without an arena: a constant body */
    struct MHD_Response *response = MHD_create_response_from_buffer(
        bare.reply.size, (void *)(uintptr_t)bare.reply.body, MHD_RESPMEM_PERSISTENT);
    bool ok = response && add(response, "Content-Type", bare.reply.type) &&
              add(response, "Retry-After", "1") && add(response, "Cache-Control", "no-store") &&
              add(response, "Connection", "close");
    if (ok || !response)
        return response;
    MHD_destroy_response(response);
    return NULL;
}

enum MHD_Result srv_exchange_send(srv_exchange *x) {
    struct MHD_Response *response = x->response ? x->response : prepare(x);
    struct MHD_Response *shortage = x->daemon->shortage;
    x->response = NULL;
    if (!response)
        srv_reply_end(x);
    if (!response)
        srv_problem(&x->req, SRV_MEMORY_BUDGET, NULL, "there was no memory to send the answer");
    set_deadline(x);
    if (response)
        set_cork(x, 1);
    x->phase = SRV_SENT;
    enum MHD_Result queued = MHD_queue_response(x->connection, (unsigned)x->req.reply.status,
                                                response ? response : shortage);
    if (response)
        MHD_destroy_response(response);
    return queued;
}
