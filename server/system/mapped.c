/* All mappings are in one list. The signal handler searches it without a lock, so entries are never
 * removed: the entry of a closed mapping stays with size 0 and is reused for the next file. The
 * entry that the handler finds cannot be closed meanwhile, because a mapping is only closed when no
 * thread reads it. */
#include "system/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system/clock.h"
#include "system/files.h"

struct srv_mapped {
    srv_mapped *next;
    bool taken;           /* the entry belongs to a mapping; protected by `lock` */
    _Atomic uintptr_t at; /* address of the first byte */
    _Atomic size_t size;  /* in bytes; 0: the entry has no mapping now */
    _Atomic bool hurt;    /* a page was replaced by zeros, or the file has become shorter */
    int dir;              /* the directory of `name` */
    char *name;           /* the file's name when it was mapped, from malloc */
    dev_t device;         /* device and inode show whether `name` is still the same file */
    ino_t inode;
    _Atomic int64_t written, changed; /* the last accepted srv_mapped_times */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(srv_mapped *) first;
static size_t page; /* size of a memory page in bytes */

/* Returns the mapping that contains the address. The whole last page belongs to a mapping, even if
 * the file ends inside of it. NULL: there is none. */
static srv_mapped *find_mapping(uintptr_t address) {
    srv_mapped *m = atomic_load(&first);
    while (m && address - atomic_load(&m->at) >= (atomic_load(&m->size) + page - 1) / page * page)
        m = m->next;
    return m;
}

/* Maps a page of zeros at `start`. This is a direct system call because ThreadSanitizer treats
 * mmap() as a write to the page and would report a race with the threads that read it. */
static bool put_zeros(uintptr_t start) {
    return syscall(SYS_mmap, start, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                   0) == (long)start;
}

static void on_fault(int number, siginfo_t *info, void *context) {
    const uintptr_t address = (uintptr_t)info->si_addr;
    const int before = errno;
    srv_mapped *m = find_mapping(address);
    (void)context;
    if (m && put_zeros(address / page * page))
        atomic_store(&m->hurt, true);
    else
        signal(number, SIG_DFL); /* not one of our mappings: reading again ends the process */
    errno = before;
}

void srv_mapped_start(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    page = (size_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

/* Returns a free entry of the list, or a new one, and marks it as taken. NULL: out of memory. */
static srv_mapped *take_entry(void) {
    pthread_mutex_lock(&lock);
    srv_mapped *m = atomic_load(&first);
    while (m && m->taken)
        m = m->next;
    if (!m && (m = calloc(1, sizeof *m))) {
        m->next = atomic_load(&first);
        atomic_store(&first, m);
    }
    if (m)
        m->taken = true;
    pthread_mutex_unlock(&lock);
    return m;
}

static void free_entry(srv_mapped *m) {
    pthread_mutex_lock(&lock);
    m->taken = false;
    pthread_mutex_unlock(&lock);
}

/* Returns the times of a file. A file that has just changed may change again without a change of
 * its times, within a tick of the kernel's clock, or within a second on file systems that count in
 * seconds. */
static srv_mapped_times times_of(const struct stat *about) {
    const int64_t changed = srv_ns_of(&about->st_ctim),
                  tick = changed % 1000000000 ? 20000000 : 2000000000;
    const bool may_repeat = srv_clock_ns(CLOCK_REALTIME) - changed < tick;
    return (srv_mapped_times){srv_ns_of(&about->st_mtim), may_repeat ? 0 : changed};
}

static void note_file_state(srv_mapped *m, const struct stat *about) {
    const srv_mapped_times times = times_of(about);
    m->device = about->st_dev;
    m->inode = about->st_ino;
    srv_mapped_accept(m, &times);
}

/* Maps the open file, whose fstat is *about. `name` is its name in the directory `dir`; NULL: the
 * name is not known. Returns 0 or an errno value. */
static int map_file(int fd, const struct stat *about, int dir, const char *name, srv_mapped **out) {
    const size_t size = (size_t)about->st_size;
    srv_mapped *m = size ? take_entry() : NULL;
    if (!m)
        return size ? ENOMEM : ENODATA;
    m->name = name ? strdup(name) : NULL;
    const bool named = !name || m->name;
    void *at = named ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (at == MAP_FAILED) {
        const int failed = named ? errno : ENOMEM;
        free(m->name);
        m->name = NULL;
        free_entry(m);
        return failed;
    }
    m->dir = dir;
    note_file_state(m, about);
    atomic_store(&m->hurt, false);
    atomic_store(&m->at, (uintptr_t)at);
    atomic_store(&m->size, size);
    *out = m;
    return 0;
}

int srv_mapped_open(int dir, const char *name, bool follow, srv_mapped **out) {
    struct stat about;
    const int fd = srv_file_open(dir, name, follow, &about);
    if (fd < 0)
        return -fd;
    const int failed = map_file(fd, &about, dir, name, out);
    close(fd);
    return failed;
}

int srv_mapped_open_fd(int fd, srv_mapped **out) {
    struct stat about;
    return fstat(fd, &about) ? errno : map_file(fd, &about, -1, NULL, out);
}

bool srv_mapped_name(srv_mapped *m, int dir, const char *name) {
    struct stat about;
    m->dir = dir;
    m->name = strdup(name);
    if (m->name && !fstatat(dir, name, &about, AT_SYMLINK_NOFOLLOW))
        note_file_state(m, &about);
    return m->name;
}

void srv_mapped_close(srv_mapped *m) {
    if (!m)
        return;
    void *at = (void *)atomic_load(&m->at);
    const size_t size = atomic_exchange(&m->size, 0);
    munmap(at, size);
    free(m->name);
    m->name = NULL;
    free_entry(m);
}

const void *srv_mapped_data(const srv_mapped *m) {
    return (const void *)atomic_load(&m->at);
}
size_t srv_mapped_size(const srv_mapped *m) {
    return atomic_load(&m->size);
}
srv_mapped_state srv_mapped_check(srv_mapped *m, srv_mapped_times *seen) {
    struct stat now;
    const bool found = m->name && !fstatat(m->dir, m->name, &now, 0),
               same = found && now.st_dev == m->device && now.st_ino == m->inode;
    *seen = same ? times_of(&now) : (srv_mapped_times){0};
    if (same && (size_t)now.st_size < atomic_load(&m->size))
        atomic_store(&m->hurt, true);
    if (atomic_load(&m->hurt))
        return SRV_MAPPED_HURT;
    if (!same)
        return found ? SRV_MAPPED_OTHER : SRV_MAPPED_SAME;
    if ((size_t)now.st_size > atomic_load(&m->size) ||
        srv_ns_of(&now.st_mtim) != atomic_load(&m->written))
        return SRV_MAPPED_WRITTEN;
    return srv_ns_of(&now.st_ctim) == atomic_load(&m->changed) ? SRV_MAPPED_SAME
                                                               : SRV_MAPPED_TOUCHED;
}
void srv_mapped_accept(srv_mapped *m, const srv_mapped_times *seen) {
    atomic_store(&m->written, seen->written);
    atomic_store(&m->changed, seen->changed);
}
bool srv_mapped_is_hurt(const srv_mapped *m) {
    return atomic_load(&m->hurt);
}
