/* Admission: which requests get memory, and which are refused for the load. budget.h counts every
 * byte and is the hard bound; this decides, in two stages, so that nothing is begun that could not
 * be finished.
 *
 * Stage A, from the header, before the body: what can never fit is 413, what does not fit now 503.
 * An announced length costs nothing: memory is taken as bytes arrive, at most half of the budget
 * for all bodies together. When it is short, the body with the longest way to go (what is missing
 * of it, at the rate it has shown) gives way; so a client that announces much and sends little
 * keeps nobody out. Bodies small enough for the HTTP thread have a share of their own.
 *
 * Stage B, from shapes, before the work: scratch, results and reply, as the cost functions of the
 * operations bound them, are taken in one piece. Nobody waits for memory while holding some: it is
 * there, or the request gives up with 503 (413 when it could never fit). How long the work takes is
 * predicted from its operations and what those of the same route took before; what is long waits
 * for one of the threads that long work may have. */
#ifndef SRV_ADMISSION_H
#define SRV_ADMISSION_H

#include "request/request.h"

typedef struct srv_admission srv_admission;
typedef struct srv_incoming srv_incoming;

/* A body on its way in; the HTTP thread's until it is complete. Zeroed by its owner. */
struct srv_incoming {
    srv_incoming *next, *previous; /* admission's, as the next three */
    bool listed;
    size_t held; /* bytes of memory */
    int64_t since_ns;
    uint64_t announced, received;         /* bytes */
    void (*give_way)(srv_incoming *body); /* answer its request with 503 and drop its memory */
};

/* NULL: out of memory. After srv_budget_start. */
srv_admission *srv_admission_new(const srv_config *config);
void srv_admission_free(srv_admission *a); /* NULL is fine */

/* Stage A: may a body of `length` bytes of this client (queue.h) come in? false: a problem is set.
 */
bool srv_admission_header(srv_admission *a, srv_request *req, uint64_t client, uint64_t length,
                          int64_t now_ns);
/* A body is coming, of `announced` bytes (chunked: the most it may have). */
void srv_admission_open(srv_admission *a, srv_incoming *body, uint64_t announced, int64_t now_ns);
/* A block of `room` bytes for it, with the first `used` bytes of `old`, which is freed; others may
 * have to give way. NULL: there is no memory now, `old` is as it was. */
char *srv_admission_take(srv_admission *a, srv_incoming *body, char *old, size_t used, size_t room,
                         int64_t now_ns);
/* The body is complete or refused, and gives way no more. Twice is fine. */
void srv_admission_close(srv_admission *a, srv_incoming *body);
/* Free its memory. Any thread. */
void srv_admission_drop(srv_admission *a, srv_incoming *body, char *block);

/* Bytes that are kept free of bodies and of the work on request threads. */
size_t srv_admission_spare(const srv_admission *a);

/* Stage B: the work has so many operations (floating-point; a multiply-add is two), and needs
 * `bytes` more for this request's arena, at once: 413 when one request may not have so much, or all
 * together have not, 503 when it is not there now. On the HTTP thread, whose requests are small,
 * nothing is taken. false: the handler returns; a problem is set, or the request is put back into
 * the queue and begins once more later (req->later). */
bool srv_admission_work(srv_request *req, double operations, double bytes);
/* The request has run and used `busy_ns` of processor time: what its route's operations cost. */
void srv_admission_learn(srv_admission *a, const srv_request *req, int64_t busy_ns);

/* Seconds for Retry-After: `wait_ns`, rounded up, at least 1, and up to half as much again by
 * `bits`, so that those that were refused together do not come back together. At most 600. */
unsigned srv_admission_retry(int64_t wait_ns, uint64_t bits);
/* The same as text in the request's arena, for the present wait in the queue. */
const char *srv_admission_retry_text(const srv_request *req);

#endif
