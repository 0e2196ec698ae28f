/* Makes room for runs in a directory, within runs_bytes. Decides which owner gets room, and whose
 * runs are removed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/runs_dir.h"

static size_t bytes_beyond(size_t bytes, size_t most) {
    return bytes > most ? bytes - most : 0;
}

/* Takes the chosen runs out of the index. Returns a list of their ids, which the caller frees;
 * *count is their number. NULL: no run is chosen, or memory ran out and the chosen runs stay. The
 * caller has the lock. */
static char (*take_doomed(srv_runs_dir *dir, size_t *count))[SRV_RUN_ID] {
    srv_runs_index *x = &dir->index;
    char(*ids)[SRV_RUN_ID];
    *count = 0;
    for (size_t i = 0; i < x->count; i++)
        *count += x->items[i].doomed;
    ids = *count ? calloc(*count, sizeof *ids) : NULL;
    if (!ids)
        srv_runs_index_spare(x);
    for (size_t i = ids ? x->count : 0, at = 0; i-- > 0;) {
        if (!x->items[i].doomed)
            continue;
        memcpy(ids[at++], x->items[i].id, SRV_RUN_ID);
        srv_runs_index_remove(x, &x->items[i]);
    }
    return ids;
}

/* Removes runs other than `spared` (an id; NULL: any may go) until `over` bytes are free, because
 * `owner` wants to store `bytes` more, and adds `bytes` to dir->coming. Returns 0 or an errno
 * value. After an error nothing has changed. The caller has the lock, which this function
 * releases. */
static int make_room(srv_runs_dir *dir, srv_owner owner, size_t bytes, size_t over,
                     const char *spared) {
    size_t count = 0, removed = 0;
    const bool found = srv_runs_index_choose(&dir->index, owner, bytes, over, spared);
    char(*ids)[SRV_RUN_ID] = found ? take_doomed(dir, &count) : NULL;
    const int failed = !found ? ENOBUFS : count && !ids ? ENOMEM : 0;
    if (!failed) {
        dir->coming += bytes;
        srv_shares_add(&dir->index.shares, owner, bytes);
    }
    pthread_mutex_unlock(&dir->lock);
    for (size_t i = 0; ids && i < count; i++)
        removed += !srv_runs_dir_remove(dir, ids[i]);
    free(ids);
    if (!removed)
        return failed;
    pthread_mutex_lock(&dir->lock);
    dir->state.evicted += removed;
    pthread_mutex_unlock(&dir->lock);
    return failed;
}

int srv_runs_dir_reserve(srv_runs_dir *dir, srv_owner owner, size_t bytes) {
    pthread_mutex_lock(&dir->lock);
    const size_t over = bytes_beyond(dir->index.bytes + dir->coming + bytes, dir->most);
    return make_room(dir, owner, bytes, over, NULL);
}

void srv_runs_dir_unreserve(srv_runs_dir *dir, srv_owner owner, size_t bytes) {
    pthread_mutex_lock(&dir->lock);
    dir->coming -= bytes;
    srv_shares_take(&dir->index.shares, owner, bytes);
    pthread_mutex_unlock(&dir->lock);
}

int srv_runs_dir_expect(srv_runs_dir *dir, srv_owner owner, size_t all, size_t more) {
    pthread_mutex_lock(&dir->lock);
    const size_t over = bytes_beyond(dir->index.bytes + dir->coming + all, dir->most);
    const int failed = !srv_runs_index_choose(&dir->index, owner, all, over, NULL) ? ENOBUFS
                       : dir->arriving + dir->unfinished + more > dir->most        ? EAGAIN
                                                                                   : 0;
    srv_runs_index_spare(&dir->index);
    dir->arriving += failed ? 0 : more;
    pthread_mutex_unlock(&dir->lock);
    return failed;
}

void srv_runs_dir_expect_less(srv_runs_dir *dir, size_t bytes) {
    pthread_mutex_lock(&dir->lock);
    dir->arriving -= bytes;
    pthread_mutex_unlock(&dir->lock);
}

int srv_runs_dir_recount(srv_runs_dir *dir, const char *id) {
    struct stat st;
    if (!srv_runs_dir_look_at(dir, id, &st))
        return ENOENT;
    const size_t bytes = srv_runs_dir_bytes(dir, id, &st);
    pthread_mutex_lock(&dir->lock);
    srv_runs_item *item = srv_runs_index_find(&dir->index, id);
    const size_t before = item ? item->bytes : bytes, more = bytes_beyond(bytes, before);
    const srv_owner owner = item ? item->owner : 0;
    const int failed = make_room(
        dir, owner, more, bytes_beyond(dir->index.bytes + dir->coming + more, dir->most), id);
    if (failed)
        return failed;
    pthread_mutex_lock(&dir->lock);
    dir->coming -= more;
    srv_shares_take(&dir->index.shares, owner, more);
    item = srv_runs_index_find(&dir->index, id);
    if (item)
        srv_runs_index_resize(&dir->index, item, bytes);
    pthread_mutex_unlock(&dir->lock);
    return 0;
}

void srv_runs_dir_trim(srv_runs_dir *dir) {
    pthread_mutex_lock(&dir->lock);
    make_room(dir, 0, 0, bytes_beyond(dir->index.bytes, dir->most), NULL);
}
