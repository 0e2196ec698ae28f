/* Side files. A run that a client has sent or named (an imported run) has a small file beside it,
 * because the metadata in its own file come from the client and cannot be trusted:
 *
 *   <id>.checks    beside <id>.safetensors, a run in runs_dir: owner and checksums <id>.adopted
 *   of a run whose file is in captures_dir: the same, and where the file is
 *
 * A side file is text with a line for each member, "name value". The last line is "check" with the
 * CRC32C of all before it. */
#ifndef SRV_RUNS_SIDE_H
#define SRV_RUNS_SIDE_H

#include <stdint.h>

/* What distinguishes a file from other files, and from the same file before a change. The number of
 * the device is left out, because it differs between machines that share a directory, and after a
 * restart. */
typedef struct srv_file_mark {
    uint64_t inode, size;
    int64_t mtime_ns, ctime_ns;
} srv_file_mark;

typedef struct srv_runs_side {
    const char *owner;  /* name of the API key that the run belongs to; NULL: none */
    const char *token;  /* the read token (SRV_RUN_TOKEN); NULL: none */
    const char *sums;   /* checksums of the file as text (attn/checksum.h) */
    const char *path;   /* path of an adopted run's file, relative to captures_dir; else NULL */
    srv_file_mark mark; /* mark of an adopted run's file */
    char *text;         /* memory of the texts above; NULL: other objects own them */
} srv_runs_side;

/* Reads the side file `name` of a directory. Returns 0 or an errno value; ENOENT: there is none;
 * EBADMSG: it is not a side file, or it was changed. */
int srv_runs_side_read(int dir, const char *name, srv_runs_side *out);
/* Writes the side file `name` durably. Returns 0 or an errno value. */
int srv_runs_side_write(int dir, const char *name, const srv_runs_side *side);
void srv_runs_side_free(srv_runs_side *side);

#endif
