/* The lock protects the index of the directory (runs_index.h). Files are read, written and deleted
 * without the lock, because the disk may be slow. */
#include "store/runs_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "system/clock.h"
#include "system/files.h"

enum {
    HOUR = 3600,            /* in seconds */
    MARKS = 8192,           /* largest number of <id>.gone files; older ones are deleted */
    HEADER_BYTES = 1 << 16, /* arena limit for the tensor names and metadata of one file */
};

int srv_runs_dir_open(srv_runs_dir *dir, const srv_config *config) {
    *dir = (srv_runs_dir){
        .fd = open(config->runs_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
        .has_owners = *config->keys_file != 0,
        .ttl_ns = config->runs_ttl_ms * 1000000,
        .most = (size_t)config->runs_bytes,
        .captures = -1,
    };
    pthread_mutex_init(&dir->lock, NULL);
    if (dir->fd < 0)
        return errno;
    return faccessat(dir->fd, ".", W_OK | X_OK, AT_EACCESS) ? errno : 0;
}

int srv_runs_dir_open_captures(srv_runs_dir *dir, const srv_config *config) {
    if (!*config->captures_dir)
        return 0;
    dir->captures = open(config->captures_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir->captures < 0 ? errno : 0;
}

void srv_runs_dir_close(srv_runs_dir *dir) {
    if (dir->fd >= 0)
        close(dir->fd);
    if (dir->captures >= 0)
        close(dir->captures);
    dir->fd = dir->captures = -1;
    srv_runs_index_free(&dir->index);
    pthread_mutex_destroy(&dir->lock);
}

bool srv_runs_dir_is_same(srv_runs_dir *dir, const char *id, uint64_t print) {
    pthread_mutex_lock(&dir->lock);
    srv_runs_item *item = srv_runs_index_find(&dir->index, id);
    const bool same = !item || !item->print || item->print == print;
    if (item && same)
        item->print = print;
    pthread_mutex_unlock(&dir->lock);
    return same;
}

bool srv_runs_dir_knows(srv_runs_dir *dir, const char *id) {
    pthread_mutex_lock(&dir->lock);
    const bool known = srv_runs_index_find(&dir->index, id);
    pthread_mutex_unlock(&dir->lock);
    return known;
}

size_t srv_runs_dir_page(srv_runs_dir *dir, const srv_owner *owner, const char *after,
                         srv_run_listed *out, size_t most) {
    size_t count = 0;
    pthread_mutex_lock(&dir->lock);
    const srv_runs_index *x = &dir->index;
    for (size_t i = 0; i < x->count && count < most; i++) {
        const srv_runs_item *item = &x->items[i];
        if ((owner && item->owner != *owner) ||
            (after && strncmp(item->id, after, SRV_RUN_ID) <= 0))
            continue;
        out[count] =
            (srv_run_listed){.bytes = item->bytes, .ends_ns = item->since_ns + dir->ttl_ns};
        memcpy(out[count++].id, item->id, SRV_RUN_ID);
    }
    pthread_mutex_unlock(&dir->lock);
    return count;
}

void srv_runs_dir_look(srv_runs_dir *dir, srv_runs_state *out) {
    pthread_mutex_lock(&dir->lock);
    *out = dir->state;
    out->count = dir->index.count;
    out->bytes = dir->index.bytes;
    pthread_mutex_unlock(&dir->lock);
}

/* --- index items from files --- */

/* Copies the file's access time into its index item. Reading the file may have changed that time.
 * The next sweep must not mistake this change for a use by another process. */
static void note_access(srv_runs_dir *dir, const char *id) {
    struct stat st;
    if (!srv_runs_dir_look_at(dir, id, &st))
        return;
    pthread_mutex_lock(&dir->lock);
    srv_runs_item *item = srv_runs_index_find(&dir->index, id);
    if (item)
        item->access_ns = srv_ns_of(&st.st_atim);
    pthread_mutex_unlock(&dir->lock);
}

static int read_side(const srv_runs_dir *dir, const char *id, const char *suffix,
                     srv_runs_side *out) {
    return srv_runs_side_read(dir->fd, srv_runs_dir_name(id, suffix).text, out);
}

/* Reads <id>.checks after the run's file was opened. <id>.checks is written before the run's file
 * gets its name, and deleted after that file. So if it is missing while the run's file still has
 * its name, it never existed. */
static int read_checks(const srv_runs_dir *dir, const char *id, srv_runs_side *side) {
    const int failed = read_side(dir, id, SRV_RUNS_CHECKS, side);
    return failed != ENOENT || srv_runs_dir_lacks(dir, id, SRV_RUNS_FILE) ? failed : 0;
}

static int map_own(srv_runs_dir *dir, const char *id, srv_mapped **out, srv_runs_side *side) {
    int failed = srv_mapped_open(dir->fd, srv_runs_dir_name(id, SRV_RUNS_FILE).text, false, out);
    if (failed == EISDIR || failed == ESPIPE || failed == ELOOP)
        return ENODATA;
    if (!failed && (failed = read_checks(dir, id, side)) != 0)
        srv_mapped_close(*out);
    if (!failed)
        note_access(dir, id);
    return failed;
}

int srv_runs_dir_open_adopted(const srv_runs_dir *dir, const srv_runs_side *side,
                              srv_capture *out) {
    const int failed =
        dir->captures < 0 ? ENOLINK : srv_capture_open(dir->captures, side->path, out);
    if (failed)
        return srv_file_judge(failed) == SRV_FILE_TROUBLE ? failed : ESTALE;
    if (srv_file_mark_equal(&out->mark, &side->mark))
        return 0;
    srv_capture_close(out);
    return ESTALE;
}

static int map_adopted(srv_runs_dir *dir, const char *id, srv_mapped **out, srv_runs_side *side) {
    srv_capture file;
    int failed = read_side(dir, id, SRV_RUNS_ADOPTED, side);
    if (failed)
        return failed;
    failed = side->path ? srv_runs_dir_open_adopted(dir, side, &file) : EBADMSG;
    if (!failed) {
        failed = file.mark.size ? srv_mapped_open_fd(file.fd, out) : ENODATA;
        srv_capture_close(&file);
    }
    if (failed)
        srv_runs_side_free(side);
    else
        note_access(dir, id);
    return failed;
}

int srv_runs_dir_map(srv_runs_dir *dir, const char *id, srv_mapped **out, srv_runs_side *side) {
    *side = (srv_runs_side){.owner = NULL};
    const int failed = map_own(dir, id, out, side);
    return failed == ENOENT ? map_adopted(dir, id, out, side) : failed;
}

static srv_owner owner_of_image(const void *data, size_t size) {
    attn_safetensors file;
    attn_error err;
    srv_owner owner = 0;
    attn_arena *arena = attn_arena_new(HEADER_BYTES);
    if (arena && !attn_safetensors_read(data, size, arena, &file, &err))
        for (size_t i = 0; i < file.metadata_count; i++)
            if (!strcmp(file.metadata[i].key, SRV_RUN_OWNER))
                owner = srv_owner_of(file.metadata[i].text);
    attn_arena_free(arena);
    return owner;
}

int srv_runs_dir_side(const srv_runs_dir *dir, const char *id, srv_runs_side *out) {
    const int failed = read_side(dir, id, SRV_RUNS_CHECKS, out);
    return failed == ENOENT ? read_side(dir, id, SRV_RUNS_ADOPTED, out) : failed;
}

/* Reads the owner of a run from its side file or, if it has none, from the metadata of its file. 0:
 * no owner, no API keys in use, or the files are damaged. false: the owner cannot be read now. */
static bool read_owner(srv_runs_dir *dir, const char *id, srv_owner *owner) {
    srv_mapped *m;
    srv_runs_side side;
    *owner = 0;
    if (!dir->has_owners)
        return true;
    int failed = srv_runs_dir_side(dir, id, &side);
    if (!failed) {
        *owner = srv_owner_of(side.owner);
    } else if (!(failed = srv_runs_dir_map(dir, id, &m, &side))) {
        *owner = side.text ? srv_owner_of(side.owner)
                           : owner_of_image(srv_mapped_data(m), srv_mapped_size(m));
        srv_mapped_close(m);
    }
    srv_runs_side_free(&side);
    return !failed || srv_file_judge(failed) != SRV_FILE_TROUBLE;
}

static srv_runs_item new_item(const srv_runs_dir *dir, const char *id, const struct stat *st,
                              srv_owner owner) {
    srv_runs_item item = {
        .owner = owner,
        .bytes = srv_runs_dir_bytes(dir, id, st),
        .access_ns = srv_ns_of(&st->st_atim),
        .since_ns = attn_now_ns(),
    };
    memcpy(item.id, id, SRV_RUN_ID);
    return item;
}

/* Sets *item to a copy of the run's index item, brought up to date with `st`: if the access time
 * differs from the recorded one, another process has used the run. For a run that is not in the
 * index, makes a new item and reads its owner from the files. false: the owner cannot be read now,
 * so the item must not be put into the index. */
static bool take_item(srv_runs_dir *dir, const char *id, const struct stat *st,
                      srv_runs_item *item) {
    pthread_mutex_lock(&dir->lock);
    const srv_runs_item *known = srv_runs_index_find(&dir->index, id);
    if (known)
        *item = *known;
    pthread_mutex_unlock(&dir->lock);
    if (!known) {
        srv_owner owner;
        const bool sure = read_owner(dir, id, &owner);
        struct stat now = *st;
        srv_runs_dir_look_at(dir, id, &now);
        *item = new_item(dir, id, &now, owner);
        return sure;
    }
    if (item->access_ns != srv_ns_of(&st->st_atim)) {
        item->access_ns = srv_ns_of(&st->st_atim);
        item->since_ns = item->used_ns = attn_now_ns();
    }
    return true;
}

static bool has_expired(const srv_runs_dir *dir, const srv_runs_item *item, int64_t now) {
    return now - item->since_ns >= dir->ttl_ns;
}

/* --- using a run --- */

/* Records a use of the run in the access time of its file, which has this suffix. */
static void touch_run(const srv_runs_dir *dir, srv_runs_item *item, const char *suffix,
                      int64_t now) {
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    struct stat st;
    utimensat(dir->fd, srv_runs_dir_name(item->id, suffix).text, times, AT_SYMLINK_NOFOLLOW);
    if (srv_runs_dir_look_at(dir, item->id, &st))
        item->access_ns = srv_ns_of(&st.st_atim);
    item->touched_ns = item->since_ns = now;
}

static void put_back(srv_runs_dir *dir, const srv_runs_item *item) {
    pthread_mutex_lock(&dir->lock);
    srv_runs_item *at = srv_runs_index_add(&dir->index, item);
    if (at) {
        at->access_ns = item->access_ns;
        at->since_ns = item->since_ns;
        at->used_ns = item->used_ns;
        at->touched_ns = item->touched_ns;
    }
    pthread_mutex_unlock(&dir->lock);
}

/* Removes a run that has expired. false: it cannot be removed, and stays expired. */
static bool expire_run(srv_runs_dir *dir, const char *id) {
    const int failed = srv_runs_dir_remove(dir, id);
    pthread_mutex_lock(&dir->lock);
    dir->state.expired += !failed;
    pthread_mutex_unlock(&dir->lock);
    return !failed || failed == ENOENT;
}

srv_run_presence srv_runs_dir_use(srv_runs_dir *dir, const char *id, int64_t *ends_ns) {
    const int64_t now = attn_now_ns();
    struct stat st;
    const char *suffix = srv_runs_dir_look_at(dir, id, &st);
    if (!suffix && errno != ENOENT)
        return SRV_RUN_UNKNOWN;
    if (!suffix) {
        srv_runs_dir_forget(dir, id);
        return srv_runs_dir_lacks(dir, id, SRV_RUNS_GONE) ? SRV_RUN_NEVER : SRV_RUN_GONE;
    }
    srv_runs_item item;
    const bool sure = take_item(dir, id, &st, &item);
    if (has_expired(dir, &item, now)) {
        expire_run(dir, id);
        return SRV_RUN_GONE;
    }
    item.used_ns = now;
    if (srv_runs_is_due(item.touched_ns, dir->ttl_ns, now))
        touch_run(dir, &item, suffix, now);
    if (sure)
        put_back(dir, &item);
    *ends_ns = item.since_ns + dir->ttl_ns;
    return SRV_RUN_THERE;
}

/* --- writing --- */

static int write_file(const srv_runs_dir *dir, const char *id, const attn_run_image *image) {
    const srv_runs_name name = srv_runs_dir_name(id, SRV_RUNS_FILE);
    srv_new_file file;
    const int failed = srv_new_file_open(&file, dir->fd, name.text);
    if (failed)
        return failed;
    for (size_t i = 0; i < image->count; i++)
        srv_new_file_write(&file, image->pieces[i].data, image->pieces[i].size);
    return srv_new_file_close(&file);
}

void srv_runs_dir_add(srv_runs_dir *dir, const char *id, srv_owner owner) {
    struct stat st;
    if (!srv_runs_dir_look_at(dir, id, &st))
        return;
    srv_runs_item item = new_item(dir, id, &st, owner);
    item.used_ns = item.touched_ns = item.since_ns;
    put_back(dir, &item);
}

int srv_runs_dir_write(srv_runs_dir *dir, const char *id, srv_owner owner,
                       const attn_run_image *image) {
    int failed = srv_runs_dir_reserve(dir, owner, image->size);
    if (failed)
        return failed;
    failed = write_file(dir, id, image);
    srv_runs_dir_unreserve(dir, owner, image->size);
    if (!failed)
        srv_runs_dir_add(dir, id, owner);
    return failed;
}

/* --- sweeping --- */

/* The results of a scan of the directory so far. */
typedef struct sweep {
    srv_runs_dir *dir;
    int64_t start_ns;     /* when the scan began (attn_now_ns) */
    srv_runs_item *items; /* the runs in the directory, in any order */
    size_t count, room;   /* used and allocated items */
    size_t unfinished;    /* bytes of *.part files that processes are writing */
    size_t marks;         /* number of <id>.gone files */
    bool failed;          /* out of memory: the scan must not replace the index */
} sweep;

static bool ends_with(const char *name, const char *suffix) {
    const size_t n = strlen(name), m = strlen(suffix);
    return n == SRV_RUN_ID + m && !strcmp(name + SRV_RUN_ID, suffix);
}

/* Handles a *.part file. If its writer has ended, the file is deleted; otherwise its bytes count as
 * unfinished. On a file system without locks it is unknown whether the writer has ended. There the
 * file is deleted an hour after its last change. */
static void look_at_part(sweep *s, const char *name) {
    struct stat st;
    const int failed = srv_part_sweep(s->dir->fd, name);
    if (!failed || fstatat(s->dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
        return;
    if (failed != EWOULDBLOCK && time(NULL) - st.st_mtime > HOUR)
        unlinkat(s->dir->fd, name, 0);
    else
        s->unfinished += (size_t)st.st_size;
}

static void append_item(sweep *s, const srv_runs_item *item) {
    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 64;
        srv_runs_item *grown = realloc(s->items, room * sizeof *grown);
        s->failed |= !grown;
        if (!grown)
            return;
        s->items = grown;
        s->room = room;
    }
    s->items[s->count++] = *item;
}

static void look_at_run(sweep *s, const char *name) {
    struct stat st;
    srv_runs_item item;
    if (!srv_runs_dir_look_at(s->dir, name, &st) || !S_ISREG(st.st_mode) ||
        !take_item(s->dir, name, &st, &item))
        return;
    item.bytes = srv_runs_dir_bytes(s->dir, name, &st);
    if (!has_expired(s->dir, &item, s->start_ns) || !expire_run(s->dir, name))
        append_item(s, &item);
}

/* Deletes checksums whose run is gone. Those of an unfinished run stay: its writer writes them
 * before it renames the run's .part file. Therefore the .part file is looked for before the run. */
static void look_at_checks(sweep *s, const char *name) {
    char part[sizeof(srv_runs_name) + sizeof SRV_PART];
    snprintf(part, sizeof part, "%.*s" SRV_RUNS_FILE SRV_PART, SRV_RUN_ID, name);
    const int unfinished = srv_part_sweep(s->dir->fd, part);
    if (!unfinished && srv_runs_dir_lacks(s->dir, name, SRV_RUNS_FILE))
        unlinkat(s->dir->fd, name, 0);
}

/* Deletes kept answers whose run was removed while they were written. */
static void look_at_answers(const sweep *s, const char *name) {
    struct stat st;
    if (!srv_runs_dir_look_at(s->dir, name, &st) && errno == ENOENT)
        unlinkat(s->dir->fd, name, 0);
}

static void scan_name(sweep *s, const char *name) {
    if (ends_with(name, SRV_RUNS_FILE) || ends_with(name, SRV_RUNS_ADOPTED))
        look_at_run(s, name);
    else if (ends_with(name, SRV_RUNS_CHECKS))
        look_at_checks(s, name);
    else if (ends_with(name, SRV_RUNS_KEPT))
        look_at_answers(s, name);
    else if (srv_is_part(name))
        look_at_part(s, name);
    else if (ends_with(name, SRV_RUNS_GONE))
        s->marks++;
}

/* Calls `look` with the name of each file in the directory. false: the directory cannot be read. */
static bool scan_names(const srv_runs_dir *dir, void (*look)(sweep *, const char *), sweep *s) {
    const int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    if (!list && fd >= 0)
        close(fd);
    for (struct dirent *e = list ? readdir(list) : NULL; e; e = readdir(list))
        look(s, e->d_name);
    if (list)
        closedir(list);
    return list;
}

/* An <id>.gone file. */
typedef struct mark {
    srv_runs_name name;
    int64_t made_ns;
} mark;

typedef struct marks {
    sweep base; /* must be the first member, because take_mark casts sweep * to marks * */
    mark *list;
    size_t count, room;
} marks;

static void take_mark(sweep *s, const char *name) {
    marks *m = (marks *)s;
    struct stat st;
    if (m->count == m->room || !ends_with(name, SRV_RUNS_GONE) ||
        fstatat(s->dir->fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return;
    mark *at = &m->list[m->count++];
    at->name = srv_runs_dir_name(name, SRV_RUNS_GONE);
    at->made_ns = srv_ns_of(&st.st_mtim);
}

static int by_age(const void *a, const void *b) {
    const int64_t x = ((const mark *)a)->made_ns, y = ((const mark *)b)->made_ns;
    return x < y ? -1 : x > y;
}

/* Deletes the oldest <id>.gone files until three quarters of MARKS are left, so that the next
 * deletion is not needed soon. `count` is their number in the directory. */
static void drop_marks(srv_runs_dir *dir, size_t count) {
    const size_t left = MARKS / 4 * 3;
    marks m = {.base.dir = dir, .list = calloc(count, sizeof *m.list), .room = count};
    if (m.list && scan_names(dir, take_mark, &m.base) && m.count > left) {
        qsort(m.list, m.count, sizeof *m.list, by_age);
        for (size_t i = 0; i < m.count - left; i++)
            unlinkat(dir->fd, m.list[i].name.text, 0);
    }
    free(m.list);
}

void srv_runs_dir_sweep(srv_runs_dir *dir) {
    sweep s = {.dir = dir, .start_ns = attn_now_ns()};
    const bool read = scan_names(dir, scan_name, &s);
    if (!read || s.failed) {
        free(s.items);
        return;
    }
    pthread_mutex_lock(&dir->lock);
    srv_runs_index_renew(&dir->index, s.items, s.count, s.start_ns);
    dir->unfinished = s.unfinished > dir->arriving ? s.unfinished - dir->arriving : 0;
    pthread_mutex_unlock(&dir->lock);
    srv_runs_dir_trim(dir);
    if (s.marks > MARKS)
        drop_marks(dir, s.marks);
}
