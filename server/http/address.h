/* Addresses on which the service listens and to which the health check connects: "127.0.0.1:8080",
 * "[::1]:8080", "localhost:8080", ":8080" (all IPv4 addresses), "*:8080" (all IPv6 and IPv4
 * addresses, or only IPv4 on a machine without IPv6), "unix:/path". */
#ifndef SRV_ADDRESS_H
#define SRV_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "config/config.h"

typedef struct srv_address {
    struct sockaddr_storage storage;
    socklen_t size; /* bytes of `storage` in use */
    bool every;     /* the text was "*:port": all IPv6 and IPv4 addresses */
} srv_address;

/* Parses an address. Returns false if the text is invalid, or if memory ran out (errno ENOMEM). */
bool srv_address_parse(const char *text, srv_address *out);
/* Sets the port of an IPv4 or IPv6 address. Does nothing for a unix socket. */
void srv_address_set_port(srv_address *a, unsigned port);
/* Returns the file path of a unix socket; NULL: the address is an IP address. */
const char *srv_address_path(const srv_address *a);

/* Opens a listening socket on *a, and sets *a to the address that the kernel has bound. It differs
 * from the given address if the port is 0. The file of a unix socket gets the mode and the group of
 * the settings. Returns 0 or an errno value. */
int srv_address_listen(srv_address *a, const srv_config *config, int *fd);

/* Writes the URL of the address, such as "http://127.0.0.1:8080" or "http://[::1]:8080" for the
 * scheme "http". The URL of a unix socket is "unix:/path" for every scheme. */
void srv_address_url(const srv_address *a, const char *scheme, char *text, size_t size);

/* Returns whether the address is a loopback address or a unix socket. */
bool srv_address_is_local(const srv_address *a);

#endif
