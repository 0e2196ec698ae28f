/* A body goes into one buffer that grows with what has come, sixteenfold, and beyond 16 MiB at once
 * to Content-Length: an announced length costs little before its bytes are here. Chunked ones grow
 * by doubling. Large buffers grow without a copy, which would keep the HTTP thread for long; up to
 * 2 MiB go into a kept block, whose pages are there.
 * Admission says whether there is memory.
 * Whoever sends much has a place in the queue promised, so that it is not refused for want of one
 * when all of it is here. */
#include "http/upload.h"

#include <string.h>

#include "http/chunks.h"
#include "http/cut.h"
#include "http/turns.h"
#include "load/admission.h"
#include "load/budget.h"
#include "wire/container.h"
#include "wire/infer.h"

enum { CHUNKED_FIRST = 16384, FIRST = 65536, FASTER = 16, LAST = 1 << 24 };

void srv_upload_drop(srv_exchange *x) {
    srv_queue_forget(x->req.app->queue, &x->job);
    srv_admission_close(x->req.app->admission, &x->incoming);
    srv_admission_drop(x->req.app->admission, &x->incoming, x->body);
    x->body = NULL;
    x->req.body = "";
    x->req.body_size = 0;
}

static void refuse_memory(srv_exchange *x) {
    srv_upload_drop(x);
    srv_problem_limit(&x->req, SRV_MEMORY_BUDGET, NULL, (double)srv_budget_total(), "memory_bytes",
                      "there is no memory for the body now; try again a little later");
    x->refused = true;
}

/* Admission takes the memory of the slowest when it is short (on the HTTP thread, as all here). */
static void give_way(srv_incoming *incoming) {
    srv_exchange *x = (srv_exchange *)(void *)((char *)incoming - offsetof(srv_exchange, incoming));
    refuse_memory(x);
    srv_cut_body(x);
}

void srv_upload_begin(srv_exchange *x) {
    const srv_config *config = x->req.app->config;
    if (x->facts.length == 0 && !x->facts.chunked)
        return;
    x->incoming.give_way = give_way;
    if (x->facts.chunked || x->facts.length > (uint64_t)config->in_place_bytes)
        srv_queue_promise(x->req.app->queue, &x->job);
    srv_admission_open(x->req.app->admission, &x->incoming,
                       x->facts.chunked ? (uint64_t)config->max_body_bytes : x->facts.length,
                       x->req.start_ns);
}

static void refuse_size(srv_exchange *x, size_t cap) {
    srv_upload_drop(x);
    srv_problem_limit(&x->req, SRV_TOO_LARGE, NULL, (double)cap, "max_body_bytes",
                      "the body has more than %zu bytes", cap);
    x->refused = true;
}

/* Room for `need` bytes, the shift and a NUL. */
static bool grow(srv_exchange *x, size_t need, size_t cap, int64_t now) {
    if (need <= x->body_room && x->body)
        return true;
    bool chunked = x->facts.chunked;
    size_t most = chunked ? cap : (size_t)x->facts.length;
    size_t room = chunked ? CHUNKED_FIRST : FIRST, factor = chunked ? 2 : FASTER;
    while (room < need && room < most)
        room = room > most / factor || (room >= LAST && !chunked) ? most : room * factor;
    room = room > most ? most : room;
    size_t used = x->req.body_size ? x->body_shift + x->req.body_size : 0;
    char *body = srv_admission_take(x->req.app->admission, &x->incoming, x->body, used,
                                    room + ATTN_ALIGN + 1, now);
    if (!body)
        return false;
    x->body = body;
    x->body_room = room;
    return true;
}

/* Each piece buys time at the slowest rate that is served, but no more than the grace lies ahead:
 * much at first does not pay for silence later. */
static void set_deadline(srv_exchange *x, size_t size, int64_t now) {
    const srv_config *config = x->req.app->config;
    int64_t bought = (int64_t)(1e9 * (double)size / (double)config->min_rate_bytes);
    int64_t most = now + config->header_timeout_ms * 1000000;
    int64_t by = atomic_load_explicit(&x->link->deadline_ns, memory_order_relaxed) + bought;
    atomic_store_explicit(&x->link->deadline_ns, by < most ? by : most, memory_order_relaxed);
}

/* A first piece that is too short to tell leaves the tensors to be copied where they have to be. */
size_t srv_upload_shift(const srv_exchange *x, const char *data, size_t size) {
    size_t lead = 0;
    if (x->req.infer_header)
        srv_infer_lead(x->req.infer_header, &lead);
    else if (strcmp(x->req.content_type, SRV_SAFETENSORS) == 0)
        lead = srv_safetensors_lead(data, size);
    return (ATTN_ALIGN - lead % ATTN_ALIGN) % ATTN_ALIGN;
}

/* The rest of a body that is refused: a short one keeps the connection, else the reply goes out now
 * and what follows is read for a while. false: enough. */
static bool swallow(srv_exchange *x, size_t size) {
    x->swallowed += size;
    bool is_long = x->facts.length > x->bytes_in + SRV_SWALLOW_BYTES;
    if (is_long || x->swallowed > SRV_SWALLOW_BYTES)
        srv_cut_body(x);
    if (!srv_link_is_cut(x->link))
        return x->swallowed <= SRV_SWALLOW_BYTES;
    if (x->link->cut_ns)
        srv_cut_linger(x);
    return x->swallowed <= SRV_LINGER_BYTES;
}

static void refuse_chunk(srv_exchange *x) {
    srv_upload_drop(x);
    srv_problem(&x->req, SRV_BAD_REQUEST, NULL,
                "a line between the chunks of the body ends in something else than CR LF");
    x->refused = x->close = true;
    srv_cut_body(x);
}

bool srv_upload_take(srv_exchange *x, const char *data, size_t size) {
    size_t cap = (size_t)x->req.app->config->max_body_bytes;
    int64_t now = attn_now_ns();
    x->bytes_in += size;
    if (!x->refused)
        set_deadline(x, size, now);
    x->incoming.received = x->bytes_in;
    if (!x->refused && x->facts.chunked && !srv_chunk_line_is_clean(x->facts.body_from, data))
        refuse_chunk(x);
    if (!x->refused) {
        size_t total = x->req.body_size + size;
        if (total > cap)
            refuse_size(x, cap);
        else if (!grow(x, total, cap, now))
            refuse_memory(x);
    }
    if (x->refused) {
        srv_turn_over(x);
        return swallow(x, size);
    }
    if (x->req.body_size == 0)
        x->body_shift = x->facts.encoding ? 0 : srv_upload_shift(x, data, size);
    char *body = x->body + x->body_shift;
    memcpy(body + x->req.body_size, data, size);
    x->req.body_size += size;
    body[x->req.body_size] = 0;
    srv_turn_taken(x, size);
    return true;
}
