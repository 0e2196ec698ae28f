/* The table of open runs, which runs.c fills and looks into. Least recently used runs stand
 * at its end; a run that left it is freed when nobody holds it any more. What is here is called
 * under the lock. */
#ifndef SRV_RUNS_TABLE_H
#define SRV_RUNS_TABLE_H

#include <pthread.h>

#include "request/shared.h"
#include "store/runs.h"
#include "store/runs_dir.h"

enum { SRV_RUNS_REMEMBERED = 8192 }; /* ids that are known to be gone */

typedef struct srv_runs_entry srv_runs_entry;
struct srv_runs_entry {
    srv_run run; /* first: holders have its address */
    srv_runs_entry *next, *previous;
    size_t holds;
    bool listed;
    srv_owner owner;
    const void *image;
    size_t image_size;
    srv_mapped *mapped; /* the image's file; NULL: it is memory of ours */
    attn_arena *arena;
    int64_t moved_ns; /* when ends_ns was last moved */
};

struct srv_runs {
    pthread_mutex_t lock;
    const srv_config *config;
    bool has_dir;
    srv_runs_dir dir;
    srv_runs_entry *first, *last;
    size_t bytes, count;
    srv_shares shares;
    char (*gone)[SRV_RUN_ID]; /* a ring */
    size_t gone_count;
    _Atomic int64_t next_sweep_ns;
    srv_runs_state state;
};

/* An entry that is not in the table; NULL is fine. Without the lock, too. */
void srv_runs_entry_free(srv_runs_entry *e);

srv_runs_entry *srv_runs_find(srv_runs *s, const char *id);
void srv_runs_add(srv_runs *s, srv_runs_entry *e);
void srv_runs_used(srv_runs *s, srv_runs_entry *e); /* just now */
/* Out of the table; freed now or by the last holder. */
void srv_runs_drop(srv_runs *s, srv_runs_entry *e);
/* One for a new one: the least recently used of the owner who has most; false: there is none. */
bool srv_runs_drop_one(srv_runs *s);
/* Room for `bytes` more of an owner. */
void srv_runs_make_room(srv_runs *s, srv_owner owner, size_t bytes);
/* Drop what has expired by `now`, attn_now_ns, or is no longer in the directory. */
void srv_runs_expire(srv_runs *s, int64_t now);

/* An id is no longer kept; was it ever? */
void srv_runs_remember(srv_runs *s, const char *id);
bool srv_runs_knew(const srv_runs *s, const char *id);

#endif
