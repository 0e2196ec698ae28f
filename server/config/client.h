/* The address of a client, even behind trusted proxies (setting trusted_proxies), and the number
 * that identifies a client. Any thread may call the functions of this header. */
#ifndef SRV_CLIENT_H
#define SRV_CLIENT_H

#include <stddef.h>
#include <sys/socket.h>

#include "config/config.h"
#include "config/owner.h"

enum { SRV_CLIENT_TEXT = 64 }; /* room for an address such as "127.0.0.1", "::1" or "unix" */

/* Returns whether the text is a valid entry of trusted_proxies: an IP address, a network such as
 * "10.0.0.0/8", or "unix". */
bool srv_client_is_network(const char *text);
/* Writes the address of the peer of a connection, without its port: "127.0.0.1", "::1" or, for a
 * unix socket, whose peer may be NULL, "unix". */
void srv_client_address(const struct sockaddr *peer, char address[SRV_CLIENT_TEXT]);
/* Returns whether the address, in the form of srv_client_address, belongs to one of the proxies. */
bool srv_client_is_proxy(const srv_texts *proxies, const char *address);

/* Finds the client behind a trusted proxy. `values` are the values of X-Forwarded-For in the order
 * of their arrival. The client is the rightmost address that is not a proxy or, if all are proxies,
 * the leftmost address. The search ends at an entry that is no address. Before the call `address`
 * must hold the proxy's address; it stays if no other address is found. */
void srv_client_behind(const srv_texts *proxies, const char *const *values, size_t count,
                       char address[SRV_CLIENT_TEXT]);

/* Returns the number of a client's address. All IPv6 addresses of a /64 network share one number,
 * because a client with one of them usually has them all. */
srv_owner srv_client_number(const char *address);

#endif
