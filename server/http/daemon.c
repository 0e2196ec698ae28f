/* Starts and stops a listening daemon, and has the callbacks of libmicrohttpd. All callbacks of a
 * daemon run on its HTTP thread. libmicrohttpd calls for each request:
 *
 *   on_request_line   when the request line was read: makes the exchange
 *   on_request        when the header was read (begin), for each piece of the body, at the end of
 *                     the body (answer), and when a suspended connection was resumed (send)
 *   on_completed      when the reply was sent or the connection was lost (finish) */
#include "http/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "http/auth.h"
#include "http/before_1_0.h"
#include "http/exchange.h"
#include "http/head.h"
#include "http/library.h"
#include "http/tls.h"
#include "http/watch.h"

/* libmicrohttpd 0.9.75 stores ARGUMENT_BYTES for each query argument in the connection's buffer,
 * next to the received bytes. The area for received bytes takes half of the buffer and grows until
 * 12,000 bytes are left. If the arguments do not fit into the rest, libmicrohttpd neither answers
 * the request nor closes the connection. Therefore such a request is refused by has_room. */
#define ARGUMENT_BYTES 64
#define ARGUMENTS_MOST 9216

static bool has_room(const srv_daemon *d, const char *uri) {
    const size_t buffer = (size_t)d->app->config->connection_bytes;
    const size_t most = buffer / 3 < ARGUMENTS_MOST ? buffer / 3 : ARGUMENTS_MOST;
    size_t bytes = 0;
    for (const char *p = uri; (p = strpbrk(p, "?&")) != NULL; p++)
        bytes += ARGUMENT_BYTES;
    return bytes <= most && strlen(uri) <= buffer / 2;
}

static void refuse_line(srv_exchange *x) {
    srv_problem(&x->req, SRV_TARGET_LONG, NULL,
                "the target of the request is too long, or its query has too many arguments");
    srv_body_refuse(x);
    srv_body_cut(x);
}

srv_exchange *srv_daemon_begin(srv_link *link, const char *uri, struct MHD_Connection *connection) {
    srv_daemon *d = link->daemon;
    srv_exchange *x = srv_exchange_new(d, link, uri);
    if (!x)
        return NULL;
    x->connection = connection;
    link->exchange = x;
    srv_link_busy(link);
    atomic_fetch_add_explicit(&link->edges, 1, memory_order_relaxed);
    srv_link_allow(link, x->req.start_ns + d->app->config->header_timeout_ms * 1000000);
    atomic_fetch_add(&d->in_flight, 1);
    if (!d->is_ops)
        srv_meter_add(d->app->meters, SRV_IN_FLIGHT, 1);
    return x;
}

static void *on_request_line(void *cls, const char *uri, struct MHD_Connection *connection) {
    srv_link *link = srv_link_of(connection);
    srv_exchange *x = link ? srv_daemon_begin(link, uri, connection) : NULL;
    if (x && !has_room(cls, uri))
        refuse_line(x);
    return x;
}

/* Handles the complete header. If a reply is sent before the body was read, libmicrohttpd closes
 * the connection. Therefore a refused request is answered here only if its connection must be
 * closed anyway or its body is long; otherwise it is answered after its body. */
static enum MHD_Result begin(srv_exchange *x, const char *url, const char *method,
                             const char *version) {
    x->phase = SRV_AT_BODY;
    srv_exchange_arena(x, (size_t)x->req.app->config->in_place_memory_bytes);
    srv_head_read(x, url, method, version);
    return srv_body_begin(x) ? MHD_YES : srv_exchange_send(x);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **context) {
    srv_exchange *x = *context;
    srv_daemon *d = cls;
    if (!x)
        return MHD_queue_response(connection, MHD_HTTP_SERVICE_UNAVAILABLE, d->shortage);
    if (x->phase == SRV_AT_HEAD)
        return begin(x, url, method, version);
    if (*size) {
        bool go_on = srv_body_take(x, data, *size);
        *size = 0;
        return go_on ? MHD_YES : MHD_NO;
    }
    if (x->phase == SRV_AT_BODY && !srv_body_is_refused(x))
        return srv_exchange_answer(x);
    return srv_exchange_send(x);
}

/* Returns the status for the log and the metrics: the status that was sent, or 499 if the client
 * left before the reply was sent. */
static int final_status(const srv_exchange *x, enum MHD_RequestTerminationCode how) {
    if (srv_link_is_cut(x->link))
        return x->req.reply.status ? x->req.reply.status : 408;
    if (x->phase != SRV_SENT && x->phase != SRV_AT_HEAD)
        return 499;
    if (x->phase == SRV_AT_HEAD)
        return 400;
    bool sent = how == MHD_REQUEST_TERMINATED_COMPLETED_OK || x->by_library;
    return sent && !atomic_load(&x->gone) ? x->req.reply.status : 499;
}

/* Writes the finished request to the log and the metrics. */
static void record(srv_exchange *x, int status, int64_t now) {
    srv_app *app = x->req.app;
    const srv_router *router = x->daemon->router;
    const srv_request *req = &x->req;
    const char *method = srv_method_name(req->method ? req->method : "");
    bool queued = x->enqueued_ns != 0;
    bool sent = status != 499 && strcmp(method, "HEAD");
    size_t label = x->phase == SRV_AT_HEAD ? router->label_count : x->match.label;
    uint64_t bytes_out = sent ? req->reply.size : 0;
    srv_meters_request(app->meters, label, method, status, now - req->start_ns,
                       queued ? req->queued_ns : -1);
    srv_meter_add(app->meters, SRV_BYTES_IN, (int64_t)x->body.incoming.received);
    srv_meter_add(app->meters, SRV_BYTES_OUT, (int64_t)bytes_out);
    if (status == 499)
        srv_meter_add(app->meters, SRV_CLIENT_GONE, 1);
    const unsigned problem = status == req->reply.status ? req->reply.problem : 0;
    if (problem)
        srv_meters_problem(app->meters, problem - 1);
    srv_log_request(
        app->log,
        &(srv_log_entry){.id = req->id ? req->id : "",
                         .trace = &x->trace,
                         .method = method,
                         .route = label < router->label_count ? router->labels[label] : "none",
                         .client = x->client,
                         .key = x->key ? srv_key_name(x->key) : "",
                         .status = status,
                         .code = problem ? srv_code_name((srv_code)(problem - 1)) : "",
                         .bytes_in = x->body.incoming.received,
                         .bytes_out = bytes_out,
                         .total_ns = now - req->start_ns,
                         .queue_ns = req->queued_ns,
                         .decode_ns = req->decode_ns,
                         .compute_ns = req->compute_ns,
                         .encode_ns = req->encode_ns});
}

/* Ends the exchange: records it, prepares the link for the next request, and drops the reference of
 * the request under way. */
static void finish(srv_exchange *x, enum MHD_RequestTerminationCode how) {
    srv_daemon *d = x->daemon;
    srv_reply_end(x);
    srv_body_pass_on(x);
    x->link->exchange = NULL;
    srv_link_allow(x->link, 0);
    atomic_fetch_add_explicit(&x->link->edges, 1, memory_order_relaxed);
    srv_link_release(x->link);
    srv_link_idle(x->link);
    if (!d->is_ops) {
        record(x, final_status(x, how), attn_now_ns());
        srv_meter_add(d->app->meters, SRV_IN_FLIGHT, -1);
    }
    if (x->key)
        srv_auth_end(x);
    atomic_fetch_sub(&d->in_flight, 1);
    srv_exchange_drop(x);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode how) {
    srv_exchange *x = *context;
    (void)cls, (void)connection;
    *context = NULL;
    if (!x)
        return;
    if (x->phase <= SRV_AT_BODY && !srv_link_is_cut(x->link))
        srv_library_note_refusal(x);
    finish(x, how);
}

/* Opens the link of a new connection and closes the link of a closed one. Also ends an exchange
 * that has not ended: libmicrohttpd 0.9.75 does not call on_completed for a request whose request
 * line it could not store, for example because of thousands of query arguments. */
static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code) {
    srv_link *link = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = srv_link_open(cls, connection); /* NULL: on_request answers with `shortage` */
    } else if (link) {
        if (link->exchange)
            finish(link->exchange, MHD_REQUEST_TERMINATED_WITH_ERROR);
        srv_link_close(link);
    }
}

static void on_panic(void *cls, const char *file, unsigned line, const char *reason) {
    (void)cls;
    fprintf(stderr, "attnd: libmicrohttpd gave up at %s:%u: %s\n", file, line,
            reason ? reason : "");
    abort();
}

enum { OPS_CONNECTIONS = 64 }; /* largest number of connections of the operations port */

/* Level 1 of MHD_OPTION_CLIENT_DISCIPLINE_LVL, which headers before 1.0 do not have. Level 2 would
 * refuse the empty line before a request that RFC 9112, 2.2, allows to clients. Before version 1.0,
 * a strict level adds nothing to the checks of this service. */
enum { CLIENT_LEVEL = 1 };

static struct MHD_Daemon *start_mhd(srv_daemon *d, int fd, const srv_config *config) {
    /* The limit is one connection higher than allowed. If the extra connection is accepted,
     * srv_link_open closes another one. */
    const unsigned limit = (unsigned)d->connections.most + 1;
    bool plain = d->is_ops || !d->app->tls;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    MHD_set_panic_func(on_panic, NULL);
    return MHD_start_daemon(
        plain ? flags : flags | MHD_USE_TLS, 0, NULL, NULL, on_request, d, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_CONNECTION_LIMIT, limit, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)config->idle_timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)config->connection_bytes, MHD_OPTION_CONNECTION_MEMORY_INCREMENT,
        (size_t)config->connection_bytes, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_STRICT_FOR_CLIENT, d->strict ? CLIENT_LEVEL : 0, MHD_OPTION_URI_LOG_CALLBACK,
        on_request_line, d, MHD_OPTION_NOTIFY_COMPLETED, on_completed, d,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, d, plain ? MHD_OPTION_END : MHD_OPTION_ARRAY,
        srv_tls_options(), MHD_OPTION_END);
}

int srv_daemon_open(srv_daemon **out, srv_app *app, const srv_router *router, srv_address *address,
                    bool is_ops) {
    int fd = -1;
    int failed = srv_old_begin() ? srv_address_listen(address, app->config, &fd) : ENOSYS;
    if (failed)
        return failed;
    srv_daemon *d = calloc(1, sizeof *d);
    if (!d) {
        close(fd);
        return ENOMEM;
    }
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->order.lock, NULL);
    pthread_cond_init(&d->order.resumed, NULL);
    d->listen_fd = MHD_INVALID_SOCKET;
    d->app = app;
    d->router = router;
    d->is_ops = is_ops;
    d->strict = srv_library_is_strict();
    d->is_local = srv_address_is_local(address);
    bool tls = app->tls && !is_ops;
    srv_address_url(address, tls ? "https" : "http", d->url, sizeof d->url);
    const char *path = srv_address_path(address);
    d->unix_path = path ? strdup(path) : NULL;
    d->shortage = srv_reply_shortage();
    const bool ready =
        d->shortage &&
        srv_connections_open(&d->connections,
                             is_ops ? OPS_CONNECTIONS : (size_t)app->config->connections,
                             is_ops ? 0 : (size_t)app->config->connections_per_address);
    d->mhd = ready ? start_mhd(d, fd, app->config) : NULL;
    if (!d->mhd)
        d->listen_fd = fd; /* libmicrohttpd has not taken the socket over; close it below */
    if (!d->mhd || !srv_watch_start(d)) {
        srv_daemon_close(d);
        return ENOMEM;
    }
    *out = d;
    return 0;
}

const char *srv_daemon_url(const srv_daemon *d) {
    return d->url;
}

/* Shuts the listening socket down, so that new clients are refused. srv_daemon_close closes the
 * descriptor of the socket later, because the HTTP thread may still use it. */
void srv_daemon_quiesce(srv_daemon *d) {
    d->listen_fd = MHD_quiesce_daemon(d->mhd);
    if (d->listen_fd != MHD_INVALID_SOCKET)
        shutdown(d->listen_fd, SHUT_RDWR);
    if (d->unix_path)
        unlink(d->unix_path);
}

void srv_daemon_settle(srv_daemon *d, int64_t quiet_ms, int64_t limit_ms) {
    const struct timespec nap = {.tv_nsec = 5000000};
    int64_t now = attn_now_ns(), busy = now, end = now + limit_ms * 1000000;
    while (now < end) {
        busy = atomic_load(&d->in_flight) ? now : busy;
        if (now - busy >= quiet_ms * 1000000 && now != busy)
            return;
        nanosleep(&nap, NULL);
        now = attn_now_ns();
    }
}

void srv_daemon_cancel(srv_daemon *d) {
    srv_watch_cancel_all(d);
}

void srv_daemon_close(srv_daemon *d) {
    if (!d)
        return;
    srv_watch_stop(d);
    srv_body_order_end(&d->order);
    if (d->mhd)
        MHD_stop_daemon(d->mhd);
    if (d->listen_fd != MHD_INVALID_SOCKET)
        close(d->listen_fd);
    if (d->shortage)
        MHD_destroy_response(d->shortage);
    attn_arena_free(d->spare);
    srv_connections_close(&d->connections);
    pthread_mutex_destroy(&d->lock);
    pthread_mutex_destroy(&d->order.lock);
    pthread_cond_destroy(&d->order.resumed);
    free(d->unix_path);
    free(d);
}
