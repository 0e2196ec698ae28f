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

static void unlist(srv_runs *s, srv_runs_entry *e) {
    list_out(s, e);
    s->bytes -= e->counted;
    srv_shares_take(&s->shares, e->owner, e->counted);
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

bool srv_runs_drop_one(srv_runs *s) {
    const srv_owner owner = srv_shares_heaviest(&s->shares);
    srv_runs_entry *e = s->last;
    while (e && e->owner != owner)
        e = e->previous;
    e = e ? e : s->last;
    if (!e)
        return false;
    if (!s->has_dir) {
        srv_runs_remember_gone(s, e->run.id);
        s->state.evicted++;
    }
    srv_runs_drop(s, e);
    return true;
}

/* Removes runs from the table until `bytes` more bytes fit into runs_bytes. The new bytes count as
 * the owner's while the owner with the most bytes is chosen. */
static void make_room(srv_runs *s, srv_owner owner, size_t bytes) {
    const size_t most = (size_t)s->config->runs_bytes;
    srv_shares_add(&s->shares, owner, bytes);
    while ((bytes > most || s->bytes > most - bytes) && srv_runs_drop_one(s))
        ;
    srv_shares_take(&s->shares, owner, bytes);
}

void srv_runs_list(srv_runs *s, srv_runs_entry *e) {
    make_room(s, e->owner, e->counted);
    e->listed = true;
    list_front(s, e);
    s->bytes += e->counted;
    srv_shares_add(&s->shares, e->owner, e->counted);
    s->count++;
}

bool srv_runs_swap_answers(srv_runs *s, srv_runs_entry *e, void **image, size_t size) {
    const size_t most = (size_t)s->config->runs_bytes, alone = e->counted - e->answers_size;
    void *old = e->answers;
    if (!e->listed || alone > most || size > most - alone)
        return false;
    unlist(s, e);
    e->answers = *image;
    e->answers_size = size;
    e->counted = alone + size;
    srv_runs_list(s, e);
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
