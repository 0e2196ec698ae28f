/* Parses and formats addresses, and creates listening sockets. libmicrohttpd gets a finished socket
 * because it cannot create unix sockets. */
#include "http/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/client.h"

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
    if (!*name)
        return false;
    out->every = !strcmp(host, "*");
    if (out->every)
        *host = 0;
    struct addrinfo hints = {.ai_family = brackets ? AF_INET6 : AF_INET,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | (brackets ? AI_NUMERICHOST : 0)};
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(*name ? name : NULL, colon + 1, &hints, &found);
    if (failed) {
        errno = failed == EAI_MEMORY ? ENOMEM : failed == EAI_SYSTEM ? errno : 0;
        return false;
    }
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

/* Removes the file of a unix socket if no process listens on it. An ended process has left the file
 * behind, and it would make bind() fail. */
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

/* Replaces the wildcard address of IPv4 by that of IPv6. A socket on the latter accepts both IPv6
 * and IPv4 connections. */
static void widen(srv_address *a) {
    struct sockaddr_in6 all = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    all.sin6_port = ((const struct sockaddr_in *)&a->storage)->sin_port;
    memcpy(&a->storage, &all, sizeof all);
    a->size = sizeof all;
}

/* Selects the congestion control "reno", which sends packets at once. BBR, the default on some
 * machines, spreads packets over time by a timer, which is useless on the loopback because it loses
 * no packets. Connections inherit this option from the listening socket. */
static void leave_unpaced(int fd) {
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", sizeof "reno" - 1);
}

/* Gives the file of a unix socket the group and the mode of the settings, which say who may
 * connect. Nobody can connect before listen(). Returns 0 or an errno value. */
static int open_to(const char *path, const srv_config *config) {
    if ((config->socket_gid >= 0 && chown(path, (uid_t)-1, (gid_t)config->socket_gid)) ||
        (config->socket_bits >= 0 && chmod(path, (mode_t)config->socket_bits))) {
        const int failed = errno;
        unlink(path);
        return failed;
    }
    return 0;
}

static int listen_on(srv_address *a, const srv_config *config, int *out) {
    int yes = 1, only = !a->every;
    int fd = socket(a->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    if (a->storage.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    if (a->storage.ss_family != AF_UNIX)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (a->storage.ss_family != AF_UNIX && srv_address_is_local(a))
        leave_unpaced(fd);
    const char *path = srv_address_path(a);
    int failed = bind(fd, (struct sockaddr *)&a->storage, a->size) ? errno : 0;
    if (!failed && path)
        failed = open_to(path, config);
    if (!failed && listen(fd, SOMAXCONN))
        failed = errno;
    if (failed) {
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

int srv_address_listen(srv_address *a, const srv_config *config, int *out) {
    const srv_address asked = *a;
    remove_stale(a);
    if (a->every)
        widen(a);
    int failed = listen_on(a, config, out);
    if (!asked.every || (failed != EAFNOSUPPORT && failed != EADDRNOTAVAIL))
        return failed;
    *a = asked; /* the machine or container has no IPv6 */
    return listen_on(a, config, out);
}

bool srv_address_is_local(const srv_address *a) {
    if (a->storage.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)&a->storage)->sin_addr.s_addr) >> 24 == 127;
    return a->storage.ss_family == AF_UNIX ||
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&a->storage)->sin6_addr);
}

void srv_address_url(const srv_address *a, const char *scheme, char *text, size_t size) {
    char host[SRV_CLIENT_TEXT];
    srv_client_address((const struct sockaddr *)&a->storage, host);
    if (a->storage.ss_family == AF_INET)
        snprintf(text, size, "%s://%s:%u", scheme, host,
                 ntohs(((const struct sockaddr_in *)&a->storage)->sin_port));
    else if (a->storage.ss_family == AF_INET6)
        snprintf(text, size, "%s://[%s]:%u", scheme, host,
                 ntohs(((const struct sockaddr_in6 *)&a->storage)->sin6_port));
    else
        snprintf(text, size, "unix:%s", srv_address_path(a));
}
