/* Files that others may have put in our way: a reader takes regular files only and never waits for
 * one, a writer leaves the whole file or none. Any thread. */
#ifndef SRV_FILES_H
#define SRV_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* What stands after the name of a file that is being written. */
#define SRV_PART ".part"

/* Open a regular file for reading, never waiting for the writer of a pipe; `dir` is a directory's
 * descriptor, or AT_FDCWD. `follow`: symbolic links, too. The descriptor, or a negative errno value
 * (-EISDIR, -ESPIPE: a pipe, a socket or a device). */
int srv_file_open(int dir, const char *name, bool follow, struct stat *about);

/* A file of mode 0600 that appears under its name when all of it is on disk. Its writer holds a
 * lock on the unfinished file <name>.part, so one that nobody locks is known to be left over. */
typedef struct srv_new_file {
    int dir, fd, failed;
    const char *name; /* the caller's, until it is closed */
    char part[PATH_MAX];
} srv_new_file;

/* 0 or an errno value: EBUSY, another writes it. Nothing is to be closed then. */
int srv_new_file_open(srv_new_file *f, int dir, const char *name);
/* After a failure nothing is written, and the failure is kept. */
void srv_new_file_write(srv_new_file *f, const void *data, size_t size);
/* Sync and rename, or remove what was written; 0 or the first errno value. */
int srv_new_file_close(srv_new_file *f);

/* Is this the name of an unfinished file? */
bool srv_is_part(const char *name);
/* Remove an unfinished file whose writer is gone. 0, or an errno value: EWOULDBLOCK, somebody
 * writes it; ENOLCK or EOPNOTSUPP, that cannot be told here. */
int srv_part_sweep(int dir, const char *name);

#endif
