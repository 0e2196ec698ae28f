/* A body goes once into one buffer, sized from Content-Length; a chunked one grows by doubling. The
 * buffer counts against the memory budget from the start, so a body that is accepted has its place.
 */
#include "http/upload.h"

#include <string.h>

#include "budget.h"
#include "wire/container.h"
#include "wire/infer.h"

#define CHUNKED_FIRST ((size_t)16384)

static void refuse_memory(srv_exchange *x) {
    attn_free(x->body);
    x->body = NULL;
    srv_problem_limit(&x->req, SRV_MEMORY_BUDGET, NULL, (double)srv_budget_total(), "memory_bytes",
                      "there is no memory for the body now; try again a little later");
    x->refused = true;
}

char *srv_upload_memory(size_t size) {
    return srv_budget_fits(size + srv_budget_total() / 16) ? attn_alloc(size) : NULL;
}

void srv_upload_begin(srv_exchange *x) {
    if (x->facts.length == 0)
        return;
    x->body_room = (size_t)x->facts.length;
    x->body = srv_upload_memory(x->body_room + ATTN_ALIGN + 1);
    if (!x->body)
        refuse_memory(x);
}

static void refuse_size(srv_exchange *x, size_t cap) {
    attn_free(x->body);
    x->body = NULL;
    srv_problem_limit(&x->req, SRV_TOO_LARGE, NULL, (double)cap, "max_body_bytes",
                      "the body has more than %zu bytes", cap);
    x->refused = true;
}

/* Room for `need` bytes and a NUL. */
static bool grow(srv_exchange *x, size_t need, size_t cap) {
    if (need <= x->body_room && x->body)
        return true;
    size_t room = x->body_room > CHUNKED_FIRST ? x->body_room : CHUNKED_FIRST;
    while (room < need)
        room *= 2;
    room = room > cap ? cap : room;
    char *body = srv_upload_memory(room + ATTN_ALIGN + 1);
    if (!body)
        return false;
    if (x->req.body_size)
        memcpy(body + x->body_shift, x->body + x->body_shift, x->req.body_size);
    attn_free(x->body);
    x->body = body;
    x->body_room = room;
    return true;
}

/* The slowest rate that is served sets the time by which the next piece must be here. */
static void set_deadline(srv_exchange *x) {
    const srv_config *config = x->req.app->config;
    double allowed = (double)x->bytes_in / (double)config->min_rate_bytes;
    int64_t ns = config->header_timeout_ms * 1000000 + (int64_t)(allowed * 1e9);
    atomic_store_explicit(&x->link->deadline_ns, x->req.start_ns + ns, memory_order_relaxed);
}

/* A first piece that is too short to tell leaves the tensors to be copied where they have to be. */
size_t srv_upload_shift(const srv_exchange *x, const char *data, size_t size) {
    size_t lead = 0;
    if (x->req.infer_header)
        srv_infer_lead(x->req.infer_header, &lead);
    else if (strcmp(x->req.content_type, SRV_SAFETENSORS) == 0)
        lead = srv_form_lead(data, size);
    return (ATTN_ALIGN - lead % ATTN_ALIGN) % ATTN_ALIGN;
}

bool srv_upload_take(srv_exchange *x, const char *data, size_t size) {
    size_t cap = (size_t)x->req.app->config->max_body_bytes;
    x->bytes_in += size;
    set_deadline(x);
    if (!x->refused) {
        size_t total = x->req.body_size + size;
        if (total > cap)
            refuse_size(x, cap);
        else if (!grow(x, total, cap))
            refuse_memory(x);
    }
    if (x->refused) {
        x->swallowed += size;
        return x->swallowed <= SRV_SWALLOW_BYTES;
    }
    if (x->req.body_size == 0)
        x->body_shift = x->facts.encoding ? 0 : srv_upload_shift(x, data, size);
    char *body = x->body + x->body_shift;
    memcpy(body + x->req.body_size, data, size);
    x->req.body_size += size;
    body[x->req.body_size] = 0;
    return true;
}
