#include "store/runs_side.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/files.h"

/* The largest side file in bytes: checksums of 8 TiB take 64 MiB of text. */
#define SIDE_MOST ((off_t)128 << 20)

static const char first_line[] = "attnd-run 1";

/* Reads the whole file into `text`, which has room for size + 1 bytes. Returns 0 or an errno
 * value. */
static int read_all(int fd, char *text, size_t size) {
    size_t at = 0;
    while (at < size) {
        const ssize_t n = read(fd, text + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n ? errno : EBADMSG;
        at += (size_t)n;
    }
    text[size] = 0;
    return 0;
}

/* Returns the value if the line begins with `name` and a space, else NULL. */
static const char *value_of(const char *line, const char *name) {
    const size_t n = strlen(name);
    return !strncmp(line, name, n) && line[n] == ' ' ? line + n + 1 : NULL;
}

static bool read_mark(const char *text, srv_file_mark *m) {
    int end = 0;
    return sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNd64 "%n", &m->inode, &m->size, &m->mtime_ns,
                  &end) == 3 &&
           !text[end];
}

/* Parses the text, in which line ends become NULs. Returns 0 or EBADMSG. */
static int parse(char *text, srv_runs_side *out) {
    char *rest = text, *line = strsep(&rest, "\n");
    const char *value;
    bool marked = false;
    if (strcmp(line, first_line) != 0)
        return EBADMSG;
    while ((line = strsep(&rest, "\n")) && rest) {
        if ((value = value_of(line, "owner")))
            out->owner = value;
        else if ((value = value_of(line, "token")))
            out->token = value;
        else if ((value = value_of(line, "sums")))
            out->sums = value;
        else if ((value = value_of(line, "path")))
            out->path = value;
        else if ((value = value_of(line, "mark")))
            marked = read_mark(value, &out->mark);
    }
    return out->sums && !out->path == !marked ? 0 : EBADMSG;
}

int srv_runs_side_read(int dir, const char *name, srv_runs_side *out) {
    struct stat st;
    *out = (srv_runs_side){.owner = NULL};
    const int fd = srv_file_open(dir, name, false, &st);
    if (fd < 0)
        return -fd;
    int failed = st.st_size > SIDE_MOST ? EBADMSG : 0;
    char *text = failed ? NULL : malloc((size_t)st.st_size + 1);
    if (!failed)
        failed = text ? read_all(fd, text, (size_t)st.st_size) : ENOMEM;
    close(fd);
    if (!failed)
        failed = parse(text, out);
    out->text = text;
    if (failed)
        srv_runs_side_free(out);
    return failed;
}

static void put(srv_new_file *file, const char *name, const char *value) {
    srv_new_file_write(file, name, strlen(name));
    srv_new_file_write(file, " ", 1);
    srv_new_file_write(file, value, strlen(value));
    srv_new_file_write(file, "\n", 1);
}

int srv_runs_side_write(int dir, const char *name, const srv_runs_side *side) {
    const srv_file_mark *m = &side->mark;
    srv_new_file file;
    char mark[128];
    const int failed = srv_new_file_open(&file, dir, name);
    if (failed)
        return failed;
    srv_new_file_write(&file, first_line, strlen(first_line));
    srv_new_file_write(&file, "\n", 1);
    if (side->owner)
        put(&file, "owner", side->owner);
    if (side->token)
        put(&file, "token", side->token);
    if (side->path) {
        snprintf(mark, sizeof mark, "%" PRIu64 " %" PRIu64 " %" PRId64, m->inode, m->size,
                 m->mtime_ns);
        put(&file, "path", side->path);
        put(&file, "mark", mark);
    }
    put(&file, "sums", side->sums);
    return srv_new_file_close(&file);
}

void srv_runs_side_free(srv_runs_side *side) {
    free(side->text);
    *side = (srv_runs_side){.owner = NULL};
}
