/* The files of kept answers in a directory of runs. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "store/answers.h"
#include "store/runs_dir.h"
#include "system/files.h"

void *srv_runs_dir_answers(const srv_runs_dir *dir, const char *id, uint64_t print, size_t *size) {
    char name[SRV_RUNS_NAME];
    struct stat st;
    srv_runs_dir_name(name, id, SRV_RUNS_KEPT);
    *size = 0;
    const int fd = srv_file_open(dir->fd, name, false, &st);
    if (fd < 0)
        return NULL;
    const bool fits = st.st_size > 0 && st.st_size <= SRV_RUN_ANSWERS;
    char *image = fits ? attn_alloc((size_t)st.st_size) : NULL;
    ssize_t n = 1;
    while (image && *size < (size_t)st.st_size && n > 0) {
        n = read(fd, image + *size, (size_t)st.st_size - *size);
        *size += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    if (image && srv_answers_are_whole(image, *size, print))
        return image;
    attn_free(image);
    *size = 0;
    return NULL;
}

int srv_runs_dir_put_answers(srv_runs_dir *dir, const char *id, const void *image, size_t size) {
    char name[SRV_RUNS_NAME];
    srv_new_file file;
    srv_runs_dir_name(name, id, SRV_RUNS_KEPT);
    int failed = srv_new_file_open(&file, dir->fd, name);
    if (failed)
        return failed;
    srv_new_file_write(&file, image, size);
    failed = srv_new_file_close(&file);
    if (!failed && (failed = srv_runs_dir_recount(dir, id)) != 0)
        unlinkat(dir->fd, name, 0);
    return failed;
}
