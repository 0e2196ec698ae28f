/* The resources that the operating system grants this process: processors, memory, open files,
 * scheduling. The parameter `root` is a prefix of paths in /proc and /sys: "" for the real ones, or
 * a directory in which a test has made its own tree. */
#ifndef SRV_HOST_H
#define SRV_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the number of processors that this process may use: the number in its affinity mask or
 * its cgroup quota (v2 cpu.max, v1 cpu.cfs_quota_us), whichever is smaller, rounded down, and at
 * least 1. The quota is the smallest of this process's cgroup and all cgroups above it. */
size_t srv_host_processors(const char *root);
/* Returns the number of bytes of memory that this process may use: the physical memory or the
 * smallest cgroup limit (v2 memory.max, v1 memory.limit_in_bytes), whichever is smaller. */
uint64_t srv_host_memory(const char *root);

/* The identity of the file at a path, and its last change. If two states of one path differ, the
 * path has a new version of the file. Symbolic links are followed, because Kubernetes replaces a
 * mounted secret by changing a link. All members are zero if there is no file. */
typedef struct srv_file_state {
    uint64_t device, inode, size;
    int64_t changed_ns; /* ctime, in ns since 1970 */
} srv_file_state;
srv_file_state srv_file_look(const char *path);
bool srv_file_same(const srv_file_state *a, const srv_file_state *b);

/* Reads a whole file of less than 64 MiB. *text is allocated by malloc, and the caller frees it. A
 * NUL follows the *size bytes of the file. Returns 0 or an errno value. */
int srv_read_file(const char *path, char **text, size_t *size);

/* Gives this thread, and the threads that it starts later, short time slices (0.1 ms). A thread
 * with short slices gets a processor sooner after it wakes up, even if other threads are computing.
 * Its share of the processor time stays the same. Has no effect before Linux 6.12. */
void srv_host_be_prompt(void);
/* Sets the nice value of this thread, 0 … 19; the larger the value, the lower the thread's
 * priority. Failures are ignored. */
void srv_host_be_nice(int number);

/* Raises this process's soft limit of open files to its hard limit. Returns the resulting limit. */
uint64_t srv_host_raise_files(void);
uint64_t srv_host_resident(void);   /* resident memory of this process in bytes; 0: unknown */
uint64_t srv_host_most_files(void); /* the limit of open files of this process; 0: unknown */
size_t srv_host_open_files(void);   /* open file descriptors of this process; 0: unknown */

#endif
