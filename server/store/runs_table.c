#include "store/runs_table.h"

#include <stdlib.h>
#include <string.h>

srv_runs_entry *srv_runs_entry_new(const srv_config *config) {
    srv_runs_entry *e = calloc(1, sizeof *e);
    if (e && !(e->arena = attn_arena_new((size_t)config->max_request_bytes))) {
        free(e);
        return NULL;
    }
    return e;
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

static void list_out(srv_runs *s, srv_runs_entry *e) {
    *(e->previous ? &e->previous->next : &s->first) = e->next;
    *(e->next ? &e->next->previous : &s->last) = e->previous;
    e->next = e->previous = NULL;
}

static void list_front(srv_runs *s, srv_runs_entry *e) {
    e->previous = NULL;
    e->next = s->first;
    *(s->first ? &s->first->previous : &s->last) = e;
    s->first = e;
}

srv_runs_entry *srv_runs_find(srv_runs *s, const char *id) {
    srv_runs_entry *e = s->first;
    while (e && memcmp(e->run.id, id, SRV_RUN_ID) != 0)
        e = e->next;
    return e;
}

static void count_in(srv_runs *s, srv_runs_entry *e, size_t bytes) {
    e->counted += bytes;
    s->bytes += bytes;
    srv_shares_add(&s->shares, e->owner, bytes);
}

static void count_out(srv_runs *s, srv_runs_entry *e, size_t bytes) {
    e->counted -= bytes;
    s->bytes -= bytes;
    srv_shares_take(&s->shares, e->owner, bytes);
}

static void unlist(srv_runs *s, srv_runs_entry *e) {
    list_out(s, e);
    count_out(s, e, e->counted);
    s->count--;
    e->listed = false;
}

void srv_runs_drop(srv_runs *s, srv_runs_entry *e) {
    unlist(s, e);
    if (!e->holds)
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

/* Removes an entry to make room. Without runs_dir that is the end of the run. */
static void evict(srv_runs *s, srv_runs_entry *e) {
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

static bool doom(void *of, const srv_owner *owner, size_t *bytes) {
    const choice *c = of;
    srv_runs_entry *e = c->runs->last;
    while (e && (e->doomed || e == c->spared || (owner && e->owner != *owner)))
        e = e->previous;
    if (!e)
        return false;
    e->doomed = true;
    *bytes = e->counted;
    return true;
}

bool srv_runs_make_room(srv_runs *s, srv_owner owner, size_t bytes, size_t over,
                        const srv_runs_entry *spared) {
    choice c = {s, spared};
    bool found = true;
    if (s->has_dir)
        for (size_t size; over && doom(&c, NULL, &size); over -= size < over ? size : over)
            ;
    else
        found = srv_shares_choose(&s->shares, owner, bytes, over, doom, &c);
    for (srv_runs_entry *e = s->last, *next; e; e = next) {
        next = e->previous;
        if (e->doomed && found)
            evict(s, e);
        else
            e->doomed = false;
    }
    return found;
}

/* As above, for bytes that runs_bytes limits. */
static bool fit(srv_runs *s, srv_owner owner, size_t bytes, const srv_runs_entry *spared) {
    const size_t most = (size_t)s->config->runs_bytes, all = s->bytes + bytes;
    return srv_runs_make_room(s, owner, bytes, all > most ? all - most : 0, spared);
}

bool srv_runs_list(srv_runs *s, srv_runs_entry *e) {
    const size_t bytes = e->counted;
    if (!fit(s, e->owner, bytes, NULL))
        return false;
    list_front(s, e);
    e->listed = true;
    e->counted = 0;
    count_in(s, e, bytes);
    s->count++;
    return true;
}

bool srv_runs_swap_answers(srv_runs *s, srv_runs_entry *e, void **image, size_t size) {
    void *old = e->answers;
    if (!e->listed || !fit(s, e->owner, size > e->answers_size ? size - e->answers_size : 0, e))
        return false;
    count_out(s, e, e->answers_size);
    count_in(s, e, size);
    e->answers = *image;
    e->answers_size = size;
    *image = old;
    return true;
}

void srv_runs_note_use(srv_runs *s, srv_runs_entry *e) {
    list_out(s, e);
    list_front(s, e);
}

void srv_runs_drop_expired(srv_runs *s, int64_t now) {
    for (srv_runs_entry *e = s->first, *next; e; e = next) {
        next = e->next;
        if (s->has_dir ? srv_runs_dir_knows(&s->dir, e->run.id) : e->run.ends_ns > now)
            continue;
        if (!s->has_dir) {
            srv_runs_remember_gone(s, e->run.id);
            s->state.expired++;
        }
        srv_runs_drop(s, e);
    }
}
