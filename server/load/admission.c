/* Only the HTTP thread uses the list of arriving bodies. Other threads change only the atomic
 * members of srv_admission: they free complete bodies, keep copies of bodies, and learn costs. */
#include "load/admission.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/budget.h"
#include "load/queue.h"
#include "request/shared.h"

/* The rate of a body in bytes per second is computed as if CREDIT_S seconds of data at FAIR_RATE
 * times min_rate_bytes had arrived before its first byte. Therefore a new body counts as fast, and
 * a silent client soon counts as slow. */
#define FAIR_RATE 64.0
#define CREDIT_S  0.25
#define TRUST     4.0 /* wanted_before expects a body to grow to TRUST times its present size */
#define LONGEST_S 600 /* largest Retry-After in seconds */

#define KERNEL_NS  0.05  /* processor time of one operation in the kernels */
#define SHOWING_NS 5e5   /* shortest predicted time of a request that is measured */
#define NEWEST     0.25  /* weight of the newest measurement in the mean */
#define BRIEF_NS   2.5e5 /* longest predicted time of work on the HTTP thread */
#define TEXT_NS    0.25  /* time for each byte of the upper bound of a text */
enum { ROUTES = 128 };   /* size of cost_ns; routes beyond it share entries */

/* Bytes of an arena in addition to the blocks that the cost functions count: alignment and small
 * texts. */
#define ARENA_ROOM 65536

struct srv_admission {
    srv_incoming *first;
    atomic_size_t held; /* bytes that all bodies hold, arriving and complete ones */
    /* Mean processor time per operation, for each route; 0: not measured. */
    _Atomic double cost_ns[ROUTES];
    atomic_size_t kept; /* bytes of copies of bodies (srv_kept_body), which `held` includes */
    size_t bodies;      /* most bytes that all bodies may hold together: half of the budget */
    size_t spare;       /* bytes of srv_admission_spare: a sixteenth of the budget */
    size_t small;     /* bodies of at most this many bytes are small: the setting in_place_bytes */
    double fair_rate; /* assumed rate of a new body, in bytes per second */
};

srv_admission *srv_admission_new(const srv_config *config) {
    srv_admission *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->bodies = srv_budget_total() / 2;
    a->spare = srv_budget_total() / 16;
    a->small = (size_t)config->in_place_bytes;
    a->fair_rate = FAIR_RATE * (double)config->min_rate_bytes;
    return a;
}

void srv_admission_free(srv_admission *a) {
    free(a);
}

size_t srv_admission_spare(const srv_admission *a) {
    return a->spare;
}

size_t srv_admission_largest(const srv_admission *a) {
    return a->bodies - 2 * ATTN_ALIGN;
}

/* Estimates the seconds until the body is complete. */
static double seconds_left(const srv_admission *a, const srv_incoming *body, int64_t now_ns) {
    double age = 1e-9 * (double)(now_ns - body->since_ns);
    double rate = ((double)body->received + CREDIT_S * a->fair_rate) / (age + CREDIT_S);
    double missing =
        body->announced > body->received ? (double)(body->announced - body->received) : 0;
    return missing / rate;
}

/* Estimates the number of bytes in use before a new body of `length` bytes is complete: the bytes
 * of complete bodies, and the final sizes of those arriving bodies that will be complete earlier.
 * The final size counts as at most TRUST times the bytes that have arrived, so that a client that
 * announces many bytes but has sent few does not keep other clients out. */
static double wanted_before(const srv_admission *a, uint64_t length, int64_t now_ns) {
    double mine = (double)length / a->fair_rate;
    double wanted = (double)atomic_load_explicit(&a->held, memory_order_relaxed);
    for (const srv_incoming *body = a->first; body; body = body->next) {
        wanted -= (double)body->held;
        if (seconds_left(a, body, now_ns) <= mine)
            wanted += fmin((double)body->announced, TRUST * (double)body->received);
    }
    return wanted;
}

bool srv_admission_check_length(srv_admission *a, srv_request *req, uint64_t client,
                                uint64_t length, int64_t now_ns) {
    const srv_config *config = req->app->config;
    uint64_t cap = (uint64_t)config->max_body_bytes;
    if (length > cap && !req->intake)
        return srv_problem_limit(req, SRV_TOO_LARGE, NULL, (double)cap, "max_body_bytes",
                                 "the body has %llu bytes, at most %llu are taken",
                                 (unsigned long long)length, (unsigned long long)cap);
    if (length <= a->small)
        return true;
    if (length > srv_admission_largest(a))
        return srv_problem_limit(
            req, SRV_TOO_LARGE, NULL, (double)srv_budget_total(), "memory_bytes",
            "the body has %llu bytes, and all bodies together may hold %zu, half of "
            "the memory of all requests",
            (unsigned long long)length, a->bodies);
    if (!srv_queue_has_room(req->app->queue, client))
        return srv_problem_limit(req, SRV_QUEUE_FULL, NULL, (double)config->queue_length,
                                 "queue_length",
                                 "all places in the queue are taken; try again a little later");
    double wanted = wanted_before(a, length, now_ns);
    if (wanted + (double)length <= (double)a->bodies)
        return true;
    return srv_problem_limit(
        req, SRV_MEMORY_BUDGET, NULL, (double)srv_budget_total(), "memory_bytes",
        "the body has %llu bytes, but others hold or are about to fill %.0f of the "
        "%zu bytes for bodies; try again a little later",
        (unsigned long long)length, wanted, a->bodies);
}

void srv_admission_open(srv_admission *a, srv_incoming *body, uint64_t announced, int64_t now_ns) {
    body->announced = announced;
    body->since_ns = now_ns;
    body->previous = NULL;
    body->next = a->first;
    if (a->first)
        a->first->previous = body;
    a->first = body;
    body->listed = true;
}

void srv_admission_close(srv_admission *a, srv_incoming *body) {
    if (!body->listed)
        return;
    *(body->previous ? &body->previous->next : &a->first) = body->next;
    if (body->next)
        body->next->previous = body->previous;
    body->listed = false;
}

void srv_admission_drop(srv_admission *a, srv_incoming *body, char *block) {
    attn_free(block);
    atomic_fetch_sub_explicit(&a->held, body->held, memory_order_relaxed);
    body->held = 0;
}

/* Returns a block of `room` bytes with the first `used` bytes of `old`, or NULL. A large block
 * grows without a copy (srv_budget_grow). A small block is copied, which is fast. */
static char *grow_block(char *old, size_t used, size_t room) {
    char *block = old ? srv_budget_grow(old, room) : NULL;
    if (block || !(block = attn_alloc(room)))
        return block;
    if (used)
        memcpy(block, old, used);
    attn_free(old);
    return block;
}

/* Grows the memory of the body to `room` bytes, unless all bodies together would then exceed their
 * part of the budget. NULL: not possible now, and `old` is unchanged. */
static char *grow_within_share(srv_admission *a, const srv_incoming *body, char *old, size_t used,
                               size_t room) {
    bool small = body->announced <= a->small;
    size_t most = a->bodies + (small ? a->spare / 2 : 0);
    size_t others = atomic_load_explicit(&a->held, memory_order_relaxed) - body->held;
    if (room > most || others > most - room)
        return NULL;
    srv_budget_leave(small ? 0 : a->spare);
    char *block = grow_block(old, used, room);
    srv_budget_leave(0);
    return block;
}

/* Returns the arriving body that holds memory and will take longest to complete, if it will take
 * longer than `body`. NULL: there is no such body. */
static srv_incoming *slowest_other(const srv_admission *a, srv_incoming *body, int64_t now_ns) {
    double longest = seconds_left(a, body, now_ns);
    srv_incoming *last = NULL;
    for (srv_incoming *other = a->first; other; other = other->next) {
        if (other == body || !other->held)
            continue;
        double left = seconds_left(a, other, now_ns);
        if (left > longest) {
            longest = left;
            last = other;
        }
    }
    return last;
}

char *srv_admission_take(srv_admission *a, srv_incoming *body, char *old, size_t used, size_t room,
                         int64_t now_ns) {
    char *block;
    srv_incoming *last;
    while (!(block = grow_within_share(a, body, old, used, room))) {
        last = slowest_other(a, body, now_ns);
        if (!last)
            return NULL;
        srv_admission_close(a, last);
        last->give_way(last);
    }
    atomic_fetch_add_explicit(&a->held, room - body->held, memory_order_relaxed);
    body->held = room;
    return block;
}

/* --- kept bodies --- */

static size_t kept_bytes_of(size_t size) {
    return size + 2 * ATTN_ALIGN;
}

bool srv_admission_may_keep(const srv_admission *a, size_t size) {
    return size < a->bodies / 2 && kept_bytes_of(size) <= a->bodies / 2;
}

bool srv_admission_keep(srv_admission *a, const char *body, size_t size, srv_kept_body *out) {
    const size_t bytes = kept_bytes_of(size), shift = (uintptr_t)body % ATTN_ALIGN;
    const size_t others = atomic_fetch_add(&a->kept, bytes);
    char *block = others + bytes <= a->bodies / 2 ? attn_alloc(bytes) : NULL;
    *out = (srv_kept_body){0};
    if (!block) {
        atomic_fetch_sub(&a->kept, bytes);
        return false;
    }
    *out = (srv_kept_body){block, block + shift, size};
    memcpy(block + shift, body, size);
    block[shift + size] = 0;
    atomic_fetch_add(&a->held, bytes);
    return true;
}

void srv_admission_forget(srv_admission *a, srv_kept_body *kept) {
    if (!kept->block)
        return;
    attn_free(kept->block);
    atomic_fetch_sub(&a->held, kept_bytes_of(kept->size));
    atomic_fetch_sub(&a->kept, kept_bytes_of(kept->size));
    *kept = (srv_kept_body){0};
}

/* --- work --- */

/* Returns the processor time of one operation, in ns, on a route that has not been measured. */
static double unmeasured_ns(const srv_request *req) {
    return req->unit_ns > 0 ? req->unit_ns : KERNEL_NS;
}

static double ns_of_operation(const srv_admission *a, const srv_request *req) {
    const double ns = a ? atomic_load(&a->cost_ns[req->route % ROUTES]) : 0;
    return ns > 0 ? ns : unmeasured_ns(req);
}

void srv_admission_learn(srv_admission *a, const srv_request *req, int64_t busy_ns) {
    const int64_t worked = busy_ns - req->admitted_ns - req->encode_ns;
    if (req->operations * unmeasured_ns(req) < SHOWING_NS || worked <= 0)
        return;
    const double was = ns_of_operation(a, req), now = (double)worked / req->operations;
    if (req->reply.status < 400 || now > was) /* a request that failed may have stopped early */
        atomic_store(&a->cost_ns[req->route % ROUTES], was + NEWEST * (now - was));
}

double srv_admission_seconds(const srv_request *req, double operations, double threads) {
    return 1e-9 * ns_of_operation(req->app->admission, req) * operations / threads;
}

bool srv_admission_is_brief(const srv_request *req, double operations, double text) {
    return ns_of_operation(req->app->admission, req) * operations + TEXT_NS * text <= BRIEF_NS;
}

/* Returns whether the request may continue now. Work that is predicted to be short always may. Long
 * work may if fewer than long_threads long tasks are running; otherwise req->later is set. */
static bool may_run_now(srv_request *req, double operations) {
    const srv_app *app = req->app;
    if (!app->admission || operations <= 0)
        return true;
    req->operations = operations;
    req->admitted_ns = srv_queue_busy_ns();
    const double threads = (double)app->config->workers;
    if (1e3 * srv_admission_seconds(req, operations, threads) <= (double)app->config->long_ms)
        return true;
    req->later = !srv_queue_go_long();
    return !req->later;
}

bool srv_admission_fits(srv_request *req, double bytes) {
    double most = (double)srv_budget_total();
    if (req->app->admission)
        most -= (double)srv_admission_spare(req->app->admission) + (double)req->body_size;
    if (bytes > most)
        return srv_problem_limit(
            req, SRV_TOO_LARGE, NULL, (double)srv_budget_total(), "memory_bytes",
            "scratch, results and the answer need %.0f bytes beside the body, and "
            "there are %.0f for all requests together",
            bytes, most > 0 ? most : 0);
    double limit = (double)attn_arena_limit(req->arena);
    double need = (double)attn_arena_used(req->arena) + bytes;
    if (need > limit)
        return srv_problem_limit(req, SRV_TOO_LARGE, NULL, limit, "max_request_bytes",
                                 "inputs, scratch, results and the answer need up to %.0f bytes; a "
                                 "request may use %.0f: ask for less",
                                 need, limit);
    return true;
}

bool srv_admission_work(srv_request *req, double operations, double bytes) {
    if (req->in_place || !req->app)
        return true;
    if (!may_run_now(req, operations))
        return false;
    if (bytes <= 0)
        return true;
    if (!srv_admission_fits(req, bytes))
        return false;
    if (attn_arena_reserve(req->arena, (size_t)bytes + ARENA_ROOM)) {
        if (req->app->meters)
            srv_meters_observe(req->app->meters, SRV_RESERVED_BYTES, bytes);
        return true;
    }
    return srv_problem_limit(
        req, SRV_MEMORY_BUDGET, NULL, (double)srv_budget_total(), "memory_bytes",
        "scratch, results and the answer need %.0f bytes, and %zu are free now; try "
        "again a little later",
        bytes, srv_budget_free());
}

unsigned srv_admission_retry(int64_t wait_ns, uint64_t bits) {
    int64_t seconds = wait_ns > 0 ? (wait_ns - 1) / 1000000000 + 1 : 1;
    seconds += (int64_t)(bits % (uint64_t)(seconds / 2 + 2));
    return seconds < LONGEST_S ? (unsigned)seconds : LONGEST_S;
}

const char *srv_admission_retry_text(const srv_request *req) {
    char text[16];
    int64_t wait = req->app && req->app->queue ? srv_queue_wait_ns(req->app->queue) : 0;
    uint64_t bits = attn_rng_bits((uint64_t)attn_now_ns(), (uint64_t)(uintptr_t)req);
    int size = snprintf(text, sizeof text, "%u", srv_admission_retry(wait, bits));
    const char *kept = req->arena ? attn_arena_text(req->arena, text, (size_t)size) : NULL;
    return kept ? kept : "1";
}
