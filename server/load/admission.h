/* Admission decides which requests get memory and which are refused because of the load. budget.h
 * counts every byte and enforces the limit. Admission decides twice, so that a request that begins
 * can also be finished.
 *
 * Stage A is on the HTTP thread, after the header and before the body is read. It refuses a body
 * that can never fit with 413, and one that does not fit now with 503. The announced length
 * reserves no memory: memory is taken as bytes arrive. All bodies together may use half of the
 * budget. When this half is used up, the body that will take longest to complete (its missing bytes
 * divided by its measured rate) is refused. Therefore a client that announces many bytes and sends
 * few keeps no memory from other clients. Bodies up to in_place_bytes may exceed the half: a
 * small part of the budget is kept for them.
 *
 * Stage B is on a request thread, when the shapes of the tensors are known and before the work. The
 * cost functions of the operations give an upper bound of the memory for scratch, results and
 * reply. This memory is taken all at once. If it is not free, the request fails with 503, and if it
 * can never be free, with 413. A request never waits for memory, because it holds memory that
 * others may be waiting for.
 *
 * Stage B also predicts the duration of the work from its number of operations and from earlier
 * requests of the same route. If the work is long and too many long requests are running, the
 * request goes back into the queue (srv_queue_go_long). */
#ifndef SRV_ADMISSION_H
#define SRV_ADMISSION_H

#include "request/request.h"

typedef struct srv_admission srv_admission;
typedef struct srv_incoming srv_incoming;

/* A request body that is arriving. server/http owns it and sets all members to zero at the start.
 * Only the HTTP thread uses it until the body is complete. */
struct srv_incoming {
    srv_incoming *next, *previous; /* neighbours in admission's list of arriving bodies */
    bool listed;                   /* the body is in that list */
    size_t held;                   /* bytes of memory that the body holds */
    int64_t since_ns;              /* when srv_admission_open was called */
    uint64_t announced, received;  /* bytes of the body */
    /* Set by the owner: refuses the request with 503 and frees the body's memory, so that another
     * body can have it. */
    void (*give_way)(srv_incoming *body);
};

/* Makes the admission. Call this after srv_budget_start. NULL: out of memory. */
srv_admission *srv_admission_new(const srv_config *config);
void srv_admission_free(srv_admission *a); /* NULL is fine */

/* Stage A: decides whether a body of `length` bytes may be read. For a body that goes to an intake,
 * `length` is the memory that it takes. `client` is the number of the client (config/client.h).
 * false: the body is refused, and a problem is set. */
bool srv_admission_check_length(srv_admission *a, srv_request *req, uint64_t client,
                                uint64_t length, int64_t now_ns);
/* Adds a body to the list of arriving bodies. `announced` is its Content-Length; for a chunked
 * body, whose length is unknown, the largest size that is allowed. */
void srv_admission_open(srv_admission *a, srv_incoming *body, uint64_t announced, int64_t now_ns);
/* Grows the memory of a body: returns a block of `room` bytes that begins with the first `used`
 * bytes of `old`, and frees `old` (NULL for the first block). To free memory, may refuse other
 * bodies by their give_way. NULL: there is no memory now, and `old` is unchanged. */
char *srv_admission_take(srv_admission *a, srv_incoming *body, char *old, size_t used, size_t room,
                         int64_t now_ns);
/* Removes a complete or refused body from the list of arriving bodies. A body that is not in the
 * list is never refused in favour of other bodies. Does nothing if the body is not in the list. */
void srv_admission_close(srv_admission *a, srv_incoming *body);
/* Frees the body's block of memory. Any thread may call this. */
void srv_admission_drop(srv_admission *a, srv_incoming *body, char *block);

/* A copy of a complete body that a job keeps after the end of the request. Copies count in the half
 * of the budget that is for bodies, and all copies together may take at most half of it. */
typedef struct srv_kept_body {
    char *block;      /* from attn_alloc */
    const char *body; /* `size` bytes in the block, followed by a NUL, aligned as the body was */
    size_t size;
} srv_kept_body;
/* Returns whether srv_admission_keep could copy a body of this size if there were no other copy. */
bool srv_admission_may_keep(const srv_admission *a, size_t size);
/* Copies a complete body into *out. false: there is no memory for the copy now. Any thread may call
 * this. */
bool srv_admission_keep(srv_admission *a, const char *body, size_t size, srv_kept_body *out);
/* Frees the copy, if there is one. Any thread may call this. */
void srv_admission_forget(srv_admission *a, srv_kept_body *kept);

/* Returns the part of the budget, in bytes, that only small requests on the HTTP thread and small
 * bodies may use. Request threads and larger bodies must leave it free (srv_budget_leave). */
size_t srv_admission_spare(const srv_admission *a);

/* Returns the size of the largest body for which there is memory if no other body has any. */
size_t srv_admission_largest(const srv_admission *a);

/* Stage B: admits work of `operations` floating-point operations (a multiply-add is two) and
 * reserves `bytes` of memory in the request's arena. On the HTTP thread (req->in_place) it admits
 * everything and reserves nothing, because the requests there are small.
 *
 * false: the handler must return at once. Either a problem is set: 413 if no request may have so
 * much memory, 503 if the memory is not free now. Or req->later is set, because the work is long:
 * server/http puts the request back into the queue and calls the handler again later. */
bool srv_admission_work(srv_request *req, double operations, double bytes);
/* Checks that a request could have `bytes` more memory if no other request had any. Its body and
 * the present contents of its arena count, too. false: a problem of status 413 is set. */
bool srv_admission_fits(srv_request *req, double bytes);
/* Updates the measured processor time per operation of the request's route. `busy_ns` is the
 * processor time that the request has used. */
void srv_admission_learn(srv_admission *a, const srv_request *req, int64_t busy_ns);
/* Predicts the time in seconds for `operations` operations on the request's route, by `threads`
 * threads that have nothing else to do. */
double srv_admission_seconds(const srv_request *req, double operations, double threads);
/* Returns whether this work is predicted to be so short (a fraction of a millisecond) that the HTTP
 * thread may do it: `operations` operations, and writing an answer of at most `text` bytes. */
bool srv_admission_is_brief(const srv_request *req, double operations, double text);

/* Returns the seconds for the header Retry-After: `wait_ns` rounded up to seconds and lengthened by
 * a random part of up to a half, at least 1 and at most 600. The random `bits` choose that part, so
 * that clients that were refused at the same time do not come back at the same time. */
unsigned srv_admission_retry(int64_t wait_ns, uint64_t bits);
/* Returns the seconds for Retry-After as text in the request's arena, computed from the expected
 * wait in the queue. */
const char *srv_admission_retry_text(const srv_request *req);

#endif
