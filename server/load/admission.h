/* Admission decides which requests get memory and which are refused because of the load. budget.h
 * counts every byte and enforces the limit. Admission decides in two stages, so that no request
 * begins that could not be finished.
 *
 * Stage A decides by the header, before the body is read. A body that can never fit is answered
 * with 413, a body that does not fit now with 503. An announced length takes no memory: memory is
 * taken as bytes arrive, for all bodies together at most half of the budget. When this half is
 * used up, the body that will take longest to complete (its missing bytes divided by its measured
 * rate) is refused. So a client that announces many bytes and sends few blocks no other client.
 * Bodies that are small enough for the HTTP thread have memory of their own.
 *
 * Stage B decides by the shapes of tensors, before the work. The memory for scratch, results and
 * reply, as bounded by the cost functions of the operations, is taken all at once. No request waits
 * for memory while it holds memory: if there is not enough, it fails with 503, or with 413 if it
 * could never fit. The duration of the work is predicted from its number of operations and from
 * earlier requests of the same route. Long work waits until it may run as one of the limited number
 * of long tasks. */
#ifndef SRV_ADMISSION_H
#define SRV_ADMISSION_H

#include "request/request.h"

typedef struct srv_admission srv_admission;
typedef struct srv_incoming srv_incoming;

/* A body that is arriving. Its owner sets all members to zero. Only the HTTP thread uses it until
 * the body is complete. */
struct srv_incoming {
    srv_incoming *next, *previous; /* neighbours in admission's list, if `listed` */
    bool listed;
    size_t held; /* bytes of memory that the body holds */
    int64_t since_ns;
    uint64_t announced, received;         /* bytes */
    void (*give_way)(srv_incoming *body); /* refuses the request with 503 and frees the memory */
};

/* Makes the admission; call it after srv_budget_start. NULL: out of memory. */
srv_admission *srv_admission_new(const srv_config *config);
void srv_admission_free(srv_admission *a); /* NULL is fine */

/* Stage A: decides whether a body of `length` bytes of this client (its number in queue.h) may be
 * read. Returns false with a problem set if not. */
bool srv_admission_header(srv_admission *a, srv_request *req, uint64_t client, uint64_t length,
                          int64_t now_ns);
/* Adds a body of `announced` bytes to the list; for a chunked body this is the largest size. */
void srv_admission_open(srv_admission *a, srv_incoming *body, uint64_t announced, int64_t now_ns);
/* Returns a block of `room` bytes for the body that begins with the first `used` bytes of `old`,
 * and frees `old`. May refuse other bodies to free memory. NULL: there is no memory now, and `old`
 * is unchanged. */
char *srv_admission_take(srv_admission *a, srv_incoming *body, char *old, size_t used, size_t room,
                         int64_t now_ns);
/* Removes a complete or refused body from the list, so that it is not refused for others. May be
 * called twice. */
void srv_admission_close(srv_admission *a, srv_incoming *body);
/* Frees the block of the body. Any thread. */
void srv_admission_drop(srv_admission *a, srv_incoming *body, char *block);

/* Returns the bytes of the budget that neither bodies nor the work of request threads may use. */
size_t srv_admission_spare(const srv_admission *a);

/* Stage B: admits work of `operations` floating-point operations (a multiply-add is two) and takes
 * `bytes` of memory for the arena of the request. Sets the problem 413 if a request may never have
 * so much memory, 503 if it is not free now. On the HTTP thread, whose requests are small, no
 * memory is taken. If it returns false, the handler must return: a problem is set, or req->later is
 * set and the request waits in the queue again. */
bool srv_admission_work(srv_request *req, double operations, double bytes);
/* Learns the cost of the operations of a route from a request that used `busy_ns` of processor
 * time. */
void srv_admission_learn(srv_admission *a, const srv_request *req, int64_t busy_ns);

/* Returns the seconds for Retry-After: `wait_ns` rounded up, at least 1 and at most 600. The random
 * `bits` lengthen it by up to a half, so that clients that were refused at the same time do not
 * come back at the same time. */
unsigned srv_admission_retry(int64_t wait_ns, uint64_t bits);
/* Returns the seconds for Retry-After, by the expected wait in the queue, as text in the request's
 * arena. */
const char *srv_admission_retry_text(const srv_request *req);

#endif
