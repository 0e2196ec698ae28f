/* The log has one JSON line for each request or event. A thread of its own writes the lines to
 * standard error, so that a slow reader of standard error delays neither requests nor the shutdown.
 * Lines that do not fit into the buffer are dropped; a later line reports their number.
 *
 * A line names the trace of its request (W3C Trace Context, level 1). The service adds a span of
 * its own to the trace, which stands in the log and in the reply. An invalid traceparent header
 * starts a new trace and never makes the request fail. */
#ifndef SRV_LOG_H
#define SRV_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_log srv_log;

/* The severity of a line. A request with status 500 is SRV_LOG_ERROR, with another 5xx
 * SRV_LOG_WARN, otherwise SRV_LOG_INFO. The order is that of the setting log_level. */
typedef enum srv_log_level { SRV_LOG_INFO, SRV_LOG_WARN, SRV_LOG_ERROR } srv_log_level;

enum { SRV_TRACE_TEXT = 55 }; /* bytes of a traceparent of version 00 */

typedef struct srv_trace {
    char id[33];     /* trace-id, 32 lower-case hexadecimal digits */
    char parent[17]; /* the caller's span; "" for a new trace */
    char span[17];   /* the span of this service */
    bool sampled;    /* the caller records this trace */
} srv_trace;

/* The contents of a request's line. It never has bodies, raw paths or query strings. */
typedef struct srv_log_entry {
    const char *id, *method, *route, *client; /* texts that are safe to print inside quotes */
    const srv_trace *trace;                   /* its texts are "" before the header was read */
    const char *key;                          /* name of the API key, or "" */
    const char *code;                         /* code of a problem, such as "queue_full", or "" */
    int status;                               /* 499: the client left */
    uint64_t bytes_in, bytes_out;
    int64_t total_ns, queue_ns, decode_ns, compute_ns, encode_ns;
} srv_log_entry;

/* Makes a log that leaves out lines below the level `least`, and all lines if `on` is false. NULL:
 * out of memory, or no thread could be started. */
srv_log *srv_log_new(bool on, srv_log_level least);
/* Writes the remaining lines, for at most a second, and frees the log. NULL is fine. */
void srv_log_free(srv_log *log);

/* Writes the line of a request. Any thread. */
void srv_log_request(srv_log *log, const srv_log_entry *entry);
/* Writes a line about the service itself: {"time":…,"level":…,"event":"…"}, with at most 512 bytes
 * of text. If `log` is NULL, writes "attnd: …" to standard error. Any thread. */
void srv_log_event(srv_log *log, srv_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Returns the number of lines that were dropped so far. */
uint64_t srv_log_dropped(const srv_log *log);

/* Begins the trace of a request from its traceparent header; NULL: it has none, or several. New ids
 * are made from the random bits. */
void srv_trace_begin(srv_trace *trace, const char *header, const uint64_t random[3]);
/* Writes the traceparent header of the reply, with a NUL at its end. */
void srv_trace_text(const srv_trace *trace, char text[SRV_TRACE_TEXT + 1]);

#endif
