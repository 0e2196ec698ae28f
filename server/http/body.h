/* A request's body on its way in, one machine on the HTTP thread:
 *
 *   event                       in                action                               next
 *   head accepted               NONE              join admission's list; have a        READING
 *                                                 place in the queue promised if long
 *   piece                       READING           grow, copy; it buys the client time  READING
 *   piece, another one's order  READING           suspend the connection               (waits)
 *   its order comes             (waits)           resume the connection; any thread    READING
 *   last byte                   READING           leave the list, claim the link       COMPLETE
 *   head refused, too large,    NONE, READING     free what is there; the problem is   REFUSED
 *   no memory                                     set
 *   much is left, or another    REFUSED           cut the link: the reply goes out     LINGER
 *   one needs the memory                          past libmicrohttpd
 *   piece                       REFUSED           drop it, at most 256 KiB             REFUSED
 *   piece                       LINGER            drop it, at most 16 MiB; the client  LINGER
 *                                                 may be silent for 3 s and send for 30
 *   deadline (watch.c)          READING, LINGER   shut the socket down                 (closed)
 *
 * A body that waits for its order is READING and its connection suspended; when it gives way
 * meanwhile it is LINGER and waits on.
 *
 * Order: of bodies up to 1 MiB that come in at the same time one after the other is read, and no
 * more of them than the workers will soon take up. A body is then still in the processor's caches
 * when its request is computed, and what is not read yet waits in the kernel or at its client
 * instead of in our memory. */
#ifndef SRV_BODY_H
#define SRV_BODY_H

#include <pthread.h>

#include "load/admission.h"

typedef struct srv_exchange srv_exchange;

typedef enum srv_body_state {
    SRV_BODY_NONE,
    SRV_BODY_READING,
    SRV_BODY_COMPLETE,
    SRV_BODY_REFUSED, /* the reply is in req.reply */
    SRV_BODY_LINGER,  /* the reply was sent directly to the socket */
} srv_body_state;

typedef struct srv_body {
    srv_body_state state;
    srv_incoming incoming; /* its entry in admission; also counts dropped bytes */
    char *block;           /* req.body_size bytes from `shift` on */
    size_t room;
    size_t shift;        /* offset in `block` that aligns its tensors */
    uint64_t dropped;    /* bytes after the refusal */
    int64_t lingers_ns;  /* when it began to linger */
    int64_t waits_ns;    /* when it began to wait for its order */
    srv_exchange *after; /* the next one that waits */
} srv_body;

/* The order in which a daemon reads bodies. */
typedef struct srv_body_order {
    pthread_mutex_t lock;
    srv_exchange *holder; /* the exchange whose body is read now, or NULL */
    size_t left; /* bytes of the holder in the kernel when it was asked, less those read since */
    srv_exchange *first, *last; /* waiting exchanges, linked by body.after */
    bool ended;
} srv_body_order;

/* Starts the body after the head was accepted or refused. false: the refusal is sent now and closes
 * the connection. */
bool srv_body_begin(srv_exchange *x);
/* Takes a piece of the body. false: close the connection. */
bool srv_body_take(srv_exchange *x, const char *data, size_t size);
/* Completes the body in req.body. false: the link is cut. */
bool srv_body_end(srv_exchange *x);
/* Ends the turn of x, whose request is in the queue if it is complete: the next body may be read.
 */
void srv_body_pass_on(srv_exchange *x);

/* Frees the received part of the body of a refused request, whose problem is set. */
void srv_body_refuse(srv_exchange *x);
bool srv_body_is_refused(const srv_exchange *x);
/* Sends the reply of a refused request directly to the socket while its client may still send.
 * Later bytes are read and dropped for a limited time, because a reset would prevent the client
 * from reading the reply. */
void srv_body_cut(srv_exchange *x);

/* Frees the body. To be called on the HTTP thread, or on any thread once the body is complete. */
void srv_body_drop(srv_exchange *x);
/* Replaces the body by its decoded form: `size` bytes in a block with room for ATTN_ALIGN more. */
void srv_body_replace(srv_exchange *x, char *block, size_t size);

/* To be called when a request has left the queue, and regularly: resumes bodies that may go on.
 * true: others still wait. Any thread. */
bool srv_body_order_next(srv_body_order *order, srv_app *app);
/* At shutdown: resumes all waiting bodies. Any thread. */
void srv_body_order_end(srv_body_order *order);

/* The lines between chunks (RFC 9112, 7.1), as far as they can be seen: libmicrohttpd 0.9.75 takes
 * a bare LF for the end of one, which other servers read on over, so that two of them in a row may
 * disagree on where a request ends. A line that came in without the data behind it is gone when the
 * data comes, and the last one is never seen; so a connection also ends behind a chunked body, and
 * nothing that follows on it is read as a request.
 *
 * Does the line before `data`, if it is there, end in CR LF, and the data before it as well? `from`
 * is where the library reads bodies into: bytes from there to `data` came in before it. */
bool srv_body_line_is_clean(const char *from, const char *data);

#endif
