/* The files of one run in a directory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "store/runs_dir.h"
#include "system/files.h"

srv_runs_name srv_runs_dir_name(const char *id, const char *suffix) {
    srv_runs_name name;
    snprintf(name.text, sizeof name.text, "%.*s%s", SRV_RUN_ID, id, suffix);
    return name;
}

bool srv_runs_dir_lacks(const srv_runs_dir *dir, const char *id, const char *suffix) {
    return srv_file_lacks(dir->fd, srv_runs_dir_name(id, suffix).text);
}

const char *srv_runs_dir_look_at(const srv_runs_dir *dir, const char *id, struct stat *st) {
    static const char *const suffixes[] = {SRV_RUNS_FILE, SRV_RUNS_ADOPTED};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (!fstatat(dir->fd, srv_runs_dir_name(id, suffixes[i]).text, st, AT_SYMLINK_NOFOLLOW))
            return suffixes[i];
        if (srv_file_judge(errno) == SRV_FILE_TROUBLE)
            return NULL;
    }
    errno = ENOENT;
    return NULL;
}

size_t srv_runs_dir_bytes(const srv_runs_dir *dir, const char *id, const struct stat *st) {
    struct stat kept;
    const bool has_kept =
        !fstatat(dir->fd, srv_runs_dir_name(id, SRV_RUNS_KEPT).text, &kept, AT_SYMLINK_NOFOLLOW);
    return (size_t)st->st_size + (has_kept ? (size_t)kept.st_size : 0);
}

int srv_runs_dir_unlink(const srv_runs_dir *dir, const char *id, const char *suffix) {
    return unlinkat(dir->fd, srv_runs_dir_name(id, suffix).text, 0) ? errno : 0;
}

/* Removes the files of the run. Creates <id>.gone first, so that other daemons always find either
 * the run or this file. On a full disk this fails, and the run is removed nevertheless. Deletes
 * <id>.checks last, so that no daemon finds a run without its checksums. Returns 0 or an errno
 * value; ENOENT: there was no such run. */
static int remove_file(const srv_runs_dir *dir, const char *id) {
    struct stat st;
    const char *suffix = srv_runs_dir_look_at(dir, id, &st);
    if (!suffix)
        return errno;
    const int fd = openat(dir->fd, srv_runs_dir_name(id, SRV_RUNS_GONE).text,
                          O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    const int failed = srv_runs_dir_unlink(dir, id, suffix);
    if (failed && failed != ENOENT)
        srv_runs_dir_unlink(dir, id, SRV_RUNS_GONE);
    if (failed)
        return failed;
    srv_runs_dir_unlink(dir, id, SRV_RUNS_KEPT);
    srv_runs_dir_unlink(dir, id, SRV_RUNS_CHECKS);
    return 0;
}

void srv_runs_dir_forget(srv_runs_dir *dir, const char *id) {
    pthread_mutex_lock(&dir->lock);
    srv_runs_item *item = srv_runs_index_find(&dir->index, id);
    if (item)
        srv_runs_index_remove(&dir->index, item);
    pthread_mutex_unlock(&dir->lock);
}

int srv_runs_dir_remove(srv_runs_dir *dir, const char *id) {
    const int failed = remove_file(dir, id);
    if (!failed || failed == ENOENT)
        srv_runs_dir_forget(dir, id);
    return failed;
}

int srv_runs_dir_delete(srv_runs_dir *dir, const char *id) {
    const int failed = srv_runs_dir_remove(dir, id);
    return failed ? failed : srv_dir_sync(dir->fd);
}
