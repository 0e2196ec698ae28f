/* The log: one JSON line a request on standard error, written by a thread of its own so that a slow
 * reader of standard error never holds up the service. Lines beyond the buffer are dropped and
 * counted in a line that says so. */
#ifndef SRV_LOG_H
#define SRV_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_log srv_log;

/* What a line tells. Never payloads, raw paths or query strings. */
typedef struct srv_log_entry {
    const char *id, *method, *route, *client; /* all of them safe to print inside quotes */
    const char *trace, *span, *parent;        /* of the W3C trace context, or "" */
    const char *key;                          /* name of the API key, or "" */
    int status;                               /* 499: the client left */
    uint64_t bytes_in, bytes_out;
    int64_t total_ns, queue_ns, decode_ns, compute_ns, encode_ns;
} srv_log_entry;

/* `on` false: srv_log_request does nothing. NULL: out of memory or threads. */
srv_log *srv_log_new(bool on);
void srv_log_free(srv_log *log); /* writes what is left; NULL is fine */

/* Any thread. */
void srv_log_request(srv_log *log, const srv_log_entry *entry);
/* A line about the service itself: {"time":…,"event":"…"}, with at most 512 bytes of text.
 * Any thread. */
void srv_log_event(srv_log *log, const char *event);

#endif
