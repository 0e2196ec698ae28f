/* Who asks: the address of a client, behind proxies that are trusted (setting trusted_proxies), and
 * the number by which clients are told apart. Any thread. */
#ifndef SRV_CLIENT_H
#define SRV_CLIENT_H

#include <stddef.h>

#include "config/config.h"
#include "config/owner.h"

enum { SRV_CLIENT_TEXT = 64 }; /* room for an address: "127.0.0.1", "::1", "unix" */

/* Whether it is an entry of the setting: an IP address, a network "10.0.0.0/8", or "unix". */
bool srv_client_is_network(const char *text);
/* Is the address, as srv_address_host writes it, one of the proxies? */
bool srv_client_is_proxy(const srv_texts *proxies, const char *address);

/* The client behind a trusted proxy: of the values of X-Forwarded-For, in order of coming, the
 * rightmost address that is no proxy's, or the leftmost one that the proxies vouch for. An entry
 * that is no address ends the search. `address` is that of the proxy at first, and stays so where
 * there is none. */
void srv_client_behind(const srv_texts *proxies, const char *const *values, size_t count,
                       char address[SRV_CLIENT_TEXT]);

/* Of the address; of IPv6 of its /64, for who has one address of it has them all. */
srv_owner srv_client_number(const char *address);

#endif
