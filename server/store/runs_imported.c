/* Imported runs: files that clients send, or that they name in captures_dir. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "store/runs_table.h"
#include "wire/container.h"

/* --- a run from a file --- */

/* The state of an import. */
typedef struct import {
    srv_request *req;
    srv_runs *runs;
    srv_runs_entry *entry;
    const char *pointer; /* JSON pointer of problems: "/file", or NULL for a body */
} import;

/* Frees the entry. Returns NULL, so that a failed import ends in "return give_up(…)". */
static const srv_run *give_up(const import *m) {
    srv_runs_entry_free(m->entry);
    return NULL;
}

static bool no_memory(const import *m) {
    return srv_problem(m->req, SRV_MEMORY_BUDGET, m->pointer, "no memory for the run is left");
}

/* Sets the problem for the errno value `failed`: runs_dir cannot take the run, or the request has
 * to stop. Returns false. */
static bool refuse_import(const import *m, int failed) {
    attn_error err = {0};
    if ((failed == ETIMEDOUT || failed == ECANCELED) && attn_control_check(&m->req->control, &err))
        srv_problem_error(m->req, &err);
    else if (failed == ESTALE)
        srv_problem(m->req, SRV_VALUE, m->pointer,
                    "the file was changed while it was read; name it when its writer has done");
    else
        srv_runs_refuse(m->req, m->pointer, failed);
    return false;
}

/* Returns whether the image of the entry, which is the body, is not a safetensors file. */
static bool is_malformed(const import *m, const srv_runs_entry *e) {
    attn_safetensors file;
    return !m->pointer && attn_safetensors_read_usable(e->image, e->image_size, m->entry->arena,
                                                       &file, NULL) == ATTN_EARG;
}

/* Sets the problem for an image that the library refuses. Returns false. */
static bool refuse_run(const import *m, const srv_runs_entry *e, const attn_error *err) {
    const srv_config *config = m->runs->config;
    const bool sites = strcmp(err->where, "sites") == 0;
    if (err->code == ATTN_ELIMIT && (sites || strcmp(err->where, "run") == 0))
        return srv_problem_limit(
            m->req, SRV_TOO_LARGE, sites ? "/sites" : "/run",
            (double)(sites ? config->max_capture_sites : config->max_capture_text_bytes),
            sites ? "max_capture_sites" : "max_capture_text_bytes", "%s", err->text);
    if (m->pointer && err->code != ATTN_ENOMEM && err->code != ATTN_ELIMIT)
        return srv_problem(m->req, SRV_VALUE, m->pointer, "%s%s%s", err->where,
                           *err->where ? ": " : "", err->text);
    return err->code == ATTN_EARG && is_malformed(m, e) ? srv_safetensors_refuse(m->req, err)
                                                        : srv_problem_error(m->req, err);
}

/* Makes an entry with a new id that belongs to the client. false: a problem is set. */
static bool begin_import(import *m, srv_request *req, const char *pointer) {
    *m = (import){.req = req, .runs = req->app->runs, .pointer = pointer};
    m->entry = srv_runs_entry_new(m->runs->config);
    if (!m->entry || !srv_runs_new_id(m->entry->run.id))
        return no_memory(m);
    m->entry->imported = true;
    if (req->owner)
        m->entry->side.owner = attn_arena_text(m->entry->arena, req->owner, strlen(req->owner));
    if (req->owner && !(m->entry->side.token = srv_runs_new_token(m->entry->arena)))
        return no_memory(m);
    return (!req->owner || m->entry->side.owner) || no_memory(m);
}

/* Maps an open file of `size` bytes and opens the run in it. false: a problem is set. */
static bool open_file(const import *m, int fd, size_t size) {
    srv_runs_entry *e = m->entry;
    attn_error err = {0};
    const int failed = srv_mapped_open_fd(fd, &e->mapped);
    if (failed)
        return refuse_import(m, failed);
    e->image = srv_mapped_data(e->mapped);
    e->image_size = size;
    if (!srv_runs_sum_from(e, e->image))
        return no_memory(m);
    return !srv_runs_open_image(m->runs->config, e, &err) || refuse_run(m, e, &err);
}

/* Writes the side file of the entry. `suffix` is the suffix of the file's name. Returns 0 or an
 * errno value. */
static int write_side(const import *m, const char *suffix) {
    const srv_runs_entry *e = m->entry;
    srv_runs_side side = e->side;
    char *text = malloc(attn_checksums_text_size(e->sums.size) + 1);
    if (!text)
        return ENOMEM;
    attn_checksums_write(&e->sums, text);
    side.sums = text;
    const int failed =
        srv_runs_side_write(m->runs->dir.fd, srv_runs_dir_name(e->run.id, suffix).text, &side);
    free(text);
    return failed;
}

/* Removes the files that a failed import has left in runs_dir. */
static void remove_names(const import *m) {
    static const char *const suffixes[] = {SRV_RUNS_FILE, SRV_RUNS_ADOPTED, SRV_RUNS_CHECKS};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        srv_runs_dir_unlink(&m->runs->dir, m->entry->run.id, suffixes[i]);
}

static const srv_run *admit_import(const import *m) {
    srv_runs_dir_add(&m->runs->dir, m->entry->run.id, m->entry->owner);
    return srv_runs_admit(m->req, m->pointer, m->entry);
}

/* Makes room for a valid run in a complete .part file, makes the file durable and gives it its
 * name. Closes the file in any case. Returns 0 or an errno value. */
static int keep_file(const import *m, srv_new_file *file) {
    srv_runs_dir *dir = &m->runs->dir;
    const size_t size = m->entry->sums.size;
    const srv_runs_name name = srv_runs_dir_name(m->entry->run.id, SRV_RUNS_FILE);
    int failed = srv_runs_dir_reserve(dir, m->entry->owner, size);
    if (failed) {
        srv_new_file_drop(file);
        return failed;
    }
    failed = write_side(m, SRV_RUNS_CHECKS);
    if (failed)
        srv_new_file_drop(file);
    else
        failed = srv_new_file_close(file);
    if (!failed && !srv_mapped_name(m->entry->mapped, dir->fd, name.text))
        failed = ENOMEM;
    if (failed)
        remove_names(m);
    srv_runs_dir_unreserve(dir, m->entry->owner, size);
    return failed;
}

/* Makes a run from a complete .part file, whose checksums are in the entry. Closes the file in any
 * case. NULL: a problem is set. */
static const srv_run *finish_import(const import *m, srv_new_file *file) {
    attn_pool *pool = srv_request_pool(m->req);
    if (!open_file(m, file->fd, m->entry->sums.size)) {
        srv_new_file_drop(file);
        return give_up(m);
    }
    attn_pool_leave(pool); /* so that others can compute while the disk is slow */
    const int failed = keep_file(m, file);
    attn_pool_enter(pool);
    if (!failed)
        return admit_import(m);
    refuse_import(m, failed);
    return give_up(m);
}

/* --- bodies --- */

bool srv_run_receive(srv_request *req, uint64_t length) {
    srv_runs *s = req->app->runs;
    char id[SRV_RUN_ID + 1];
    if (!s->has_dir)
        return true;
    if (srv_runs_new_id(id))
        return srv_upload_begin(s->uploads, req, id, length);
    return srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no id for the run can be made");
}

static const srv_run *refuse_empty(srv_request *req) {
    srv_problem(req, SRV_MALFORMED, "",
                "the body is empty; expected a run as a file in the safetensors format");
    return NULL;
}

/* Copies the upload's checksums into the entry. */
static bool take_sums(const import *m, const srv_upload *u) {
    attn_checksums *sums = &m->entry->sums;
    attn_error err;
    if (attn_checksums_begin((size_t)u->written, m->entry->arena, sums, &err))
        return no_memory(m);
    memcpy(sums->sums, u->sums, attn_checksums_count(sums->size) * sizeof *sums->sums);
    sums->added = sums->size;
    return true;
}

static const srv_run *import_upload(const import *m, srv_upload *u) {
    attn_pool *pool = srv_request_pool(m->req);
    attn_pool_leave(pool);
    const int failed = srv_upload_finish(u);
    attn_pool_enter(pool);
    memcpy(m->entry->run.id, u->id, SRV_RUN_ID);
    if (failed)
        refuse_import(m, failed);
    else if (!u->begun)
        refuse_empty(m->req);
    if (failed || !u->begun || !take_sums(m, u))
        return give_up(m);
    u->begun = false; /* finish_import closes the file */
    return finish_import(m, &u->file);
}

/* Checks that the body is a run. false: a problem is set. */
static bool is_run(const import *m) {
    srv_runs_entry *e = srv_runs_entry_new(m->runs->config);
    attn_error err = {0};
    if (!e)
        return no_memory(m);
    e->image = m->req->body;
    e->image_size = m->req->body_size;
    e->imported = true;
    const bool ok = !srv_runs_open_image(m->runs->config, e, &err) || refuse_run(m, e, &err);
    e->image = NULL;
    srv_runs_entry_free(e);
    return ok;
}

/* Makes a run in memory from the body. NULL: a problem is set. */
static const srv_run *import_body(const import *m) {
    srv_request *req = m->req;
    const attn_run_piece piece = {req->body, req->body_size};
    const attn_run_image image = {(attn_run_piece *)(uintptr_t)&piece, 1, req->body_size};
    attn_error err = {0};
    if (!req->body_size)
        refuse_empty(m->req);
    else if (image.size > (size_t)m->runs->config->runs_bytes)
        srv_runs_too_large(m->req, NULL, image.size);
    else if (is_run(m)) {
        if (!srv_runs_copy_image(m->runs, m->entry, srv_owner_of(req->owner), &image, &err))
            return srv_runs_admit(m->req, NULL, m->entry);
        srv_problem_error(req, &err);
    }
    return give_up(m);
}

const srv_run *srv_run_import(srv_request *req) {
import m;
    srv_upload *u = (srv_upload *)req->intake;
    if (!begin_import(&m, req, NULL))
        return give_up(&m);
    if (!u)
        return import_body(&m);
    req->intake = NULL;
    const srv_run *run = import_upload(&m, u);
    srv_upload_free(u);
    return run;
}

/* --- files in captures_dir --- */

static bool refuse_capture(srv_request *req, int failed) {
    static const struct {
        int failed;
        const char *why;
    } reasons[] = {
        {EINVAL, "expected a path relative to captures_dir, without empty components, \".\" and "
                 "\"..\""},
        {ENOENT, "there is no such file in captures_dir"},
        {ENOTDIR, "a part of the path is no directory of captures_dir; symbolic links are not "
                  "followed"},
        {ELOOP, "it is a symbolic link, which is not followed"},
        {EISDIR, "it is a directory, not a file"},
        {ESPIPE, "it is not a regular file"},
        {ENXIO, "it is not a regular file"},
        {EACCES, "the service may not read it"},
        {ENAMETOOLONG, "the path is too long"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].failed == failed)
            return srv_problem(req, SRV_VALUE, "/file", "%s", reasons[i].why);
    return srv_problem_file(req, "/file", "the file cannot be opened in captures_dir", failed);
}

/* Begins the checksums of the file. false: a problem is set. */
static bool begin_sums(const import *m, const srv_capture *c) {
    attn_error err;
    const size_t size = (size_t)c->mark.size;
    return !attn_checksums_begin(size, m->entry->arena, &m->entry->sums, &err) || no_memory(m);
}

/* Makes a run from the file, which stays where it is. NULL: a problem is set. */
static const srv_run *adopt_file(const import *m, const srv_capture *c, const char *path) {
    attn_pool *pool = srv_request_pool(m->req);
    srv_runs_entry *e = m->entry;
    e->side.path = attn_arena_text(e->arena, path, strlen(path));
    e->side.mark = c->mark;
    if (!e->side.path || !begin_sums(m, c))
        return no_memory(m), give_up(m);
    attn_pool_leave(pool);
    int failed = srv_capture_read(c, NULL, &m->req->control, &e->sums);
    attn_pool_enter(pool);
    if (failed)
        refuse_import(m, failed);
    if (failed || !open_file(m, c->fd, (size_t)c->mark.size))
        return give_up(m);
    attn_pool_leave(pool);
    failed = write_side(m, SRV_RUNS_ADOPTED);
    if (failed)
        remove_names(m);
    attn_pool_enter(pool);
    if (!failed)
        return admit_import(m);
    refuse_import(m, failed);
    return give_up(m);
}

/* Copies the file into a new .part file. Returns 0 or an errno value. After an error there is no
 * .part file. */
static int copy_capture(const import *m, const srv_capture *c, const char *name,
                        srv_new_file *file) {
    srv_runs_dir *dir = &m->runs->dir;
    int failed = srv_new_file_open(file, dir->fd, name);
    if (failed)
        return failed;
    failed = srv_capture_read(c, file, &m->req->control, &m->entry->sums);
    if (failed)
        srv_new_file_drop(file);
    return failed;
}

static const srv_run *copy_file(const import *m, const srv_capture *c) {
    attn_pool *pool = srv_request_pool(m->req);
    const int64_t most = m->runs->config->max_capture_bytes;
    const srv_runs_name name = srv_runs_dir_name(m->entry->run.id, SRV_RUNS_FILE);
    srv_new_file file;
    const srv_run *run = NULL;
    if (c->mark.size > (uint64_t)most) {
        srv_problem_limit(m->req, SRV_TOO_LARGE, "/file", (double)most, "max_capture_bytes",
                          "the file has %llu bytes, at most %lld are copied",
                          (unsigned long long)c->mark.size, (long long)most);
        return give_up(m);
    }
    if (!begin_sums(m, c))
        return give_up(m);
    attn_pool_leave(pool);
    const size_t size = (size_t)c->mark.size;
    const int full = srv_runs_dir_expect(&m->runs->dir, srv_owner_of(m->req->owner), size, size);
    const int failed = full ? full : copy_capture(m, c, name.text, &file);
    attn_pool_enter(pool);
    if (failed) {
        refuse_import(m, failed);
        give_up(m);
    } else {
        run = finish_import(m, &file);
    }
    srv_runs_dir_expect_less(&m->runs->dir, full ? 0 : size);
    return run;
}

static const srv_run *import_capture(srv_request *req, const srv_capture *c, const char *path,
                                     srv_import_how how) {
import m;
    if (!c->mark.size) {
        srv_problem(req, SRV_VALUE, "/file", "the file is empty");
        return NULL;
    }
    if (how == SRV_IMPORT_MAP && !c->is_ours) {
        srv_problem(req, SRV_VALUE, "/copy",
                    "the file is not used where it lies, because it belongs to another user than "
                    "the service, or others may write it or its directory; leave copy out");
        return NULL;
    }
    if (!begin_import(&m, req, "/file"))
        return give_up(&m);
    return how == SRV_IMPORT_COPY || !c->is_ours ? copy_file(&m, c) : adopt_file(&m, c, path);
}

const srv_run *srv_run_import_file(srv_request *req, const char *path, srv_import_how how) {
    srv_runs *s = req->app->runs;
    srv_capture c;
    if (!s->has_dir || s->dir.captures < 0) {
        srv_problem(req, SRV_VALUE, "/file",
                    "this service has no captures_dir; send the file as the body");
        return NULL;
    }
    srv_runs_tick(s);
    const int failed = srv_capture_open(s->dir.captures, path, &c);
    if (failed) {
        refuse_capture(req, failed);
        return NULL;
    }
    const srv_run *run = import_capture(req, &c, path, how);
    srv_capture_close(&c);
    return run;
}
