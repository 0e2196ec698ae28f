/* The types srv_daemon and srv_exchange, for use inside server/http. A daemon is a listening server
 * of this process; an exchange is a request with its reply on one of the daemon's links.
 *
 * An exchange is made at the request line and belongs to the HTTP thread. Only while its connection
 * is suspended it belongs to the queue or to a request thread, and the watcher touches it under the
 * daemon's lock. An exchange has up to three references. One is dropped when the request completed
 * and one when the response was freed, both on the HTTP thread. The third exists while a handler
 * runs on as its reply is already being sent. Dropping the last reference frees the exchange, its
 * arena and its body. */
#ifndef SRV_EXCHANGE_H
#define SRV_EXCHANGE_H

#include <pthread.h>

#include "config/keys.h"
#include "http/body.h"
#include "http/connections.h"
#include "http/head.h"
#include "http/router.h"
#include "load/queue.h"
#include "request/request.h"
#include "request/shared.h"
#include "system/ticker.h"

struct srv_daemon {
    srv_app *app;
    const srv_router *router;
    struct MHD_Daemon *mhd;
    struct MHD_Response *shortage; /* a 503 made in advance, sent when memory runs out */
    int listen_fd;
    char *unix_path; /* socket file to unlink at shutdown, or NULL */
    char url[160];   /* such as "http://127.0.0.1:8080" */
    bool is_ops;     /* true: the operations port, which still answers during shutdown */
    bool is_local;   /* true: reachable only from this machine, by loopback or unix socket */
    atomic_int in_flight;
    attn_arena *spare;    /* an empty arena for the next request on the HTTP thread, or NULL */
    pthread_mutex_t lock; /* protects links, next_look, each link's `suspended` and `streaming` */
    srv_body_order order;
    srv_connections connections;
    srv_link *links;
    srv_link *next_look; /* where the watcher continues after it released the lock, or NULL */
    srv_ticker watcher;
};

typedef enum srv_phase {
    SRV_AT_HEAD, /* only the request line is known */
    SRV_AT_BODY, /* the header was read, the body is arriving */
    SRV_AWAY,    /* suspended: in the queue or on a request thread */
    SRV_BACK,    /* the reply is ready and will be sent in a round of the HTTP thread */
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
    bool by_library;               /* libmicrohttpd refused the request, and reports no success */
    srv_key *key;                  /* API key, held until the exchange ends, or NULL */
    bool key_runs;                 /* true: x counts among the running requests of `key` */
    atomic_int gone;               /* 1: the client left while x was suspended or streaming */
    struct MHD_Response *response; /* made by srv_reply_ahead, or NULL */
    attn_arena *lent; /* the handler's arena while its reply is being sent, else NULL */
    bool went_out;    /* true: the reply is being sent while the handler still runs */
    atomic_int refs;
    int64_t enqueued_ns;
    srv_trace trace;
    char client[SRV_CLIENT_TEXT]; /* address of the client behind trusted proxies (client.h) */
    char id[136], type[96];
    char *params; /* buffer for the route's parameters, inside `text` */
    char text[];  /* the query string, then the bytes of `params` */
};

/* Returns the exchange of a connection, and begins one if none is under way. NULL: out of memory.
 * Runs on the HTTP thread. */
srv_exchange *srv_daemon_exchange(struct MHD_Connection *connection);
/* Makes an exchange with one reference. `uri` is the raw request target. NULL: out of memory. */
srv_exchange *srv_exchange_new(srv_daemon *daemon, srv_link *link, const char *uri);
/* Drops one reference, and frees the exchange with the last one. */
void srv_exchange_drop(srv_exchange *x);
/* Gives up the arena of x: a small one is kept by the daemon for the next request, a large one is
 * freed. Runs on the HTTP thread. */
void srv_exchange_spare(srv_exchange *x);
/* Gives the request an empty arena of at most `limit` bytes. Returns false with a problem set if
 * memory ran out. */
bool srv_exchange_arena(srv_exchange *x, size_t limit);

/* Makes the response for srv_daemon.shortage, a 503. NULL: out of memory. */
struct MHD_Response *srv_reply_shortage(void);
/* Passes the reply of x to libmicrohttpd, which sends it. */
enum MHD_Result srv_exchange_send(srv_exchange *x);
/* Makes the response of a short reply now, to be sent in the next round of the HTTP thread. The
 * body is copied into the response, so that the next request can reuse the arena of x. */
void srv_reply_ahead(srv_exchange *x);
/* Destroys the response that srv_reply_ahead made. */
void srv_reply_forget(srv_exchange *x);
/* Ends the stream of a finished exchange, if its reply is a stream. */
void srv_reply_end(srv_exchange *x);

/* Answers x, whose body is complete: either on the HTTP thread, or by suspending the connection and
 * putting x into the queue. */
enum MHD_Result srv_exchange_answer(srv_exchange *x);
/* Answers x, which was taken out of the queue, with a problem of the given code. Any thread. */
void srv_exchange_give_up(srv_exchange *x, srv_code code);

#endif
