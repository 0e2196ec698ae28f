/* A minimal HTTP client, so that the health check of a container needs no other program than attnd.
 */
#include "http/health.h"

#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "http/tls.h"

/* Sends the request `ask` and receives up to `room` bytes. Returns the number of received bytes; 0:
 * a failure. */
static size_t ask_plainly(int fd, const char *ask, size_t size, char *answer, size_t room) {
    size_t got = 0;
    if (send(fd, ask, size, MSG_NOSIGNAL) != (ssize_t)size)
        return 0;
    while (got < room) {
        ssize_t n = recv(fd, answer + got, room - got, 0);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

bool srv_health_ask(const srv_address *a, bool tls, int timeout_ms) {
    static const char ask[] =
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    enum { STATUS_LINE = 12 }; /* "HTTP/1.1 200" */
    struct timeval limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    char answer[STATUS_LINE + 1] = "";
    size_t got = 0;
    /* If the service listens on all addresses ("*"), *a is 0.0.0.0. A connection to this address
     * reaches the loopback. */
    int fd = socket(a->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* also bounds connect() */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (!connect(fd, (const struct sockaddr *)&a->storage, a->size))
        got = (tls ? srv_tls_ask : ask_plainly)(fd, ask, sizeof ask - 1, answer, STATUS_LINE);
    close(fd);
    return got == STATUS_LINE && !strncmp(answer + 8, " 200", 4);
}
