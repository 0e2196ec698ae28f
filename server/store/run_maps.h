/* Maps of stored runs (attn_run_map), kept for the next tiles of the same head and view. A map is made
 * by the first request that needs it, which takes as long as all weights of the head. If that
 * request ends before, the next one goes on from there.
 *
 * All maps together take at most an eighth of memory_bytes, in the budget. Those that were used
 * least recently make room, and a map that nobody uses for ten minutes is freed. Any thread may call
 * these functions. */
#ifndef SRV_RUN_MAPS_H
#define SRV_RUN_MAPS_H

#include <attn/attn.h>

#include "request/request.h"

typedef struct srv_maps srv_maps;
typedef struct srv_map srv_map;

/* Keeps at most `bytes` bytes of maps. NULL: out of memory. */
srv_maps *srv_maps_new(size_t bytes);
/* Frees maps that nobody has used for a while. Housekeeping calls this regularly. */
void srv_maps_tick(srv_maps *maps);
void srv_maps_free(srv_maps *maps); /* no map may be held; NULL is fine */

/* Most bytes of a key, with its NUL. */
enum { SRV_MAP_KEY = 192 };
/* Finds the complete map with this key and holds it until srv_map_release. NULL: there is none. */
srv_map *srv_map_find(srv_maps *maps, const char *key);
/* The same, but if another request is making the map, waits for it as a long request, or sets
 * req->later (srv_queue_go_long). If it does not and *out is NULL or not complete, the caller has to
 * add or complete it, and then to call srv_map_end. Errors:
 * ATTN_ECANCELED and ATTN_EDEADLINE of the request, ATTN_ENOMEM. */
attn_status srv_map_await(srv_maps *maps, srv_request *req, const char *key, srv_map **out,
                          attn_error *err);
/* Adds a map that is not complete, with its arena, and holds it. If it is too large to be kept, the
 * release frees it. NULL: out of memory; the arena has been freed. */
srv_map *srv_map_add(srv_maps *maps, const char *key, attn_arena *arena, attn_run_map *map);
/* Ends the making of a map. If `complete` is false, another request that waits for it goes on. `map`
 * may be NULL. */
void srv_map_end(srv_maps *maps, const char *key, srv_map *map, bool complete);
attn_run_map *srv_map_cells(const srv_map *map);
bool srv_map_is_complete(const srv_map *map);       /* of a held map */
void srv_map_release(srv_maps *maps, srv_map *map); /* NULL is fine */

#endif
