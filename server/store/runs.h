/* The store of runs. A run is an attention computation with its inputs and statistics, kept so that
 * later requests can draw and analyse it. POST /v1/attention with `store` adds runs, POST /v1/runs
 * imports files that were written elsewhere, and /v1/runs/{id} reads them.
 *
 * The store counts references ("holds"). srv_run_hold adds one and srv_run_release removes it. A
 * run that is deleted, expires or is evicted meanwhile stays valid for its holders, and the last
 * release frees it.
 *
 * Without the setting runs_dir runs live in memory and count in the memory budget. With runs_dir
 * each run is one safetensors file, and all daemons that share the directory map it.
 *
 * An id has 128 random bits. Whoever knows the id may read the run. Only its owner and an admin may
 * delete a run that has an owner. Any thread may call these functions. */
#ifndef SRV_RUNS_H
#define SRV_RUNS_H

#include <attn/attn.h>

#include "request/request.h"

#define SRV_RUN_ID 32 /* length of an id: 32 hexadecimal digits, without a NUL */

typedef struct srv_runs srv_runs;

typedef struct srv_run {
    struct srv_runs_entry *entry; /* entry of the run in the store */
    char id[SRV_RUN_ID + 1];
    const attn_run *run;
    /* Whoever sends this token may read the run without an API key. NULL: there is none. */
    const char *read_token;
    size_t bytes;            /* size of the image and of the arena of `run`, in bytes */
    _Atomic int64_t ends_ns; /* when the run expires (clock of attn_now_ns); a use delays it */
    /* A generation still adds steps, and this object has the steps so far. A later srv_run_hold may
     * find more steps. */
    bool open;
    size_t rows; /* steps of the generation (so far, if `open`); 0: no generation made the run */
    /* A checksum of the header of the run's file and of the checksums beside the file, which cover
     * the rest of the file. A different run with the same id has a different print. 0: the run is
     * open. */
    uint64_t print;
} srv_run;

/* Opens the store. Returns 0. If memory runs out or runs_dir cannot be used, prints one line to
 * standard error and returns an exit code (SRV_EXIT_*). */
int srv_runs_open(srv_runs **out, const srv_config *config);
/* Removes expired runs if the last check is more than 5 s ago. Housekeeping calls this regularly.
 */
void srv_runs_tick(srv_runs *runs);
/* Returns the name of the setting whose directory was removed while the store uses it. NULL: no
 * directory was removed. */
const char *srv_runs_lost(const srv_runs *runs);
void srv_runs_free(srv_runs *runs); /* no run may be held; NULL is fine */

/* Copies the image (attn/run.h) into the store as a new run, and holds the run. NULL: a problem is
 * set. */
const srv_run *srv_run_store(srv_request *req, const attn_run_image *image);

/* An open run, to which a generation adds steps. Only this process knows the run, which is lost if
 * the process ends. */
typedef struct srv_open_run srv_open_run;
/* Opens a run under a new id. The growing run is in `arena` and has at least one step. The store
 * owns both, and the caller may add steps. The caller must end its use of the run with
 * srv_run_abandon in any case. NULL: a problem is set, and the arena is freed. */
srv_open_run *srv_run_open(srv_request *req, attn_arena *arena, attn_run_growth *growth);
const char *srv_open_run_id(const srv_open_run *run);
/* Closes the run: stores the image of all steps under its id, holds the stored run and sets *out to
 * it. *out is NULL if somebody has deleted the run. false: a problem is set. */
bool srv_run_close(srv_request *req, srv_open_run *run, const attn_run_image *image,
                   const srv_run **out);
/* Ends the generation's use of the run. If the run was not closed, removes it, and requests for its
 * id are answered with 410. NULL is fine. */
void srv_run_abandon(srv_request *req, srv_open_run *run);

/* Prepares a request whose body is a run as a file (application/vnd.safetensors). With runs_dir,
 * sets req->intake, which writes the body to that directory as it arrives. Without runs_dir, the
 * body goes into memory. `length` is the length of the body in bytes; 0: unknown. Runs on the HTTP
 * thread. false: a problem is set. */
bool srv_run_receive(srv_request *req, uint64_t length);
/* Makes a run from the body, which belongs to the client, and holds the run. NULL: a problem is
 * set. */
const srv_run *srv_run_import(srv_request *req);
/* How a file in captures_dir becomes a run: it is used where it is (MAP) or copied into runs_dir
 * (COPY). AUTO: MAP if the file belongs to the user of this process and others can write neither
 * the file nor its directory, else COPY. */
typedef enum srv_import_how { SRV_IMPORT_AUTO, SRV_IMPORT_MAP, SRV_IMPORT_COPY } srv_import_how;
/* Makes a run from a file in captures_dir and holds it. NULL: a problem is set. */
const srv_run *srv_run_import_file(srv_request *req, const char *path, srv_import_how how);
/* Checks bytes of the run's mapped file against the checksums of the file: the blocks of 1 MiB that
 * overlap the `bytes` bytes at `from`, each when it is first used. Call it before such bytes are
 * read. Does nothing for a file without checksums, or for memory outside of the file. false: a
 * problem is set. */
bool srv_run_check(srv_request *req, const srv_run *run, const void *from, size_t bytes);
/* Makes the same check without setting a problem, for answers that do not need the bytes. Returns
 * whether they are right. */
bool srv_run_is_right(const srv_run *run, const void *from, size_t bytes);
/* Finds the run with this id and holds it until srv_run_release. NULL: a problem is set: 404 (no
 * such run), 410 (the run was removed), or the file cannot be read. */
const srv_run *srv_run_hold(srv_request *req, const char *id);
/* Checks that the file of the run has not changed since its bytes were checked. (Other programs may
 * truncate it or change it in place.) Call this after the last read and before the answer is sent.
 * false: a problem is set. `run` NULL: returns true. */
bool srv_run_is_whole(srv_request *req, const srv_run *run);
void srv_run_release(srv_request *req, const srv_run *run); /* NULL is fine */
/* Removes a held run from the store, whoever owns it. Holders can use the run until they release
 * it. Returns 0 or an errno value. After an error the run is still there, or its removal may not
 * survive a crash (srv_runs_dir_delete). */
int srv_run_discard(srv_request *req, const srv_run *run);
/* Deletes the run with this id if the request is from its owner or an admin. false: a problem is
 * set. */
bool srv_run_delete(srv_request *req, const char *id);

/* An answer about a run that was computed before. A closed run never changes, so the answer stays
 * right while the run exists. Answers about open runs are not kept. */
typedef struct srv_run_answer {
    const char *type; /* media type, type_size bytes; srv_run_recall adds a NUL */
    size_t type_size;
    const char *body; /* size bytes */
    size_t size;
} srv_run_answer;

enum { SRV_RUN_ANSWERS = 4 << 20 }; /* limit of the kept answers of a run, in bytes */

/* Returns the kept answer with this key, in the request's arena. false: there is none, or none that
 * can be read. */
bool srv_run_recall(srv_request *req, const srv_run *run, const char *key, srv_run_answer *out);
/* Keeps an answer with a held run for as long as the run is kept. All answers of a run take at most
 * SRV_RUN_ANSWERS bytes; the oldest make room for new ones. Like the run, they count in runs_bytes.
 * With runs_dir they are in the file <id>.kept, so they survive a restart and all daemons share
 * them. If two daemons keep an answer at the same moment, one of the answers may be lost. false:
 * the answer cannot be kept. */
bool srv_run_remember(srv_request *req, const srv_run *run, const char *key,
                      const srv_run_answer *answer);

/* Keys of the image's metadata. A run without owner and read token has no owner, and can be read
 * only with an API key. Imported runs have both in their side files (runs_side.h), because their
 * metadata come from the client. */
#define SRV_RUN_OWNER "owner"      /* name of the owner's API key */
#define SRV_RUN_ROWS  "rows"       /* number of steps of a generation */
#define SRV_RUN_TOKEN "read_token" /* the read token */
/* Sets `to` to the metadata of a run of `owner` (the owner's name, and a new read token in the
 * arena), and *count to 2. If `owner` is NULL, sets *count to 0. false: out of memory, or the
 * system has no random numbers. */
bool srv_run_metadata_of(const char *owner, attn_arena *arena, attn_metadata to[2], size_t *count);
/* Does the same for a run that this request stores. The owner and the arena are those of the
 * request. false: a problem is set. */
bool srv_run_metadata(srv_request *req, attn_metadata to[2], size_t *count);

/* The description of a run in a list. */
typedef struct srv_run_listed {
    char id[SRV_RUN_ID + 1];
    size_t bytes;
    int64_t ends_ns;
} srv_run_listed;

/* Lists the closed runs of the request's API key, or of all keys for an admin. The runs are in the
 * order of their ids and begin after the id `after` (NULL: with the first). Stores at most `most`
 * of them in `out` and returns their number. Does not count as a use of the runs. */
size_t srv_runs_list_page(const srv_request *req, const char *after, srv_run_listed *out,
                          size_t most);

typedef struct srv_runs_state {
    size_t count, bytes;               /* number and bytes of the runs that exist now */
    uint64_t stored, evicted, expired; /* events since this process started */
} srv_runs_state;
void srv_runs_look(srv_runs *runs, srv_runs_state *out); /* for metrics */

#endif
