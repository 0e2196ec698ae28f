/* A body is stored in one block of memory, unless it goes to an intake (request/intake.h). The
 * block grows as bytes arrive, so that an announced length costs no memory before its bytes arrive.
 * It grows by a factor of 16, and from 16 MiB on directly to Content-Length. The block of a chunked
 * body, whose length is unknown, doubles instead. Admission (load/admission.h) decides whether
 * there is memory. */
#include "http/body.h"

#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "http/before_1_0.h"
#include "http/exchange.h"
#include "load/budget.h"
#include "request/intake.h"
#include "wire/container.h"
#include "wire/infer.h"

/* The number of bytes that a client may still send after its request was refused. Beyond
 * DROPPED_MOST the link is cut, beyond LINGERED_MOST the socket is closed. */
#define DROPPED_MOST  (256 * 1024)
#define LINGERED_MOST (16 * 1024 * 1024)
/* The socket of a cut link is shut down after SILENT_NS without received bytes, and at the latest
 * LINGER_NS after the cut. */
#define SILENT_NS 3000000000
#define LINGER_NS 30000000000

enum {
    CHUNKED_FIRST = 16384, /* first room for a chunked body, in bytes */
    FIRST = 65536,         /* first room for a body of known length, in bytes */
    FASTER = 16,           /* factor by which the room for a body of known length grows */
    LAST = 1 << 24,        /* from this size on that room grows to Content-Length at once */
};

/* Longest body, in bytes, that is read in order. Longer bodies do not fit into the processor's
 * caches, so they gain nothing from the order. */
enum { ORDERED_MOST = 1 << 20 };

/* How long a body waits while many requests wait in the queue. After this time the body is read,
 * and the queue decides whether its request is answered or refused. */
#define WAIT_MOST_NS 50000000

/* --- the order of bodies ---
 *
 *   first piece -> [ waits … ] -> holder -> complete
 *                       ^            |
 *                       +------------+   its socket has no bytes, another body's has
 *
 * The holder is the exchange whose body is read now. It stays the holder only while the kernel has
 * bytes for its socket, so that no body waits for a client that pauses. Only bodies without TLS and
 * with a known length are read in order, because only their bytes can be counted: each byte that
 * libmicrohttpd reads from the socket arrives in srv_body_take. The lock is released before
 * functions of libmicrohttpd are called. */

static bool is_ordered(const srv_exchange *x) {
    const srv_head *h = &x->head;
    return !h->chunked && x->link->plain && !x->body.has_intake &&
           h->length > (uint64_t)x->req.app->config->in_place_bytes && h->length <= ORDERED_MOST;
}

/* Returns the number of bytes that the kernel has for the socket of x. */
static size_t bytes_of(const srv_exchange *x) {
    int bytes = 0;
    return !ioctl(x->link->fd, FIONREAD, &bytes) && bytes > 0 ? (size_t)bytes : 0;
}

/* Returns whether at least as many requests wait in the queue as there are workers. */
static bool is_backed_up(const srv_app *app) {
    return srv_queue_waiting(app->queue) >= (size_t)app->config->workers;
}

/* Makes x the holder; NULL: no exchange is the holder. The caller has the lock. */
static void hold(srv_body_order *o, srv_exchange *x) {
    o->holder = x;
    o->left = 0;
}

/* Returns whether there is a holder and the kernel still has bytes for it. Asks the kernel only
 * when all bytes that it last reported have been read. The caller has the lock. */
static bool is_held(srv_body_order *o) {
    if (o->holder && !o->left)
        o->left = bytes_of(o->holder);
    return o->left > 0;
}

/* If the present holder has no bytes, removes exchanges from the front of the waiting list up to
 * the first one whose socket has bytes, which becomes the holder. Returns the removed exchanges,
 * linked by body.after; the caller resumes them. The caller has the lock. */
static srv_exchange *admit(srv_body_order *o, const srv_app *app) {
    srv_exchange *out = NULL, **end = &out;
    while (o->first && !is_held(o)) {
        srv_exchange *x = o->first;
        if (is_backed_up(app) && attn_now_ns() - x->body.waits_ns < WAIT_MOST_NS)
            break;
        o->first = x->body.after;
        x->body.after = NULL;
        *end = x;
        end = &x->body.after;
        hold(o, x);
    }
    return out;
}

/* Removes and returns all waiting exchanges; afterwards there is no holder. The caller has the
 * lock. */
static srv_exchange *admit_all(srv_body_order *o) {
    srv_exchange *all = o->first;
    o->first = NULL;
    hold(o, NULL);
    return all;
}

/* Resumes the connections of the listed exchanges, each of which may be freed at once afterwards.
 * The caller does not have the lock. */
static void resume(srv_exchange *list) {
    while (list) {
        srv_exchange *next = list->body.after;
        MHD_resume_connection(list->connection);
        list = next;
    }
}

/* Suspends the connection of x and appends x to the waiting list. Then resumes the exchanges that
 * may be read now; if the holder has just finished, x may be one of them. */
static void wait_in_order(srv_body_order *o, srv_exchange *x) {
    MHD_suspend_connection(x->connection);
    pthread_mutex_lock(&o->lock);
    x->body.after = NULL;
    x->body.waits_ns = attn_now_ns();
    *(o->first ? &o->last->body.after : &o->first) = x;
    o->last = x;
    srv_exchange *next = o->ended ? admit_all(o) : admit(o, x->req.app);
    pthread_mutex_unlock(&o->lock);
    resume(next);
}

/* Called after a piece of `size` bytes of the body of x was received. If x must wait for the bodies
 * before it, suspends its connection. */
static void keep_order(srv_exchange *x, size_t size) {
    srv_body_order *o = &x->daemon->order;
    srv_exchange *next = NULL;
    if (!is_ordered(x) || x->body.incoming.received >= x->head.length)
        return; /* for a complete body, srv_exchange_answer calls srv_body_pass_on */
    pthread_mutex_lock(&o->lock);
    if (o->holder == x)
        o->left -= size < o->left ? size : o->left;
    else if (!o->first && !is_held(o) && !is_backed_up(x->req.app))
        hold(o, x);
    const bool waits = o->holder != x && !o->ended;
    if (!waits)
        next = admit(o, x->req.app);
    pthread_mutex_unlock(&o->lock);
    if (waits)
        wait_in_order(o, x);
    resume(next);
}

void srv_body_pass_on(srv_exchange *x) {
    srv_body_order *o = &x->daemon->order;
    srv_exchange *next = NULL;
    if (!is_ordered(x))
        return;
    pthread_mutex_lock(&o->lock);
    if (o->holder == x) {
        hold(o, NULL);
        next = admit(o, x->req.app);
    }
    pthread_mutex_unlock(&o->lock);
    resume(next);
}

bool srv_body_order_next(srv_body_order *o, srv_app *app) {
    pthread_mutex_lock(&o->lock);
    srv_exchange *next = admit(o, app);
    bool waiting = o->first != NULL;
    pthread_mutex_unlock(&o->lock);
    resume(next);
    return waiting;
}

void srv_body_order_end(srv_body_order *o) {
    pthread_mutex_lock(&o->lock);
    srv_exchange *all = admit_all(o);
    o->ended = true;
    pthread_mutex_unlock(&o->lock);
    resume(all);
    pthread_mutex_lock(&o->lock);
    while (o->at_intakes)
        pthread_cond_wait(&o->resumed, &o->lock);
    pthread_mutex_unlock(&o->lock);
}

/* --- bodies that go to an intake --- */

/* Implements srv_intake.suspend. Runs on the HTTP thread. */
static bool suspend_intake(void *sender) {
    const srv_exchange *x = sender;
    srv_body_order *o = &x->daemon->order;
    pthread_mutex_lock(&o->lock);
    const bool may = !o->ended;
    o->at_intakes += may;
    pthread_mutex_unlock(&o->lock);
    if (may)
        MHD_suspend_connection(x->connection);
    return may;
}

/* Implements srv_intake.resume. Runs on any thread. x may be freed as soon as its connection is
 * resumed. */
static void resume_intake(void *sender) {
    const srv_exchange *x = sender;
    srv_body_order *o = &x->daemon->order;
    MHD_resume_connection(x->connection);
    pthread_mutex_lock(&o->lock);
    if (--o->at_intakes == 0)
        pthread_cond_broadcast(&o->resumed);
    pthread_mutex_unlock(&o->lock);
}

/* --- refused bodies --- */

void srv_body_drop(srv_exchange *x) {
    srv_body *b = &x->body;
    const srv_app *app = x->req.app;
    if (x->task.promised)
        srv_queue_forget(app->queue, &x->task);
    if (b->incoming.listed)
        srv_admission_close(app->admission, &b->incoming);
    if (b->block)
        srv_admission_drop(app->admission, &b->incoming, b->block);
    if (x->req.intake)
        x->req.intake->drop(x->req.intake);
    x->req.intake = NULL;
    b->block = NULL;
    x->req.body = "";
    x->req.body_size = 0;
}

void srv_body_refuse(srv_exchange *x) {
    srv_body_drop(x);
    if (!srv_body_is_refused(x))
        x->body.state = SRV_BODY_REFUSED;
    srv_body_pass_on(x);
}

bool srv_body_is_refused(const srv_exchange *x) {
    return x->body.state >= SRV_BODY_REFUSED;
}

/* Extends the deadline of a request whose link is cut, because its client has just sent bytes. */
static void linger(srv_exchange *x) {
    int64_t silent = attn_now_ns() + SILENT_NS, last = x->body.lingers_ns + LINGER_NS;
    srv_link_allow(x->link, silent < last ? silent : last);
}

void srv_body_cut(srv_exchange *x) {
    if (!srv_link_cut(x->link, x->req.id, &x->req.reply, SHUT_WR))
        return;
    x->body.state = SRV_BODY_LINGER;
    x->body.lingers_ns = attn_now_ns();
    linger(x);
}

static void refuse_size(srv_exchange *x, size_t cap, const char *setting) {
    srv_problem_limit(&x->req, SRV_TOO_LARGE, NULL, (double)cap, setting,
                      "the body has more than %zu bytes", cap);
    srv_body_refuse(x);
}

static void refuse_memory(srv_exchange *x) {
    srv_problem_limit(&x->req, SRV_MEMORY_BUDGET, NULL, (double)srv_budget_total(), "memory_bytes",
                      "there is no memory for the body now; try again a little later");
    srv_body_refuse(x);
}

static void refuse_chunk(srv_exchange *x) {
    srv_problem(&x->req, SRV_BAD_REQUEST, NULL,
                "a line between the chunks of the body ends in something else than CR LF");
    x->close = true;
    srv_body_refuse(x);
    srv_body_cut(x);
}

/* Implements srv_incoming.give_way: refuses the request and frees the memory of its body, because
 * another body needs this memory. Admission calls this on the HTTP thread. */
static void give_way(srv_incoming *incoming) {
    srv_exchange *x =
        (srv_exchange *)(void *)((char *)incoming - offsetof(srv_exchange, body.incoming));
    refuse_memory(x);
    srv_body_cut(x);
}

/* Drops a piece of a refused body. Returns false if the client has sent too much. */
static bool drop_piece(srv_exchange *x, size_t size) {
    srv_body *b = &x->body;
    b->dropped += size;
    const bool is_long = x->head.length > b->incoming.received + DROPPED_MOST;
    if (b->state == SRV_BODY_REFUSED && (is_long || b->dropped > DROPPED_MOST))
        srv_body_cut(x);
    if (b->state == SRV_BODY_REFUSED)
        return b->dropped <= DROPPED_MOST;
    linger(x);
    return b->dropped <= LINGERED_MOST;
}

/* --- arriving bodies --- */

bool srv_body_begin(srv_exchange *x) {
    const srv_head *h = &x->head;
    const srv_config *config = x->req.app->config;
    const bool has_body = h->length > 0 || h->chunked;
    if (srv_body_is_refused(x)) {
        const bool is_long = h->length > DROPPED_MOST, waits = h->expect && has_body;
        if (is_long && !x->close && !waits && x->link->plain && !h->origin)
            srv_body_cut(x); /* the client sends the body without waiting for "100 Continue" */
        else
            x->close = x->close || waits || is_long;
        return !x->close;
    }
    x->body.state = SRV_BODY_READING;
    x->body.has_intake = x->req.intake;
    if (!has_body)
        return true;
    x->body.incoming.give_way = give_way;
    /* Reserve a place in the queue for a long body, so that its request is not refused after the
     * upload because the queue is full. */
    if (h->chunked || h->length > (uint64_t)config->in_place_bytes)
        srv_queue_promise(x->req.app->queue, &x->task);
    if (!x->req.intake)
        srv_admission_open(x->req.app->admission, &x->body.incoming,
                           h->chunked ? (uint64_t)config->max_body_bytes : h->length,
                           x->req.start_ns);
    if (x->req.intake) {
        x->req.intake->suspend = suspend_intake;
        x->req.intake->resume = resume_intake;
        x->req.intake->sender = x;
    }
    return true;
}

/* Makes room for a body of `need` bytes, of at most `cap` bytes if it is chunked. The block is
 * ATTN_ALIGN + 1 bytes larger, for the shift of the body and a NUL. Returns false if there is no
 * memory. */
static bool grow(srv_exchange *x, size_t need, size_t cap, int64_t now) {
    srv_body *b = &x->body;
    if (need <= b->room && b->block)
        return true;
    bool chunked = x->head.chunked;
    size_t most = chunked ? cap : (size_t)x->head.length;
    size_t room = chunked ? CHUNKED_FIRST : FIRST, factor = chunked ? 2 : FASTER;
    while (room < need && room < most)
        room = room > most / factor || (room >= LAST && !chunked) ? most : room * factor;
    room = room > most ? most : room;
    size_t used = x->req.body_size ? b->shift + x->req.body_size : 0;
    char *block = srv_admission_take(x->req.app->admission, &b->incoming, b->block, used,
                                     room + ATTN_ALIGN + 1, now);
    if (!block)
        return false;
    b->block = block;
    b->room = room;
    return true;
}

/* Returns the offset, below ATTN_ALIGN, at which the body must start in its block so that binary
 * tensors behind the body's own header (safetensors, Open Inference) are aligned. `data` is the
 * first piece of the body. If it is too short to show the length of the header, the offset may be
 * wrong, and unaligned tensors are copied when they are decoded. */
static size_t shift_of(const srv_exchange *x, const char *data, size_t size) {
    size_t lead = 0;
    if (x->req.infer_header)
        srv_infer_lead(x->req.infer_header, &lead);
    else if (strcmp(x->req.content_type, SRV_SAFETENSORS) == 0)
        lead = srv_safetensors_lead(data, size);
    return (ATTN_ALIGN - lead % ATTN_ALIGN) % ATTN_ALIGN;
}

static void append(srv_exchange *x, const char *data, size_t size) {
    srv_body *b = &x->body;
    if (x->req.body_size == 0)
        b->shift = x->head.encoding ? 0 : shift_of(x, data, size);
    char *body = b->block + b->shift;
    memcpy(body + x->req.body_size, data, size);
    x->req.body_size += size;
    body[x->req.body_size] = 0;
}

/* Passes a piece to the intake. */
static void pass_to_intake(srv_exchange *x, const char *data, size_t size) {
    srv_intake *intake = x->req.intake;
    if (x->body.incoming.received > intake->most)
        refuse_size(x, (size_t)intake->most, intake->setting);
    else if (!intake->take(intake, &x->req, data, size))
        srv_body_refuse(x);
}

bool srv_body_take(srv_exchange *x, const char *data, size_t size) {
    const size_t cap = (size_t)x->req.app->config->max_body_bytes;
    const int64_t now = attn_now_ns();
    x->body.incoming.received += size;
    if (x->body.state == SRV_BODY_READING) {
        srv_link_credit(x->link, (double)size, now);
        if (x->head.chunked && !srv_old_line_is_clean(x->head.body_from, data))
            refuse_chunk(x);
        else if (x->req.intake)
            pass_to_intake(x, data, size);
        else if (x->req.body_size + size > cap)
            refuse_size(x, cap, "max_body_bytes");
        else if (!grow(x, x->req.body_size + size, cap, now))
            refuse_memory(x);
    }
    if (srv_body_is_refused(x)) {
        srv_body_pass_on(x);
        return drop_piece(x, size);
    }
    if (x->req.intake)
        return true;
    append(x, data, size);
    keep_order(x, size);
    return true;
}

bool srv_body_end(srv_exchange *x) {
    srv_body *b = &x->body;
    if (b->incoming.listed)
        srv_admission_close(x->req.app->admission, &b->incoming);
    x->req.body = b->block ? b->block + b->shift : "";
    b->state = SRV_BODY_COMPLETE;
    srv_link_allow(x->link, 0);
    return srv_link_claim(x->link);
}

void srv_body_replace(srv_exchange *x, char *block, size_t size) {
    const size_t shift = shift_of(x, block, size);
    memmove(block + shift, block, size);
    block[shift + size] = 0;
    srv_body_drop(x);
    x->body.block = block;
    x->body.shift = shift;
    x->req.body = block + shift;
    x->req.body_size = size;
}
