#include "store/runs_upload.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "store/runs_table.h"

enum {
    BUFFER = 1 << 20, /* smallest buffer of a long upload, in bytes */
    WORTH = 1 << 18,  /* number of bytes in the buffer at which the writer is woken */
    PIECES = 4,       /* smallest buffer of a long upload, in pieces of the largest size */
};

struct srv_uploads {
    srv_runs_dir *dir;
    uint64_t most; /* largest body: the setting max_capture_bytes */
    size_t piece;  /* largest piece in which bodies arrive: the setting connection_bytes */
    pthread_t writer;
    pthread_mutex_t lock;
    pthread_cond_t work;      /* signalled when the list is not empty or `ended` is set */
    pthread_cond_t done;      /* signalled when the writer has finished an upload */
    srv_upload *first, *last; /* uploads that wait for the writer */
    bool ended;
};

/* --- the HTTP thread --- */

/* Puts the upload into the writer's list, if it is not there yet. The caller has the lock. */
static void enlist_upload(srv_upload *u) {
    srv_uploads *s = u->uploads;
    if (u->queued)
        return;
    u->queued = true;
    u->next = NULL;
    *(s->first ? &s->last->next : &s->first) = u;
    s->last = u;
    pthread_cond_signal(&s->work);
}

static void copy_to_buffer(srv_upload *u, const char *data, size_t size) {
    const size_t at = (size_t)(u->taken % u->room);
    const size_t one = size < u->room - at ? size : u->room - at;
    memcpy(u->buffer + at, data, one);
    memcpy(u->buffer, data + one, size - one);
}

static size_t free_bytes(const srv_upload *u) {
    return u->room - (size_t)(u->taken - u->written);
}

static bool refuse_upload(srv_request *req, int failed) {
    srv_runs_refuse(req, NULL, failed);
    return false;
}

/* The `take` of the intake. After the connection was suspended, libmicrohttpd still passes on the
 * bytes that it has already received, in several pieces if they are chunks. The buffer has room for
 * them. Only this function changes `taken`, so the bytes can be copied without the lock. */
static bool take_upload(srv_intake *intake, srv_request *req, const char *data, size_t size) {
    srv_upload *u = (srv_upload *)intake;
    srv_uploads *s = u->uploads;
    pthread_mutex_lock(&s->lock);
    const bool fits = size <= free_bytes(u);
    const int failed = u->failed;
    pthread_mutex_unlock(&s->lock);
    if (failed)
        return refuse_upload(req, failed);
    if (!fits) { /* the connection could not be suspended */
        return srv_problem(req, SRV_DRAINING, NULL, "the server is shutting down");
    }
    copy_to_buffer(u, data, size);
    pthread_mutex_lock(&s->lock);
    u->taken += size;
    if (u->taken - u->written >= WORTH)
        enlist_upload(u);
    if (free_bytes(u) < s->piece && !u->failed && !u->asleep)
        u->asleep = u->intake.suspend(u->intake.sender);
    pthread_mutex_unlock(&s->lock);
    return true;
}

/* The `drop` of the intake. The writer removes the file, because that may take long. */
static void drop_upload(srv_intake *intake) {
    srv_upload *u = (srv_upload *)intake;
    pthread_mutex_lock(&u->uploads->lock);
    u->given_up = true;
    enlist_upload(u);
    pthread_mutex_unlock(&u->uploads->lock);
}

bool srv_upload_begin(srv_uploads *s, srv_request *req, const char *id, uint64_t length) {
    srv_upload *u = calloc(1, sizeof *u);
    size_t room = PIECES * s->piece > BUFFER ? PIECES * s->piece : BUFFER;
    if (length && length < room)
        room = (size_t)length + s->piece;
    if (!u || !(u->buffer = attn_alloc(room))) {
        free(u);
        return srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for the upload is left");
    }
    u->intake = (srv_intake){.take = take_upload,
                             .drop = drop_upload,
                             .most = s->most,
                             .setting = "max_capture_bytes",
                             .memory = room};
    u->uploads = s;
    memcpy(u->id, id, SRV_RUN_ID);
    u->name = srv_runs_dir_name(id, SRV_RUNS_FILE);
    u->owner = srv_owner_of(req->owner);
    u->announced = (size_t)length;
    u->room = room;
    req->intake = &u->intake;
    return true;
}

/* --- the writer thread --- */

/* Counts `size` more bytes of the file (srv_runs_dir_expect). Returns 0 or an errno value. */
static int expect_bytes(srv_upload *u, size_t size) {
    const size_t bytes = u->expected + size, all = bytes > u->announced ? bytes : u->announced;
    const int failed = srv_runs_dir_expect(u->uploads->dir, u->owner, all, size);
    u->expected += failed ? 0 : size;
    return failed;
}

/* Adds bytes to the checksums. Returns 0 or ENOMEM. */
static int add_sums(srv_upload *u, const char *data, size_t size) {
    for (size_t n; size; size -= n, data += n) {
        const size_t block = (size_t)(u->summed / ATTN_CHECKSUM_BLOCK),
                     at = (size_t)(u->summed % ATTN_CHECKSUM_BLOCK);
        if (block == u->sums_room) {
            const size_t room = u->sums_room ? 2 * u->sums_room : 64;
            uint32_t *grown = realloc(u->sums, room * sizeof *grown);
            if (!grown)
                return ENOMEM;
            u->sums = grown;
            u->sums_room = room;
        }
        n = size < ATTN_CHECKSUM_BLOCK - at ? size : ATTN_CHECKSUM_BLOCK - at;
        u->sums[block] = attn_crc32c(at ? u->sums[block] : 0, data, n);
        u->summed += n;
    }
    return 0;
}

/* Writes `size` bytes of the buffer, which lie in one piece at `data`. Returns 0 or an errno value.
 * Needs no lock, because only the writer uses these members. */
static int write_piece(srv_upload *u, const char *data, size_t size) {
    int failed = expect_bytes(u, size);
    if (!failed && !u->begun) {
        failed = srv_new_file_open(&u->file, u->uploads->dir->fd, u->name.text);
        u->begun = !failed;
    }
    if (failed)
        return failed;
    srv_new_file_write(&u->file, data, size);
    return u->file.failed ? u->file.failed : add_sums(u, data, size);
}

static void resume_sender(srv_upload *u) {
    if (!u->asleep)
        return;
    u->asleep = false;
    u->intake.resume(u->intake.sender);
}

/* Writes the bytes in the buffer to the file. The caller has the lock, which is released
 * meanwhile. */
static void write_buffer(srv_upload *u) {
    srv_uploads *s = u->uploads;
    while (!u->given_up && !u->failed && u->taken > u->written) {
        const size_t at = (size_t)(u->written % u->room), all = (size_t)(u->taken - u->written),
                     size = all < u->room - at ? all : u->room - at;
        pthread_mutex_unlock(&s->lock);
        const int failed = write_piece(u, u->buffer + at, size);
        pthread_mutex_lock(&s->lock);
        u->failed = failed;
        u->written += failed ? 0 : size;
        if (free_bytes(u) >= u->room / 2 || failed)
            resume_sender(u);
    }
    resume_sender(u);
}

void srv_upload_free(srv_upload *u) {
    if (u->begun)
        srv_new_file_drop(&u->file);
    srv_runs_dir_expect_less(u->uploads->dir, u->expected);
    attn_free(u->buffer);
    free(u->sums);
    free(u);
}

static void serve_upload(srv_uploads *s, srv_upload *u) {
    write_buffer(u);
    u->queued = false;
    const bool gone = u->given_up;
    pthread_cond_broadcast(&s->done);
    if (!gone)
        return;
    pthread_mutex_unlock(&s->lock);
    srv_upload_free(u);
    pthread_mutex_lock(&s->lock);
}

static void *write_uploads(void *of) {
    srv_uploads *s = of;
    pthread_mutex_lock(&s->lock);
    while (s->first || !s->ended) {
        srv_upload *u = s->first;
        if (!u) {
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        s->first = u->next;
        serve_upload(s, u);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int srv_upload_finish(srv_upload *u) {
    srv_uploads *s = u->uploads;
    pthread_mutex_lock(&s->lock);
    if (u->taken > u->written)
        enlist_upload(u);
    while (u->queued)
        pthread_cond_wait(&s->done, &s->lock);
    const int failed = u->failed;
    pthread_mutex_unlock(&s->lock);
    return failed;
}

srv_uploads *srv_uploads_new(srv_runs_dir *dir, const srv_config *config) {
    srv_uploads *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->dir = dir;
    s->most = (uint64_t)config->max_capture_bytes;
    s->piece = (size_t)config->connection_bytes;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->done, NULL);
    if (!pthread_create(&s->writer, NULL, write_uploads, s))
        return s;
    pthread_cond_destroy(&s->done);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

void srv_uploads_free(srv_uploads *s) {
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->writer, NULL);
    pthread_cond_destroy(&s->done);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
