/* To close a connection, this file shuts down its socket; libmicrohttpd then reads the end of the
 * input and closes the socket a little later. The connection stops counting when it is shut down,
 * so that each new connection closes at most one other. */
#include "http/connections.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "http/exchange.h"

/* Two addresses may share a counter. To make this rare, there are at least LEAST_COUNTS counters,
 * and COUNTS_EACH for each possible connection. */
enum { LEAST_COUNTS = 1024, COUNTS_EACH = 4 };
#define TELL_NS 60000000000 /* shortest time between two log entries about closed connections */

bool srv_connections_open(srv_connections *c, size_t most, size_t most_each) {
    size_t counts = LEAST_COUNTS;
    while (counts < COUNTS_EACH * most)
        counts *= 2;
    *c = (srv_connections){.most = most,
                           .most_each = most_each,
                           .counts = calloc(counts, sizeof *c->counts),
                           .mask = counts - 1};
    return c->counts;
}

void srv_connections_close(srv_connections *c) {
    free(c->counts);
}

static uint32_t *count_of(srv_connections *c, const srv_link *link) {
    return &c->counts[link->client_id & c->mask];
}

static void append(srv_connections *c, srv_link *link) {
    link->member.previous = c->last;
    link->member.next = NULL;
    *(c->last ? &c->last->member.next : &c->first) = link;
    c->last = link;
    link->member.idle = true;
}

static void take_out(srv_connections *c, srv_link *link) {
    srv_member *at = &link->member;
    if (!at->idle)
        return;
    *(at->previous ? &at->previous->member.next : &c->first) = at->next;
    *(at->next ? &at->next->member.previous : &c->last) = at->previous;
    at->idle = false;
}

static void uncount(srv_connections *c, srv_link *link) {
    c->open -= link->member.counted;
    *count_of(c, link) -= link->member.counted_each;
    link->member.counted = link->member.counted_each = false;
}

static void tell(srv_daemon *d, const srv_link *link, bool each) {
    srv_connections *c = &d->connections;
    const int64_t now = attn_now_ns();
    if (c->told_ns && now - c->told_ns < TELL_NS)
        return;
    c->told_ns = now;
    srv_log_event(d->app->log, SRV_LOG_WARN,
                  each ? "%s has more than %zu connections (connections_per_address): those that "
                         "have been idle for longest are closed"
                       : "%s came when all %zu connections were taken (connections): those that "
                         "have been idle for longest are closed",
                  link->client, each ? c->most_each : c->most);
}

/* Closes the connection that has been idle longest. `each`: only connections from the address of
 * `newcomer` are considered. Returns false if none is idle. */
static bool make_room(srv_daemon *d, const srv_link *newcomer, bool each) {
    srv_connections *c = &d->connections;
    srv_link *link = c->first;
    while (link && each && count_of(c, link) != count_of(c, newcomer))
        link = link->member.next;
    if (!link)
        return false;
    take_out(c, link);
    uncount(c, link);
    shutdown(link->fd, SHUT_RDWR);
    srv_meter_add(d->app->meters, SRV_CLOSED_CROWDED, 1);
    return true;
}

void srv_connections_join(srv_daemon *d, srv_link *link) {
    srv_connections *c = &d->connections;
    c->open++;
    link->member.counted = true;
    link->member.counted_each = c->most_each && link->tcp && !link->proxied;
    *count_of(c, link) += link->member.counted_each;
    append(c, link);
    if (link->member.counted_each && *count_of(c, link) > c->most_each) {
        tell(d, link, true);
        make_room(d, link, true);
    } else if (c->open > c->most) {
        tell(d, link, false);
        if (c->first != link)
            make_room(d, link, false);
    }
}

void srv_connections_busy(srv_daemon *d, srv_link *link) {
    take_out(&d->connections, link);
}

void srv_connections_idle(srv_daemon *d, srv_link *link) {
    if (!link->member.counted)
        return; /* make_room has shut its socket down */
    append(&d->connections, link);
    if (d->connections.open > d->connections.most)
        make_room(d, link, false);
}

void srv_connections_leave(srv_daemon *d, srv_link *link) {
    take_out(&d->connections, link);
    uncount(&d->connections, link);
}
