/* The files of jobs in jobs_dir (jobs.h lists them). Files are written under a temporary name and
 * renamed into place. The directory is locked while a service uses it, because two services would
 * run the same jobs.
 *
 * A description begins with {"version":2,"checksum":"…", where the checksum is the CRC32C of the
 * whole text with "00000000" in the place of its digits. "files" are the suffixes and checksums of
 * the files that hold the result of an experiment. Descriptions of version 1, which older programs
 * wrote, have none of the three. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/job.h"
#include "request/shared.h"
#include "system/files.h"
#include "wire/scan.h"

#define DESCRIPTION ".json"
#define ASIDE       ".damaged" /* is appended to the name of a description that cannot be read */
#define LEAD        "job-"
#define VERSION     "{\"version\":"
#define CHECKSUM    ",\"checksum\":\""
#define ZEROS       "00000000" /* stands for the digits of the checksum while it is computed */

enum {
    MOST_FILE = 1 << 23,   /* largest file that is read, in bytes */
    ARENA = 1 << 24,       /* arena limit for reading or writing a description, in bytes */
    NAME = 128,            /* buffer size of a file name */
    NEWEST = 2,            /* the version of descriptions that are written */
    PAUSE_NS = 1000000000, /* between two tries to read what could not be read for trouble */
    DIGITS = sizeof ZEROS - 1,
};

bool srv_jobs_dir_path(const srv_jobs *jobs, const char *id, const char *suffix,
                       char path[JOB_PATH]) {
    path[0] = 0;
    return jobs->dir >= 0 &&
           snprintf(path, JOB_PATH, "%s/%s%s", jobs->config->jobs_dir, id, suffix) < JOB_PATH;
}

bool srv_jobs_lost(const srv_jobs *jobs) {
    return srv_dir_is_gone(jobs->dir);
}

const char *srv_jobs_dir_place(const srv_jobs *jobs, const char *where) {
    const attn_error *err = NULL;
    const size_t most = sizeof err->where - 1, size = strlen(jobs->config->jobs_dir),
                 n = size < most ? size : most;
    if (!n || strncmp(where, jobs->config->jobs_dir, n) != 0 || (where[n] && where[n] != '/'))
        return where;
    return where + n + (where[n] == '/');
}

/* --- writing --- */

/* Writes the file <id><suffix>. Returns 0 or an errno value. */
static int put(const srv_jobs *jobs, const char *id, const char *suffix, const char *data,
               size_t size) {
    char name[NAME];
    srv_new_file file;
    snprintf(name, sizeof name, "%s%s", id, suffix);
    const int failed = srv_new_file_open(&file, jobs->dir, name);
    if (failed)
        return failed;
    srv_new_file_write(&file, data, size);
    return srv_new_file_close(&file);
}

static bool log_failure(srv_jobs *jobs, const srv_job_entry *e, int failed) {
    if (!failed)
        return true;
    srv_log_event(jobs->log, SRV_LOG_ERROR, "jobs_dir: %s cannot be written: %s", e->id,
                  strerror(failed));
    return false;
}

bool srv_jobs_dir_put(srv_jobs *jobs, const srv_job_entry *e, const char *suffix,
                      const srv_piece *data) {
    return jobs->dir < 0 || log_failure(jobs, e, put(jobs, e->id, suffix, data->data, data->size));
}

/* Writes an element of "files". A file of the result that could not be read is left out. */
static void put_sum(attn_json_text *j, const char *suffix, const srv_piece *piece) {
    char text[NAME];
    if (!piece->data)
        return;
    snprintf(text, sizeof text, "%08x %.96s", (unsigned)attn_crc32c(0, piece->data, piece->size),
             suffix);
    attn_json_string(j, text);
}

static void put_sums(attn_json_text *j, const srv_job_entry *e) {
    const srv_job_result *r = &e->result;
    attn_json_key(j, "files");
    attn_json_array(j);
    put_sum(j, SRV_JOB_FINDINGS, &r->json);
    put_sum(j, SRV_JOB_TEXT, &r->text);
    for (size_t i = 0; r->svgs && i < e->facts.pictures.count; i++) {
        char suffix[SRV_JOB_SUFFIX];
        srv_job_picture_suffix(e->facts.pictures.values[i], suffix);
        put_sum(j, suffix, &r->svgs[i]);
    }
    attn_json_array_end(j);
}

/* Writes the description with zeros as its checksum. */
static void put_description(attn_json_text *j, const srv_job_entry *e) {
    attn_json_object(j);
    attn_json_key(j, "version");
    attn_json_int(j, NEWEST);
    attn_json_key(j, "checksum");
    attn_json_string(j, ZEROS);
    attn_json_key(j, "request");
    srv_job_write_request(j, &e->body);
    attn_json_key(j, "facts");
    attn_json_object(j);
    srv_job_write_facts(j, &e->facts);
    attn_json_object_end(j);
    put_sums(j, e);
    attn_json_object_end(j);
}

/* Returns where the digits of the checksum stand in a description of the given size, and sets
 * *version. Version 1 has no checksum: NULL. Returns NULL and sets *version to 0 if a description
 * begins in neither way. */
static char *find_checksum(const char *text, size_t size, unsigned long *version) {
    char *end = NULL;
    *version = strncmp(text, VERSION, sizeof VERSION - 1) ? 1 : 0;
    if (!*version && text[sizeof VERSION - 1] >= '1' && text[sizeof VERSION - 1] <= '9')
        *version = strtoul(text + sizeof VERSION - 1, &end, 10);
    if (!end || strncmp(end, CHECKSUM, sizeof CHECKSUM - 1) ||
        (size_t)(text + size - end) < sizeof CHECKSUM - 1 + DIGITS) {
        *version = end ? 0 : *version;
        return NULL;
    }
    return end + sizeof CHECKSUM - 1;
}

static void checksum_of(const char *text, size_t size, const char *digits, char out[DIGITS + 1]) {
    const size_t before = (size_t)(digits - text), after = before + DIGITS;
    uint32_t sum = attn_crc32c(0, text, before);
    sum = attn_crc32c(sum, ZEROS, DIGITS);
    snprintf(out, DIGITS + 1, "%08x", (unsigned)attn_crc32c(sum, text + after, size - after));
}

bool srv_jobs_is_writing(srv_jobs *jobs) {
    return atomic_load(&jobs->writing) > 0;
}

int srv_jobs_dir_save(srv_jobs *jobs, const srv_job_entry *e) {
    if (jobs->dir < 0 || e->look)
        return 0;
    srv_request req = {.arena = attn_arena_new(ARENA)};
    int failed = ENOMEM;
    if (req.arena) {
        attn_json_text j;
        unsigned long version;
        char sum[DIGITS + 1];
        srv_json_begin(&j, &req);
        put_description(&j, e);
        atomic_fetch_add(&jobs->writing, 1);
        if (srv_json_end(&j)) {
            char *digits = find_checksum(req.reply.body, req.reply.size, &version);
            checksum_of(req.reply.body, req.reply.size, digits, sum);
            memcpy(digits, sum, DIGITS);
            failed = put(jobs, e->id, DESCRIPTION, req.reply.body, req.reply.size);
        }
        atomic_fetch_sub(&jobs->writing, 1);
    }
    attn_arena_free(req.arena);
    log_failure(jobs, e, failed);
    return failed;
}

/* --- removing --- */

/* The files of a job beside its description and its pictures. */
static const char *const suffixes[] = {SRV_JOB_CHECKPOINT, SRV_JOB_MODEL, SRV_JOB_FINDINGS,
                                       SRV_JOB_TEXT};
enum { SUFFIXES = sizeof suffixes / sizeof *suffixes };

/* Removes a file of the job, if there is one. Returns 0 or an errno value. */
static int remove_file(const srv_jobs *jobs, const char *id, const char *suffix) {
    char name[NAME];
    snprintf(name, sizeof name, "%s%s", id, suffix);
    return unlinkat(jobs->dir, name, 0) && errno != ENOENT ? errno : 0;
}

int srv_jobs_dir_drop(srv_jobs *jobs, const srv_job_entry *e, const char *suffix) {
    if (jobs->dir < 0)
        return 0;
    const int failed = remove_file(jobs, e->id, suffix);
    return failed ? failed : srv_dir_sync(jobs->dir);
}

static int remove_files(const srv_jobs *jobs, const srv_job_entry *e) {
    int failed = 0;
    for (size_t i = 0; i < SUFFIXES && !failed; i++)
        failed = remove_file(jobs, e->id, suffixes[i]);
    for (size_t i = 0; i < e->facts.pictures.count && !failed; i++) {
        char suffix[SRV_JOB_SUFFIX];
        srv_job_picture_suffix(e->facts.pictures.values[i], suffix);
        failed = remove_file(jobs, e->id, suffix);
    }
    return failed;
}

int srv_jobs_dir_remove(srv_jobs *jobs, const srv_job_entry *e) {
    if (jobs->dir < 0 || e->look)
        return 0;
    atomic_fetch_add(&jobs->writing, 1);
    int failed = srv_jobs_dir_drop(jobs, e, DESCRIPTION);
    if (!failed)
        failed = remove_files(jobs, e);
    atomic_fetch_sub(&jobs->writing, 1);
    if (failed)
        srv_log_event(jobs->log, SRV_LOG_ERROR, "jobs_dir: %s cannot be deleted: %s", e->id,
                      strerror(failed));
    return failed;
}

/* --- reading --- */

/* The contents of <id>.json. */
typedef struct description {
    uint64_t given;
    int64_t version; /* 1: not said */
    const char *checksum;
    srv_job_body body;
    srv_job_facts facts;
    srv_strings files;
} description;

static void body_init(void *body) {
    srv_job_defaults(body);
}

static void facts_init(void *facts) {
    *(srv_job_facts *)facts = srv_job_no_facts();
}

static bool decode(srv_request *req, description *out) {
    const srv_field fields[] = {
        {.name = "version", .kind = SRV_INT, .offset = offsetof(description, version)},
        {.name = "checksum", .kind = SRV_STRING, .offset = offsetof(description, checksum)},
        {.name = "request",
         .kind = SRV_OBJECT,
         .offset = offsetof(description, body),
         .fields = srv_job_stored_fields(),
         .init = body_init,
         .required = true},
        {.name = "facts",
         .kind = SRV_OBJECT,
         .offset = offsetof(description, facts),
         .fields = srv_job_stored_facts(),
         .init = facts_init,
         .required = true},
        {.name = "files", .kind = SRV_STRINGS, .offset = offsetof(description, files)},
        {0},
    };
    if (!srv_decode(req, fields, out))
        return false;
    if (isfinite(out->facts.seconds))
        out->facts.elapsed_ms = (int64_t)(1e3 * out->facts.seconds);
    return true;
}

/* Reads a file of jobs_dir into the arena and adds a NUL at its end. NULL: errno has the reason. */
static char *read_file(const srv_jobs *jobs, const char *name, attn_arena *arena, size_t *size) {
    struct stat about;
    char *data = NULL;
    const int fd = srv_file_open(jobs->dir, name, false, &about);
    *size = 0;
    const size_t left = attn_arena_limit(arena) - attn_arena_used(arena);
    errno = fd < 0 ? -fd : about.st_size >= MOST_FILE || (size_t)about.st_size > left ? EFBIG : 0;
    if (!errno && !(data = attn_arena_take(arena, (size_t)about.st_size + 1)))
        errno = ENOMEM;
    while (data && *size < (size_t)about.st_size) {
        const ssize_t n = read(fd, data + *size, (size_t)about.st_size - *size);
        if (n == 0)
            errno = EIO; /* the file was truncated during the read */
        if (n == 0 || (n < 0 && errno != EINTR))
            data = NULL;
        *size += n > 0 ? (size_t)n : 0;
    }
    const int failed = errno;
    if (data)
        data[*size] = 0;
    if (fd >= 0)
        close(fd);
    errno = failed;
    return data;
}

/* Returns whether a JSON text ends where its first list or object does: one that was cut does
 * not. */
static bool is_closed(const char *text, size_t size) {
    const char *p = text, *end = text + size;
    size_t depth = 0;
    while (p < end) {
        if (*p == '"') {
            p = srv_skip_string(p, end);
            continue;
        }
        depth += *p == '{' || *p == '[';
        if ((*p == '}' || *p == ']') && (!depth || !--depth))
            break;
        p++;
    }
    return p < end && depth == 0 && p + 1 + strspn(p + 1, " \r\n") == end;
}

/* Returns whether a file of version 1, which has no checksum, ends as it must. */
static bool ends_well(const char *suffix, const srv_piece *data) {
    static const char end[] = "</svg>";
    size_t n = data->size;
    const char *text = data->data;
    if (!strcmp(suffix, SRV_JOB_FINDINGS))
        return is_closed(text, n);
    if (!strcmp(suffix, SRV_JOB_TEXT))
        return true;
    while (n && text[n - 1] == '\n')
        n--;
    return n >= sizeof end - 1 && !memcmp(text + n - (sizeof end - 1), end, sizeof end - 1);
}

/* Returns whether `files`, of a description, has the file with these contents. */
static bool is_listed(const srv_strings *files, const char *suffix, const srv_piece *data) {
    char sum[DIGITS + 2];
    snprintf(sum, sizeof sum, "%08x ", (unsigned)attn_crc32c(0, data->data, data->size));
    for (size_t i = 0; i < files->count; i++)
        if (!strncmp(files->values[i], sum, DIGITS + 1) &&
            !strcmp(files->values[i] + DIGITS + 1, suffix))
            return true;
    return false;
}

int srv_jobs_dir_get(const srv_jobs *jobs, const srv_job_entry *e, const char *suffix,
                     const srv_strings *files, attn_arena *arena, srv_piece *data) {
    char name[NAME];
    srv_piece found;
    snprintf(name, sizeof name, "%s%s", e->id, suffix);
    found.data = read_file(jobs, name, arena, &found.size);
    if (!found.data)
        return errno;
    if (files ? !is_listed(files, suffix, &found) : !ends_well(suffix, &found))
        return EBADMSG;
    *data = found;
    return 0;
}

static int cannot(const srv_jobs *jobs, const char *why) {
    fprintf(stderr, "attnd: cannot use jobs_dir %s: %s\n", jobs->config->jobs_dir, why);
    return SRV_EXIT_USAGE;
}

/* Renames a description with wrong contents, so that later starts ignore it and nothing is lost. */
static void set_aside(srv_jobs *jobs, const char *name, const char *why) {
    char aside[NAME];
    snprintf(aside, sizeof aside, "%s" ASIDE, name);
    const bool moved = !renameat(jobs->dir, name, jobs->dir, aside);
    srv_log_event(jobs->log, SRV_LOG_ERROR, "jobs_dir: %s is no job: %.200s; %s%s", name, why,
                  moved ? "it is now " : "it stays", moved ? aside : "");
}

/* Checks version and checksum of a description. Returns NULL, or the reason why it is not one.
 * Sets *version, if the checksum is right. */
static const char *check_description(const char *text, size_t size, unsigned long *version) {
    char sum[DIGITS + 1];
    unsigned long said;
    const char *digits = find_checksum(text, size, &said);
    if (!digits && said != 1)
        return "it does not begin as a description does";
    if (digits) {
        checksum_of(text, size, digits, sum);
        if (memcmp(sum, digits, DIGITS))
            return "it is not as it was written: its checksum is not that of its bytes";
    }
    *version = said;
    return NULL;
}

/* Reads and checks the description `name`. Returns 0 or an errno value; EBADMSG: it is not one, and
 * *why has the reason. Sets *version if a newer program wrote it; then nothing else of it is read. */
static int read_description(const srv_jobs *jobs, const char *name, attn_arena *arena,
                            description *out, unsigned long *version, const char **why) {
    srv_request req = {.arena = arena};
    req.body = read_file(jobs, name, arena, &req.body_size);
    if (!req.body)
        return errno;
    *why = check_description(req.body, req.body_size, version);
    if (*why)
        return EBADMSG;
    if (*version > NEWEST)
        return 0;
    const bool read = decode(&req, out);
    if (!read && srv_problem_is_memory(&req))
        return ENOMEM;
    if (read && out->version == (int64_t)*version && (*version > 1) == (out->checksum != NULL))
        return 0;
    *why = "its text does not describe one";
    return EBADMSG;
}

/* Restores the job whose description is the file `name`. A description with wrong contents is renamed
 * and logged, one of a newer program is only logged. Returns 0, or the errno value of trouble, after
 * which the job is to be read again. */
static int restore(srv_jobs *jobs, const char *name, attn_arena *arena) {
    description d = {.version = 1};
    unsigned long version = 1;
    char id[SRV_JOB_ID + 1];
    const char *why = NULL;
    const int failed = read_description(jobs, name, arena, &d, &version, &why);
    const srv_verdict verdict = srv_file_judge(failed);
    if (failed && verdict == SRV_FILE_TROUBLE)
        return failed;
    if (failed && verdict == SRV_FILE_WRONG)
        set_aside(jobs, name, why ? why : strerror(failed));
    else if (version > NEWEST)
        srv_log_event(
            jobs->log, SRV_LOG_ERROR,
            "jobs_dir: %s is left out: a newer program wrote it, of version %lu, and this "
            "one reads versions up to %d",
            name, version, NEWEST);
    if (failed || version > NEWEST)
        return 0;
    snprintf(id, sizeof id, "%s", name);
    return srv_jobs_restore(jobs, id, &d.body, &d.facts, version > 1 ? &d.files : NULL);
}

static int add_job(srv_jobs *jobs, const char *name) {
    attn_arena *arena = attn_arena_new(ARENA);
    const int failed = arena ? restore(jobs, name, arena) : ENOMEM;
    attn_arena_free(arena);
    return failed;
}

/* --- jobs that cannot be read for now --- */

/* Notes the job as one to be read again. It counts as a job meanwhile. false: out of memory. */
static bool note_unread(srv_jobs *jobs, const char *name, int failed) {
    srv_job_unread *u = calloc(1, sizeof *u);
    if (!u)
        return false;
    memcpy(u->id, name, SRV_JOB_ID);
    u->failed = failed;
    u->next = jobs->unread;
    jobs->unread = u;
    jobs->count++;
    srv_job_await_model(jobs, u->id, failed);
    srv_log_event(jobs->log, SRV_LOG_ERROR,
                  "jobs_dir: %s cannot be read now: %s; it is tried again every second", u->id,
                  strerror(failed));
    return true;
}

int srv_jobs_dir_unread(const srv_jobs *jobs, const char *id) {
    const srv_job_unread *u = jobs->unread;
    while (u && strcmp(u->id, id) != 0)
        u = u->next;
    return u ? u->failed : 0;
}

void srv_jobs_dir_forget_unread(srv_jobs *jobs) {
    while (jobs->unread) {
        srv_job_unread *u = jobs->unread;
        jobs->unread = u->next;
        free(u);
    }
}

/* Only one thread changes the list of jobs that could not be read, so this one reads it without the
 * lock. */
void srv_jobs_dir_tick(srv_jobs *jobs, int64_t now_ns) {
    if (!jobs->unread || now_ns - jobs->tried_ns < PAUSE_NS)
        return;
    for (srv_job_unread **at = &jobs->unread; *at;) {
        srv_job_unread *u = *at;
        char name[NAME];
        snprintf(name, sizeof name, "%s" DESCRIPTION, u->id);
        const int failed = add_job(jobs, name);
        srv_job_await_model(jobs, u->id, failed);
        pthread_mutex_lock(&jobs->lock);
        u->failed = failed;
        if (failed) {
            at = &u->next;
        } else {
            *at = u->next;
            jobs->count--;
        }
        pthread_mutex_unlock(&jobs->lock);
        if (failed)
            continue;
        srv_log_event(jobs->log, SRV_LOG_INFO, "jobs_dir: %s was read at a later try", u->id);
        free(u);
    }
    jobs->tried_ns = attn_now_ns();
}

/* --- the start --- */

/* Returns whether the name begins with the id of a job. */
static bool begins_with_id(const char *name) {
    return strncmp(name, LEAD, sizeof LEAD - 1) == 0 &&
           strspn(name + sizeof LEAD - 1, "0123456789abcdef") == SRV_JOB_ID - (sizeof LEAD - 1);
}

/* Returns whether there is no file <id><suffix> of the job to which the file belongs. */
static bool lacks(const srv_jobs *jobs, const char *file, const char *suffix) {
    char name[NAME];
    snprintf(name, sizeof name, "%.*s%s", SRV_JOB_ID, file, suffix);
    return srv_file_lacks(jobs->dir, name);
}

/* Removes a file whose job has no description. A deletion of the job has removed that first, and was
 * broken off. */
static void sweep(srv_jobs *jobs, const char *name) {
    const char *suffix = name + SRV_JOB_ID, *end = strrchr(suffix, '.');
    bool is_file = *suffix == '.' && strcmp(end, SRV_JOB_PICTURE) == 0;
    for (size_t i = 0; i < SUFFIXES; i++)
        is_file |= strcmp(suffix, suffixes[i]) == 0;
    if (!is_file || !lacks(jobs, name, DESCRIPTION) || !lacks(jobs, name, DESCRIPTION ASIDE))
        return;
    if (unlinkat(jobs->dir, name, 0) && errno != ENOENT)
        srv_log_event(jobs->log, SRV_LOG_ERROR,
                      "jobs_dir: %.100s, whose job was deleted, cannot be deleted: %s", name,
                      strerror(errno));
}

/* Restores the job, or removes the file if it is left of one. Returns 0 or an exit code. */
static int look_at(srv_jobs *jobs, const char *name) {
    if (!begins_with_id(name))
        return 0;
    if (srv_is_part(name)) {
        srv_part_sweep(jobs->dir, name);
        return 0;
    }
    if (strcmp(name + SRV_JOB_ID, DESCRIPTION) != 0) {
        sweep(jobs, name);
        return 0;
    }
    const int failed = add_job(jobs, name);
    return !failed || note_unread(jobs, name, failed) ? 0 : SRV_EXIT_RESOURCES;
}

static int read_all(srv_jobs *jobs) {
    DIR *dir = opendir(jobs->config->jobs_dir);
    int code = dir ? 0 : cannot(jobs, strerror(errno));
    while (!code) {
        errno = 0;
        const struct dirent *d = readdir(dir);
        if (!d && errno)
            code = cannot(jobs, strerror(errno));
        if (!d)
            break;
        code = look_at(jobs, d->d_name);
    }
    if (dir)
        closedir(dir);
    return code;
}

int srv_jobs_dir_open(srv_jobs *jobs) {
    jobs->dir = open(jobs->config->jobs_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (jobs->dir < 0 || faccessat(jobs->dir, ".", W_OK | X_OK, AT_EACCESS))
        return cannot(jobs, strerror(errno));
    if (flock(jobs->dir, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return cannot(jobs, "another service uses it");
    return read_all(jobs);
}
