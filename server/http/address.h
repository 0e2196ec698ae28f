/* Addresses to listen on and to ask: "127.0.0.1:8080", "[::1]:8080", "localhost:8080", ":8080" (all
 * IPv4 addresses), "unix:/path". */
#ifndef SRV_ADDRESS_H
#define SRV_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

typedef struct srv_address {
    struct sockaddr_storage storage;
    socklen_t size;
} srv_address;

bool srv_address_parse(const char *text, srv_address *out);
void srv_address_set_port(srv_address *a, unsigned port); /* nothing for unix sockets */
const char *srv_address_path(const srv_address *a);       /* of a unix socket, else NULL */

/* A listening socket, and *a becomes what it is bound to. 0 or an errno value. */
int srv_address_listen(srv_address *a, int *fd);
/* Ask GET /healthz: true when it is answered with 200 within the time. */
bool srv_address_healthy(const srv_address *a, int timeout_ms);

/* "http://127.0.0.1:8080", "http://[::1]:8080", "unix:/path". */
void srv_address_url(const srv_address *a, char *text, size_t size);
/* "127.0.0.1", "::1", "unix". */
void srv_address_host(const struct sockaddr *a, char *text, size_t size);

#endif
