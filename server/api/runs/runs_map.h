/* Maps of heads (attn_run_map). Tiles and thumbnails of a head are copied from its map. Therefore
 * the weights of the head are computed only once. store/run_maps.h keeps the maps. */
#ifndef SRV_RUNS_MAP_H
#define SRV_RUNS_MAP_H

#include "api/stored/stored_api.h"
#include "store/run_maps.h"

typedef struct srv_run_mapping {
    srv_request *req;
    const srv_run_view *run;
    const srv_run_view *against; /* view of the site at.view.against; NULL: no differences */
    attn_run_place at;           /* only batch, head and view are read */
} srv_run_mapping;

/* Returns the first level of tiles whose cells are copied from a map. SIZE_MAX: no level has a map,
 * because the matrix is small or because the run has an overview of the view. */
size_t srv_run_mapped_level(const attn_run_site *site, const attn_run_view *view);
/* Returns the complete map of the head and holds it until srv_map_release. NULL: there is none. */
srv_map *srv_run_map_find(const srv_run_mapping *m);
/* Sets *map to the complete map of the head: finds the map, waits for another request that makes
 * it, or makes it. Holds *map until srv_map_release, which the caller has to call after an error,
 * too. If `admits`, checks the cost of a map that has to be made and reserves its memory; if not,
 * the caller has done both. If another request has computed a part of the map, subtracts those
 * operations from req->operations. false: a problem is set, or the request has to wait until long
 * work may run (req->later). */
bool srv_run_map_hold(const srv_run_mapping *m, bool admits, srv_map **map);

#endif
