/* A preloaded library that fails chosen allocations of the program it is loaded into, whoever asks:
 * the program, its libraries or the C library itself; and chosen additions of a connected socket to
 * an epoll. The test shares a page with it through the file that FAULT_CONTROL names
 * (tests/fault/faults.py writes the same layout). Allocations are counted from main() on, so that
 * what the loader does is left alone. Needs glibc. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct control {
    atomic_int_fast64_t count;  /* allocations so far */
    atomic_int_fast64_t first;  /* the first one that fails; 0: none does */
    atomic_int_fast64_t last;   /* the last one that fails */
    atomic_int_fast64_t failed; /* how many have failed */
    atomic_int_fast64_t live;   /* blocks that are held */
    atomic_int_fast64_t added;  /* connected sockets that were added to an epoll so far */
    atomic_int_fast64_t refuse; /* the one that is not: ENOSPC; 0: all are */
} control;

static control *shared;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

static int fails(void) {
    control *c = shared;
    if (!c)
        return 0;
    int64_t first = atomic_load(&c->first), n = atomic_fetch_add(&c->count, 1) + 1;
    if (!first || n < first || n > atomic_load(&c->last))
        return 0;
    atomic_fetch_add(&c->failed, 1);
    errno = ENOMEM;
    return 1;
}

static void *held(void *p) {
    if (p && shared)
        atomic_fetch_add(&shared->live, 1);
    return p;
}

void *malloc(size_t size) {
    return fails() ? NULL : held(__libc_malloc(size));
}

void *calloc(size_t count, size_t size) {
    return fails() ? NULL : held(__libc_calloc(count, size));
}

void *realloc(void *p, size_t size) {
    if (!p)
        return malloc(size);
    return fails() ? NULL : __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size) {
    return fails() ? NULL : held(__libc_memalign(align, size));
}

void *memalign(size_t align, size_t size) {
    return aligned_alloc(align, size);
}

int posix_memalign(void **out, size_t align, size_t size) {
    void *p = aligned_alloc(align, size);
    if (p)
        *out = p;
    return p ? 0 : ENOMEM;
}

void free(void *p) {
    if (p && shared)
        atomic_fetch_sub(&shared->live, 1);
    __libc_free(p);
}

static int is_connected(int fd) {
    struct sockaddr_storage peer;
    socklen_t length = sizeof(peer);
    return getpeername(fd, (struct sockaddr *)&peer, &length) == 0;
}

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event) {
    if (shared && op == EPOLL_CTL_ADD && is_connected(fd) &&
        atomic_fetch_add(&shared->added, 1) + 1 == atomic_load(&shared->refuse)) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

typedef int (*main_function)(int, char **, char **);
typedef int (*start_function)(main_function, int, char **, void (*)(void), void (*)(void),
                              void (*)(void), void *);

static main_function program;

static int counted_main(int argc, char **argv, char **environment) {
    const char *path = getenv("FAULT_CONTROL");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *page = fd < 0 ? MAP_FAILED
                        : mmap(NULL, sizeof(control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        _exit(111);
    close(fd);
    shared = page;
    return program(argc, argv, environment);
}

int __libc_start_main(main_function entry, int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end) {
    start_function next = (start_function)dlsym(RTLD_NEXT, "__libc_start_main");
    program = entry;
    return next(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
