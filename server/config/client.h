/* Finds the address of a client, including a client behind trusted proxies (setting
 * trusted_proxies), and the number by which the queue and the quotas distinguish clients. Any
 * thread may call these functions. */
#ifndef SRV_CLIENT_H
#define SRV_CLIENT_H

#include <stddef.h>
#include <sys/socket.h>

#include "config/config.h"
#include "config/owner.h"

enum { SRV_CLIENT_TEXT = 64 }; /* buffer size of an address: "127.0.0.1", "::1", "unix" */

/* Returns whether the text is a valid entry of trusted_proxies: an IP address, a network such as
 * "10.0.0.0/8", or "unix". */
bool srv_client_is_network(const char *text);
/* Writes the address of the other end of a connection to `address`, without its port: "127.0.0.1"
 * or "::1". A unix socket, for which `peer` may be NULL, has the address "unix". */
void srv_client_address(const struct sockaddr *peer, char address[SRV_CLIENT_TEXT]);
/* Returns whether the address, in the form of srv_client_address, belongs to a trusted proxy. It
 * does if it is in one of the networks `proxies`, or if it is "unix" and `proxies` has the entry
 * "unix". */
bool srv_client_is_proxy(const srv_texts *proxies, const char *address);

/* Returns whether the address, in the form of srv_client_address, is a loopback address or "unix".
 */
bool srv_client_is_local(const char *address);

/* Finds the client behind a trusted proxy and writes its address to `address`, which must hold the
 * proxy's address before. `values` are the `count` X-Forwarded-For headers of the request in the
 * order of arrival; each is a list of addresses.
 *
 * Each proxy appends the address from which it got the request. Therefore the lists are searched
 * from right to left, and the client is the first address that is not a proxy. If all are proxies,
 * the client is the leftmost address. An entry that is not an address ends the search. In that case
 * the client is the address to its right. */
void srv_client_behind(const srv_texts *proxies, const char *const *values, size_t count,
                       char address[SRV_CLIENT_TEXT]);

/* Returns a hash of the client's address. All IPv6 addresses of a /64 network have the same number,
 * because a client usually has a whole /64 network. */
srv_owner srv_client_number(const char *address);

#endif
