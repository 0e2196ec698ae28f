/* The owner of a run and its read token. */
#include <string.h>

#include "store/runs_table.h"

const char *srv_runs_owner(const srv_runs_entry *e) {
    return e->imported ? e->side.owner : attn_run_metadata(e->run.run, SRV_RUN_OWNER);
}

const char *srv_runs_new_token(attn_arena *arena) {
    char token[SRV_RUN_ID + 1];
    _Static_assert(SRV_RUN_ID == SRV_READ_TOKEN, "both are 128 random bits");
    return srv_runs_new_id(token) ? attn_arena_text(arena, token, SRV_RUN_ID) : NULL;
}

bool srv_run_metadata_of(const char *owner, attn_arena *arena, attn_metadata to[2], size_t *count) {
    *count = 0;
    if (!owner)
        return true;
    to[(*count)++] = (attn_metadata){SRV_RUN_OWNER, owner};
    to[*count] = (attn_metadata){SRV_RUN_TOKEN, srv_runs_new_token(arena)};
    return to[(*count)++].text;
}

bool srv_run_metadata(srv_request *req, attn_metadata to[2], size_t *count) {
    return srv_run_metadata_of(req->owner, req->arena, to, count) ||
           srv_problem(req, SRV_MEMORY_BUDGET, "/store", "no memory for the stored run is left");
}

void srv_runs_act_for_owner(srv_request *req, const srv_run *run) {
    const char *name = srv_runs_owner(run->entry);
    req->owner = name ? attn_arena_text(req->arena, name, strlen(name)) : NULL;
}
