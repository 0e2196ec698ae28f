/* The log: one line of JSON for each request and each event, on standard error. Callers only append
 * the line to a buffer. A thread of the log writes the buffer, so a slow reader of standard error
 * delays neither requests nor the shutdown. Lines that do not fit into the buffer are dropped, and
 * a later line reports how many.
 *
 * The log supports distributed tracing (W3C Trace Context, level 1). The client names its trace and
 * its own span in the header traceparent. The service makes a new span for each request, and names
 * it in the line of the log and in the header traceparent of the reply. Without a valid header the
 * service starts a new trace. */
#ifndef SRV_LOG_H
#define SRV_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_log srv_log;

/* The severity of a line, in the order of the choices of the setting log_level. The line of a
 * request is SRV_LOG_ERROR for status 500, SRV_LOG_WARN for 501 and above, and otherwise
 * SRV_LOG_INFO. */
typedef enum srv_log_level { SRV_LOG_INFO, SRV_LOG_WARN, SRV_LOG_ERROR } srv_log_level;

enum { SRV_TRACE_TEXT = 55 }; /* length of a traceparent header of version 00, without the NUL */

typedef struct srv_trace {
    char id[33];     /* id of the trace, 32 lower-case hexadecimal digits */
    char parent[17]; /* id of the client's span, 16 digits; "": this service began the trace */
    char span[17];   /* id of this service's span, 16 digits */
    bool sampled;    /* the client's header says that it records this trace */
} srv_trace;

/* The contents of a request's line. Bodies, raw paths and query strings are never logged. */
typedef struct srv_log_entry {
    const char *id, *method, *route, *client; /* texts that need no JSON escapes */
    const srv_trace *trace; /* all texts are "" if the request failed before its header was read */
    const char *key;        /* name of the API key; "": none */
    const char *code;       /* code of a problem, such as "queue_full"; "": no problem */
    int status;             /* HTTP status; 499: the client left before the reply */
    uint64_t bytes_in, bytes_out; /* sizes of the bodies of request and reply */
    int64_t total_ns, queue_ns, decode_ns, compute_ns, encode_ns; /* durations */
} srv_log_entry;

/* Makes a log that writes the lines of level `least` and above, or no lines if `on` is false. NULL:
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
/* A member of an event's line: a text of at most 256 bytes, or the number if `text` is NULL. */
typedef struct srv_log_field {
    const char *name; /* needs no JSON escapes; NULL ends a list */
    const char *text;
    uint64_t number;
} srv_log_field;
enum { SRV_LOG_FIELDS = 8 }; /* largest number of fields of an event */
/* Writes a line about an event that other programs search for. `name` must never change:
 * {"time":…,"level":"info","event":"NAME",…}. Any thread. */
void srv_log_named(srv_log *log, const char *name, const srv_log_field *fields);
/* Returns the number of lines that were dropped so far. */
uint64_t srv_log_dropped(const srv_log *log);

/* Fills `trace` for a request with the given traceparent header. NULL: the request has no such
 * header, or several. The ids of the new span and, if needed, of a new trace are made from
 * `random`. */
void srv_trace_begin(srv_trace *trace, const char *header, const uint64_t random[3]);
/* Writes the traceparent header of the reply, with a NUL at its end. */
void srv_trace_text(const srv_trace *trace, char text[SRV_TRACE_TEXT + 1]);

#endif
