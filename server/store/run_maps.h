/* Maps of stored runs (attn_run_map), kept for the next tiles of the same head and view. The first
 * request that needs a map makes it. That takes as long as computing all weights of the head. If
 * that request ends before the map is complete, the next request continues the map.
 *
 * All maps together take at most an eighth of memory_bytes, and they count in the memory budget.
 * The least recently used maps make room for new ones. A map that was not used for ten minutes is
 * freed. Any thread may call these functions. */
#ifndef SRV_RUN_MAPS_H
#define SRV_RUN_MAPS_H

#include <attn/attn.h>

#include "request/request.h"

typedef struct srv_maps srv_maps;
typedef struct srv_map srv_map;

/* Makes a store that keeps at most `bytes` bytes of maps. NULL: out of memory. */
srv_maps *srv_maps_new(size_t bytes);
/* Frees maps that were not used for ten minutes. Housekeeping calls this regularly. */
void srv_maps_tick(srv_maps *maps);
void srv_maps_free(srv_maps *maps); /* no map may be held; NULL is fine */

enum { SRV_MAP_KEY = 192 }; /* buffer size of a key */
/* Finds the complete map with this key and holds it until srv_map_release. NULL: there is none. */
srv_map *srv_map_find(srv_maps *maps, const char *key);
/* Finds the map with this key, complete or not, and holds it in *out. If another request is making
 * the map, waits until that request ends. A waiting request counts as a long one. If no further
 * long request may run now (srv_queue_go_long), sets req->later and returns at once. If req->later
 * is not set, and *out is NULL or incomplete, the caller must add or complete the map and then call
 * srv_map_end. Errors: ATTN_ECANCELED and ATTN_EDEADLINE of the request, ATTN_ENOMEM. */
attn_status srv_map_await(srv_maps *maps, srv_request *req, const char *key, srv_map **out,
                          attn_error *err);
/* Adds a map that is not complete, with the arena that holds it, and holds it. If the map is too
 * large to be kept, its release frees it. NULL: out of memory; the arena has been freed. */
srv_map *srv_map_add(srv_maps *maps, const char *key, attn_arena *arena, attn_run_map *map);
/* Ends the making of a map. If `complete` is false, a request that waits for the map continues it.
 * `map` may be NULL. */
void srv_map_end(srv_maps *maps, const char *key, srv_map *map, bool complete);
attn_run_map *srv_map_cells(const srv_map *map);
bool srv_map_is_complete(const srv_map *map);       /* the caller holds the map */
void srv_map_release(srv_maps *maps, srv_map *map); /* NULL is fine */

#endif
