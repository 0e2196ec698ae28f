/* The state of the runs in a directory, as this process knows it: sizes, owners, and times since
 * the last use. Times are those of attn_now_ns, because wall clocks can be set and differ between
 * replicas. The access time of a file is only compared with its former value; a change means that a
 * process has used the run. The caller holds the lock. */
#ifndef SRV_RUNS_INDEX_H
#define SRV_RUNS_INDEX_H

#include <stdbool.h>

#include "config/owner.h"
#include "store/runs.h"

/* Bytes of stored runs of each owner. The owner with the most bytes is evicted first, so that no
 * owner loses a run to another who already has more (max-min fairness). */
enum { SRV_SHARES = 2048 }; /* number of separate owners; further owners count as the first one */

typedef struct srv_shares {
    struct {
        srv_owner owner;
        size_t bytes;
    } list[SRV_SHARES];
    size_t count;
} srv_shares;

void srv_shares_add(srv_shares *s, srv_owner owner, size_t bytes);
void srv_shares_take(srv_shares *s, srv_owner owner, size_t bytes); /* items that were added */
/* The owner with the most bytes; 0 when no owner has any. */
srv_owner srv_shares_heaviest(const srv_shares *s);

typedef struct srv_runs_item {
    char id[SRV_RUN_ID];
    srv_owner owner;
    size_t bytes;
    int64_t access_ns;  /* access time of the file */
    int64_t since_ns;   /* when this process noticed it; runs_ttl_s later the run expires */
    int64_t used_ns;    /* the last known use, for the order of eviction */
    int64_t touched_ns; /* time of the last update of the access time; 0: never */
} srv_runs_item;

typedef struct srv_runs_index {
    srv_runs_item *items; /* sorted by id */
    size_t count, room;
    size_t bytes; /* bytes of all items */
    srv_shares shares;
} srv_runs_index;

/* Tells whether a use at `now` moves the expiry, which was last moved at `moved_ns` (0: never).
 * This happens at most once a minute, or four times within the time to live, so that cached answers
 * of clients rarely change. */
bool srv_runs_is_due(int64_t moved_ns, int64_t ttl_ns, int64_t now);

void srv_runs_index_free(srv_runs_index *x);
/* Finds an item; the pointer is valid until the next change. NULL: there is none. */
srv_runs_item *srv_runs_index_find(const srv_runs_index *x, const char *id);
/* Adds an item, or returns the item with the same id. NULL: out of memory. */
srv_runs_item *srv_runs_index_add(srv_runs_index *x, const srv_runs_item *item);
void srv_runs_index_remove(srv_runs_index *x, srv_runs_item *item);
/* Replaces all items by `count` items in malloc's memory, in any order, of a scan of the directory
 * that began at `start_ns`. Items that were added or used later stay. */
void srv_runs_index_renew(srv_runs_index *x, srv_runs_item *items, size_t count, int64_t start_ns);
/* The least recently used run of the owner with the most bytes; NULL: there is none. */
srv_runs_item *srv_runs_index_victim(const srv_runs_index *x);

#endif
