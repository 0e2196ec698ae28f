/* What this machine or container gives us: processors, memory, files. `root` is put before the
 * paths of /proc and /sys ("" = the real ones), so that tests can bring a tree of their own. */
#ifndef SRV_HOST_H
#define SRV_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whole processors: the affinity mask, and the cgroup quota (v2 cpu.max, v1 cpu.cfs_quota_us of
 * this process's group and those above), rounded down; at least 1. */
size_t srv_host_processors(const char *root);
/* Bytes: the smaller of physical memory and the cgroup limit (v2 memory.max, v1
 * memory.limit_in_bytes). */
uint64_t srv_host_memory(const char *root);

/* Which file a path names and when it was written, links followed; zeroes: none. A mounted secret
 * that is rotated is another file under the same path. */
typedef struct srv_file_state {
    uint64_t device, inode, size;
    int64_t changed_ns;
} srv_file_state;
srv_file_state srv_file_look(const char *path);
bool srv_file_same(const srv_file_state *a, const srv_file_state *b);

/* A whole file, NUL-terminated, from malloc. 0 or an errno value. */
int srv_read_file(const char *path, char **text, size_t *size);

/* This thread, and those that it starts from now on, do little at a time and are waited for: they
 * get the processor soon, and for a short turn, beside threads that compute. Their share of it
 * stays what it is, and so does that of other programs. Linux before 6.12 takes no notice. */
void srv_host_be_prompt(void);
/* From now on this thread gives way to those of a smaller number: 0 … 19. Best effort. */
void srv_host_be_nice(int number);

/* Raise the soft limit of open files to the hard one; how many that are then. */
uint64_t srv_host_raise_files(void);
/* Resident memory of this process in bytes, open file descriptors; 0 when unknown. */
uint64_t srv_host_resident(void);
size_t srv_host_open_files(void);

#endif
