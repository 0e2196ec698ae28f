/* The worker pool.
 *
 *   slot      the right to use a processor; a thread computes only while it has one
 *   run       one call of attn_pool_run, which calls a function for pieces 0, 1, 2, …
 *   piece     one call of this function, about 1 ms of work
 *   lane      a number of a running piece, below the number of slots; no two running pieces of a
 *             run have the same lane
 *   helper    a thread of the pool, which computes pieces of any run
 *   class     the priority of work: PROMPT, CROWDED or PATIENT
 *   waiter    a thread that waits for a slot
 *
 *     thread that needs a processor --> queue of its class --> slot --> one piece --> queue again
 *
 * The waiters of a class form a queue and get slots in the order of this queue. The runs with
 * unclaimed pieces form a ring, from which threads claim pieces one by one. While work of a higher
 * class waits, a class gets 1/ATTN_POOL_SHARE of the time: for each nanosecond that this class
 * uses, higher classes may use ATTN_POOL_SHARE - 1 nanoseconds before this class is served again. A
 * piece runs until it ends or calls attn_pool_yield, so new work of a high class may have to wait
 * for a piece.
 *
 * One mutex protects everything and is locked once for each piece. At most `slots` pieces run at a
 * time. A piece that yields keeps its lane, but only the caller and the slots - 1 helpers compute
 * the pieces of a run, so `slots` lanes suffice. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "attn/memory.h"
#include "attn/pool.h"
#include "base/try.h"

enum {
    MOST_SLOTS = 1024,
    LANE_WORDS = MOST_SLOTS / 64,
    /* Least time that a thread keeps its slot while other threads wait for a slot, unless it must
     * give way to a higher class (gives_way). Passing a slot on costs time. */
    TURN_NS = 1000000
};

/* classes of work, from the highest priority to the lowest */
enum { PROMPT, CROWDED, PATIENT, CLASSES };
/* Upper limit of attn_pool.due_ns for each slot of the pool: 100 ms, several times the length of
 * the longest pieces. */
#define DUE_NS 100000000

int64_t attn_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

typedef struct waiter {
    struct waiter *next;
    pthread_cond_t granted_cond;
    bool granted; /* the thread has got its slot */
    bool helps;   /* the thread is a helper */
} waiter;

/* The class of work can change with time: the class is PATIENT from since_ns on (0: never). Before
 * since_ns it is CROWDED if `crowded` is true, else PROMPT. */
typedef struct priority {
    int64_t since_ns;
    bool crowded;
} priority;

typedef struct queue {
    waiter *first, *last;
} queue;

typedef struct run {
    struct run *next, *prev; /* neighbours in the ring of runs with unclaimed pieces */
    attn_piece piece;        /* the function that computes a piece */
    void *ctx;               /* first argument of `piece` */
    const attn_control *control;
    size_t pieces;  /* total number of pieces */
    size_t claimed; /* pieces that a thread has begun */
    size_t running; /* pieces that a thread computes now */
    priority priority;
    int64_t helped_ns;         /* time that helpers have worked for this run */
    uint64_t busy[LANE_WORDS]; /* bit set of the lanes in use */
    pthread_cond_t done;       /* signalled when all claimed pieces have ended */
    attn_status status;
    size_t failed_at; /* lowest number of a failed piece; its error is in `error` */
    attn_error error;
} run;

struct attn_pool {
    pthread_mutex_t lock;
    pthread_cond_t work; /* helpers wait here for pieces */
    size_t slots, free_slots, idle_helpers, helpers;
    queue queues[CLASSES];
    /* due_ns[c]: time that higher classes may still use before class c is served. */
    int64_t due_ns[CLASSES];
    run *ring;     /* the run at which ring_pick begins; NULL: no run has unclaimed pieces */
    bool stopping; /* helpers must end */
    pthread_t threads[];
};

/* A slot of one pool that the current thread has. */
typedef struct hold {
    const attn_pool *pool; /* NULL: unused entry */
    size_t depth;          /* calls of attn_pool_enter not yet left; all share this slot */
    int64_t slot_ns; /* up to this time the use of the slot is counted in used_ns and due_ns */
    int64_t used_ns; /* time that the thread has had the slot, waits excluded */
    /* The turn of the thread ends TURN_NS after this time. It is the time when the thread got the
     * slot, if it had to wait for it. Otherwise it is the time when the thread first saw a waiter;
     * 0: it has seen none yet. */
    int64_t turn_ns;
} hold;

/* A thread can have slots of this many pools. For further pools it runs its pieces alone. */
enum { MOST_HOLDS = 8 };
static _Thread_local hold holds[MOST_HOLDS];
static _Thread_local priority own_priority;   /* priority of the runs that this thread starts */
static _Thread_local int64_t own_helped_ns;   /* the number that attn_pool_helped_ns returns */
static _Thread_local priority piece_priority; /* priority of the run of the current piece */

/* Returns the hold of the current thread on `pool`, or NULL if it has no slot of this pool. With
 * pool = NULL it returns an unused entry, or NULL if all entries are used. */
static hold *hold_of(const attn_pool *pool) {
    for (size_t i = 0; i < MOST_HOLDS; i++)
        if (holds[i].pool == pool)
            return &holds[i];
    return NULL;
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

void attn_control_tell(const attn_control *control, size_t done, size_t all) {
    const attn_progress *p = control ? control->progress : NULL;
    if (p && all)
        p->tell(p->ctx, p->from + (p->to - p->from) * (double)done / (double)all);
}

static int class_of(priority p) {
    return p.since_ns && attn_now_ns() >= p.since_ns ? PATIENT : p.crowded ? CROWDED : PROMPT;
}

/* --- slots; the caller of these functions holds the lock --- */

static bool somebody_waits(const attn_pool *pool) {
    bool any = false;
    for (int c = 0; c < CLASSES; c++)
        any |= pool->queues[c].first != NULL;
    return any;
}

static void queue_append(queue *l, waiter *w) {
    w->next = NULL;
    *(l->last ? &l->last->next : &l->first) = w;
    l->last = w;
}

/* Waits until the thread has a slot. `helps` is true if the thread is a helper. */
static void slot_take(attn_pool *pool, priority p, bool helps) {
    hold *h = hold_of(pool);
    if (pool->free_slots && !somebody_waits(pool)) {
        pool->free_slots--;
        h->turn_ns = 0;
        h->slot_ns = attn_now_ns();
        return;
    }
    waiter self = {.helps = helps};
    pthread_cond_init(&self.granted_cond, NULL);
    queue_append(&pool->queues[class_of(p)], &self);
    while (!self.granted)
        pthread_cond_wait(&self.granted_cond, &pool->lock);
    pthread_cond_destroy(&self.granted_cond);
    h->turn_ns = h->slot_ns = attn_now_ns();
}

/* Counts the time for which the calling thread has used its slot since the last call as time of
 * `class`. due_ns of `class` rises by ATTN_POOL_SHARE - 1 times this time, and due_ns of each lower
 * class falls by this time. */
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

/* Returns the class that is served next, among the classes with waiting[c] != NULL. If the share of
 * time of some classes is due (due_ns is 0), it is the one with the lowest priority. If no share is
 * due, it is the class with the highest priority. */
static int class_of_turn(const attn_pool *pool, void *const waiting[CLASSES]) {
    int next = PROMPT;
    for (int c = 0; c < CLASSES; c++)
        if (waiting[c] && (!waiting[next] || pool->due_ns[c] == 0))
            next = c;
    return next;
}

/* Moves the helpers that wait in queues of lower classes to the queue of `class`. */
static void wake_helpers_up(attn_pool *pool, int class) {
    for (int c = class + 1; c < CLASSES; c++) {
        waiter *w = pool->queues[c].first, *next;
        pool->queues[c] = (queue){NULL, NULL};
        for (; w; w = next) {
            next = w->next;
            queue_append(&pool->queues[w->helps ? class : c], w);
        }
    }
}

/* Passes the slot of the thread to the next waiter, or makes it a free slot. */
static void slot_give(attn_pool *pool) {
    void *waiting[CLASSES];
    account(pool, class_of(own_priority));
    for (int c = 0; c < CLASSES; c++)
        waiting[c] = pool->queues[c].first;
    queue *l = &pool->queues[class_of_turn(pool, waiting)];
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

/* Returns whether the thread may keep its slot: its class is not PATIENT, and every waiter is of a
 * lower class whose share of the time is not due yet. */
static bool may_keep_slot(const attn_pool *pool) {
    const int class = class_of(own_priority);
    bool due = class < PATIENT;
    for (int c = 0; c < CLASSES; c++)
        due &= !pool->queues[c].first || (c > class && pool->due_ns[c] > 0);
    return due;
}

/* Returns whether work of a higher class than that of p waits and may run before p. */
static bool gives_way(const attn_pool *pool, priority p) {
    const int class = class_of(p);
    bool waits = false;
    for (int c = 0; c < class; c++)
        waits |= pool->queues[c].first != NULL;
    return waits && pool->due_ns[class] > 0;
}

/* Returns whether the thread must give its slot to a waiter: at once to a waiter of a higher class,
 * else after TURN_NS. */
static bool turn_is_over(const attn_pool *pool) {
    if (!somebody_waits(pool) || may_keep_slot(pool))
        return false;
    if (gives_way(pool, own_priority))
        return true;
    hold *h = hold_of(pool);
    const int64_t now = attn_now_ns();
    if (!h->turn_ns)
        h->turn_ns = now;
    return now - h->turn_ns >= TURN_NS;
}

/* --- the ring of runs; the caller of these functions holds the lock --- */

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

/* Returns the run from which a helper claims the next piece: the first run in the ring whose class
 * is served next. */
static run *ring_pick(attn_pool *pool) {
    void *first[CLASSES] = {NULL};
    run *r = pool->ring;
    do {
        const int class = class_of(r->priority);
        first[class] = first[class] ? first[class] : r;
        r = r->next;
    } while (r != pool->ring);
    return first[class_of_turn(pool, first)];
}

/* Returns the lowest free lane of a run and marks it as used. */
static size_t lane_take(run *r) {
    for (size_t w = 0;; w++)
        if (~r->busy[w]) {
            size_t bit = (size_t)__builtin_ctzll(~r->busy[w]);
            r->busy[w] |= UINT64_C(1) << bit;
            return w * 64 + bit;
        }
}

/* Makes sure that no further piece of the run is claimed. */
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

/* Claims and computes one piece of r. At least one piece of r must be unclaimed. The lock is
 * released while the piece is computed. `helps` is true if the calling thread is a helper, which
 * did not start r. */
static void run_one(attn_pool *pool, run *r, bool helps) {
    attn_error error = {.code = ATTN_OK};
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
    const priority outer = piece_priority;
    piece_priority = r->priority;
    status = r->piece(r->ctx, index, lane, &error);
    piece_priority = outer;
    pthread_mutex_lock(&pool->lock);
    account(pool, class_of(r->priority));
    r->helped_ns += helps ? h->used_ns - before : 0;
    r->running--;
    r->busy[lane / 64] &= ~(UINT64_C(1) << lane % 64);
    if (status != ATTN_OK)
        run_fail(pool, r, index, status, &error);
    if (!r->running && r->claimed == r->pieces)
        pthread_cond_signal(&r->done);
}

/* Returns the priority of the run with the highest class in the ring. */
static priority ring_priority(const attn_pool *pool) {
    const run *r = pool->ring, *most = r;
    do {
        most = class_of(r->priority) < class_of(most->priority) ? r : most;
        r = r->next;
    } while (r != pool->ring);
    return most->priority;
}

static void *helper(void *arg) {
    attn_pool *pool = arg;
    /* A helper has its slot whenever it computes a piece, so the piece may call attn_pool_run. */
    holds[0] = (hold){.pool = pool, .depth = 1};
    pthread_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        if (!pool->ring) {
            pool->idle_helpers++;
            pthread_cond_wait(&pool->work, &pool->lock);
            pool->idle_helpers--;
            continue;
        }
        slot_take(pool, ring_priority(pool), true);
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

/* Starts the slots - 1 helpers, each with a stack of ATTN_POOL_STACK bytes. */
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

/* --- public functions --- */

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
    own_priority.since_ns = since_ns;
}

void attn_pool_be_crowded(bool crowded) {
    own_priority.crowded = crowded;
}

int64_t attn_pool_helped_ns(void) {
    return own_helped_ns;
}

void attn_pool_yield(attn_pool *pool) {
    if (!pool || !hold_of(pool))
        return;
    pthread_mutex_lock(&pool->lock);
    account(pool, class_of(piece_priority));
    if (gives_way(pool, piece_priority)) {
        slot_give(pool);
        slot_take(pool, piece_priority, false);
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
    slot_take(pool, own_priority, false);
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

/* Computes all pieces in the calling thread. */
static attn_status run_alone(size_t pieces, attn_piece piece, void *ctx,
                             const attn_control *control, attn_error *err) {
    for (size_t i = 0; i < pieces; i++) {
        ATTN_TRY(attn_control_check(control, err));
        ATTN_TRY(piece(ctx, i, 0, err));
    }
    return ATTN_OK;
}

attn_status attn_pool_run(attn_pool *pool, size_t pieces, attn_piece piece, void *ctx,
                          const attn_control *control, attn_error *err) {
    attn_pool *slot = pieces ? pool : NULL;
    attn_pool_enter(slot);
    /* A single piece needs a slot, but no helpers. */
    if (pieces <= 1 || !slot || !hold_of(slot)) {
        attn_status status = run_alone(pieces, piece, ctx, control, err);
        attn_pool_leave(slot);
        return status;
    }
    run r = {
        .piece = piece, .ctx = ctx, .control = control, .pieces = pieces, .priority = own_priority};
    pthread_cond_init(&r.done, NULL);
    pthread_mutex_lock(&pool->lock);
    ring_add(pool, &r);
    wake_helpers_up(pool, class_of(r.priority));
    size_t wake = pieces - 1 < pool->free_slots ? pieces - 1 : pool->free_slots;
    for (size_t i = 0; i < wake; i++)
        pthread_cond_signal(&pool->work);
    while (r.claimed < r.pieces) {
        run_one(pool, &r, false);
        if (r.claimed < r.pieces && turn_is_over(pool)) {
            slot_give(pool);
            slot_take(pool, own_priority, false);
        }
    }
    const bool keeps_slot = may_keep_slot(pool);
    if (r.running) {
        if (!keeps_slot)
            slot_give(pool);
        while (r.running)
            pthread_cond_wait(&r.done, &pool->lock);
        if (!keeps_slot)
            slot_take(pool, own_priority, false);
    }
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_destroy(&r.done);
    attn_pool_leave(pool);
    own_helped_ns += r.helped_ns;
    if (r.status != ATTN_OK && err)
        *err = r.error;
    return r.status;
}
