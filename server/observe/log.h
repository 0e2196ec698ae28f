/* The log: one JSON line a request or event on standard error, written by a thread of its own so
 * that a slow reader of standard error never holds up the service, nor its end. Lines beyond the
 * buffer are dropped and counted in a line that says so.
 *
 * A line names the trace that its request belongs to (W3C Trace Context, level 1). A service that
 * calls nobody takes part by a span of its own, which goes to the log and back to the client. A
 * header with any defect starts a new trace and never fails the request. */
#ifndef SRV_LOG_H
#define SRV_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_log srv_log;

/* How grave a line is. Requests are SRV_LOG_INFO; those that ended with a 5xx are SRV_LOG_WARN,
 * with a 500 SRV_LOG_ERROR. The order is that of the setting log_level. */
typedef enum srv_log_level { SRV_LOG_INFO, SRV_LOG_WARN, SRV_LOG_ERROR } srv_log_level;

enum { SRV_TRACE_TEXT = 55 }; /* bytes of a traceparent of version 00 */

typedef struct srv_trace {
    char id[33];     /* trace-id, 32 lower-case hexadecimal digits */
    char parent[17]; /* the caller's span; "" for a new trace */
    char span[17];   /* the span of this service */
    bool sampled;    /* the caller records this trace */
} srv_trace;

/* What a line tells. Never payloads, raw paths or query strings. */
typedef struct srv_log_entry {
    const char *id, *method, *route, *client; /* all of them safe to print inside quotes */
    const srv_trace *trace;                   /* all of it "" before the header is read */
    const char *key;                          /* name of the API key, or "" */
    const char *code;                         /* of a problem: "queue_full"; or "" */
    int status;                               /* 499: the client left */
    uint64_t bytes_in, bytes_out;
    int64_t total_ns, queue_ns, decode_ns, compute_ns, encode_ns;
} srv_log_entry;

/* Lines below `least` are left out, and every line if `on` is false. NULL: there is no memory, or
 * no thread could be started. */
srv_log *srv_log_new(bool on, srv_log_level least);
/* Writes the lines that are left, for at most a second. NULL is fine. */
void srv_log_free(srv_log *log);

/* Write the line of a request. Any thread. */
void srv_log_request(srv_log *log, const srv_log_entry *entry);
/* A line about the service itself: {"time":…,"level":…,"event":"…"}, with at most 512 bytes of
 * text; without a log "attnd: …" on standard error. Any thread. */
void srv_log_event(srv_log *log, srv_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Lines that were dropped so far. */
uint64_t srv_log_dropped(const srv_log *log);

/* Begin a trace from a traceparent header (NULL: none, or several), with random bits for new ids.
 */
void srv_trace_begin(srv_trace *trace, const char *header, const uint64_t random[3]);
/* The traceparent header of the reply, NUL-terminated. */
void srv_trace_text(const srv_trace *trace, char text[SRV_TRACE_TEXT + 1]);

#endif
