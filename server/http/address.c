/* Sockets by hand: libmicrohttpd gets the listening one ready made, which also lets unix sockets
 * in. */
#include "http/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static bool parse_unix(const char *path, srv_address *out) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof un.sun_path)
        return false;
    strcpy(un.sun_path, path);
    memcpy(&out->storage, &un, sizeof un);
    out->size = sizeof un;
    return true;
}

bool srv_address_parse(const char *text, srv_address *out) {
    *out = (srv_address){.size = 0};
    if (!strncmp(text, "unix:", 5))
        return parse_unix(text + 5, out);
    const char *colon = strrchr(text, ':');
    char host[256];
    size_t length = colon ? (size_t)(colon - text) : 0;
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    if (!colon || length >= sizeof host || !digits || digits > 5 || colon[1 + digits] ||
        atoi(colon + 1) > 65535)
        return false;
    memcpy(host, text, length);
    host[length] = 0;
    char *name = host;
    bool brackets = *host == '[';
    if (brackets) {
        if (host[length - 1] != ']')
            return false;
        host[length - 1] = 0;
        name++;
    }
    struct addrinfo hints = {.ai_family = brackets ? AF_INET6 : AF_INET,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | (brackets ? AI_NUMERICHOST : 0)};
    struct addrinfo *found = NULL;
    if (getaddrinfo(*name ? name : NULL, colon + 1, &hints, &found))
        return false;
    memcpy(&out->storage, found->ai_addr, found->ai_addrlen);
    out->size = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

void srv_address_set_port(srv_address *a, unsigned port) {
    if (a->storage.ss_family == AF_INET)
        ((struct sockaddr_in *)&a->storage)->sin_port = htons((uint16_t)port);
    else if (a->storage.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&a->storage)->sin6_port = htons((uint16_t)port);
}

const char *srv_address_path(const srv_address *a) {
    return a->storage.ss_family == AF_UNIX ? ((const struct sockaddr_un *)&a->storage)->sun_path
                                           : NULL;
}

static int connect_to(const srv_address *a) {
    int fd = socket(a->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&a->storage, a->size)) {
        int failed = errno;
        close(fd);
        errno = failed;
        return -1;
    }
    return fd;
}

/* A socket file that nobody listens on any more stands in the way of bind. */
static void remove_stale(const srv_address *a) {
    struct stat info;
    const char *path = srv_address_path(a);
    if (!path || stat(path, &info) || !S_ISSOCK(info.st_mode))
        return;
    int fd = connect_to(a);
    if (fd >= 0)
        close(fd);
    else if (errno == ECONNREFUSED)
        unlink(path);
}

int srv_address_listen(srv_address *a, int *out) {
    int yes = 1;
    remove_stale(a);
    int fd = socket(a->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    if (a->storage.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (a->storage.ss_family != AF_UNIX)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (struct sockaddr *)&a->storage, a->size) || listen(fd, SOMAXCONN)) {
        int failed = errno;
        close(fd);
        return failed;
    }
    if (a->storage.ss_family != AF_UNIX) {
        socklen_t size = sizeof a->storage;
        if (!getsockname(fd, (struct sockaddr *)&a->storage, &size))
            a->size = size;
    }
    *out = fd;
    return 0;
}

bool srv_address_healthy(const srv_address *a, int timeout_ms) {
    static const char ask[] =
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    struct timeval limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    char answer[64] = "";
    size_t got = 0;
    int fd = socket(a->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* also bounds connect */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    bool ok = !connect(fd, (const struct sockaddr *)&a->storage, a->size) &&
              send(fd, ask, sizeof ask - 1, MSG_NOSIGNAL) == (ssize_t)sizeof ask - 1;
    while (ok && got < 12) {
        ssize_t n = recv(fd, answer + got, sizeof answer - 1 - got, 0);
        ok = n > 0;
        got += ok ? (size_t)n : 0;
    }
    close(fd);
    return ok && !strncmp(answer + 8, " 200", 4);
}

void srv_address_host(const struct sockaddr *a, char *text, size_t size) {
    const char *done = NULL;
    if (a && a->sa_family == AF_INET)
        done =
            inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr, text, (socklen_t)size);
    else if (a && a->sa_family == AF_INET6)
        done = inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)a)->sin6_addr, text,
                         (socklen_t)size);
    if (!done)
        snprintf(text, size, "unix");
}

void srv_address_url(const srv_address *a, char *text, size_t size) {
    char host[INET6_ADDRSTRLEN];
    const struct sockaddr *any = (const struct sockaddr *)&a->storage;
    srv_address_host(any, host, sizeof host);
    if (a->storage.ss_family == AF_INET)
        snprintf(text, size, "http://%s:%u", host,
                 ntohs(((const struct sockaddr_in *)&a->storage)->sin_port));
    else if (a->storage.ss_family == AF_INET6)
        snprintf(text, size, "http://[%s]:%u", host,
                 ntohs(((const struct sockaddr_in6 *)&a->storage)->sin6_port));
    else
        snprintf(text, size, "unix:%s", srv_address_path(a));
}
