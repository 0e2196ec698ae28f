/* Reads /proc and the cgroup trees. A cgroup is bound by its own limit and by those of all groups
 * above it. Therefore the limits are read from this process's group up to the root of the mounted
 * tree, and the smallest counts. */
#include "system/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system/clock.h"
#include "system/files.h"

/* The largest buffer of srv_read_file in bytes. Files of settings and of /proc are far smaller. */
#define FILE_MOST (64u << 20)

int srv_read_file(const char *path, char **text, size_t *size) {
    char *data = NULL;
    size_t used = 0, room = 2048;
    struct stat info;
    int failed = 0;
    const int fd = srv_file_open(AT_FDCWD, path, true, &info);
    if (fd < 0)
        return -fd;
    do {
        room *= 2;
        char *grown = room > FILE_MOST ? NULL : realloc(data, room);
        failed = grown ? 0 : room > FILE_MOST ? EFBIG : ENOMEM;
        data = grown ? grown : data;
        if (!failed)
            failed = srv_file_fill(fd, data, room - 1, &used);
    } while (!failed && used == room - 1);
    close(fd);
    if (failed) {
        free(data);
        return failed;
    }
    data[used] = 0;
    *text = data;
    *size = used;
    return 0;
}

/* Lowers *limit to the limit in the file `file`, if that is smaller. The file may hold
 *   "QUOTA PERIOD" (cpu.max)           the limit is QUOTA / PERIOD; `period` is 0
 *   "QUOTA" (cpu.cfs_quota_us)         the limit is QUOTA / period
 *   "BYTES" (memory.max)               the limit is BYTES; `period` is 0
 *   "max", "-1", or nothing readable   there is no limit */
static void lower_to_limit_in(const char *file, double period, double *limit) {
    char *text;
    size_t size;
    if (srv_read_file(file, &text, &size))
        return;
    char *end;
    double value = strtod(text, &end);
    if (end != text && value > 0) {
        double inside = period > 0 ? period : strtod(end, NULL);
        if (inside > 0)
            value /= inside;
        if (value < *limit)
            *limit = value;
    }
    free(text);
}

/* Returns the number at the beginning of the file; 0: the file cannot be read or has no number. */
static double number_in(const char *file) {
    char *text;
    size_t size;
    if (srv_read_file(file, &text, &size))
        return 0;
    double value = strtod(text, NULL);
    free(text);
    return value;
}

/* The files in which a cgroup tree states a limit. */
typedef struct group_file {
    const char *controller; /* cgroup v1: name of the tree's controller; "": cgroup v2 */
    const char *mount;      /* directory where the tree is mounted */
    const char *file;       /* name of the file with the limit, in the directory of each group */
    const char *period;     /* name of the file with the period of a v1 quota; NULL: none */
} group_file;

/* Finds the path of this process's group in the tree of `controller` from the lines
 * "NUMBER:CONTROLLERS:PATH" of /proc/self/cgroup. false: the process is not in this tree. */
static bool group_path(const char *root, const char *controller, char *path, size_t size) {
    char file[512], *text;
    size_t length;
    bool found = false;
    snprintf(file, sizeof file, "%s/proc/self/cgroup", root);
    if (srv_read_file(file, &text, &length))
        return false;
    char *rest = text, *line;
    while (!found && (line = strsep(&rest, "\n"))) {
        strsep(&line, ":");
        char *names = line ? strsep(&line, ":") : NULL;
        if (!names || !line)
            continue;
        found = !*controller && !*names;
        for (char *name; *controller && !found && (name = strsep(&names, ","));)
            found = !strcmp(name, controller);
        if (found)
            snprintf(path, size, "%s", line);
    }
    free(text);
    return found;
}

/* Lowers *limit to the smallest limit of this process's group and all groups above it. */
static void lower_to_group_limits(const char *root, const group_file *what, double *limit) {
    char path[1024], file[2048], period[2048];
    if (!group_path(root, what->controller, path, sizeof path))
        return;
    for (;;) {
        char *slash = strrchr(path, '/');
        if (slash && !slash[1])
            *slash = 0;
        snprintf(file, sizeof file, "%s%s%s/%s", root, what->mount, path, what->file);
        double divisor = 0;
        if (what->period) {
            snprintf(period, sizeof period, "%s%s%s/%s", root, what->mount, path, what->period);
            divisor = number_in(period);
        }
        if (!what->period || divisor > 0)
            lower_to_limit_in(file, divisor, limit);
        slash = strrchr(path, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

size_t srv_host_processors(const char *root) {
    static const group_file files[] = {
        {"", "/sys/fs/cgroup", "cpu.max", NULL},
        {"", "/sys/fs/cgroup/unified", "cpu.max", NULL},
        {"cpu", "/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us"},
        {"cpu", "/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us", "cpu.cfs_period_us"},
    };
    cpu_set_t set;
    double limit = 1;
    if (!sched_getaffinity(0, sizeof set, &set))
        limit = CPU_COUNT(&set);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        lower_to_group_limits(root, &files[i], &limit);
    return limit < 1 ? 1 : (size_t)limit;
}

uint64_t srv_host_memory(const char *root) {
    static const group_file files[] = {
        {"", "/sys/fs/cgroup", "memory.max", NULL},
        {"", "/sys/fs/cgroup/unified", "memory.max", NULL},
        {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", NULL},
    };
    double limit = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        lower_to_group_limits(root, &files[i], &limit);
    return (uint64_t)limit;
}

/* The first version of the kernel's struct sched_attr (sched_setattr(2)). It is repeated here
 * because <linux/sched/types.h> cannot be included together with <sched.h>. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime;          /* in ns; for an ordinary thread: the length of its time slices */
    uint64_t deadline, period; /* in ns; unused for ordinary threads */
};

void srv_host_be_prompt(void) {
    enum { SLICE_NS = 100000 }; /* the shortest time slice that the kernel grants */
    struct attributes attr = {.size = sizeof attr};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0))
        return;
    attr.runtime = SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

void srv_host_be_nice(int number) {
    const struct sched_param none = {0};
    if (!number)
        return;
    (void)sched_setscheduler(0, SCHED_BATCH, &none);
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), number); /* Linux: of this thread only */
}

uint64_t srv_host_raise_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return UINT64_MAX;
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit)) /* failed: the old limit still holds */
        limit.rlim_cur = before;
    return (uint64_t)limit.rlim_cur;
}

uint64_t srv_host_most_files(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) ? 0 : (uint64_t)limit.rlim_cur;
}

uint64_t srv_host_resident(void) {
    char *text;
    size_t size;
    unsigned long long total, resident = 0;
    if (srv_read_file("/proc/self/statm", &text, &size))
        return 0;
    if (sscanf(text, "%llu %llu", &total, &resident) != 2)
        resident = 0;
    free(text);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

size_t srv_host_open_files(void) {
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;
    if (!dir)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count ? count - 1 : 0; /* without the descriptor of /proc/self/fd itself */
}

srv_file_state srv_file_look(const char *path) {
    struct stat info;
    if (stat(path, &info))
        return (srv_file_state){0};
    return (srv_file_state){.device = (uint64_t)info.st_dev,
                            .inode = (uint64_t)info.st_ino,
                            .size = (uint64_t)info.st_size,
                            .changed_ns = srv_ns_of(&info.st_ctim)};
}

bool srv_file_same(const srv_file_state *a, const srv_file_state *b) {
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->changed_ns == b->changed_ns;
}
