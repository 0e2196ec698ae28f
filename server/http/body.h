/* Receives the body of a request. Each body is a state machine, which runs on the HTTP thread:
 *
 *   event                       state             action                               next state
 *   head accepted               NONE              join admission's list; if the body   READING
 *                                                 is long, reserve a slot in the queue
 *   piece                       READING           grow the block, copy the piece,      READING
 *                                                 extend the client's deadline
 *   piece, but the body of      READING           suspend the connection               (waits)
 *   another request is read now
 *   the body's turn comes       (waits)           resume the connection (any thread)   READING
 *   last byte                   READING           leave admission's list, claim the    COMPLETE
 *                                                 link
 *   head refused, body too      NONE, READING     free the received bytes; the reply   REFUSED
 *   large, or no memory                           is a problem
 *   many bytes still to come,   REFUSED           cut the link: send the reply to the  LINGER
 *   or another body needs the                     socket without libmicrohttpd
 *   memory of this one
 *   piece                       REFUSED           drop it, at most 256 KiB             REFUSED
 *   piece                       LINGER            drop it, at most 16 MiB; the client  LINGER
 *                                                 may be silent for 3 s, send for 30 s
 *   deadline (watch.c)          READING, LINGER   shut the socket down                 (closed)
 *
 * A body that waits for its turn is in the state READING and its connection is suspended. If it is
 * refused in this time, its state becomes LINGER and it continues to wait.
 *
 * Bodies up to 1 MiB that arrive at the same time are read one after the other, and only as many as
 * the workers will soon start on. So a body is still in the processor's caches when its request is
 * computed. Bytes that are not read yet wait in the kernel or at the client, not in our memory. */
#ifndef SRV_BODY_H
#define SRV_BODY_H

#include <pthread.h>

#include "load/admission.h"

typedef struct srv_exchange srv_exchange;

typedef enum srv_body_state {
    SRV_BODY_NONE,
    SRV_BODY_READING,
    SRV_BODY_COMPLETE,
    SRV_BODY_REFUSED, /* the problem is in req.reply */
    SRV_BODY_LINGER,  /* the reply was sent directly to the socket */
} srv_body_state;

typedef struct srv_body {
    srv_body_state state;
    srv_incoming incoming; /* entry in admission's list; its `received` includes dropped bytes */
    char *block;           /* the body is the req.body_size bytes from block + shift on */
    size_t room;
    size_t shift;        /* offset of the body in `block` that aligns its tensors */
    uint64_t dropped;    /* number of bytes dropped since the refusal */
    int64_t lingers_ns;  /* time at which the state became LINGER */
    int64_t waits_ns;    /* time at which the body began to wait for its turn */
    srv_exchange *after; /* next exchange in the list of waiting bodies */
} srv_body;

/* The order in which a listening daemon reads bodies. */
typedef struct srv_body_order {
    pthread_mutex_t lock;
    srv_exchange *holder; /* the exchange whose body is read now, or NULL */
    size_t left; /* bytes in the holder's socket, as last reported, less those read since */
    srv_exchange *first, *last; /* waiting exchanges, linked by body.after */
    bool ended;
} srv_body_order;

/* Starts the body after the head was accepted or refused. Returns false if the caller must send the
 * refusal now and close the connection. */
bool srv_body_begin(srv_exchange *x);
/* Takes a piece of the body. Returns false if the caller must close the connection. */
bool srv_body_take(srv_exchange *x, const char *data, size_t size);
/* Completes the body in req.body. Returns false if the link was cut. */
bool srv_body_end(srv_exchange *x);
/* Ends the turn of x, so that the next body may be read. For a complete body, call it after the
 * request was put into the queue. */
void srv_body_pass_on(srv_exchange *x);

/* Marks the body as refused and frees its received part. The caller has set the problem. */
void srv_body_refuse(srv_exchange *x);
bool srv_body_is_refused(const srv_exchange *x);
/* Sends the reply of a refused request directly to the socket although its client may still be
 * sending. Bytes that arrive afterwards are read and dropped for a limited time, because closing
 * the socket at once would reset it and the client could not read the reply. */
void srv_body_cut(srv_exchange *x);

/* Frees the body. Runs on the HTTP thread, or on any thread once the body is complete. */
void srv_body_drop(srv_exchange *x);
/* Replaces the body by its decoded form, the first `size` bytes of `block`. The block must have
 * room for ATTN_ALIGN more bytes, and belongs to x afterwards. */
void srv_body_replace(srv_exchange *x, char *block, size_t size);

/* Resumes the bodies whose turn has come. Returns whether other bodies still wait. Called when a
 * request has left the queue and by the watcher in every round, on any thread. */
bool srv_body_order_next(srv_body_order *order, srv_app *app);
/* Resumes all waiting bodies at shutdown. Any thread. */
void srv_body_order_end(srv_body_order *order);

/* Checks the chunk-size line (RFC 9112, 7.1) directly before the chunk data at `data`. Returns
 * false if this line, or the data of the chunk before it, ends in something else than CR LF.
 * `from` is the start of the buffer into which libmicrohttpd reads bodies; the line is only visible
 * if it lies between `from` and `data`, and an invisible line counts as clean.
 *
 * libmicrohttpd 0.9.75 accepts a bare LF as the end of such a line. Other servers do not, so a
 * proxy and this service could disagree on where a request ends. A line that arrived without its
 * data is overwritten before the data arrives, and the last line of a body is never visible. So the
 * service also closes the connection after a chunked body and reads no further request from it. */
bool srv_body_line_is_clean(const char *from, const char *data);

#endif
