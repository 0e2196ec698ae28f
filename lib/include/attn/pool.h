/* The worker pool: threads that share the processor between callers.
 *
 * A caller splits its work into pieces of about a millisecond and hands them to attn_pool_run. A
 * thread needs a slot to compute; the pool has a fixed number of slots. The calling thread computes
 * pieces of its own work too, so a busy pool cannot deadlock. Threads of equal priority get slots
 * in the order in which they ask. They give a slot back between pieces, after a millisecond at the
 * earliest, so a long computation cannot hold all slots.
 *
 * For equal results on any pool, the split of work into pieces must depend on its shape only, and
 * no result may depend on the thread that computes a piece. */
#ifndef ATTN_POOL_H
#define ATTN_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
#include <atomic>
typedef std::atomic<int> attn_flag; /* laid out as C's atomic_int */
extern "C" {
#else
#include <stdatomic.h>
typedef atomic_int attn_flag;
#endif
#pragma GCC visibility push(default)

typedef struct attn_pool attn_pool;

/* Receives how far a computation is. A caller whose work consists of several computations sets
 * `from` and `to` before each of them: 0 and 0.5 for the first half of the work. */
typedef struct attn_progress {
    /* `done`, between `from` and `to`, is the finished share of the work. Any thread of the pool
     * may call this function, between pieces, so the function must be quick. */
    void (*tell)(void *ctx, double done);
    void *ctx;
    double from, to;
} attn_progress;

/* What can stop a computation. It is checked between pieces. */
typedef struct attn_control {
    int64_t deadline_ns;     /* time limit on CLOCK_MONOTONIC, nanoseconds; 0: none */
    const attn_flag *cancel; /* the computation stops when this becomes non-zero; NULL: never */
    /* Receives the progress of attn_attention_run, attn_run_image_new, attn_measure_heads,
     * attn_head_distances_measure and attn_heatmap_build. NULL: progress is not reported. */
    attn_progress *progress;
} attn_control;

/* Returns ATTN_ECANCELED or ATTN_EDEADLINE if the computation has to stop, else ATTN_OK. `control`
 * may be NULL: never stop. */
attn_status attn_control_check(const attn_control *control, attn_error *err);
/* Tells control->progress that `done` of `all` parts are finished. `control` and its progress may
 * be NULL. */
void attn_control_tell(const attn_control *control, size_t done, size_t all);
int64_t attn_now_ns(void); /* CLOCK_MONOTONIC in nanoseconds */

/* Stack of a helper thread in bytes. Pieces of the library need less than a quarter of it. The
 * calling thread runs pieces too, so it must have that quarter as well. */
#define ATTN_POOL_STACK (2 << 20)
/* Makes a pool with `slots` >= 1 slots and starts slots - 1 helper threads; a thread that calls
 * attn_pool_run computes, too. NULL: out of memory or threads. */
attn_pool *attn_pool_new(size_t slots);
/* Stops the helper threads and frees the pool, in which no work may be in progress. `pool` may be
 * NULL. */
void attn_pool_free(attn_pool *pool);
size_t attn_pool_slots(const attn_pool *pool); /* number of slots; 1 if pool is NULL */

/* Runs piece(ctx, i, lane) for i = 0 … pieces - 1 and waits for all. `lane` is below
 * attn_pool_slots(pool), and no two pieces of a call have the same lane at the same time, so the
 * caller can give each lane its own scratch memory. If a piece returns an error, no further pieces
 * start. The call then returns the status and error of the failed piece with the lowest index. If
 * `control` stops the call, it returns ATTN_ECANCELED or ATTN_EDEADLINE. With a NULL pool the
 * calling thread runs all pieces. Any thread may call it, also one that holds a slot
 * (attn_pool_enter). */
typedef attn_status (*attn_piece)(void *ctx, size_t index, size_t lane, attn_error *err);
attn_status attn_pool_run(attn_pool *pool, size_t pieces, attn_piece piece, void *ctx,
                          const attn_control *control, attn_error *err);

/* Lowers the priority of the calling thread's work from the time since_ns on (attn_now_ns; 0:
 * never), in all pools, until the next call. Such patient work is the work of long requests. While
 * other work waits, patient work gets 1 / ATTN_POOL_SHARE of the time of the slots, in whole
 * pieces. */
#define ATTN_POOL_SHARE 4
void attn_pool_be_patient(int64_t since_ns);
/* Says, until the next call, whether the client for which the calling thread works has other
 * requests in progress. If so, the work of the thread is called crowded. While clients with a
 * single request wait, crowded work gets 1 / ATTN_POOL_SHARE of the time. Patient work gets its
 * share beside both. */
void attn_pool_be_crowded(bool crowded);
/* Returns how many nanoseconds other threads have computed for the calling thread since its
 * start. */
int64_t attn_pool_helped_ns(void);

/* Lets waiting work of a higher priority go first if the calling thread's work is patient or
 * crowded. Pieces that take longer than a millisecond call it now and then. With a NULL pool it
 * does nothing. */
void attn_pool_yield(attn_pool *pool);

/* Take and give back a slot for work of the calling thread outside of attn_pool_run, such as
 * decoding. attn_pool_run calls in between use this slot. A thread may hold slots of up to eight
 * pools and give them back in any order. In a further pool it gets no slot and computes its pieces
 * alone. With a NULL pool they do nothing. */
void attn_pool_enter(attn_pool *pool);
void attn_pool_leave(attn_pool *pool);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
