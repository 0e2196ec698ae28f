/* The sockets of those that give way are shut down, and libmicrohttpd closes them when it sees
 * their end; they count as gone from then on, so that each newcomer makes one give way. */
#include "http/crowd.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "http/exchange.h"

enum { LEAST_COUNTS = 1024, COUNTS_EACH = 4 }; /* so many that two addresses rarely share a count */
#define TELL_NS 60000000000

bool srv_crowd_open(srv_crowd *p, size_t most, size_t most_each) {
    size_t counts = LEAST_COUNTS;
    while (counts < COUNTS_EACH * most)
        counts *= 2;
    *p = (srv_crowd){.most = most,
                     .most_each = most_each,
                     .counts = calloc(counts, sizeof *p->counts),
                     .mask = counts - 1};
    return p->counts;
}

void srv_crowd_close(srv_crowd *p) {
    free(p->counts);
}

static uint32_t *count_of(srv_crowd *p, const srv_link *link) {
    return &p->counts[link->client_id & p->mask];
}

static void append(srv_crowd *p, srv_link *link) {
    link->member.previous = p->last;
    link->member.next = NULL;
    *(p->last ? &p->last->member.next : &p->first) = link;
    p->last = link;
    link->member.idle = true;
}

static void take_out(srv_crowd *p, srv_link *link) {
    srv_member *at = &link->member;
    if (!at->idle)
        return;
    *(at->previous ? &at->previous->member.next : &p->first) = at->next;
    *(at->next ? &at->next->member.previous : &p->last) = at->previous;
    at->idle = false;
}

static void uncount(srv_crowd *p, srv_link *link) {
    p->open -= link->member.counted;
    *count_of(p, link) -= link->member.counted_each;
    link->member.counted = link->member.counted_each = false;
}

static void tell(srv_daemon *d, const srv_link *link, bool each) {
    srv_crowd *p = &d->crowd;
    const int64_t now = attn_now_ns();
    if (p->told_ns && now - p->told_ns < TELL_NS)
        return;
    p->told_ns = now;
    srv_log_event(d->app->log, SRV_LOG_WARN,
                  each ? "%s has more than %zu connections (connections_per_address): those that "
                         "have been idle for longest are closed"
                       : "%s came when all %zu connections were taken (connections): those that "
                         "have been idle for longest are closed",
                  link->client, each ? p->most_each : p->most);
}

/* Close the connection that has been idle for longest, of the address of `newcomer` or of all.
 * false: none is idle. */
static bool make_room(srv_daemon *d, const srv_link *newcomer, bool each) {
    srv_crowd *p = &d->crowd;
    srv_link *link = p->first;
    while (link && each && count_of(p, link) != count_of(p, newcomer))
        link = link->member.next;
    if (!link)
        return false;
    take_out(p, link);
    uncount(p, link);
    shutdown(link->fd, SHUT_RDWR);
    srv_meter_add(d->app->meters, SRV_CLOSED_CROWDED, 1);
    return true;
}

void srv_crowd_join(srv_daemon *d, srv_link *link) {
    srv_crowd *p = &d->crowd;
    p->open++;
    link->member.counted = true;
    link->member.counted_each = p->most_each && link->tcp && !link->proxied;
    *count_of(p, link) += link->member.counted_each;
    append(p, link);
    if (link->member.counted_each && *count_of(p, link) > p->most_each) {
        tell(d, link, true);
        make_room(d, link, true);
    } else if (p->open > p->most) {
        tell(d, link, false);
        if (p->first != link)
            make_room(d, link, false);
    }
}

void srv_crowd_busy(srv_daemon *d, srv_link *link) {
    take_out(&d->crowd, link);
}

void srv_crowd_idle(srv_daemon *d, srv_link *link) {
    if (!link->member.counted)
        return; /* it has given way already */
    append(&d->crowd, link);
    if (d->crowd.open > d->crowd.most)
        make_room(d, link, false);
}

void srv_crowd_leave(srv_daemon *d, srv_link *link) {
    take_out(&d->crowd, link);
    uncount(&d->crowd, link);
}
