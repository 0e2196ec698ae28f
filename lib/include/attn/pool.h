/* The worker pool runs `slots` pieces of work at a time, each of about a millisecond.
 *
 * A caller splits its work into pieces and hands them to attn_pool_run. The calling thread runs
 * pieces of its own work too, so a full pool cannot deadlock. A slot is the right to use a
 * processor. Threads get slots in the order in which they ask, and give them up between pieces,
 * after a millisecond at the earliest, so a long caller cannot hold all of them. The split of the
 * work must depend on its shape only, and the result must not depend on which thread runs a
 * piece. */
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

/* A monotonic deadline and a cancel flag, which are checked between pieces. */
typedef struct attn_control {
    int64_t deadline_ns;     /* CLOCK_MONOTONIC, nanoseconds; 0 = none */
    const attn_flag *cancel; /* non-zero = stop; NULL = none */
} attn_control;

/* Returns ATTN_OK, ATTN_ECANCELED or ATTN_EDEADLINE. NULL control: always ATTN_OK. */
attn_status attn_control_check(const attn_control *control, attn_error *err);
int64_t attn_now_ns(void); /* CLOCK_MONOTONIC */

/* Bytes of stack of a helper thread. The library's pieces use less than a quarter of it. The thread
 * of a caller, which runs the same pieces, needs that quarter too. */
#define ATTN_POOL_STACK (2 << 20)
/* Makes a pool with `slots` >= 1 and starts slots - 1 helper threads. NULL: out of memory or
 * threads. */
attn_pool *attn_pool_new(size_t slots);
/* Waits for the helpers and frees the pool. No work may be in progress. NULL is fine. */
void attn_pool_free(attn_pool *pool);
size_t attn_pool_slots(const attn_pool *pool); /* NULL pool: 1 */

/* Runs piece(ctx, i, lane) for i = 0 … pieces - 1 and waits for all. `lane` < attn_pool_slots is
 * the scratch area of the caller that the piece may use: no two pieces of one call have the same
 * lane at a time. A piece that returns non-zero stops the call. The call then returns that status,
 * and *err is that of the failed piece with the lowest number. With a NULL pool the calling thread
 * runs all pieces. Any thread may call it, also one that holds a slot (attn_pool_enter). */
typedef attn_status (*attn_piece)(void *ctx, size_t index, size_t lane, attn_error *err);
attn_status attn_pool_run(attn_pool *pool, size_t pieces, attn_piece piece, void *ctx,
                          const attn_control *control, attn_error *err);

/* Makes the work of the calling thread patient from `since_ns` on (attn_now_ns; 0: never), in all
 * pools, until the next call. While there is other work, patient work gets one ATTN_POOL_SHARE-th
 * of the time of the slots, in whole pieces. */
#define ATTN_POOL_SHARE 4
void attn_pool_be_patient(int64_t since_ns);
/* States whether the client of the calling thread has other work in progress, until the next call.
 * Such work gets the same share of the time while there is work of other clients, and patient work
 * gets that share beside both. */
void attn_pool_be_crowded(bool crowded);
/* Returns the nanoseconds that other threads have worked for the calling thread since its start. */
int64_t attn_pool_helped_ns(void);

/* Lets other work go before patient work. A piece that takes longer than a millisecond calls it now
 * and then. A NULL pool does nothing. */
void attn_pool_yield(attn_pool *pool);

/* Takes a slot for work of the caller itself, such as decoding, and gives it back. attn_pool_run
 * between the two calls uses this slot. A thread may hold slots of several pools and leave them in
 * any order. Beyond eight pools it gets no slot, and runs its pieces alone. A NULL pool does
 * nothing. */
void attn_pool_enter(attn_pool *pool);
void attn_pool_leave(attn_pool *pool);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
