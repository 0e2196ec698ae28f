/* A directory of stored runs, which several daemons may share:
 *
 *   <id>.safetensors   a stored run <id>.checks        owner and checksums of a run that a client
 *   has sent (runs_side.h) <id>.adopted       a run whose file lies in captures_dir: its path,
 *   owner and checksums <id>.kept          answers about a run of either kind, computed before
 *   (answers.h) <id>.gone          an empty file: the run with this id was removed (answer 410, not
 *   404) *.part             a run that is being written; it is renamed when it is complete on disk
 *
 * A daemon that uses a run sets the access time of its file. The other daemons read that time, so
 * they know that the run is in use. Any number of threads and processes may use the directory. */
#ifndef SRV_RUNS_DIR_H
#define SRV_RUNS_DIR_H

#include <attn/run.h>
#include <pthread.h>
#include <sys/stat.h>

#include "config/config.h"
#include "store/captures.h"
#include "store/runs_index.h"
#include "store/runs_side.h"
#include "system/mapped.h"

#define SRV_RUNS_FILE    ".safetensors"
#define SRV_RUNS_CHECKS  ".checks"
#define SRV_RUNS_ADOPTED ".adopted"
#define SRV_RUNS_KEPT    ".kept"
#define SRV_RUNS_GONE    ".gone"

/* The name of a file in the directory. */
typedef struct srv_runs_name {
    char text[SRV_RUN_ID + 16]; /* id, suffix and NUL */
} srv_runs_name;

typedef struct srv_runs_dir {
    int fd;          /* descriptor of the directory */
    int captures;    /* descriptor of captures_dir; -1: there is none */
    bool has_owners; /* API keys are in use: reads the owner of runs that other processes stored */
    int64_t ttl_ns;  /* how long a run is kept after its last use: the setting runs_ttl_ms */
    size_t most;     /* limit of all runs in bytes: the setting runs_bytes */
    pthread_mutex_t lock; /* protects the members below */
    srv_runs_index index;
    size_t coming;        /* bytes for which srv_runs_dir_reserve has made room */
    size_t arriving;      /* bytes that srv_runs_dir_expect has counted */
    size_t unfinished;    /* bytes that other processes were writing at the last sweep */
    srv_runs_state state; /* only `evicted` and `expired` */
} srv_runs_dir;

/* Opens the directory and checks that it can be written. Returns 0 or an errno value. The caller
 * must call srv_runs_dir_close even after an error. */
int srv_runs_dir_open(srv_runs_dir *dir, const srv_config *config);
void srv_runs_dir_close(srv_runs_dir *dir);
/* Opens captures_dir, if there is one. Returns 0 or an errno value. */
int srv_runs_dir_open_captures(srv_runs_dir *dir, const srv_config *config);

/* Adds a run whose file has just been written to the index. */
void srv_runs_dir_add(srv_runs_dir *dir, const char *id, srv_owner owner);
/* Makes room for a run as srv_runs_dir_reserve does, and writes its file. Returns 0 or an errno
 * value. */
int srv_runs_dir_write(srv_runs_dir *dir, const char *id, srv_owner owner,
                       const attn_run_image *image);
/* Maps the file of a run for reading, and reads its side file; side->text NULL: it has none.
 * Returns 0 or an errno value. ENOENT: there is no such file. ENODATA: the file is empty or not a
 * regular file. EBADMSG: the side file is damaged. ESTALE: the run was adopted, and its file was
 * replaced or changed. ENOLINK: the run was adopted, and this daemon has no captures_dir. */
int srv_runs_dir_map(srv_runs_dir *dir, const char *id, srv_mapped **out, srv_runs_side *side);
/* Opens the file of an adopted run. Returns 0 or an errno value; ESTALE and ENOLINK have the same
 * meaning as for srv_runs_dir_map. */
int srv_runs_dir_open_adopted(const srv_runs_dir *dir, const srv_runs_side *side, srv_capture *out);
/* Reads only the side file of a run. Returns 0 or an errno value; ENOENT: there is no side file. */
int srv_runs_dir_side(const srv_runs_dir *dir, const char *id, srv_runs_side *out);

typedef enum srv_run_presence {
    SRV_RUN_NEVER,
    SRV_RUN_GONE,
    SRV_RUN_THERE,
    SRV_RUN_UNKNOWN, /* the directory cannot be read; errno has the reason */
} srv_run_presence;
/* Looks for the run and records that it is used now. For SRV_RUN_THERE, *ends_ns is the time at
 * which the run will expire, on the clock of attn_now_ns. */
srv_run_presence srv_runs_dir_use(srv_runs_dir *dir, const char *id, int64_t *ends_ns);
/* Lists runs as srv_runs_list_page does, without reading the disk. If `owner` is NULL, lists the
 * runs of all owners. */
size_t srv_runs_dir_page(srv_runs_dir *dir, const srv_owner *owner, const char *after,
                         srv_run_listed *out, size_t most);
/* Returns whether the run has the `print` (runs.h) that it had when this process opened it before.
 * The first call for a run notes its `print` and returns true. */
bool srv_runs_dir_is_same(srv_runs_dir *dir, const char *id, uint64_t print);
/* Returns whether the run is in the index, without reading the disk. */
bool srv_runs_dir_knows(srv_runs_dir *dir, const char *id);
/* Reads the whole directory and replaces the index by what it finds. Removes
 *   runs that were not used for runs_ttl_ms,
 *   the least recently used runs beyond runs_bytes,
 *   unfinished files of ended processes, checksums and kept answers of runs that are gone,
 *   and the oldest of the <id>.gone files if there are more than 8192. */
void srv_runs_dir_sweep(srv_runs_dir *dir);
/* Sets *out to the count and bytes of the runs in the index, and to the numbers of evicted and
 * expired runs. */
void srv_runs_dir_look(srv_runs_dir *dir, srv_runs_state *out);

/* --- runs_files.c --- */

/* Returns the name of a file: the first SRV_RUN_ID characters of `id`, and the suffix. */
srv_runs_name srv_runs_dir_name(const char *id, const char *suffix);
/* Deletes a file of the run. Returns 0 or an errno value. */
int srv_runs_dir_unlink(const srv_runs_dir *dir, const char *id, const char *suffix);
/* Returns true if the run certainly has no file with this suffix. */
bool srv_runs_dir_lacks(const srv_runs_dir *dir, const char *id, const char *suffix);
/* Looks for the file of the run, <id>.safetensors or <id>.adopted. Returns its suffix and fills
 * *st. NULL: there is none (errno is ENOENT), or the directory cannot be read now. */
const char *srv_runs_dir_look_at(const srv_runs_dir *dir, const char *id, struct stat *st);
/* Returns the size in bytes of the run's file together with its kept answers. *st is the state of
 * the file. */
size_t srv_runs_dir_bytes(const srv_runs_dir *dir, const char *id, const struct stat *st);
/* Removes the run from the index. */
void srv_runs_dir_forget(srv_runs_dir *dir, const char *id);
/* Removes the file of a run and leaves <id>.gone. Returns 0 or an errno value. After an error the
 * run is still there. ENOENT: there was no such run. */
int srv_runs_dir_remove(srv_runs_dir *dir, const char *id);
/* Does what srv_runs_dir_remove does, and makes the removal durable before a client is told that
 * the run was deleted. If the run was removed but the directory could not be synced, returns an
 * errno value although the run is gone. */
int srv_runs_dir_delete(srv_runs_dir *dir, const char *id);

/* --- runs_room.c --- */

/* Counts `more` bytes that are about to be written for a run of `all` bytes, before it is known
 * whether the run will be whole and valid. Removes no run. The counted bytes are separate from the
 * bytes of finished runs: together with the unfinished bytes of other processes, they have
 * runs_bytes as a limit of their own. Returns 0 or an errno value. ENOBUFS: srv_runs_dir_reserve
 * would refuse the run now. EAGAIN: too many bytes are counted now. After 0 the caller must call
 * srv_runs_dir_expect_less when the run is complete or given up. */
int srv_runs_dir_expect(srv_runs_dir *dir, srv_owner owner, size_t all, size_t more);
void srv_runs_dir_expect_less(srv_runs_dir *dir, size_t bytes);
/* Reserves room in runs_bytes for a whole and valid run. To make room, removes runs as
 * srv_shares_choose says: always the least recently used run of the owner with the most bytes.
 * Returns 0 or an errno value. ENOBUFS: with the run, `owner` would have the most bytes and has no
 * older run to remove. In this case no run was removed. After 0 the caller must call
 * srv_runs_dir_unreserve, just before srv_runs_dir_add or when the run is given up. */
int srv_runs_dir_reserve(srv_runs_dir *dir, srv_owner owner, size_t bytes);
void srv_runs_dir_unreserve(srv_runs_dir *dir, srv_owner owner, size_t bytes);
/* Counts the bytes of the run's file and of its kept answers again, after kept answers were
 * written. Removes other runs as srv_runs_dir_reserve does. Returns 0 or an errno value. After an
 * error the new bytes are not counted. ENOBUFS has the meaning as for srv_runs_dir_reserve. ENOENT:
 * there is no such run. */
int srv_runs_dir_recount(srv_runs_dir *dir, const char *id);
/* Removes the runs beyond runs_bytes, chosen as by srv_runs_dir_reserve, after other processes have
 * written some. */
void srv_runs_dir_trim(srv_runs_dir *dir);

/* --- runs_kept.c --- */

/* Reads the kept answers of a run with this `print` as a whole image, which the caller frees with
 * attn_free. NULL: there are none, or the file cannot be read, is damaged, or belongs to another
 * run. */
void *srv_runs_dir_answers(const srv_runs_dir *dir, const char *id, uint64_t print, size_t *size);
/* Replaces the kept answers of a run by an image. Removes other runs until all fit into runs_bytes.
 * Returns 0 or an errno value; ENOENT: there is no such run. */
int srv_runs_dir_put_answers(srv_runs_dir *dir, const char *id, const void *image, size_t size);

#endif
