/* A minimal HTTP client, so that the health check of a container needs no other program than attnd.
 */
#include "http/health.h"

#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "attn/pool.h"
#include "http/tls.h"

/* Sends the request `ask` and receives up to `room` bytes, until the time `by_ns`. Returns the
 * number of received bytes; 0: a failure. */
static size_t ask_plainly(int fd, const char *ask, size_t size, char *answer, size_t room,
                          int64_t by_ns) {
    size_t got = 0;
    if (send(fd, ask, size, MSG_NOSIGNAL) != (ssize_t)size)
        return 0;
    while (got < room && attn_now_ns() < by_ns) {
        ssize_t n = recv(fd, answer + got, room - got, 0);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

/* Sends GET `path` and receives at most the first `room` bytes of the answer. Returns how many
 * bytes were received. */
static size_t get(const srv_address *a, bool tls, int timeout_ms, const char *path, char *answer,
                  size_t room) {
    struct timeval limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    char ask[128];
    size_t got = 0;
    const int size = snprintf(
        ask, sizeof ask, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    /* If the service listens on all addresses ("*"), *a is 0.0.0.0. A connection to this address
     * reaches the loopback. */
    int fd = socket(a->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* also bounds connect() */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (!connect(fd, (const struct sockaddr *)&a->storage, a->size))
        got = (tls ? srv_tls_ask : ask_plainly)(fd, ask, (size_t)size, answer, room,
                                                attn_now_ns() + timeout_ms * INT64_C(1000000));
    close(fd);
    return got;
}

bool srv_health_ask(const srv_address *a, bool tls, int timeout_ms) {
    enum { STATUS_LINE = 12 }; /* "HTTP/1.1 200" */
    char answer[STATUS_LINE + 1] = "";
    return get(a, tls, timeout_ms, "/healthz", answer, STATUS_LINE) == STATUS_LINE &&
           !strncmp(answer + 8, " 200", 4);
}

void srv_health_who(const srv_address *a, bool tls, int timeout_ms, char *who, size_t size) {
    static const char begin[] = "{\"name\":\"attnd\",\"version\":\"";
    char answer[2048]; /* the heads of attnd's answers have about 600 bytes */
    answer[get(a, tls, timeout_ms, "/version", answer, sizeof answer - 1)] = 0;
    const char *version = strstr(answer, begin);
    *who = 0;
    if (version) {
        version += sizeof begin - 1;
        snprintf(who, size, "attnd %.*s",
                 (int)strspn(version, "0123456789.+~-abcdefghijklmnopqrstuvwxyz"), version);
    } else if (strstr(answer, "realm=\"attnd\"")) {
        snprintf(who, size, "attnd");
    }
}
