/* The header Prefer (RFC 7240). The service supports the preferences respond-async and wait. */
#ifndef SRV_PREFER_H
#define SRV_PREFER_H

#include <stdbool.h>
#include <stdint.h>

/* The preferences of a request. Zeros: there are none. */
typedef struct srv_prefer {
    bool respond_async; /* answer 202 at once if the work takes long */
    bool has_wait;      /* the preference `wait` was sent; a second one has no effect */
    int64_t wait_s;     /* number of seconds of `wait`; -1: it is not a number */
} srv_prefer;

/* Adds the preferences in the value of one header Prefer; a request may have several such headers.
 * If a preference is sent twice, the first one counts. Unknown preferences, parameters, and
 * everything behind a syntax error are ignored. */
void srv_prefer_read(const char *value, srv_prefer *out);

#endif
