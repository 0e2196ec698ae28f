#include "api/runs/runs_map.h"

#include <math.h>
#include <stdio.h>

#include "request/shared.h"

size_t srv_run_mapped_level(const attn_run_site *site, const attn_run_view *v) {
    const bool plain = v->normalize == ATTN_RUN_AS_IS && !v->mean_heads && !v->against;
    const bool stored = attn_run_overview_level(site) != SIZE_MAX;
    return plain && stored ? SIZE_MAX : attn_run_map_level(site);
}

/* Writes the key of the map. The key of a run that grows changes with each step. */
static void write_key(const srv_run_mapping *m, char key[SRV_MAP_KEY]) {
    const attn_run_view *v = &m->at.view;
    const srv_run *run = m->run->held, *other = m->against ? m->against->held : NULL;
    snprintf(key, SRV_MAP_KEY, "%s.%zu %zu %zu %zu %d%d %s.%zu %zu", run->id, run->rows,
             attn_run_site_index(m->run->site), m->at.batch, m->at.head, (int)v->normalize,
             v->mean_heads, other ? other->id : "-", other ? other->rows : 0,
             other ? attn_run_site_index(v->against) : 0);
}

srv_map *srv_run_map_find(const srv_run_mapping *m) {
    char key[SRV_MAP_KEY];
    write_key(m, key);
    return srv_map_find(m->req->app->maps, key);
}

static bool refuse_memory(const srv_run_mapping *m) {
    return srv_problem_memory(m->req, NULL, "no memory is free for the cells of the head");
}

/* Makes a map without cells, adds it to the kept maps, and sets *out to it. false: a problem is
 * set. */
static bool add_map(const srv_run_mapping *m, const char *key, size_t bytes, srv_map **out) {
    attn_arena *arena = attn_arena_new(bytes + 65536);
    attn_run_map *map;
    attn_error err = {0};
    if (!arena || !attn_arena_reserve(arena, bytes) ||
        attn_run_map_new(m->run->site, arena, &map, &err)) {
        attn_arena_free(arena);
        return refuse_memory(m);
    }
    *out = srv_map_add(m->req->app->maps, key, arena, map);
    return *out || refuse_memory(m);
}

/* If *out is NULL, adds a map. Then computes the cells that the map *out lacks. Sets *share to the
 * part of the cells that the map lacked, from 0 to 1. false: a problem is set. */
static bool fill_map(const srv_run_mapping *m, const char *key, size_t bytes, srv_map **out,
                     double *share) {
    srv_request *req = m->req;
    attn_error err = {0};
    if (!*out && !add_map(m, key, bytes, out))
        return false;
    attn_run_map *map = srv_map_cells(*out);
    *share = attn_run_map_missing(map);
    return !attn_run_map_fill(map, m->run->site, &m->at, srv_request_pool(req), &req->control,
                              req->arena, &err) ||
           srv_problem_error(req, &err);
}

/* Waits for another request that makes the map, or makes or completes the map itself. Then sets
 * *share to the part of the map's cells that it has computed, from 0 to 1. false: a problem is set,
 * or the request has to wait (req->later). */
static bool make_map(const srv_run_mapping *m, const attn_cost *cost, srv_map **map,
                     double *share) {
    srv_maps *maps = m->req->app->maps;
    char key[SRV_MAP_KEY];
    attn_error err = {0};
    write_key(m, key);
    if (srv_map_await(maps, m->req, key, map, &err))
        return srv_problem_error(m->req, &err);
    if (m->req->later)
        return false;
    if (*map && srv_map_is_complete(*map))
        return true;
    const bool complete = fill_map(m, key, cost->result_bytes, map, share);
    srv_map_end(maps, key, *map, complete);
    return complete;
}

bool srv_run_map_hold(const srv_run_mapping *m, bool admits, srv_map **map) {
    srv_request *req = m->req;
    attn_cost cost;
    attn_error err = {0};
    double share = 0;
    if ((*map = srv_run_map_find(m)))
        return true;
    if (attn_run_map_cost(m->run->site, &m->at, attn_pool_slots(srv_request_pool(req)), &cost,
                          &err))
        return srv_problem_error(req, &err);
    if (admits && !srv_run_admit_cost(req, &cost, (double)cost.work_bytes))
        return false;
    const bool made = make_map(m, &cost, map, &share);
    /* Subtracts the operations of another request, so that they do not count for the time measured
     * for this request. */
    req->operations = fmax(0, req->operations - (1 - share) * cost.operations);
    return made;
}
