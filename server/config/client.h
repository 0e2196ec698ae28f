/* The address of a client, also behind trusted proxies (setting trusted_proxies), and the number
 * that identifies a client. Any thread may call these functions. */
#ifndef SRV_CLIENT_H
#define SRV_CLIENT_H

#include <stddef.h>

#include "config/config.h"
#include "config/owner.h"

enum { SRV_CLIENT_TEXT = 64 }; /* room for an address: "127.0.0.1", "::1", "unix" */

/* Tells whether the text is a valid entry of the setting: an IP address, a network "10.0.0.0/8", or
 * "unix". */
bool srv_client_is_network(const char *text);
/* Tells whether the address, as srv_address_host writes it, belongs to one of the proxies. */
bool srv_client_is_proxy(const srv_texts *proxies, const char *address);

/* Finds the client behind a trusted proxy. The values of X-Forwarded-For are in the order in which
 * they arrived. The client is the rightmost address that is not a proxy, or else the leftmost
 * address. The search ends at an entry that is no address. `address` holds the address of the proxy
 * at first, and keeps it if no other is found. */
void srv_client_behind(const srv_texts *proxies, const char *const *values, size_t count,
                       char address[SRV_CLIENT_TEXT]);

/* The number of an address. For IPv6 it is that of the /64 network, because a client that has one
 * address of such a network has all of them. */
srv_owner srv_client_number(const char *address);

#endif
