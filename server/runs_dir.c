/* The file's times carry what replicas must agree on: it is modified once, when it is made, and its
 * access time is set when the run is used. A writer holds a lock on its unfinished file, so that a
 * file which nobody locks is known to be left over. */
#include "runs_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "runs.h"

#define RUN  ".safetensors"
#define GONE ".gone"
#define PART ".part"

enum { NAME = SRV_RUN_ID + 16, TRIES = 16, HOUR = 3600 };

int srv_runs_dir_open(srv_runs_dir *dir, const char *path) {
    dir->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->fd < 0)
        return errno;
    return faccessat(dir->fd, ".", W_OK | X_OK, AT_EACCESS) ? errno : 0;
}

void srv_runs_dir_close(srv_runs_dir *dir) {
    if (dir->fd >= 0)
        close(dir->fd);
    dir->fd = -1;
}

static void name_of(char name[NAME], const char *id, const char *suffix) {
    snprintf(name, NAME, "%.*s%s", SRV_RUN_ID, id, suffix);
}

/* A new file under the name, locked; a sweeper may have taken it for a left-over in between. */
static int create_locked(const srv_runs_dir *dir, const char *name) {
    struct stat s;
    for (int i = 0; i < TRIES; i++) {
        int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
            return -errno;
        if (flock(fd, LOCK_EX) && errno != ENOLCK && errno != EOPNOTSUPP) {
            const int failed = errno;
            close(fd);
            return -failed;
        }
        if (!fstat(fd, &s) && s.st_nlink)
            return fd;
        close(fd);
    }
    return -EBUSY;
}

static int write_all(int fd, const char *data, size_t size) {
    while (size) {
        const ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

int srv_runs_dir_write(const srv_runs_dir *dir, const char *id, const attn_run_image *image) {
    char part[NAME], run[NAME];
    name_of(part, id, PART);
    name_of(run, id, RUN);
    int fd = create_locked(dir, part), failed = 0;
    if (fd < 0)
        return -fd;
    for (size_t i = 0; i < image->count && !failed; i++)
        failed = write_all(fd, image->pieces[i].data, image->pieces[i].size);
    if (!failed && fsync(fd))
        failed = errno;
    if (!failed && renameat(dir->fd, part, dir->fd, run))
        failed = errno;
    if (failed)
        unlinkat(dir->fd, part, 0);
    else if (fsync(dir->fd) && errno != EINVAL && errno != EBADF)
        failed = errno;
    if (close(fd) && !failed)
        failed = errno;
    return failed;
}

int srv_runs_dir_map(const srv_runs_dir *dir, const char *id, srv_mapped **out) {
    char name[NAME];
    struct stat s;
    name_of(name, id, RUN);
    int fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), failed = 0;
    if (fd < 0)
        return errno;
    if (fstat(fd, &s))
        failed = errno;
    else if (!S_ISREG(s.st_mode) || s.st_size <= 0)
        failed = ENODATA;
    if (!failed)
        failed = srv_mapped_open(fd, (size_t)s.st_size, out);
    close(fd);
    return failed;
}

static bool exists(const srv_runs_dir *dir, const char *id, const char *suffix) {
    char name[NAME];
    name_of(name, id, suffix);
    return !faccessat(dir->fd, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

bool srv_runs_dir_has(const srv_runs_dir *dir, const char *id) {
    return exists(dir, id, RUN);
}
bool srv_runs_dir_had(const srv_runs_dir *dir, const char *id) {
    return exists(dir, id, GONE);
}

void srv_runs_dir_touch(const srv_runs_dir *dir, const char *id) {
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    char name[NAME];
    name_of(name, id, RUN);
    utimensat(dir->fd, name, times, AT_SYMLINK_NOFOLLOW);
}

/* The mark comes first: no replica finds neither. */
bool srv_runs_dir_remove(const srv_runs_dir *dir, const char *id) {
    char run[NAME], gone[NAME];
    name_of(run, id, RUN);
    name_of(gone, id, GONE);
    if (!exists(dir, id, RUN))
        return false;
    int fd = openat(dir->fd, gone, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return !unlinkat(dir->fd, run, 0);
}

/* --- sweeping --- */

typedef struct file {
    char id[SRV_RUN_ID + 1];
    size_t bytes;
    int64_t made_s, used_ns;
} file;

typedef struct sweep {
    const srv_runs_dir *dir;
    int64_t now_s, ttl_s;
    file *files;
    size_t count, room;
    srv_runs_swept result;
} sweep;

static bool ends_with(const char *name, const char *suffix) {
    const size_t n = strlen(name), m = strlen(suffix);
    return n == SRV_RUN_ID + m && !strcmp(name + SRV_RUN_ID, suffix);
}

/* An unfinished file whose writer is gone. */
static void drop_part(const sweep *s, const char *name, const struct stat *st) {
    int fd = openat(s->dir->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    if (!flock(fd, LOCK_EX | LOCK_NB) ||
        (errno != EWOULDBLOCK && s->now_s - (int64_t)st->st_mtime > HOUR))
        unlinkat(s->dir->fd, name, 0);
    close(fd);
}

static void take_run(sweep *s, const char *name, const struct stat *st) {
    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 64;
        file *grown = realloc(s->files, room * sizeof *grown);
        if (!grown)
            return;
        s->files = grown;
        s->room = room;
    }
    file *f = &s->files[s->count++];
    *f = (file){.bytes = (size_t)st->st_size,
                .made_s = st->st_mtime,
                .used_ns = (int64_t)st->st_atim.tv_sec * 1000000000 + st->st_atim.tv_nsec};
    memcpy(f->id, name, SRV_RUN_ID);
}

static void look_at(sweep *s, const char *name) {
    struct stat st;
    if (fstatat(s->dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
        return;
    const int64_t age = s->now_s - (int64_t)st.st_mtime;
    if (ends_with(name, RUN))
        take_run(s, name, &st);
    else if (ends_with(name, PART))
        drop_part(s, name, &st);
    else if (ends_with(name, GONE) && age > s->ttl_s && age > HOUR)
        unlinkat(s->dir->fd, name, 0);
}

static int by_use(const void *a, const void *b) {
    const int64_t x = ((const file *)a)->used_ns, y = ((const file *)b)->used_ns;
    return x < y ? -1 : x > y;
}

static void drop_runs(sweep *s, size_t most) {
    size_t bytes = 0;
    for (size_t i = 0; i < s->count; i++)
        bytes += s->files[i].bytes;
    for (size_t i = 0; i < s->count; i++) {
        const file *f = &s->files[i];
        const bool old = s->now_s - f->made_s >= s->ttl_s, over = bytes > most;
        if (!old && !over) {
            s->result.count++;
            continue;
        }
        if (srv_runs_dir_remove(s->dir, f->id)) {
            s->result.expired += old;
            s->result.evicted += !old;
        }
        bytes -= f->bytes;
    }
    s->result.bytes = bytes;
}

void srv_runs_dir_sweep(const srv_runs_dir *dir, int64_t ttl_s, size_t most, srv_runs_swept *out) {
    sweep s = {.dir = dir, .now_s = (int64_t)time(NULL), .ttl_s = ttl_s};
    const int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    if (!list && fd >= 0)
        close(fd);
    for (struct dirent *e = list ? readdir(list) : NULL; e; e = readdir(list))
        look_at(&s, e->d_name);
    if (list)
        closedir(list);
    if (s.count)
        qsort(s.files, s.count, sizeof *s.files, by_use);
    drop_runs(&s, most);
    free(s.files);
    *out = s.result;
}
