/* The types srv_daemon and srv_exchange, for use inside server/http. A daemon is one listening port
 * of the service. An exchange is one request with its reply, on one of the daemon's connections (a
 * connection is called a link, see connections.h).
 *
 * Threads: an exchange is made when the request line was read, and belongs to the HTTP thread.
 * While its connection is suspended, it belongs to the queue or to a request thread; the watcher
 * may then also use it, under the daemon's lock.
 *
 * Memory: an exchange has up to three references, and the last one frees it with its arena and
 * body:
 *
 *   the request    dropped on the HTTP thread when libmicrohttpd reports the request as completed
 *   the response   dropped on the HTTP thread when libmicrohttpd frees the response
 *   the handler    only while a handler continues to run although its reply is already being sent
 */
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
    struct MHD_Response *shortage; /* a reply with status 503, sent when memory runs out */
    int listen_fd;                 /* the listening socket, if libmicrohttpd does not have it */
    char *unix_path;               /* socket file to unlink at shutdown; NULL: none */
    char url[160];                 /* such as "http://127.0.0.1:8080" */
    bool is_ops;                   /* the operations port, which still answers during shutdown */
    bool strict;                   /* libmicrohttpd checks the framing itself (library.h) */
    bool is_local;        /* reachable only from this machine, by loopback or unix socket */
    atomic_int in_flight; /* number of unfinished requests */
    attn_arena *spare;    /* an empty arena for the next request on the HTTP thread; NULL: none */
    pthread_mutex_t lock; /* protects links, next_look, each link's `suspended` and `streaming` */
    srv_body_order order;
    srv_connections connections;
    srv_link *links;     /* all open connections */
    srv_link *next_look; /* the link that the watcher checks next; NULL: its round is over */
    srv_ticker watcher;
};

typedef enum srv_phase {
    SRV_AT_HEAD, /* only the request line has been read */
    SRV_AT_BODY, /* the header has been read, and the body is arriving */
    SRV_AWAY,    /* the connection is suspended: the exchange is in the queue or on a thread */
    SRV_BACK,    /* the reply is ready; the next call of on_request sends it */
    SRV_SENT,    /* libmicrohttpd has the response */
} srv_phase;

struct srv_exchange {
    srv_task task; /* must be the first member, because a srv_task * is cast to a srv_exchange * */
    srv_request req;
    srv_daemon *daemon;
    srv_link *link;
    struct MHD_Connection *connection;
    srv_phase phase;
    srv_head head;
    srv_match match;
    srv_body body;
    bool close;      /* the connection is closed after the reply */
    bool by_library; /* libmicrohttpd has refused the request (library.h) */
    srv_key *key;    /* the API key, held until the exchange ends; NULL: none */
    bool key_runs;   /* the request is counted among the running requests of `key` */
    atomic_int gone; /* 1: the client has left while x was suspended or its stream was being sent */
    struct MHD_Response *response; /* made by srv_reply_ahead; NULL: not made yet */
    attn_arena *lent;    /* the arena of a handler whose stream is being sent; NULL otherwise */
    bool went_out;       /* the reply is a stream that is sent while the handler still runs */
    atomic_int refs;     /* number of references */
    int64_t enqueued_ns; /* when the request was put into the queue; 0: it was not */
    srv_trace trace;
    char client[SRV_CLIENT_TEXT]; /* address of the client behind trusted proxies (client.h) */
    char id[136], type[96];       /* the texts of req.id and req.content_type */
    char read_token[SRV_READ_TOKEN + 1]; /* the text of req.read_token */
    char *params;                        /* the texts of req.params, inside `text` */
    char text[];                         /* the query string, then the bytes of `params` */
};

/* Begins a request on the link: makes its exchange. `uri` is the raw request target. NULL: out of
 * memory. Runs on the HTTP thread. */
srv_exchange *srv_daemon_begin(srv_link *link, const char *uri, struct MHD_Connection *connection);
/* Makes an exchange with one reference. `uri` is the raw request target. NULL: out of memory. */
srv_exchange *srv_exchange_new(srv_daemon *daemon, srv_link *link, const char *uri);
/* Drops one reference, and frees the exchange with the last one. */
void srv_exchange_drop(srv_exchange *x);
/* Takes the arena away from x. The daemon keeps one small arena for the next request
 * (srv_daemon.spare); other arenas are freed. Runs on the HTTP thread. */
void srv_exchange_spare(srv_exchange *x);
/* Gives the request an empty arena of at most `limit` bytes. Returns false with a problem set if
 * memory ran out. */
bool srv_exchange_arena(srv_exchange *x, size_t limit);

/* Returns the value of a header of the reply; NULL: it has none of this name. */
const char *srv_reply_find(const srv_reply *reply, const char *name);
/* Makes the response for srv_daemon.shortage. NULL: out of memory. */
struct MHD_Response *srv_reply_shortage(void);
/* Passes the reply of x to libmicrohttpd, which sends it. */
enum MHD_Result srv_exchange_send(srv_exchange *x);
/* Makes the response of a short reply, which srv_exchange_send sends later. The body is copied into
 * the response, so that the next request can reuse the arena of x meanwhile. Does nothing for other
 * replies. */
void srv_reply_ahead(srv_exchange *x);
/* Destroys the response that srv_reply_ahead made. */
void srv_reply_forget(srv_exchange *x);
/* Ends the stream of a finished exchange, if its reply is a stream. */
void srv_reply_end(srv_exchange *x);

/* Answers a request whose body is complete: either runs the handler on the HTTP thread, or suspends
 * the connection and puts x into the queue. */
enum MHD_Result srv_exchange_answer(srv_exchange *x);
/* Answers a request that was taken out of the queue with a problem of the given code. Any thread
 * may call this. */
void srv_exchange_give_up(srv_exchange *x, srv_code code);

#endif
