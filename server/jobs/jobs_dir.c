/* The files of jobs in jobs_dir (jobs.h lists them). Files are written under a temporary name and
 * renamed into place. The directory is locked while a service uses it, because two services would
 * run the same jobs.
 *
 * A description is a line "attnd-job VERSION CHECKSUM" and a JSON object. CHECKSUM is the CRC32C of
 * the object's text, with VERSION as the initial value. The member "files" lists the checksum and
 * the suffix of each file that holds a part of an experiment's result. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/job.h"
#include "request/shared.h"
#include "system/files.h"

#define DESCRIPTION ".json"
#define ASIDE       ".damaged" /* is appended to the name of a description that cannot be read */
#define LEAD        "job-"
#define FIRST       "attnd-job "      /* the first line of a description begins with it */
#define SECOND      "{\"version\":2," /* descriptions of version 2 begin with it */

enum {
    MOST_FILE = 1 << 23, /* largest file that is read, in bytes */
    ARENA = 1 << 24,     /* arena limit for reading or writing a description, in bytes */
    NAME = 128,          /* buffer size of a file name */
    VERSION = 3,         /* version of descriptions; those of another version are not read */
    FIRST_LINE = 64,     /* buffer size of the first line of a description */
    DIGITS = 8,          /* hexadecimal digits of a checksum */
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

/* Writes the file <id><suffix>, which begins with the text `first`. Returns 0 or an errno value. */
static int write_file(const srv_jobs *jobs, const char *id, const char *suffix, const char *first,
                      const srv_piece *data) {
    char name[NAME];
    srv_new_file file;
    snprintf(name, sizeof name, "%s%s", id, suffix);
    const int failed = srv_new_file_open(&file, jobs->dir, name);
    if (failed)
        return failed;
    srv_new_file_write(&file, first, strlen(first));
    srv_new_file_write(&file, data->data, data->size);
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
    return jobs->dir < 0 || log_failure(jobs, e, write_file(jobs, e->id, suffix, "", data));
}

/* Writes an element of "files", for the file with this suffix. Writes nothing for a part of the
 * result that could not be read. */
static void put_sum(attn_json_text *j, const char *suffix, const srv_piece *piece) {
    char text[NAME];
    if (!piece->data)
        return;
    snprintf(text, sizeof text, "%08x %.96s", (unsigned)attn_crc32c(0, piece->data, piece->size),
             suffix);
    attn_json_string(j, text);
}

static void put_sums(attn_json_text *j, const srv_job_entry *e) {
    srv_job_result result = e->result;
    char suffix[SRV_JOB_SUFFIX];
    const srv_piece *piece;
    attn_json_key_array(j, "files");
    for (size_t i = 0; (piece = srv_job_part(&result, &e->facts.pictures, i, suffix)); i++)
        put_sum(j, suffix, piece);
    attn_json_array_end(j);
}

static void put_description(attn_json_text *j, const srv_job_entry *e) {
    attn_json_object(j);
    attn_json_key(j, "request");
    srv_job_write_request(j, &e->body);
    attn_json_key(j, "facts");
    srv_answer_object(j, srv_job_facts_fields, &e->facts);
    put_sums(j, e);
    attn_json_object_end(j);
}

/* Makes the first line of a description with this version and JSON. Returns the length of the
 * line. */
static size_t make_first_line(unsigned long version, const char *json, size_t size,
                              char line[FIRST_LINE]) {
    const uint32_t sum = attn_crc32c((uint32_t)version, json, size);
    return (size_t)snprintf(line, FIRST_LINE, FIRST "%lu %0*x\n", version, DIGITS, (unsigned)sum);
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
        char first[FIRST_LINE];
        srv_json_begin(&j, &req);
        put_description(&j, e);
        atomic_fetch_add(&jobs->writing, 1);
        if (srv_json_end(&j)) {
            const srv_piece json = {req.reply.body, req.reply.size};
            make_first_line(VERSION, json.data, json.size, first);
            failed = write_file(jobs, e->id, DESCRIPTION, first, &json);
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
    srv_job_result result = e->result;
    char suffix[SRV_JOB_SUFFIX];
    for (size_t i = 2; !failed && srv_job_part(&result, &e->facts.pictures, i, suffix); i++)
        failed = remove_file(jobs, e->id, suffix);
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

/* The JSON of <id>.json. */
typedef struct description {
    srv_given_bits given;
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

static const srv_field description_fields[] = {
    SRV_NAMED_ROW(description, "request", body, SRV_OBJECT, NULL, .fields = srv_job_fields,
                  .init = body_init, .required = true),
    SRV_FIELD_ROW(description, facts, SRV_OBJECT, NULL, .fields = srv_job_facts_fields,
                  .init = facts_init, .required = true),
    SRV_FIELD_ROW(description, files, SRV_STRINGS, NULL),
    {0},
};

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

/* Returns whether `files`, the checksums of a description, lists the file with this suffix and
 * these contents. */
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
    if (!is_listed(files, suffix, &found))
        return EBADMSG;
    *data = found;
    return 0;
}

static int cannot_use_dir(const srv_jobs *jobs, const char *why) {
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

/* Checks the first line of the text, and the JSON against the checksum in that line. Returns NULL,
 * or the reason why the text is not a description. Sets *version to the version of the file and
 * *json to the text behind the line. Text of version 2 has no such line, so only *version is
 * set. */
static const char *check_description(const char *text, size_t size, unsigned long *version,
                                     const char **json) {
    char line[FIRST_LINE];
    const char *end = strchr(text, '\n');
    *version = 2;
    if (!strncmp(text, SECOND, sizeof SECOND - 1))
        return NULL;
    if (!end || strncmp(text, FIRST, sizeof FIRST - 1) != 0)
        return "it does not begin as a description does";
    *json = end + 1;
    *version = strtoul(text + sizeof FIRST - 1, NULL, 10);
    const size_t n = make_first_line(*version, *json, size - (size_t)(*json - text), line);
    return n == (size_t)(*json - text) && !memcmp(line, text, n)
               ? NULL
               : "it is not as it was written: its checksum is not that of its bytes";
}

/* Reads and checks the description in the file `name`. Returns 0 or an errno value. EBADMSG: the
 * file is not a description, and *why has the reason. Sets *version. Does not change *out if the
 * version is not VERSION. */
static int read_description(const srv_jobs *jobs, const char *name, attn_arena *arena,
                            description *out, unsigned long *version, const char **why) {
    srv_request req = {.arena = arena};
    size_t size;
    const char *text = read_file(jobs, name, arena, &size), *json = NULL;
    if (!text)
        return errno;
    if ((*why = check_description(text, size, version, &json)))
        return EBADMSG;
    if (*version != VERSION)
        return 0;
    req.body = json;
    req.body_size = size - (size_t)(json - text);
    if (srv_decode(&req, description_fields, out))
        return 0;
    *why = "its text does not describe one";
    return srv_problem_is_memory(&req) ? ENOMEM : EBADMSG;
}

/* Restores the job whose description is the file `name`. Renames and logs a description with wrong
 * contents; only logs a description of another version. Returns 0. If a file of the job cannot be
 * read now, returns the errno value of the reason, and the job must be read again later. */
static int restore_job(srv_jobs *jobs, const char *name, attn_arena *arena) {
    description d = {0};
    unsigned long version = VERSION;
    char id[SRV_JOB_ID + 1];
    const char *why = NULL;
    const int failed = read_description(jobs, name, arena, &d, &version, &why);
    const srv_verdict verdict = srv_file_judge(failed);
    if (failed && verdict == SRV_FILE_TROUBLE)
        return failed;
    if (failed && verdict == SRV_FILE_WRONG)
        set_aside(jobs, name, why ? why : strerror(failed));
    else if (version != VERSION)
        srv_log_event(
            jobs->log, SRV_LOG_ERROR,
            "jobs_dir: %s is left out: %s program wrote it, and this one reads version %d", name,
            version < VERSION ? "an older" : "a newer", VERSION);
    if (failed || version != VERSION)
        return 0;
    snprintf(id, sizeof id, "%s", name);
    return srv_jobs_restore(jobs, id, &d.body, &d.facts, &d.files);
}

static int add_job(srv_jobs *jobs, const char *name) {
    attn_arena *arena = attn_arena_new(ARENA);
    const int failed = arena ? restore_job(jobs, name, arena) : ENOMEM;
    attn_arena_free(arena);
    return failed;
}

/* --- jobs that cannot be read for now --- */

/* Notes that the job must be read again later. Until then the job counts in the store. false: out
 * of memory. */
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

/* Only the thread that calls this function changes the list of unread jobs, so it may read the list
 * without the lock. */
void srv_jobs_dir_tick(srv_jobs *jobs, int64_t now_ns) {
    if (!jobs->unread || now_ns - jobs->tried_ns < JOB_RETRY_NS)
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

/* Returns whether there is no file <id><suffix>, where <id> is the id with which `file` begins. */
static bool lacks_file(const srv_jobs *jobs, const char *file, const char *suffix) {
    char name[NAME];
    snprintf(name, sizeof name, "%.*s%s", SRV_JOB_ID, file, suffix);
    return srv_file_lacks(jobs->dir, name);
}

/* Removes a file whose job has no description. This happens if the deletion of a job was
 * interrupted after it had removed the description. */
static void sweep_file(srv_jobs *jobs, const char *name) {
    const char *suffix = name + SRV_JOB_ID, *end = strrchr(suffix, '.');
    bool is_file = *suffix == '.' && strcmp(end, SRV_JOB_PICTURE) == 0;
    for (size_t i = 0; i < SUFFIXES; i++)
        is_file |= strcmp(suffix, suffixes[i]) == 0;
    if (!is_file || !lacks_file(jobs, name, DESCRIPTION) ||
        !lacks_file(jobs, name, DESCRIPTION ASIDE))
        return;
    if (unlinkat(jobs->dir, name, 0) && errno != ENOENT)
        srv_log_event(jobs->log, SRV_LOG_ERROR,
                      "jobs_dir: %.100s, whose job was deleted, cannot be deleted: %s", name,
                      strerror(errno));
}

/* Handles a file of jobs_dir. Restores the job if the file is a description. Removes the file if it
 * is left from an interrupted write or deletion. Returns 0 or an exit code. */
static int restore_or_sweep(srv_jobs *jobs, const char *name) {
    if (!begins_with_id(name))
        return 0;
    if (srv_is_part(name)) {
        srv_part_sweep(jobs->dir, name);
        return 0;
    }
    if (strcmp(name + SRV_JOB_ID, DESCRIPTION) != 0) {
        sweep_file(jobs, name);
        return 0;
    }
    const int failed = add_job(jobs, name);
    return !failed || note_unread(jobs, name, failed) ? 0 : SRV_EXIT_RESOURCES;
}

static int read_directory(srv_jobs *jobs) {
    DIR *dir = opendir(jobs->config->jobs_dir);
    int code = dir ? 0 : cannot_use_dir(jobs, strerror(errno));
    while (!code) {
        errno = 0;
        const struct dirent *d = readdir(dir);
        if (!d && errno)
            code = cannot_use_dir(jobs, strerror(errno));
        if (!d)
            break;
        code = restore_or_sweep(jobs, d->d_name);
    }
    if (dir)
        closedir(dir);
    return code;
}

int srv_jobs_dir_open(srv_jobs *jobs) {
    jobs->dir = open(jobs->config->jobs_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (jobs->dir < 0 || faccessat(jobs->dir, ".", W_OK | X_OK, AT_EACCESS))
        return cannot_use_dir(jobs, strerror(errno));
    if (flock(jobs->dir, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return cannot_use_dir(jobs, "another service uses it");
    return read_directory(jobs);
}
