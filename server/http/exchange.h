/* Inside server/http: a listening daemon and a request on one of its links (exchange).
 *
 * An exchange is made at the request line and belongs to the HTTP thread, except between suspend
 * and resume, when it belongs to the queue or to a request thread; the watcher then only touches it
 * under the daemon's lock. It has two references, "request completed" and "response freed", both
 * dropped on the HTTP thread, and a third of the handler that goes on while its reply goes out; the
 * last one frees it with its arena and its body. */
#ifndef SRV_EXCHANGE_H
#define SRV_EXCHANGE_H

#include <pthread.h>

#include "config/keys.h"
#include "http/body.h"
#include "http/head.h"
#include "http/link.h"
#include "http/router.h"
#include "load/queue.h"
#include "request/request.h"
#include "request/shared.h"
#include "system/ticker.h"

struct srv_daemon {
    srv_app *app;
    const srv_router *router;
    struct MHD_Daemon *mhd;
    struct MHD_Response *shortage; /* a prepared 503 for when memory runs out */
    int listen_fd;
    char *unix_path; /* socket file to unlink at the end, or NULL */
    char url[160];   /* as printed: "http://127.0.0.1:8080" */
    bool is_ops;     /* the operations port, which still answers while draining */
    bool is_local;   /* reachable only from this machine: loopback or a unix socket */
    atomic_int in_flight;
    attn_arena *spare; /* the arena of the last request in place, kept for the next one, or NULL */
    pthread_mutex_t lock; /* links, next_look, each link's `suspended` and `streaming` */
    srv_body_order order;
    srv_connections connections;
    srv_link *links;
    srv_link *next_look; /* where the watcher continues after it released the lock, or NULL */
    srv_ticker watcher;
};

typedef enum srv_phase {
    SRV_AT_HEAD, /* only the request line is known */
    SRV_AT_BODY, /* the header was looked at, the body is coming in */
    SRV_AWAY,    /* suspended: in the queue or on a request thread */
    SRV_BACK,    /* the reply is ready: resumed, or made in place and held for a round */
    SRV_SENT,    /* the response was handed to the HTTP library */
} srv_phase;

struct srv_exchange {
    srv_task task; /* first member, because the queue returns its address */
    srv_request req;
    srv_daemon *daemon;
    srv_link *link;
    struct MHD_Connection *connection;
    srv_phase phase;
    srv_head head;
    srv_match match;
    srv_body body;
    bool close;                    /* the reply closes the connection */
    bool by_library;               /* libmicrohttpd refuses it, and then never reports success */
    srv_key *key;                  /* held until the end, or NULL */
    bool key_runs;                 /* it counts among the running requests of the key */
    atomic_int gone;               /* the client left while suspended */
    struct MHD_Response *response; /* made before it is sent, or NULL */
    attn_arena *lent; /* the request's arena, once its reply goes out while the handler goes on */
    bool went_out;    /* the reply is sent while the handler runs; for the request thread */
    atomic_int refs;
    int64_t enqueued_ns;
    srv_trace trace;
    char client[SRV_CLIENT_TEXT]; /* its address, behind trusted proxies (client.h) */
    char id[136], type[96];
    char *params; /* room for the route's parameters */
    char text[];  /* the query, then params */
};

/* The exchange of a connection, which begins now if none is under way; NULL: out of memory. On the
 * HTTP thread. */
srv_exchange *srv_daemon_exchange(struct MHD_Connection *connection);
/* NULL: out of memory. `uri` is the raw request target. */
srv_exchange *srv_exchange_new(srv_daemon *daemon, srv_link *link, const char *uri);
void srv_exchange_drop(srv_exchange *x); /* drops one reference */
/* Returns the arena; a small one goes to the daemon for the next request. On the HTTP thread. */
void srv_exchange_spare(srv_exchange *x);
/* Makes an empty arena for the request; false: a problem reply is set. */
bool srv_exchange_arena(srv_exchange *x, size_t limit);

/* The 503 of srv_daemon.shortage, a reference; NULL: out of memory. */
struct MHD_Response *srv_reply_shortage(void);
/* Passes the reply of x to libmicrohttpd. */
enum MHD_Result srv_exchange_send(srv_exchange *x);
/* Prepares the reply for the next round. A short reply is copied, so that the next request can
 * reuse the memory. */
void srv_reply_ahead(srv_exchange *x);
void srv_reply_forget(srv_exchange *x); /* drop what srv_reply_ahead made */
/* Ends the stream of a finished exchange, if it has one. */
void srv_reply_end(srv_exchange *x);

/* Answers x, whose body is complete, on the HTTP thread, or suspends the connection and queues x.
 */
enum MHD_Result srv_exchange_answer(srv_exchange *x);
/* Answer x, which was taken out of the queue, with a problem of this code. Any thread. */
void srv_exchange_give_up(srv_exchange *x, srv_code code);

#endif
