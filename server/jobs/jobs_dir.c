/* The files of jobs in jobs_dir (jobs.h lists them). Files are written under a temporary name and
 * renamed into place. The directory is locked while a service uses it, because two services would
 * run the same jobs. */
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

enum {
    MOST_FILE = 1 << 23, /* largest file that is read, in bytes */
    ARENA = 1 << 24,     /* arena limit for reading or writing a description, in bytes */
    NAME = 128,          /* buffer size of a file name */
};

bool srv_jobs_dir_path(const srv_jobs *jobs, const char *id, const char *suffix,
                       char path[JOB_PATH]) {
    path[0] = 0;
    return jobs->dir >= 0 &&
           snprintf(path, JOB_PATH, "%s/%s%s", jobs->config->jobs_dir, id, suffix) < JOB_PATH;
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

bool srv_jobs_is_writing(srv_jobs *jobs) {
    return atomic_load(&jobs->writing) > 0;
}

int srv_jobs_dir_save(srv_jobs *jobs, const srv_job_entry *e) {
    if (jobs->dir < 0)
        return 0;
    srv_request req = {.arena = attn_arena_new(ARENA)};
    int failed = ENOMEM;
    if (req.arena) {
        srv_json j;
        srv_json_begin(&j, &req);
        srv_json_object(&j);
        srv_json_key(&j, "request");
        srv_job_write_request(&j, &e->body);
        srv_json_key(&j, "facts");
        srv_json_object(&j);
        srv_job_write_facts(&j, &e->facts);
        srv_json_object_end(&j);
        srv_json_object_end(&j);
        atomic_fetch_add(&jobs->writing, 1);
        if (srv_json_end(&j))
            failed = put(jobs, e->id, DESCRIPTION, req.reply.body, req.reply.size);
        atomic_fetch_sub(&jobs->writing, 1);
    }
    attn_arena_free(req.arena);
    log_failure(jobs, e, failed);
    return failed;
}

static void remove_file(srv_jobs *jobs, const char *id, const char *lead, const char *suffix) {
    char name[NAME];
    snprintf(name, sizeof name, "%s%s%s", id, lead, suffix);
    unlinkat(jobs->dir, name, 0);
}

void srv_jobs_dir_remove(srv_jobs *jobs, const srv_job_entry *e) {
    static const char *const suffixes[] = {DESCRIPTION, ".checkpoint", ".safetensors", ".findings",
                                           ".txt"};
    if (jobs->dir < 0)
        return;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        remove_file(jobs, e->id, "", suffixes[i]);
    for (size_t i = 0; i < e->facts.pictures.count; i++) {
        char lead[NAME / 2];
        snprintf(lead, sizeof lead, ".%s", e->facts.pictures.values[i]);
        remove_file(jobs, e->id, lead, ".svg");
    }
}

/* --- reading --- */

/* The contents of <id>.json. */
typedef struct description {
    uint64_t given;
    srv_job_body body;
    srv_job_facts facts;
} description;

static void body_init(void *body) {
    srv_job_defaults(body);
}

static void facts_init(void *facts) {
    *(srv_job_facts *)facts = srv_job_no_facts();
}

static bool decode(srv_request *req, description *out) {
    const srv_field fields[] = {
        {.name = "request",
         .kind = SRV_OBJECT,
         .offset = offsetof(description, body),
         .fields = srv_job_stored_fields(),
         .init = body_init,
         .required = true},
        {.name = "facts",
         .kind = SRV_OBJECT,
         .offset = offsetof(description, facts),
         .fields = srv_job_facts_fields,
         .init = facts_init,
         .required = true},
        {0},
    };
    return srv_decode(req, fields, out);
}

/* Reads a file of jobs_dir into the arena and adds a NUL at its end. NULL: errno has the reason. */
static char *read_file(const srv_jobs *jobs, const char *name, attn_arena *arena, size_t *size) {
    struct stat about;
    char *data = NULL;
    const int fd = srv_file_open(jobs->dir, name, false, &about);
    *size = 0;
    errno = fd < 0 ? -fd : about.st_size >= MOST_FILE ? EFBIG : 0;
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

bool srv_jobs_dir_get(const srv_jobs *jobs, const srv_job_entry *e, const char *suffix,
                      attn_arena *arena, srv_piece *data) {
    char name[NAME];
    snprintf(name, sizeof name, "%s%s", e->id, suffix);
    data->data = read_file(jobs, name, arena, &data->size);
    return data->data != NULL;
}

static int cannot(const srv_jobs *jobs, const char *why) {
    fprintf(stderr, "attnd: cannot use jobs_dir %s: %s\n", jobs->config->jobs_dir, why);
    return SRV_EXIT_USAGE;
}

/* Renames a description that cannot be read, so that later starts ignore it and nothing is lost. */
static void set_aside(srv_jobs *jobs, const char *name, const char *why) {
    char aside[NAME];
    snprintf(aside, sizeof aside, "%s" ASIDE, name);
    const bool moved = !renameat(jobs->dir, name, jobs->dir, aside);
    srv_log_event(jobs->log, SRV_LOG_ERROR, "jobs_dir: %s is no job: %.200s; %s%s", name, why,
                  moved ? "it is now " : "it stays", moved ? aside : "");
}

/* Restores the job whose description is the file `name`. A description that cannot be read is
 * renamed and logged, and the other jobs are restored. Returns 0 or an exit code. */
static int add_job(srv_jobs *jobs, const char *name, attn_arena *arena) {
    srv_request req = {.arena = arena};
    description d = {0};
    req.body = read_file(jobs, name, arena, &req.body_size);
    const char *why = req.body ? "its text does not describe one" : strerror(errno);
    if (!req.body || !decode(&req, &d)) {
        set_aside(jobs, name, why);
        return 0;
    }
    char id[SRV_JOB_ID + 1];
    snprintf(id, sizeof id, "%s", name);
    return srv_jobs_restore(jobs, id, &d.body, &d.facts) ? 0 : SRV_EXIT_RESOURCES;
}

static bool is_description(const char *name) {
    return strlen(name) == SRV_JOB_ID + sizeof DESCRIPTION - 1 &&
           strncmp(name, LEAD, sizeof LEAD - 1) == 0 &&
           strspn(name + 4, "0123456789abcdef") == SRV_JOB_ID - 4 &&
           strcmp(name + SRV_JOB_ID, DESCRIPTION) == 0;
}

static int read_all(srv_jobs *jobs) {
    DIR *dir = opendir(jobs->config->jobs_dir);
    int code = dir ? 0 : cannot(jobs, strerror(errno));
    for (const struct dirent *d; !code && (d = readdir(dir));) {
        if (srv_is_part(d->d_name) && strncmp(d->d_name, LEAD, sizeof LEAD - 1) == 0)
            srv_part_sweep(jobs->dir, d->d_name);
        attn_arena *arena = is_description(d->d_name) ? attn_arena_new(ARENA) : NULL;
        if (arena)
            code = add_job(jobs, d->d_name, arena);
        attn_arena_free(arena);
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
