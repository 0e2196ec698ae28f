#include "store/captures.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "system/clock.h"

/* --- opening --- */

static bool is_plain(const char *name, size_t size) {
    return size > 0 && size <= NAME_MAX && strncmp(name, ".", size) != 0 &&
           (size != 2 || strncmp(name, "..", 2) != 0);
}

/* Copies the next component of the path into `name` and moves *path behind it and its slash. false:
 * it is not a plain component. */
static bool next_name(const char **path, char name[NAME_MAX + 1]) {
    const size_t n = strcspn(*path, "/");
    if (!is_plain(*path, n))
        return false;
    memcpy(name, *path, n);
    name[n] = 0;
    *path += n + ((*path)[n] == '/');
    return true;
}

static bool has_controls(const char *path) {
    while (*path && (unsigned char)*path >= 0x20 && *path != 0x7f)
        path++;
    return *path != 0;
}

static srv_file_mark mark_of(const struct stat *st) {
    return (srv_file_mark){
        .inode = st->st_ino,
        .size = (uint64_t)st->st_size,
        .mtime_ns = srv_ns_of(&st->st_mtim),
        .ctime_ns = srv_ns_of(&st->st_ctim),
    };
}

bool srv_file_mark_equal(const srv_file_mark *a, const srv_file_mark *b) {
    return a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns;
}

static bool is_own(const struct stat *st) {
    return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* Opens the last component of the path. `dir` is its directory. */
static int open_last(int dir, const char *name, srv_capture *out) {
    struct stat holder, st;
    if (fstat(dir, &holder))
        return errno;
    out->fd = srv_file_open(dir, name, false, &st);
    if (out->fd < 0)
        return -out->fd;
    out->mark = mark_of(&st);
    out->is_ours = is_own(&st) && is_own(&holder);
    return 0;
}

/* Each directory is opened from the one before it and never through a symbolic link. Therefore no
 * change of the directories at the same time can lead out of `root`. */
int srv_capture_open(int root, const char *path, srv_capture *out) {
    char name[NAME_MAX + 1];
    const size_t size = strlen(path);
    if (!size || size >= PATH_MAX || path[size - 1] == '/' || has_controls(path))
        return EINVAL;
    int dir = root, failed = 0;
    while (!failed && (failed = next_name(&path, name) ? 0 : EINVAL) == 0 && *path) {
        const int next = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        failed = next < 0 ? errno : 0;
        if (dir != root)
            close(dir);
        dir = next;
    }
    if (!failed)
        failed = open_last(dir, name, out);
    if (dir >= 0 && dir != root)
        close(dir);
    return failed;
}

void srv_capture_close(srv_capture *c) {
    close(c->fd);
    c->fd = -1;
}

/* Returns whether the open file is unchanged since it was opened, according to its size and
 * times. */
static bool is_steady(const srv_capture *c) {
    struct stat st;
    if (fstat(c->fd, &st))
        return false;
    const srv_file_mark now = mark_of(&st);
    return srv_file_mark_equal(&c->mark, &now);
}

/* --- reading --- */

enum { STEP = ATTN_CHECKSUM_BLOCK }; /* number of bytes that are read at once */

static int stop_reason(const attn_control *control) {
    attn_error err;
    const attn_status status = attn_control_check(control, &err);
    return status == ATTN_OK ? 0 : status == ATTN_EDEADLINE ? ETIMEDOUT : ECANCELED;
}

/* Reads `size` bytes from the start of `fd`, adds them to the checksums and, if `to` is not NULL,
 * appends them to that file. */
static int read_blocks(int fd, size_t size, srv_new_file *to, const attn_control *control,
                       attn_checksums *sums) {
    char *block = attn_alloc(STEP);
    int failed = block ? 0 : ENOMEM;
    for (size_t at = 0; at < size && !failed;) {
        const ssize_t n = pread(fd, block, STEP < size - at ? STEP : size - at, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        failed = n < 0 ? errno : n == 0 ? ESTALE : stop_reason(control);
        if (failed)
            break;
        attn_checksums_add(sums, block, (size_t)n);
        if (to)
            srv_new_file_write(to, block, (size_t)n);
        failed = to ? to->failed : 0;
        at += (size_t)n;
    }
    attn_free(block);
    return failed;
}

int srv_capture_read(const srv_capture *c, srv_new_file *to, const attn_control *control,
                     attn_checksums *sums) {
    const size_t size = (size_t)c->mark.size;
    const bool shared = to && !ioctl(to->fd, FICLONE, c->fd);
    /* If the blocks are shared, the copy does not change when the file is changed afterwards. */
    const int failed = shared ? read_blocks(to->fd, size, NULL, control, sums)
                              : read_blocks(c->fd, size, to, control, sums);
    return failed ? failed : is_steady(c) ? 0 : ESTALE;
}
