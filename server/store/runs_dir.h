/* A directory of stored runs that several daemons may share. <id>.safetensors is a run, and
 * <id>.gone marks a removed run. A file is written under another name and renamed into place when
 * it is complete on disk, so that a reader always finds a whole run. A daemon that uses a run sets
 * the access time of its file, which informs the other daemons. Any number of threads and processes
 * may use it. */
#ifndef SRV_RUNS_DIR_H
#define SRV_RUNS_DIR_H

#include <attn/run.h>
#include <pthread.h>

#include "config/config.h"
#include "store/runs_index.h"
#include "system/mapped.h"

typedef struct srv_runs_dir {
    int fd;
    bool has_owners; /* also of runs of other processes: API keys are in use */
    int64_t ttl_ns;
    size_t most; /* bytes */
    pthread_mutex_t lock;
    srv_runs_index index;
    size_t coming;     /* bytes that this process is writing */
    size_t unfinished; /* bytes that others were writing at the last sweep */
    srv_runs_state state;
} srv_runs_dir;

/* Returns 0 or an errno value. The directory must be closed in both cases. */
int srv_runs_dir_open(srv_runs_dir *dir, const srv_config *config);
void srv_runs_dir_close(srv_runs_dir *dir);

/* Writes a run. To make room it removes the least recently used runs of the owner with the most
 * bytes. Returns 0 or an errno value; EDQUOT means that runs being written leave no room. */
int srv_runs_dir_write(srv_runs_dir *dir, const char *id, srv_owner owner,
                       const attn_run_image *image);
/* Maps the file for reading. ENOENT: there is none. ENODATA: it is empty or not a regular file. */
int srv_runs_dir_map(srv_runs_dir *dir, const char *id, srv_mapped **out);

typedef enum srv_run_presence { SRV_RUN_NEVER, SRV_RUN_GONE, SRV_RUN_THERE } srv_run_presence;
/* Records a use of the run. If the run exists, *ends_ns (attn_now_ns) is its time of expiry, which
 * some uses move. */
srv_run_presence srv_runs_dir_use(srv_runs_dir *dir, const char *id, int64_t *ends_ns);
/* Removes a run. false: there was none. */
bool srv_runs_dir_remove(srv_runs_dir *dir, const char *id);
/* Tells whether the run existed at the last scan. */
bool srv_runs_dir_knows(srv_runs_dir *dir, const char *id);
/* Reads the whole directory. Removes runs without a use for runs_ttl_s, runs beyond runs_bytes,
 * unfinished files of ended processes, and the oldest marks beyond their limit. */
void srv_runs_dir_sweep(srv_runs_dir *dir);
/* Statistics of existing and removed runs. */
void srv_runs_dir_look(srv_runs_dir *dir, srv_runs_state *out);

#endif
