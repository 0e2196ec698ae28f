/* Files in captures_dir. Clients name them, so a name must not lead out of the directory: it is a
 * relative path without "." and "..". Its components are opened one after the other, each in the
 * directory before it, and a symbolic link is refused. */
#ifndef SRV_CAPTURES_H
#define SRV_CAPTURES_H

#include <attn/checksum.h>
#include <attn/pool.h>
#include <stdbool.h>

#include "store/runs_side.h"
#include "system/files.h"

typedef struct srv_capture {
    int fd;
    srv_file_mark mark;
    /* The file belongs to the user of this process, and others can write neither the file nor its
     * directory. So only this user can change the file. */
    bool is_ours;
} srv_capture;

/* Opens a regular file below the directory `root` for reading. Returns 0 or an errno value: EINVAL
 * (the path is empty, absolute or too long, or has an empty component, ".", ".." or control
 * characters), ELOOP (the file is a symbolic link), ENOTDIR (an earlier component is no directory,
 * for example a symbolic link), EISDIR, ESPIPE or ENXIO (a pipe, a socket or a device), or another
 * one. */
int srv_capture_open(int root, const char *path, srv_capture *out);
void srv_capture_close(srv_capture *c);
/* Returns whether two marks are equal. Equal marks are of the same, unchanged file. */
bool srv_file_mark_equal(const srv_file_mark *a, const srv_file_mark *b);

/* Computes the checksums of the whole file. If `to` is not NULL, also copies the file into it. On
 * file systems that can share blocks between files, no byte is copied. Returns 0 or an errno value:
 * ESTALE (the file has changed meanwhile), ECANCELED, ETIMEDOUT (the deadline of `control` has
 * passed), or another one. */
int srv_capture_read(const srv_capture *c, srv_new_file *to, const attn_control *control,
                     attn_checksums *sums);

#endif
