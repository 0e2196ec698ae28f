/* The file's times carry what replicas must agree on: it is modified once, when it is made, and its
 * access time is set when the run is used. */
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

#include "files.h"
#include "runs.h"

#define RUN  ".safetensors"
#define GONE ".gone"

enum { NAME = SRV_RUN_ID + 16, HOUR = 3600 };

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

int srv_runs_dir_write(const srv_runs_dir *dir, const char *id, const attn_run_image *image) {
    char run[NAME];
    srv_new_file file;
    name_of(run, id, RUN);
    const int failed = srv_new_file_open(&file, dir->fd, run);
    if (failed)
        return failed;
    for (size_t i = 0; i < image->count; i++)
        srv_new_file_write(&file, image->pieces[i].data, image->pieces[i].size);
    return srv_new_file_close(&file);
}

int srv_runs_dir_map(const srv_runs_dir *dir, const char *id, srv_mapped **out) {
    char name[NAME];
    struct stat s;
    name_of(name, id, RUN);
    const int fd = srv_file_open(dir->fd, name, false, &s);
    if (fd < 0)
        return fd == -EISDIR || fd == -ESPIPE || fd == -ELOOP ? ENODATA : -fd;
    const int failed = s.st_size ? srv_mapped_open(fd, (size_t)s.st_size, out) : ENODATA;
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
    size_t unfinished; /* bytes of files that are being written */
    srv_runs_swept result;
} sweep;

static bool ends_with(const char *name, const char *suffix) {
    const size_t n = strlen(name), m = strlen(suffix);
    return n == SRV_RUN_ID + m && !strcmp(name + SRV_RUN_ID, suffix);
}

/* An unfinished file counts as long as it is written; one that nobody has touched for an hour goes,
 * where there are no locks. */
static void look_at_part(sweep *s, const char *name, const struct stat *st) {
    if (s->now_s - (int64_t)st->st_mtime > HOUR)
        unlinkat(s->dir->fd, name, 0);
    else if (!srv_part_sweep(s->dir->fd, name))
        s->unfinished += (size_t)st->st_size;
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
    else if (srv_is_part(name))
        look_at_part(s, name, &st);
    else if (ends_with(name, GONE) && age > s->ttl_s && age > HOUR)
        unlinkat(s->dir->fd, name, 0);
}

static int by_use(const void *a, const void *b) {
    const int64_t x = ((const file *)a)->used_ns, y = ((const file *)b)->used_ns;
    return x < y ? -1 : x > y;
}

static void drop_runs(sweep *s, size_t most) {
    size_t bytes = s->unfinished;
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
