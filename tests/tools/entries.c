/* Preloaded into a daemon built with -finstrument-functions: keeps in the file that WALK_ENTRIES
 * names which functions were entered, by what kind of thread, and in which order for the first
 * time. tests/tools/walk fills the file with zeros and reads it while the daemon runs. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 1 << 14 }; /* a power of two, many times as many as there are functions */

typedef struct entry {
    /* The function in the upper half, the one that its thread entered first in the lower half; both
     * as distances from the begin of the program. */
    _Atomic uint64_t what;
    _Atomic uint64_t order;
} entry;

static entry *entries;
static uintptr_t program;
static _Atomic uint64_t turn = 1;
static _Thread_local uintptr_t root;

__attribute__((constructor)) static void start(void) {
    const char *name = getenv("WALK_ENTRIES");
    int fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    void *shared = MAP_FAILED;
    if (fd >= 0 && !ftruncate(fd, SLOTS * sizeof(entry)))
        shared = mmap(NULL, SLOTS * sizeof(entry), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        _exit(1);
    close(fd);
    program = getauxval(AT_PHDR) & ~(uintptr_t)4095; /* the headers are in its first page */
    entries = shared;
}

/* gcc calls both of every function, by these names. */
void __cyg_profile_func_enter(void *function, void *from);
void __cyg_profile_func_exit(void *function, void *from);

void __cyg_profile_func_enter(void *function, void *from) {
    (void)from;
    if (!root)
        root = (uintptr_t)function;
    const uint64_t what = (uint64_t)((uintptr_t)function - program) << 32 | (root - program);
    for (uint64_t at = what * 0x9e3779b97f4a7c15 >> 50; entries; at = (at + 1) % SLOTS) {
        uint64_t found = atomic_load_explicit(&entries[at].what, memory_order_relaxed);
        if (!found && atomic_compare_exchange_strong(&entries[at].what, &found, what))
            atomic_store(&entries[at].order, atomic_fetch_add(&turn, 1));
        if (!found || found == what)
            return;
    }
}

void __cyg_profile_func_exit(void *function, void *from) {
    (void)function;
    (void)from;
}
