/* Opens and writes files in directories that other programs may change. Only regular files are
 * read, without waiting. A written file is complete or absent. Any thread. */
#ifndef SRV_FILES_H
#define SRV_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* The suffix of a file that is being written. */
#define SRV_PART ".part"

/* Opens a regular file for reading, without waiting for the writer of a pipe. `dir` is the
 * descriptor of a directory, or AT_FDCWD. Follows symbolic links if `follow` is set. Returns the
 * descriptor, or a negative errno value: -EISDIR for a directory, -ESPIPE for a pipe, a socket or a
 * device. */
int srv_file_open(int dir, const char *name, bool follow, struct stat *about);

/* A new file of mode 0600 that gets its name only when it is complete on disk. Its writer holds a
 * lock on the unfinished file <name>.part. An unfinished file without a lock is left over from an
 * ended process. */
typedef struct srv_new_file {
    int dir, fd, failed;
    const char *name; /* the caller's, until it is closed */
    char part[PATH_MAX];
} srv_new_file;

/* Begins a file. Returns 0 or an errno value, after which srv_new_file_close must not be called.
 * EBUSY: another writer is writing the file. */
int srv_new_file_open(srv_new_file *f, int dir, const char *name);
/* Writes bytes. After a failure, which srv_new_file_close returns, this does nothing. */
void srv_new_file_write(srv_new_file *f, const void *data, size_t size);
/* Syncs and renames the file, or removes it after a failure. Returns 0 or the first errno value. */
int srv_new_file_close(srv_new_file *f);

/* Returns whether this is the name of an unfinished file. */
bool srv_is_part(const char *name);
/* Removes an unfinished file whose writer has ended. Returns 0 or an errno value: EWOULDBLOCK if a
 * process is writing it, ENOLCK or EOPNOTSUPP if the file system has no locks. */
int srv_part_sweep(int dir, const char *name);

#endif
