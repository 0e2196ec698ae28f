/* Two buffers: callers append to one under the lock while the writer thread empties the other. */
#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "line.h"
#include "wire/escape.h"

enum { BUFFER = 512 * 1024, LINE_MOST = 1024, EVENT_MOST = 512, FLUSH_MS = 100 };

struct srv_log {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool on, started, closing;
    char *filling, *writing;
    size_t filled, dropped;
    time_t second;  /* whose text is in `stamp` */
    char stamp[24]; /* "2026-01-31T12:00:00." */
};

/* {"time":"2026-01-31T12:00:00.123Z" ; under the lock, for the text of the second is shared. */
static char *put_time(srv_log *log, char *p) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != log->second || !*log->stamp) {
        struct tm parts;
        gmtime_r(&now.tv_sec, &parts);
        strftime(log->stamp, sizeof log->stamp, "%Y-%m-%dT%H:%M:%S.", &parts);
        log->second = now.tv_sec;
    }
    long ms = now.tv_nsec / 1000000;
    p = srv_put(srv_put(p, "{\"time\":\""), log->stamp);
    *p++ = (char)('0' + ms / 100);
    *p++ = (char)('0' + ms / 10 % 10);
    *p++ = (char)('0' + ms % 10);
    return srv_put(p, "Z\"");
}

static void write_all(const char *data, size_t size) {
    while (size) {
        ssize_t n = write(STDERR_FILENO, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return; /* nobody reads the log: there is nowhere to say so */
        data += n;
        size -= (size_t)n;
    }
}

static void *writer(void *argument) {
    srv_log *log = argument;
    pthread_mutex_lock(&log->lock);
    while (!log->closing || log->filled) {
        if (!log->filled) {
            pthread_cond_wait(&log->wake, &log->lock);
            continue;
        }
        if (!log->closing) { /* let a batch gather */
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += FLUSH_MS * 1000000L;
            until.tv_sec += until.tv_nsec / 1000000000L;
            until.tv_nsec %= 1000000000L;
            while (!log->closing && log->filled < BUFFER / 2 &&
                   !pthread_cond_timedwait(&log->wake, &log->lock, &until))
                ;
        }
        char *full = log->filling;
        size_t size = log->filled, dropped = log->dropped;
        log->filling = log->writing;
        log->writing = full;
        log->filled = log->dropped = 0;
        pthread_mutex_unlock(&log->lock);
        write_all(full, size);
        if (dropped) {
            char line[64];
            int n = snprintf(line, sizeof line, "{\"event\":\"log lines dropped\",\"count\":%zu}\n",
                             dropped);
            write_all(line, (size_t)n);
        }
        pthread_mutex_lock(&log->lock);
    }
    pthread_mutex_unlock(&log->lock);
    return NULL;
}

srv_log *srv_log_new(bool on) {
    srv_log *log = calloc(1, sizeof *log);
    if (!log)
        return NULL;
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->wake, NULL);
    log->on = on;
    log->filling = malloc(BUFFER);
    log->writing = malloc(BUFFER);
    log->started = log->filling && log->writing && !pthread_create(&log->thread, NULL, writer, log);
    if (!log->started) {
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

/* Append a finished line; under the lock. */
static void append(srv_log *log, const char *line, size_t size) {
    if (log->filled + size > BUFFER) {
        log->dropped++;
        return;
    }
    memcpy(log->filling + log->filled, line, size);
    bool first = log->filled == 0;
    log->filled += size;
    if (first || (log->filled >= BUFFER / 2 && log->filled - size < BUFFER / 2))
        pthread_cond_signal(&log->wake);
}

void srv_log_request(srv_log *log, const srv_log_entry *e) {
    if (!log->on)
        return;
    char line[LINE_MOST];
    pthread_mutex_lock(&log->lock);
    char *p = put_time(log, line);
    /* Lengths: an id has at most 128 bytes, a client 108, a key's name 64; methods and routes are
     * our own texts. */
    p = srv_put(srv_put(p, ",\"id\":\""), e->id);
    if (*e->trace)
        p = srv_put(
            srv_put(srv_put(srv_put(p, "\",\"trace_id\":\""), e->trace), "\",\"span_id\":\""),
            e->span);
    if (*e->parent)
        p = srv_put(srv_put(p, "\",\"parent_id\":\""), e->parent);
    p = srv_put(srv_put(p, "\",\"method\":\""), e->method);
    p = srv_put(srv_put(p, "\",\"route\":\""), e->route);
    p = srv_put_number(srv_put(p, "\",\"status\":"), (uint64_t)e->status);
    p = srv_put_number(srv_put(p, ",\"bytes_in\":"), e->bytes_in);
    p = srv_put_number(srv_put(p, ",\"bytes_out\":"), e->bytes_out);
    p = srv_put_ms(srv_put(p, ",\"ms\":"), e->total_ns);
    p = srv_put_ms(srv_put(p, ",\"queue_ms\":"), e->queue_ns);
    p = srv_put_ms(srv_put(p, ",\"decode_ms\":"), e->decode_ns);
    p = srv_put_ms(srv_put(p, ",\"compute_ms\":"), e->compute_ns);
    p = srv_put_ms(srv_put(p, ",\"encode_ms\":"), e->encode_ns);
    p = srv_put(srv_put(p, ",\"client\":\""), e->client);
    if (*e->key)
        p = srv_put(srv_put(p, "\",\"key\":\""), e->key);
    p = srv_put(p, "\"}\n");
    append(log, line, (size_t)(p - line));
    pthread_mutex_unlock(&log->lock);
}

void srv_log_event(srv_log *log, const char *event) {
    if (!log->on)
        return;
    char line[64 + SRV_ESCAPE_MOST * EVENT_MOST];
    pthread_mutex_lock(&log->lock);
    char *p = srv_put(put_time(log, line), ",\"event\":\"");
    p = srv_put(srv_escape(p, event, strnlen(event, EVENT_MOST)), "\"}\n");
    append(log, line, (size_t)(p - line));
    pthread_mutex_unlock(&log->lock);
}
