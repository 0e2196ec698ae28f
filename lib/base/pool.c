/* The worker pool. Threads get slots first come, first served; runs are in a ring; threads claim
 * pieces one by one. Each class of work has a queue of waiters. While work of higher priority
 * waits, a class gets 1/ATTN_POOL_SHARE of the time: for each unit that it uses, higher classes may
 * use ATTN_POOL_SHARE - 1 units before its next turn. A piece runs until it ends or yields, so new
 * work of high priority may wait for a piece.
 *
 *     thread that needs a processor --> queue of waiters --> slot --> one piece --> queue again
 *
 * One mutex protects everything and is locked once for each piece (about 1 ms of work). At most
 * `slots` pieces run at a time. Only the caller and the slots - 1 helpers compute the pieces of a
 * run, so it needs at most `slots` lanes, even if pieces yield. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "attn/memory.h"
#include "attn/pool.h"

enum {
    MOST_SLOTS = 1024,
    LANE_WORDS = MOST_SLOTS / 64,
    TURN_NS = 1000000 /* length of a turn; a change of slots costs time, so it is not shorter */
};

enum { PROMPT, CROWDED, PATIENT, CLASSES }; /* classes of work by falling priority */
/* Upper limit of due_ns for each slot. It covers several pieces of the longest patient work. */
#define DUE_NS 100000000

typedef struct waiter {
    struct waiter *next;
    pthread_cond_t granted_cond;
    bool granted, helps; /* helps: the thread is a helper, which takes pieces of any run */
} waiter;

/* Priority of work: patient from since_ns on (0: never), before that crowded or prompt. */
typedef struct pace {
    int64_t since_ns;
    bool crowded;
} pace;

typedef struct line {
    waiter *first, *last;
} line;

typedef struct run {
    struct run *next, *prev; /* the ring of runs with pieces left to claim */
    attn_piece piece;
    void *ctx;
    const attn_control *control;
    size_t pieces, claimed, running;
    pace pace;
    int64_t helped_ns;
    uint64_t busy[LANE_WORDS]; /* lanes in use */
    pthread_cond_t done;
    attn_status status;
    size_t failed_at;
    attn_error error;
} run;

struct attn_pool {
    pthread_mutex_t lock;
    pthread_cond_t work; /* helpers wait here for pieces */
    size_t slots, free_slots, idle_helpers, helpers;
    line lines[CLASSES];
    int64_t due_ns[CLASSES]; /* time that higher classes may use before this class has its turn */
    run *ring;               /* next run to serve */
    bool stopping;
    pthread_t threads[];
};

/* A thread's slot of one pool. */
typedef struct hold {
    const attn_pool *pool; /* NULL: unused entry */
    size_t depth;          /* open calls of enter(): attn_pool_run inside uses the slot */
    int64_t slot_ns;       /* start of the time that is not yet accounted */
    int64_t used_ns;       /* total time of slots */
    int64_t turn_ns; /* time when it got the slot, or, if no thread waited then, when it first saw
                      * waiting threads; 0: it has seen none */
} hold;

/* If a thread holds slots of this many pools, it runs work for other pools without helpers. */
enum { MOST_HOLDS = 8 };
static _Thread_local hold holds[MOST_HOLDS];
static _Thread_local pace own_pace;
static _Thread_local int64_t own_helped_ns;
static _Thread_local pace piece_pace; /* priority of the run whose piece it computes */

/* Returns the current thread's hold of a pool, or for NULL an unused entry. NULL: there is none. */
static hold *hold_of(const attn_pool *pool) {
    for (size_t i = 0; i < MOST_HOLDS; i++)
        if (holds[i].pool == pool)
            return &holds[i];
    return NULL;
}

int64_t attn_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

attn_status attn_control_check(const attn_control *control, attn_error *err) {
    if (!control)
        return ATTN_OK;
    if (control->cancel && atomic_load_explicit(control->cancel, memory_order_relaxed))
        return attn_fail(err, ATTN_ECANCELED, "", "the work was cancelled");
    if (control->deadline_ns && attn_now_ns() > control->deadline_ns)
        return attn_fail(err, ATTN_EDEADLINE, "", "the deadline passed before the work was done");
    return ATTN_OK;
}

static int class_of(pace p) {
    return p.since_ns && attn_now_ns() >= p.since_ns ? PATIENT : p.crowded ? CROWDED : PROMPT;
}

/* --- slots; the lock is held --- */

static bool somebody_waits(const attn_pool *pool) {
    bool any = false;
    for (int c = 0; c < CLASSES; c++)
        any |= pool->lines[c].first != NULL;
    return any;
}

static void line_append(line *l, waiter *w) {
    w->next = NULL;
    *(l->last ? &l->last->next : &l->first) = w;
    l->last = w;
}

static void slot_take(attn_pool *pool, pace p, bool helps) {
    hold *h = hold_of(pool);
    if (pool->free_slots && !somebody_waits(pool)) {
        pool->free_slots--;
        h->turn_ns = 0;
        h->slot_ns = attn_now_ns();
        return;
    }
    waiter self = {.helps = helps};
    pthread_cond_init(&self.granted_cond, NULL);
    line_append(&pool->lines[class_of(p)], &self);
    while (!self.granted)
        pthread_cond_wait(&self.granted_cond, &pool->lock);
    pthread_cond_destroy(&self.granted_cond);
    h->turn_ns = h->slot_ns = attn_now_ns();
}

/* Accounts the time of the calling thread's slot to a class. */
static void account(attn_pool *pool, int class) {
    hold *h = hold_of(pool);
    const int64_t now = attn_now_ns(), used = now - h->slot_ns;
    const int64_t most = (int64_t)pool->slots * DUE_NS;
    h->slot_ns = now;
    h->used_ns += used;
    for (int c = class; c < CLASSES; c++) {
        const int64_t due = pool->due_ns[c] + (c == class ? used * (ATTN_POOL_SHARE - 1) : -used);
        pool->due_ns[c] = due < 0 ? 0 : due < most ? due : most;
    }
}

/* Returns the waiting class that has the next turn. */
static int class_of_turn(const attn_pool *pool, void *const waiting[CLASSES]) {
    int next = PROMPT;
    for (int c = 0; c < CLASSES; c++)
        if (waiting[c] && (!waiting[next] || pool->due_ns[c] == 0))
            next = c;
    return next;
}

/* Moves helpers that wait in queues of lower priority to the queue of this class. */
static void wake_helpers_up(attn_pool *pool, int class) {
    for (int c = class + 1; c < CLASSES; c++) {
        waiter *w = pool->lines[c].first, *next;
        pool->lines[c] = (line){NULL, NULL};
        for (; w; w = next) {
            next = w->next;
            line_append(&pool->lines[w->helps ? class : c], w);
        }
    }
}

static void slot_give(attn_pool *pool) {
    void *waiting[CLASSES];
    account(pool, class_of(own_pace));
    for (int c = 0; c < CLASSES; c++)
        waiting[c] = pool->lines[c].first;
    line *l = &pool->lines[class_of_turn(pool, waiting)];
    waiter *w = l->first;
    if (w) {
        l->first = w->next;
        if (!l->first)
            l->last = NULL;
        w->granted = true;
        pthread_cond_signal(&w->granted_cond);
        return;
    }
    pool->free_slots++;
    if (pool->ring && pool->idle_helpers)
        pthread_cond_signal(&pool->work);
}

/* Returns whether only lower classes wait for the thread's slot and their turn has not come. */
static bool slot_is_due(const attn_pool *pool) {
    const int class = class_of(own_pace);
    bool due = class < PATIENT;
    for (int c = 0; c < CLASSES; c++)
        due &= !pool->lines[c].first || (c > class && pool->due_ns[c] > 0);
    return due;
}

/* Returns whether work of higher priority waits and may run before work of priority p. */
static bool gives_way(const attn_pool *pool, pace p) {
    const int class = class_of(p);
    bool waits = false;
    for (int c = 0; c < class; c++)
        waits |= pool->lines[c].first != NULL;
    return waits && pool->due_ns[class] > 0;
}

/* Returns whether the thread should give its slot to a waiting thread: at the end of its turn, or
 * at once for work of higher priority. */
static bool turn_is_over(const attn_pool *pool) {
    if (!somebody_waits(pool) || slot_is_due(pool))
        return false;
    if (gives_way(pool, own_pace))
        return true;
    hold *h = hold_of(pool);
    const int64_t now = attn_now_ns();
    if (!h->turn_ns)
        h->turn_ns = now;
    return now - h->turn_ns >= TURN_NS;
}

/* --- the ring; the lock is held --- */

static void ring_add(attn_pool *pool, run *r) {
    if (!pool->ring) {
        r->next = r->prev = r;
        pool->ring = r;
        return;
    }
    r->next = pool->ring;
    r->prev = pool->ring->prev;
    r->prev->next = r;
    r->next->prev = r;
}

static void ring_remove(attn_pool *pool, run *r) {
    if (r->next == r) {
        pool->ring = NULL;
    } else {
        r->prev->next = r->next;
        r->next->prev = r->prev;
        if (pool->ring == r)
            pool->ring = r->next;
    }
    r->next = r->prev = NULL;
}

/* Returns the run whose piece a helper takes next. */
static run *ring_pick(attn_pool *pool) {
    void *first[CLASSES] = {NULL};
    run *r = pool->ring;
    do {
        const int class = class_of(r->pace);
        first[class] = first[class] ? first[class] : r;
        r = r->next;
    } while (r != pool->ring);
    return first[class_of_turn(pool, first)];
}

static size_t lane_take(run *r) {
    for (size_t w = 0;; w++)
        if (~r->busy[w]) {
            size_t bit = (size_t)__builtin_ctzll(~r->busy[w]);
            r->busy[w] |= UINT64_C(1) << bit;
            return w * 64 + bit;
        }
}

static void run_stop(attn_pool *pool, run *r) {
    if (r->claimed < r->pieces) {
        r->claimed = r->pieces;
        ring_remove(pool, r);
    }
}

static void run_fail(attn_pool *pool, run *r, size_t index, attn_status status,
                     const attn_error *error) {
    if (r->status == ATTN_OK || index < r->failed_at) {
        r->status = status;
        r->failed_at = index;
        r->error = *error;
    }
    run_stop(pool, r);
}

/* Claims and runs one piece of r, which has pieces left. It releases the lock while the piece runs.
 * `helps` tells that another thread started the run. */
static void run_one(attn_pool *pool, run *r, bool helps) {
    attn_error error = {ATTN_OK, "", ""};
    attn_status status = attn_control_check(r->control, &error);
    if (status != ATTN_OK) {
        run_fail(pool, r, r->pieces, status, &error);
        return;
    }
    size_t index = r->claimed++, lane = lane_take(r);
    if (r->claimed == r->pieces)
        ring_remove(pool, r);
    r->running++;
    pthread_mutex_unlock(&pool->lock);
    const hold *h = hold_of(pool);
    const int64_t before = h->used_ns;
    const pace outer = piece_pace;
    piece_pace = r->pace;
    status = r->piece(r->ctx, index, lane, &error);
    piece_pace = outer;
    pthread_mutex_lock(&pool->lock);
    account(pool, class_of(r->pace));
    r->helped_ns += helps ? h->used_ns - before : 0;
    r->running--;
    r->busy[lane / 64] &= ~(UINT64_C(1) << lane % 64);
    if (status != ATTN_OK)
        run_fail(pool, r, index, status, &error);
    if (!r->running && r->claimed == r->pieces)
        pthread_cond_signal(&r->done);
}

/* Returns the priority of the most urgent run. */
static pace ring_pace(const attn_pool *pool) {
    const run *r = pool->ring, *most = r;
    do {
        most = class_of(r->pace) < class_of(most->pace) ? r : most;
        r = r->next;
    } while (r != pool->ring);
    return most->pace;
}

static void *helper(void *arg) {
    attn_pool *pool = arg;
    holds[0] = (hold){.pool = pool, .depth = 1}; /* helpers run pieces only with a slot */
    pthread_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        if (!pool->ring) {
            pool->idle_helpers++;
            pthread_cond_wait(&pool->work, &pool->lock);
            pool->idle_helpers--;
            continue;
        }
        slot_take(pool, ring_pace(pool), true);
        run *r = pool->ring ? ring_pick(pool) : NULL;
        if (r) {
            pool->ring = r->next; /* the next helper serves the next run */
            run_one(pool, r, true);
        }
        slot_give(pool);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Starts the helpers. Their stack has ATTN_POOL_STACK bytes, whatever the default of the process.
 */
static bool start_helpers(attn_pool *pool) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes))
        return false;
    bool ok = !pthread_attr_setstacksize(&attributes, ATTN_POOL_STACK);
    while (ok && pool->helpers < pool->slots - 1) {
        ok = !pthread_create(&pool->threads[pool->helpers], &attributes, helper, pool);
        pool->helpers += ok;
    }
    pthread_attr_destroy(&attributes);
    return ok;
}

/* --- the public side --- */

attn_pool *attn_pool_new(size_t slots) {
    if (slots < 1 || slots > MOST_SLOTS)
        return NULL;
    attn_pool *pool = attn_alloc(sizeof *pool + slots * sizeof pool->threads[0]);
    if (!pool)
        return NULL;
    *pool = (attn_pool){.slots = slots, .free_slots = slots};
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    if (!start_helpers(pool)) {
        attn_pool_free(pool);
        return NULL;
    }
    return pool;
}

void attn_pool_free(attn_pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->helpers; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    attn_free(pool);
}

size_t attn_pool_slots(const attn_pool *pool) {
    return pool ? pool->slots : 1;
}

void attn_pool_be_patient(int64_t since_ns) {
    own_pace.since_ns = since_ns;
}

void attn_pool_be_crowded(bool crowded) {
    own_pace.crowded = crowded;
}

int64_t attn_pool_helped_ns(void) {
    return own_helped_ns;
}

void attn_pool_yield(attn_pool *pool) {
    if (!pool || !hold_of(pool))
        return;
    pthread_mutex_lock(&pool->lock);
    account(pool, class_of(piece_pace));
    if (gives_way(pool, piece_pace)) {
        slot_give(pool);
        slot_take(pool, piece_pace, false);
    }
    pthread_mutex_unlock(&pool->lock);
}

void attn_pool_enter(attn_pool *pool) {
    hold *h = pool ? hold_of(pool) : NULL;
    if (h)
        h->depth++;
    if (!pool || h || !(h = hold_of(NULL)))
        return;
    *h = (hold){.pool = pool, .depth = 1};
    pthread_mutex_lock(&pool->lock);
    slot_take(pool, own_pace, false);
    pthread_mutex_unlock(&pool->lock);
}

void attn_pool_leave(attn_pool *pool) {
    hold *h = pool ? hold_of(pool) : NULL;
    if (!h || --h->depth)
        return;
    pthread_mutex_lock(&pool->lock);
    slot_give(pool);
    pthread_mutex_unlock(&pool->lock);
    h->pool = NULL;
}

static attn_status run_alone(size_t pieces, attn_piece piece, void *ctx,
                             const attn_control *control, attn_error *err) {
    for (size_t i = 0; i < pieces; i++) {
        attn_status status = attn_control_check(control, err);
        if (status == ATTN_OK)
            status = piece(ctx, i, 0, err);
        if (status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}

attn_status attn_pool_run(attn_pool *pool, size_t pieces, attn_piece piece, void *ctx,
                          const attn_control *control, attn_error *err) {
    attn_pool *slot = pieces ? pool : NULL;
    attn_pool_enter(slot);
    /* a single piece needs no helpers, but a slot */
    if (pieces <= 1 || !slot || !hold_of(slot)) {
        attn_status status = run_alone(pieces, piece, ctx, control, err);
        attn_pool_leave(slot);
        return status;
    }
    run r = {.piece = piece, .ctx = ctx, .control = control, .pieces = pieces, .pace = own_pace};
    pthread_cond_init(&r.done, NULL);
    pthread_mutex_lock(&pool->lock);
    ring_add(pool, &r);
    wake_helpers_up(pool, class_of(r.pace));
    size_t wake = pieces - 1 < pool->free_slots ? pieces - 1 : pool->free_slots;
    for (size_t i = 0; i < wake; i++)
        pthread_cond_signal(&pool->work);
    while (r.claimed < r.pieces) {
        run_one(pool, &r, false);
        if (r.claimed < r.pieces && turn_is_over(pool)) {
            slot_give(pool);
            slot_take(pool, own_pace, false);
        }
    }
    const bool keeps = slot_is_due(pool);
    if (r.running) {
        if (!keeps)
            slot_give(pool);
        while (r.running)
            pthread_cond_wait(&r.done, &pool->lock);
        if (!keeps)
            slot_take(pool, own_pace, false);
    }
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_destroy(&r.done);
    attn_pool_leave(pool);
    own_helped_ns += r.helped_ns;
    if (r.status != ATTN_OK && err)
        *err = r.error;
    return r.status;
}
