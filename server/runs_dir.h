/* A directory of stored runs that several daemons may share: <id>.safetensors a run, <id>.gone
 * where one was. A file is written under another name and renamed into place when all of it is on
 * disk, so whoever opens a run finds a whole one. Any thread, any number of processes. */
#ifndef SRV_RUNS_DIR_H
#define SRV_RUNS_DIR_H

#include <attn/run.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mapped.h"

typedef struct srv_runs_dir {
    int fd;
} srv_runs_dir;

/* 0 or an errno value. */
int srv_runs_dir_open(srv_runs_dir *dir, const char *path);
void srv_runs_dir_close(srv_runs_dir *dir);

int srv_runs_dir_write(const srv_runs_dir *dir, const char *id, const attn_run_image *image);
/* The file mapped for reading; ENOENT: there is none. ENODATA: it is empty, or no file. */
int srv_runs_dir_map(const srv_runs_dir *dir, const char *id, srv_mapped **out);
bool srv_runs_dir_has(const srv_runs_dir *dir, const char *id);
bool srv_runs_dir_had(const srv_runs_dir *dir, const char *id); /* was there one once? */
/* It was used now. */
void srv_runs_dir_touch(const srv_runs_dir *dir, const char *id);
/* false: there was none. */
bool srv_runs_dir_remove(const srv_runs_dir *dir, const char *id);

typedef struct srv_runs_swept {
    size_t count, bytes, expired, evicted; /* what is left; what went */
} srv_runs_swept;
/* Remove what is older than ttl_s, then the least recently used until at most `most` bytes are
 * left, and what writers that died have left behind. */
void srv_runs_dir_sweep(const srv_runs_dir *dir, int64_t ttl_s, size_t most, srv_runs_swept *out);

#endif
