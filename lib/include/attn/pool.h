/* The worker pool: `slots` units of work run at a time, in pieces of about a millisecond.
 *
 * A caller splits its work into pieces, hands them to attn_pool_run and helps: the calling thread
 * runs pieces of its own work, so a full pool cannot deadlock. A slot is the right to use a
 * processor; slots go round in order of asking and change hands between pieces, after a millisecond
 * at the earliest, so that a long caller cannot hold all of them. How work is split must be a
 * function of its shape only; which thread runs a piece must not matter to the result. */
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

/* When to stop: a monotonic deadline and a flag, both looked at between pieces. */
typedef struct attn_control {
    int64_t deadline_ns;     /* CLOCK_MONOTONIC, nanoseconds; 0 = none */
    const attn_flag *cancel; /* non-zero = stop; NULL = none */
} attn_control;

/* ATTN_OK, ATTN_ECANCELED or ATTN_EDEADLINE. NULL control is always fine. */
attn_status attn_control_check(const attn_control *control, attn_error *err);
int64_t attn_now_ns(void); /* CLOCK_MONOTONIC */

/* Bytes of stack of a helper thread. The library's own pieces take less than a quarter of it; a
 * caller's thread, which runs the same pieces, needs that quarter, too. */
#define ATTN_POOL_STACK (2 << 20)
/* A pool with `slots` >= 1 (slots - 1 helper threads are started). NULL if out of memory or
 * threads. */
attn_pool *attn_pool_new(size_t slots);
void attn_pool_free(attn_pool *pool); /* waits for helpers; no run may be under way; NULL is fine */
size_t attn_pool_slots(const attn_pool *pool); /* NULL pool: 1 */

/* Run piece(ctx, i, lane) for i = 0 … pieces - 1 and wait for all. `lane` < attn_pool_slots tells
 * which of the caller's scratch areas the piece may use: no two pieces of one run share a lane at
 * the same time. A piece that returns non-zero stops the run; that status is returned, and *err is
 * that of the lowest-numbered piece that failed. NULL pool: all pieces on the calling thread.
 * Any thread, also from threads that hold a turn (attn_pool_enter). */
typedef attn_status (*attn_piece)(void *ctx, size_t index, size_t lane, attn_error *err);
attn_status attn_pool_run(attn_pool *pool, size_t pieces, attn_piece piece, void *ctx,
                          const attn_control *control, attn_error *err);

/* From `since_ns` (attn_now_ns; 0: never) on the calling thread's work is patient, its runs as they
 * begin and its turns: while there is other work, patient work has the ATTN_POOL_SHARE-th part of
 * the slots' time, in whole pieces. Until it is called again, in all pools. */
#define ATTN_POOL_SHARE 4
void attn_pool_be_patient(int64_t since_ns);
/* Its work is of somebody who has more under way: while there is work of others it has the same
 * part of the time, and patient work has that part beside both. Until it is called again. */
void attn_pool_be_crowded(bool crowded);
/* How long, in nanoseconds, other threads have worked for runs of the calling thread since it
 * began. */
int64_t attn_pool_helped_ns(void);

/* Inside of a piece, now and then where it takes longer than a millisecond: patient work lets
 * prompt work go first. NULL pool: nothing. */
void attn_pool_yield(attn_pool *pool);

/* Take and give back a slot around work of the caller's own (decoding, encoding). attn_pool_run
 * inside such a pair uses the slot that is held. A thread may be inside several pools and leave
 * them in any order; inside eight others, it has no slot of a further one and runs its pieces
 * alone. NULL pool: nothing. */
void attn_pool_enter(attn_pool *pool);
void attn_pool_leave(attn_pool *pool);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
