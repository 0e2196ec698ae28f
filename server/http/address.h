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
    bool every; /* "*": a client connects to the loopback */
} srv_address;

/* Parses an address. false: it is invalid; errno is ENOMEM when memory ran out. */
bool srv_address_parse(const char *text, srv_address *out);
void srv_address_set_port(srv_address *a, unsigned port); /* unused for unix sockets */
const char *srv_address_path(const srv_address *a);       /* of a unix socket, else NULL */

/* Opens a listening socket and sets *a to its bound address. Returns 0 or an errno value. */
int srv_address_listen(srv_address *a, int *fd);

/* Writes the URL of the address: with scheme "http" "http://127.0.0.1:8080" or "http://[::1]:8080";
 * for unix sockets "unix:/path". */
void srv_address_url(const srv_address *a, const char *scheme, char *text, size_t size);
/* "127.0.0.1", "::1", "unix". */
void srv_address_host(const struct sockaddr *a, char *text, size_t size);

/* Tells whether the address is a loopback address or a unix socket. */
bool srv_address_is_local(const srv_address *a);

#endif
