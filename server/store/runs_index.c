/* The index of a directory's runs, and the bytes of each owner. Items are found by binary search.
 * Owners are found by linear search, which is fast enough for at most SRV_SHARES of them. */
#include <stdlib.h>
#include <string.h>

#include "store/runs_index.h"

/* Returns the index of the owner's entry in s->list. For an unknown owner, returns the index of a
 * free entry (one with 0 bytes, or the one after the last), or 0 if no entry is free. */
static size_t share_of(const srv_shares *s, srv_owner owner) {
    size_t i = 0, vacant = s->count;
    while (i < s->count && s->list[i].owner != owner) {
        if (!s->list[i].bytes && vacant == s->count)
            vacant = i;
        i++;
    }
    if (i < s->count)
        return i;
    return vacant < SRV_SHARES ? vacant : 0;
}

void srv_shares_add(srv_shares *s, srv_owner owner, size_t bytes) {
    const size_t i = share_of(s, owner);
    if (!s->list[i].bytes)
        s->list[i].owner = owner;
    s->list[i].bytes += bytes;
    s->count += i == s->count;
}

void srv_shares_take(srv_shares *s, srv_owner owner, size_t bytes) {
    size_t *left = &s->list[share_of(s, owner)].bytes;
    *left -= bytes < *left ? bytes : *left;
}

/* Returns the owner with the most bytes. This is `asking` if no other owner has more. */
static srv_owner heaviest_owner(const srv_shares *s, srv_owner asking) {
    size_t most = share_of(s, asking);
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].bytes > s->list[most].bytes)
            most = i;
    return s->list[most].owner;
}

bool srv_shares_choose(const srv_shares *s, srv_owner asking, size_t bytes, size_t over,
                       bool (*doom)(void *of, const srv_owner *owner, size_t *bytes), void *of) {
    srv_shares left = *s;
    srv_shares_add(&left, asking, bytes);
    for (size_t size; over; over -= size < over ? size : over) {
        const srv_owner owner = heaviest_owner(&left, asking);
        /* An entry may count several owners (those beyond SRV_SHARES). If the owner that the entry
         * names has no run to remove, any run is removed. */
        if (!doom(of, &owner, &size) && (owner == asking || !doom(of, NULL, &size)))
            return false;
        srv_shares_take(&left, owner, size);
    }
    return true;
}

bool srv_runs_is_due(int64_t moved_ns, int64_t ttl_ns, int64_t now) {
    const int64_t minute = (int64_t)60 * 1000000000, quarter = ttl_ns / 4;
    return !moved_ns || now - moved_ns >= (quarter < minute ? quarter : minute);
}

static int by_id(const void *a, const void *b) {
    return memcmp(((const srv_runs_item *)a)->id, ((const srv_runs_item *)b)->id, SRV_RUN_ID);
}

void srv_runs_index_free(srv_runs_index *x) {
    free(x->items);
    *x = (srv_runs_index){0};
}

/* Returns the index of the first item whose id is not less than `id`; x->count if there is none. */
static size_t place_of(const srv_runs_index *x, const char *id) {
    size_t from = 0, to = x->count;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (memcmp(x->items[middle].id, id, SRV_RUN_ID) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool is_at(const srv_runs_index *x, size_t place, const char *id) {
    return place < x->count && !memcmp(x->items[place].id, id, SRV_RUN_ID);
}

srv_runs_item *srv_runs_index_find(const srv_runs_index *x, const char *id) {
    const size_t place = place_of(x, id);
    return is_at(x, place, id) ? &x->items[place] : NULL;
}

static bool grow_index(srv_runs_index *x) {
    const size_t room = x->room ? 2 * x->room : 64;
    srv_runs_item *grown = realloc(x->items, room * sizeof *grown);
    if (!grown)
        return false;
    x->items = grown;
    x->room = room;
    return true;
}

static void count_in(srv_runs_index *x, const srv_runs_item *item) {
    x->bytes += item->bytes;
    srv_shares_add(&x->shares, item->owner, item->bytes);
}

static void count_out(srv_runs_index *x, const srv_runs_item *item) {
    x->bytes -= item->bytes;
    srv_shares_take(&x->shares, item->owner, item->bytes);
}

srv_runs_item *srv_runs_index_add(srv_runs_index *x, const srv_runs_item *item) {
    const size_t place = place_of(x, item->id);
    if (is_at(x, place, item->id))
        return &x->items[place];
    if (x->count == x->room && !grow_index(x))
        return NULL;
    srv_runs_item *at = &x->items[place];
    memmove(at + 1, at, (x->count - place) * sizeof *at);
    *at = *item;
    x->count++;
    count_in(x, at);
    return at;
}

void srv_runs_index_resize(srv_runs_index *x, srv_runs_item *item, size_t bytes) {
    count_out(x, item);
    item->bytes = bytes;
    count_in(x, item);
}

void srv_runs_index_remove(srv_runs_index *x, srv_runs_item *item) {
    const size_t after = x->count - 1 - (size_t)(item - x->items);
    count_out(x, item);
    memmove(item, item + 1, after * sizeof *item);
    x->count--;
}

void srv_runs_index_renew(srv_runs_index *x, srv_runs_item *items, size_t count, int64_t start_ns) {
    srv_runs_item *before = x->items;
    const size_t count_before = x->count;
    for (size_t i = 0; i < count_before; i++)
        count_out(x, &before[i]);
    if (count)
        qsort(items, count, sizeof *items, by_id);
    for (size_t i = 0; i < count; i++)
        count_in(x, &items[i]);
    x->items = items;
    x->count = x->room = count;
    for (size_t i = 0; i < count_before; i++) {
        if (before[i].since_ns < start_ns && before[i].used_ns < start_ns)
            continue;
        srv_runs_item *at = srv_runs_index_add(x, &before[i]);
        if (!at)
            continue;
        before[i].bytes = at->bytes; /* keep these two, which x->bytes and x->shares include */
        before[i].owner = at->owner;
        *at = before[i];
    }
    free(before);
}

static bool goes_before(const srv_runs_item *a, const srv_runs_item *b) {
    return a->used_ns != b->used_ns ? a->used_ns < b->used_ns : a->access_ns < b->access_ns;
}

typedef struct choice {
    srv_runs_index *index;
    const char *spared;
} choice;

static bool doom_item(void *of, const srv_owner *owner, size_t *bytes) {
    const choice *c = of;
    srv_runs_item *found = NULL;
    for (size_t i = 0; i < c->index->count; i++) {
        srv_runs_item *item = &c->index->items[i];
        if (!item->doomed && (!owner || item->owner == *owner) &&
            !(c->spared && !memcmp(item->id, c->spared, SRV_RUN_ID)) &&
            (!found || goes_before(item, found)))
            found = item;
    }
    if (!found)
        return false;
    found->doomed = true;
    *bytes = found->bytes;
    return true;
}

void srv_runs_index_spare(srv_runs_index *x) {
    for (size_t i = 0; i < x->count; i++)
        x->items[i].doomed = false;
}

bool srv_runs_index_choose(srv_runs_index *x, srv_owner asking, size_t bytes, size_t over,
                           const char *spared) {
    const bool found =
        srv_shares_choose(&x->shares, asking, bytes, over, doom_item, &(choice){x, spared});
    if (!found)
        srv_runs_index_spare(x);
    return found;
}
