/* W3C Trace Context, level 1: which trace a request belongs to. A service that calls nobody takes
 * part by a span of its own, which goes to the log and back to the client. A header with any defect
 * starts a new trace and never fails the request. */
#ifndef SRV_TRACE_H
#define SRV_TRACE_H

#include <stdbool.h>
#include <stdint.h>

enum { SRV_TRACE_TEXT = 55 }; /* bytes of a traceparent of version 00 */

typedef struct srv_trace {
    char id[33];     /* trace-id, 32 lower-case hexadecimal digits */
    char parent[17]; /* the caller's span; "" for a new trace */
    char span[17];   /* ours */
    bool sampled;    /* the caller records this trace */
} srv_trace;

/* What follows from a traceparent header (NULL: none, or several), with random bits for what has to
 * be made up. */
void srv_trace_begin(srv_trace *trace, const char *header, const uint64_t random[3]);
/* The header to send on: NUL-terminated. */
void srv_trace_text(const srv_trace *trace, char text[SRV_TRACE_TEXT + 1]);

#endif
