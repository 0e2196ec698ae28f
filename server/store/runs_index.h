/* What this process knows of the runs in a directory: their sizes, their owners, and since when
 * nobody has used them. Times are those of attn_now_ns, because wall clocks are set and those of
 * replicas differ. The access time of a file is only compared with its former value; a change says
 * that somebody has used the run. The caller holds the lock. */
#ifndef SRV_RUNS_INDEX_H
#define SRV_RUNS_INDEX_H

#include <stdbool.h>

#include "config/owner.h"
#include "store/runs.h"

/* How many bytes of stored runs each owner has. The owner who has most gives way first, so that
 * nobody loses a run to another who already has more (max-min fairness). */
enum { SRV_SHARES = 2048 }; /* owners that are told apart; those beyond count as the first one */

typedef struct srv_shares {
    struct {
        srv_owner owner;
        size_t bytes;
    } list[SRV_SHARES];
    size_t count;
} srv_shares;

void srv_shares_add(srv_shares *s, srv_owner owner, size_t bytes);
void srv_shares_take(srv_shares *s, srv_owner owner, size_t bytes); /* what was added */
/* Who has most; 0 when nobody has anything. */
srv_owner srv_shares_heaviest(const srv_shares *s);

typedef struct srv_runs_item {
    char id[SRV_RUN_ID];
    srv_owner owner;
    size_t bytes;
    int64_t access_ns;  /* access time of the file */
    int64_t since_ns;   /* when this process noticed it; runs_ttl_s later the run expires */
    int64_t used_ns;    /* the last use that it knows of, for the order of eviction */
    int64_t touched_ns; /* when it last set the access time; 0: never */
} srv_runs_item;

typedef struct srv_runs_index {
    srv_runs_item *items; /* sorted by id */
    size_t count, room;
    size_t bytes; /* of the items */
    srv_shares shares;
} srv_runs_index;

/* Does a use at `now` move the expiry, which was last moved at `moved_ns` (0: never)? At most once
 * a minute, or four times in the time to live, so that what clients keep does not change all the
 * time. */
bool srv_runs_is_due(int64_t moved_ns, int64_t ttl_ns, int64_t now);

void srv_runs_index_free(srv_runs_index *x);
/* NULL: it is not there. Until the next change. */
srv_runs_item *srv_runs_index_find(const srv_runs_index *x, const char *id);
/* The place of a new item, or of the one that has its id; NULL: no memory. */
srv_runs_item *srv_runs_index_add(srv_runs_index *x, const srv_runs_item *item);
void srv_runs_index_remove(srv_runs_index *x, srv_runs_item *item);
/* Take these instead: `count` items of malloc's memory, in any order, of a look at the directory
 * that began at `start_ns`. What was added or used later stays as it is. */
void srv_runs_index_renew(srv_runs_index *x, srv_runs_item *items, size_t count, int64_t start_ns);
/* The least recently used one of the owner who has most; NULL: there is none. */
srv_runs_item *srv_runs_index_victim(const srv_runs_index *x);

#endif
