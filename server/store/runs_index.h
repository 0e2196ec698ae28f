/* The data that this process has about the runs in a directory: their sizes, owners and times of
 * use.
 *
 * Times are on the clock of attn_now_ns, because wall clocks can be set and differ between daemons.
 * Only the access time of a file is on a wall clock. It is compared only with its former value: if
 * they differ, a process has used the run. The functions do not lock. The caller has the lock of
 * the directory. */
#ifndef SRV_RUNS_INDEX_H
#define SRV_RUNS_INDEX_H

#include <stdbool.h>

#include "config/owner.h"
#include "store/runs.h"

/* Largest number of owners that are counted separately. Any further owner is counted together with
 * the first one. */
enum { SRV_SHARES = 2048 };

/* Bytes of stored runs of each owner. Runs of the owner with the most bytes are evicted first, so
 * that no owner loses a run to another who already has more (max-min fairness). */
typedef struct srv_shares {
    struct {
        srv_owner owner;
        size_t bytes;
    } list[SRV_SHARES];
    size_t count;
} srv_shares;

void srv_shares_add(srv_shares *s, srv_owner owner, size_t bytes);
/* Subtracts bytes that srv_shares_add has added for the same owner. */
void srv_shares_take(srv_shares *s, srv_owner owner, size_t bytes);
/* Chooses runs to remove until their sizes add up to `over` bytes, because the owner `asking` wants
 * to store `bytes` more. Each run is chosen from the owner who has the most bytes at that moment,
 * including the new bytes. `doom`, called with `of`, chooses the least recently used run of an
 * owner (NULL: of all owners) that it has not chosen before, and sets *bytes to its size; it
 * returns false if there is no such run. false: `asking` has the most bytes and no run that could
 * be removed. In that case the caller must remove none of the chosen runs. */
bool srv_shares_choose(const srv_shares *s, srv_owner asking, size_t bytes, size_t over,
                       bool (*doom)(void *of, const srv_owner *owner, size_t *bytes), void *of);

typedef struct srv_runs_item {
    char id[SRV_RUN_ID]; /* without a NUL */
    srv_owner owner;
    size_t bytes;
    int64_t access_ns;  /* access time of the file, in ns of its wall clock */
    int64_t since_ns;   /* when this process noticed access_ns; expires runs_ttl_ms later */
    int64_t used_ns;    /* time of the last known use; the run with the smallest is evicted first */
    int64_t touched_ns; /* when this process last set the file's access time; 0: never */
    uint64_t print;     /* `print` of srv_run when this process opened the run; 0: it never has */
    bool doomed;        /* srv_runs_index_choose has chosen the run to be removed */
} srv_runs_item;

typedef struct srv_runs_index {
    srv_runs_item *items; /* [count], sorted by id */
    size_t count, room;   /* used and allocated items */
    size_t bytes;         /* sum over all items */
    srv_shares shares;    /* sum over the items of each owner */
} srv_runs_index;

/* Returns whether a use at `now` delays the expiry of a run. `moved_ns` is when the expiry was last
 * delayed (0: never). It is not delayed again before a minute or a quarter of ttl_ns, whichever is
 * shorter, has passed. The reason is that answers state the expiry, and clients that cache them
 * should rarely see a change. */
bool srv_runs_is_due(int64_t moved_ns, int64_t ttl_ns, int64_t now);

void srv_runs_index_free(srv_runs_index *x);
/* Returns the item with this id; NULL: there is none. The pointer is valid until an item is added
 * or removed. */
srv_runs_item *srv_runs_index_find(const srv_runs_index *x, const char *id);
/* Adds a copy of the item and returns the copy. If an item with the same id exists, returns that
 * one unchanged. NULL: out of memory. */
srv_runs_item *srv_runs_index_add(srv_runs_index *x, const srv_runs_item *item);
/* Sets the bytes of an item of the index. */
void srv_runs_index_resize(srv_runs_index *x, srv_runs_item *item, size_t bytes);
void srv_runs_index_remove(srv_runs_index *x, srv_runs_item *item);
/* Replaces all items by the result of a scan of the directory that began at `start_ns`. `items` is
 * a malloc'ed list of `count` items in any order; the index takes ownership of it. Items that were
 * added or used after the scan began stay. */
void srv_runs_index_renew(srv_runs_index *x, srv_runs_item *items, size_t count, int64_t start_ns);
/* Chooses runs to remove as srv_shares_choose does, and sets their `doomed`, but never chooses the
 * run with the id `spared` (NULL: may choose any). false: has the meaning of srv_shares_choose, and
 * no run is doomed. */
bool srv_runs_index_choose(srv_runs_index *x, srv_owner asking, size_t bytes, size_t over,
                           const char *spared);
void srv_runs_index_spare(srv_runs_index *x); /* clears `doomed` of all items */

#endif
