/* Opens regular files, writes files atomically, and removes the .part files of ended processes. All
 * checks use the open descriptor and not the path, because another file may get the path between a
 * check and a read. */
#include "system/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum {
    TRIES = 16,      /* srv_new_file_open fails after this many lost races for a .part file */
    FLOW = 16 << 20, /* a long file is written to disk in parts of this size */
};

int srv_file_open(int dir, const char *name, bool follow, struct stat *about) {
    const int link = follow ? 0 : O_NOFOLLOW,
              fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | link);
    if (fd < 0)
        return -errno;
    int failed = fstat(fd, about) ? errno : 0;
    if (!failed && !S_ISREG(about->st_mode))
        failed = S_ISDIR(about->st_mode) ? EISDIR : ESPIPE;
    if (!failed)
        return fd;
    close(fd);
    return -failed;
}

int srv_file_fill(int fd, char *to, size_t room, size_t *used) {
    while (*used < room) {
        const ssize_t n = read(fd, to + *used, room - *used);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return errno;
        *used += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

srv_verdict srv_file_judge(int failed) {
    switch (failed) {
    case ENOENT:
    case ENOTDIR:
        return SRV_FILE_ABSENT;
    case EISDIR:
    case ESPIPE:
    case ELOOP:
    case ENXIO:
    case EINVAL:
    case EFBIG:
    case ENODATA:
    case EBADMSG:
        return SRV_FILE_WRONG;
    default:
        return SRV_FILE_TROUBLE;
    }
}

bool srv_file_lacks(int dir, const char *name) {
    return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT;
}

/* Locks a .part file. Returns 0, EBUSY if another process has the lock, or another errno value.
 * Also returns 0 on file systems without locks, where two writers of the same name are not
 * detected. */
static int lock_part(int fd) {
    if (!flock(fd, LOCK_EX | LOCK_NB) || errno == ENOLCK || errno == EOPNOTSUPP)
        return 0;
    return errno == EWOULDBLOCK ? EBUSY : errno;
}

/* Returns whether the directory entry `name` still refers to the file that is open as `fd`. */
static bool is_named(int fd, int dir, const char *name) {
    struct stat own, named;
    return !fstat(fd, &own) && !fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) &&
           own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

/* Between openat and the lock another process may remove the .part file or rename it to its final
 * name. Then the lock is on the wrong file, and the loop opens the .part file again. */
int srv_new_file_open(srv_new_file *f, int dir, const char *name) {
    *f = (srv_new_file){.dir = dir, .fd = -1, .name = name};
    if (snprintf(f->part, sizeof f->part, "%s" SRV_PART, name) >= (int)sizeof f->part)
        return ENAMETOOLONG;
    for (int i = 0; i < TRIES; i++) {
        f->fd = openat(dir, f->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600);
        if (f->fd < 0)
            return errno;
        const int failed = lock_part(f->fd);
        if (!failed && is_named(f->fd, dir, f->part) && !ftruncate(f->fd, 0))
            return 0;
        close(f->fd);
        if (failed)
            return failed;
    }
    return EBUSY;
}

/* Makes the system write another part of a long file to disk. If the system cannot do this, closing
 * the file takes longer. */
static void start_writing_back(const srv_new_file *f, size_t appended) {
    const uint64_t to = f->size / FLOW, from = (f->size - appended) / FLOW;
    if (from < to)
        (void)sync_file_range(f->fd, (off_t)(from * FLOW), (off_t)((to - from) * FLOW),
                              SYNC_FILE_RANGE_WRITE);
}

void srv_new_file_write(srv_new_file *f, const void *data, size_t size) {
    const size_t all = size;
    for (const char *at = data; size && !f->failed;) {
        const ssize_t n = write(f->fd, at, size);
        if (n < 0 && errno != EINTR)
            f->failed = errno;
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    f->size += all - size;
    start_writing_back(f, all - size);
}

int srv_dir_sync(int dir) {
    return dir != AT_FDCWD && fsync(dir) && errno != EINVAL && errno != EBADF ? errno : 0;
}

bool srv_dir_is_gone(int dir) {
    struct stat about;
    return dir >= 0 && (fstat(dir, &about) || !about.st_nlink);
}

int srv_new_file_close(srv_new_file *f) {
    if (!f->failed && fsync(f->fd))
        f->failed = errno;
    if (!f->failed && renameat(f->dir, f->part, f->dir, f->name))
        f->failed = errno;
    if (f->failed)
        unlinkat(f->dir, f->part, 0);
    else
        f->failed = srv_dir_sync(f->dir);
    if (close(f->fd) && !f->failed)
        f->failed = errno;
    return f->failed;
}

void srv_new_file_drop(srv_new_file *f) {
    unlinkat(f->dir, f->part, 0);
    close(f->fd);
}

bool srv_is_part(const char *name) {
    const size_t n = strlen(name), m = sizeof SRV_PART - 1;
    return n > m && !strcmp(name + n - m, SRV_PART);
}

int srv_part_sweep(int dir, const char *name) {
    struct stat about;
    const int fd = srv_file_open(dir, name, false, &about);
    if (fd < 0)
        return fd == -ENOENT ? 0 : -fd;
    int failed = flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
    if (!failed && unlinkat(dir, name, 0))
        failed = errno;
    close(fd);
    return failed;
}
