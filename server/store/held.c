#include "store/held.h"

#include <string.h>

void *srv_held_find(const srv_held_list *list, const char *key) {
    const srv_held *h = list->first;
    while (h && strcmp(h->key, key) != 0)
        h = h->next;
    return h ? h->entry : NULL;
}

void srv_held_list_in(srv_held_list *list, srv_held *h, srv_held *before) {
    h->next = before;
    h->previous = before ? before->previous : list->last;
    *(h->previous ? &h->previous->next : &list->first) = h;
    *(before ? &before->previous : &list->last) = h;
    h->listed = true;
    list->bytes += h->bytes;
    list->count++;
}

void srv_held_list_out(srv_held_list *list, srv_held *h) {
    *(h->previous ? &h->previous->next : &list->first) = h->next;
    *(h->next ? &h->next->previous : &list->last) = h->previous;
    h->next = h->previous = NULL;
    h->listed = false;
    list->bytes -= h->bytes;
    list->count--;
}

void srv_held_use(srv_held_list *list, srv_held *h) {
    srv_held_list_out(list, h);
    srv_held_list_in(list, h, list->first);
}

void srv_held_resize(srv_held_list *list, srv_held *h, size_t bytes) {
    list->bytes += bytes - h->bytes;
    h->bytes = bytes;
}

bool srv_held_let_go(srv_held *h) {
    return --h->holds == 0 && !h->listed;
}
