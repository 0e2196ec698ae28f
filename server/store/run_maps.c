/* The maps are a list with the most recently used one at the front (held.h). */
#include "store/run_maps.h"

#include "base/try.h"
#include "load/queue.h"
#include "request/shared.h"
#include "store/held.h"
#include "system/condition.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS   50000000 /* time between two looks at the request while it waits for a map */
#define UNUSED_NS INT64_C(600000000000) /* a map is freed if it is not used for this long */

struct srv_map {
    srv_held held;
    char key[SRV_MAP_KEY];
    attn_run_map *map;
    attn_arena *arena; /* holds `map` */
    int64_t used_ns;   /* when it was held last */
    bool complete;     /* the map is finished; set with the lock */
};

/* A map that a request is computing at present. */
typedef struct making {
    char key[SRV_MAP_KEY];
    struct making *next;
} making;

struct srv_maps {
    pthread_mutex_t lock;
    pthread_cond_t made; /* signalled when the making of a map has ended */
    making *makings;
    srv_held_list maps;
    size_t most; /* limit of `maps` in bytes */
};

srv_maps *srv_maps_new(size_t bytes) {
    srv_maps *m = calloc(1, sizeof *m);
    if (!m || !srv_condition_init(&m->made)) {
        free(m);
        return NULL;
    }
    m->most = bytes;
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void free_map(srv_map *map) {
    attn_arena_free(map->arena);
    free(map);
}

/* Takes the map out of the list. Frees it if nothing holds it. The caller has the lock. */
static void drop_map(srv_maps *m, srv_map *map) {
    srv_held_list_out(&m->maps, &map->held);
    if (!map->held.holds)
        free_map(map);
}

void srv_maps_tick(srv_maps *m) {
    const int64_t before = attn_now_ns() - UNUSED_NS;
    pthread_mutex_lock(&m->lock);
    for (srv_map *map = srv_held_first(&m->maps), *next; map; map = next) {
        next = srv_held_next(&map->held);
        if (!map->held.holds && map->used_ns < before)
            drop_map(m, map);
    }
    pthread_mutex_unlock(&m->lock);
}

void srv_maps_free(srv_maps *m) {
    if (!m)
        return;
    while (m->maps.first)
        drop_map(m, m->maps.first->entry);
    pthread_cond_destroy(&m->made);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* Finds the map and moves it to the front. The caller has the lock. */
static srv_map *find_map(srv_maps *m, const char *key) {
    srv_map *map = srv_held_find(&m->maps, key);
    if (map)
        srv_held_use(&m->maps, &map->held);
    return map;
}

/* Returns the link of the list `makings` that points to the making with this key. If there is none,
 * returns the last link, which is NULL. The caller has the lock. */
static making **making_of(srv_maps *m, const char *key) {
    making **place = &m->makings;
    while (*place && strcmp((*place)->key, key) != 0)
        place = &(*place)->next;
    return place;
}

static bool begin_making(srv_maps *m, const char *key) {
    making *new = calloc(1, sizeof *new);
    if (!new)
        return false;
    strncpy(new->key, key, sizeof new->key - 1);
    new->next = m->makings;
    m->makings = new;
    return true;
}

/* Waits until a request has ended the making of a map, but no longer than LOOK_NS. The caller has
 * the lock. */
static void wait_a_little(srv_maps *m) {
    srv_condition_wait(&m->made, &m->lock, attn_now_ns() + LOOK_NS);
}

srv_map *srv_map_find(srv_maps *m, const char *key) {
    pthread_mutex_lock(&m->lock);
    srv_map *map = find_map(m, key);
    map = map && map->complete ? map : NULL;
    if (map)
        map->held.holds++;
    pthread_mutex_unlock(&m->lock);
    return map;
}

attn_status srv_map_await(srv_maps *m, srv_request *req, const char *key, srv_map **out,
                          attn_error *err) {
    attn_pool *pool = srv_request_pool(req);
    attn_status status = ATTN_OK;
    *out = NULL;
    pthread_mutex_lock(&m->lock);
    const bool waits = *making_of(m, key);
    pthread_mutex_unlock(&m->lock);
    req->later = waits && !srv_queue_go_long(); /* leaves threads free for short requests */
    if (req->later)
        return ATTN_OK;
    attn_pool_leave(pool); /* the maker of the map may use the slot meanwhile */
    pthread_mutex_lock(&m->lock);
    while (*making_of(m, key) && !status) {
        wait_a_little(m);
        status = attn_control_check(&req->control, err);
    }
    srv_map *map = status ? NULL : find_map(m, key);
    if (!status && !(map && map->complete) && !begin_making(m, key)) {
        status = attn_no_memory(err, "the cells of the head");
        map = NULL;
    }
    if (map)
        map->held.holds++;
    pthread_mutex_unlock(&m->lock);
    attn_pool_enter(pool);
    *out = map;
    return status;
}

srv_map *srv_map_add(srv_maps *m, const char *key, attn_arena *arena, attn_run_map *cells) {
    srv_map *map = calloc(1, sizeof *map);
    if (!map) {
        attn_arena_free(arena);
        return NULL;
    }
    const size_t bytes = attn_arena_used(arena);
    *map = (srv_map){.held = {.entry = map, .key = map->key, .bytes = bytes, .holds = 1},
                     .map = cells,
                     .arena = arena};
    strncpy(map->key, key, sizeof map->key - 1);
    pthread_mutex_lock(&m->lock);
    if (bytes <= m->most) {
        while (bytes > m->most - m->maps.bytes)
            drop_map(m, m->maps.last->entry);
        srv_held_list_in(&m->maps, &map->held, m->maps.first);
    }
    pthread_mutex_unlock(&m->lock);
    return map;
}

void srv_map_end(srv_maps *m, const char *key, srv_map *map, bool complete) {
    pthread_mutex_lock(&m->lock);
    if (map)
        map->complete = complete;
    making **place = making_of(m, key), *ended = *place;
    *place = ended->next;
    free(ended);
    pthread_cond_broadcast(&m->made);
    pthread_mutex_unlock(&m->lock);
}

attn_run_map *srv_map_cells(const srv_map *map) {
    return map->map;
}

bool srv_map_is_complete(const srv_map *map) {
    return map->complete;
}

void srv_map_release(srv_maps *m, srv_map *map) {
    if (!map)
        return;
    pthread_mutex_lock(&m->lock);
    map->used_ns = attn_now_ns();
    const bool last = srv_held_let_go(&map->held);
    pthread_mutex_unlock(&m->lock);
    if (last)
        free_map(map);
}
