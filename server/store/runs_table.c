#include "store/runs_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

srv_runs_entry *srv_runs_entry_new(const srv_config *config) {
    srv_runs_entry *e = calloc(1, sizeof *e);
    if (e && !(e->arena = attn_arena_new((size_t)config->max_request_bytes))) {
        free(e);
        return NULL;
    }
    if (e) {
        e->run.entry = e;
        e->held = (srv_held){.entry = e, .key = e->run.id};
    }
    return e;
}

void srv_runs_leave_growing(srv_open_run *run) {
    if (!run || atomic_fetch_sub(&run->users, 1) != 1)
        return;
    attn_arena_free(run->arena);
    free(run);
}

void srv_runs_entry_free(srv_runs_entry *e) {
    if (!e)
        return;
    attn_arena_free(e->arena);
    attn_free(e->answers);
    if (!e->mapped)
        attn_free((void *)(uintptr_t)e->image);
    srv_mapped_close(e->mapped);
    srv_runs_side_free(&e->side);
    free((void *)(uintptr_t)e->checked);
    srv_runs_leave_growing(e->open);
    free(e);
}

srv_runs_entry *srv_runs_find(srv_runs *s, const char *id) {
    return srv_held_find(&s->table, id);
}

void srv_runs_drop(srv_runs *s, srv_runs_entry *e) {
    srv_held_list_out(&s->table, &e->held);
    srv_shares_take(&s->shares, e->owner, e->held.bytes);
    if (!e->held.holds)
        srv_runs_entry_free(e);
}

void srv_runs_remember_gone(srv_runs *s, const char *id) {
    memcpy(s->gone[s->gone_count++ % SRV_RUNS_REMEMBERED], id, SRV_RUN_ID);
}

bool srv_runs_was_known(const srv_runs *s, const char *id) {
    const size_t n = s->gone_count < SRV_RUNS_REMEMBERED ? s->gone_count : SRV_RUNS_REMEMBERED;
    for (size_t i = 0; i < n; i++)
        if (memcmp(s->gone[i], id, SRV_RUN_ID) == 0)
            return true;
    return false;
}

/* Removes an entry to make room. Without runs_dir the run no longer exists afterwards. */
static void evict_run(srv_runs *s, srv_runs_entry *e) {
    if (!s->has_dir) {
        srv_runs_remember_gone(s, e->run.id);
        s->state.evicted++;
    }
    srv_runs_drop(s, e);
}

typedef struct choice {
    srv_runs *runs;
    const srv_runs_entry *spared;
} choice;

static bool doom_run(void *of, const srv_owner *owner, size_t *bytes) {
    const choice *c = of;
    for (srv_held *h = c->runs->table.last; h; h = h->previous) {
        srv_runs_entry *e = h->entry;
        if (e->doomed || e == c->spared || (owner && e->owner != *owner))
            continue;
        e->doomed = true;
        *bytes = h->bytes;
        return true;
    }
    return false;
}

bool srv_runs_make_room(srv_runs *s, srv_owner owner, size_t bytes, size_t over,
                        const srv_runs_entry *spared) {
    choice c = {s, spared};
    bool found = true;
    if (s->has_dir)
        for (size_t size; over && doom_run(&c, NULL, &size); over -= size < over ? size : over)
            ;
    else
        found = srv_shares_choose(&s->shares, owner, bytes, over, doom_run, &c);
    for (srv_held *h = s->table.last, *before; h; h = before) {
        srv_runs_entry *e = h->entry;
        before = h->previous;
        if (e->doomed && found)
            evict_run(s, e);
        else
            e->doomed = false;
    }
    return found;
}

/* Makes room in runs_bytes for `bytes` more bytes, by srv_runs_make_room. */
static bool fit_in_table(srv_runs *s, srv_owner owner, size_t bytes, const srv_runs_entry *spared) {
    const size_t most = (size_t)s->config->runs_bytes, all = s->table.bytes + bytes;
    return srv_runs_make_room(s, owner, bytes, all > most ? all - most : 0, spared);
}

bool srv_runs_list(srv_runs *s, srv_runs_entry *e) {
    if (!fit_in_table(s, e->owner, e->held.bytes, NULL))
        return false;
    srv_held_list_in(&s->table, &e->held, s->table.first);
    srv_shares_add(&s->shares, e->owner, e->held.bytes);
    return true;
}

bool srv_runs_swap_answers(srv_runs *s, srv_runs_entry *e, void **image, size_t size) {
    void *old = e->answers;
    if (!e->held.listed ||
        !fit_in_table(s, e->owner, size > e->answers_size ? size - e->answers_size : 0, e))
        return false;
    srv_held_resize(&s->table, &e->held, e->held.bytes - e->answers_size + size);
    srv_shares_take(&s->shares, e->owner, e->answers_size);
    srv_shares_add(&s->shares, e->owner, size);
    e->answers = *image;
    e->answers_size = size;
    *image = old;
    return true;
}

void srv_runs_drop_expired(srv_runs *s, int64_t now) {
    for (srv_runs_entry *e = srv_held_first(&s->table), *next; e; e = next) {
        next = srv_held_next(&e->held);
        if (s->has_dir ? srv_runs_dir_knows(&s->dir, e->run.id) : e->run.ends_ns > now)
            continue;
        if (!s->has_dir) {
            srv_runs_remember_gone(s, e->run.id);
            s->state.expired++;
        }
        srv_runs_drop(s, e);
    }
}

/* --- ids and problems --- */

bool srv_runs_new_id(char id[SRV_RUN_ID + 1]) {
    unsigned char bytes[SRV_RUN_ID / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

bool srv_runs_is_id(const char *id) {
    return strlen(id) == SRV_RUN_ID && strspn(id, "0123456789abcdef") == SRV_RUN_ID;
}

const srv_run *srv_runs_too_large(srv_request *req, const char *pointer, size_t bytes) {
    srv_problem_limit(req, SRV_TOO_LARGE, pointer, (double)req->app->config->runs_bytes,
                      "runs_bytes",
                      "the run needs %zu bytes; all stored runs together may use %lld", bytes,
                      (long long)req->app->config->runs_bytes);
    return NULL;
}

void srv_runs_refuse(srv_request *req, const char *pointer, int failed) {
    const double most = (double)req->app->config->runs_bytes;
    if (failed == ENOBUFS)
        srv_problem_limit(req, SRV_STORAGE_FULL, pointer, most, "runs_bytes",
                          "no room for the run is left: with it you would have the most of "
                          "runs_bytes, and you have no older run that could make room for it");
    else if (failed == EAGAIN)
        srv_problem_limit(req, SRV_STORAGE, pointer, most, "runs_bytes",
                          "the runs that clients are sending now take all the room for them; try "
                          "again a little later");
    else
        srv_problem_file(req, pointer, "the run cannot be written to runs_dir", failed);
}
