/* Turns: of bodies up to 1 MiB that come in at the same time one after the other is read, and no
 * more of them than the workers will soon take up. A body is then still in the processor's caches
 * when its request runs, and what is not read yet waits in the kernel or at its client instead of
 * in our memory. */
#ifndef SRV_TURNS_H
#define SRV_TURNS_H

#include "http/exchange.h"

/* A piece of x's body, of `size` bytes, was taken: x goes on, or is suspended until its turn comes.
 * On the HTTP thread, in the library's callback. */
void srv_turn_taken(srv_exchange *x, size_t size);
/* x reads no further: its body is complete or refused, or its connection closes. On the HTTP
 * thread. */
void srv_turn_over(srv_exchange *x);
/* A request has left the queue, or time has passed. true: somebody still waits. Any thread. */
bool srv_turn_next(srv_daemon *d);
/* On the way down: nobody waits any longer. Any thread. */
void srv_turns_end(srv_daemon *d);

#endif
