/* Requests with the header Idempotency-Key. A client that did not receive the answer to a POST
 * sends the POST again with the same key. It then gets the answer to the first POST, and no second
 * run, model or job is made. See draft-ietf-httpapi-idempotency-key-header.
 *
 * An answer is kept only if its request made something: the status is 201 or 202, or the answer is
 * 200 with the header X-Run-Id. Answers are kept in the memory of this process, for at most
 * SRV_REPEAT_HOURS, and the oldest make room for new ones. After any other answer the key is
 * forgotten, so a repeated request runs again.
 *
 * A key belongs to the API key of its client. All functions may be called on any thread. */
#ifndef SRV_REPEATS_H
#define SRV_REPEATS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    SRV_REPEAT_KEY = 128,   /* largest number of characters of an Idempotency-Key */
    SRV_REPEAT_KEYS = 1024, /* largest number of keys that are known at a time */
    SRV_REPEAT_HOURS = 24,
    SRV_REPEAT_ANSWER = 64 << 10, /* largest answer that is kept, in bytes */
    SRV_REPEAT_ANSWERS = 4 << 20, /* largest size of all kept answers, in bytes */
};

typedef struct srv_exchange srv_exchange;
typedef struct srv_repeats srv_repeats;

/* Makes an empty table. NULL: memory ran out, or there is no source of random numbers. */
srv_repeats *srv_repeats_new(void);
void srv_repeats_free(srv_repeats *repeats); /* NULL is allowed */

/* Decides whether the handler of x, a POST with an Idempotency-Key, must run. The body is complete,
 * and x has an arena. true: pass *place to srv_repeats_end after the handler has run. false: the
 * reply is set to the kept answer of an earlier request, or to a problem. */
bool srv_repeats_begin(srv_exchange *x, size_t *place);
/* Keeps the reply of x for repeated requests if it made something, else forgets the key. `answered`
 * is false if the handler has not set the reply, or if the reply is a stream. */
void srv_repeats_end(const srv_exchange *x, size_t place, bool answered);

#endif
