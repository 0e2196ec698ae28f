/* Maps of heads (attn_run_map), which tiles and thumbnails are copied from, so that all weights of a
 * head are computed once for both. store/run_maps.h keeps them. */
#ifndef SRV_RUNS_MAP_H
#define SRV_RUNS_MAP_H

#include "api/stored/stored_api.h"
#include "store/run_maps.h"

typedef struct srv_run_mapping {
    srv_request *req;
    const srv_run_view *run, *against; /* against: that of at.view; NULL: no differences */
    attn_run_place at;                 /* only batch, head and view are read */
} srv_run_mapping;

/* Returns the first level whose cells come from a map; SIZE_MAX: none do, because the matrix is
 * small, or the overview has them. */
size_t srv_run_mapped_level(const attn_run_site *site, const attn_run_view *view);
/* Finds the complete map and holds it until srv_map_release. NULL: there is none. */
srv_map *srv_run_map_find(const srv_run_mapping *m);
/* Sets *map to the complete map of the head, which it finds, awaits from another request, or makes,
 * and holds it until srv_map_release; *map may be set on an error, too. `admits`: checks the cost of
 * a map that is not there, and reserves the memory; else the caller has done so. Takes the operations
 * that another request did from those of this one. false: a problem is set, or the request has to wait
 * until long work may run (req->later). */
bool srv_run_map_hold(const srv_run_mapping *m, bool admits, srv_map **map);

#endif
