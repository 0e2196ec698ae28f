/* Lists of objects that requests hold: runs, computed maps, models, jobs. An entry that was removed
 * from its list is freed by its last holder. If a list drops its least recently used entry, its
 * most recently used entry is at the front. The functions do not lock. */
#ifndef SRV_HELD_H
#define SRV_HELD_H

#include <stdbool.h>
#include <stddef.h>

/* The place of an entry in a list; a member of the entry. */
typedef struct srv_held srv_held;
struct srv_held {
    void *entry;     /* the entry that has this member */
    const char *key; /* its id, which lives as long as the entry */
    size_t bytes;    /* bytes by which the entry counts in its list */
    size_t holds;    /* number of references */
    bool listed;     /* the entry is in its list */
    srv_held *next, *previous;
};

typedef struct srv_held_list {
    srv_held *first, *last;
    size_t bytes, count;
} srv_held_list;

/* These three functions return an entry of the list: the first one, the one after h, and the one
 * with this key. NULL: there is none. */
static inline void *srv_held_first(const srv_held_list *list) {
    return list->first ? list->first->entry : NULL;
}
static inline void *srv_held_next(const srv_held *h) {
    return h->next ? h->next->entry : NULL;
}
void *srv_held_find(const srv_held_list *list, const char *key);

/* Inserts an entry before the entry `before` (NULL: at the end). */
void srv_held_list_in(srv_held_list *list, srv_held *h, srv_held *before);
/* Removes an entry from the list. */
void srv_held_list_out(srv_held_list *list, srv_held *h);
/* Moves an entry to the front. */
void srv_held_use(srv_held_list *list, srv_held *h);
/* Sets the bytes of an entry of the list. */
void srv_held_resize(srv_held_list *list, srv_held *h, size_t bytes);
/* Drops a reference. Returns true if this was the last reference to an entry that is no longer in
 * its list. In that case the caller must free the entry. */
bool srv_held_let_go(srv_held *h);

#endif
