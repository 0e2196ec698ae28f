#include "store/runs_shares.h"

/* The place of an owner, or of the first free one; the first place when all are taken. */
static size_t place_of(const srv_shares *s, srv_owner owner) {
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
    const size_t i = place_of(s, owner);
    if (!s->list[i].bytes)
        s->list[i].owner = owner;
    s->list[i].bytes += bytes;
    s->count += i == s->count;
}

void srv_shares_take(srv_shares *s, srv_owner owner, size_t bytes) {
    size_t *left = &s->list[place_of(s, owner)].bytes;
    *left -= bytes < *left ? bytes : *left;
}

srv_owner srv_shares_heaviest(const srv_shares *s) {
    size_t most = 0;
    for (size_t i = 1; i < s->count; i++)
        if (s->list[i].bytes > s->list[most].bytes)
            most = i;
    return s->list[most].bytes ? s->list[most].owner : 0;
}
