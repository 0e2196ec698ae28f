/* Threads for a program with a single thread: locks do nothing, and no thread can be started.
 * wasi-libc has no threads. */
#ifndef SRV_WASM_PTHREAD_H
#define SRV_WASM_PTHREAD_H

#include <errno.h>
#include <stddef.h>
#include <sys/types.h> /* has the types */
#include <time.h>

#define PTHREAD_MUTEX_INITIALIZER                                                                  \
    { 0 }
#define PTHREAD_COND_INITIALIZER                                                                   \
    { 0 }
#define PTHREAD_ONCE_INIT 0

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define ALWAYS_0(name, ...)                                                                        \
    static inline int name(__VA_ARGS__) {                                                          \
        return 0;                                                                                  \
    }
ALWAYS_0(pthread_attr_init, pthread_attr_t *a)
ALWAYS_0(pthread_attr_setstacksize, pthread_attr_t *a, size_t size)
ALWAYS_0(pthread_attr_destroy, pthread_attr_t *a)
ALWAYS_0(pthread_mutex_init, pthread_mutex_t *m, const pthread_mutexattr_t *a)
ALWAYS_0(pthread_mutex_destroy, pthread_mutex_t *m)
ALWAYS_0(pthread_mutex_lock, pthread_mutex_t *m)
ALWAYS_0(pthread_mutex_trylock, pthread_mutex_t *m)
ALWAYS_0(pthread_mutex_unlock, pthread_mutex_t *m)
ALWAYS_0(pthread_condattr_init, pthread_condattr_t *a)
ALWAYS_0(pthread_condattr_setclock, pthread_condattr_t *a, clockid_t clock)
ALWAYS_0(pthread_condattr_destroy, pthread_condattr_t *a)
ALWAYS_0(pthread_cond_init, pthread_cond_t *c, const pthread_condattr_t *a)
ALWAYS_0(pthread_cond_destroy, pthread_cond_t *c)
ALWAYS_0(pthread_cond_signal, pthread_cond_t *c)
ALWAYS_0(pthread_cond_broadcast, pthread_cond_t *c)
ALWAYS_0(pthread_cond_wait, pthread_cond_t *c, pthread_mutex_t *m)
ALWAYS_0(pthread_join, pthread_t thread, void **result)
ALWAYS_0(pthread_detach, pthread_t thread)
ALWAYS_0(pthread_setname_np, pthread_t thread, const char *name)
#undef ALWAYS_0
#pragma GCC diagnostic pop

/* No other thread could wake the caller. */
static inline int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                         const struct timespec *until) {
    (void)c, (void)m, (void)until;
    return ETIMEDOUT;
}

static inline int pthread_create(pthread_t *thread, const pthread_attr_t *a, void *(*run)(void *),
                                 void *of) {
    (void)thread, (void)a, (void)run, (void)of;
    return EAGAIN;
}

static inline pthread_t pthread_self(void) {
    return (pthread_t)1;
}

static inline int pthread_once(pthread_once_t *once, void (*run)(void)) {
    if (!*once) {
        *once = 1;
        run();
    }
    return 0;
}

#endif
