/* The processors, memory and files of this machine or container. `root` is put in front of the
 * paths of /proc and /sys, so that tests can use a directory tree of their own; "" means the real
 * paths. */
#ifndef SRV_HOST_H
#define SRV_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the number of whole processors, at least 1: the smaller of the affinity mask and the
 * cgroup quota (v2 cpu.max, v1 cpu.cfs_quota_us) of this process's group and its parents. */
size_t srv_host_processors(const char *root);
/* Returns the bytes of memory: the smaller of physical memory and the cgroup limit (v2 memory.max,
 * v1 memory.limit_in_bytes). */
uint64_t srv_host_memory(const char *root);

/* Identifies the file at a path and its last change, to notice a new version. Symbolic links are
 * followed, because a mounted secret is rotated by changing a link. All members are zero if there
 * is no file. */
typedef struct srv_file_state {
    uint64_t device, inode, size;
    int64_t changed_ns;
} srv_file_state;
srv_file_state srv_file_look(const char *path);
bool srv_file_same(const srv_file_state *a, const srv_file_state *b);

/* Reads a whole file into memory from malloc and puts a NUL behind it. Returns 0 or an errno value.
 */
int srv_read_file(const char *path, char **text, size_t *size);

/* Asks for short time slices for this thread and the threads that it starts later. They then get a
 * processor soon although other threads compute. The shares of processor time do not change. Has no
 * effect before Linux 6.12. */
void srv_host_be_prompt(void);
/* Sets the nice value of this thread, 0 … 19: threads with a smaller value are preferred. Failures
 * are ignored. */
void srv_host_be_nice(int number);

/* Raises the soft limit of open files to the hard limit. Returns the limit. */
uint64_t srv_host_raise_files(void);
/* Return the resident memory of this process in bytes and its number of open file descriptors; 0 if
 * unknown. */
uint64_t srv_host_resident(void);
size_t srv_host_open_files(void);

#endif
