/* Addresses to listen on and to ask: "127.0.0.1:8080", "[::1]:8080", "localhost:8080", ":8080" (all
 * IPv4 addresses), "*:8080" (all IPv6 and IPv4 addresses, IPv4 alone where there is no IPv6),
 * "unix:/path". */
#ifndef SRV_ADDRESS_H
#define SRV_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

typedef struct srv_address {
    struct sockaddr_storage storage;
    socklen_t size;
    bool every; /* "*": to ask it, go through the loopback */
} srv_address;

/* false: no such address; errno is ENOMEM when there was no memory to look. */
bool srv_address_parse(const char *text, srv_address *out);
void srv_address_set_port(srv_address *a, unsigned port); /* nothing for unix sockets */
const char *srv_address_path(const srv_address *a);       /* of a unix socket, else NULL */

/* A listening socket, and *a becomes what it is bound to. 0 or an errno value. */
int srv_address_listen(srv_address *a, int *fd);

/* scheme "http": "http://127.0.0.1:8080", "http://[::1]:8080"; "unix:/path" with any. */
void srv_address_url(const srv_address *a, const char *scheme, char *text, size_t size);
/* "127.0.0.1", "::1", "unix". */
void srv_address_host(const struct sockaddr *a, char *text, size_t size);

/* Loopback or a unix socket. */
bool srv_address_is_local(const srv_address *a);

#endif
