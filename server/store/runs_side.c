#include "store/runs_side.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <attn/checksum.h>

#include "system/files.h"

/* The largest side file in bytes: checksums of 8 TiB take 64 MiB of text. */
#define SIDE_MOST ((off_t)128 << 20)

static const char first_line[] = "attnd-run 2";

#define CHECK "check "
enum { CHECK_SIZE = sizeof CHECK - 1 + 8 + 1 }; /* bytes of the last line, with 8 digits and \n */

/* Reads the whole file into `text`, which has room for size + 1 bytes. Returns 0 or an errno
 * value. */
static int read_all(int fd, char *text, size_t size) {
    size_t used = 0;
    const int failed = srv_file_fill(fd, text, size, &used);
    text[used] = 0;
    return failed || used == size ? failed : EBADMSG;
}

/* Returns the value if the line begins with `name` and a space, else NULL. */
static const char *value_of(const char *line, const char *name) {
    const size_t n = strlen(name);
    return !strncmp(line, name, n) && line[n] == ' ' ? line + n + 1 : NULL;
}

static bool read_mark(const char *text, srv_file_mark *m) {
    int end = 0;
    return sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNd64 " %" SCNd64 "%n", &m->inode, &m->size,
                  &m->mtime_ns, &m->ctime_ns, &end) == 4 &&
           !text[end];
}

static void write_check(char line[CHECK_SIZE + 1], uint32_t sum) {
    snprintf(line, CHECK_SIZE + 1, CHECK "%08x\n", (unsigned)sum);
}

/* Returns whether the text ends with its checksum line and the checksum is right. */
static bool is_whole(const char *text, size_t size) {
    char line[CHECK_SIZE + 1];
    if (size < CHECK_SIZE)
        return false;
    write_check(line, attn_crc32c(0, text, size - CHECK_SIZE));
    return !memcmp(text + size - CHECK_SIZE, line, CHECK_SIZE);
}

/* Parses the text. Replaces its line ends by NULs. Returns 0 or EBADMSG. */
static int parse_side(char *text, size_t size, srv_runs_side *out) {
    if (!is_whole(text, size))
        return EBADMSG;
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
        failed = parse_side(text, (size_t)st.st_size, out);
    out->text = text;
    if (failed)
        srv_runs_side_free(out);
    return failed;
}

/* A side file that is being written, and the checksum of its text so far. */
typedef struct writer {
    srv_new_file file;
    uint32_t sum;
} writer;

static void put_text(writer *w, const char *text) {
    srv_new_file_write(&w->file, text, strlen(text));
    w->sum = attn_crc32c(w->sum, text, strlen(text));
}

static void put_line(writer *w, const char *name, const char *value) {
    put_text(w, name);
    put_text(w, " ");
    put_text(w, value);
    put_text(w, "\n");
}

int srv_runs_side_write(int dir, const char *name, const srv_runs_side *side) {
    const srv_file_mark *m = &side->mark;
    writer w = {.sum = 0};
    char mark[128], check[CHECK_SIZE + 1];
    const int failed = srv_new_file_open(&w.file, dir, name);
    if (failed)
        return failed;
    put_text(&w, first_line);
    put_text(&w, "\n");
    if (side->owner)
        put_line(&w, "owner", side->owner);
    if (side->token)
        put_line(&w, "token", side->token);
    if (side->path) {
        snprintf(mark, sizeof mark, "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64, m->inode,
                 m->size, m->mtime_ns, m->ctime_ns);
        put_line(&w, "path", side->path);
        put_line(&w, "mark", mark);
    }
    put_line(&w, "sums", side->sums);
    write_check(check, w.sum);
    put_text(&w, check);
    return srv_new_file_close(&w.file);
}

void srv_runs_side_free(srv_runs_side *side) {
    free(side->text);
    *side = (srv_runs_side){.owner = NULL};
}
