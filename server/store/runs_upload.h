/* Uploads of runs: intakes (request/intake.h) that write a body to a .part file in runs_dir.
 *
 *   HTTP thread   take: copies a piece into the upload's buffer       writer   writes the buffer to
 *                 and suspends the connection if it is full    ---->  thread   the file, computes
 *                                                                              checksums, resumes
 *
 * Therefore a long body needs little memory, and a slow disk does not block the HTTP thread. There
 * is one writer thread. It also checks that there is room in runs_bytes, and removes the files of
 * abandoned uploads. The handler waits until all bytes are written. It then works on the file,
 * which is not synced yet and is still called <id>.safetensors.part. */
#ifndef SRV_RUNS_UPLOAD_H
#define SRV_RUNS_UPLOAD_H

#include "request/intake.h"
#include "store/runs_dir.h"
#include "system/files.h"

typedef struct srv_uploads srv_uploads; /* the writer thread and its list */

typedef struct srv_upload {
    srv_intake intake; /* must be first, because a srv_intake * is cast to a srv_upload * */
    srv_uploads *uploads;
    struct srv_upload *next; /* in the writer's list */
    char id[SRV_RUN_ID + 1];
    srv_runs_name name;
    srv_owner owner;
    srv_new_file file; /* open if `begun` */
    size_t announced;  /* length of the body; 0: unknown */
    size_t expected;   /* bytes that srv_runs_dir_expect has counted */
    uint32_t *sums;    /* checksums of the blocks written so far (attn/checksum.h) */
    size_t sums_room;  /* number of elements for which `sums` has room */
    uint64_t summed;   /* number of bytes that the checksums cover */

    /* The lock of `uploads` protects these members. The bytes from `written` to `taken` are in the
     * buffer, byte i at buffer[i % room]. */
    char *buffer;
    size_t room;
    uint64_t taken, written; /* number of received bytes, and of bytes in the file */
    bool begun;              /* the file is open */
    bool queued;             /* in the writer's list, or the writer is working on it */
    bool asleep;             /* the connection is suspended */
    bool given_up;
    int failed; /* errno value of the first failure; 0: none */
} srv_upload;

/* Starts the writer thread. NULL: out of memory or threads. */
srv_uploads *srv_uploads_new(srv_runs_dir *dir, const srv_config *config);
/* Ends the writer thread after it has handled all uploads in its list. NULL is fine. */
void srv_uploads_free(srv_uploads *uploads);

/* Makes an upload of `length` bytes (0: unknown) with this id and sets req->intake. false: a
 * problem is set. */
bool srv_upload_begin(srv_uploads *uploads, srv_request *req, const char *id, uint64_t length);
/* Waits until all bytes of a complete body are in the file. Returns 0 or the errno value of the
 * first failure. */
int srv_upload_finish(srv_upload *u);
/* Frees an upload whose `drop` will not be called, with its file if `begun` is still set. */
void srv_upload_free(srv_upload *u);

#endif
