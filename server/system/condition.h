/* Condition variables with timeouts on the clock of attn_now_ns, which cannot be set. */
#ifndef SRV_CONDITION_H
#define SRV_CONDITION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Makes a condition variable, which pthread_cond_destroy frees. false: out of memory. */
bool srv_condition_init(pthread_cond_t *condition);
/* Waits as pthread_cond_wait does, but at most until `until_ns`. false: the time until_ns has
 * passed. */
bool srv_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns);

#endif
