/* Receives the body of a request, in the pieces in which libmicrohttpd delivers it. Each body is a
 * state machine, which runs on the HTTP thread. ("The link" is the connection (connections.h). To
 * cut it means to send the reply directly to the socket, without libmicrohttpd.)
 *
 *   event                       state             action                               next state
 *   head accepted               NONE              join admission's list; if the body   READING
 *                                                 is long, reserve a place in the queue
 *   piece                       READING           grow the block, copy the piece,      READING
 *                                                 extend the client's deadline
 *   piece, and the request has  READING           pass the piece to the intake, which  READING
 *   an intake                                     may suspend the connection for a
 *                                                 while
 *   piece, but another body is  READING           suspend the connection               (waits)
 *   to be read first
 *   this body is the next       (waits)           resume the connection (any thread)   READING
 *   last byte                   READING           leave admission's list; from now on  COMPLETE
 *                                                 the link cannot be cut
 *   head refused, body too      NONE, READING     free the received bytes; the reply   REFUSED
 *   large, or no memory                           is a problem
 *   many bytes still to come,   REFUSED           cut the link                         LINGER
 *   or another body needs the
 *   memory of this one
 *   piece                       REFUSED           drop it, at most 256 KiB             REFUSED
 *   piece                       LINGER            drop it, at most 16 MiB; the client  LINGER
 *                                                 may be silent for 3 s, send for 30 s
 *   deadline (watch.c)          READING, LINGER   shut the socket down                 (closed)
 *
 * The order of bodies: bodies up to 1 MiB that arrive at the same time are read one after the
 * other, and only as many as the workers will soon start on. A body is then still in the
 * processor's caches when its request is computed. The bytes of the others wait in the kernel or at
 * the client, not in this process's memory. A body that waits is in the state READING, and its
 * connection is suspended. A body that is refused while it waits gets the state LINGER and
 * continues to wait. */
#ifndef SRV_BODY_H
#define SRV_BODY_H

#include <pthread.h>

#include "load/admission.h"

typedef struct srv_exchange srv_exchange;

typedef enum srv_body_state {
    SRV_BODY_NONE,     /* the head has not been read yet */
    SRV_BODY_READING,  /* the body is arriving, or there is none */
    SRV_BODY_COMPLETE, /* the body is in req.body */
    SRV_BODY_REFUSED,  /* the problem is in req.reply; arriving bytes are dropped */
    SRV_BODY_LINGER,   /* the reply was sent directly to the socket; arriving bytes are dropped */
} srv_body_state;

typedef struct srv_body {
    srv_body_state state;
    bool has_intake;       /* the body goes to an intake; does not change once it is READING */
    srv_incoming incoming; /* entry in admission's list; its `received` includes dropped bytes */
    char *block;           /* the body is the req.body_size bytes from block + shift on */
    size_t room;           /* largest body for which `block` has room */
    size_t shift;          /* offset of the body in `block` that aligns its tensors */
    uint64_t dropped;      /* number of bytes dropped since the refusal */
    int64_t lingers_ns;    /* when the state became LINGER */
    int64_t waits_ns;      /* when the body began to wait for other bodies */
    srv_exchange *after;   /* next exchange in the list of waiting bodies */
} srv_body;

/* The order in which a listening daemon reads bodies. The lock protects all members. */
typedef struct srv_body_order {
    pthread_mutex_t lock;
    srv_exchange *holder;       /* the exchange whose body is read now; NULL: none */
    size_t left;                /* unread bytes in the kernel for the holder's socket, estimated */
    srv_exchange *first, *last; /* waiting exchanges, linked by body.after */
    bool ended;                 /* the daemon is being closed: no body waits any longer */
    size_t at_intakes;          /* connections that intakes have suspended */
    pthread_cond_t resumed;     /* signalled when at_intakes becomes 0 */
} srv_body_order;

/* Starts the body after the head was read. Returns false if the request is refused and its reply
 * must be sent now, without reading the body. */
bool srv_body_begin(srv_exchange *x);
/* Takes a piece of the body, `size` bytes. Returns false if the caller must close the
 * connection. */
bool srv_body_take(srv_exchange *x, const char *data, size_t size);
/* Completes the body in req.body. Returns false if the link was cut meanwhile. */
bool srv_body_end(srv_exchange *x);
/* If the body of x is the one that is being read, lets the next waiting body be read. For a
 * complete body, call this after its request was put into the queue. */
void srv_body_pass_on(srv_exchange *x);

/* Refuses the request: frees the received part of the body, and drops what arrives later. The
 * caller has set the problem. */
void srv_body_refuse(srv_exchange *x);
bool srv_body_is_refused(const srv_exchange *x);
/* Sends the reply of a refused request directly to the socket, although the client may still be
 * sending its body. The socket is not closed at once, because that would reset the connection and
 * the client could not read the reply: for a limited time, arriving bytes are read and dropped. */
void srv_body_cut(srv_exchange *x);

/* Frees the body. Runs on the HTTP thread, or on any thread once the body is complete. */
void srv_body_drop(srv_exchange *x);
/* Replaces a compressed body by its decoded form, the first `size` bytes of `block`. The block must
 * have room for ATTN_ALIGN + 1 more bytes. It belongs to the exchange afterwards. */
void srv_body_replace(srv_exchange *x, char *block, size_t size);

/* Resumes the connections of those waiting bodies that may be read now. Returns whether other
 * bodies still wait. Request threads call this when a request has left the queue, and the watcher
 * calls it in every round. */
bool srv_body_order_next(srv_body_order *order, srv_app *app);
/* Resumes the connections of all waiting bodies, and lets no body wait from now on. Waits until the
 * intakes have resumed all connections that they had suspended. Used in the shutdown. Any thread
 * may call this. */
void srv_body_order_end(srv_body_order *order);

#endif
