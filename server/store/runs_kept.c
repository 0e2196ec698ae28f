/* The files of kept answers in a directory of runs. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "store/answers.h"
#include "store/runs_dir.h"
#include "system/files.h"

void *srv_runs_dir_answers(const srv_runs_dir *dir, const char *id, uint64_t print, size_t *size) {
    struct stat st;
    *size = 0;
    const int fd = srv_file_open(dir->fd, srv_runs_dir_name(id, SRV_RUNS_KEPT).text, false, &st);
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
    const srv_runs_name name = srv_runs_dir_name(id, SRV_RUNS_KEPT);
    srv_new_file file;
    int failed = srv_new_file_open(&file, dir->fd, name.text);
    if (failed)
        return failed;
    srv_new_file_write(&file, image, size);
    failed = srv_new_file_close(&file);
    if (!failed && (failed = srv_runs_dir_recount(dir, id)) != 0)
        srv_runs_dir_unlink(dir, id, SRV_RUNS_KEPT);
    return failed;
}
