/* The list of open runs, to which generations of this process still add steps. Their rows are in
 * memory. A request sees the steps so far, because it holds an entry (runs_table.h) with these
 * steps. All requests share this entry until the next step. The entry is never in the table. Only a
 * closed run is written to runs_dir, so that no other process sees an unfinished run. */
#include <string.h>

#include "store/runs_table.h"

/* --- the list: the caller has the lock --- */

srv_open_run **srv_runs_find_growing(srv_runs *s, const char *id) {
    srv_open_run **at = &s->growing;
    while (*at && memcmp((*at)->id, id, SRV_RUN_ID) != 0)
        at = &(*at)->next;
    return at;
}

/* Releases the reference of the list to an entry. If this was the last reference, returns the
 * entry, and the caller frees it without the lock. */
static srv_runs_entry *end_list_hold(srv_runs_entry *e) {
    return e && srv_held_let_go(&e->held) ? e : NULL;
}

srv_runs_entry *srv_runs_end_growing(srv_runs *s, const char *id, bool gone, bool *was_open) {
    srv_open_run **at = srv_runs_find_growing(s, id), *run = *at;
    *was_open = run;
    if (!run)
        return NULL;
    *at = run->next;
    if (gone)
        srv_runs_remember_gone(s, id);
    srv_runs_entry *e = end_list_hold(run->latest);
    run->latest = NULL;
    return e;
}

/* --- entries --- */

/* Makes an entry with the steps so far. NULL: out of memory. */
static srv_runs_entry *look_at_growing(const srv_config *config, srv_open_run *run) {
    srv_runs_entry *e = srv_runs_entry_new(config);
    attn_run *found;
    attn_error err;
    if (!e)
        return NULL;
    if (attn_run_growth_look(run->growth, e->arena, &found, &e->run.rows, &err)) {
        srv_runs_entry_free(e);
        return NULL;
    }
    atomic_fetch_add(&run->users, 1);
    e->open = run;
    memcpy(e->run.id, run->id, SRV_RUN_ID);
    e->run.run = found;
    e->run.open = true;
    e->run.read_token = attn_run_metadata(found, SRV_RUN_TOKEN);
    e->run.bytes = run->bytes + attn_arena_used(e->arena);
    e->run.ends_ns = attn_now_ns() + config->runs_ttl_ms * 1000000;
    return e;
}

bool srv_runs_hold_growing(srv_request *req, const char *id, const srv_run **out) {
    srv_runs *s = req->app->runs;
    srv_runs_entry *e = NULL, *old = NULL;
    pthread_mutex_lock(&s->lock);
    srv_open_run *run = *srv_runs_find_growing(s, id);
    if (run) {
        e = run->latest;
        if (!e || e->run.rows != attn_run_growth_rows(run->growth)) {
            e = look_at_growing(s->config, run);
            old = e ? end_list_hold(run->latest) : NULL;
            run->latest = e ? e : run->latest;
            if (e)
                e->held.holds = 1;
        }
        if (e)
            e->held.holds++;
    }
    pthread_mutex_unlock(&s->lock);
    srv_runs_entry_free(old);
    if (run && !e)
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory is left for a look at the open run");
    *out = e ? &e->run : NULL;
    return run;
}
