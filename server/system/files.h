/* Opens and writes files in directories that other programs may change. Only regular files are
 * opened for reading, so that no read waits for a pipe or a device. A written file is either
 * complete or absent. Any thread may call these functions. */
#ifndef SRV_FILES_H
#define SRV_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* The suffix of a file that is being written. */
#define SRV_PART ".part"

/* Opens a regular file for reading. `name` is relative to the directory descriptor `dir`, which may
 * be AT_FDCWD. Follows symbolic links if `follow` is set. Returns the descriptor, and fills *about
 * by fstat. On failure returns a negative errno value: -EISDIR for a directory, -ESPIPE for a pipe,
 * a socket or a device. */
int srv_file_open(int dir, const char *name, bool follow, struct stat *about);

/* Reads from the descriptor until its end, or until `to` holds `room` bytes. Appends the data to
 * the *used bytes in `to`, and raises *used. Returns 0 or an errno value. */
int srv_file_fill(int fd, char *to, size_t room, size_t *used);

/* The reason why a file could not be used, which follows from the errno value. */
typedef enum srv_verdict {
    SRV_FILE_ABSENT,  /* there is no file of this name */
    SRV_FILE_WRONG,   /* the file is not a regular file, or it is empty, too large or damaged */
    SRV_FILE_TROUBLE, /* the machine has failed, and a later try may succeed: too few descriptors, a
                         failing disk, no memory, a missing right, … */
} srv_verdict;
srv_verdict srv_file_judge(int failed);

/* Returns whether there is no file of this name in the directory `dir`. Returns false if this
 * cannot be determined now. */
bool srv_file_lacks(int dir, const char *name);

/* A new file of mode 0600 that gets its name only when it is complete on disk. Until then it is
 * called <name>.part, and the writing process holds a lock (flock) on it. A .part file without a
 * lock was left behind by a process that has ended. The descriptor can also be used to read and map
 * the file. */
typedef struct srv_new_file {
    int dir, fd;
    uint64_t size;       /* bytes written so far */
    int failed;          /* first errno value of a failed operation; 0: none has failed */
    const char *name;    /* must stay valid until the file is closed */
    char part[PATH_MAX]; /* <name>.part */
} srv_new_file;

/* Begins a new file `name` in the directory `dir`. Returns 0 or an errno value. After an error
 * srv_new_file_close must not be called. EBUSY: another writer is writing the file. */
int srv_new_file_open(srv_new_file *f, int dir, const char *name);
/* Appends `size` bytes. For a long file, the system begins to write the appended bytes to disk, so
 * that closing the file takes less time. A failure is stored in f->failed, and later calls do
 * nothing. */
void srv_new_file_write(srv_new_file *f, const void *data, size_t size);
/* Syncs the file to disk and renames it to `name`. If any operation has failed, removes the .part
 * file and returns the errno value of the first failure; otherwise returns 0. */
int srv_new_file_close(srv_new_file *f);

/* Abandons the file: closes it and removes the .part file. Call this instead of
 * srv_new_file_close. */
void srv_new_file_drop(srv_new_file *f);

/* Makes the names in a directory durable; does nothing for AT_FDCWD. Returns 0 or an errno value.
 * Ignores EINVAL and EBADF, because some file systems cannot sync directories. */
int srv_dir_sync(int dir);

/* Returns whether the directory that is open as `dir` was removed. Another directory may have its
 * name now. Returns false if `dir` is negative. */
bool srv_dir_is_gone(int dir);

/* Returns whether the name ends in SRV_PART. */
bool srv_is_part(const char *name);
/* Removes a .part file whose writer has ended. Returns 0 if the file is gone, or an errno value:
 * EWOULDBLOCK if a process is still writing the file, ENOLCK or EOPNOTSUPP if the file system has
 * no locks and this is therefore unknown. */
int srv_part_sweep(int dir, const char *name);

#endif
