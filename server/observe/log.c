/* The log has two buffers. Callers append lines to one buffer under the lock while the writer
 * thread writes the other one to standard error. */
#include "observe/log.h"

#include <attn/attn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "number/digits.h"
#include "number/print_small.h"
#include "system/condition.h"

enum {
    BUFFER = 512 * 1024, /* size of each of the two buffers in bytes */
    LINE_MOST = 1024,    /* bound of a request's line in bytes */
    EVENT_MOST = 512,    /* bound of an event's text in bytes */
    FIELD_MOST = 256,    /* bound of the text of an event's field in bytes */
    FLUSH_MS = 100,      /* the writer waits this long for more lines to write at once */
    POLL_MS = 50,        /* a blocked writer checks this often whether the log is being closed */
};
#define CLOSE_NS 1000000000 /* time that srv_log_free gives the writer for the remaining lines */

static const char *const level_names[] = {
    [SRV_LOG_INFO] = "info", [SRV_LOG_WARN] = "warn", [SRV_LOG_ERROR] = "error"};

struct srv_log {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* the buffer has its first line or is half full, or the log closes */
    pthread_t thread;    /* the writer */
    bool on, started, closing;
    srv_log_level least;
    _Atomic int64_t close_by_ns; /* the writer gives up at this time; 0: it never does */
    char *filling, *writing;     /* callers append to `filling`; the writer writes `writing` */
    size_t filled;               /* bytes in `filling` */
    size_t dropped;              /* lines dropped since the buffers were last exchanged */
    atomic_uint_fast64_t dropped_ever;
    time_t second;  /* the time of `stamp`, in seconds since 1970 */
    char stamp[24]; /* "2026-01-31T12:00:00.", formatted once for each second */
};

/* Writes the start of a line, {"time":"2026-01-31T12:00:00.123Z","level":"info", to p and returns
 * the end of it. The caller has the lock, because log->stamp may change. */
static char *put_line_start(srv_log *log, srv_log_level level, char *p) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != log->second || !*log->stamp) {
        struct tm parts;
        gmtime_r(&now.tv_sec, &parts);
        strftime(log->stamp, sizeof log->stamp, "%Y-%m-%dT%H:%M:%S.", &parts);
        log->second = now.tv_sec;
    }
    long ms = now.tv_nsec / 1000000;
    p = attn_put(attn_put(p, "{\"time\":\""), log->stamp);
    *p++ = (char)('0' + ms / 100);
    *p++ = (char)('0' + ms / 10 % 10);
    *p++ = (char)('0' + ms % 10);
    p = attn_put(attn_put(p, "Z\",\"level\":\""), level_names[level]);
    return attn_put(p, "\"");
}

/* The bytes of one write(). A pipe that poll() reports as ready takes this many without blocking
 * (PIPE_BUF). */
#define AT_ONCE (size_t)4096

/* Writes to standard error, on the writer thread. While the service runs, waits for a slow reader
 * without a limit. During the shutdown, waits until `close_by_ns` and then drops the rest. */
static void write_all(srv_log *log, const char *data, size_t size) {
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    while (size) {
        int64_t by = atomic_load(&log->close_by_ns);
        if (by && attn_now_ns() > by)
            return;
        if (poll(&out, 1, POLL_MS) <= 0)
            continue;
        ssize_t n = write(STDERR_FILENO, data, size < AT_ONCE ? size : AT_ONCE);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return; /* standard error has failed, so the failure cannot be reported */
        data += n;
        size -= (size_t)n;
    }
}

/* Waits until the buffer is half full, FLUSH_MS have passed or the log closes. The caller has the
 * lock. */
static void wait_for_more_lines(srv_log *log) {
    const int64_t until = attn_now_ns() + FLUSH_MS * 1000000;
    while (!log->closing && log->filled < BUFFER / 2 &&
           srv_condition_wait(&log->wake, &log->lock, until))
        ;
}

static void write_dropped_count(srv_log *log, size_t dropped) {
    char line[160];
    pthread_mutex_lock(&log->lock);
    char *p = attn_put(put_line_start(log, SRV_LOG_WARN, line), ",\"event\":\"");
    pthread_mutex_unlock(&log->lock);
    p = attn_put(attn_put_number(p, dropped), " log lines dropped\"}\n");
    write_all(log, line, (size_t)(p - line));
}

static void *writer(void *argument) {
    srv_log *log = argument;
    pthread_mutex_lock(&log->lock);
    while (!log->closing || log->filled) {
        if (!log->filled) {
            pthread_cond_wait(&log->wake, &log->lock);
            continue;
        }
        wait_for_more_lines(log);
        char *full = log->filling;
        size_t size = log->filled, dropped = log->dropped;
        log->filling = log->writing;
        log->writing = full;
        log->filled = log->dropped = 0;
        pthread_mutex_unlock(&log->lock);
        write_all(log, full, size);
        if (dropped)
            write_dropped_count(log, dropped);
        pthread_mutex_lock(&log->lock);
    }
    pthread_mutex_unlock(&log->lock);
    return NULL;
}

srv_log *srv_log_new(bool on, srv_log_level least) {
    srv_log *log = calloc(1, sizeof *log);
    if (!log)
        return NULL;
    pthread_mutex_init(&log->lock, NULL);
    if (!srv_condition_init(&log->wake)) {
        free(log);
        return NULL;
    }
    log->on = on;
    log->least = least;
    log->filling = malloc(BUFFER);
    log->writing = malloc(BUFFER);
    log->started =
        on && log->filling && log->writing && !pthread_create(&log->thread, NULL, writer, log);
    if (on && !log->started) {
        srv_log_free(log);
        return NULL;
    }
    return log;
}

void srv_log_free(srv_log *log) {
    if (!log)
        return;
    if (log->started) {
        pthread_mutex_lock(&log->lock);
        atomic_store(&log->close_by_ns, attn_now_ns() + CLOSE_NS);
        log->closing = true;
        pthread_cond_signal(&log->wake);
        pthread_mutex_unlock(&log->lock);
        pthread_join(log->thread, NULL);
    }
    pthread_cond_destroy(&log->wake);
    pthread_mutex_destroy(&log->lock);
    free(log->filling);
    free(log->writing);
    free(log);
}

/* Appends a finished line to the buffer, or drops it if the buffer is full. The caller has the
 * lock. */
static void append_line(srv_log *log, const char *line, size_t size) {
    if (log->filled + size > BUFFER) {
        log->dropped++;
        atomic_fetch_add_explicit(&log->dropped_ever, 1, memory_order_relaxed);
        return;
    }
    memcpy(log->filling + log->filled, line, size);
    bool first = log->filled == 0;
    log->filled += size;
    if (first || (log->filled >= BUFFER / 2 && log->filled - size < BUFFER / 2))
        pthread_cond_signal(&log->wake);
}

static srv_log_level level_of_status(int status) {
    return status == 500 ? SRV_LOG_ERROR : status > 500 ? SRV_LOG_WARN : SRV_LOG_INFO;
}

void srv_log_request(srv_log *log, const srv_log_entry *e) {
    const srv_log_level level = level_of_status(e->status);
    if (!log->on || level < log->least)
        return;
    char line[LINE_MOST];
    pthread_mutex_lock(&log->lock);
    char *p = put_line_start(log, level, line);
    /* The line fits into LINE_MOST, because an id has at most 128 bytes, a client's address 108 and
     * a key's name 64. The names of methods and routes are constants of this program. */
    p = attn_put(attn_put(p, ",\"id\":\""), e->id);
    if (*e->trace->id) {
        p = attn_put(attn_put(p, "\",\"trace_id\":\""), e->trace->id);
        p = attn_put(attn_put(p, "\",\"span_id\":\""), e->trace->span);
    }
    if (*e->trace->parent)
        p = attn_put(attn_put(p, "\",\"parent_id\":\""), e->trace->parent);
    p = attn_put(attn_put(p, "\",\"method\":\""), e->method);
    p = attn_put(attn_put(p, "\",\"route\":\""), e->route);
    p = attn_put_number(attn_put(p, "\",\"status\":"), (uint64_t)e->status);
    if (*e->code)
        p = attn_put(attn_put(attn_put(p, ",\"code\":\""), e->code), "\"");
    p = attn_put_number(attn_put(p, ",\"bytes_in\":"), e->bytes_in);
    p = attn_put_number(attn_put(p, ",\"bytes_out\":"), e->bytes_out);
    p = attn_put_ms(attn_put(p, ",\"ms\":"), e->total_ns);
    p = attn_put_ms(attn_put(p, ",\"queue_ms\":"), e->queue_ns);
    p = attn_put_ms(attn_put(p, ",\"decode_ms\":"), e->decode_ns);
    p = attn_put_ms(attn_put(p, ",\"compute_ms\":"), e->compute_ns);
    p = attn_put_ms(attn_put(p, ",\"encode_ms\":"), e->encode_ns);
    p = attn_put(attn_put(p, ",\"client\":\""), e->client);
    if (*e->key)
        p = attn_put(attn_put(p, "\",\"key\":\""), e->key);
    p = attn_put(p, "\"}\n");
    append_line(log, line, (size_t)(p - line));
    pthread_mutex_unlock(&log->lock);
}

void srv_log_event(srv_log *log, srv_log_level level, const char *format, ...) {
    if (log && (!log->on || level < log->least))
        return;
    char event[EVENT_MOST], line[128 + ATTN_ESCAPE_MOST * EVENT_MOST];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(event, sizeof event, format, args);
    va_end(args);
    if (!log) {
        fprintf(stderr, "attnd: %s\n", size > 0 ? event : "");
        return;
    }
    pthread_mutex_lock(&log->lock);
    char *p = attn_put(put_line_start(log, level, line), ",\"event\":\"");
    p = attn_put(attn_escape(p, event, size > 0 ? strnlen(event, sizeof event) : 0), "\"}\n");
    append_line(log, line, (size_t)(p - line));
    pthread_mutex_unlock(&log->lock);
}

void srv_log_named(srv_log *log, const char *name, const srv_log_field *fields) {
    if (!log->on || log->least > SRV_LOG_INFO)
        return;
    /* the names and numbers of fields need fewer bytes than the longest text */
    char line[(1 + SRV_LOG_FIELDS) * ATTN_ESCAPE_MOST * FIELD_MOST];
    pthread_mutex_lock(&log->lock);
    char *p = attn_put(put_line_start(log, SRV_LOG_INFO, line), ",\"event\":\"");
    p = attn_put(attn_put(p, name), "\"");
    for (; fields->name; fields++) {
        p = attn_put(attn_put(attn_put(p, ",\""), fields->name), "\":");
        if (!fields->text)
            p = attn_put_number(p, fields->number);
        else
            p = attn_put(
                attn_escape(attn_put(p, "\""), fields->text, strnlen(fields->text, FIELD_MOST)),
                "\"");
    }
    p = attn_put(p, "}\n");
    append_line(log, line, (size_t)(p - line));
    pthread_mutex_unlock(&log->lock);
}

uint64_t srv_log_dropped(const srv_log *log) {
    return atomic_load_explicit(&log->dropped_ever, memory_order_relaxed);
}

/* --- traces ---
 *
 * The header traceparent is VERSION-TRACE_ID-PARENT_ID-FLAGS, which have 2, 32, 16 and 2
 * hexadecimal digits. */

enum { ID = 3, PARENT = 36, FLAGS = 53 }; /* offsets of these parts in the header */

/* Returns whether the text begins with `count` lower-case hexadecimal digits. */
static bool is_hex(const char *text, size_t count) {
    return strspn(text, "0123456789abcdef") >= count;
}

static bool is_zero(const char *text, size_t count) {
    return strspn(text, "0") >= count;
}

/* Returns whether a traceparent header is valid. A header of a version above 00 is read like
 * version 00. It may have further text after another "-". */
static bool is_valid(const char *text) {
    size_t size = strlen(text);
    while (size && (text[size - 1] == ' ' || text[size - 1] == '\t'))
        size--;
    if (size < SRV_TRACE_TEXT || !is_hex(text, 2) || !memcmp(text, "ff", 2))
        return false;
    bool first = !memcmp(text, "00", 2);
    if (first ? size > SRV_TRACE_TEXT : size > SRV_TRACE_TEXT && text[SRV_TRACE_TEXT] != '-')
        return false;
    return text[ID - 1] == '-' && is_hex(text + ID, 32) && !is_zero(text + ID, 32) &&
           text[PARENT - 1] == '-' && is_hex(text + PARENT, 16) && !is_zero(text + PARENT, 16) &&
           text[FLAGS - 1] == '-' && is_hex(text + FLAGS, 2);
}

/* Writes `bits` as 16 hexadecimal digits and a NUL. 0 becomes 1, because an id must not be zero. */
static void put_hex(char *to, uint64_t bits) {
    bits += bits == 0;
    *attn_put_hex(to, bits, 16) = 0;
}

void srv_trace_begin(srv_trace *trace, const char *header, const uint64_t random[3]) {
    *trace = (srv_trace){0};
    put_hex(trace->span, random[0]);
    if (header && is_valid(header)) {
        memcpy(trace->id, header + ID, 32);
        memcpy(trace->parent, header + PARENT, 16);
        trace->sampled = strchr("13579bdf", header[FLAGS + 1]);
        return;
    }
    put_hex(trace->id, random[1]);
    put_hex(trace->id + 16, random[2]);
}

void srv_trace_text(const srv_trace *trace, char text[SRV_TRACE_TEXT + 1]) {
    char *p = attn_put(attn_put(attn_put(text, "00-"), trace->id), "-");
    memcpy(attn_put(attn_put(p, trace->span), trace->sampled ? "-01" : "-00"), "", 1);
}
